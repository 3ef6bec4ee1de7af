"""Global variables that a function and what it calls use, as parameters that are handed on from call to call.

Everything else of first specs then sees arguments. Static variables of a file that are only ever scratch are none:
every function gives them a value before it asks for it. Fortran's common blocks became such in C, and compilers keep
them in registers where nothing reads what is stored. May not compile; clang is asked for types.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

from tuner.core.errors import BaselineError
from tuner.core.reaching import reachable
from tuner.spec.first.members import quoted
from tuner.spec.first.uses import Lookup
from tuner.spec.reading.c_types import ROWS, CType
from tuner.spec.reading.given_values import given_first, kept_values
from tuner.spec.reading.lookup import functions_of
from tuner.spec.reading.made_nodes import rebuilt
from tuner.spec.reading.nodes import Node, body_of, named_in, parameter_nodes, paths, plain_type, walk
from tuner.spec.reading.record_layouts import variable_kind
from tuner.spec.reading.signature import Function, SourceReader
from tuner.spec.reading.symbols import WholeName, names_in_symbols
from tuner.spec.reading.trees import THROUGH, callee_name, inner_nodes, referenced

__all__ = ["NO_ARGUMENT", "Variable", "used_variables", "with_globals"]

NO_ARGUMENT = "no argument can stand for"
"""How a comment of a first spec begins on a variable that recordings do not have either."""
_COMPARED = ("<", "<=", ">", ">=", "==", "!=")


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """A variable outside of functions.

    Attributes:
        name: with the namespaces and classes that it is in.
        kind, itself: types of its address and of itself.
        offered: whether it is known that other files may use it.
    """

    name: str
    kind: CType
    itself: CType
    offered: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Globals:
    """A function that gets its global variables as parameters.

    Attributes:
        function: with a parameter for each, behind its own.
        lookup: gives functions as they are called by this one: they take them too.
        written: by the last parts of their names what a spec has for those: `"ns::grid", global: true`.
        flags: those of whole numbers that are only compared, to decide what is done.
        doubts: what is said of those that no argument can stand for.
    """

    function: Function
    lookup: Lookup
    written: Mapping[str, str] = field(default_factory=dict)
    flags: frozenset[str] = frozenset()
    doubts: tuple[str, ...] = ()


def with_globals(
    function: Function, lookup: Lookup, reader: SourceReader, allocated: Mapping[str, int]
) -> Globals:
    """The function with a parameter for each variable outside of functions that it, or what it calls, uses.

    Args:
        function: with its tree.
        lookup: gives other functions by name.
        reader: of the sources, for types.
        allocated: bytes behind global pointers by their names, as far as they are known.
    """
    listed = _listed(function, lookup, reader)
    reached, text = _reached(function, lookup), reader.files[0].text
    kept = [said for each in reached for said in kept_values(each, text)]
    kinds, names, doubts = listed.kinds, listed.names, (*kept, *listed.doubts)
    if not kinds:
        return Globals(function=function, lookup=lookup, doubts=doubts)
    rows = {name: _rows(kinds[name], allocated.get(name, 0)) for name in names if names[name] == "pointer"}
    needed = _needed(reached, kinds)

    @cache
    def find(name: str) -> Function | None:
        found = lookup(name)
        return None if found is None else _handed(found, kinds, rows, needed)

    integers = {name for name, kind in kinds.items() if kind.dtypes[0].startswith(("int", "uint", "bool"))}
    flags = frozenset(integers).difference(*(_reckoned(each.tree, _own(each.tree)) for each in reached))
    return Globals(
        function=_handed(function, kinds, rows, needed),
        lookup=find,
        written={name: f"{quoted(listed.whole[name])}, global: {what}" for name, what in names.items()},
        flags=flags,
        doubts=doubts,
    )


@dataclass(slots=True)
class _Listed:
    """Of variables by the last parts of their names types, what `global` is and whole names; doubts about others."""

    kinds: dict[str, CType] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    whole: dict[str, str] = field(default_factory=dict)
    doubts: list[str] = field(default_factory=list)


def _listed(function: Function, lookup: Lookup, reader: SourceReader) -> _Listed:
    """Those of a function, and what is said of the others."""
    found = _Listed()
    own = {name for name, _ in function.parameters}
    alone: list[str] = []
    for name, variable in used_variables(function, lookup, reader).items():
        if variable is None or name in own:
            why = "the end of the file cannot name it, or something else has its name"
            found.doubts.append(f"{NO_ARGUMENT} the variable {name}: {why}")
            continue
        itself, found.whole[name] = variable.itself, variable.name
        kind = variable_kind(reader, variable.name, variable.kind)
        if kind.odd == ROWS and not itself.odd and itself.dtypes:
            found.kinds[name], found.names[name] = itself, "pointer"
        elif kind.odd or not kind.dtypes:
            what = kind.text.replace(" (*)", "").removesuffix("*").strip()
            found.doubts.append(f"{NO_ARGUMENT} the global {name}, `{what}`")
        elif not kind.constant:
            number = not kind.inner and not _is_structure(kind)
            found.kinds[name], found.names[name] = replace(kind, reference=number), "true"
            alone += [name] if number and not variable.offered else []
    for name in file_temporaries(function, alone, reader):
        del found.kinds[name], found.names[name]
    return found


def used_variables(function: Function, lookup: Lookup, reader: SourceReader) -> dict[str, Variable | None]:
    """The variables outside of functions that a function, or what it calls, uses, by the last parts of their names.

    ``None`` for one that the end of the file cannot name, or of which there are several.
    """
    used = {str(meant["name"]): meant for each in _reached(function, lookup) for meant in _used(each)}
    if reader.language != "c++" or not used:
        return _types({name: WholeName(name) for name in used}, reader)
    named = names_in_symbols(reader, function.qualified, used)
    # Of a constant there may be no trace; another file's variable is one that this one cannot name.
    elements = {name: plain_type(meant).partition("[")[0] for name, meant in used.items()}
    others = [name for name in used if name not in named and "const" not in elements[name].split()]
    named = {**named, **{name: WholeName(name) for name in others}}
    found = _types({name: whole for name, whole in named.items() if whole.name}, reader)
    return {name: found.get(name) for name in used if name in named}


def _reckoned(node: Node, own: Collection[str], *, asked: bool = False) -> frozenset[str]:
    """Names of variables whose values do more than decide what is done: they are more than compared.

    Args:
        node: whose names are meant.
        own: identities of the function's own variables: what is compared with a counter, or chosen by one, is data.
        asked: whether only a decision depends on its value.
    """
    inner = inner_nodes(node)
    kind, operator = node.get("kind"), node.get("opcode")
    if kind == "DeclRefExpr":
        return frozenset() if asked else frozenset({str(node.get("referencedDecl", {}).get("name", ""))})
    if asked and (kind == "ArraySubscriptExpr" or operator in _COMPARED):
        asked = all(referenced(part) not in own for part in walk(node))
    found = frozenset[str]()
    for place, child in enumerate(inner):
        question = (
            (kind in ("IfStmt", "ConditionalOperator") and place == 0)
            or operator in ("!", "&&", "||")
            or (asked and (kind in THROUGH or operator in _COMPARED))
            or (asked and kind == "ArraySubscriptExpr" and place == 0)
        )
        found |= _reckoned(child, own, asked=question)
    return found


def _own(tree: Node) -> frozenset[str]:
    return frozenset(node["id"] for node in walk(tree) if node.get("kind") == "VarDecl")


def _reached(function: Function, lookup: Lookup) -> list[Function]:
    """A function and those that it calls, as far as they are known."""
    found, seen = [function], {function.name}
    for caller in found:
        for name in _calls(caller):
            called = lookup(name) if name not in seen else None
            seen.add(name)
            found += [] if called is None else [called]
    return found


def _needed(reached: Sequence[Function], kinds: Mapping[str, CType]) -> dict[str, list[str]]:
    """By the names of functions the variables that they, or what they call, use."""
    found = {each.name: {str(meant["name"]) for meant in _used(each)} & kinds.keys() for each in reached}
    calls = {each.name: [name for name in _calls(each) if name in found] for each in reached}
    below = {name: reachable([name], calls.__getitem__) for name in found}
    return {n: [each for each in kinds if any(each in found[f] for f in below[n])] for n in found}


def _calls(function: Function) -> Iterator[str]:
    for node in walk(function.tree):
        if node.get("kind") == "CallExpr" and (name := callee_name(inner_nodes(node)[0])):
            yield name


def _used(function: Function) -> Iterator[Node]:
    """What a function's names of variables stand for that are not its own."""
    own = {node["id"] for node in walk(function.tree) if node.get("kind") in ("VarDecl", "ParmVarDecl")}
    for meant in named_in(function.tree):
        if meant.get("kind") == "VarDecl" and meant["id"] not in own:
            yield meant


def _handed(
    function: Function,
    kinds: Mapping[str, CType],
    rows: Mapping[str, int],
    needed: Mapping[str, Sequence[str]],
) -> Function:
    """A function that takes the variables that it needs, and hands on to what it calls what that needs."""
    own = {node["id"] for node in walk(function.tree) if node.get("kind") in ("VarDecl", "ParmVarDecl")}

    def changed(node: Node) -> Node:
        if node.get("kind") == "DeclRefExpr":
            meant = node.get("referencedDecl", {})
            name = str(meant.get("name", ""))
            if meant.get("kind") == "VarDecl" and name in kinds and referenced(node) not in own:
                made = {**node, "referencedDecl": _meant(name, kinds[name])}
                return _first_element(made) if _is_structure(kinds[name]) and not kinds[name].inner else made
        if node.get("kind") == "CallExpr":
            handed = needed.get(callee_name(inner_nodes(node)[0]), ())
            return {**node, "inner": [*node["inner"], *(_reference(name, kinds[name]) for name in handed)]}
        return node

    tree = rebuilt(function.tree, changed)
    taken = {name: kinds[name] for name in needed.get(function.name, ())}
    nodes = [{**_meant(name, kind), "inner": _extents(kind, rows.get(name))} for name, kind in taken.items()]
    before = parameter_nodes(tree)
    after = [child for child in tree["inner"] if child.get("kind") != "ParmVarDecl"]
    return replace(
        function,
        parameters=(*function.parameters, *taken.items()),
        tree={**tree, "inner": [*before, *nodes, *after]},
    )


def _is_structure(kind: CType) -> bool:
    """Whether a variable is a structure, or an array of some."""
    return bool(kind.structure or kind.members)


def _first_element(reference: Node) -> Node:
    """One structure as the element of an array of one."""
    zero = {"kind": "IntegerLiteral", "type": {"qualType": "int"}, "valueCategory": "prvalue", "value": "0"}
    return {
        "id": f"element of {reference['id']}",
        "kind": "ArraySubscriptExpr",
        "type": reference["type"],
        "valueCategory": "lvalue",
        "inner": [reference, zero],
    }


def _meant(name: str, kind: CType) -> Node:
    return {"id": f"global {name}", "kind": "ParmVarDecl", "name": name, "type": {"qualType": kind.text}}


def _reference(name: str, kind: CType) -> Node:
    return {
        "id": f"reference to {name}",
        "kind": "DeclRefExpr",
        "valueCategory": "lvalue",
        "type": {"qualType": kind.text},
        "referencedDecl": _meant(name, kind),
    }


def _extents(kind: CType, rows: int | None) -> list[Node]:
    """The type's node, as clang gives it of an array that is declared with its extents.

    Args:
        kind: of the variable.
        rows: how many lie behind a pointer, 0 where that is not known; ``None`` for an array.
    """
    made: list[Node] = []
    for extent in (*((rows,) if rows else ()), *kind.inner)[::-1]:
        made = [{"kind": "ConstantArrayType", "size": extent, "inner": made}]
    return [{"kind": "PointerType", "inner": made}] if rows == 0 else made


def _rows(kind: CType, size_bytes: int) -> int:
    """How many elements, or rows of them, fit the memory that a pointer is given."""
    bits = re.search(r"\d+$", kind.dtypes[0])
    return size_bytes // (int(bits[0]) // 8 if bits else 1) // math.prod(kind.inner)


def _types(names: Mapping[str, WholeName], reader: SourceReader) -> dict[str, Variable | None]:
    """Variables with types by their short names; ``None`` for one that the file's end cannot name.

    Args:
        names: by short ones the whole ones.
        reader: of the sources.
    """
    asked = [each for whole in names.values() for each in (f"&{whole.name}", whole.name)]
    found = reader.types(asked)
    made: dict[str, Variable | None] = dict.fromkeys(names)
    for (short, whole), kind, itself in zip(names.items(), found[::2], found[1::2], strict=True):
        if isinstance(kind, CType) and isinstance(itself, CType):
            made[short] = Variable(name=whole.name, kind=kind, itself=itself, offered=whole.offered)
    return made


def file_temporaries(function: Function, names: Collection[str], reader: SourceReader) -> set[str]:
    """Those of some variables whose values no function of the file gets from another one.

    Args:
        function: the kernel, with its tree; of other functions none is read unless this one needs no value before.
        names: of numbers that are declared outside of functions.
        reader: of the sources.

    Raises:
        MachineError: there is no clang, or it does not answer.
    """
    left = {name for name in names if re.search(rf"\bstatic\b[^;{{}}()]*\b{name}\b", reader.files[0].text)}
    left &= _given(function.tree, left)
    trees: dict[str, list[Node]] = {}
    for other in functions_of(reader.files[0].text) if left else ():
        try:
            trees[other] = [f.tree for f in reader.named(other) if f.defined]
        except BaselineError:
            return set()
    named = {other: set[str]().union(*map(_named, own)) for other, own in trees.items()}
    for own in trees.values():
        for tree in own:
            left &= _given(tree, left) | (left - _named(tree))
    # One that calls another may ask for what that one leaves.
    calls = {other: names & named.keys() for other, names in named.items()}
    below = {other: reachable(called, calls.__getitem__) for other, called in calls.items()}
    return {x for x in left if not any(x in named[f] and any(x in named[g] for g in below[f]) for f in trees)}


def _given(tree: Node, names: Collection[str]) -> set[str]:
    """Variables that a function gives a value before any use, and whose address it does not take."""
    body = body_of(tree)
    if any(node.get("kind") in ("LabelStmt", "LambdaExpr") for node in walk(body)):
        return set()
    first = given_first(body)
    found = {str(meant.get("name")) for meant in named_in(body) if meant["id"] in first}
    kept = {
        str(node["referencedDecl"].get("name"))
        for node, parents in paths(body)
        if node.get("kind") == "DeclRefExpr" and not _is_value(node, parents)
    }
    return (found & set(names)) - kept


def _is_value(node: Node, parents: Sequence[Node]) -> bool:
    """Whether a variable is read, or assigned to."""
    around = next((p for p in parents if p.get("kind") != "ParenExpr"), {})
    if around.get("castKind") == "LValueToRValue" or around.get("kind") == "CompoundAssignOperator":
        return True
    steps = around.get("opcode") in ("++", "--")
    return steps or (around.get("opcode") == "=" and around["inner"][0] is node)


def _named(tree: Node) -> set[str]:
    return {str(meant.get("name")) for meant in named_in(tree)}
