"""The nouns of the system as small frozen values; ``docs/concepts.md`` says what each word means."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from tuner.core.arithmetic import Value
from tuner.core.canonical import digest_json
from tuner.core.compilers import BuildCompiler
from tuner.core.expressions import Expression, parse
from tuner.core.passing import Passed
from tuner.core.places import by_place
from tuner.core.source_text import source_bytes

__all__ = [
    "BASELINE",
    "EXPECTED",
    "Argument",
    "ArgumentRole",
    "Build",
    "BuildRequest",
    "Configuration",
    "Initial",
    "Kernel",
    "Launch",
    "MeasurePolicy",
    "Measurement",
    "Parcel",
    "Problem",
    "Proposal",
    "Reference",
    "Resolved",
    "Source",
    "Stage",
    "Status",
    "Task",
    "Value",
    "Variable",
    "Variant",
    "Verdict",
    "VerifyPolicy",
    "opaque_bytes",
]

Configuration = Mapping[str, Value]
"""One value for every tunable by name. A flag group's value is the chosen text; ``passes`` is the pipeline text."""

BASELINE = 0
"""The number of the baseline's trial."""

EXPECTED = "expected"
"""Key of a proposal's note: the logarithm of the expected gain on the best, in deviations of the times known so far."""


class Status(StrEnum):
    """What became of a trial."""

    OK = "ok"
    BUILD_ERROR = "build_error"
    WRONG_RESULT = "wrong_result"
    CRASHED = "crashed"
    TIMED_OUT = "timed_out"
    OUT_OF_RESOURCES = "out_of_resources"
    REFUSED = "refused"
    PRUNED = "pruned"
    DUPLICATE = "duplicate"
    LOST = "lost"
    ABANDONED = "abandoned"


class Stage(StrEnum):
    """How far a trial came."""

    ASK = "ask"
    BUILD = "build"
    VERIFY = "verify"
    MEASURE = "measure"


class ArgumentRole(StrEnum):
    """What a kernel does with an argument."""

    INPUT = "input"
    OUTPUT = "output"
    INOUT = "inout"
    SCRATCH = "scratch"


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One source file of a kernel: its name (no folder) and its text."""

    name: str
    text: str

    @property
    def data(self) -> bytes:
        """What the file holds."""
        return source_bytes(self.text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One version of the kernel's sources. The first file holds the entry.

    ``edits`` tells how it came from the original: empty for the source as given. ``launch`` is its own geometry where
    the edits changed it, else ``None``: the task's.
    """

    files: tuple[Source, ...]
    edits: tuple[Mapping[str, Any], ...] = ()
    launch: Launch | None = None

    @property
    def digest(self) -> str:
        """The content's hash; how the variant came about does not count."""
        content: list[Any] = [[f.name, f.text] for f in self.files]
        return digest_json(content if self.launch is None else [*content, self.launch.to_json()])


@dataclass(frozen=True, slots=True, kw_only=True)
class Initial:
    """How an argument's values are made.

    ``kind`` is ``uniform`` (low, high), ``normal`` (mean, deviation), ``randint`` (low, high, high excluded),
    ``permutation``, ``zeros``, ``constant`` (value), ``csr``, ``file``, ``python`` or ``recording``; ``options``
    holds what belongs to it. Numbers in options may be :class:`~tuner.core.expressions.Expression`.
    """

    kind: str = "normal"
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """One argument of the kernel, in call order: an array when it has a shape, else a scalar with a value.

    An array with ``constant`` is no parameter: it fills the source's variable of its name in constant memory, which may
    be larger. With a shape and a value it is one number that the kernel gets by its address: a buffer of one element.

    Attributes:
        passing: how the kernel gets it: ``argument``; ``value``, the array's bytes by value; ``memory``, not at all,
            but it reaches the array through pointers elsewhere; ``global``, not at all: it is a variable of this name
            in the sources, or in a device's module;
            ``wrapper``, not at all: only the wrapper needs it; ``inside``, the elements lie in a parcel;
            ``address``, as the number of a place in recorded memory.
        address: where the array has to begin in memory, as pointers to it were recorded; ``None`` where it may lie
            anywhere.
    """

    name: str
    dtype: str
    shape: tuple[Expression, ...] | None = None
    value: Expression | None = None
    role: ArgumentRole = ArgumentRole.INPUT
    initial: Initial = field(default_factory=Initial)
    fixed: bool = False
    passing: str = "argument"
    address: Expression | None = None
    constant: bool = False

    @property
    def is_array(self) -> bool:
        """Whether a buffer is passed."""
        return self.shape is not None

    @property
    def in_variable(self) -> bool:
        """Whether a device's kernel finds it in a variable that it is copied into; recorded ones lie there."""
        return self.constant or (self.passing == "global" and self.initial.kind != "recording")

    @property
    def by_pointer(self) -> bool:
        """Whether one number is passed by its address."""
        return self.shape is not None and self.value is not None


def opaque_bytes(dtype: str) -> int:
    """The size of what is passed by value and is no number, such as a structure; 0 for any other dtype.

    Its dtype is ``bytes`` and the size, for example ``bytes48``; its value is the little-endian number of its bytes.
    Only recordings have such arguments.
    """
    size = dtype.removeprefix("bytes")
    return int(size) if size != dtype and size.isdecimal() else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One problem size by name, with its weight in the objective.

    ``held_out`` are sizes that differ in nothing but the recording whose data they stand for: only confirming
    processes see them, in the place of ``sizes``.
    """

    sizes: Mapping[str, int]
    weight: float = 1.0
    held_out: tuple[Mapping[str, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Parcel:
    """A structure that a device's kernel takes by value; what no argument fills is zero.

    Attributes:
        name: the parameter's. Arguments whose names begin with it and a dot are members; they stand together.
        kind: its type as the source writes it.
    """

    name: str
    kind: str

    def member(self, argument: Argument) -> str:
        """The member that an argument fills, such as ``box.lo``; empty for one that is no part of this."""
        return (
            argument.name.removeprefix(f"{self.name}.") if argument.name.startswith(f"{self.name}.") else ""
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Preprocessed:
    """A kernel's sources as the compiler's preprocessor leaves them.

    Attributes:
        values: of the tunables that conditionals ask for, by name; every other tunable stands there by its name.
        files: each source with its includes, without the text of the system's headers.
        macros: names that are defined at the end of the sources and would be replaced in a text that is put there.
        origins: of each of ``files`` where its lines come from, in runs: the first line there, the number of a file
            of the kernel, and the line of that; all from 0. What other files bring comes from the line that includes
            them. The file -2 and no line: a header of the system was there.
        counted: how often ``__COUNTER__`` is used in what may change, where what stands behind it hangs on that.
        numbered: whether what stands behind it hangs on the numbers of lines, and there are others of them.
    """

    values: tuple[tuple[str, int], ...]
    files: tuple[Source, ...] = field(repr=False)
    macros: tuple[str, ...] = field(default=(), repr=False)
    origins: tuple[tuple[tuple[int, int, int], ...], ...] = field(default=(), repr=False)
    counted: int = 0
    numbered: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """A global variable of the sources that stands in the place of an argument.

    Attributes:
        name: of it, and of the argument.
        dtype: of its elements.
        count: how many it has; of a pointer 0.
        pointer: whether it is a pointer to the argument's elements.
    """

    name: str
    dtype: str
    count: int
    pointer: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """What is called and how it is written. ``folder`` is where ``include`` folders and files are looked up.

    ``headers`` are those of other folders that the sources include, by their names relative to ``folder``: they are
    compiled from where they lie, and their texts are known to those who reason about the sources. ``openmp``: built
    with OpenMP, whose library is there, and called by a team of the measurement's threads.

    ``preprocessed``: the sources for each choice of values that conditionals ask for; empty where operators see them as
    they are.

    ``variables``: arguments that the function does not take, but finds in variables of the sources.

    ``alone``: nothing but the function is built of the sources, and what has a part in its code.

    ``compiler``: of the user's build, which makes all code that is judged; ``None`` where clang and LLVM do.

    Where the function of the sources cannot be called as it is (an instance of a C++ template, one that takes
    structures), ``wrapped`` is its name, ``entry`` the function that calls it, and ``wrapper`` that function's text: it
    is no part of the sources, and is compiled behind the first. ``passed``: what the function itself takes where it
    takes structures or rows; the wrapper is of no use to anybody else then. A launch needs no such function:
    ``parcels`` are the structures among a device kernel's parameters. ``members``: of a method's object, arrays that it
    reaches by their names.
    """

    name: str
    entry: str
    language: str
    variant: Variant
    folder: str
    include: tuple[str, ...] = ()
    headers: tuple[Source, ...] = ()
    link: tuple[str, ...] = ()
    returns: str | None = None
    openmp: bool = False
    wrapped: str = ""
    wrapper: str = ""
    passed: tuple[Passed, ...] = ()
    parcels: tuple[Parcel, ...] = ()
    variables: tuple[Variable, ...] = ()
    members: tuple[Variable, ...] = ()
    alone: bool = False
    compiler: BuildCompiler | None = None
    preprocessed: tuple[Preprocessed, ...] = ()

    @property
    def function(self) -> str:
        """Its name in the sources."""
        return self.wrapped or self.entry

    @property
    def flattened(self) -> bool:
        """Whether the tuner calls it by the members of structures, or by arrays whose rows it takes."""
        return bool(self.passed)

    def compiled(self, variant: Variant | None = None) -> Variant:
        """The sources as given, or a variant of them, as a compiler gets them."""
        variant = variant or self.variant
        if not self.wrapper:
            return variant
        first, *others = variant.files
        return replace(variant, files=(replace(first, text=first.text + self.wrapper), *others))


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """Where expected outputs come from: ``original``, ``recording``, or ``python`` with file and function."""

    kind: str = "original"
    file: str = ""
    function: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyPolicy:
    """When an output counts as right; the rule stands in :mod:`tuner.evaluators.verification`.

    ``problems`` are complete problem sizes (already merged over the main one); ``assume`` bounds the sizes that
    the verification may make up itself, which it does only when there are such bounds.
    """

    reference: Reference = field(default_factory=Reference)
    rtol: float = 1e-5
    atol: float = 1e-6
    numerics: str = "exact"
    nonfinite: str = "excluded"
    problems: tuple[Problem, ...] = ()
    assume: tuple[Expression, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasurePolicy:
    """How a candidate is timed: ``cache`` is ``warm`` or ``cold``.

    ``bytes`` and ``operations`` are what one call has to move and to compute at least, by the user's word; ``None``
    where nothing was said. ``limit_s`` is the longest that a call of the kernel as given may take, in seconds; what a
    candidate may take follows from what that one took.
    """

    cache: str = "warm"
    threads: int = 1
    limit_s: float = 120.0
    bytes: Expression | None = None
    operations: Expression | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """Launch geometry of a GPU kernel in expressions: blocks, threads of a block, dynamic shared bytes.

    ``offset`` is what the first work-item's number along each axis is; empty for zero.
    """

    grid: tuple[Expression, ...]
    block: tuple[Expression, ...]
    shared_bytes: Expression | None = None
    offset: tuple[Expression, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Plain JSON: the expressions' texts."""
        return {
            "grid": [e.text for e in self.grid],
            "block": [e.text for e in self.block],
            "shared_bytes": None if self.shared_bytes is None else self.shared_bytes.text,
            "offset": [e.text for e in self.offset],
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Launch:
        """The inverse of :meth:`to_json`.

        Raises:
            SpecError: a text is no expression.
        """
        shared = value["shared_bytes"]
        return cls(
            grid=tuple(parse(text) for text in value["grid"]),
            block=tuple(parse(text) for text in value["block"]),
            shared_bytes=None if shared is None else parse(shared),
            offset=tuple(parse(text) for text in value["offset"]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One kernel to tune with everything that is not tuned: what a backend is given once for a run."""

    kernel: Kernel
    backend: str
    target: str
    arguments: tuple[Argument, ...]
    problems: tuple[Problem, ...]
    verify: VerifyPolicy
    measure: MeasurePolicy
    launch: Launch | None = None
    seed: int = 0

    @property
    def own_arguments(self) -> tuple[Argument, ...]:
        """The arguments without those that only a wrapper needs, and without recorded memory."""
        return tuple(a for a in self.arguments if a.passing not in ("wrapper", "memory"))

    @property
    def parameters(self) -> tuple[Argument, ...]:
        """The arguments that the entry takes."""
        return tuple(a for a in self.arguments if a.passing not in ("global", "memory"))


@by_place
@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """A configuration sorted by what takes each value.

    Attributes:
        macros: ``-DNAME=value`` at the build.
        scalars: parameters with ``macro: false``: names for run-time expressions only.
        flags: compiler flags of the chosen group members, split into words, in the groups' order.
        pipeline: the pass pipeline's text; ``None`` where passes are off (the backend's own default applies).
        launch: of a variant that has its own; ``None`` for the task's.
    """

    macros: Mapping[str, Value]
    scalars: Mapping[str, Value]
    flags: tuple[str, ...]
    pipeline: str | None
    launch: Launch | None = None

    def launch_of(self, task: Task) -> Launch:
        """The expressions that the geometry is computed from; only for a task with a launch."""
        launch = self.launch or task.launch
        assert launch is not None
        return launch


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """What a searcher wants tried.

    Attributes:
        configuration: one value for every tunable.
        origin: who made it, for example ``"random"`` or ``"auto/passes"``.
        parent: the trial that it was made from.
        note: how it was made (edits, what is expected of it); plain JSON. See ``EXPECTED``.
        rivals: the best-scored other configurations with their scores, best first, for a replay elsewhere.
    """

    configuration: Configuration
    origin: str
    parent: int | None = None
    note: Mapping[str, Any] = field(default_factory=dict)
    rivals: tuple[tuple[Configuration, float], ...] = ()


@by_place
@dataclass(frozen=True, slots=True, kw_only=True)
class BuildRequest:
    """One candidate for a compile worker."""

    trial: int
    variant: Variant
    resolved: Resolved


@by_place
@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """A compiled candidate, or why there is none.

    Attributes:
        status: ``ok``, ``build_error``, ``timed_out``, ``crashed`` (the compiler), ``out_of_resources``, ``refused``.
        message: one line for people when the status is not ``ok``.
        code: the object code; empty when the status is not ``ok``.
        digest: SHA-256 of ``code``.
        key: equal for builds that must behave and perform alike: normalised object code, geometry and run-time
            scalars (design: "Equal work is done once").
        features: static features by name with units in the names.
        seconds: wall time by part, for example ``{"frontend": x, "passes": y, "codegen": z}``.
        artifacts: texts worth keeping for people: optimised IR, assembly, compiler output.
    """

    status: Status
    message: str = ""
    code: bytes = b""
    digest: str = ""
    key: str = ""
    features: Mapping[str, float] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)
    artifacts: Mapping[str, str] = field(default_factory=dict)


@by_place
@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What the verification says of one candidate.

    ``detail`` is plain JSON: the workload, argument, index, value and expected value that failed; or the largest
    error in units of the allowance.
    """

    status: Status
    message: str = ""
    detail: Mapping[str, Any] = field(default_factory=dict)
    wall_s: float = 0.0


@by_place
@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """Timed calls of one candidate in one process on one problem.

    Attributes:
        status: ``ok``, or why the batch does not count.
        problem: which of the task's problems.
        times_s: seconds of single calls, in the order in which they ran (thread CPU clock for one thread, wall
            clock for several).
        claimed_s: the whole batch by the child's clock; ``observed_s``: by the parent's reading of the child's CPU
            clock; ``wall_s``: by the parent's own clock.
        notes: load, migrations, frequency and the like; plain JSON.
    """

    status: Status
    problem: int = 0
    times_s: tuple[float, ...] = ()
    claimed_s: float = 0.0
    observed_s: float = 0.0
    wall_s: float = 0.0
    message: str = ""
    notes: Mapping[str, Any] = field(default_factory=dict)
