"""Variables that a function keeps from call to call: those of its own that are ``static`` and not constant."""

from __future__ import annotations

from collections.abc import Iterator

from tuner.core.source_text import source_bytes, source_text
from tuner.spec.reading.nodes import body_of, location_of, plain_type, walk
from tuner.spec.reading.signature import Function

__all__ = ["kept_values"]


def kept_values(function: Function, text: str) -> Iterator[str]:
    """What is kept, a sentence for each variable, with its type and its line in the file.

    Args:
        function: with its tree.
        text: of the file that it is probably in.
    """
    data = source_bytes(text)
    for node in walk(body_of(function.tree)):
        kind = plain_type(node)
        if (node.get("kind"), node.get("storageClass")) != ("VarDecl", "static") or _is_constant(kind):
            continue
        name, place = str(node["name"]), location_of(node.get("loc", {}))
        at = int(place.get("offset", 0))
        line = data.count(b"\n", 0, at) + 1
        where = f"line {line}, " if source_text(data[at : at + len(name)]) == name else ""
        yield (
            f"the static variable {name} of {function.name} ({where}`{kind}`) keeps its value from call to call, "
            "and no argument stands for it"
        )


def _is_constant(kind: str) -> bool:
    element = kind.partition("[")[0].rstrip()
    return element.endswith("const") or (element.startswith("const ") and "*" not in element)
