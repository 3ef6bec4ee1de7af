"""A function that takes structures, as if it took the members that it uses: for whoever looks through syntax trees.

Follows structures through local pointers to them and into functions that are called with them. Guesses for a first spec
only. May not judge what is done with a member.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from tuner.spec.reading.c_types import CType, c_type
from tuner.spec.reading.methods import as_function_call, method_object
from tuner.spec.reading.nodes import Node, parameter_nodes, plain_type, walk
from tuner.spec.reading.signature import Function
from tuner.spec.reading.trees import THROUGH, callee_name, changes, inner_nodes, peeled, referenced

__all__ = ["Flat", "Member", "Structure", "Trail", "flattened"]

_MAX_CALLS = 3
_STRUCT = re.compile(r"\b(?:const|volatile|restrict|__restrict|__restrict__)\b|[*&]")
_ARRAY = re.compile(r"([^\[\]]+)((?:\[\d+\])+)")

Trail = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Structure:
    """A structure that is an argument or a member.

    Attributes:
        type: as the source writes it; empty where the outer structure says it.
        by_value: whether it is passed, or lies in the outer one, as it is.
    """

    type: str = ""
    by_value: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A member that a function uses.

    Attributes:
        trail: the argument's name and those of the members on the way, its own last.
        kind: its type; of an array in the structure that of its elements.
        extents: of an array in the structure itself.
        written: whether the member itself, no element behind it, is assigned to or has its address taken.
    """

    trail: Trail
    kind: CType
    extents: tuple[int, ...] = ()
    written: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Flat:
    """A function without structures.

    Attributes:
        function: with a parameter for each member.
        members: by the parameter's name.
        structures: by their trails.
        lost: structures that go where they cannot be followed, by their trails.
        lookup: gives functions as they are called by this one: they take members too.
    """

    function: Function
    members: Mapping[str, Member]
    structures: Mapping[Trail, Structure]
    lost: frozenset[Trail] = frozenset()
    lookup: Callable[[str], Function | None]


def flattened(function: Function, lookup: Callable[[str], Function | None]) -> Flat:
    """The function as if it took members.

    Args:
        function: with its tree, and a name for every parameter.
        lookup: gives other functions of the file and its headers by name.
    """
    return _Flattener(lookup, ()).flat(function)


class _Flattener:
    """Of one function."""

    def __init__(self, lookup: Callable[[str], Function | None], within: tuple[str, ...]) -> None:
        self._lookup = lookup
        self._within = within
        self._called: dict[str, Flat | None] = {}
        self._trails: dict[str, Trail] = {}
        """Of parameters that are structures, and of local pointers to them, by their declarations."""
        self._members: dict[Trail, Member] = {}
        self._structures: dict[Trail, Structure] = {}
        self._lost: set[Trail] = set()

    def flat(self, function: Function) -> Flat:
        """The function without structures."""
        nodes = parameter_nodes(function.tree)
        for node, (name, kind) in zip(nodes, function.parameters, strict=True):
            if _is_structure(node, kind, function.tree, self._follows):
                self._trails[node["id"]] = (name,)
                self._structures[(name,)] = Structure(type=_named(kind.text, node), by_value=not kind.pointer)
        if not self._trails:
            return Flat(function=function, members={}, structures={}, lookup=self._lookup)
        self._aliases(function.tree)
        inner = [self._rewritten(child) for child in inner_nodes(function.tree)]
        for trail in self._structures.keys() & self._members.keys():
            # Used whole here, and member by member elsewhere.
            del self._members[trail]
            self._lost.add(trail)
        names = _names(function, self._members)
        parameters: list[tuple[str, CType]] = []
        declared: list[Node] = []
        for node, (name, kind) in zip(nodes, function.parameters, strict=True):
            own = [t for t in self._members if t[0] == name] if node["id"] in self._trails else []
            if not own:
                # Of a structure nothing is used that is known here.
                parameters.append((name, kind))
                declared.append(self._rewritten(node))
            for trail in own:
                parameters.append((names[trail], self._members[trail].kind))
                declared.append(_parameter(trail, names[trail]))
        rest = [child for child in inner if child.get("kind") != "ParmVarDecl"]
        return Flat(
            function=replace(
                function,
                parameters=tuple(parameters),
                tree={**function.tree, "inner": [*declared, *rest]},
            ),
            members={names[trail]: member for trail, member in self._members.items()},
            structures=self._structures,
            lost=frozenset(self._lost),
            lookup=self._flat_lookup,
        )

    def _aliases(self, tree: Node) -> None:
        """Local pointers to structures: those behind which members are used."""
        used = {referenced(base) for base in _bases(tree)}
        for node in walk(tree):
            inner = inner_nodes(node)
            if node.get("kind") == "VarDecl" and inner and node["id"] in used:
                trail = self._trail(inner[-1])
                if trail is not None:
                    self._trails[node["id"]] = trail
                    known = Structure(by_value=_is_inside(node, inner[-1]))
                    self._structures.setdefault(trail, known)

    def _trail(self, node: Node) -> Trail | None:
        """The structure, or the member, that an expression (or its address) is."""
        cast = ""
        while inner_nodes(node) and (node.get("kind") in THROUGH or node.get("opcode") in ("*", "&")):
            if len(inner_nodes(node)) > 1:
                return None
            if node.get("castKind") == "BitCast":
                cast = _named(node["type"]["qualType"], node)
            node = inner_nodes(node)[0]
        if node.get("kind") == "DeclRefExpr":
            return self._trails.get(referenced(node))
        if node.get("kind") != "MemberExpr" or not node.get("name"):
            return None
        base = inner_nodes(node)[0]
        outer = self._trail(base)
        if outer is None:
            return None
        if len(outer) > 1 and _whole(base).get("kind") != "DeclRefExpr":
            known = self._structures.get(outer, Structure())
            starred = node.get("isArrow") or peeled(base).get("opcode") == "*"
            self._structures[outer] = replace(known, by_value=not starred)
        trail = (*outer, str(node["name"]))
        if cast:
            self._structures[trail] = Structure(type=cast)
        return trail

    def _member(self, node: Node, trail: Trail, *, written: bool = False) -> Node:
        """The parameter in the place of a member."""
        known = self._members.get(trail)
        if known is None:
            kind = c_type(node["type"])
            array = _ARRAY.fullmatch(kind.base)
            extents = tuple(int(e) for e in re.findall(r"\d+", array[2])) if array else ()
            if array:
                kind = replace(kind, base=array[1].strip(), pointer=True)
            known = Member(trail=trail, kind=kind, extents=extents)
        self._members[trail] = replace(known, written=known.written or written)
        return _reference(trail, node["type"])

    def _rewritten(self, node: Node) -> Node:
        kind, inner = node.get("kind"), inner_nodes(node)
        if kind == "MemberExpr":
            trail = self._trail(node)
            if trail is not None:
                return self._member(node, trail)
        elif kind == "VarDecl" and node["id"] in self._trails:
            return {key: value for key, value in node.items() if key != "inner"}
        elif kind == "CallExpr":
            return {**node, "inner": [inner[0], *self._passed(inner)]}
        elif kind == "CXXMemberCallExpr" and self._trail(method_object(inner[0])) is not None:
            return self._rewritten(as_function_call(node))
        taken = kind == "UnaryOperator" and node.get("opcode") == "&"
        target = inner[0] if taken or changes(node) else {}
        if peeled(target).get("kind") == "MemberExpr":
            trail = self._trail(target)
            if trail is not None:
                self._member(peeled(target), trail, written=True)
        if not inner:
            return node
        return {**node, "inner": [self._rewritten(child) for child in inner]}

    def _passed(self, inner: list[Node]) -> Iterator[Node]:
        """The arguments of a call, members in the place of structures."""
        name, arguments = callee_name(inner[0]), inner[1:]
        trails = [self._trail(argument) for argument in arguments]
        if all(trail is None for trail in trails):
            yield from (self._rewritten(argument) for argument in arguments)
            return
        flat = self._callee(name)
        original = self._lookup(name) if flat is not None else None
        known = original is not None and len(original.parameters) == len(arguments)
        for position, (argument, trail) in enumerate(zip(arguments, trails, strict=True)):
            parameter = original.parameters[position][0] if known and original is not None else ""
            if trail is not None and flat is not None and (parameter,) in flat.structures:
                yield from self._handed_on(flat, parameter, argument)
                continue
            if trail is not None and trail in self._trails.values():
                self._lost.add(trail)
            yield self._rewritten(argument)

    def _handed_on(self, flat: Flat, parameter: str, argument: Node) -> Iterator[Node]:
        trail = self._trail(argument) or ()
        by_value = flat.structures[(parameter,)].by_value
        # `f(&c->box)` and, of what is taken by value, `f(c->box)`: it lies in the other one.
        is_address = by_value or peeled(argument).get("opcode") == "&"
        for inside, structure in flat.structures.items():
            if inside[0] == parameter and len(inside) > 1:
                self._structures.setdefault((*trail, *inside[1:]), structure)
        self._lost |= {(*trail, *inside[1:]) for inside in flat.lost if inside[0] == parameter}
        if len(trail) > 1:
            self._structures.setdefault(trail, Structure(by_value=is_address))
        for member in flat.members.values():
            if member.trail[0] != parameter:
                continue
            whole = (*trail, *member.trail[1:])
            known = self._members.get(whole, replace(member, trail=whole))
            self._members[whole] = replace(known, written=known.written or member.written)
            yield _reference(whole, {"qualType": member.kind.text})

    def _flat_lookup(self, name: str) -> Function | None:
        flat = self._called.get(name)
        return flat.function if flat is not None else self._lookup(name)

    def _follows(self, call: Node) -> bool:
        """Whether a call of a method on a structure is one of a function that takes its address."""
        called, *arguments = inner_nodes(as_function_call(call))
        flat, known = self._callee(callee_name(called)), self._lookup(callee_name(called))
        taken = () if known is None else known.parameters
        return flat is not None and len(taken) == len(arguments) and (taken[0][0],) in flat.structures

    def _callee(self, name: str) -> Flat | None:
        if not name or name in self._within or len(self._within) >= _MAX_CALLS:
            return None
        if name not in self._called:
            followed = self._lookup(name)
            inside = _Flattener(self._lookup, (*self._within, name))
            named = None if followed is None else followed.with_names()
            self._called[name] = None if named is None else inside.flat(named)
        return self._called[name]


def _is_structure(node: Node, kind: CType, tree: Node, follows: Callable[[Node], bool]) -> bool:
    """Whether a parameter is one structure, or points to one: members are used, none behind a subscript.

    Methods that are called on it have to be such that can be followed.
    """
    unnamed = "(" in kind.text + kind.base
    if kind.dtypes or kind.base in ("void", "") or unnamed or kind.odd not in ("", "a reference"):
        return False
    names = {node["id"]}
    for each in walk(tree):
        inner = inner_nodes(each)
        if each.get("kind") == "VarDecl" and inner and referenced(peeled(inner[-1])) in names:
            # A loop over a container names it anew.
            names.add(each["id"])
        if each.get("kind") == "CXXMemberCallExpr" and inner:
            own = referenced(peeled(method_object(inner[0]))) in names
            if own and not follows(each):
                return False
        operator = each.get("opcode", "")
        steps = (each.get("kind") == "BinaryOperator" and operator in ("+", "-")) or operator in ("++", "--")
        if (steps or each.get("kind") == "ArraySubscriptExpr") and any(
            referenced(peeled(child)) == node["id"] for child in inner
        ):
            return False
    return True


def _whole(node: Node) -> Node:
    """What an expression, or its address, is of."""
    while len(inner_nodes(node)) == 1 and (node.get("kind") in THROUGH or node.get("opcode") in ("*", "&")):
        node = inner_nodes(node)[0]
    return node


def _is_inside(local: Node, given: Node) -> bool:
    """Whether what a local is, refers to or points to lies in the outer structure itself."""
    operator = peeled(given).get("opcode")
    return operator == "&" or ("*" not in local["type"]["qualType"] and operator != "*")


def _bases(tree: Node) -> Iterator[Node]:
    """What the members of a function are members of."""
    for node in walk(tree):
        if node.get("kind") == "MemberExpr" and inner_nodes(node):
            yield peeled(inner_nodes(node)[0])


def _named(text: str, node: Node) -> str:
    """The structure that a variable or an expression is or points to, as the source can write it."""
    plain = plain_type(node)
    # Where the pointer has a name of its own, that of the structure.
    named = text if "*" in text or "*" not in plain else plain
    return " ".join(_STRUCT.sub(" ", named).split())


def _parameter(trail: Trail, name: str) -> Node:
    return {"kind": "ParmVarDecl", "id": "member " + ".".join(trail), "name": name}


def _reference(trail: Trail, kind: Node) -> Node:
    return {"kind": "DeclRefExpr", "type": kind, "referencedDecl": _parameter(trail, trail[-1])}


def _names(function: Function, members: Iterable[Trail]) -> dict[Trail, str]:
    """A name for each member: its own where nothing else has it."""
    taken = {name for name, _ in function.parameters}
    last = [trail[-1] for trail in members]
    return {
        trail: trail[-1] if last.count(trail[-1]) == 1 and trail[-1] not in taken else "_".join(trail)
        for trail in members
    }
