"""Variables of a device's memory outside of functions that a CUDA kernel, or what it calls, reads or writes.

Clang says which and of what types. May not know what a spec says of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath

from tuner.spec.reading.c_types import CType
from tuner.spec.reading.nodes import Node, body_of, paths, walk
from tuner.spec.reading.record_layouts import variable_kind
from tuner.spec.reading.source_trees import SourceTree
from tuner.spec.reading.trees import inner_nodes, referenced
from tuner.spec.reading.type_probes import TypeScope

__all__ = ["DeviceVariable", "device_variables"]

_MARKS = {
    "CUDAConstantAttr": "__constant__",
    "CUDADeviceAttr": "__device__",
    "HIPManagedAttr": "__managed__",
}
_FUNCTIONS = ("FunctionDecl", "CXXMethodDecl", "CXXConstructorDecl", "CXXDestructorDecl", "CXXConversionDecl")
_AROUND = ("NamespaceDecl", "LinkageSpecDecl", "CXXRecordDecl")
_SAME_PLACE = ("ParenExpr", "ConstantExpr", "MemberExpr", "ArraySubscriptExpr")
_CONVERSIONS = ("ArrayToPointerDecay", "NoOp", "BitCast", "LValueBitCast", "AddressSpaceConversion")
_UNKNOWN = CType(text="", base="", odd="not asked yet")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceVariable:
    """A variable outside of functions.

    Attributes:
        name: with the namespaces and classes that it is in; empty where nothing outside of its function can name it.
        shown: its name for people.
        mark: ``__constant__``, ``__device__`` or ``__managed__``.
        kind: the type of its address; ``odd`` where clang does not know it.
        initialised: whether the source gives it a value.
        read, written: what the kernel may do with it.
        file, line: where it is declared.
    """

    name: str
    shown: str
    mark: str
    kind: CType = _UNKNOWN
    initialised: bool = False
    read: bool = False
    written: bool = False
    file: str = ""
    line: int = 0

    @property
    def place(self) -> str:
        """File and line."""
        return f"{self.file}:{self.line}" if self.line else self.file


def device_variables(tree: SourceTree, kernel: str) -> list[DeviceVariable]:
    """The variables that the kernels of a name, or what they call, read or write, in the source's order.

    Args:
        tree: of the source.
        kernel: name without namespaces and template arguments.

    Raises:
        MachineError: there is no clang, or it does not answer.
    """
    known = _declared(tree)
    if not known:
        return []
    found: dict[str, DeviceVariable] = {}
    for function in _reached(tree, kernel):
        known |= {n["id"]: _of_function(n, function) for n in walk(function) if _mark(n)}
        for node, around in paths(function):
            variable = known.get(referenced(node)) if node.get("kind") == "DeclRefExpr" else None
            if variable is not None:
                read, written = _use(node, around)
                before = found.get(variable.shown, variable)
                found[variable.shown] = replace(
                    before, read=before.read or read, written=before.written or written
                )
    order = list(dict.fromkeys(variable.shown for variable in known.values()))
    ordered = [found[name] for name in order if name in found]
    return _typed(tree, ordered)


def _declared(tree: SourceTree) -> dict[str, DeviceVariable]:
    """Variables by the identities of their declarations; of several the definition counts."""
    by_identity: dict[str, str] = {}
    variables: dict[str, DeviceVariable] = {}
    for mark in _MARKS:
        for root, file in tree.declarations(f'"{mark}"'):
            for node, scope in _outside_functions(root, ()):
                if not _mark(node):
                    continue
                name = "::".join((*scope, str(node["name"])))
                by_identity[node["id"]] = name
                if name not in variables or node.get("storageClass") != "extern":
                    variables[name] = DeviceVariable(
                        name=name,
                        shown=name,
                        mark=_mark(node),
                        initialised=_is_initialised(node),
                        file=PurePath(file).name,
                        line=_line(tree, node, file),
                    )
    return {identity: variables[name] for identity, name in by_identity.items()}


def _outside_functions(node: Node, scope: tuple[str, ...]) -> Iterator[tuple[Node, tuple[str, ...]]]:
    if node.get("kind") == "VarDecl":
        yield node, scope
    elif node.get("kind") in _AROUND:
        plain = node.get("kind") == "LinkageSpecDecl" or node.get("isInline")
        own = (str(node["name"]),) if "name" in node and not plain else ()
        for child in inner_nodes(node):
            yield from _outside_functions(child, (*scope, *own))


def _of_function(node: Node, function: Node) -> DeviceVariable:
    """A static variable of a function."""
    shown = f"{node['name']} of {function.get('name', '')}"
    return DeviceVariable(name="", shown=shown, mark=_mark(node), initialised=_is_initialised(node))


def _is_initialised(node: Node) -> bool:
    """Whether the source gives a variable a value; a structure may be made by a call that is given nothing."""
    made = next((child for child in inner_nodes(node) if child.get("kind") == "CXXConstructExpr"), {})
    return "init" in node and not (made and not inner_nodes(made))


def _mark(node: Node) -> str:
    if node.get("kind") != "VarDecl":
        return ""
    kinds = {str(child.get("kind")) for child in inner_nodes(node)}
    return next((mark for kind, mark in _MARKS.items() if kind in kinds), "")


def _line(tree: SourceTree, node: Node, file: str) -> int:
    place = node.get("loc", {})
    offset = place.get("expansionLoc", place).get("offset")
    return 0 if offset is None else 1 + tree.text_of(file).count(b"\n", 0, int(offset))


def _reached(tree: SourceTree, kernel: str) -> Iterator[Node]:
    """The definitions of the kernels of a name, and of all that they call."""
    waiting = [
        node
        for root, _ in tree.declarations(f'"name": "{kernel}"')
        for node in walk(root)
        if node.get("kind") == "FunctionDecl" and node.get("name") == kernel and _is_kernel(node)
    ]
    seen = set[str]()
    while waiting:
        function = _definition(tree, waiting.pop(0))
        if not function or function["id"] in seen:
            continue
        seen.add(function["id"])
        yield function
        for identity in _called(function):
            node = tree.node(identity)
            waiting += [n for n in (node, *inner_nodes(node)) if n.get("kind") in _FUNCTIONS]


def _is_kernel(node: Node) -> bool:
    return any(child.get("kind") == "CUDAGlobalAttr" for child in inner_nodes(node))


def _definition(tree: SourceTree, function: Node) -> Node:
    symbol = str(function.get("mangledName", ""))
    if body_of(function) or not symbol:
        return function if body_of(function) else {}
    same = (n for root, _ in tree.declarations(f'"mangledName": "{symbol}"') for n in walk(root))
    return next((n for n in same if n.get("mangledName") == symbol and body_of(n)), {})


def _called(function: Node) -> Iterator[str]:
    """Identities of the functions that a function names."""
    for node in walk(function):
        meant: list[Mapping[str, str]] = [node.get("referencedDecl", {}), *node.get("lookups", ())]
        yield from (each["id"] for each in meant if "id" in each and each.get("kind") != "VarDecl")
        if "referencedMemberDecl" in node:
            yield str(node["referencedMemberDecl"])


def _use(node: Node, around: Sequence[Node]) -> tuple[bool, bool]:
    """Whether a use of a variable may read it, and whether it may write to it."""
    inside = node
    for parent in around:
        kind, operator, cast = parent.get("kind"), parent.get("opcode"), parent.get("castKind")
        first = bool(inner_nodes(parent)) and inner_nodes(parent)[0] is inside
        if cast == "LValueToRValue":
            return True, False
        if kind == "CompoundAssignOperator" and first:
            return True, True
        if kind == "BinaryOperator" and operator == "=" and first:
            return False, True
        same = kind in _SAME_PLACE or (kind == "UnaryOperator" and operator in ("*", "&"))
        moved = kind == "BinaryOperator" and operator in ("+", "-")
        if not (same or moved or cast in _CONVERSIONS):
            break
        inside = parent
    # Its address goes elsewhere.
    return True, "const" not in str(inside.get("type", {}).get("qualType", "")).partition("*")[0].split()


def _typed(tree: SourceTree, variables: Sequence[DeviceVariable]) -> list[DeviceVariable]:
    """The same with types."""
    named = [variable for variable in variables if variable.name]
    scope = TypeScope(tree.reader)
    kinds = scope.kinds([("address", f"__typeof__(&::{each.name}) address") for each in named])
    known = {
        each.name: variable_kind(tree.reader, f"::{each.name}", kind)
        for each, kind in zip(named, kinds, strict=True)
    }
    return [replace(each, kind=known[each.name]) if each.name else each for each in variables]
