"""What a loop uses of the function that it stands in: which variables, and what is done with each.

Read from clang's syntax tree. May not write anything.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from tuner.core.errors import UsageError
from tuner.core.source_text import source_text
from tuner.spec.reading.address_sources import is_reference
from tuner.spec.reading.declarators import POINTER, declaration
from tuner.spec.reading.given_values import given_first, lost_behind
from tuner.spec.reading.kept_addresses import ContainedFunctions, guarded, is_kept, is_whole
from tuner.spec.reading.nodes import LOOPS, Node, paths, plain_type, span_of, text_of, walk
from tuner.spec.reading.signature import Function
from tuner.spec.reading.trees import referenced

__all__ = [
    "HINT",
    "UNNAMED",
    "Variable",
    "variables_of",
]

HINT = "choose a loop around it, or write the loop into a function of its own"
"""What helps where a loop cannot be a function."""
_NAMED_TYPES = ("TypedefDecl", "TypeAliasDecl")
_TYPES = (*_NAMED_TYPES, "RecordDecl", "CXXRecordDecl", "EnumDecl")
_WORD = re.compile(r"[A-Za-z_]\w*")
_IS_ARRAY = re.compile(r"[^()]*\]|.*\(\*+\[[^\]]*\]\).*")
_CONSTANT = re.compile(r"const\b[^*&\[]*|.*\*\s*const")
_TYPE_OF = re.compile(r"\b(?:typeof|__typeof|__typeof__|decltype)\s*\(\s*(\w+)")
_CALL = re.compile(r"\w\s*\(")
_EXTENT = re.compile(r"\[([^\]]*)\]")
_NUMBER = re.compile(
    r"(?:(?:const|signed|unsigned|char|short|int|long|float|double|bool|wchar_t|char\d+_t|__int128|_Float\d+)\s*)+"
)
_COMPLEX = re.compile(r"(?:const )?_Complex [\w ]+")
_RESTRICT = re.compile(r"\*[\s\w]*\b(?:__)?restrict\b(?!.*\*)")
UNNAMED = re.compile(r"\bvolatile\b|\(unnamed|\(anonymous|\(lambda")


@dataclass(slots=True)
class Variable:
    """A variable of the function that a loop uses.

    Attributes:
        node: its declaration.
        written: its text, where it is a parameter.
        around: loops of the function that its declaration stands in.
        deduced: whether its type is not written.
        own_types: names of types that are known in the function alone.
        inside: whether the loop changes it, or hands its address on.
        shared: whether the loop may reach it by more than its name, or be left while it is changed.
        whole: whether the loop asks for an array as such.
        brought: whether the loop may use a value that it had before.
        before: whether what stands before the loop uses it.
        outside: whether what is outside of the loop may use what the loop makes of it, or the loop what was before.
        behind: whether what comes after the loop may use the value that it has then.
    """

    node: Node
    written: str
    around: frozenset[int] = frozenset()
    deduced: bool = False
    own_types: frozenset[str] = frozenset()
    inside: bool = False
    shared: bool = False
    whole: bool = False
    brought: bool = False
    before: bool = False
    outside: bool = False
    behind: bool = True

    @property
    def name(self) -> str:
        """Its name."""
        return str(self.node["name"])

    @property
    def type(self) -> str:
        """As it can be written outside of the function."""
        written = str(self.node["type"]["qualType"])
        unknown = self.deduced or self.own_types.intersection(_WORD.findall(written))
        return self.plain if unknown else written

    @property
    def declared(self) -> str:
        """As a parameter that is the variable."""
        return self.written or declaration(self.type, self.name)

    @property
    def extents(self) -> set[str]:
        """Names in the extents of an array."""
        return {word for each in _EXTENT.findall(self.declared) for word in _WORD.findall(each)}

    @property
    def plain(self) -> str:
        """Its type without names that stand for others."""
        return plain_type(self.node)

    @property
    def array(self) -> bool:
        """Whether it is an array; a parameter is none."""
        return self.node["kind"] != "ParmVarDecl" and bool(_IS_ARRAY.fullmatch(self.plain))

    @property
    def itself(self) -> bool:
        """Whether a parameter declared like it is the variable, not its value."""
        return self.array or self.reference or self.constant

    @property
    def reference(self) -> bool:
        """Whether it is another name of something."""
        return is_reference(self.node)

    @property
    def constant(self) -> bool:
        """Whether its value never changes."""
        return bool(_CONSTANT.fullmatch(self.plain))

    @property
    def restrict(self) -> bool:
        """Whether it is a pointer that is ``restrict``."""
        return bool(_RESTRICT.search(self.plain))

    @property
    def static(self) -> bool:
        """Whether it outlives a call of its function."""
        return self.node.get("storageClass") in ("static", "extern")

    def handed(self, language: str) -> str:
        """How the loop's function gets it: by ``reference``, ``value`` or ``address``; ``local`` where not at all.

        What no spec can hand by value is ``copied`` from its address.
        """
        if self.by_reference(language):
            return "reference"
        if self.itself or not self.inside or (self.outside and not self.behind):
            return "copied" if _COMPLEX.fullmatch(self.plain) else "value"
        return "address" if self.outside else "local"

    def by_reference(self, language: str) -> bool:
        """Whether no copy and no pointer of C++ may stand for it."""
        if language != "c++" or self.reference:
            return False
        if self.array:
            return self.whole
        pointer = POINTER.search(self.plain)
        return (not _NUMBER.fullmatch(self.plain) and not pointer) or (self.shared and not self.constant)


def variables_of(
    function: Function, loop: Node, text: bytes, language: str, contained: ContainedFunctions
) -> list[Variable]:
    """Variables of the function that a loop uses, and those that extents of them name, in order of declaration.

    Args:
        function: around the loop.
        loop: of its tree.
        text: of the file.
        language: ``c`` or ``c++``.
        contained: says of functions that the loop calls whether they reach no more than they are given.

    Raises:
        UsageError: one of them cannot be handed to another function.
    """
    inside = {id(node) for node in walk(loop)}
    known: dict[str, Variable] = {}
    own_types = frozenset(n["name"] for n in walk(function.tree) if n.get("kind") in _NAMED_TYPES)
    for node, parents in paths(function.tree):
        if node.get("kind") in ("VarDecl", "ParmVarDecl") and id(node) not in inside and "name" in node:
            known[node["id"]] = Variable(
                node,
                _written(node, text),
                around=_loops(parents),
                deduced=_deduced(node, text),
                own_types=own_types,
                behind=not _begins_anew(node, parents),
            )
    used, changed = _look(function, loop, known, inside)
    for key in list(used):
        used |= _extents(known[key], known, changed)
    found = [variable for key, variable in known.items() if key in used]
    back = any(variable.static for variable in found) and contained.calls_out(loop)
    caught = guarded(function, loop)
    for variable in found:
        variable.shared |= variable.static and back
        if language == "c++":
            variable.shared |= variable.inside and (variable.static or caught)
    _require_nameable(function, found, inside, _text_of(loop, text))
    if language != "c++":
        _require_unshared(found)
    return found


def _extents(variable: Variable, known: dict[str, Variable], changed: set[str]) -> set[str]:
    """The variables that extents of one name."""
    if any(map(_CALL.search, _EXTENT.findall(variable.declared))):
        raise UsageError(f"an extent of {variable.name} calls a function", HINT)
    keys = set[str]()
    for name in variable.extents:
        meant = [key for key, other in known.items() if other.name == name]
        if len(meant) > 1:
            raise UsageError(
                f"an extent of {variable.name} is {name}, which several variables are called", HINT
            )
        if meant and meant[0] in changed:
            raise UsageError(f"an extent of {variable.name} is {name}, which changes", HINT)
        keys.update(meant)
    return keys


def _text_of(loop: Node, text: bytes) -> str:
    begin, end = (p.get("expansionLoc", p) for p in (loop["range"]["begin"], loop["range"]["end"]))
    return source_text(text[begin.get("offset", 0) : end.get("offset", 0) + end.get("tokLen", 0)])


def _require_nameable(function: Function, found: list[Variable], inside: set[int], text: str) -> None:
    """Refuses what has no name outside of the function, or another meaning there."""
    outer = [node for node in walk(function.tree) if id(node) not in inside]
    types = {n["name"] for n in outer if n.get("kind") in _TYPES and "name" in n}
    for variable in found:
        if UNNAMED.search(variable.type) or types.intersection(_WORD.findall(variable.type)):
            raise UsageError(f"it uses {variable.name}, `{variable.type}`", HINT)
    for name in types.intersection(_WORD.findall(text)):
        raise UsageError(f"{name} is a type that its function declares", HINT)
    others = {n["id"]: n for n in outer if n.get("kind") in ("EnumConstantDecl", "BindingDecl")}
    for node in walk(function.tree):
        meant = others.get(referenced(node))
        if meant is not None and id(node) in inside:
            raise UsageError(f"{meant['name']} is declared in its function and no variable", HINT)
    for name in {v.name for v in found if v.array}.intersection(_TYPE_OF.findall(text)):
        raise UsageError(f"it asks for the type of {name}", HINT)


def _require_unshared(found: list[Variable]) -> None:
    """Refuses what C has no reference for."""
    for variable in found:
        if variable.whole:
            raise UsageError(f"it asks for the size or the address of {variable.name}", HINT)
        if variable.shared and not variable.array and not variable.constant:
            raise UsageError(f"it may reach {variable.name} by another way than its name", HINT)


def _written(node: Node, text: bytes) -> str:
    """A parameter's declaration where no macro writes it and nothing stands for what is left out."""
    span = span_of(node)
    if node["kind"] != "ParmVarDecl" or span is None:
        return ""
    found = text_of(node, text)
    # Declarations behind the head, as in old C, name several in one.
    old = text[span[1] :].lstrip()[:1] == b";" or re.search(r"^[^(]*,", found)
    # One that they leave out is an int.
    whole = node["name"] in _WORD.findall(found) and found.strip() != node["name"]
    return found if whole and not old and "=" not in found else ""


def _deduced(node: Node, text: bytes) -> bool:
    """Whether a variable is declared with ``auto`` or the like."""
    begin, name = (p.get("expansionLoc", p).get("offset", 0) for p in (node["range"]["begin"], node["loc"]))
    return bool(re.search(rb"\b(?:auto|decltype|__auto_type|__?typeof)", text[begin:name]))


def _look(
    function: Function, loop: Node, known: dict[str, Variable], inside: set[int]
) -> tuple[set[str], set[str]]:
    """Which variables the loop uses, and which change anywhere behind their declaration."""
    used, changed, again, seen = set[str](), set[str](), frozenset[int](), False
    jumps = any(node.get("kind") == "LabelStmt" for node in walk(function.tree))
    own = {n["id"] for n in walk(loop) if n.get("kind") == "VarDecl"}
    given = set[str]() if jumps else given_first(loop)
    lost = set[str]() if jumps else lost_behind(function, loop)
    enclosing = frozenset(id(n) for node, parents in paths(function.tree) if node is loop for n in parents)
    for node, parents in paths(function.tree):
        if node is loop:
            again, seen = _loops(parents), True
        if node.get("kind") == "MemberExpr" and node.get("referencedMemberDecl") in known:
            # A member of the function's own object, of which another name may change it.
            known[node["referencedMemberDecl"]].shared |= not _only_read(parents)
        key = referenced(node) if node.get("kind") == "DeclRefExpr" else ""
        variable = known.get(key)
        if variable is None:
            continue
        read, within = _only_read(parents), id(node) in inside
        variable.shared |= is_kept(parents, own)
        changed |= set() if read else {key}
        around = [parent for parent in parents if within == (id(parent) in inside)]
        counted = _counted_anew(key, [parent for parent in around if id(parent) not in enclosing])
        if not within:
            # What stands before the loop is not reached again without a loop around both, or a jump.
            variable.outside |= not counted and (seen or jumps or bool(_loops(parents) - variable.around))
            variable.before |= not counted
            variable.behind |= seen
            continue
        used.add(key)
        variable.inside |= not read
        variable.brought |= not (counted or key in given)
        variable.whole |= variable.array and is_whole(parents)
    for key, variable in known.items():
        node = variable.node
        began = node.get("init") or node["kind"] == "ParmVarDecl"
        repeated = jumps or bool(again - variable.around)
        variable.behind |= repeated or variable.shared
        if key in lost and not (variable.shared or variable.static) and _is_plain(node):
            variable.outside = variable.behind = False
        variable.outside |= variable.static or (
            variable.brought and bool(began or variable.before or repeated)
        )
    return used, changed


def _begins_anew(node: Node, parents: Sequence[Node]) -> bool:
    """Whether a variable is a number or a pointer that has a first value each time when its block is entered."""
    if not _is_plain(node):
        return False
    stands = [parent.get("kind") for parent in parents[:2]]
    inside = stands == ["DeclStmt", "CompoundStmt"] and "init" in node and "storageClass" not in node
    return inside or node["kind"] == "ParmVarDecl"


def _is_plain(node: Node) -> bool:
    """Whether a variable is a number or a pointer that nothing looks at when it ends."""
    kind = plain_type(node)
    cleaned = any(child.get("kind") == "CleanupAttr" for child in node.get("inner", []))
    return not cleaned and bool(_NUMBER.fullmatch(kind) or POINTER.search(kind))


def _loops(parents: Sequence[Node]) -> frozenset[int]:
    return frozenset(id(parent) for parent in parents if parent.get("kind") in LOOPS)


def _only_read(parents: Sequence[Node]) -> bool:
    """Whether a variable's value is all that is asked for."""
    for parent in parents:
        kind = parent.get("kind")
        if kind == "UnaryExprOrTypeTraitExpr":
            return True
        if kind == "ImplicitCastExpr":
            return bool(parent.get("castKind") == "LValueToRValue")
        if kind == "ParenExpr" or (kind == "MemberExpr" and not parent.get("isArrow")):
            continue
        return False
    return False


def _counted_anew(key: str, parents: Sequence[Node]) -> bool:
    """Whether a variable stands in a loop that gives it a first value."""
    for parent in parents:
        if parent.get("kind") != "ForStmt":
            continue
        first = (parent.get("inner") or [{}])[0]
        while first.get("opcode") == ",":
            first = first["inner"][0]
        if first.get("opcode") != "=":
            continue
        given, value = first["inner"]
        if referenced(given) == key and not any(referenced(n) == key for n in walk(value)):
            return True
    return False
