"""``tuner ensure``: a tuned object for a build system. Parses, calls, prints."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

__all__ = ["add_commands"]


def add_commands(app: typer.Typer) -> None:
    """Adds the command to the program's."""
    app.command()(ensure)


def ensure(
    spec: Annotated[Path, typer.Argument(help="The YAML spec, of one kernel.", show_default=False)],
    output: Annotated[Path, typer.Option("-o", "--output", help="The object file.", show_default=False)],
    offline: Annotated[bool, typer.Option("--offline", help="Only take a winner that is recorded.")] = False,
    evaluations: Annotated[
        int | None, typer.Option(min=1, help="Builds or runs that may be started, in place of the spec's.")
    ] = None,
    minutes: Annotated[
        float | None, typer.Option(help="Active time, confirmation included, in place of the spec's.")
    ] = None,
    depfile: Annotated[
        Path | None, typer.Option("--depfile", help="Write what it depends on, for make and Ninja.")
    ] = None,
) -> None:
    """Make a tuned object once for this source, toolchain and processor; reuse it afterwards."""
    from tuner.api import ensure as ensure_object
    from tuner.core.files import write_atomically
    from tuner.spec.load import load_spec

    made = ensure_object(spec, out=output, offline=offline, evaluations=evaluations, minutes=minutes)
    # Build systems compare times: one that is still right has to be newer than what it was made from.
    os.utime(made)
    if depfile is not None:
        loaded = load_spec(spec)[0]
        folder = Path(loaded.path).resolve().parent
        files = [folder / name.removesuffix(".sha256") for name in sorted(loaded.files)]
        needs = [Path(loaded.path).resolve(), *(f for f in files if f.is_file())]
        line = f"{_escaped(output)}: {' '.join(map(_escaped, needs))}\n"
        write_atomically(depfile, line.encode())
    print(made)


def _escaped(path: Path) -> str:
    """As make reads it."""
    return str(path).replace("$", "$$").replace("#", "\\#").replace(" ", "\\ ")
