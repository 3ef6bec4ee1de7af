"""What a function may write of structures, and the functions that it calls: of members, which by name.

Follows every call into a definition of the kernel's sources, headers of the project in them, and refuses all others
but those of the C library that write nothing but buffers they are given. The functions that are reached are taken
together, so recursion is nothing special: a member that any of them may write is written. Refused are calls through
pointers, functions that are only declared, or defined more than once, functions that the linker may replace, and text
that cannot be read. May not change a tree.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from tuner.spaces.source.directives import macros_in, unread
from tuner.spaces.source.kinds import Refused, is_pure
from tuner.spaces.source.lexical import code
from tuner.spaces.source.memo import Kept, kept_or_raised
from tuner.spaces.source.operators.opening.declaring import UNKNOWN, Context, Declared, Written, declared_in
from tuner.spaces.source.operators.opening.writing import written_by
from tuner.spaces.source.own_names import UNKNOWN as UNKNOWN_OWN
from tuner.spaces.source.parse import (
    OUTERMOST,
    declared_functions,
    function_nodes,
    is_outermost,
    node_text,
    parse_file,
)
from tuner.spaces.source.printer import function_text
from tuner.spaces.source.structures import Structures, structures
from tuner.spaces.source.syntax import Call, Function, Own

if TYPE_CHECKING:
    from tree_sitter import Node

__all__ = ["Effects", "effects"]

_QUIET = re.compile(
    r"(f|sn?|)printf|f?puts|f?putc|putchar|f?getc|fgets|[fs]scanf|fopen|fclose|fflush|fread|fwrite|exit|abort|assert|"
    r"[mc]alloc|realloc|free|mem(cpy|move|set|cmp)|str(n?cmp|n?cpy|n?cat|len|tol|tod|dup)|time|clock|clock_gettime|"
    r"gettimeofday|s?rand|getenv|ato[ifl]|isnan|isinf|isfinite|omp_get_\w+"
)
"""Functions of libraries that call nothing back and write nothing but what their arguments point to."""

_LINKED = re.compile(r"\b(weak|ifunc|alias)\b")
_ADDRESS = re.compile(
    r"(?:^|[^&\w)\]\s])\s*&\s*\(*\s*[A-Za-z_][\w\s\[\]().]*?(?:(?:->|\.)\s*[\w\[\]]+)+", re.MULTILINE
)
_MEMBER = re.compile(r"(?:->|\.)\s*([A-Za-z_]\w*)")


@dataclass(frozen=True, slots=True)
class Effects:
    """What may be written while a function runs.

    Attributes:
        types: of its text.
        members: names of members that are assigned to, or whose address is taken.
        structures: types of which any member may be written unseen.
        moved: the function's own names that stand elsewhere than before a member or as an argument.
        jumps: whether the function itself has labels.
    """

    types: Structures
    members: frozenset[str]
    structures: frozenset[str]
    moved: frozenset[str]
    jumps: bool


_EFFECTS: Kept[tuple[Any, Effects | Refused]] = Kept(1 << 8)
"""By function."""


def effects(function: Function) -> Effects:
    """What a function and all that it calls may write.

    Args:
        function: as it is now, a whole definition.

    Raises:
        Refused: it may write anything; why.
    """
    return kept_or_raised(_EFFECTS, id(function), function, lambda: _effects(function), Refused)


def _effects(function: Function) -> Effects:
    units = (function.file, *function.beside)
    hidden = next((unread(text) or min(macros_in(text), default="") for text in units), "")
    if hidden:
        raise Refused(f"what is written is not known behind {hidden}")
    linked = _linked(units, function.source, function.language, function.own)
    own = linked.units[0]
    found = list(function_nodes(parse_file(function_text(function).encode(), function.language)))
    if len(found) != 1:
        raise Refused("the function cannot be read")
    top = written_by(found[0][1], linked.context(own))
    ran = [top, *linked.reached(top)]
    if len(ran) > 1 and any(unit.linked for unit in linked.units):
        raise Refused("the linker may put another function in the place of one")
    # A pointer that was stored before the call may lead to them.
    pointed = frozenset[str]().union(*(u.pointed for u in linked.units)) if len(ran) > 1 else frozenset[str]()
    return Effects(
        types=own.types,
        members=pointed.union(*(w.members for w in ran)),
        structures=frozenset(own.types.overlaid()).union(*(w.structures for w in ran)),
        moved=frozenset(top.moved),
        jumps=top.jumps,
    )


class _Linked:
    """The sources of a kernel, the function's own first: what a name that is called there means."""

    def __init__(self, units: Sequence[_Unit], source: str, language: str, own: Own) -> None:
        self.units = units
        self._source, self._language = source, language
        self._own_names = dict(own)
        self._contexts: dict[int, Context] = {}
        self._written: dict[tuple[int, str], Written] = {}

    def context(self, unit: _Unit) -> Context:
        """What a function of a file stands in."""
        found = self._contexts.get(id(unit))
        if found is None:
            outside = {name: node for other in self.units for name, node in other.shared.items()}
            found = Context(
                types=unit.types,
                variables=unit.variables,
                functions={**outside, **unit.functions},
                quiet=self._is_quiet,
                plus=self._language != "c",
            )
            self._contexts[id(unit)] = found
        return found

    def reached(self, top: Written) -> list[Written]:
        """What every function writes that calls lead to."""
        done, found = set[tuple[int, str]](), list[Written]()
        waiting = [(self.units[0], name) for name in sorted(top.calls)]
        while waiting:
            unit, name = waiting.pop()
            if (id(unit), name) in done:
                continue
            done.add((id(unit), name))
            home = self._home(unit, name)
            if not home.read:
                raise Refused(f"{name} may write members: the text around it cannot be read")
            found.append(self._of(home, name))
            if home is not self.units[0] and any(
                key.startswith("struct at ") for key in found[-1].structures
            ):
                raise Refused(f"{name} may write members of a structure without a name")
            waiting += [(home, called) for called in sorted(found[-1].calls)]
        return found

    def _of(self, home: _Unit, name: str) -> Written:
        """What one of them writes itself."""
        made = self._written.get((id(home), name))
        if made is None:
            try:
                made = written_by(home.functions[name], self.context(home))
            except Refused as refusal:
                raise Refused(f"{name} may write members: {refusal}") from None
            self._written[id(home), name] = made
        return made

    def _home(self, unit: _Unit, name: str) -> _Unit:
        """The file whose function a name means in a file."""
        homes = [unit] if name in unit.functions else [u for u in self.units if name in u.shared]
        if len(homes) != 1 or name in homes[0].twice:
            raise Refused(f"{name} may be one of several functions")
        return homes[0]

    def _is_quiet(self, name: str) -> bool:
        own = self._own_names.get(name) == UNKNOWN_OWN
        if own or name in _defined_names(self._source, self._language):
            return False
        return _QUIET.fullmatch(name) is not None or is_pure(Call(name, ()))


@lru_cache(maxsize=32)
def _linked(texts: tuple[str, ...], source: str, language: str, own: Own) -> _Linked:
    return _Linked([_unit(text, language) for text in texts], source, language, own)


@dataclass(frozen=True, slots=True)
class _Unit:
    """A text: its types, variables outside of functions, definitions, and members whose address is taken anywhere.

    ``shared``: definitions that other files may call. ``linked``: the linker may choose other functions than those.
    """

    types: Structures
    variables: Mapping[str, Declared] = field(default_factory=dict)
    functions: Mapping[str, Node] = field(default_factory=dict)
    twice: frozenset[str] = frozenset()
    pointed: frozenset[str] = frozenset()
    linked: bool = False
    shared: Mapping[str, Node] = field(default_factory=dict)
    read: bool = True


@lru_cache(maxsize=64)
def _unit(text: str, language: str) -> _Unit:
    said = code(text)
    types = structures(text, language)
    root = parse_file(text.encode(), language)
    found = list(function_nodes(root))
    counts = Counter(name for name, _ in found)
    several = {name for name, node in found if counts[name] > 1 or not is_outermost(node, OUTERMOST)}
    if language != "c":
        declared = Counter(name for name, _ in {(n, params) for n, params, _ in declared_functions(root)})
        several |= {name for name, times in declared.items() if times > 1}
    return _Unit(
        types=types,
        variables=_variables(root, types),
        functions=dict(found),
        twice=frozenset(several),
        shared={name: node for name, node in found if not _is_static(node)},
        read=not root.has_error,
        linked=_LINKED.search(said) is not None,
        pointed=frozenset(w for m in _ADDRESS.findall(said) for w in _MEMBER.findall(m)[-1:]),
    )


@lru_cache(maxsize=64)
def _defined_names(source: str, language: str) -> frozenset[str]:
    """The functions that any of the files defines."""
    return frozenset(name for name, _ in function_nodes(parse_file(source.encode(), language)))


def _is_static(node: Node) -> bool:
    return any(node_text(c) == "static" for c in node.children if c.type == "storage_class_specifier")


def _outside(root: Node) -> list[Node]:
    """What stands outside of functions, types and namespaces."""
    found: list[Node] = []
    waiting = list(root.children)
    while waiting:
        node = waiting.pop()
        found.append(node)
        if node.type in (*OUTERMOST, "namespace_definition"):
            waiting += node.children
    return found


def _variables(root: Node, types: Structures) -> dict[str, Declared]:
    """Variables outside of functions; an assignment to one of them is seen elsewhere, unless it is a pointer."""
    found: dict[str, Declared] = {}
    for node in _outside(root):
        if node.type != "declaration":
            continue
        try:
            given = list(declared_in(node, types, plus=False))
        except Refused:
            # A function, or something that nothing is known of.
            given = [(name, Declared(frozenset({UNKNOWN}), False)) for name in _words(node)]
        for name, variable in given:
            pointer = "*" in node_text(node).split("=")[0]
            before = found.get(name)
            keys = variable.keys if before is None else variable.keys | before.keys
            found[name] = Declared(keys, pointer and "[" not in node_text(node))
    return found


def _words(node: Node) -> list[str]:
    """Names that a declaration declares by none but functions' declarators."""
    waiting, found = [*node.children_by_field_name("declarator")], list[str]()
    while waiting:
        part = waiting.pop()
        if part.type == "identifier":
            found.append(node_text(part))
        elif part.type == "function_declarator":
            name = part.child_by_field_name("declarator")
            # A pointer to a function is a variable; a prototype is not.
            waiting += [] if name is None or name.type == "identifier" else [name]
        elif part.type != "parameter_list" and not (part.type.endswith("expression")):
            waiting += part.named_children
    return found
