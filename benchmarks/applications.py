"""Programs that nobody here wrote, unattended: the loops that take their time, tuned, and what the whole program gains.

A folder of programs of one C source each, such as llvm-test-suite's SingleSource/Benchmarks/Misc. Each is built by gcc
with ``-O3 -march=native``; its hottest lines say which loops are recorded (`tuner record --build`), from the outermost
one whose replay is what the program got; the loops are tuned on that, or on made-up inputs where nothing could be
recorded, the winners go into the source, and both builds run in pairs (`tuner ab --build`). Nothing is kept.

    python benchmarks/applications.py FOLDER [--only NAME ...] [--record] [--minutes 2] [--loops 2] [--pairs 10]
                                      [--seed 0] [--json]
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from _common import emit, note, parser, table

import tuner
from tuner.core.errors import TunerError
from tuner.core.types import Source
from tuner.driver.applications.builds import Rebuilt
from tuner.driver.applications.rebuilding import compare_built
from tuner.driver.applications.rebuilt_recording import record_rebuilt
from tuner.driver.applications.recording import list_launches
from tuner.driver.check import check_spec
from tuner.driver.outcome.export import sources_of
from tuner.spec.first.init import first_spec
from tuner.spec.load import load_spec
from tuner.spec.reading.lookup import functions_of
from tuner.spec.reading.outlining import loop_lines
from tuner.spec.reading.signature import SourceReader

COMPILER = "gcc -O3 -march=native"
BUILD = f"{COMPILER} -g -w {{name}} -o app -lm"
LEAST_SHARE = 0.2
"""Of the processor time, for a loop to be tuned."""
RTOL = 1e-6
CALL_S = 0.05
"""Of a loop, for enough candidates to be timed in a minute or two."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """What became of a loop: whether it was recorded, and what it gained alone."""

    line: int
    recorded: bool
    gain: float | None = None

    def __str__(self) -> str:
        gain = "" if self.gain is None else f" {self.gain:.2f}"
        return f"{self.line}{gain}{'' if self.recorded else ' (made-up inputs)'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of a program: its loops, and what it gained as a whole."""

    program: str
    loops: tuple[Loop, ...] = ()
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
        files=(Source(name=source.name, text=text),),
        language="c",
        folder=str(source.parent),
        flags=("-Wno-implicit-int", "-Wno-implicit-function-declaration"),
    )
    functions = (f for name in functions_of(text) for f in reader.functions(name) if f.defined)
    return next((found for f in functions if (found := loop_lines(f, text, line))), [])


def kernels(folder: Path, source: Path, most: int) -> Iterator[tuple[int, Path, bool]]:
    """Lines and specs of the loops that take most, each with whether it is recorded.

    Of loops in one another it is the outermost that checks and of which a call takes no longer than CALL_S, or the
    innermost that checks; on what was recorded, or without anything recorded on made-up inputs.
    """
    shares: dict[tuple[int, ...], float] = {}
    for line, share in hot_lines(folder, source):
        around = tuple(loops_around(source, line))
        shares[around] = shares.get(around, 0.0) + share
    taken: set[int] = set()
    for around, _ in sorted(shares.items(), key=lambda item: -item[1]):
        total = sum(s for other, s in shares.items() if other[:1] == around[:1])
        if not around or around[0] in taken or total < LEAST_SHARE or len(taken) == most:
            continue
        specs = {line: spec for line in around if (spec := first(folder, source, line)) is not None}
        chosen = choose(folder, specs, record=True) or choose(folder, specs, record=False)
        if chosen is not None:
            taken.add(around[0])
            yield chosen


def choose(folder: Path, specs: Mapping[int, Path], *, record: bool) -> tuple[int, Path, bool] | None:
    """The loop to tune among some that lie in one another, outer ones first."""
    found = None
    for line, spec in specs.items():
        usable, call_s = recording(folder, spec) if record else (spec, 0.0)
        if usable is not None and checks(usable):
            found = line, usable, record
            if call_s <= CALL_S:
                break
    return found


def first(folder: Path, source: Path, line: int) -> Path | None:
    """The first spec of a loop, if there is one."""
    spec = folder / f"loop{line}.yaml"
    try:
        spec.write_text(first_spec(source, folder=folder, loop=line, compiler=COMPILER).text)
    except TunerError as error:
        note(f"{source.stem}:{line}: no spec: {error.message}")
        return None
    return spec


def recording(folder: Path, spec: Path) -> tuple[Path | None, float]:
    """The spec with recordings of its loop in the application, if there are any, and what a call takes."""
    output = spec.with_name(f"recorded-{spec.name}")
    try:
        (loaded,) = load_spec(spec)
        report = record_rebuilt(loaded, application(folder), instances=2, aside=True, output=output)
    except TunerError as error:
        note(f"{folder.name}/{spec.stem}: not recorded: {error.message}")
        return None, 0.0
    (use,) = report.ran.kernels
    return output, use.seconds / use.launches


def checks(spec: Path) -> bool:
    """Whether `tuner check` takes the spec as it is."""
    try:
        (loaded,) = load_spec(spec)
        report = check_spec(loaded)
    except TunerError as error:
        note(f"{spec.parent.name}/{spec.stem}: {error.message}")
        return False
    if not report.ok:
        note(f"{spec.parent.name}/{spec.stem}: {report.lines[-1][1]}")
    return report.ok


def application(folder: Path) -> Rebuilt:
    """How the program in a folder is built and run."""
    (source,) = folder.glob("*.c")
    build = BUILD.format(name=source.name)
    return Rebuilt(folder=folder, build=build, command=(str(folder / "app"),), here=folder, rtol=RTOL)


def outcome(
    program: Path, folder: Path, *, minutes: float, most: int, pairs: int, seed: int, only_record: bool
) -> Outcome:
    """One program, from its source to both builds."""
    source = folder / program.name
    shutil.copy(program, source)
    build = BUILD.format(name=program.name)
    if subprocess.run(build, shell=True, cwd=folder, check=False, capture_output=True).returncode:
        return Outcome(program=program.stem, message="does not build alone")
    gained: list[Path] = []
    tried: list[Loop] = []
    for line, spec, recorded in kernels(folder, source, most):
        if only_record:
            tried.append(Loop(line=line, recorded=recorded))
            continue
        result = tuner.tune(spec, minutes=minutes, seed=seed, out=folder.parent / f"{program.stem}-runs")
        changed = result.improved and sources_of(result.path).changed
        # What flags and passes alone gain is no part of a build by gcc.
        tried.append(Loop(line=line, recorded=recorded, gain=result.speedup if changed else 1.0))
        gained += [result.path] if changed else []
    if not gained:
        what = "no loop" if not tried else "" if only_record else "no loop gained"
        return Outcome(program=program.stem, loops=tuple(tried), message=what)
    found = compare_built(gained, application(folder), pairs=pairs, seed=seed)
    return Outcome(program=program.stem, loops=tuple(tried), speedup=found.speedup)


def main() -> None:
    """Prints a line for each program."""
    arguments = parser(__doc__)
    arguments.add_argument("folder", type=Path)
    arguments.add_argument("--only", action="append", default=[], help="a program's name")
    arguments.add_argument("--record", action="store_true", help="record and check, and tune nothing")
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
            folder = Path(scratch, program.stem)
            folder.mkdir()
            try:
                found = outcome(
                    program,
                    folder,
                    minutes=given.minutes,
                    most=given.loops,
                    pairs=given.pairs,
                    seed=given.seed,
                    only_record=given.record,
                )
            except TunerError as error:
                found = Outcome(program=program.stem, message=error.message)
        outcomes.append(found)
        note(f"{found.program}: {found.speedup or found.message}")
    rows = [
        (
            o.program,
            ", ".join(map(str, o.loops)),
            o.message if o.speedup is None else "{:.2f} [{:.2f}, {:.2f}]".format(*o.speedup),
        )
        for o in outcomes
    ]
    emit(
        given.json,
        [asdict(o) for o in outcomes],
        table(("program", "loops", "as a whole"), rows),
    )


if __name__ == "__main__":
    main()
