"""Functions that nothing names any more after a change, left out of what is to be read.

Only those that no other file can know of. May not change what is built, hashed or recorded.
"""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from tuner.core.types import Source
from tuner.spaces.source.lexical import tokens
from tuner.spaces.source.parse import definition_start, function_nodes, node_slice, parse_file
from tuner.spaces.source.presenting import ABOVE

__all__ = ["without_leftovers"]

_OWN = {
    "opencl": re.compile(r"\A(?!.*\b(?:__kernel|kernel)\b)", re.DOTALL),
    "cuda": re.compile(r"\A(?!.*\b(?:__global__|extern)\b).*\b(?:static|__device__)\b", re.DOTALL),
}
"""Heads of functions that only their own program knows, by language; elsewhere those that are ``static``."""
_ENDED = re.compile(r"(?:\A|[;}]|\*/|^[ \t]*(?:#|//)[^\n]*\n)\s*\Z", re.MULTILINE)
_INCLUDED = re.compile(r"^[ \t]*#[ \t]*include[ \t]*[\"<]([^\">\n]+)", re.MULTILINE)
_STATIC = re.compile(r"\bstatic\b")


def without_leftovers(made: Sequence[Source], given: Sequence[Source], language: str) -> tuple[Source, ...]:
    """Files without the functions that were used in the files as given and are not any more.

    Args:
        made: changed files.
        given: the files before.
        language: of the kernel.
    """
    files = list(made)
    if any("##" in f.text for f in given):
        # A macro may make the name of what is called.
        return tuple(files)
    used = _names(given)
    # Other programs may include a header.
    headers = {posixpath.basename(n) for f in given for n in _INCLUDED.findall(f.text)}
    while True:
        left = _names(files)
        shorter = [
            f if f.name in headers else replace(f, text=_without(f.text, language, used, left)) for f in files
        ]
        if shorter == files:
            return tuple(files)
        files = shorter


def _names(files: Sequence[Source]) -> Counter[str]:
    return Counter(token for file in files for token in tokens(file.text))


def _without(text: str, language: str, used: Counter[str], left: Counter[str]) -> str:
    """A text without one function that is only defined, and the comment right above it."""
    data = text.encode()
    for name, node in function_nodes(parse_file(data, language)):
        start, body = definition_start(node), node.child_by_field_name("body")
        if left[name] != 1 or used[name] < 2 or body is None or body.has_error:
            continue
        head = node_slice(node, node.start_byte, body.start_byte)
        if not _OWN.get(language, _STATIC).search(head) or start != node.start_byte:
            continue
        before, after = data[:start].decode(), data[node.end_byte :].decode()
        comment = ABOVE.search(before)
        before = before if comment is None else before[: comment.start()]
        if not _ENDED.search(before) or after.partition("\n")[0].strip():
            # Something else stands on its lines, or a word before it that is not known is part of it.
            continue
        after = after.partition("\n")[2]
        return before.rstrip(" \t") + (after.lstrip("\n") if before.endswith("\n\n") or not before else after)
    return text
