"""Where packages of third parties are found: what is remembered of it, and for how long."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tuner.evaluators import registry as backends
from tuner.search import proposers
from tuner.search import registry as searchers


def install(folder: Path, name: str, group: str) -> None:
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "entry_points.txt").write_text(f"[{group}]\n{name} = {name}_package:Made\n")
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")


@pytest.mark.parametrize(
    ("registry", "group"),
    [(backends, "tuner.backends"), (searchers, "tuner.searchers"), (proposers, "tuner.proposers")],
)
def test_plugins_installed_later_are_found(
    registry: Any, group: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A notebook goes on after an installation, and a path may be added at any time."""
    folder = tmp_path / "site"
    folder.mkdir()
    before = set(registry.names())
    monkeypatch.syspath_prepend(folder)
    install(folder, "early", group)
    assert set(registry.names()) == before | {"early"}
    install(folder, "late", group)
    assert set(registry.names()) == before | {"early", "late"}
    monkeypatch.undo()
    assert set(registry.names()) == before
