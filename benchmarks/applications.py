"""Programs that nobody here wrote, unattended: `tuner app init`, `tune` and `ab`, and what the whole program gains.

A folder of programs of one C or C++ source each, such as llvm-test-suite's SingleSource/Benchmarks/Misc. Each is built
in a folder of its own, by gcc with ``-O3 -march=native`` or what else is given; its hot regions are recorded in it,
tuned on that, and the winners' sources are built and run beside the program as it is, in pairs.

    python benchmarks/applications.py FOLDER [--only NAME ...] [--minutes 3] [--pairs 10] [--rtol 1e-6] [--seed 0]
                                      [--build 'gcc -O3 -march=native'] [--json]
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from _common import emit, note, parser, table

_SUFFIXES = {".c": "", ".cpp": "-std=c++17", ".cc": "-std=c++17"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of a program.

    Attributes:
        program: its name.
        regions: named by their share of the time, each with what became of it.
        recorded: how many of them were recorded, and their replay is what the program got.
        predicted: gain of the whole, by what the regions gained alone.
        speedup: of the whole with its 95% interval; ``None`` where no region gained.
        message: why there is none.
    """

    program: str
    regions: tuple[str, ...] = ()
    recorded: int = 0
    predicted: float | None = None
    speedup: tuple[float, float, float] | None = None
    message: str = ""


class _RefusedError(Exception):
    """The command ended with an error; its line is the message."""


def app(folder: Path, *words: str) -> dict[str, Any]:
    """What a command of ``tuner app`` says."""
    command = [sys.executable, "-c", "from tuner.cli.main import main; main()", "app", *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
        raise _RefusedError(lines[-1] if lines else done.stderr[-200:])
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def outcome(
    program: Path, folder: Path, *, build: str, minutes: float, pairs: int, rtol: float, seed: int
) -> Outcome:
    """One program, from its source to both builds."""
    shutil.copy(program, folder)
    compiler = build.replace("gcc", "g++") if _SUFFIXES[program.suffix] else build
    words = f"{compiler} -g -w {_SUFFIXES[program.suffix]} {program.name} -o app -lm"
    if subprocess.run(words, shell=True, cwd=folder, check=False, capture_output=True).returncode:
        return Outcome(program=program.stem, message="does not build alone")
    (folder / "app").unlink()
    regions: tuple[str, ...] = ()
    recorded, predicted = 0, None
    try:
        found = app(folder, "init", "--build", words, "--rtol", str(rtol), "--json", "--", "./app")
        if not found["regions"]:
            return Outcome(program=program.stem, message="; ".join(found["notes"]) or "no hot loop")
        tuned = app(folder, "tune", "--minutes", str(minutes), "--seed", str(seed), "--json")
        regions = tuple(map(region, tuned["regions"]))
        recorded = sum(one["spec"] is not None for one in tuned["regions"])
        predicted = tuned["predicted"]
        speedup = app(folder, "ab", "--pairs", str(pairs), "--json")["speedup"]
    except _RefusedError as error:
        return Outcome(
            program=program.stem,
            regions=regions,
            recorded=recorded,
            predicted=predicted,
            message=str(error).removeprefix("error: "),
        )
    return Outcome(
        program=program.stem,
        regions=regions,
        recorded=recorded,
        predicted=predicted,
        speedup=(speedup["value"], *speedup["ci95"]),
    )


def region(one: dict[str, Any]) -> str:
    """A region's line, share and gain, or why it was not tuned."""
    name = f"{one['name'].rpartition(':')[2]} {100 * one['share']:.0f}%"
    if one["run"] is not None:
        return f"{name} {one['speedup']:.2f}"
    return f"{name} ({(one['refused'] or ['not tuned'])[-1].partition(': ')[2]})"


def main() -> None:
    """Prints a line for each program."""
    arguments = parser(__doc__)
    arguments.add_argument("folder", type=Path)
    arguments.add_argument("--only", action="append", default=[], help="a program's name")
    arguments.add_argument("--build", default="gcc -O3 -march=native", help="compiler and flags")
    arguments.add_argument("--minutes", type=float, default=3.0, help="for the regions of a program")
    arguments.add_argument("--pairs", type=int, default=10, help="of runs")
    arguments.add_argument("--rtol", type=float, default=1e-6, help="of the numbers that a program prints")
    arguments.add_argument("--seed", type=int, default=0)
    given = arguments.parse_args()
    outcomes = []
    for program in sorted(p for p in given.folder.resolve().iterdir() if p.suffix in _SUFFIXES):
        if given.only and program.stem not in given.only:
            continue
        with tempfile.TemporaryDirectory() as scratch:
            found = outcome(
                program,
                Path(scratch),
                build=given.build,
                minutes=given.minutes,
                pairs=given.pairs,
                rtol=given.rtol,
                seed=given.seed,
            )
        outcomes.append(found)
        note(f"{found.program}: {', '.join(found.regions)}: {found.speedup or found.message}")
    rows = [
        (
            o.program,
            ", ".join(o.regions),
            "" if o.predicted is None else f"{o.predicted:.2f}",
            o.message if o.speedup is None else "{:.2f} [{:.2f}, {:.2f}]".format(*o.speedup),
        )
        for o in outcomes
    ]
    columns = ("program", "regions: share, gain alone", "predicted", "as a whole")
    emit(given.json, {"programs": [asdict(o) for o in outcomes]}, table(columns, rows))


if __name__ == "__main__":
    main()
