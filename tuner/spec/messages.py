"""One message for a person out of pydantic's list of errors: what is wrong, where, and what would be right.

Knows the models' shape to suggest keys; may not decide what is valid.
"""

from __future__ import annotations

import types
from collections.abc import Sequence
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from tuner.core.errors import SpecError
from tuner.spec.yaml_places import View, closest

__all__ = ["known_keys", "to_spec_error"]

_TYPES = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "string_type": "text",
    "list_type": "a list",
    "dict_type": "a mapping of names to values",
    "model_type": "a mapping of keys to values",
    "model_attributes_type": "a mapping of keys to values",
}
_BOUNDS = {
    "greater_than": ("gt", "it must be over {}"),
    "greater_than_equal": ("ge", "it must be at least {}"),
    "less_than": ("lt", "it must be under {}"),
    "less_than_equal": ("le", "it can be at most {}"),
    "too_short": ("min_length", "give at least {}"),
    "too_long": ("max_length", "give at most {}"),
    "finite_number": ("", "it must be finite"),
}


_MEANT = {
    "int": "int32",
    "unsigned": "uint32",
    "unsigned int": "uint32",
    "long": "int64",
    "size_t": "uint64",
    "short": "int16",
    "char": "int8",
    "half": "float16",
    "float": "float32",
    "double": "float64",
    "in": "input",
    "out": "output",
    "rand": "uniform",
    "random": "uniform",
    "gaussian": "normal",
}
"""What people who write C or NumPy call what is meant: by its letters alone ``float`` looks like ``float64``."""


def to_spec_error(error: ValidationError, view: View, model: type[BaseModel]) -> SpecError:
    """The most telling of the errors, as one message with its place.

    Unknown keys come first, as a misspelt key also shows up as a missing one; then the order in the file.

    Args:
        error: what pydantic found.
        view: what was validated.
        model: the model it was validated by.
    """
    details = error.errors(include_url=False)

    def rank(detail: ErrorDetails) -> tuple[bool, int, int]:
        place = view.place(detail["loc"])
        return detail["type"] != "extra_forbidden", place.line, place.column

    detail = min(details, key=rank)
    path = tuple(p for p in detail["loc"] if p != "[key]")
    message, hint = _describe(detail, model)
    is_key = detail["type"] == "extra_forbidden" or "[key]" in detail["loc"]
    return SpecError(message, hint, place=view.place(path, key=is_key))


def _describe(detail: ErrorDetails, model: type[BaseModel]) -> tuple[str, str]:
    kind, loc, value = detail["type"], detail["loc"], detail["input"]
    context: dict[str, Any] = detail.get("ctx", {})
    name = _title(loc)
    if isinstance(context.get("error"), SpecError):
        cause: SpecError = context["error"]
        said = cause.message if cause.message.startswith(name) else f"{name}: {cause.message}"
        return said, cause.hint
    if kind == "extra_forbidden":
        return _unknown_key(loc, model)
    if kind == "missing":
        return f"{_title(loc[:-1])} has no {str(loc[-1])!r}", "this key is needed"
    if "[key]" in loc:
        return f"{value!r} cannot be a name", "letters, digits and _, no digit first"
    if kind == "string_pattern_mismatch":
        return f"{name} is {value!r}", "a name: letters, digits and _, no digit first"
    if kind == "literal_error":
        allowed = [str(x).strip("'") for x in context["expected"].replace(" or ", ", ").split(", ")]
        meant = _MEANT.get(value, "") if isinstance(value, str) else ""
        near = meant if meant in allowed else closest(value, allowed) if isinstance(value, str) else ""
        return f"{name} is {_show(value)}", f"did you mean {near}?" if near else "one of " + ", ".join(
            allowed
        )
    if kind in _TYPES:
        return f"{name} is {_show(value)}", f"it must be {_TYPES[kind]}"
    if kind in _BOUNDS:
        key, text = _BOUNDS[kind]
        shown = "empty" if value in ([], "") else _show(value)
        return f"{name} is {shown}", text.format(context.get(key, ""))
    if kind == "string_too_short":
        return f"{name} is empty", "give a text"
    return f"{name}: {detail['msg'].lower()}", f"it is {_show(value)}"


def _title(loc: Sequence[str | int]) -> str:
    """The path as a person would say it: ``arguments[2].dtype``."""
    text = ""
    for part in loc:
        if part in ("[key]", "kind"):
            # A kind is what a plain word says of a mapping: no key that anybody wrote.
            continue
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text or "the spec"


def _show(value: Any) -> str:
    if value is None:
        return "empty"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "…"


def _unknown_key(loc: Sequence[str | int], model: type[BaseModel]) -> tuple[str, str]:
    key = str(loc[-1])
    known = known_keys(model, loc[:-1])
    where = f" in {_title(loc[:-1])}" if len(loc) > 1 else ""
    near = closest(key, known)
    if near:
        return f"unknown key {key!r}{where}", f"did you mean {near!r}?"
    elsewhere = [
        k for k in ("search", "space", "kernel", "verify", "measure") if key in known_keys(model, (k,))
    ]
    if elsewhere and not where:
        return f"unknown key {key!r}", f"it belongs into {elsewhere[0]!r}"
    return f"unknown key {key!r}{where}", "known keys: " + ", ".join(known)


def known_keys(model: type[BaseModel], loc: Sequence[str | int]) -> list[str]:
    """The keys of the model that a path of keys leads to; empty where it leads to none."""
    found: Any = model
    for part in loc:
        inner = _model_of(found)
        if inner is not None:
            field = inner.model_fields.get(str(part))
            found = None if field is None else field.annotation
        else:
            found = _item_of(found)
    last = _model_of(found)
    return [] if last is None else list(last.model_fields)


def _strip(annotation: Any) -> list[Any]:
    """The alternatives of an annotation without ``Annotated`` and ``None``."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return _strip(get_args(annotation)[0])
    if origin in (Union, types.UnionType):
        return [x for a in get_args(annotation) for x in _strip(a)]
    return [] if annotation in (None, type(None)) else [annotation]


def _model_of(annotation: Any) -> type[BaseModel] | None:
    for choice in _strip(annotation):
        if isinstance(choice, type) and issubclass(choice, BaseModel):
            return choice
    return None


def _item_of(annotation: Any) -> Any:
    for choice in _strip(annotation):
        if get_origin(choice) in (list, dict):
            return get_args(choice)[-1]
    return None
