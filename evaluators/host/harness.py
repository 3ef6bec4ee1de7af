"""C text of what runs beside a candidate: the timing harness and, for each kernel signature, a thunk.

The thunk unpacks an array of 64-bit words (addresses of buffers, bits of by-value scalars, the address for the
returned value) and calls the kernel through a pointer. May not compile or run anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.resources import files

from tuner.core.dtypes import C_TYPES, WIDER, is_structured
from tuner.core.errors import SpecError
from tuner.core.types import Argument, Task, opaque_bytes

__all__ = ["VIRTUAL_NS", "Signature", "harness_text"]

VIRTUAL_NS = 8
"""Which word of the fault page is the virtual clock, in nanoseconds; ``harness.c`` has the same."""

_ADVANCE = "void tuner_work(i64 ns) { __atomic_fetch_add(&fault_page[VIRTUAL_NS], ns, __ATOMIC_RELAXED); }\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """What the thunk needs to know of a kernel: dtypes in call order.

    Attributes:
        arguments: for each argument its name, its dtype and whether a buffer is passed.
        returns: dtype of the returned value, or ``None``.
        variables: names of those that are not passed: the kernel has a variable for each, or finds it at its address.
        pointers: those of the variables that are pointers to what an argument would be.
        memory: those of the variables that are recorded memory, which lies where it lay.
    """

    arguments: tuple[tuple[str, str, bool], ...]
    returns: str | None = None
    variables: frozenset[str] = frozenset()
    pointers: frozenset[str] = frozenset()
    memory: frozenset[str] = frozenset()

    @staticmethod
    def of(task: Task) -> Signature:
        """The signature that a task describes.

        Raises:
            SpecError: a dtype that cannot be passed to a C function.
        """
        arguments: Sequence[Argument] = task.arguments
        for argument in arguments:
            if not (is_structured(argument.dtype) if argument.is_array else opaque_bytes(argument.dtype)):
                _check(argument.dtype, f"the argument {argument.name}")
        if task.kernel.returns is not None:
            _check(task.kernel.returns, "the returned value")
        memory = frozenset(a.name for a in arguments if a.passing == "memory")
        return Signature(
            arguments=tuple((a.name, a.dtype, a.is_array) for a in arguments),
            returns=task.kernel.returns,
            variables=frozenset(variable.name for variable in task.kernel.variables) | memory,
            memory=memory,
            pointers=frozenset(variable.name for variable in task.kernel.variables if variable.pointer),
        )

    @property
    def passed(self) -> tuple[tuple[str, str, bool], ...]:
        """Those of the arguments that are passed."""
        return tuple(each for each in self.arguments if each[0] not in self.variables)

    @property
    def words(self) -> int:
        """64-bit words of one call."""
        return sum(_words(d, a) for _, d, a in self.passed) + (self.returns is not None)

    @property
    def widens(self) -> bool:
        """Whether :meth:`widened` differs. Structures with wider members, and memory, would lie otherwise."""
        if self.memory or any(is_structured(dtype) for _, dtype, _ in self.arguments):
            return False
        return any(d in WIDER for _, d, _ in self.arguments) or self.returns in WIDER

    def widened(self) -> Signature:
        """The same kernel in float64."""
        return replace(
            self,
            arguments=tuple((n, WIDER.get(d, d), a) for n, d, a in self.arguments),
            returns=None if self.returns is None else WIDER.get(self.returns, self.returns),
        )

    def thunk(self, name: str) -> str:
        """C text of the thunk as a function of that name."""
        types, values, at = [], [], 0
        for _, dtype, is_array in self.passed:
            if is_array:
                types.append("void *")
                values.append(f"(void *)words[{at}]")
            else:
                kind = C_TYPES[dtype]
                types.append(kind)
                values.append(f"*(__attribute__((__may_alias__)) {kind} *)&words[{at}]")
            at += _words(dtype, is_array)
        result = "void" if self.returns is None else C_TYPES[self.returns]
        call = f"(({result} (*)({', '.join(types) or 'void'}))entry)({', '.join(values)})"
        if self.returns is not None:
            call = f"*({result} *)words[{at}] = {call}"
        return f"void {name}(void *entry, i64 *words) {{ (void)words; {call}; }}\n"


def _words(dtype: str, is_array: bool) -> int:
    return 2 if dtype == "complex128" and not is_array else 1


def _check(dtype: str, what: str) -> None:
    if dtype not in C_TYPES:
        raise SpecError(
            f"{what} has the dtype {dtype}, which no C type has", f"use one of {', '.join(C_TYPES)}"
        )


def harness_text(signature: Signature, *, team: bool = False, virtual: bool = False) -> str:
    """The whole C file: the harness, ``tuner_thunk``, and ``tuner_thunk_wide`` for the float64 reference.

    Args:
        signature: of the kernel.
        team: whether the kernel has a team of OpenMP's threads.
        virtual: whether time is a counter that advances by 25 us with each call, and by what a kernel says through
            ``tuner_work(nanoseconds)``.
    """
    parts = ("harness.c", "team.c" if team else "no_team.c")
    text = "\n".join(files(__package__).joinpath(part).read_text(encoding="utf-8") for part in parts)
    text = f"enum {{ TEAM = {int(team)}, VIRTUAL = {int(virtual)} }};\n{text}{_ADVANCE if virtual else ''}"
    return text + "\n" + signature.thunk("tuner_thunk") + signature.widened().thunk("tuner_thunk_wide")
