"""Operators that tell the compiler something: unrolling, vectorisation, restrict, const."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from tuner.core.compilers import CLANG, GCC
from tuner.spaces.source.lexical import closing
from tuner.spaces.source.operators.base import (
    DEVICE,
    HOST,
    Args,
    Keys,
    Refused,
    Site,
    all_loops,
    analyse,
    argument,
    define,
    for_each_loop,
    knowing_members,
    loop_of,
    loops_of,
    parameter,
    parameters,
    replace_statement,
    require_copies,
    require_independent,
    require_known,
    require_leave,
)
from tuner.spaces.source.operators.bounds import add, left_over, rounds_of, upper_end
from tuner.spaces.source.operators.devices.threads import is_return
from tuner.spaces.source.operators.loop_pragmas import (
    asks_unrolling,
    fully_unrolled,
    independent,
    is_under_directive,
    of_width,
)
from tuner.spaces.source.operators.simple_loops import simple_loop
from tuner.spaces.source.syntax import (
    Block,
    Call,
    Decl,
    For,
    Function,
    Name,
    Number,
    OpaqueStmt,
    Param,
    Stmt,
    Unary,
)
from tuner.spaces.source.walks import names_in, statements, substitute, subtrees, transform, written_names

__all__ = ["OPERATORS"]

_MOST_ROUNDS = 32
"""Of all loops inside one, for which a compiler writes them out and makes vectors of what is around."""


_FREE = "#pragma clang fp reassociate(on)"
_C_BLOCK = re.compile(r'\bextern\s*"C"\s*\{')


def unroll(function: Function, args: Args) -> Function:
    """Asks the compiler to unroll a loop so many times.

    Takes ``loop``; one of ``parameters``, or for gcc ``count``, a number from 2 to 16.
    """
    loop = loop_of(function, args)
    if asks_unrolling(loop):
        raise Refused(f"loop {loop.key} is asked to be unrolled already")
    if function.compiler == GCC:
        count = argument(args, "count", int)
        if not 2 <= count <= 16:
            raise Refused(f"loop {loop.key} is not to be unrolled {count} times")
        return _asked(function, loop, f"GCC unroll {count}")
    made, (number,) = define(function, args, 1)
    device = function.language in DEVICE
    return _asked(made, loop, f"unroll {number.id}" if device else f"clang loop unroll_count({number.id})")


def _asked(function: Function, loop: For, *pragmas: str, body: tuple[Stmt, ...] | None = None) -> Function:
    """The function with more pragmas before a loop, which may have another body."""
    if pragmas and is_under_directive(loop):
        raise Refused(
            f"a directive of OpenMP stands before loop {loop.key}, and nothing may stand between the two"
        )
    made = replace(loop, pragmas=(*loop.pragmas, *pragmas), body=loop.body if body is None else body)
    return replace_statement(function, loop, [made])


@for_each_loop
def _unroll_sites(function: Function, loop: For) -> Iterator[Site]:
    # Where one trip count is known, a full unroll is asked for already.
    if asks_unrolling(loop) or not function.compiler:
        return
    if function.compiler == GCC:
        yield from ({"loop": loop.key, "count": count} for count in (2, 4, 8))
    else:
        found = parameter(function, f"UNROLL_{loop.var}", (1, 2, 3, 4, 6, 8, 16), 4)
        yield {"loop": loop.key, "parameters": [found]}


def unroll_copies(function: Function, args: Args) -> Function:
    """Writes a loop's body several times, with what is left over in a loop of its own.

    Takes ``loop``; ``count`` from 2 to 8.
    """
    loop = simple_loop(function, args)
    count = argument(args, "count", int)
    require_copies(loop, count)
    if not loop.type:
        raise Refused(f"loop {loop.key} does not declare its counter")
    if loop.var in written_names(loop.body):
        raise Refused(f"{loop.var} is declared again inside loop {loop.key}")
    keys = Keys(function)
    size = Number(str(count))
    end = upper_end(loop)
    whole = left_over(function, loop, size, end)
    scoped = any(isinstance(s, Decl) for s in loop.body)
    body: list[Stmt] = []
    for number in range(count):
        part = substitute(loop.body, loop.var, add(Name(loop.var), Number(str(number))))
        part = part if number == 0 else keys.again(part)
        body += [Block(part)] if scoped else part
    main = replace(loop, limit=whole, op="<", step=size, body=tuple(body))
    return replace_statement(function, loop, [main, keys.over(loop, whole, end)])


@for_each_loop
def _copies_sites(_: Function, loop: For) -> Iterator[Site]:
    if len(loops_of(loop)) == 1 and loop.by_one and loop.type:
        for count in (2, 4, 8):
            yield {"loop": loop.key, "count": count}


def vectorize(function: Function, args: Args) -> Function:
    """Tells the compiler how wide to vectorise a loop and how many vectors to interleave.

    clang takes such a request as leave to reorder floating-point sums, so a loop with one is refused where the edit
    has no leave; with it the compiler is not told that the iterations are independent, for a sum in memory makes them
    depend on each other. Source: Clang language extensions, "Extensions for loop hint optimizations".

    gcc is told no more than that the iterations are independent: it has no words for the rest.

    Takes ``loop``; ``parameters``: width, interleaving; none for gcc.
    """
    return _vectorized(function, args)


def vectorize_masked(function: Function, args: Args) -> Function:
    """:func:`vectorize`, with what whole vectors leave over computed by a vector under a mask."""
    return _vectorized(function, args, "clang loop vectorize_predicate(enable)")


def _vectorized(function: Function, args: Args, *more: str) -> Function:
    loop = simple_loop(function, args)
    if not _is_innermost(loop):
        raise Refused(f"loop {loop.key} is not the innermost, and those inside it are not short")
    require_independent(function, loop, args)
    if _is_vectorized(loop):
        raise Refused(f"loop {loop.key} is asked to be vectorised already")
    # What is carried only because its order may change is a sum all the same.
    summed = analyse(function, [loop], {**args, "reassociate": False}).carried_by(loop.key)
    body = _written_out(function, loop.body)
    if function.compiler != CLANG:
        safe = independent(function)
        if summed or more or not safe:
            raise Refused("the compiler cannot be asked for it")
        return _asked(function, loop, *safe, body=body)
    made, (width, count) = define(function, args, 2)
    asked = ("clang loop vectorize(enable)",) if summed else independent(function)
    return _asked(made, loop, *asked, *of_width(function, width.id, count.id), *more, body=body)


def _written_out(function: Function, body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """A body whose loops the compiler is asked to write out, so that nothing but vectors of what is around is left."""

    def change(node: Any) -> Any:
        asked = isinstance(node, For) and not asks_unrolling(node) and not is_under_directive(node)
        return replace(node, pragmas=(*node.pragmas, *fully_unrolled(function))) if asked else node

    return transform(body, change)


def _is_vectorized(loop: For) -> bool:
    return any("vectorize" in p or "ivdep" in p for p in loop.pragmas)


def _vectorize_sites(function: Function, reassociate: bool) -> Iterator[Site]:
    if function.compiler == GCC and not reassociate:
        yield from ({"loop": loop.key} for loop in _vector_loops(function))
    yield from _vector_sites(function, reassociate, width=8)


def _masked_sites(function: Function, reassociate: bool) -> Iterator[Site]:
    # Half a register under a mask is not worth the mask: 8 floats were slower than no mask on Zen 5, 16 faster.
    yield from _vector_sites(function, reassociate, width=16)


def _vector_sites(function: Function, reassociate: bool, *, width: int) -> Iterator[Site]:
    for loop in _vector_loops(function) if function.compiler == CLANG else ():
        sizes = (f"WIDTH_{loop.var}", (2, 4, 8, 16, 32), width), (f"INTERLEAVE_{loop.var}", (1, 2, 4, 8), 1)
        found: Site = {"loop": loop.key, "parameters": parameters(function, *sizes)}
        yield found | ({"reassociate": True} if reassociate else {})


def _vector_loops(function: Function) -> list[For]:
    return [f for f in all_loops(function) if f.by_one and _is_innermost(f) and not _is_vectorized(f)]


def _is_innermost(loop: For) -> bool:
    """Whether a loop holds none but short ones of a known number of rounds, which compilers write out."""
    inner = [f for f in loops_of(loop) if f is not loop]
    # With a pragma of its own it may be asked for something else.
    rounds = [0 if f.pragmas else len(rounds_of(f) or ()) for f in inner]
    return all(rounds) and sum(rounds) <= _MOST_ROUNDS


def _pointers(function: Function) -> list[Param]:
    if not function.whole:
        raise Refused("the signature lies outside the region")
    return [p for p in function.params if p.plain and p.stars == 1]


def restrict(function: Function, _: Args) -> Function:
    """Promises the compiler that the buffers of the kernel do not overlap, which the tuner's never do."""
    word = "__restrict" if function.language in ("c++", "cuda") else "restrict"
    pointers = [p for p in _pointers(function) if not any("restrict" in q for q in p.qualifiers)]
    if not pointers:
        raise Refused("every pointer has it already")
    return _with_params(function, pointers, lambda p: replace(p, qualifiers=(*p.qualifiers, word)))


def const(function: Function, _: Args) -> Function:
    """Promises not to write through pointers that a device's function does not write through.

    A device's compiler may then read by another path; on the host no compiler makes other code of it.
    """
    if function.language == "cuda" and not _keeps_its_symbol(function):
        raise Refused(f'{function.name} would be another function to those who call it: it is not extern "C"')
    require_known(tuple(s for s in statements(function.body) if not _returns(s)), "the function")
    handed = [c.arguments for c in subtrees(function.body) if isinstance(c, Call)]
    followed = [u for u in subtrees(function.body) if isinstance(u, Unary) and u.op in ("*", "&")]
    other = names_in((*handed, *followed)) | written_names(function.body)
    found = [p for p in _pointers(function) if "const" not in p.base.split() and p.name not in other]
    if not found or any(isinstance(d, Decl) and "*" in d.type for d in subtrees(function.body)):
        raise Refused("no pointer could be const")
    return _with_params(function, found, lambda p: replace(p, base=f"const {p.base}"))


def _with_params(function: Function, changed: list[Param], change: Callable[[Param], Param]) -> Function:
    ids = {id(p) for p in changed}
    params = tuple(change(p) if id(p) in ids else p for p in function.params)
    return replace(function, params=params, signature="")


def _keeps_its_symbol(function: Function) -> bool:
    """Whether no one calls a function by the types of its parameters, which are part of a C++ function's name."""
    if re.search(r'\bstatic\b|\bextern\s*"C"', function.head):
        return True
    defined = re.compile(rf"\b{re.escape(function.name)}\s*\([^;{{}}]*\)[^;{{}}]*\{{")
    for block in _C_BLOCK.finditer(function.file):
        if defined.search(function.file, block.end(), closing(function.file, block.end() - 1)):
            return True
    return False


def free_sums(function: Function, args: Args) -> Function:
    """Lets the compiler add up and multiply in any order, in the whole function.

    What no dependence analysis sees through, such as sums over elements found by an index, gets vectors and several
    partial sums that way. Source: clang language extensions, "#pragma clang fp reassociate".

    Takes ``reassociate``, which has to be true.
    """
    require_leave(args, "the edit adds in another order and has no leave to")
    if function.compiler != CLANG:
        raise Refused("clang alone can be told so in the source")
    if not function.whole:
        raise Refused("the beginning of the function lies outside the region")
    if any(isinstance(s, OpaqueStmt) and s.text == _FREE for s in function.body):
        raise Refused("the function's sums are free already")
    return replace(function, body=(OpaqueStmt(_FREE), *function.body))


def _free_sites(function: Function, reassociate: bool) -> Iterator[Site]:
    if reassociate and function.whole and function.compiler == CLANG:
        yield {"reassociate": True}


def _returns(stmt: Stmt) -> bool:
    """Whether a statement is a bare return, or holds one and is looked into by itself."""
    if is_return(stmt):
        return True
    return not isinstance(stmt, OpaqueStmt) and any(is_return(s) for s in statements((stmt,)))


def _once(function: Function, _: bool) -> Iterator[Site]:
    if function.whole and function.params:
        yield {}


OPERATORS = (
    knowing_members(unroll, _unroll_sites, "asks for unrolling"),
    knowing_members(unroll_copies, _copies_sites, "writes a loop's body several times"),
    knowing_members(vectorize, _vectorize_sites, "asks for vectors of a width", languages=HOST),
    knowing_members(
        vectorize_masked,
        _masked_sites,
        "asks for vectors, with a mask for what they leave over",
        languages=HOST,
    ),
    knowing_members(free_sums, _free_sites, "lets the compiler add up in any order", languages=HOST),
    knowing_members(restrict, _once, "promises separate buffers"),
    knowing_members(const, _once, "promises not to write", languages=DEVICE),
)
