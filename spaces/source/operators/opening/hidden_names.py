"""Variables that take the name of one around them, under names of their own.

``int i; … for (int i = 0; …)`` has two variables that operators, which go by names, cannot tell apart. May not change
which variable is meant.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tuner.spaces.source.kinds import Refused, hidden
from tuner.spaces.source.lexical import unused, words
from tuner.spaces.source.operators.naming import names_known, names_taken
from tuner.spaces.source.operators.operator import Args, opener, where_it_applies
from tuner.spaces.source.syntax import Call, Cast, Decl, For, Function, Name, Opaque, OpaqueStmt, Stmt
from tuner.spaces.source.walks import names_in, opaque_words, transform, with_bodies

__all__ = ["OPERATORS", "with_other_name"]

Body = tuple[Stmt, ...]


def rename_hidden(function: Function, _: Args) -> Function:
    """Gives each variable a name of its own that is declared where its name already means something."""
    if not hidden(function):
        raise Refused("no name is declared again where it already means something")
    outer = {d.name for d in function.outer if d.name in function.read_after}
    renaming = _Renaming(names_taken(function) | names_known(function))
    made = replace(
        function, body=renaming.body(function.body, frozenset(outer.union(p.name for p in function.params)))
    )
    if hidden(made):
        raise Refused(f"{hidden(made)} cannot be told apart from the one around it")
    return made


class _Renaming:
    """Renames from the inside out, so that a name in the scope of a variable is always that variable's.

    Args:
        taken: names that no variable may get.
    """

    def __init__(self, taken: set[str]) -> None:
        self._taken = taken

    def body(self, body: Body, known: frozenset[str]) -> Body:
        """Statements, of which ``known`` are the names that mean something before them."""
        scopes = []
        for stmt in body:
            scopes.append(known)
            known |= {stmt.name} if isinstance(stmt, Decl) else frozenset()
        made: Body = ()
        for stmt, around in zip(reversed(body), reversed(scopes), strict=True):
            made = self._with(stmt, around, made)
        return made

    def _with(self, stmt: Stmt, known: frozenset[str], behind: Body) -> Body:
        """A statement with those behind it, which have been looked at."""
        if isinstance(stmt, Decl):
            if stmt.name not in known:
                return (stmt, *behind)
            if "extern" in stmt.type.split():
                raise Refused(f"{stmt.name} is declared elsewhere")
            _require_another_value(stmt.name, (stmt.dims, stmt.init))
            name = self._fresh(stmt.name)
            return (replace(stmt, name=name), *with_other_name(behind, stmt.name, name))
        counter = {stmt.var} if isinstance(stmt, For) and stmt.type else set()
        made: Stmt = with_bodies(stmt, lambda part: self.body(part, known | counter))
        if isinstance(made, For) and made.type and made.var in known:
            _require_another_value(made.var, made.start)
            name = self._fresh(made.var)
            limit, step, inner = with_other_name((made.limit, made.step, made.body), made.var, name)
            # Its directives stand before it, where the other one is meant.
            made = replace(made, var=name, limit=limit, step=step, body=inner)
        return (made, *behind)

    def _fresh(self, name: str) -> str:
        made = unused(name, self._taken | {name})
        self._taken.add(made)
        return made


def _require_another_value(name: str, value: Any) -> None:
    if name in names_in(value) | opaque_words(value):
        raise Refused(f"{name} is given a value by its own name")


def with_other_name(part: Any, old: str, new: str) -> Any:
    """A part in which one variable has another name.

    Args:
        part: a statement or an expression, or several; what it means by the name is that variable.
        old: its name.
        new: one that nothing has.

    Raises:
        Refused: the name stands in text that is not read.
    """

    def change(node: Any) -> Any:
        if old in words(_text_of(node)):
            raise Refused(f"{old} stands in text that is not read")
        match node:
            case Name(id=name) if name == old:
                return Name(new)
            case For(var=var) if var == old:
                return replace(node, var=new)
            case Call(function=name) if name == old:
                raise Refused(f"{old} is called")
        return node

    return transform(part, change)


def _text_of(node: Any) -> str:
    """What of a node is text: of itself, without what is below it."""
    match node:
        case Opaque(text=text) | OpaqueStmt(text=text):
            return text
        case Decl():
            return f"{node.type} {node.suffix}"
        case Cast(type=kind):
            return kind
        case For(pragmas=pragmas):
            return " ".join(pragmas)
    return ""


OPERATORS = (
    opener(
        rename_hidden,
        where_it_applies(rename_hidden),
        "variables that hide others, under names of their own",
        hides=True,
    ),
)
