"""Which values differ between the parts of a kernel that are done together, and what writes or reads memory.

May not change a tree.
"""

from __future__ import annotations

from collections.abc import Sequence

from tuner.spaces.source.syntax import Assign, Block, Decl, For, If, Index, Name, Stmt, Unary
from tuner.spaces.source.walks import inner_bodies, names_in, operands, root_of, subtrees

__all__ = ["assigned", "differing", "reads_memory"]


def reads_memory(stmt: Stmt) -> bool:
    """Whether a statement touches elements or follows pointers."""
    return any(isinstance(n, Index) or (isinstance(n, Unary) and n.op in ("*", "&")) for n in subtrees(stmt))


def assigned(body: Sequence[Stmt]) -> set[str]:
    """Names of variables and arrays that statements assign to."""
    targets = (n.target for n in subtrees(tuple(body)) if isinstance(n, Assign))
    return {b.id for b in map(root_of, targets) if isinstance(b, Name)}


def differing(body: Sequence[Stmt], seeds: set[str]) -> set[str]:
    """Names whose values may differ where those of the seeds do."""
    found = set(seeds)

    def visit(stmts: Sequence[Stmt], under: bool) -> None:
        for stmt in stmts:
            if isinstance(stmt, Decl):
                if under or (stmt.init is not None and not found.isdisjoint(names_in(stmt.init))):
                    found.add(stmt.name)
            elif isinstance(stmt, For | If | Block):
                moves = under or not found.isdisjoint(names_in(tuple(operands(stmt))))
                if moves and isinstance(stmt, For):
                    found.add(stmt.var)
                for part in inner_bodies(stmt):
                    visit(part, moves)
            elif under or not found.isdisjoint(names_in(stmt)):
                found.update(assigned([stmt]))

    before = -1
    while len(found) > before:
        before = len(found)
        visit(body, False)
    return found
