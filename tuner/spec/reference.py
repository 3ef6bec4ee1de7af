"""The spec reference as Markdown, made from the models: ``python -m tuner.spec.reference > docs/spec.md``.

Says what the models say and nothing else. May not read specs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tuner.spec.json_schema import schema, titled

__all__ = ["reference"]

_HEAD = """\
# Spec reference

Made from the models by `python -m tuner.spec.reference`; do not edit. `tuner schema` prints the same as JSON Schema.
Expressions know sizes, parameters, numbers, `+ - * / // % **`, comparisons, `and or not`, and
`min max ceil floor log2 abs`. A file with several kernels has a list `kernels` of such specs; keys beside the list
hold for each that does not give them itself.
"""
_PLAIN = {
    "integer": "whole number",
    "number": "number",
    "string": "text",
    "boolean": "true or false",
    "null": "nothing",
}


def reference() -> str:
    """One table for each part of a spec, the outermost first."""
    definitions: dict[str, Any] = schema()["$defs"]
    definitions = {**titled(definitions), **definitions}
    order, waiting = [], ["Kernel"]
    while waiting:
        name = waiting.pop(0)
        if name in order:
            continue
        order.append(name)
        waiting += _referred(definitions[name])
    return _HEAD + "".join(
        _section(name, definitions[name]) for name in order if "properties" in definitions[name]
    )


def _title(name: str) -> str:
    return "The spec" if name == "Kernel" else name.removesuffix("Model")


def _section(name: str, model: Mapping[str, Any]) -> str:
    lines = [f"\n## {_title(name)}\n"]
    if model.get("description"):
        lines.append(f"{model['description']}\n")
    lines += ["| key | holds | when left out | meaning |", "|---|---|---|---|"]
    required = model.get("required", [])
    for key, value in model["properties"].items():
        default = "must be given" if key in required else _default(value)
        meaning = " ".join(value.get("description", "").split())
        cells = (f"`{key}`", _kind(value), default, meaning)
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def _default(value: Mapping[str, Any]) -> str:
    default = value.get("default")
    if default is None or default in ({}, [], ""):
        return ""
    if isinstance(default, dict):
        return "its own defaults"
    return f"`{str(default).lower() if isinstance(default, bool) else default}`"


def _kind(value: Mapping[str, Any]) -> str:
    if "$ref" in value:
        title = _title(str(value["$ref"]).rpartition("/")[2])
        return f"[{title}](#{title.lower().replace(' ', '-')})"
    if value.get("title") and value.get("type") == "object" and "properties" in value:
        title = _title(value["title"])
        return f"[{title}](#{title.lower()})"
    if "enum" in value:
        return ", ".join(f"`{str(i).lower() if isinstance(i, bool) else i}`" for i in value["enum"])
    if "const" in value:
        return f"`{value['const']}`"
    for several in ("anyOf", "oneOf"):
        if several in value:
            kinds = dict.fromkeys(_kind(v) for v in value[several] if v.get("type") != "null")
            return "expression" if set(kinds) == {"text", "number"} else " or ".join(kinds)
    kind = value.get("type", "")
    if isinstance(kind, list):
        return "number, text or true or false" if len(kind) > 2 else " or ".join(_PLAIN[k] for k in kind)
    if kind == "array":
        return f"list of {_kind(value['items'])}" if value.get("items") else "list"
    if kind == "object":
        inner = value.get("additionalProperties")
        patterns = value.get("patternProperties")
        inner = next(iter(patterns.values())) if patterns else inner
        return f"names with {_kind(inner)}" if isinstance(inner, dict) else "names with values"
    return _PLAIN.get(str(kind), "value")


def _referred(value: Any) -> list[str]:
    if isinstance(value, dict):
        found = [str(value["$ref"]).rpartition("/")[2]] if "$ref" in value else []
        found += [value["title"]] if value.get("title") in titled(value) else []
        return found + [name for part in value.values() for name in _referred(part)]
    if isinstance(value, list):
        return [name for part in value for name in _referred(part)]
    return []


if __name__ == "__main__":
    print(reference(), end="")
