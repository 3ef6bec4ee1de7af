"""The JSON Schema of specs, made from the models: what editors complete and what the page of keys is written from.

The text below a key in the models' file is its description. May not say what a key may hold: the models do.
"""

from __future__ import annotations

import ast
import inspect
from itertools import pairwise
from typing import Any

from tuner.spec import models

__all__ = ["schema", "titled"]


def schema() -> dict[str, Any]:
    """The JSON Schema of a spec (draft 2020-12): one kernel, or a list `kernels` with common keys beside it."""
    one = models.SpecModel.model_json_schema()
    definitions = one.pop("$defs", {})
    texts = _attribute_docstrings()
    # Mappings that have a short form stand where they are used, by their title.
    written = {f"{title}Model": part for title, part in titled({**definitions, "": one}).items()}
    for name, described in texts.items():
        model = one if name == models.SpecModel.__name__ else definitions.get(name) or written.get(name, {})
        keys = model.get("properties", {})
        for key in described.keys() & keys.keys():
            keys[key].setdefault("description", described[key])
    one.pop("title", None)
    keys = one["properties"]
    common = {name: {"$ref": f"#/$defs/Kernel/properties/{name}"} for name in keys}
    several = {
        "type": "object",
        "description": "Several kernels; keys beside the list hold for each that does not give them itself.",
        "required": ["kernels"],
        "additionalProperties": False,
        "properties": {
            "kernels": {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/Entry"}},
            **common,
        },
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "remix-tuner spec",
        "anyOf": [{"$ref": "#/$defs/Kernel"}, several],
        "$defs": {**definitions, "Kernel": one, "Entry": {**one, "required": []}},
    }


def titled(value: Any) -> dict[str, dict[str, Any]]:
    """The mappings with a title of their own inside a schema, by title, outermost first."""
    found: dict[str, dict[str, Any]] = {}
    if isinstance(value, dict):
        title = value.get("title", "")
        if value.get("type") == "object" and "properties" in value and title and not title.endswith("Model"):
            found[title] = value
        for part in value.values():
            found |= titled(part)
    elif isinstance(value, list):
        for part in value:
            found |= titled(part)
    return found


def _attribute_docstrings() -> dict[str, dict[str, str]]:
    """The text below each key of each model, by class and key."""
    found: dict[str, dict[str, str]] = {}
    for model in ast.parse(inspect.getsource(models)).body:
        if isinstance(model, ast.ClassDef):
            found[model.name] = {
                _written(model.name, key.target.id): inspect.cleandoc(text.value.value)
                for key, text in pairwise(model.body)
                if isinstance(key, ast.AnnAssign)
                and isinstance(key.target, ast.Name)
                and isinstance(text, ast.Expr)
                and isinstance(text.value, ast.Constant)
                and isinstance(text.value.value, str)
            }
    return found


def _written(model: str, key: str) -> str:
    """A key as it is in a spec, whose names Python need not take."""
    fields = getattr(getattr(models, model), "model_fields", {})
    return (fields[key].alias if key in fields else None) or key
