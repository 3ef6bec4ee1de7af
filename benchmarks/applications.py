"""Programs that nobody here wrote, unattended: the loops that take their time, tuned, and what the whole program gains.

A folder of programs of one C source each, such as llvm-test-suite's SingleSource/Benchmarks/Misc. Each is built by gcc
with ``-O3 -march=native``; its hottest lines say which loops are tuned, from the outermost one that checks; the
winners go into the source, and both builds run in pairs (`tuner ab --build`). Nothing of the programs is kept.

    python benchmarks/applications.py FOLDER [--only NAME ...] [--minutes 2] [--loops 2] [--pairs 10] [--seed 0]
                                      [--json]
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from _common import emit, note, parser, table

import tuner
from tuner.core.errors import TunerError
from tuner.core.types import Source
from tuner.driver.applications.rebuilding import Rebuilt, compare_built
from tuner.driver.applications.recording import list_launches
from tuner.driver.check import check_spec
from tuner.driver.outcome.export import sources_of
from tuner.spec.first.init import first_spec
from tuner.spec.load import load_spec
from tuner.spec.reading.lookup import functions_of
from tuner.spec.reading.outlining import loop_lines
from tuner.spec.reading.signature import SourceReader

BUILD = "gcc -O3 -march=native -g -w {name} -o app -lm"
LEAST_SHARE = 0.2
"""Of the processor time, for a loop to be tuned."""
RTOL = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of a program: its loops with what each gained alone, and what it gained as a whole."""

    program: str
    loops: tuple[tuple[int, float], ...] = ()
    speedup: tuple[float, float, float] | None = None
    message: str = ""


def hot_lines(folder: Path, source: Path) -> list[tuple[int, float]]:
    """Lines of the source and their shares of the time, the largest first."""
    listing = list_launches([str(folder / "app")], aside=True)
    lines: dict[int, float] = {}
    for function in listing.own.listed:
        for file, line, samples in function.lines:
            if Path(file).name == source.name:
                lines[line] = lines.get(line, 0.0) + listing.share(samples)
    return sorted(lines.items(), key=lambda item: -item[1])


def loops_around(source: Path, line: int) -> list[int]:
    """Lines of the loops that a line lies in, the outermost first."""
    text = source.read_text(errors="replace")
    reader = SourceReader(
        files=(Source(name=source.name, text=text),), language="c", folder=str(source.parent)
    )
    functions = (f for name in functions_of(text) for f in reader.functions(name) if f.defined)
    return next((found for f in functions if (found := loop_lines(f, text, line))), [])


def kernels(folder: Path, source: Path, most: int) -> Iterator[Path]:
    """Specs of the loops that take most, each from the outermost one that checks as it is."""
    shares: dict[tuple[int, ...], float] = {}
    for line, share in hot_lines(folder, source):
        around = tuple(loops_around(source, line))
        shares[around] = shares.get(around, 0.0) + share
    taken: set[int] = set()
    for around, _ in sorted(shares.items(), key=lambda item: -item[1]):
        total = sum(s for other, s in shares.items() if other[:1] == around[:1])
        if not around or around[0] in taken or total < LEAST_SHARE or len(taken) == most:
            continue
        for line in around:
            spec = folder / f"loop{line}.yaml"
            try:
                spec.write_text(first_spec(source, folder=folder, loop=line).text)
                (loaded,) = load_spec(spec)
                report = check_spec(loaded)
            except TunerError as error:
                note(f"{source.stem}:{line}: {error.message}")
                continue
            if report.ok:
                taken.add(around[0])
                yield spec
                break
            note(f"{source.stem}:{line}: {report.lines[-1][1]}")


def outcome(program: Path, folder: Path, *, minutes: float, most: int, pairs: int, seed: int) -> Outcome:
    """One program, from its source to both builds."""
    source = folder / program.name
    shutil.copy(program, source)
    build = BUILD.format(name=program.name)
    if subprocess.run(build, shell=True, cwd=folder, check=False, capture_output=True).returncode:
        return Outcome(program=program.stem, message="does not build alone")
    gained: list[tuple[int, float, Path]] = []
    tried: list[tuple[int, float]] = []
    for spec in kernels(folder, source, most):
        line = int(spec.stem.removeprefix("loop"))
        result = tuner.tune(spec, minutes=minutes, seed=seed, out=folder.parent / f"{program.stem}-runs")
        changed = result.improved and sources_of(result.path).changed
        # What flags and passes alone gain is no part of a build by gcc.
        tried.append((line, result.speedup if changed else 1.0))
        if changed:
            gained.append((line, result.speedup, result.path))
    if not gained:
        return Outcome(
            program=program.stem, loops=tuple(tried), message="no loop gained" if tried else "no loop"
        )
    application = Rebuilt(folder=folder, build=build, command=(str(folder / "app"),), here=folder, rtol=RTOL)
    found = compare_built([path for _, _, path in gained], application, pairs=pairs, seed=seed)
    return Outcome(program=program.stem, loops=tuple(tried), speedup=found.speedup)


def main() -> None:
    """Prints a line for each program."""
    arguments = parser(__doc__)
    arguments.add_argument("folder", type=Path)
    arguments.add_argument("--only", action="append", default=[], help="a program's name")
    arguments.add_argument("--minutes", type=float, default=2.0, help="for each loop")
    arguments.add_argument("--loops", type=int, default=2, help="the most of a program")
    arguments.add_argument("--pairs", type=int, default=10, help="of runs")
    arguments.add_argument("--seed", type=int, default=0)
    given = arguments.parse_args()
    outcomes = []
    for program in sorted(given.folder.resolve().glob("*.c")):
        if given.only and program.stem not in given.only:
            continue
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch, "program")
            folder.mkdir()
            try:
                found = outcome(
                    program,
                    folder,
                    minutes=given.minutes,
                    most=given.loops,
                    pairs=given.pairs,
                    seed=given.seed,
                )
            except TunerError as error:
                found = Outcome(program=program.stem, message=error.message)
        outcomes.append(found)
        note(f"{found.program}: {found.speedup or found.message}")
    rows = [
        (
            o.program,
            ", ".join(f"{line} ({gain:.2f})" for line, gain in o.loops),
            o.message if o.speedup is None else "{:.2f} [{:.2f}, {:.2f}]".format(*o.speedup),
        )
        for o in outcomes
    ]
    emit(
        given.json,
        [asdict(o) for o in outcomes],
        table(("program", "loops (gain alone)", "as a whole"), rows),
    )


if __name__ == "__main__":
    main()
