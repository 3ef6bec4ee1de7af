"""Files that are replaced whole: what else may stand at a path."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from tuner.core.files import settle, write_atomically


def test_a_pipe_is_written_to_and_stays(tmp_path: Path) -> None:
    """A device too: renaming over `/dev/null` as root would make it a file for everyone."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[bytes] = []
    for write in (lambda: write_atomically(pipe, b"page"), lambda: settle(_draft(tmp_path), pipe)):
        reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
        reader.start()
        write()
        reader.join()
        assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert read == [b"page", b"draft"]


def test_the_file_behind_a_link_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "behind").mkdir()
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "behind" / "file")
    for write, expected in (
        (lambda: write_atomically(link, b"page"), b"page"),
        (lambda: settle(_draft(tmp_path), link), b"draft"),
    ):
        write()
        assert link.is_symlink()
        assert (tmp_path / "behind" / "file").read_bytes() == expected


def test_a_file_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    """The error named a draft beside it, of which nobody has heard."""
    path = tmp_path / ("x" * 254)
    with pytest.raises(OSError, match="name too long") as caught:
        write_atomically(path, b"page")
    assert caught.value.filename == str(path)


def _draft(folder: Path) -> Path:
    draft = folder / "draft"
    draft.write_bytes(b"draft")
    return draft
