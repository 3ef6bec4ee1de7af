"""The CUDA examples, for whatever card there is."""

from __future__ import annotations

from pathlib import Path

from tuner.spec.load import LoadedSpec, load_spec

EXAMPLES = sorted((Path(__file__).parents[2] / "examples" / "cuda").glob("*.yaml"))


def load(path: Path, folder: Path) -> LoadedSpec:
    """The example for whatever card there is."""
    for file in path.parent.iterdir():
        if file.is_file():
            (folder / file.name).write_bytes(file.read_bytes())
    copy = folder / path.name
    copy.write_text(path.read_text().replace("target: sm_90", "target: native"))
    (spec,) = load_spec(copy)
    return spec
