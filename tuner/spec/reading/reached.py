"""The names that one of a program's kernels can reach, read without a compiler.

Says too many rather than too few: where the kernel is not found, all of the program's. May not run anything.
"""

from __future__ import annotations

import re

from tuner.core.reaching import reachable
from tuner.spaces.source.lexical import code, words
from tuner.spaces.source.parse import function_nodes, parse_file

__all__ = ["names_reached"]

_MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)((?:\\\n|[^\n])*)", re.MULTILINE)


def names_reached(text: str, entry: str) -> set[str]:
    """Names in a kernel, in every function and macro that these name in turn, and in all other declarations.

    Args:
        text: OpenCL C or CUDA, its headers in it.
        entry: the kernel.
    """
    rest = code(text)
    inside: dict[str, set[str]] = {}
    for name, body in _MACRO.findall(rest):
        inside.setdefault(name, set()).update(words(body))
    rest = _MACRO.sub(lambda m: "\n" * m[0].count("\n"), rest)
    functions = list(function_nodes(parse_file(rest.encode(), "c++")))
    data = rest.encode()
    for name, node in functions:
        inside.setdefault(name, set()).update(words(data[node.start_byte : node.end_byte].decode()))
    for _, node in reversed(functions):
        data = data[: node.start_byte] + data[node.end_byte :]
    if entry not in (name for name, _ in functions):
        return set(words(rest)).union(*inside.values())
    return reachable([entry, *words(data.decode())], lambda name: inside.get(name, ()))
