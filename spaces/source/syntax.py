"""The tree that source transformations work on: a small, immutable part of C.

What is outside that part is kept as text in :class:`Opaque` nodes, which no operator looks into. Says what nodes there
are; :mod:`tuner.spaces.source.walks` goes through them. May not parse, print or judge.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tuner.core.compilers import CLANG
from tuner.core.types import Launch

__all__ = [
    "Assign",
    "Binary",
    "Block",
    "Call",
    "Cast",
    "Comment",
    "Decl",
    "Define",
    "Expr",
    "ExprStmt",
    "Field",
    "For",
    "Function",
    "If",
    "Index",
    "Name",
    "Number",
    "Opaque",
    "OpaqueStmt",
    "Param",
    "Stmt",
    "Ternary",
    "Unary",
]


@dataclass(frozen=True, slots=True)
class Name:
    """An identifier."""

    id: str


@dataclass(frozen=True, slots=True)
class Number:
    """A literal, spelt as in the source."""

    text: str


@dataclass(frozen=True, slots=True)
class Unary:
    """A prefix operator: ``-``, ``+``, ``!``, ``~``, ``*`` or ``&``."""

    op: str
    operand: Expr


@dataclass(frozen=True, slots=True)
class Binary:
    """An infix operator without side effect."""

    op: str
    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True)
class Ternary:
    """``condition ? then : other``."""

    condition: Expr
    then: Expr
    other: Expr


@dataclass(frozen=True, slots=True)
class Index:
    """``base[index]``."""

    base: Expr
    index: Expr


@dataclass(frozen=True, slots=True)
class Field:
    """``base.name``, a member of a plain structure or of a vector; ``p->name`` is read as ``p[0].name``.

    Attributes:
        type: of the member without qualifiers; for each subscript that an array takes a star.
        several: whether it may be several components of a vector, or one that has another name as well: ``v.xy``,
            ``v.s0``.
    """

    base: Expr
    name: str
    type: str
    several: bool = False


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a named function.

    ``own`` says, of a name that the language knows, what the project defines it as: see
    :mod:`tuner.spaces.source.own_names`. Empty where the language's own is called.
    """

    function: str
    arguments: tuple[Expr, ...]
    own: str = ""


@dataclass(frozen=True, slots=True)
class Cast:
    """``(type)operand``.

    ``form`` is how C++ writes it: ``static_cast``, or ``call`` for ``type(operand)``. They mean the same.
    """

    type: str
    operand: Expr
    form: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Assign:
    """``target op value`` with ``=``, ``+=`` and so on; ``x++`` is read as ``x += 1``."""

    op: str
    target: Expr
    value: Expr


@dataclass(frozen=True, slots=True)
class Opaque:
    """An expression of a kind that operators do not know.

    Attributes:
        line: of the text that was read on which it begins; 0 where it was not read.
    """

    text: str
    line: int = field(default=0, compare=False, repr=False)


Expr = Name | Number | Unary | Binary | Ternary | Index | Field | Call | Cast | Assign | Opaque


@dataclass(frozen=True, slots=True)
class ExprStmt:
    """An expression for its effect."""

    expr: Expr


@dataclass(frozen=True, slots=True)
class Decl:
    """One local variable; ``type`` has the qualifiers and stars, ``suffix`` attributes.

    The type of a pointer to rows is as in a cast: ``double (*)[n]``.
    """

    type: str
    name: str
    dims: tuple[Expr, ...] = ()
    init: Expr | None = None
    suffix: str = ""

    @property
    def row_element(self) -> str:
        """Of a pointer to rows the type of their elements; empty for anything else."""
        element, mark, _ = self.type.partition(" (*)")
        return element if mark else ""


@dataclass(frozen=True, slots=True)
class For:
    """A counting loop ``for (type var = start; var op limit; var += step)``.

    Attributes:
        key: the loop's label in edits: its variable, and a number where several loops share it. Unique in its
            function, kept by transformations.
        type: of a variable declared in the loop's head; empty when it is declared before.
        op: ``<``, ``<=``; with a downward step ``>``, ``>=``.
        step: what is added each time (``>`` and ``>=``: taken away), positive.
        pragmas: lines before the loop, without ``#pragma``.
    """

    key: str
    type: str
    var: str
    start: Expr
    op: str
    limit: Expr
    step: Expr
    body: tuple[Stmt, ...]
    pragmas: tuple[str, ...] = ()

    @property
    def upward(self) -> bool:
        """Whether the variable grows."""
        return self.op in ("<", "<=")

    @property
    def by_one(self) -> bool:
        """Whether each value in the range is visited."""
        return self.step == Number("1")


@dataclass(frozen=True, slots=True)
class If:
    """A conditional statement.

    Attributes:
        spare: whether ``other`` is what ``then`` was made of, for where the condition does not hold: operators are
            offered nothing in it.
    """

    condition: Expr
    then: tuple[Stmt, ...]
    other: tuple[Stmt, ...] = ()
    spare: bool = False


@dataclass(frozen=True, slots=True)
class Block:
    """A compound statement with a scope of its own."""

    body: tuple[Stmt, ...]


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment on lines of its own."""

    text: str


@dataclass(frozen=True, slots=True)
class OpaqueStmt:
    """A statement of a kind that operators do not know; ``line`` as of :class:`Opaque`."""

    text: str
    line: int = field(default=0, compare=False, repr=False)


Stmt = ExprStmt | Decl | For | If | Block | Comment | OpaqueStmt


@dataclass(frozen=True, slots=True)
class Param:
    """A parameter of a function.

    Attributes:
        base: the type without stars, qualifiers of the pointee included.
        stars: how many levels of pointer.
        qualifiers: of the pointer itself, for example ``restrict``.
        suffix: array dimensions as text.
        text: the parameter's text as given.
    """

    base: str
    stars: int
    qualifiers: tuple[str, ...]
    name: str
    suffix: str
    text: str

    @property
    def is_array(self) -> bool:
        """Whether it points to elements."""
        return self.stars > 0 or bool(self.suffix)

    @property
    def plain(self) -> bool:
        """Whether it is a scalar or one pointer to scalars."""
        return not self.suffix and self.stars <= 1 and "(" not in self.text


@dataclass(frozen=True, slots=True)
class Define:
    """A tunable's default in the emitted source."""

    name: str
    value: str


Own = tuple[tuple[str, str], ...]
"""Names with what a project defines them as."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """What one region may change of one function.

    Attributes:
        name: the function's.
        head: everything of its definition before the name.
        signature: its text up to the body's brace as given; empty once the parameters have been changed.
        params: in order.
        body: the statements that may change.
        outer: declarations of the function that lie outside the region.
        variables: arrays and fractions that the file declares outside of functions, and pointers that it keeps.
        whole: whether the region holds the definition, signature included.
        read_after: names that the function may ask for the values that they have behind the region.
        defines: tunables that were added.
        preamble: type definitions that were added.
        source: the texts of all files and of the project's headers, for names that are taken.
        file: the text of its own file, for the functions that it calls.
        beside: the kernel's other sources, where the preprocessor has been at all of them.
        macros: names that may be replaced in what is put into the text; with preprocessed sources alone.
        words: of the files as given, where the text is what the preprocessor made of them; none is a new name.
        own: names that the language knows and the project defines, with what as.
        language: of the file: ``c``, ``c++``, ``opencl`` or ``cuda``.
        launch: of the function where it is the kernel that is launched; operators may change it.
        openmp: whether it is built with OpenMP.
        compiler: whose pragmas are followed where it is built: ``clang``, ``gcc``, or empty for neither.
        members: whether its members of structures have been read, and those of functions that it calls are to be.
        taken: local pointers that members of structures were taken into, each to a buffer of its own.
        tables: likewise those that lead to rows by their addresses.
        conditions: whether what is analysed goes by the conditions around it.
        rows: parameters, tables and local pointers that lead to rows and whose elements are analysed as an array's.
    """

    name: str
    head: str
    signature: str
    params: tuple[Param, ...]
    body: tuple[Stmt, ...]
    outer: tuple[Decl, ...] = ()
    variables: tuple[Decl, ...] = ()
    whole: bool = True
    read_after: frozenset[str] = frozenset()
    defines: tuple[Define, ...] = ()
    preamble: tuple[str, ...] = ()
    source: str = ""
    file: str = ""
    beside: tuple[str, ...] = ()
    macros: frozenset[str] = frozenset()
    words: frozenset[str] = frozenset()
    own: Own = ()
    language: str = "c"
    launch: Launch | None = None
    openmp: bool = False
    compiler: str = CLANG
    members: bool = False
    taken: frozenset[str] = frozenset()
    tables: frozenset[str] = frozenset()
    conditions: bool = False
    rows: frozenset[str] = frozenset()
