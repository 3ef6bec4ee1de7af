"""What runs' records put in the place of an application's own kernels and functions.

May not run the application.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from tuner.core.errors import UsageError
from tuner.core.protocols import LoadedImage, NamesFunctions, Replacement, Replaces, Substitute
from tuner.core.types import BASELINE, Argument, Problem, Resolved, Variant
from tuner.driver.applications.by_size import by_size
from tuner.driver.applications.functions import as_given
from tuner.driver.applications.in_place import (
    FunctionWinner,
    ImageWinner,
    LaunchPlan,
    Origin,
    Winner,
    WinnerInPlace,
)
from tuner.driver.opening import open_lineup
from tuner.driver.outcome.by_problem import gains
from tuner.driver.outcome.export import best_object
from tuner.driver.outcome.outcome import outcome
from tuner.driver.work.lineup import Lineup
from tuner.evaluators import registry as backends
from tuner.recorders.record import RunRecord
from tuner.recorders.recordings.format import Recording
from tuner.recorders.recordings.points import AXIS, BYTES, SIGNED, UNSIGNED, Key, Point
from tuner.recorders.recordings.substitute import Verified
from tuner.spaces.source.textual import TEXTUAL
from tuner.spec.load import LoadedSpec
from tuner.spec.machine import moved_pointers, unsaid_return
from tuner.spec.recorded.workload import AXES, DERIVED, INDEX, from_text

__all__ = ["MOST_WINNERS", "check_layout", "check_pointers", "function_winner", "winner_of", "winners_of"]

_WHOLE = frozenset(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))
MOST_WINNERS = 64
"""What the library that stands before a device's driver has room for."""


def winners_of(
    paths: Sequence[Path], *, note: Callable[[str], None] = lambda _: None
) -> tuple[WinnerInPlace, ...]:
    """What several runs' records put in place at once; those of one kernel part its calls by their sizes.

    Args:
        paths: of the records. Of several, those without a gain mark the sizes at which the kernel stays as it is.
        note: told of runs that are left out.

    Raises:
        UsageError: no run, too many, two that want the same place, or one that has nothing to put in place.
        RecordError: a record cannot be read.
    """
    paths = list(dict.fromkeys(paths))
    if not paths:
        raise UsageError("no run is named", "name one or several before --")
    if len(paths) > MOST_WINNERS:
        raise UsageError(f"{len(paths)} runs are too many at once", f"at most {MOST_WINNERS}")
    alone = len(paths) == 1
    winners = by_size([(path, winner_of(path, alone=alone)) for path in paths], note=note)
    if not winners:
        raise UsageError(
            "no run claims anything better than the kernel as given", "there is nothing to put in place"
        )
    return winners


def winner_of(path: Path, *, alone: bool = True) -> WinnerInPlace:
    """What a run's record puts in place.

    Args:
        path: of the record.
        alone: whether it has to claim a gain; else it may mark the sizes at which there is none.

    Raises:
        UsageError: nothing better was found, or what won cannot be put in place.
        RecordError: the record cannot be read.
    """
    with RunRecord.read(path) as record:
        state, spec, lineup = open_lineup(record)
        result = outcome(path, state)
        if alone and not result.summary.improved:
            raise UsageError(
                f"{path} claims nothing better than the kernel as given", "there is nothing to apply"
            )
        best = result.summary.best.number
        code = best_object(record, state, best)
        variant, resolved = lineup.of_trial(best)
    check_pointers(spec, variant)
    found = _replacement(spec, code, resolved)
    summary = result.summary
    faster = [gain.faster for gain in gains(state)] or [True] * len(spec.task.problems)
    if not summary.improved:
        faster = [False] * len(spec.task.problems)
    made: Winner | ImageWinner | FunctionWinner
    if isinstance(found, Substitute):
        slower = [p for p, gained in zip(spec.task.problems, faster, strict=True) if not gained]
        made = function_winner(found, spec, slower=slower)
    else:
        made = _of_program(found, faster, spec, lineup, path, best)
    return replace(made, origin=Origin(run=path, claim=summary.claim, speedup=summary.speedup))


def _replacement(spec: LoadedSpec, code: bytes, resolved: Resolved) -> Replacement | LoadedImage | Substitute:
    backend = backends.create(spec.task.backend)
    if not isinstance(backend, Replaces):
        raise UsageError(
            f"winners of the {backend.name} backend cannot be put in place yet", "use tuner export"
        )
    found = backend.replacement(spec.task, code, resolved)
    if isinstance(found, Substitute):
        check_layout(found, spec)
    return found


def check_layout(found: Substitute, spec: LoadedSpec) -> None:
    """What a winner takes is what the application passes, which was compiled without its parameters and flags.

    Raises:
        UsageError: structures are laid out otherwise with those.
    """
    backend = backends.create(spec.task.backend)
    if not spec.task.kernel.passed or not isinstance(backend, NamesFunctions):
        return
    if backend.layout(spec.task, as_given(spec)) != found.layout:
        raise UsageError(
            f"the winner's parameters or flags change the structures of {spec.task.kernel.function}",
            "build the application with them: tuner export RUN",
        )


def check_pointers(spec: LoadedSpec, variant: Variant) -> None:
    """Where a function leaves pointers pointing is not verified: operators keep it, free text may not.

    Raises:
        UsageError: the winner was written freely, and it or the source as given changes such pointers.
    """
    kernel = spec.task.kernel
    if not kernel.passed or not any(edit.get("op") in TEXTUAL for edit in variant.edits):
        return
    moved = {
        name for one in (kernel.variant, variant) for name in moved_pointers(spec.task, spec.tunables, one)
    }
    if moved:
        raise UsageError(
            f"{kernel.function} changes where {' and '.join(sorted(moved))} points, "
            "which is not verified of a winner whose source was written freely",
            "read it and put it into the source: tuner ab RUN --build, tuner export RUN -o FOLDER",
        )


def _of_program(
    found: Replacement | LoadedImage,
    faster: Sequence[bool],
    spec: LoadedSpec,
    lineup: Lineup,
    path: Path,
    best: int,
) -> Winner | ImageWinner:
    recordings = _recordings(spec, path)
    if isinstance(found, LoadedImage):
        return _image(found, faster, spec, recordings, path, as_given=_as_given(lineup, best))
    if _launch_alone(lineup, best):
        # The application's own program will do, and takes no time to build.
        found = _as_recorded(found, recordings[0])
    return _program(found, faster, spec, recordings, path)


def _program(
    found: Replacement, faster: Sequence[bool], spec: LoadedSpec, recordings: Sequence[Recording], path: Path
) -> Winner:
    problems = spec.task.problems
    return Winner(
        kernel=spec.task.kernel.entry,
        recording=recordings[0],
        source=found.source,
        il=found.il,
        options=found.options,
        local=_local(found, problems, recordings, path),
        points=tuple(
            Point(sizes=_numbers(recordings[problem.sizes[INDEX] - 1], spec), taken=gained)
            for problem, gained in zip(problems, faster, strict=True)
        ),
        names=_names(recordings[0], spec),
    )


def _numbers(recording: Recording, spec: LoadedSpec) -> dict[Key, int]:
    """What a launch shows of its sizes: work-items, whole numbers among its arguments, and bytes of buffers."""
    found: dict[Key, int] = {(AXIS, axis): size for axis, size in enumerate(recording.global_size)}
    for number, argument in _arguments(recording, spec):
        given = recording.arguments[number]
        if given.kind == "buffer":
            found[BYTES, number] = given.size_bytes
        elif given.kind == "scalar" and argument.dtype in _WHOLE:
            signed = np.dtype(argument.dtype).kind == "i"
            key = (SIGNED if signed else UNSIGNED, number)
            found[key] = int.from_bytes(given.value, "little", signed=signed)
    return found


def _names(recording: Recording, spec: LoadedSpec) -> dict[Key, str]:
    names: dict[Key, str] = {(AXIS, axis): name for axis, name in enumerate(AXES)}
    for number, argument in _arguments(recording, spec):
        names |= {(SIGNED, number): argument.name, (UNSIGNED, number): argument.name}
        names[BYTES, number] = f"{argument.name}_bytes"
    return names


def _arguments(recording: Recording, spec: LoadedSpec) -> list[tuple[int, Argument]]:
    """The spec's arguments, which are the kernel's without those in local memory, by the kernel's numbers."""
    numbers = [n for n, given in enumerate(recording.arguments) if given.kind != "local"]
    return list(zip(numbers, spec.task.arguments, strict=False))


def function_winner(found: Substitute, spec: LoadedSpec, *, slower: Sequence[Problem] = ()) -> FunctionWinner:
    """What a run of a function puts in place.

    Args:
        found: the winner.
        spec: of the run.
        slower: problems on which the kernel as given was faster.

    Raises:
        UsageError: it returns a value that the run did not verify.
        BaselineError: the source as given does not compile here.
    """
    task = spec.task
    unsaid, _ = unsaid_return(task, spec.tunables)
    if unsaid:
        raise UsageError(
            f"{task.kernel.function} returns `{unsaid}`, which the run did not verify",
            "say it in the spec (kernel: {returns: ...}) and tune again",
        )
    verified = Verified(
        sizes=(*task.problems, *task.verify.problems),
        assumed=task.verify.assume,
        slower=tuple(slower),
        threads=found.threads,
    )
    return FunctionWinner(task=task, verified=verified, found=found)


def _recordings(spec: LoadedSpec, path: Path) -> tuple[Recording, ...]:
    if DERIVED not in spec.files:
        raise UsageError(
            f"{path} was not tuned on recordings, so nothing says what it replaces",
            "record the application first",
        )
    recordings = from_text(spec.files[DERIVED], origin=str(path)).recordings
    if len({(r.text, r.options) for r in recordings}) > 1:
        raise UsageError(f"{path} was tuned on recordings of several programs", "tune each by itself")
    return recordings


def _as_given(lineup: Lineup, best: int) -> bool:
    """Whether the winner has the source and the parameters of the kernel as given: it is right wherever that is."""
    (given, own), (variant, resolved) = lineup.of_trial(BASELINE), lineup.of_trial(best)
    return variant.digest == given.digest and resolved.macros == own.macros


def _launch_alone(lineup: Lineup, best: int) -> bool:
    """Whether the winner's program is that of the kernel as given."""
    (given, own), (variant, resolved) = lineup.of_trial(BASELINE), lineup.of_trial(best)
    same = (own.macros, own.flags, own.pipeline) == (resolved.macros, resolved.flags, resolved.pipeline)
    return variant.digest == given.digest and same


def _as_recorded(found: Replacement, recording: Recording) -> Replacement:
    if recording.form == "il":
        return replace(found, source="", il=bytes.fromhex(recording.text), options=recording.options)
    return replace(found, source=recording.text, il=b"", options=recording.options)


def _image(
    found: LoadedImage,
    faster: Sequence[bool],
    spec: LoadedSpec,
    recordings: Sequence[Recording],
    path: Path,
    *,
    as_given: bool,
) -> ImageWinner:
    problems = spec.task.problems
    plans: dict[tuple[int, ...], LaunchPlan] = {}
    for geometry, problem, gained in zip(found.geometries, problems, faster, strict=True):
        recording = recordings[problem.sizes[INDEX] - 1]
        blocks = (g // b for g, b in zip(recording.global_size, recording.local_size, strict=True))
        own = (*blocks, *recording.local_size, recording.shared_bytes)
        other = (*geometry.grid, *geometry.block, geometry.shared_bytes)
        plan = LaunchPlan(own=own, other=other, taken=gained)
        before = plans.setdefault(own, plan)
        if before.other != other:
            raise UsageError(
                f"the winner of {path} has several launches for one of the application's",
                "tune those recordings one by one",
            )
        if gained and not before.taken:
            plans[own] = plan
    same = all(plan.own == plan.other for plan in plans.values())
    return ImageWinner(
        kernel=recordings[0].entry,
        recording=recordings[0],
        image=found,
        launches=tuple(plans.values()),
        any_launch=as_given and same,
    )


def _local(
    found: Replacement, problems: Sequence[Problem], recordings: Sequence[Recording], path: Path
) -> tuple[int, ...]:
    """The winner's work-group, which has to make the same grid of work-items as the application."""
    blocks = set()
    for geometry, problem in zip(found.geometries, problems, strict=True):
        recording = recordings[problem.sizes[INDEX] - 1]
        items = tuple(g * b for g, b in zip(geometry.grid, geometry.block, strict=True))
        if items != (*recording.global_size, 1, 1)[:3]:
            raise UsageError(
                f"the winner of {path} launches {' x '.join(map(str, items))} work-items, the application "
                f"{' x '.join(map(str, recording.global_size))}",
                "only work-groups of another size can be put in place, not another grid",
            )
        local = sum(a.size_bytes for a in recording.arguments if a.kind == "local")
        if geometry.shared_bytes != local:
            raise UsageError(
                f"the winner of {path} takes {geometry.shared_bytes} bytes of local memory, the application gives "
                f"{local}",
                "such a winner cannot be put in place yet",
            )
        kept = (*recording.local_size, 1, 1)[:3] if recording.local_size else ()
        blocks.add(() if geometry.block == kept else geometry.block)
    if len(blocks) > 1:
        raise UsageError(
            f"the winner of {path} has several work-group sizes", "tune each recording by itself"
        )
    return blocks.pop()
