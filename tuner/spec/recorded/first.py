"""The first spec of a recorded kernel: what can be tuned of it without knowing more than the recordings.

May not run anything.
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Sequence
from pathlib import Path

import yaml

from tuner.core.errors import BaselineError, SpecError
from tuner.evaluators.opencl.flags import check_flags
from tuner.evaluators.opencl.module import SUFFIX, entry_point, module_bytes
from tuner.recorders.recordings.format import Recording
from tuner.spec.reading.lookup import names_reached
from tuner.spec.recorded.included import include_folders, with_headers
from tuner.spec.recorded.replayable import group_of
from tuner.spec.recorded.workload import AXES

__all__ = ["EVOLVED", "option_words", "quoted", "target_of", "write_module_spec", "write_spec"]

EVOLVED = "  source: {evolve: true}     # nothing else can be tuned without knowing more of the kernel"
"""The line under ``space`` where the application has already set all that could be tried."""

_GROUPED = re.compile(
    r"(get_local_id|get_group_id|get_local_size|get_num_groups|get_enqueued_local_size|get_local_linear_id"
    r"|barrier|work_group_\w+|sub_group_\w+|reqd_work_group_size|async_work_group_\w+|__local|local)"
)
_GROUPS = {1: ("GROUP_X",), 2: ("GROUP_X", "GROUP_Y"), 3: ("GROUP_X", "GROUP_Y", "GROUP_Z")}
_MOST_ITEMS = 1024
_EXTRA = ("-cl-mad-enable", "-cl-no-signed-zeros")
_PLATFORMS = {
    "Portable Computing Language": "pocl",
    # A simulator: nothing is timed on it.
    "Oclgrind": "native",
}


def write_spec(
    recordings: Sequence[Recording],
    *,
    name: str,
    pattern: str,
    base: Path,
    evaluations: int = 60,
) -> tuple[str, str]:
    """Source and spec of one kernel.

    Work-groups are tuned where the kernel cannot tell how large they are; build options where they keep to the
    application's own numerics or nearly; the source where neither is left.

    Args:
        recordings: of one program.
        name: of both files, without suffix.
        pattern: of the recordings' files, relative to the spec.
        base: where the application ran, for its headers.
        evaluations: the budget.

    Returns:
        The source and the YAML text.

    Raises:
        SpecError: a program that includes files which are not there, or was built with options that no spec can
            give.
    """
    first = recordings[0]
    options = _options(first)
    text = with_headers(
        first.text,
        include_folders(first.options, base),
        base=base,
        entry=first.entry,
        left=lambda name: False,
    )
    grouped = any(map(_GROUPED.fullmatch, names_reached(text, first.entry)))
    return text, _spec(
        recordings, f"{name}.cl", pattern, options, grouped=grouped, evaluations=evaluations, passes=False
    )


def write_module_spec(
    recordings: Sequence[Recording],
    *,
    name: str,
    pattern: str,
    base: Path,
    evaluations: int = 60,
    passes: bool = False,
) -> tuple[str, str]:
    """Module, as text, and spec of one kernel whose program the application made of SPIR-V.

    As :func:`write_spec`, but nothing is included, and ``passes`` says whether pass orders can be tuned for its device.
    """
    first = recordings[0]
    try:
        grouped = entry_point(module_bytes(first.text), first.entry).grouped
    except BaselineError as error:
        raise SpecError(error.message, error.hint) from None
    options = _options(first)
    return first.text, _spec(
        recordings,
        f"{name}{SUFFIX}",
        pattern,
        options,
        grouped=grouped,
        evaluations=evaluations,
        passes=passes,
    )


def _spec(
    recordings: Sequence[Recording],
    source: str,
    pattern: str,
    options: str,
    *,
    grouped: bool,
    evaluations: int,
    passes: bool,
) -> str:
    first = recordings[0]
    lines = [
        f"# Recorded from an application: {len(recordings)} of its launches of {first.entry}.",
        f"kernel: {{source: {quoted(source)}, entry: {quoted(first.entry)}}}",
        f"target: {quoted(target_of(first))}",
        f"workload: {quoted(pattern)}",
    ]
    launch, parameters = _groups(recordings, grouped)
    lines += launch
    further = [option for option in _EXTRA if option not in options.split()]
    lines += ["space:", *parameters]
    if not parameters and not further and first.form == "source":
        lines.append(EVOLVED)
    lines.append("  flags:")
    if options:
        lines.append(f"    recorded: [{quoted(options)}]            # as the application builds it")
    lines.append(f"    extra: {['', *further]}")
    lines += [
        '  passes: {base: "default<O3>"}' if passes else "  passes: off",
        "verify: {reference: recording}",
        f"search: {{budget: {{evaluations: {evaluations}}}}}",
    ]
    return "\n".join(lines) + "\n"


def option_words(recording: Recording) -> list[str]:
    """The options that it was built with; a ``-D`` is one word with what it defines."""
    try:
        words = shlex.split(recording.options)
    except ValueError:
        raise SpecError(
            f"the build options {recording.options!r} cannot be read", "record it again"
        ) from None
    joined: list[str] = []
    for word in words:
        if joined and joined[-1] == "-D":
            joined[-1] = f"-D{word}"
        else:
            joined.append(word)
    return joined


def _options(recording: Recording) -> str:
    kept: list[str] = []
    skip = False
    for word in option_words(recording):
        # Nothing is included, so folders of headers mean nothing.
        if skip or word.startswith("-I"):
            skip = word == "-I"
            continue
        if word != "-cl-kernel-arg-info" and word not in kept:
            kept.append(word)
    check_flags(kept)
    return shlex.join(kept)


def target_of(recording: Recording) -> str:
    """The spec's ``target`` that means the device of a recording."""
    return _PLATFORMS.get(recording.platform, recording.device or "native")


def _groups(recordings: Sequence[Recording], grouped: bool) -> tuple[list[str], list[str]]:
    """Lines for launch and for parameters; none where the kernel may know its work-group."""
    local = any(a.kind in ("local", "empty") for r in recordings for a in r.arguments)
    if local or grouped:
        return ["# The kernel may know its work-group's size, so that stays as it was recorded."], []
    names = _GROUPS[len(recordings[0].global_size)]
    starts = group_of(recordings[0])
    if any(group_of(r) != starts for r in recordings):
        return ["# The recordings have different work-groups, which stay as they are."], []
    launch = ", ".join(f'"{size} // {group}"' for size, group in zip(AXES, names, strict=False))
    lines = [f"launch: {{grid: [{launch}], block: [{', '.join(names)}]}}"]
    parameters = ["  parameters:                # run-time numbers: the source does not see them"]
    for axis, (name, start) in enumerate(zip(names, starts, strict=True)):
        sizes = [r.global_size[axis] for r in recordings]
        fitting = [n for n in (1 << k for k in range(11)) if all(s % n == 0 for s in sizes)]
        values = sorted({start, *fitting})
        parameters.append(f"    {name}: {{values: {values}, default: {start}, macro: false}}")
    most = max(_MOST_ITEMS, math.prod(starts))
    return lines, [*parameters, f'  constraints: ["{" * ".join(names)} <= {most}"]']


def quoted(value: str) -> str:
    """A YAML text that is itself whatever stands in it."""
    return yaml.safe_dump(value, default_style="'", width=10_000).strip()
