"""Kernels as their authors published them: first specs by `tuner init`, unedited: whether they check, what runs gain.

The folder is a checkout of PolyBench/C 4.2.1 (MatthiasJReisinger/PolyBenchC-4.2.1) or of TSVC_2 (UoB-HPC/TSVC_2), or
has a ``functions.txt``: a source, a function and, where one of its loops is meant, a line, each line of it one kernel.
Nothing of them is kept here. Of TSVC_2 the kernel is the loop nest that is timed, or the function that it calls. Gains
are over clang's ``-O3 -march=native``, or over another compiler that builds baseline and candidates then, on one thread
with the order of operations kept.

    python benchmarks/published.py FOLDER [--only NAME ...] [--every 1] [--minutes 2] [--check] [--size MEDIUM]
                                   [--compiler "gcc -O3 -march=native"] [--seed 0] [--out DIR] [--json]
"""

from __future__ import annotations

import math
import re
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from _common import emit, note, parser, table

import tuner
from tuner.core.errors import TunerError
from tuner.core.types import Source
from tuner.driver.check import check_spec
from tuner.driver.overflow import with_values_in_range
from tuner.spec.first.init import first_spec
from tuner.spec.load import load_spec
from tuner.spec.reading.nodes import LOOPS, Node, walk
from tuner.spec.reading.signature import SourceReader


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """One kernel of a suite."""

    name: str
    source: Path
    entry: str
    loop: int | None = None
    include: tuple[Path, ...] = ()
    define: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Gain:
    """What became of one kernel; without a gain where its first spec or its run failed, or only a check was made."""

    kernel: str
    speedup: float | None = None
    interval: tuple[float, float] | None = None
    checked: bool = False
    message: str = ""


def polybench(folder: Path, size: str) -> Iterator[Published]:
    """The suite's kernels, by its own list."""
    utilities = folder / "utilities"
    for name in (utilities / "benchmark_list").read_text().split():
        source = folder / name
        yield Published(
            name=source.stem,
            source=source,
            entry=f"kernel_{source.stem.replace('-', '_')}",
            include=(source.parent, utilities),
            define=("POLYBENCH_USE_C99_PROTO", f"{size}_DATASET"),
        )


def tsvc(folder: Path) -> Iterator[Published]:
    """The suite's loops: the largest nest that is repeated to be timed, or the function that is called there."""
    source = folder / "src" / "tsvc.c"
    text = source.read_text()
    headers = [Source(name=h.name, text=h.read_text()) for h in source.parent.glob("*.h")]
    reader = SourceReader(
        files=(Source(name=source.name, text=text), *headers), language="c", folder=str(source.parent)
    )
    for name in re.findall(r"^real_t (\w+)\(struct args_t ?\* ?func_args\)", text, re.MULTILINE):
        (function,) = (f for f in reader.functions(name) if f.defined)
        repeated = next(n for n in walk(function.tree) if n.get("kind") in LOOPS and "dummy" in _names(n))
        inside = list(_outermost(repeated["inner"][-1]))
        if inside:
            largest = max(inside, key=lambda n: sum(1 for _ in walk(n)))
            line = text.encode().count(b"\n", 0, largest["range"]["begin"]["offset"]) + 1
            yield Published(name=name, source=source, entry=name, loop=line)
            continue
        called = [n for n in _names(repeated) if n != "dummy"]
        yield Published(name=name, source=source, entry=called[0])


def _names(node: Node) -> list[str]:
    """Functions that are called."""
    meant = (n.get("referencedDecl", {}) for n in walk(node) if n.get("kind") == "DeclRefExpr")
    return [m["name"] for m in meant if m.get("kind") == "FunctionDecl"]


def _outermost(node: Node) -> Iterator[Node]:
    if node.get("kind") in LOOPS:
        yield node
        return
    for child in node.get("inner", []):
        yield from _outermost(child)


def listed(folder: Path) -> Iterator[Published]:
    """Functions and loops that a person has chosen, such as the hottest of programs."""
    for number, line in enumerate((folder / "functions.txt").read_text().splitlines()):
        source, entry, *loop = line.split()
        place = int(loop[0]) if loop else None
        yield Published(name=f"{entry}-{number}", source=folder / source, entry=entry, loop=place)


def kernels(folder: Path, size: str) -> list[Published]:
    """Those of the suite that the folder is."""
    if (folder / "functions.txt").is_file():
        return list(listed(folder))
    if (folder / "src" / "tsvc.c").is_file():
        return list(tsvc(folder))
    return list(polybench(folder, size))


def written(kernel: Published, folder: Path, compiler: str) -> Path:
    """The first spec of a kernel."""
    first = first_spec(
        kernel.source,
        entry=kernel.entry,
        folder=folder,
        include=kernel.include,
        define=kernel.define,
        loop=kernel.loop,
        compiler=compiler or None,
    )
    path = folder / f"{kernel.name}.yaml"
    path.write_text(with_values_in_range(first, path).text)
    return path


def checked(kernel: Published, folder: Path, compiler: str) -> Gain:
    """Whether the first spec checks as it is."""
    try:
        (loaded,) = load_spec(written(kernel, folder, compiler))
        report = check_spec(loaded, faults=False)
    except TunerError as error:
        return Gain(kernel=kernel.name, message=f"{error.message}; {error.hint}")
    said = "" if report.ok else report.lines[-1][1]
    return Gain(kernel=kernel.name, checked=report.ok, message=said)


def gained(kernel: Published, folder: Path, compiler: str, minutes: float, seed: int) -> Gain:
    """One run."""
    try:
        spec = written(kernel, folder, compiler)
        result = tuner.tune(spec, minutes=minutes, seed=seed, out=folder / "runs")
    except TunerError as error:
        return Gain(kernel=kernel.name, message=error.message)
    return Gain(kernel=kernel.name, checked=True, speedup=result.speedup, interval=result.speedup_interval)


def main() -> None:
    """Prints a line for each kernel and the geometric mean."""
    arguments = parser(__doc__)
    arguments.add_argument("folder", type=Path)
    arguments.add_argument("--only", action="append", default=[], help="a kernel's name")
    arguments.add_argument("--every", type=int, default=1, help="take each so many-th kernel alone")
    arguments.add_argument("--minutes", type=float, default=2.0, help="of each run")
    arguments.add_argument("--check", action="store_true", help="check first specs, run nothing")
    arguments.add_argument("--size", default="MEDIUM", help="of PolyBench's data sets")
    arguments.add_argument("--compiler", default="", help="with its flags, in the place of clang")
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--out", type=Path, help="a folder for specs and records")
    given = arguments.parse_args()
    chosen = [
        k for k in kernels(given.folder.resolve(), given.size) if not given.only or k.name in given.only
    ]
    with tempfile.TemporaryDirectory() as scratch:
        out = (given.out or Path(scratch)).resolve()
        out.mkdir(parents=True, exist_ok=True)
        gains = []
        for kernel in chosen[:: given.every]:
            if given.check:
                gain = checked(kernel, out, given.compiler)
            else:
                gain = gained(kernel, out, given.compiler, given.minutes, given.seed)
            gains.append(gain)
            note(f"{kernel.name}: {gain.speedup or gain.message or 'checked'}")
    reached = [g.speedup for g in gains if g.speedup is not None]
    mean = math.exp(sum(map(math.log, reached)) / len(reached)) if reached else None
    rows = [(g.kernel, *_shown(g)) for g in gains]
    text = table(("kernel", "times faster", "95% interval"), rows)
    text += f"\n\nchecked: {sum(g.checked for g in gains)} of {len(gains)}"
    text += f"\ngeometric mean of {len(reached)}: {'none' if mean is None else f'{mean:.2f}'}"
    emit(given.json, {"minutes": given.minutes, "mean": mean, "kernels": [asdict(g) for g in gains]}, text)


def _shown(gain: Gain) -> tuple[str, str]:
    if gain.speedup is None:
        return "checked" if gain.checked else "failed", gain.message
    interval = "" if gain.interval is None else f"{gain.interval[0]:.2f} to {gain.interval[1]:.2f}"
    return f"{gain.speedup:.2f}", interval


if __name__ == "__main__":
    main()
