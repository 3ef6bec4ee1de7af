"""A spec for a region of an application, on recordings of it: the first loop from outside that can be recorded.

May not tune, and may not change the application's folder but for the folder of specs.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tuner.core.errors import FullDiskError, TunerError
from tuner.core.files import write_atomically
from tuner.core.types import ArgumentRole
from tuner.driver.applications.builds import Rebuilt
from tuner.driver.applications.hot_regions import stale
from tuner.driver.applications.rebuilt_recording import record_rebuilt
from tuner.driver.applications.recorded_specs import file_name, recordings_of
from tuner.driver.applications.trees import busy
from tuner.driver.check import check_spec
from tuner.recorders.recordings.capture import SEVERAL_THREADS, Ran
from tuner.recorders.recordings.format import RecordingFile
from tuner.spec.applications import Region
from tuner.spec.first.compile_commands import Compiled
from tuner.spec.first.global_variables import NO_ARGUMENT
from tuner.spec.first.init import first_spec
from tuner.spec.load import LoadedSpec, load_spec
from tuner.spec.schema_file import SCHEMA_FILE, SCHEMA_LINE, schema_text

__all__ = ["RegionSpec", "region_specs", "share_of"]

_LEAST_S = 1e-7
"""Of a call: what calling a loop apart and timing it costs is more."""
_CHEAP_S = 1e-5
"""Of a call of a loop inside one that no spec describes: what is around such a loop is most of what can gain."""
_LONG_S = 1e-6
"""Of a call, of which timing it is no part to speak of."""
_SLOWER = 1.25
"""Times as long as where it stands, that a call takes as a function of its own before that is no noise."""
_NOT_RECORDED = re.compile(rf"^# check: ({NO_ARGUMENT} .*)$", re.MULTILINE)
_INSTANCES = 2
_CAUGHT = 2
"""Planted faults that show that the verification looks at results; each is a build of the region's whole file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionSpec:
    """What became of a region before it is tuned.

    Attributes:
        region: of the application, with the share that its recording shows where that is less.
        path: of the spec; ``None`` where nothing of the region can be tuned.
        line: of the loop; 0 for a function.
        calls: in a run of the application.
        call_s: seconds of one.
        apart: times as long as it takes where it stands that it takes as a function of its own.
        by_address: whether it is recorded with the application's memory around it.
        recorded_s: the least and the most that a call is known to take: all on average, and those that were recorded.
        refused: why loops further out are not tuned, or nothing is.
    """

    region: Region
    path: Path | None = None
    line: int = 0
    calls: int = 0
    call_s: float = 0.0
    apart: float = 1.0
    by_address: bool = False
    recorded_s: tuple[float, float] = (0.0, math.inf)
    refused: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """For messages: of the loop that was chosen."""
        return f"{self.region.source.name}:{self.line}" if self.line else self.region.name

    def to_json(self) -> dict[str, Any]:
        """What recording it showed, as plain JSON."""
        return {
            "share": self.region.share,
            "recorded": None if self.path is None else "with memory" if self.by_address else "alone",
            "line": self.line or None,
            "calls": self.calls,
            "call_s": self.call_s,
            "apart": self.apart,
            "refused": list(self.refused),
        }


def region_specs(
    region: Region,
    application: Rebuilt,
    folder: Path,
    compiled: Compiled | None,
    *,
    run_s: float,
    note: Callable[[str], None] = lambda _: None,
) -> Iterator[RegionSpec]:
    """Specs for the loops of a region that can be recorded and whose replay is what the application got.

    The outermost comes first; each is made when it is asked for. There is one at least, without a path where nothing
    of the region can be tuned.

    Args:
        region: of the application.
        application: how it is built and run.
        folder: for specs and recordings. A first spec that is there already is taken as it is.
        compiled: how the build compiles the region's source; ``None`` where that was not seen.
        run_s: of a run of the application as it is, undisturbed.
        note: told of the progress.

    Raises:
        FullDiskError: there is no room for a copy, a build or a recording.
    """
    old = _stale(region, compiled)
    if old:
        yield RegionSpec(region=region, refused=(old,))
        return
    loops = _Loops(region, application, folder, compiled, run_s, note)
    found = False
    for one in loops.candidates():
        found = True
        yield one
    if not found:
        yield RegionSpec(region=region, refused=tuple(loops.refused))


def _stale(region: Region, compiled: Compiled | None) -> str:
    """Why a region is none of its source as it is now; empty where it is one."""
    try:
        why = stale(region, compiled)
    except TunerError:
        # Whoever needs the source says so.
        return ""
    own = ", or take its digest out of the file" if region.digest else ""
    return f"{region.name}: {why}; have the regions written anew: tuner app init{own}" if why else ""


class _Loops:
    """The loops of a region, from outside, with why some are refused; arguments as :func:`region_specs` takes them."""

    def __init__(
        self,
        region: Region,
        application: Rebuilt,
        folder: Path,
        compiled: Compiled | None,
        run_s: float,
        note: Callable[[str], None],
    ) -> None:
        self.refused: list[str] = []
        self._region, self._application, self._folder = region, application, folder
        self._compiled, self._run_s, self._note = compiled, run_s, note
        self._too_short: set[int] = set()

    def candidates(self) -> Iterator[RegionSpec]:
        """Those that can be described; with the memory around them, where none or only a cheap one inside can be."""
        lines = self._region.loops or (0,)
        there = False
        for one in self._recorded(lines, by_address=False):
            if not there and one.call_s < _CHEAP_S:
                yield from self._recorded(lines[: lines.index(one.line)], by_address=True)
            there = True
            yield one
        if not there:
            rest = [line for line in lines if line not in self._too_short]
            yield from self._recorded(rest, by_address=True)

    def _recorded(self, lines: Sequence[int], *, by_address: bool) -> Iterator[RegionSpec]:
        """Those that can be recorded and check, the outermost first; ``by_address`` with the application's memory."""
        for line in lines:
            name = f"{self._region.source.name}:{line or self._region.function}"
            name += ", with the memory around it" if by_address else ""
            self._note(f"{name}: recording")
            path = _path_of(self._region, line, self._application, self._folder)
            path = path.with_stem(f"{path.stem}{'-memory' if by_address else ''}")
            kept = path.exists()
            try:
                found = self._described(path, line, name, by_address=by_address)
            except FullDiskError:
                raise
            except TunerError as error:
                found = str(error)
            if isinstance(found, str):
                self._refuse(name, found, path if kept else None, by_address=by_address)
            else:
                yield found

    def _described(self, path: Path, line: int, name: str, *, by_address: bool) -> RegionSpec | str:
        """A loop's spec on recordings, or why it is not tuned.

        Raises:
            TunerError: it cannot be described, recorded or replayed.
        """
        if not path.exists():
            region, compiled = self._region, self._compiled
            _write_first(path, region, line, self._application, compiled, by_address=by_address)
        (spec,) = load_spec(path)
        recorded = path.with_name(f"{path.stem}-recorded.yaml")
        _forget(spec)
        report = record_rebuilt(spec, self._application, instances=_INSTANCES, silent=True, output=recorded)
        share, call_s, apart = share_of(report.ran, self._region.share, self._run_s)
        launches = report.ran.kernels[0].launches
        if call_s < _LEAST_S:
            self._too_short.add(line)
            took = f"a call takes {call_s * 1e9:.3g} ns, of which a run makes {launches}"
            return f"{took}: calling it apart and timing it takes more; a loop around it can be tuned"
        self._note(f"{name}: checking that the replay is what the application got")
        problem = _problem(recorded, report.recordings)
        missing = _NOT_RECORDED.search(spec.text) if problem else None
        if missing is not None:
            return f"{missing[1]}, so it is not recorded; pass it to the function; {problem}"
        times = [call_s, *map(_recorded_s, report.recordings)]
        return problem or RegionSpec(
            region=replace(self._region, share=share),
            path=recorded,
            line=line,
            calls=launches,
            call_s=call_s,
            apart=apart,
            by_address=by_address,
            recorded_s=(min(times), max(times)),
            refused=tuple(self.refused),
        )

    def _refuse(self, name: str, problem: str, kept: Path | None, *, by_address: bool) -> None:
        """``kept`` is the first spec where that was there already."""
        compiled = self._compiled
        if compiled is not None and compiled.ways > 1:
            file = self._region.source.name
            ways = f"the build compiles {file} in {compiled.ways} ways, of which one is taken"
            problem = f"{ways}; let it compile that once; {problem}"
        if kept is not None:
            problem += f"; remove {kept} to have it written anew"
        # The same of the memory around it says nothing more.
        if not (by_address and any(line.endswith(f": {problem}") for line in self.refused)):
            self.refused.append(f"{name}: {problem}")


def share_of(ran: Ran, sampled: float, run_s: float) -> tuple[float, float, float]:
    """A loop's share of the application's time, the seconds of a call, and how many times that one takes apart.

    All without what recording adds. Samples of what a loop calls count for every loop that calls it; its own time is
    what was recorded, but for calls that were not timed, which last as long as others. Calls of several threads at once
    take a share that is no part of the time from the application's start to its end.

    Args:
        ran: the application with the loop as a function of its own, recorded.
        sampled: share of the processor time by samples of a run as it is.
        run_s: of a run as it is.
    """
    (use,) = ran.kernels
    # What else ran took its part of the calls' time as well.
    call_s = busy(ran.processor_s, ran.wall_s) * use.seconds / max(1, use.timed)
    in_place_s = sampled * run_s / use.launches
    if SEVERAL_THREADS in use.refused:
        return sampled, min(call_s, in_place_s), 1.0
    share = min(sampled, call_s * use.launches / run_s)
    # Of short calls the clock itself is a part; samples know nothing of it.
    apart = call_s / in_place_s if in_place_s > _LONG_S and call_s > _SLOWER * in_place_s else 1.0
    return share, min(call_s, in_place_s), apart


def _path_of(region: Region, line: int, application: Rebuilt, folder: Path) -> Path:
    below = region.source.relative_to(application.folder.resolve()).with_suffix("")
    return folder / f"{file_name(str(below))}-{line or file_name(region.function)}.yaml"


def _write_first(
    path: Path,
    region: Region,
    line: int,
    application: Rebuilt,
    compiled: Compiled | None,
    *,
    by_address: bool,
) -> None:
    """Writes the first spec of a loop or function with what it needs beside it."""
    first = first_spec(
        region.source,
        entry=region.function or None,
        folder=path.parent,
        loop=line or None,
        compiled=compiled,
        reassociate=application.rtol > 0,
        by_address=by_address,
    )
    for name, text in first.beside.items():
        write_atomically(path.with_name(name), text.encode())
    write_atomically(path, (SCHEMA_LINE + first.text).encode())
    write_atomically(path.with_name(SCHEMA_FILE), schema_text().encode())


def _forget(spec: LoadedSpec) -> None:
    """Takes earlier recordings of a kernel away: the application may have been another then."""
    for path in recordings_of(spec).glob(f"{file_name(spec.task.kernel.function)}-*.rec"):
        path.unlink(missing_ok=True)


def _problem(path: Path, recordings: Sequence[Path]) -> str:
    """Why a spec on recordings is not to be tuned; empty where it is.

    Raises:
        TunerError: it cannot be loaded or run.
    """
    (spec,) = load_spec(path)
    report = check_spec(spec, faults=_CAUGHT)
    if not report.ok:
        return report.lines[-1][1]
    # Outputs are filled with other values before each call.
    refilled = any(a.role is ArgumentRole.OUTPUT for a in spec.task.arguments)
    if refilled or spec.task.kernel.returns is not None or any(map(_changes_something, recordings)):
        return ""
    return "the recorded calls change nothing, so a kernel that does nothing would pass"


def _recorded_s(recording: Path) -> float:
    with RecordingFile(recording) as file:
        return file.recording.seconds


def _changes_something(recording: Path) -> bool:
    with RecordingFile(recording) as file:
        return any(file.changed(i) for i, a in enumerate(file.recording.arguments) if a.kind == "buffer")
