"""Operators on arrays: packing a tile into a local buffer, padding and swapping the layout of local arrays."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from tuner.spaces.source.affine import polynomial
from tuner.spaces.source.kinds import plain_type, types_of
from tuner.spaces.source.operators.base import (
    HOST,
    Args,
    Keys,
    Operator,
    Refused,
    Site,
    all_loops,
    argument,
    attempt,
    declarations_where,
    define,
    for_each_loop,
    fresh_name,
    knowing_members,
    known_loop,
    loops_of,
    only_declaration,
    parameter,
    replace_statement,
    require_known,
)
from tuner.spaces.source.operators.bounds import subtract
from tuner.spaces.source.operators.values.scalars import references
from tuner.spaces.source.syntax import (
    Assign,
    Binary,
    Decl,
    Expr,
    ExprStmt,
    For,
    Function,
    If,
    Index,
    Name,
    Unary,
)
from tuner.spaces.source.walks import exchanged, index_chain, names_in, subtrees, transform, written_names

__all__ = ["OPERATORS"]

_LARGEST = 1 << 17


def pack(function: Function, args: Args) -> Function:
    """Copies the tile of an array that a loop's body reads into a local buffer without gaps.

    The elements of the whole tile are read, also where the body would skip some of them.

    Takes ``loop``, one over tiles; ``array``; ``swap`` to store the tile transposed.
    """
    loop, found = known_loop(function, args)
    array = argument(args, "array")
    if array in found.scan.written or array not in found.scan.pointers:
        raise Refused(f"{array} is written in loop {loop.key}, or is no array of the caller")
    if any(isinstance(n, If) for n in subtrees(loop.body)):
        raise Refused(f"loop {loop.key} holds a condition that may guard {array}")
    reference, points = _tile_of(loop, array)
    sizes = [_size(function, p) for p in points]
    if args.get("swap") is True:
        points, sizes = points[::-1], sizes[::-1]
    name = fresh_name(function, f"{array}_tile")
    kind = plain_type(types_of(function).get(array, ""))
    place: Expr = Name(name)
    for point in points:
        place = Index(place, subtract(Name(point.var), point.start))
    copy: For | ExprStmt = ExprStmt(Assign("=", place, reference))
    keys = Keys(function)
    for point in sorted(points, key=lambda p: _innermost(reference, p)):
        copy = replace(point, key=keys.new(point.var), body=(copy,), pragmas=())

    body = exchanged(loop.body, reference, place)
    buffer = Decl(kind, name, tuple(sizes), None, "__attribute__((aligned(64)))")
    made = replace(loop, body=(buffer, copy, *body))
    return replace_statement(function, loop, [made])


def _tile_of(loop: For, array: str) -> tuple[Index, list[For]]:
    """The one reference to an array in a loop, and the point loops that move it, as its subscript names them."""
    refs = references(loop.body, array)
    if not refs or any(r != refs[0] for r in refs):
        raise Refused(f"loop {loop.key} does not read {array} in one way")
    names = names_in(refs[0]) - {array}
    fixed = written_names(loop.body)
    points: dict[str, For] = {}
    for inner_loop in loops_of(loop.body):
        if inner_loop.var not in names:
            continue
        if inner_loop.var in points and _range(points[inner_loop.var]) != _range(inner_loop):
            raise Refused(f"{array} is read in loops with different bounds")
        points[inner_loop.var] = inner_loop
        if not names_in((inner_loop.start, inner_loop.limit)).isdisjoint(fixed) or not inner_loop.by_one:
            raise Refused(f"the range of {inner_loop.key} changes inside loop {loop.key}")
    if not points:
        raise Refused(f"{array} does not move inside loop {loop.key}")
    if names & fixed - set(points):
        raise Refused(f"a subscript of {array} changes inside loop {loop.key}")
    ordered = sorted(points.values(), key=lambda p: _innermost(refs[0], p), reverse=True)
    return refs[0], ordered


def _range(loop: For) -> tuple[Expr | str, ...]:
    return loop.start, loop.op, loop.limit, loop.step


def _innermost(reference: Index, point: For) -> int:
    """0 for the counter that moves to the next element, more for those that move further."""
    _, subscripts = index_chain(reference)
    for distance, subscript in enumerate(reversed(subscripts)):
        poly = polynomial(subscript, {point.var})
        if poly is None:
            raise Refused("a subscript is not affine")
        degrees = [len(m) for m in poly if point.var in m]
        if degrees:
            return 16 * distance + max(degrees)
    return 0


def _size(function: Function, point: For) -> Name:
    """How many points a tile has at most: the step of the loop whose counter the point loop starts from."""
    if isinstance(point.start, Name):
        for tile in all_loops(function):
            if tile.var == point.start.id and isinstance(tile.step, Name):
                return tile.step
    raise Refused(f"loop {point.key} does not run over a tile")


@for_each_loop
def _pack_sites(function: Function, loop: For) -> Iterator[Site]:
    arrays = {p.name for p in function.params if p.is_array} - written_names(loop.body)
    used = (
        {n.id for n in subtrees(loop.body) if isinstance(n, Name)} if isinstance(loop.step, Name) else set()
    )
    for array in sorted(arrays & used):
        sizes = attempt(lambda array: [_size(function, p).id for p in _tile_of(loop, array)[1]], array)
        for turned in (False, True)[: len(sizes)] if sizes else ():
            site = {"loop": loop.key, "array": array, "swap": turned}
            limits = [f"{' * '.join(sizes or ())} <= {_LARGEST}"]
            yield site | {"constraints": limits, "assumes": ["elements exist"]}


def _rows(function: Function, args: Args) -> Decl:
    """A local array of which all is known, of two dimensions or more."""
    name = argument(args, "array")
    found = only_declaration(function, name)
    if found is None or not found.dims or found.init is not None:
        raise Refused(f"{name} is not one local array without initial values")
    depth = len(found.dims)
    for node in subtrees(function.body):
        if isinstance(node, Unary) and node.op == "&" and name in names_in(node):
            raise Refused(f"the address of {name} is taken")
    whole = sum(index_chain(n)[0] == Name(name) for n in subtrees(function.body) if isinstance(n, Index))
    uses = sum(n == Name(name) for n in subtrees(function.body))
    if whole != uses * depth:
        raise Refused(f"{name} is used as a whole")
    require_known(function.body, "the function")
    if depth < 2:
        raise Refused(f"{name} has no rows")
    return found


def pad(function: Function, args: Args) -> Function:
    """Makes the rows of a local array longer, so that columns do not fall on the same cache sets.

    Takes ``array``; one of ``parameters``.
    """
    decl = _rows(function, args)
    made, (size,) = define(function, args, 1)
    longer = replace(decl, dims=(*decl.dims[:-1], Binary("+", decl.dims[-1], size)))
    body = transform(made.body, lambda n: longer if n == decl else n)
    return replace(made, body=body)


def swap_layout(function: Function, args: Args) -> Function:
    """Exchanges the last two dimensions of a local array.

    Takes ``array``.
    """
    decl = _rows(function, args)
    swapped = replace(decl, dims=(*decl.dims[:-2], decl.dims[-1], decl.dims[-2]))
    depth = len(decl.dims)

    def change(node: Any) -> Any:
        if node == decl:
            return swapped
        if isinstance(node, Index) and isinstance(node.base, Index):
            base, subscripts = index_chain(node)
            if base == Name(decl.name) and len(subscripts) == depth:
                return Index(Index(node.base.base, node.index), node.base.index)
        return node

    return replace(function, body=transform(function.body, change))


def align(function: Function, args: Args) -> Function:
    """Lets a local array begin with a cache line, which every local array may.

    Takes ``array``.
    """
    name = argument(args, "array")
    found = only_declaration(function, name)
    if found is None or not found.dims or "static" in found.type.split():
        raise Refused(f"{name} is not one local array")
    if found.suffix:
        raise Refused(f"{name} is told about already")
    told = replace(found, suffix="__attribute__((aligned(64)))")
    return replace(function, body=transform(function.body, lambda n: told if n is found else n))


_array_sites = declarations_where(lambda decl: decl.dims and not decl.suffix, "array")
_local_sites = declarations_where(lambda decl: len(decl.dims) > 1, "array")


def _pad_sites(function: Function, _: bool) -> Iterator[Site]:
    for site in _local_sites(function, False):
        yield {**site, "parameters": [parameter(function, f"PAD_{site['array']}", (0, 1, 4, 8, 16), 0)]}


OPERATORS = (
    Operator(pack, _pack_sites, "copies a tile into a local buffer", languages=HOST),
    knowing_members(align, _array_sites, "aligns a local array", languages=HOST),
    knowing_members(pad, _pad_sites, "pads the rows of a local array"),
    knowing_members(swap_layout, _local_sites, "swaps the dimensions of a local array"),
)
