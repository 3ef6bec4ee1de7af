"""What a device's compiler is told, and loads that it would not make by itself: bounds, read-only loads, vectors.

May not judge what is fast.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from tuner.core.polynomials import variable
from tuner.spaces.source.affine import polynomial
from tuner.spaces.source.operators.base import (
    DEVICE,
    Args,
    Keys,
    Operator,
    Refused,
    Site,
    argument,
    define,
    for_each_loop,
    fresh_name,
    knowing_members,
    loops_of,
    parameter,
    replace_statement,
)
from tuner.spaces.source.operators.bounds import add, left_over, upper_end
from tuner.spaces.source.operators.devices.guards import is_always_read
from tuner.spaces.source.operators.devices.threads import (
    block_text,
    dims_of,
    launch_of,
    read_only,
    works_with_group,
)
from tuner.spaces.source.operators.simple_loops import simple_loop
from tuner.spaces.source.syntax import (
    Binary,
    Block,
    Call,
    Cast,
    Decl,
    Expr,
    For,
    Function,
    Index,
    Name,
    Number,
    Opaque,
    Stmt,
    Ternary,
    Unary,
)
from tuner.spaces.source.walks import (
    exchanged,
    map_expressions,
    names_in,
    substitute,
    subtrees,
    written_names,
)

__all__ = ["OPERATORS"]

_LEAST_BLOCKS = (1, 2, 3, 4, 6, 8)
_VECTOR = 4
_FIELDS = "xyzw"
_OF_FOUR = {
    "float": "float4",
    "int": "int4",
    "double": "double4",
    "unsigned": "uint4",
    "unsigned int": "uint4",
}


def launch_bounds(function: Function, args: Args) -> Function:
    """Tells the compiler how large a group is, and for CUDA how many should fit on a multiprocessor.

    Source: CUDA C++ Programming Guide, "Launch Bounds"; OpenCL C, "reqd_work_group_size".

    Args:
        function: a kernel without such a word.
        args: for CUDA one of ``parameters``: blocks on a multiprocessor.
    """
    launch_of(function)
    if re.search(r"__launch_bounds__|reqd_work_group_size", function.head):
        raise Refused("the size of a group is told already")
    sizes = [block_text(function, axis) for axis in range(3)]
    if function.language == "opencl":
        told = f"__attribute__((reqd_work_group_size({', '.join(sizes)}))) "
        made = function
    else:
        made, (least,) = define(function, args, 1)
        items = " * ".join(sizes[: dims_of(function)])
        told = f"__launch_bounds__({items}, {least.id}) "
    head = f"{function.head}{told}"
    signature = f"{head}{function.signature.removeprefix(function.head)}" if function.signature else ""
    return replace(made, head=head, signature=signature)


def read_only_loads(function: Function, args: Args) -> Function:
    """Reads elements that the kernel does not write through the read-only cache (``__ldg``).

    Args:
        function: a CUDA kernel.
        args: ``array``.
    """
    array = argument(args, "array")
    if read_only(function).get(array) not in _OF_FOUR:
        raise Refused(f"{array} is not only read, or not of single numbers")
    if any(
        isinstance(n, Unary) and n.op == "&" and _element_of(n.operand, array)
        for n in subtrees(function.body)
    ):
        raise Refused(f"an address in {array} is taken already")

    def change(expr: Expr) -> Expr:
        if _element_of(expr, array):
            return Call("__ldg", (Unary("&", expr),))
        return expr

    return replace(function, body=map_expressions(function.body, change))


def _element_of(expr: Expr, array: str) -> bool:
    return isinstance(expr, Index) and expr.base == Name(array)


def vector_loads(function: Function, args: Args) -> Function:
    """Loads four neighbouring elements at once in an innermost loop, and does four of its iterations with them.

    OpenCL's ``vload4`` needs no alignment; in CUDA iterations go one by one where the first address is not aligned.

    Args:
        function: a kernel.
        args: ``loop``; ``array``, which is only read, at the loop's pace.
    """
    loop, array = simple_loop(function, args), argument(args, "array")
    element = read_only(function).get(array, "")
    if len(loops_of(loop)) > 1 or element not in _OF_FOUR or loop.var in written_names(loop.body):
        raise Refused(f"loop {loop.key} is not the innermost, or {array} is not only read")
    reads = {n for n in subtrees(loop.body) if isinstance(n, Index) and n.base == Name(array)}
    moving = {loop.var, *written_names(loop.body)}
    for read in reads:
        poly = polynomial(read.index, moving)
        if poly is None or {m: c for m, c in poly.items() if not moving.isdisjoint(m)} != variable(loop.var):
            raise Refused(f"{array} is not read at the loop's pace")
    if len(reads) != 1:
        raise Refused(f"{array} is not read at one place in loop {loop.key}")
    read = reads.pop()
    _require_lanes(function, loop, array, read)
    keys = Keys(function)
    four = fresh_name(function, f"{array}_four")
    end, size = upper_end(loop), Number(str(_VECTOR))
    whole = left_over(function, loop, size, end)
    limit = fresh_name(function, f"{loop.var}_whole")
    kind = loop.type or "int"
    body: list[Stmt] = [Decl(f"const {_OF_FOUR[element]}", four, (), _load(function, element, read))]
    for number in range(_VECTOR):
        lane: Expr = Opaque(f"{four}.{_FIELDS[number]}")
        part = exchanged(loop.body, read, lane)
        body.append(Block(substitute(part, loop.var, add(Name(loop.var), Number(str(number))))))
    bound: Expr = whole
    if function.language == "cuda":
        first = substitute(read, loop.var, loop.start)
        address = Cast("unsigned long long", Unary("&", first))
        bound = Ternary(Binary("==", Binary("%", address, Number("16")), Number("0")), whole, loop.start)
    main = replace(loop, op="<", limit=Name(limit), step=size, body=tuple(body), pragmas=())
    rest = keys.over(loop, Name(limit), end)
    before = Decl(f"const {kind}", limit, (), bound)
    return replace_statement(function, loop, [Block((before, main, rest))])


def _require_lanes(function: Function, loop: For, array: str, read: Index) -> None:
    """Refuses a loop of which four iterations together would read, or do, what they did not one by one."""
    if not is_always_read(loop.body, read):
        raise Refused(f"{array} is not read in every iteration of loop {loop.key}")
    # In CUDA it depends on the item, by its alignment, which of two loops it goes through.
    if function.language == "cuda" and works_with_group(function, loop.body):
        raise Refused(f"the items of a group meet in loop {loop.key}")


def _load(function: Function, element: str, read: Index) -> Expr:
    if function.language == "opencl":
        return Call("vload4", (Number("0"), Unary("&", read)))
    return Unary("*", Cast(f"const {_OF_FOUR[element]} *", Unary("&", read)))


def _bound_sites(function: Function, _: bool) -> Iterator[Site]:
    if function.launch is None or not function.whole:
        return
    least = parameter(function, "MIN_BLOCKS", _LEAST_BLOCKS, 1)
    yield {} if function.language == "opencl" else {"parameters": [least]}


def _array_sites(function: Function, _: bool) -> Iterator[Site]:
    used = {n.id for n in subtrees(function.body) if isinstance(n, Name)}
    yield from ({"array": array} for array in read_only(function) if array in used)


@for_each_loop
def _vector_sites(function: Function, loop: For) -> Iterator[Site]:
    if len(loops_of(loop)) == 1 and loop.by_one:
        used = names_in(loop.body)
        yield from ({"loop": loop.key, "array": array} for array in read_only(function) if array in used)


OPERATORS = (
    knowing_members(launch_bounds, _bound_sites, "tells the size of a group", languages=DEVICE),
    Operator(read_only_loads, _array_sites, "reads through the read-only cache", languages=("cuda",)),
    Operator(vector_loads, _vector_sites, "loads four elements at once", languages=DEVICE),
)
