"""A kernel and its spec in one folder."""

from __future__ import annotations

from pathlib import Path

from tuner.spec.load import LoadedSpec, load_spec


def spec_in(folder: Path, name: str, source: str, spec: str) -> LoadedSpec:
    """The one spec of a text, written beside the source, of whose name its own is made."""
    (folder / name).write_text(source)
    path = (folder / name).with_suffix(".yaml")
    path.write_text(spec)
    (loaded,) = load_spec(path)
    return loaded
