"""Files that travel with a task to a machine that does not see them."""

from __future__ import annotations

import os
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from product_runs import KERNEL, SPEC

from tuner.core.types import Task
from tuner.evaluators.executors.shipping import place
from tuner.spec.load import load_spec

FILES = {"data.bin": b"12345", "include/some.h": b"#define N 1\n"}


@pytest.fixture
def task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Task:
    (tmp_path / "product.c").write_text(KERNEL)
    (tmp_path / "product.yaml").write_text(SPEC)
    shared = tmp_path / "tmp"
    shared.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(shared))
    (loaded,) = load_spec(tmp_path / "product.yaml")
    # Of a machine whose files this one does not see.
    return replace(loaded.task, kernel=replace(loaded.task.kernel, folder=str(tmp_path / "elsewhere")))


def test_files_are_copied_once_where_only_this_user_writes(task: Task) -> None:
    folder = Path(place(task, FILES).kernel.folder)
    assert {n: (folder / n).read_bytes() for n in FILES} == FILES
    assert folder.parent.stat().st_mode & 0o077 == 0
    assert Path(place(task, FILES).kernel.folder) == folder
    (folder / "data.bin").write_bytes(b"54321")
    assert (Path(place(task, FILES).kernel.folder) / "data.bin").read_bytes() == b"12345"


@pytest.mark.parametrize("how", ["writable by others", "a link"])
def test_a_folder_that_others_may_write_into_is_not_used(task: Task, how: str) -> None:
    """Its name can be known beforehand, and the temporary folder is everybody's."""
    taken = Path(tempfile.gettempdir()) / f"remix-tuner-{os.getuid()}"
    if how == "a link":
        (taken.parent / "theirs").mkdir()
        taken.symlink_to(taken.parent / "theirs")
    else:
        taken.mkdir()
        taken.chmod(0o777)
    folder = Path(place(task, FILES).kernel.folder)
    assert not folder.is_relative_to(taken)
    assert {n: (folder / n).read_bytes() for n in FILES} == FILES
    assert list(taken.iterdir()) == []
