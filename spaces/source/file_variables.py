"""Arrays and fractions that a file declares outside of its functions, as declarations that functions may use.

May not transform.

Pointers that lead to arrays are known where a spec has them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from tuner.core.dtypes import C_TYPES
from tuner.core.types import Variable
from tuner.spaces.source.kinds import all_types_of, is_floating, is_pure, plain_type
from tuner.spaces.source.parse import parse_file
from tuner.spaces.source.reading import parse_statements
from tuner.spaces.source.structure_texts import definitions_of
from tuner.spaces.source.syntax import Assign, Call, Decl, Function, Name, Unary
from tuner.spaces.source.walks import assigned_names, names_in, opaque_words, root_of, subtrees

__all__ = ["with_file_variables"]

_ATTRIBUTE = re.compile(r"__attribute__\s*\(\((?:[^()]|\([^()]*\))*\)\)|\b_?[aA]lignas\s*\([^()]*\)")
_UNLIKE = re.compile(r"[*&{]|\b(volatile|_Atomic|_Thread_local|thread_local|__thread|__shared__)\b")
_SCOPES = ("linkage_specification", "declaration_list")


def with_file_variables(function: Function, text: str, variables: Sequence[Variable]) -> Function:
    """The function with arrays and fractions that its file declares, but for names that it gives to something else.

    Fractions are known that are arguments, or that no store of the function may change.

    Args:
        function: of the file.
        text: of the file.
        variables: of the kernel.
    """
    own = all_types_of(function).keys() | _moved(function)
    pointers = (Decl(f"{C_TYPES[v.dtype]} *", v.name) for v in variables if v.pointer)
    declared = tuple(d for d in (*_declared(text, function.language), *pointers) if d.name not in own)
    # Arguments share no memory.
    apart = {v.name for v in variables} | {d.name for d in declared if d.dims or "*" in d.type}
    known = _stores_apart(function, {d.name for d in declared if d.dims})
    found = tuple(d for d in declared if known or d.name in apart)
    return replace(function, variables=found) if found else function


def _stores_apart(function: Function, arrays: set[str]) -> bool:
    """Whether all that a function stores to are arrays, or restrict: no number of the file is among it."""
    apart = arrays | {p.name for p in function.params if "restrict" in p.text}
    apart |= {n.name for n in subtrees(function.body) if isinstance(n, Decl) and n.dims}
    targets = (n.target for n in subtrees(function.body) if isinstance(n, Assign))
    places = (t.operand if isinstance(t, Unary) else t for t in targets if not isinstance(t, Name))
    roots = map(root_of, places)
    calls = any(isinstance(n, Call) and not is_pure(n) for n in subtrees(function.body))
    return not calls and all(isinstance(root, Name) and root.id in apart for root in roots)


def _moved(function: Function) -> set[str]:
    """Names that lead elsewhere after a function, or may."""
    taken = (n.operand for n in subtrees(function.body) if isinstance(n, Unary) and n.op in ("&", "++", "--"))
    return assigned_names(function.body) | names_in(tuple(taken)) | opaque_words(function.body)


@lru_cache(maxsize=64)
def _declared(text: str, language: str) -> tuple[Decl, ...]:
    """Declarations of arrays and fractions, none of a name that is declared with two types."""
    plain = _ATTRIBUTE.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)
    found: dict[str, set[Decl]] = {}
    aliases: dict[str, str] = {}
    stack = [parse_file(plain.encode(), language)]
    while stack:
        for node in stack.pop().named_children:
            if node.type in _SCOPES:
                stack.append(node)
            elif node.type == "type_definition":
                aliases |= dict(definitions_of(node))
            elif node.type == "declaration":
                for decl in parse_statements([node]):
                    if not isinstance(decl, Decl) or _UNLIKE.search(decl.type):
                        continue
                    kind = _meant(decl.type, aliases)
                    if decl.dims or is_floating(kind):
                        found.setdefault(decl.name, set()).add(replace(decl, type=kind, init=None))
    return tuple(decls.pop() for decls in found.values() if len(decls) == 1)


def _meant(kind: str, aliases: Mapping[str, str]) -> str:
    """What a type stands for, in a file whose names of types stand for other names before them."""
    for _ in range(len(aliases) + 1):
        kind = plain_type(aliases.get(plain_type(kind), kind))
    return kind
