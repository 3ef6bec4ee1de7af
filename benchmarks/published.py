"""Kernels as their authors published them: first specs by `tuner init`, unedited but for evolution, and what runs gain.

The folder is a checkout of PolyBench/C 4.2.1 (MatthiasJReisinger/PolyBenchC-4.2.1); nothing of it is kept here. Gains
are over clang's ``-O3 -march=native`` on one thread with the order of operations kept.

    python benchmarks/published.py FOLDER [--only NAME ...] [--minutes 2] [--size MEDIUM] [--seed 0] [--out DIR]
                                   [--json]
"""

from __future__ import annotations

import math
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

import yaml
from _common import emit, note, parser, table

import tuner
from tuner.core.errors import TunerError
from tuner.spec.first.init import first_spec

FLAGS = ("POLYBENCH_USE_C99_PROTO",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gain:
    """What became of one kernel; without a gain where its first spec or its run failed."""

    kernel: str
    speedup: float | None
    interval: tuple[float, float] | None
    message: str


def sources(folder: Path) -> list[Path]:
    """The suite's kernels, by its own list."""
    listed = (folder / "utilities" / "benchmark_list").read_text().split()
    return [folder / name for name in listed]


def written(source: Path, folder: Path, size: str) -> Path:
    """The first spec of a kernel with source evolution on, and nothing else changed."""
    first = first_spec(
        source,
        entry=f"kernel_{source.stem.replace('-', '_')}",
        folder=folder,
        include=[source.parents[0], _suite(source) / "utilities"],
        define=[*FLAGS, f"{size}_DATASET"],
    )
    spec = yaml.safe_load(first.text)
    spec["space"]["source"] = {"evolve": True}
    path = folder / f"{source.stem}.yaml"
    path.write_text(yaml.safe_dump(spec, sort_keys=False))
    return path


def _suite(source: Path) -> Path:
    return next(p for p in source.parents if (p / "utilities" / "benchmark_list").is_file())


def gained(source: Path, folder: Path, size: str, minutes: float, seed: int) -> Gain:
    """One run."""
    name = source.stem
    try:
        result = tuner.tune(written(source, folder, size), minutes=minutes, seed=seed, out=folder / "runs")
    except TunerError as error:
        return Gain(kernel=name, speedup=None, interval=None, message=error.message)
    return Gain(kernel=name, speedup=result.speedup, interval=result.speedup_interval, message="")


def main() -> None:
    """Prints a line for each kernel and the geometric mean."""
    arguments = parser(__doc__)
    arguments.add_argument("folder", type=Path)
    arguments.add_argument("--only", action="append", default=[], help="a kernel's name")
    arguments.add_argument("--minutes", type=float, default=2.0, help="of each run")
    arguments.add_argument("--size", default="MEDIUM", help="of the suite's data sets")
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--out", type=Path, help="a folder for specs and records")
    given = arguments.parse_args()
    chosen = [s for s in sources(given.folder) if not given.only or s.stem in given.only]
    with tempfile.TemporaryDirectory() as scratch:
        out = given.out or Path(scratch)
        out.mkdir(parents=True, exist_ok=True)
        gains = []
        for source in chosen:
            gains.append(gained(source, out, given.size, given.minutes, given.seed))
            note(f"{source.stem}: {gains[-1].speedup or gains[-1].message}")
    reached = [g.speedup for g in gains if g.speedup is not None]
    mean = math.exp(sum(map(math.log, reached)) / len(reached)) if reached else None
    rows = [(g.kernel, *_shown(g)) for g in gains]
    text = table(("kernel", "times faster", "95% interval"), rows)
    text += f"\n\ngeometric mean of {len(reached)}: {'none' if mean is None else f'{mean:.2f}'}"
    emit(given.json, {"minutes": given.minutes, "mean": mean, "kernels": [asdict(g) for g in gains]}, text)


def _shown(gain: Gain) -> tuple[str, str]:
    if gain.speedup is None:
        return "failed", gain.message
    interval = "" if gain.interval is None else f"{gain.interval[0]:.2f} to {gain.interval[1]:.2f}"
    return f"{gain.speedup:.2f}", interval


if __name__ == "__main__":
    main()
