"""The emulated launch as a C function: its text, its hidden arguments, and the task that the run child is given.

The function takes the kernel's arguments, then a buffer for a report, then words: geometry, schedule, places of
shared variables, sizes of arrays. What is known of the architecture that the kernel is meant for limits launches. May
not compile or run anything.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tuner.core.dtypes import C_TYPES
from tuner.core.expressions import parse
from tuner.core.types import Argument, ArgumentRole, Kernel, Parcel, Source, Task, Variant
from tuner.evaluators.cuda.limits import Usage, architecture
from tuner.evaluators.cuda.limits import over_limit as over_limit_of
from tuner.evaluators.cuda.parcels import in_call_order
from tuner.evaluators.emulation.rewriting import FILLED
from tuner.evaluators.workloads import Workload
from tuner.spaces.launch import Geometry

__all__ = [
    "ENTRY",
    "MOST_ARRAYS",
    "MOST_STATICS",
    "REPORT",
    "REPORT_WORDS",
    "SharedVariable",
    "architecture_macro",
    "barrier_counts_ended",
    "extended_task",
    "extended_workload",
    "launch_words",
    "over_limit",
    "with_words",
]

ENTRY = "tuner_emulate"
REPORT = "tuner_report"
REPORT_WORDS = 32
MOST_ARRAYS = 32
MOST_STATICS = 12
_STATICS_AT = 10
_SIZES_AT = _STATICS_AT + 2 * MOST_STATICS
_INITIALISED, _WRITABLE = 1, 2
# The kernel's own macros reach this text, so every name in it is one that nobody else has.
_WRAPPER = """
#line 1 "the launch"
{filled}EMU_UNCHECKED static __device__ void emu_kernel(void **emu_slots) {{
    emu_start<({entry})>({entry}, emu_sizes<{sizes}>{{}}, emu_slots);
}}
extern "C" EMU_UNCHECKED __device__ void {name}({parameters}) {{
    long long emu_words[] = {{{words}}};
    const emu_array emu_arrays[] = {{{arrays}}};
{fills}    void *emu_slots[] = {{{slots}}};
    emu_launch(emu_words, emu_arrays, {count}, emu_report, emu_slots, emu_kernel);
{kept}}}
"""
_STATIC_BYTES = 48 << 10
_INDEPENDENT = 70
_ASSUMED = 90


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedVariable:
    """A ``__shared__`` variable of fixed size: its name, and its place in the object's section for them, bytes."""

    name: str
    offset: int
    size_bytes: int


def wrapper_text(task: Task, entry: str) -> str:
    """C++ text of the launch function, to stand behind the kernel's source."""
    arguments = task.arguments
    words = _SIZES_AT + sum(a.is_array for a in arguments)
    parameters = [
        f"void *emu_a{i}" if a.is_array else f"{_c_type(a)} emu_a{i}" for i, a in enumerate(arguments)
    ]
    parameters += ["unsigned long long *emu_report", *(f"long long emu_w{i}" for i in range(words))]
    arrays = [f"{{{_place(i, a)}, {_flags(a)}}}" for i, a in enumerate(arguments) if a.is_array]
    numbers = {a.name: i for i, a in enumerate(arguments)}
    parcels = {parcel.name: i for i, parcel in enumerate(task.kernel.parcels)}
    sizes, slots = [], []
    for passed in in_call_order(task):
        if isinstance(passed, Parcel):
            sizes.append(f"(int)sizeof({passed.kind})")
            slots.append(f"(void *)emu_p{parcels[passed.name]}")
        else:
            sizes.append("8" if passed.is_array else f"(int)sizeof({_c_type(passed)})")
            slots.append(f"(void *)&emu_a{numbers[passed.name]}")
    filled = [f"(void *)&{a.name}" for a in arguments if a.in_variable]
    return _WRAPPER.format(
        entry=entry,
        name=ENTRY,
        sizes=", ".join(sizes),
        parameters=", ".join(parameters),
        words=", ".join(f"emu_w{i}" for i in range(words)),
        arrays=", ".join(arrays) or "{0, 0}",
        count=len(arrays),
        slots=", ".join(slots) or "0",
        fills="".join((*_fills(arguments), *_filled_parcels(task))),
        filled=f'extern "C" __device__ void *const {FILLED}[] = {{{", ".join(filled)}}};\n' if filled else "",
        kept="".join(
            f"    __builtin_memcpy(emu_a{i}, (void *)&{a.name}, sizeof({a.name}));\n"
            for i, a in enumerate(arguments)
            if _is_global(a) and a.role is not ArgumentRole.INPUT
        ),
    )


def launch_words(
    task: Task,
    workload: Workload,
    geometry: Geometry,
    statics: Sequence[SharedVariable],
    *,
    schedule: int,
    exited_count: bool,
) -> list[int]:
    """The words of one launch.

    Args:
        task: the user's.
        workload: whose arrays.
        geometry: of this configuration on this problem.
        statics: the shared variables of the candidate, at most :data:`MOST_STATICS`.
        schedule: 0: threads run in order, 1: in reverse order, else in an order drawn from it, with switches in
            between.
        exited_count: whether threads that have ended still have to come to a barrier (devices before sm_70).
    """
    places = [number for s in statics for number in (s.offset, s.size_bytes)]
    places += [0] * (2 * MOST_STATICS - len(places))
    sizes = [workload.arrays[a.name].nbytes for a in task.arguments if a.is_array]
    head = [*geometry.grid, *geometry.block, geometry.shared_bytes, schedule, int(exited_count), len(statics)]
    return [*head, *places, *sizes]


def extended_task(task: Task) -> Task:
    """The task as the run child sees it: a C function with the hidden arguments behind the kernel's own."""
    count = _SIZES_AT + sum(a.is_array for a in task.arguments)
    zero = parse("0")
    report = Argument(
        name=REPORT, dtype="uint64", shape=(parse(str(REPORT_WORDS)),), role=ArgumentRole.OUTPUT
    )
    words = tuple(Argument(name=_word(i), dtype="int64", value=zero) for i in range(count))
    kernel = replace(task.kernel, entry=ENTRY, language="c++", returns=None)
    return replace(task, arguments=(*task.arguments, report, *words), kernel=kernel, launch=None)


def extended_workload(workload: Workload) -> Workload:
    """The workload with the report's buffer."""
    return Workload(
        name=workload.name,
        problem=workload.problem,
        scalars=workload.scalars,
        arrays={**workload.arrays, REPORT: np.zeros(REPORT_WORDS, np.uint64)},
    )


def with_words(scalars: Mapping[str, int | float], words: Sequence[int]) -> dict[str, int | float]:
    """Scalars of a workload with the words among them."""
    return {**scalars, **{_word(i): word for i, word in enumerate(words)}}


def emulated_source(kernel: Kernel, variant: Variant, task: Task) -> Source:
    """The first file of a variant with the launch function behind it."""
    first = variant.files[0]
    return Source(name=first.name, text=f"{first.text}\n{wrapper_text(task, kernel.entry)}")


def _word(index: int) -> str:
    return f"tuner_word_{index}"


def _c_type(argument: Argument) -> str:
    name = C_TYPES[argument.dtype]
    return {"_Bool": "bool"}.get(name, name)


def _fills(arguments: Sequence[Argument]) -> Iterator[str]:
    """Statements that put arrays into the source's variables of their names; one of constants may be the larger one."""
    arrays = [(i, a) for i, a in enumerate(arguments) if a.is_array]
    for place, (i, argument) in enumerate(arrays):
        if argument.in_variable:
            size, wrong = f"emu_w{_SIZES_AT + place}", "!=" if _is_global(argument) else ">"
            yield f"    if ({size} {wrong} (long long)sizeof({argument.name})) __builtin_trap();\n"
            yield f"    __builtin_memcpy((void *)&{argument.name}, emu_a{i}, {size});\n"


def _place(number: int, argument: Argument) -> str:
    """Where accesses to an array are looked at: its buffer, or the variable that the kernel works on."""
    return f"(void *)&{argument.name}" if _is_global(argument) else f"emu_a{number}"


def _is_global(argument: Argument) -> bool:
    """Whether the kernel's own variable, which is as large as the array, is looked at in the place of a buffer."""
    return argument.in_variable and not argument.constant


def _filled_parcels(task: Task) -> Iterator[str]:
    """Statements that make the structures that are passed by value, zero but for their members."""
    for number, parcel in enumerate(task.kernel.parcels):
        own = f"emu_p{number}"
        yield f"    alignas({parcel.kind}) unsigned char {own}[sizeof({parcel.kind})];\n"
        yield f"    __builtin_memset({own}, 0, sizeof {own});\n"
        for i, argument in enumerate(task.arguments):
            if not (member := parcel.member(argument)):
                continue
            place = f"(({parcel.kind} *)(void *){own})->{member}"
            inside = argument.passing == "inside"
            size = f"sizeof(emu_a{i})"
            if inside:
                elements = math.prod(extent.integer({}) for extent in argument.shape or ())
                size = f"{elements} * sizeof({_c_type(argument)})"
            yield f'    static_assert(sizeof({place}) == {size}, "{argument.name} has another size");\n'
            yield f"    __builtin_memcpy((void *)&{place}, {'' if inside else '&'}emu_a{i}, {size});\n"


def _flags(argument: Argument) -> int:
    initialised = argument.role in (ArgumentRole.INPUT, ArgumentRole.INOUT)
    return _INITIALISED * initialised | _WRITABLE * (argument.role is not ArgumentRole.INPUT)


def over_limit(geometry: Geometry, static_bytes: int, target: str) -> str:
    """Which limit a launch is over, one line; empty for none.

    Args:
        geometry: of the launch.
        static_bytes: shared memory of fixed size.
        target: for example ``sm_90``; only what holds for all architectures where it names none.
    """
    if static_bytes > _STATIC_BYTES:
        return f"{static_bytes} bytes of static shared memory, at most {_STATIC_BYTES} are possible"
    known = architecture(target) if _capability(target) is not None else None
    return over_limit_of(Usage(registers=0, static_shared_bytes=static_bytes), geometry, known)


def barrier_counts_ended(target: str) -> bool:
    """Whether a barrier also waits for threads that have ended: so before independent thread scheduling."""
    capability = _capability(target)
    return capability is not None and capability < _INDEPENDENT


def architecture_macro(target: str) -> str:
    """``__CUDA_ARCH__`` as a definition; that of sm_90 where the target names no architecture."""
    return f"-D__CUDA_ARCH__={10 * (_capability(target) or _ASSUMED)}"


def _capability(target: str) -> int | None:
    found = re.fullmatch(r"sm_(\d{2,3})[af]?", target)
    return int(found[1]) if found else None
