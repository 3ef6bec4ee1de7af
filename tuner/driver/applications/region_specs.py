"""A spec for a region of an application, on recordings of it: the first loop from outside that can be recorded.

May not tune, and may not change the application's folder but for the folder of specs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tuner.core.errors import TunerError
from tuner.core.files import write_atomically
from tuner.core.types import ArgumentRole
from tuner.driver.applications.builds import Rebuilt
from tuner.driver.applications.hot_regions import lines_without_loop
from tuner.driver.applications.rebuilt_recording import record_rebuilt
from tuner.driver.applications.recorded_specs import file_name, recordings_of
from tuner.driver.check import check_spec
from tuner.recorders.recordings.format import RecordingFile
from tuner.spec.applications import Region
from tuner.spec.first.compile_commands import Compiled
from tuner.spec.first.global_variables import NO_ARGUMENT
from tuner.spec.first.init import first_spec
from tuner.spec.load import LoadedSpec, load_spec
from tuner.spec.schema_file import SCHEMA_FILE, SCHEMA_LINE, schema_text

__all__ = ["RegionSpec", "region_specs"]

_CALL_S = 0.05
"""Of a call, for enough candidates to be timed within minutes: of a loop that takes longer one inside is tuned."""
_CHEAP_S = 1e-5
"""Of a call of a loop inside one that no spec describes: what is around such a loop is most of what can gain."""
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
        call_s: seconds of one, with what recording adds.
        refused: why loops further out are not tuned, or nothing is.
    """

    region: Region
    path: Path | None = None
    line: int = 0
    calls: int = 0
    call_s: float = 0.0
    refused: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """For messages: of the loop that was chosen."""
        return f"{self.region.source.name}:{self.line}" if self.line else self.region.name


def region_specs(
    region: Region,
    application: Rebuilt,
    folder: Path,
    compiled: Compiled | None,
    *,
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
        note: told of the progress.

    Raises:
        MachineError: commands cannot be run in copies here, or a recording cannot be written.
    """
    stale = _stale(region, compiled)
    if stale:
        yield RegionSpec(region=region, refused=(stale,))
        return
    refused: list[str] = []
    last, found = RegionSpec(region=region), False
    for one in _all_candidates(region, application, folder, compiled, refused, note):
        last = one
        if one.call_s <= _CALL_S:
            found = True
            yield one
    if not found:
        yield replace(last, refused=tuple(refused))


def _stale(region: Region, compiled: Compiled | None) -> str:
    """Why a region is none of its source as it is now; empty where it is one."""
    try:
        lines = lines_without_loop(region, compiled)
    except TunerError:
        # Whoever needs the source says so.
        return ""
    if not lines:
        return ""
    where = f"line {lines[0]}" if len(lines) == 1 else f"lines {', '.join(map(str, lines))}"
    cure = "have the regions written anew: tuner app init"
    return f"{region.name}: no loop begins at {where} of {region.source.name} as it is now; {cure}"


def _all_candidates(
    region: Region,
    application: Rebuilt,
    folder: Path,
    compiled: Compiled | None,
    refused: list[str],
    note: Callable[[str], None],
) -> Iterator[RegionSpec]:
    """Those that can be described; with the memory around them, where none or only a cheap one inside can be."""

    def candidates(lines: Sequence[int], *, by_address: bool) -> Iterator[RegionSpec]:
        return _candidates(region, lines, application, folder, compiled, refused, note, by_address=by_address)

    lines = region.loops or (0,)
    there = False
    for one in candidates(lines, by_address=False):
        if not there and one.call_s < _CHEAP_S:
            yield from candidates(lines[: lines.index(one.line)], by_address=True)
        there = True
        yield one
    if not there:
        yield from candidates(lines, by_address=True)


def _candidates(
    region: Region,
    lines: Sequence[int],
    application: Rebuilt,
    folder: Path,
    compiled: Compiled | None,
    refused: list[str],
    note: Callable[[str], None],
    *,
    by_address: bool,
) -> Iterator[RegionSpec]:
    """Those that can be recorded and check, the outermost first; ``by_address`` with the application's memory."""
    for line in lines:
        name = f"{region.source.name}:{line or region.function}"
        name += ", with the memory around it" if by_address else ""
        note(f"{name}: recording")
        path = _path_of(region, line, application, folder)
        path = path.with_stem(f"{path.stem}{'-memory' if by_address else ''}")
        kept = path.exists()
        try:
            if not kept:
                _write_first(path, region, line, application, compiled, by_address=by_address)
            (spec,) = load_spec(path)
            recorded = path.with_name(f"{path.stem}-recorded.yaml")
            _forget(spec)
            report = record_rebuilt(spec, application, instances=_INSTANCES, silent=True, output=recorded)
            note(f"{name}: checking that the replay is what the application got")
            problem = _problem(recorded, report.recordings)
            missing = _NOT_RECORDED.search(spec.text) if problem else None
            if missing is not None:
                problem = f"{missing[1]}, so it is not recorded; pass it to the function; {problem}"
        except TunerError as error:
            problem = str(error)
        if problem and compiled is not None and compiled.ways > 1:
            ways = f"the build compiles {region.source.name} in {compiled.ways} ways, of which one is taken"
            problem = f"{ways}; let it compile that once; {problem}"
        if problem and kept:
            problem += f"; remove {path} to have it written anew"
        if problem:
            # The same of the memory around it says nothing more.
            if not any(line.endswith(f": {problem}") for line in refused if by_address):
                refused.append(f"{name}: {problem}")
            continue
        (use,) = report.ran.kernels
        # Samples of what a loop calls count for every loop that calls it; its own time is what was recorded.
        measured = use.seconds / report.ran.wall_s
        yield RegionSpec(
            region=replace(region, share=min(region.share, measured)),
            path=recorded,
            line=line,
            calls=use.launches,
            call_s=use.seconds / use.launches,
            refused=tuple(refused),
        )


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


def _changes_something(recording: Path) -> bool:
    with RecordingFile(recording) as file:
        return any(file.changed(i) for i, a in enumerate(file.recording.arguments) if a.kind == "buffer")
