"""What has been tuned of an application: its regions with their runs, what they promise as a whole, and the patch.

Kept as one JSON file in the folder beside the application's file. May not tune.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tuner.core.errors import UsageError
from tuner.core.files import write_atomically
from tuner.core.source_text import source_bytes, source_text
from tuner.core.types import Source, Variant
from tuner.driver.applications.rebuilding import BuiltComparison, patched
from tuner.driver.applications.trees import RUNS_FOLDER, WORK_FOLDER
from tuner.driver.outcome.export import sources_of, unified_patch
from tuner.driver.outcome.refused_edits import describe_refusals
from tuner.spec.applications import ApplicationFile, Region

__all__ = [
    "Compared",
    "Tuned",
    "TunedRegion",
    "apply_patch",
    "digest_of",
    "earlier_regions",
    "headers_folder",
    "patch_of",
    "read_tuned",
    "region_name",
    "runs_folder",
    "winning_runs",
    "work_folder",
]

_FILE = "regions.json"
_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class TunedRegion:
    """A region and what became of it.

    Attributes:
        name: of the loop or function that was tuned.
        share: of the application's time.
        calls: of a run of the application; 0 where it was not recorded.
        call_s: seconds of a call there.
        apart: times as long that a call takes as a function of its own there.
        region: that it stands for in the application's file, such as ``src/heat.c:12``.
        spec: its path; empty where nothing of it could be tuned.
        run: the record's path; empty where it was not tuned.
        speedup: that the run claims by changes of the source; 1 for none.
        seen: what its search saw where nothing is claimed and a longer run may; 1 for nothing.
        unfinished: whether the run was interrupted and can go on.
        tuned: digest of the source and the spec that the run had.
        refused: why it is not tuned, or loops further out are not.
        hindered: what operators refused in it, the commonest reason first; empty where it has gained or none was.
    """

    name: str
    share: float
    calls: int = 0
    call_s: float = 0.0
    apart: float = 1.0
    region: str = ""
    spec: str = ""
    run: str = ""
    speedup: float = 1.0
    seen: float = 1.0
    unfinished: bool = False
    tuned: str = ""
    refused: tuple[str, ...] = ()
    hindered: str = ""

    @property
    def in_place(self) -> float:
        """How many times as fast the claim makes the loop where it stands, as far as that is known."""
        return max(1.0, self.speedup / self.apart)

    @property
    def saved(self) -> float:
        """Part of the application's time that the claim saves."""
        return self.share * (1 - 1 / self.in_place)

    def with_run(self, run: Path) -> TunedRegion:
        """With what a run's record says by now.

        Raises:
            RecordError: the record does not hold together.
        """
        found = sources_of(run)
        summary = found.result.summary
        open_ = summary.claim == "not_confirmed" and summary.candidate is not None
        score = summary.candidate.score if open_ and summary.candidate is not None else None
        return replace(
            self,
            run=str(run),
            # What flags alone gain is no part of the build.
            speedup=summary.speedup[0] if summary.improved and found.changed else 1.0,
            seen=1.0 if score is None else math.exp(-score),
            unfinished=found.result.interrupted,
            hindered=next(iter(describe_refusals(summary.refusals)), "") if summary.refusals else "",
        )

    def or_earlier(self, earlier: TunedRegion | None) -> TunedRegion:
        """What is kept of a region that was tuned before, of the same source and spec: what saves more, or may."""
        if earlier is None or not earlier.run:
            return self
        better = (self.saved, self.seen) >= (earlier.saved, earlier.seen)
        return self if self.run and better else earlier

    def to_json(self) -> dict[str, Any]:
        """Plain JSON."""
        return {
            "name": self.name,
            "share": self.share,
            "calls": self.calls,
            "call_s": self.call_s,
            "apart": self.apart,
            "region": self.region,
            "spec": self.spec or None,
            "run": self.run or None,
            "speedup": self.speedup,
            "seen": self.seen,
            "unfinished": self.unfinished,
            "tuned": self.tuned,
            "refused": list(self.refused),
            "hindered": self.hindered,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """An application with winners and as it is.

    Attributes:
        runs: of the winners.
        speedup: of the whole, with its 95% interval.
        results: whether there were any to compare.
    """

    runs: tuple[str, ...]
    speedup: tuple[float, float, float]
    results: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuned:
    """The regions of an application, tuned.

    Attributes:
        regions: with the largest share first.
        compared: what the last comparison in the application said; ``None`` where there was none.
    """

    regions: tuple[TunedRegion, ...]
    compared: Compared | None = None

    @property
    def winners(self) -> tuple[TunedRegion, ...]:
        """Those of which the source gains."""
        return tuple(one for one in self.regions if one.speedup > 1.0)

    @property
    def predicted(self) -> float:
        """The speedup of the whole if each winner takes as long in the application as alone.

        Source: Amdahl, "Validity of the single processor approach to achieving large scale computing capabilities",
        1967.
        """
        saved = sum(one.saved for one in self.winners)
        return 1 / (1 - min(saved, 0.99))

    def to_json(self) -> dict[str, Any]:
        """The object behind ``--json``, and the file's content."""
        compared = None
        if self.compared is not None:
            value, low, high = self.compared.speedup
            compared = {
                "runs": list(self.compared.runs),
                "speedup": {"value": value, "ci95": [low, high]},
                "results_compared": self.compared.results,
            }
        return {
            "schema_version": _VERSION,
            "regions": [one.to_json() for one in self.regions],
            "predicted": self.predicted,
            "compared": compared,
        }

    def write(self, application: ApplicationFile) -> None:
        """Keeps it beside the application's file."""
        folder = work_folder(application)
        # The folder may be moved or copied with the application.
        text = json.dumps(self.with_paths(lambda path: os.path.relpath(path, folder)).to_json(), indent=2)
        write_atomically(folder / _FILE, f"{text}\n".encode())

    def with_paths(self, turned: Callable[[str], str]) -> Tuned:
        """The same with other paths of specs and runs."""
        regions = tuple(
            replace(one, spec=one.spec and turned(one.spec), run=one.run and turned(one.run))
            for one in self.regions
        )
        compared = self.compared
        if compared is not None:
            compared = replace(compared, runs=tuple(map(turned, compared.runs)))
        return Tuned(regions=regions, compared=compared)

    def after(self, found: BuiltComparison, left_out: Mapping[Path, str]) -> Tuned:
        """With what a comparison of the winners in the application said, and why some are none."""
        regions = tuple(
            replace(one, speedup=1.0, refused=(*one.refused, left_out[Path(one.run)]))
            if one.run and Path(one.run) in left_out
            else one
            for one in self.regions
        )
        made = Tuned(regions=regions)
        runs = tuple(one.run for one in made.winners)
        return replace(made, compared=Compared(runs=runs, speedup=found.speedup, results=found.compared))


def work_folder(application: ApplicationFile) -> Path:
    """The folder for what is made of an application, by its file's name; copies of sources leave it out."""
    return application.path.resolve().parent / WORK_FOLDER / application.path.stem


def headers_folder(application: ApplicationFile) -> Path:
    """The folder for headers that its build makes."""
    return work_folder(application) / "generated"


def runs_folder(application: ApplicationFile) -> Path:
    """The folder for its run records."""
    return work_folder(application) / RUNS_FOLDER


def read_tuned(application: ApplicationFile) -> Tuned:
    """What has been tuned of an application.

    Raises:
        UsageError: nothing has been, or the file is damaged.
    """
    folder = work_folder(application)
    path = folder / _FILE
    try:
        data = json.loads(path.read_bytes())
        compared = data["compared"]
        tuned = Tuned(
            regions=tuple(
                TunedRegion(
                    name=str(one["name"]),
                    share=float(one["share"]),
                    calls=int(one["calls"]),
                    call_s=float(one["call_s"]),
                    apart=float(one["apart"]),
                    region=str(one["region"]),
                    spec=one["spec"] or "",
                    run=one["run"] or "",
                    speedup=float(one["speedup"]),
                    seen=float(one["seen"]),
                    unfinished=bool(one["unfinished"]),
                    tuned=str(one["tuned"]),
                    refused=tuple(map(str, one["refused"])),
                    hindered=str(one["hindered"]),
                )
                for one in data["regions"]
            ),
            compared=None
            if compared is None
            else Compared(
                runs=tuple(compared["runs"]),
                speedup=_interval(compared["speedup"]),
                results=bool(compared["results_compared"]),
            ),
        )
        tuned = tuned.with_paths(lambda path: os.path.normpath(folder / path))
        return replace(tuned, regions=tuple(map(_as_it_is_now, tuned.regions)))
    except FileNotFoundError:
        cure = f"tuner app tune {application.path}"
        raise UsageError(f"nothing of {application.path} has been tuned", cure) from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        cure = f"remove it, then: tuner app tune {application.path}"
        raise UsageError(f"{path} cannot be read: {error}", cure) from None


def _as_it_is_now(region: TunedRegion) -> TunedRegion:
    """With what has become of a run that was interrupted: ``tuner tune --resume`` goes on with it."""
    return region.with_run(Path(region.run)) if region.unfinished and Path(region.run).is_file() else region


def region_name(application: ApplicationFile, region: Region) -> str:
    """By which a region of the application's file is known from one tuning to the next."""
    below = os.path.relpath(region.source, application.tree)
    return f"{below}:{region.loops[0] if region.loops else region.function}"


def digest_of(source: Path, spec: Path) -> str:
    """Of a region's source and spec: what was claimed holds for these."""
    return hashlib.sha256(source.read_bytes() + b"\0" + spec.read_bytes()).hexdigest()


def earlier_regions(application: ApplicationFile) -> tuple[dict[str, TunedRegion], Tuned]:
    """What is known of the file's regions, by name, where source and spec are as they were; and all that is kept.

    Raises:
        UsageError: it cannot be read.
    """
    if not (work_folder(application) / _FILE).exists():
        return {}, Tuned(regions=())
    tuned = read_tuned(application)
    sources = {region_name(application, one): one.source for one in application.regions}
    known = {
        one.region: one
        for one in tuned.regions
        if one.region in sources and one.run and Path(one.spec).is_file() and Path(one.run).is_file()
        if one.tuned == digest_of(sources[one.region], Path(one.spec))
    }
    return known, tuned


def _interval(data: Any) -> tuple[float, float, float]:
    low, high = data["ci95"]
    return float(data["value"]), float(low), float(high)


def winning_runs(application: ApplicationFile, tuned: Tuned) -> list[Path]:
    """Records of the winners.

    Raises:
        UsageError: there is none.
    """
    runs = [Path(one.run) for one in tuned.winners]
    if not runs:
        cure = "with more --minutes, other regions or numerics in their specs there may be"
        seen = [f"{one.name} {one.seen:.2f}x" for one in tuned.regions if one.seen > 1.0]
        only = f": {', '.join(seen)} in the search alone, which is not confirmed" if seen else ""
        raise UsageError(f"no region of {application.path} has gained by a change of its source{only}", cure)
    return runs


def patch_of(
    application: ApplicationFile, tuned: Tuned, *, anyway: bool = False
) -> tuple[str, dict[Path, str]]:
    """The winners as a patch against the sources as they are now.

    Args:
        application: its file.
        tuned: its regions.
        anyway: also where it has not been shown that the whole gains.

    Returns:
        The patch, by paths below the application's tree, and the new text of each file.

    Raises:
        UsageError: there is no winner, the whole was not compared or does not gain, or a source has changed since.
    """
    runs = winning_runs(application, tuned)
    if not anyway:
        _require_gain(application, tuned)
    texts, _ = patched(runs, application.tree)
    files = {application.tree / below: text for below, text in texts.items()}
    before = [
        Source(name=below, text=source_text(file.read_bytes()))
        for below, file in zip(texts, files, strict=True)
    ]
    after = [Source(name=below, text=text) for below, text in texts.items()]
    return unified_patch(Variant(files=tuple(before)), Variant(files=tuple(after))), files


def _require_gain(application: ApplicationFile, tuned: Tuned) -> None:
    cure = f"tuner app ab {application.path} compares; --anyway writes the patch all the same"
    if tuned.compared is None or tuned.compared.runs != tuple(one.run for one in tuned.winners):
        raise UsageError("the application with these winners has not been compared with itself", cure)
    if not tuned.compared.results:
        raise UsageError(
            f"no results of {application.command[0]} could be compared, so its winners were not judged by them",
            f"write a check: COMMAND into {application.path}; {cure}",
        )
    value, low, high = tuned.compared.speedup
    if low <= 1.0:
        message = (
            f"no gain of the application was told: {value:.3f} times, 95% interval {low:.3f} to {high:.3f}"
        )
        raise UsageError(message, cure)


def apply_patch(files: dict[Path, str]) -> None:
    """Writes the new texts into the application's own folder."""
    for path, text in files.items():
        write_atomically(path, source_bytes(text), mode=path.stat().st_mode & 0o777)
