"""Arrays that a file declares outside of its functions, as declarations that functions may use. May not transform.

Pointers that lead to arrays are known where a spec has them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from tuner.core.dtypes import C_TYPES
from tuner.core.types import Variable
from tuner.spaces.source.kinds import all_types_of, plain_type
from tuner.spaces.source.parse import parse_file
from tuner.spaces.source.reading import parse_statements
from tuner.spaces.source.structure_texts import definitions_of
from tuner.spaces.source.syntax import Assign, Decl, Function, Name, Opaque, OpaqueStmt, Unary
from tuner.spaces.source.walks import names_in, subtrees

__all__ = ["with_file_arrays"]

_ATTRIBUTE = re.compile(r"__attribute__\s*\(\((?:[^()]|\([^()]*\))*\)\)|\b_?[aA]lignas\s*\([^()]*\)")
_UNLIKE = re.compile(r"[*&{]|\b(volatile|_Atomic|_Thread_local|thread_local|__thread|__shared__)\b")
_WORD = re.compile(r"[A-Za-z_]\w*")
_SCOPES = ("linkage_specification", "declaration_list")


def with_file_arrays(function: Function, text: str, variables: Sequence[Variable]) -> Function:
    """The function with the arrays that its file declares, but for those of a name that it gives to something else.

    Args:
        function: of the file.
        text: of the file.
        variables: of the kernel.
    """
    own = all_types_of(function).keys() | _moved(function)
    pointers = (Decl(f"{C_TYPES[v.dtype]} *", v.name) for v in variables if v.pointer)
    found = tuple(d for d in (*_declared(text, function.language), *pointers) if d.name not in own)
    return replace(function, variables=found) if found else function


def _moved(function: Function) -> set[str]:
    """Names that lead elsewhere after a function, or may."""
    targets = {
        n.target.id for n in subtrees(function.body) if isinstance(n, Assign) and isinstance(n.target, Name)
    }
    taken = (n.operand for n in subtrees(function.body) if isinstance(n, Unary) and n.op in ("&", "++", "--"))
    texts = (n.text for n in subtrees(function.body) if isinstance(n, Opaque | OpaqueStmt))
    return targets | names_in(tuple(taken)) | {word for text in texts for word in _WORD.findall(text)}


@lru_cache(maxsize=64)
def _declared(text: str, language: str) -> tuple[Decl, ...]:
    """Declarations of arrays, none of a name that is declared with two types."""
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
                    if isinstance(decl, Decl) and decl.dims and not _UNLIKE.search(decl.type):
                        kind = _meant(decl.type, aliases)
                        found.setdefault(decl.name, set()).add(replace(decl, type=kind, init=None))
    return tuple(decls.pop() for decls in found.values() if len(decls) == 1)


def _meant(kind: str, aliases: Mapping[str, str]) -> str:
    """What a type stands for, in a file whose names of types stand for other names before them."""
    for _ in range(len(aliases) + 1):
        kind = plain_type(aliases.get(plain_type(kind), kind))
    return kind
