"""How a kernel of OpenCL or CUDA knows its place in the launch: group, item, sizes; blocks and grids as expressions.

Operators that change what a work-item (thread) does build on it. May not change a tree.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from tuner.core.errors import SpecError
from tuner.core.expressions import parse
from tuner.core.types import Launch
from tuner.spaces.source.constructs import UnknownConstruct
from tuner.spaces.source.kinds import is_narrow, plain_type, writable
from tuner.spaces.source.operators.base import Refused
from tuner.spaces.source.operators.devices.guards import conjuncts, is_counted, is_harmless, negated
from tuner.spaces.source.operators.naming import behind
from tuner.spaces.source.syntax import (
    Binary,
    Call,
    Cast,
    Comment,
    Decl,
    Expr,
    ExprStmt,
    Function,
    If,
    Index,
    Name,
    Number,
    OpaqueStmt,
    Stmt,
)
from tuner.spaces.source.walks import names_in, opaque_words, statements, substitute, subtrees, written_names

__all__ = [
    "AXES",
    "Threads",
    "barrier",
    "block_items",
    "block_text",
    "coordinate",
    "dims_of",
    "filled",
    "is_barrier",
    "is_exit",
    "is_return",
    "is_shared",
    "launch_of",
    "numbered",
    "over_launch",
    "place_names",
    "read_only",
    "read_threads",
    "shared_type",
    "uniform_names",
    "with_launch",
    "word_of_place",
    "works_with_group",
]

AXES = "xyz"
_WORDS = {"group": "blockIdx", "item": "threadIdx", "items": "blockDim", "groups": "gridDim"}
_CALLS = {
    "group": "get_group_id",
    "item": "get_local_id",
    "items": "get_local_size",
    "groups": "get_num_groups",
    "global": "get_global_id",
    "total": "get_global_size",
}
_BARRIERS = ("barrier", "__syncthreads", "work_group_barrier")
_SHARED = ("__local", "local", "__shared__")
_WHOLE = re.compile(r"[\w\s()+\-*/%]+")
_TOGETHER = re.compile(
    r"get_(global|local|group|sub_group|num|max|enqueued|work)_\w+|(threadIdx|blockIdx|blockDim|gridDim|warpSize)(\..*)?|"
    r"\w*barrier\w*|__sync\w+|__shfl\w*|__ballot\w*|__(any|all)(_sync)?|__activemask|__match_\w+|__reduce_\w+|"
    r"(sub|work)_group_\w+|cooperative_groups|this_(thread|grid|thread_block|cluster)|tiled_partition|"
    r"coalesced_threads|thread_rank|asm|__asm__|__shared__|__local"
)
"""Words of what an item knows of its place, or does together with its group."""


def coordinate(language: str, what: str, axis: int) -> Expr:
    """A coordinate of the launch: ``group``, ``item``, ``items`` (of a group), ``groups``, ``global``, ``total``."""
    if language == "opencl":
        return Call(_CALLS[what], (Number(str(axis)),))
    if what == "global":
        group, items = (coordinate(language, w, axis) for w in ("group", "items"))
        return Binary("+", Binary("*", group, items), coordinate(language, "item", axis))
    if what == "total":
        return Binary("*", coordinate(language, "groups", axis), coordinate(language, "items", axis))
    return Name(f"{_WORDS[what]}.{AXES[axis]}")


def over_launch(language: str, axis: int, items: Expr) -> set[Expr]:
    """The number of an item in the whole launch, of groups of so many ``items``, as people write it."""
    group, item = (coordinate(language, what, axis) for what in ("group", "item"))
    products = (Binary("*", group, items), Binary("*", items, group))
    return {form for p in products for form in (Binary("+", p, item), Binary("+", item, p))}


def barrier(language: str) -> Stmt:
    """Waits for the whole group, with its shared memory."""
    if language == "opencl":
        return ExprStmt(Call("barrier", (Name("CLK_LOCAL_MEM_FENCE"),)))
    return ExprStmt(Call("__syncthreads", ()))


def shared_type(language: str, element: str) -> str:
    """The type of an array that a group shares."""
    return f"{'__local' if language == 'opencl' else '__shared__'} {element}"


def is_barrier(stmt: Any) -> bool:
    """Whether a statement waits for the group."""
    return (
        isinstance(stmt, ExprStmt)
        and isinstance(stmt.expr, Call)
        and not stmt.expr.own
        and stmt.expr.function.startswith(_BARRIERS)
    )


def is_return(stmt: Stmt) -> bool:
    """Whether a statement ends the thread."""
    return isinstance(stmt, OpaqueStmt) and stmt.text.replace(" ", "") == "return;"


def is_exit(stmt: Stmt) -> bool:
    """Whether a statement ends the thread on a condition and does nothing else."""
    return isinstance(stmt, If) and not stmt.other and len(stmt.then) == 1 and is_return(stmt.then[0])


def launch_of(function: Function) -> Launch:
    """The launch of a whole kernel.

    Raises:
        Refused: the function is not what is launched, or its numbering does not begin at zero.
    """
    if function.launch is None or not function.whole:
        raise Refused("the function is not a whole kernel that is launched")
    if function.launch.offset:
        raise Refused("the work-items are not numbered from zero")
    return function.launch


def dims_of(function: Function) -> int:
    """How many axes the launch has."""
    return len(launch_of(function).grid)


def with_launch(function: Function, *, grid: Iterable[str], block: Iterable[str] | None = None) -> Function:
    """The kernel with other texts for its grid and block.

    Raises:
        Refused: a text is no expression.
    """
    try:
        made = replace(launch_of(function), grid=tuple(parse(text) for text in grid))
        if block is not None:
            made = replace(made, block=tuple(parse(text) for text in block))
    except SpecError as error:
        raise Refused(error.message) from None
    return replace(function, launch=made)


def block_text(function: Function, axis: int) -> str:
    """Items of a group along an axis as C text: macros and whole numbers only; 1 where there is no such axis.

    Raises:
        Refused: the size is not known where the kernel is compiled.
    """
    block = launch_of(function).block
    if axis >= len(block):
        return "1"
    text = block[axis].text.replace("//", "/")
    params = {p.name for p in function.params}
    # What is a parameter of the kernel is a size of the problem, not a macro.
    if not _WHOLE.fullmatch(text) or not params.isdisjoint(block[axis].names):
        raise Refused(f"the block {block[axis].text!r} is not known where the kernel is compiled")
    return text if re.fullmatch(r"\w+", text) else f"({text})"


def block_items(function: Function, axis: int) -> Expr:
    """:func:`block_text` as an expression."""
    text = block_text(function, axis)
    return Number(text) if text.isdigit() else Name(text)


def place_names(function: Function, axis: int | None = None) -> set[str]:
    """Names and calls by which a kernel asks where it is, along one axis or any, as they occur in its body."""
    found: set[str] = set()
    for node in subtrees(function.body):
        if isinstance(node, Call) and node.function in _CALLS.values():
            if axis is None or node.arguments == (Number(str(axis)),):
                found.add(node.function)
        elif isinstance(node, Name) and node.id.split(".")[0] in _WORDS.values():
            found |= {node.id} if axis is None or node.id.endswith(f".{AXES[axis]}") else set()
    return found


def read_only(function: Function) -> dict[str, str]:
    """Pointer parameters that the kernel only reads elements of, with their element types."""
    if any(isinstance(s, Decl) and "*" in s.type for s in statements(function.body)):
        return {}
    written = written_names(function.body) | opaque_words(function.body)
    chains = {id(n.base) for n in subtrees(function.body) if isinstance(n, Index)}
    loose = {n.id for n in subtrees(function.body) if isinstance(n, Name) and id(n) not in chains}
    found = {}
    for param in function.params:
        if not (param.plain and param.stars == 1) or param.name in written | loose:
            continue
        if not any(w in (*_SHARED, "volatile") for w in param.base.split()):
            found[param.name] = plain_type(param.base)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Threads:
    """A kernel whose items are numbered by declared variables and end early outside the problem.

    Attributes:
        ids: the variables that number items over the whole launch, by axis.
        kinds: their types.
        before: other declarations ahead of the body, in order.
        conditions: all of which an item meets that does anything.
        body: what it then does.
    """

    ids: dict[int, str]
    kinds: dict[int, str]
    before: tuple[Decl, ...]
    conditions: tuple[Expr, ...]
    body: tuple[Stmt, ...]


def read_threads(function: Function) -> Threads:
    """Takes a kernel apart into numbers of items, conditions and body.

    Raises:
        Refused: it is not of that shape, asks for its place otherwise, waits, or shares memory.
    """
    count = dims_of(function)
    ids: dict[int, str] = {}
    kinds: dict[int, str] = {}
    before: list[Decl] = []
    conditions: list[Expr] = []
    rest: list[Stmt] = [s for s in function.body if not isinstance(s, Comment)]
    uniform = uniform_names(function)
    while rest:
        stmt = rest[0]
        if isinstance(stmt, Decl) and not stmt.dims and stmt.init is not None:
            axis = _global_axis(function, stmt.init, count)
            numbers = is_counted(stmt.type) and not is_narrow(stmt.type)
            if axis is not None and axis not in ids and numbers:
                ids[axis], kinds[axis] = stmt.name, writable(stmt.type)
            elif _is_constant(stmt) and is_harmless(stmt.init, uniform - names_in(tuple(conditions))):
                before.append(stmt)
            else:
                break
        elif isinstance(stmt, If) and is_exit(stmt):
            conditions += [negated(function, part) for part in conjuncts(stmt.condition, "||")]
        else:
            break
        rest.pop(0)
    if len(rest) == 1 and isinstance(rest[0], If) and not rest[0].other:
        conditions += conjuncts(rest[0].condition, "&&")
        rest = list(rest[0].then)
    made = Threads(ids=ids, kinds=kinds, before=tuple(before), conditions=tuple(conditions), body=tuple(rest))
    _check(function, made)
    return made


def _check(function: Function, made: Threads) -> None:
    if not made.ids or not made.body:
        raise Refused("the items of the launch are not numbered by variables")
    parts: tuple[Stmt, ...] = (*made.before, *made.body, *(ExprStmt(c) for c in made.conditions))
    if place_names(replace(function, body=parts)):
        raise Refused("the kernel asks for its place in more than one way")
    found = works_with_group(function, parts)
    if found:
        raise Refused(f"the kernel asks for its place, or works with its group, by {found}")
    unknown = next((n for n in subtrees(parts) if isinstance(n, OpaqueStmt)), None)
    if unknown is not None:
        raise UnknownConstruct("the kernel", unknown)
    if any(is_barrier(n) for n in subtrees(parts)):
        raise Refused("the kernel waits for its group")
    shared = [n.type for n in subtrees(parts) if isinstance(n, Decl)] + [p.base for p in function.params]
    if any(is_shared(kind) for kind in shared):
        raise Refused("the kernel shares memory already")
    if not set(made.ids.values()).isdisjoint(written_names(parts)):
        raise Refused("the number of an item changes")


def numbered(language: str, threads: Threads, *, but: int | None = None) -> list[Decl]:
    """The variables that number items as they are declared, all or those of the other axes."""
    return [
        Decl(f"const {threads.kinds[axis]}", name, (), coordinate(language, "global", axis))
        for axis, name in threads.ids.items()
        if axis != but
    ]


def filled(threads: Threads, expr: Expr) -> Expr:
    """An expression with the kernel's own constants filled in."""
    for decl in reversed(threads.before):
        if decl.init is not None:
            expr = substitute(expr, decl.name, decl.init)
    return expr


def works_with_group(function: Function, part: Any) -> str:
    """A word by which a part asks for its item's place or does something together with its group; or nothing."""
    return word_of_place(names_in(part) | opaque_words(part) | behind(function, part))


def word_of_place(words: Iterable[str]) -> str:
    """A word by which an item asks for its place or does something together with its group; or nothing."""
    return next((w for w in sorted(words) if _TOGETHER.fullmatch(w)), "")


def is_shared(kind: str) -> bool:
    """Whether what is of this type lies in memory that a group shares."""
    return not set(kind.split()).isdisjoint(_SHARED)


def uniform_names(function: Function) -> set[str]:
    """Names that have one value for all items from beginning to end: numbers among the parameters, macros."""
    used = names_in(function.body)
    arrays = {p.name for p in function.params if p.is_array}
    return used - arrays - written_names(function.body)


def _is_constant(decl: Decl) -> bool:
    """Whether a variable keeps its first value; of a pointer the pointer itself."""
    words = decl.type.split("*")[-1].split()
    return "const" in words or "constexpr" in words


def _global_axis(function: Function, value: Expr, count: int) -> int | None:
    """The axis along which an expression numbers all items."""
    while isinstance(value, Cast) and is_counted(value.type) and not is_narrow(value.type):
        value = value.operand
    for axis in range(count):
        if value == Call("get_global_id", (Number(str(axis)),)):
            return axis
        sizes = {coordinate(function.language, "items", axis)}
        if axis < len(launch_of(function).block):
            text = launch_of(function).block[axis].text
            sizes |= {Name(text)} if text.isidentifier() else {Number(text)}
        if any(value in over_launch(function.language, axis, size) for size in sizes):
            return axis
    return None
