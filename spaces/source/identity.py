"""When two variants are the same program but for names: the hash of a normalised syntax tree. May not compile."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tuner.core.canonical import digest_json
from tuner.spaces.source.lexical import with_names
from tuner.spaces.source.memo import kept_by_identity
from tuner.spaces.source.printer import function_text
from tuner.spaces.source.regions import Program
from tuner.spaces.source.syntax import Comment, Decl, For, Function, Name, Opaque, OpaqueStmt
from tuner.spaces.source.walks import subtrees, transform

__all__ = ["structure_digest"]


@kept_by_identity(1024)
def structure_digest(program: Program) -> str:
    """Equal for programs that differ in names of variables and tunables, defaults, comments and layout only."""
    texts = {label: _normal(function) for label, function in program.functions.items()}
    outside = [p for f in program.files for p in f.parts[::2]]
    if program.launch == program.entry.launch or program.launch is None:
        return digest_json([texts, outside])
    launch = program.launch.to_json()
    return digest_json([texts, outside, {k: _launch(v, program) for k, v in launch.items()}])


def _launch(texts: Any, program: Program) -> Any:
    """Launch expressions with their tunables numbered by their first use in the function that has them."""
    if isinstance(texts, list):
        return [_launch(text, program) for text in texts]
    names = {d.name: "T" for f in program.functions.values() for d in f.defines}
    return None if texts is None else with_names(texts, names)


@kept_by_identity(1024)
def _normal(function: Function) -> str:
    names: dict[str, str] = {}
    opaque = "".join(n.text for n in subtrees(function.body) if isinstance(n, Opaque | OpaqueStmt))
    tunables = {d.name for d in function.defines}

    def name(old: str, kind: str) -> str:
        if old in opaque:
            return old
        return names.setdefault(old, f"{kind}{len(names)}")

    for node in subtrees(function.body):
        if isinstance(node, Decl):
            name(node.name, "v")
        elif isinstance(node, For):
            name(node.var, "v")
        elif isinstance(node, Name) and node.id in tunables:
            name(node.id, "T")
    for define in function.defines:
        name(define.name, "T")
    return function_text(_renamed(function, names))


def _renamed(function: Function, names: Mapping[str, str]) -> Function:
    def change(node: Any) -> Any:
        match node:
            case Name(id=old):
                return Name(names.get(old, old))
            case Decl():
                return replace(node, name=names.get(node.name, node.name))
            case For():
                pragmas = tuple(with_names(p, names) for p in node.pragmas)
                return replace(node, key="", var=names.get(node.var, node.var), pragmas=pragmas)
        return node

    body = transform(function.body, change)
    body = transform(body, _without_comments)
    preamble = tuple(with_names(text, names) for text in function.preamble)
    return replace(function, body=body, defines=(), preamble=preamble)


def _without_comments(node: Any) -> Any:
    if isinstance(node, For) and any(isinstance(s, Comment) for s in node.body):
        return replace(node, body=tuple(s for s in node.body if not isinstance(s, Comment)))
    return node
