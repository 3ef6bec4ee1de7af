"""Sums of one item spread over several neighbouring ones, which add up their parts by shuffles or in local memory.

Adds in another order. May not judge what is fast.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tuner.spaces.source.accesses import added_to
from tuner.spaces.source.kinds import is_floating, plain_type
from tuner.spaces.source.operators.base import (
    DEVICE,
    Args,
    Refused,
    Site,
    all_loops,
    define,
    fresh_name,
    knowing_members,
    loop_of,
    parameter,
    require_known,
    require_leave,
)
from tuner.spaces.source.operators.bounds import add, joined
from tuner.spaces.source.operators.devices.guards import is_harmless, truth
from tuner.spaces.source.operators.devices.threads import (
    Threads,
    barrier,
    block_items,
    coordinate,
    launch_of,
    read_threads,
    shared_type,
    uniform_names,
    with_launch,
)
from tuner.spaces.source.operators.simple_loops import require_simple_loop
from tuner.spaces.source.printer import expression_text, statement_text
from tuner.spaces.source.syntax import (
    Assign,
    Binary,
    Call,
    Decl,
    Expr,
    ExprStmt,
    For,
    Function,
    If,
    Index,
    Name,
    Number,
    OpaqueStmt,
    Stmt,
)
from tuner.spaces.source.walks import declared_names, exchanged, names_in, written_names

__all__ = ["OPERATORS"]

_LANES = (2, 4, 8, 16, 32)


def share_sum(function: Function, args: Args) -> Function:
    """Gives the sum that an item makes in a loop to several neighbouring items.

    CUDA threads of a warp exchange their parts by ``__shfl_xor_sync`` (CUDA C++ Programming Guide, "Warp Shuffle
    Functions"); work-items of OpenCL, which need not have sub-groups, add them up in local memory.

    Args:
        function: a kernel over one axis whose items do not wait for one another yet.
        args: ``loop``; ``reassociate``, which has to be true; one of ``parameters``: items for each sum, a power of 2.
    """
    require_leave(args, "the edit adds in another order and has no leave to")
    loop = loop_of(function, args)
    threads = read_threads(function)
    launch = launch_of(function)
    if len(launch.grid) != 1:
        raise Refused("the launch has more than one axis")
    total = _sum_of(function, threads, loop)
    made, (lanes,) = define(function, args, 1)
    body = _emit(made, threads, loop, total, lanes)
    grid = [f"({launch.grid[0].text}) * {lanes.id}"]
    return with_launch(replace(made, body=body), grid=grid)


def _sum_of(function: Function, threads: Threads, loop: For) -> Decl:
    """The variable that the loop adds to and nothing else."""
    if not any(s is loop for s in threads.body):
        raise Refused(f"loop {loop.key} is not at the outermost level of the work")
    require_simple_loop(function, loop)
    require_known(threads.body, "the kernel")
    at = next(i for i, s in enumerate(threads.body) if s is loop)
    if any(isinstance(s, For) for s in (*threads.body[:at], *threads.body[at + 1 :])):
        raise Refused("the work has more than one loop")
    outer = written_names(loop.body) - declared_names(loop.body, all_counters=True)
    sums = [d for d in threads.body[:at] if isinstance(d, Decl) and d.name in outer and not d.dims]
    if len(outer) != 1 or len(sums) != 1 or sums[0].init is None or not is_floating(sums[0].type):
        raise Refused(f"loop {loop.key} does not add to one floating-point variable alone")
    (decl,) = sums
    if decl.name not in added_to(loop.body):
        raise Refused(f"{decl.name} is not only added to")
    if any(decl.name in names_in(s) for s in threads.body[at + 1 :] if isinstance(s, Decl) and not s.init):
        raise Refused(f"{decl.name} is declared again")
    return decl


def _emit(function: Function, threads: Threads, loop: For, total: Decl, lanes: Expr) -> tuple[Stmt, ...]:
    language = function.language
    ((axis, item),) = threads.ids.items()
    number, lane = fresh_name(function, "number"), fresh_name(function, "lane")
    part, active = fresh_name(function, f"{total.name}_part"), fresh_name(function, "active")
    kind = f"const {threads.kinds[axis]}"
    at = next(i for i, s in enumerate(threads.body) if s is loop)
    head: list[Stmt] = [
        Decl(kind, number, (), coordinate(language, "global", axis)),
        Decl(kind, item, (), Binary("/", Name(number), lanes)),
        Decl("const int", lane, (), Binary("%", Name(number), lanes)),
        *threads.before,
    ]
    condition = joined("&&", threads.conditions) if threads.conditions else Number("1")
    head.append(Decl("const int", active, (), truth(condition)))
    strided = replace(
        loop,
        start=add(loop.start, Name(lane)),
        step=lanes,
        body=exchanged(loop.body, Name(total.name), Name(part)),
    )
    before = _declarations(function, threads.body[:at])
    after = (ExprStmt(Assign("+=", Name(total.name), Name(part))), *threads.body[at + 1 :])
    first = Binary("&&", Name(active), Binary("==", Name(lane), Number("0")))
    return (
        *_shared(function, total),
        *head,
        *before,
        Decl(plain_type(total.type), part, (), Number("0")),
        If(Name(active), (strided,)),
        *_joined(function, total, part, lane, lanes),
        If(first, after),
    )


def _declarations(function: Function, stmts: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """What stands before the loop, which all items do, active or not."""
    for stmt in stmts:
        if not isinstance(stmt, Decl) or stmt.dims or stmt.init is None:
            raise Refused("there is more than declarations before the loop")
        if not is_harmless(stmt.init, uniform_names(function)):
            raise Refused(f"{stmt.name} is not for items to compute that have ended")
    return stmts


def _shared(function: Function, total: Decl) -> tuple[Stmt, ...]:
    if function.language != "opencl":
        return ()
    size = block_items(function, 0)
    name = fresh_name(function, f"{total.name}_parts")
    return (Decl(shared_type("opencl", plain_type(total.type)), name, (size,)),)


def _joined(function: Function, total: Decl, part: str, lane: str, lanes: Expr) -> tuple[Stmt, ...]:
    """Adds up the parts; the first lane has the sum."""
    by = fresh_name(function, "by")
    half = Binary("/", lanes, Number("2"))

    def halving(body: tuple[Stmt, ...]) -> Stmt:
        # The loop's step depends on its variable, which a counting loop's may not: its text is all that is known.
        inside = "".join(statement_text(s, 2) for s in body)
        return OpaqueStmt(f"for (int {by} = {expression_text(half)}; {by} > 0; {by} /= 2) {{\n{inside}    }}")

    if function.language == "cuda":
        value = Call("__shfl_xor_sync", (Number("0xffffffffu"), Name(part), Name(by)))
        return (halving((ExprStmt(Assign("+=", Name(part), value)),)),)
    parts = Name(fresh_name(function, f"{total.name}_parts"))
    own = coordinate("opencl", "item", 0)
    mine, other = Index(parts, own), Index(parts, Binary("+", own, Name(by)))
    step = If(Binary("<", Name(lane), Name(by)), (ExprStmt(Assign("+=", mine, other)),))
    wait = barrier("opencl")
    return (
        ExprStmt(Assign("=", mine, Name(part))),
        wait,
        halving((step, wait)),
        ExprStmt(Assign("=", Name(part), mine)),
    )


def _sum_sites(function: Function, reassociate: bool) -> Iterator[Site]:
    launch = function.launch
    if not reassociate or launch is None or len(launch.grid) != 1:
        return
    for loop in all_loops(function):
        found = parameter(function, "LANES", _LANES, 8)
        block = launch.block[0].text
        whole = f"({block}) % {32 if function.language == 'cuda' else found['name']} == 0"
        yield {"loop": loop.key, "reassociate": True, "parameters": [found], "constraints": [whole]}


OPERATORS = (
    knowing_members(share_sum, _sum_sites, "spreads a sum over neighbouring items", languages=DEVICE),
)
