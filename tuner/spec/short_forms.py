"""The short ways of writing parts of a spec, brought to one form before the models see them, and their schemas.

Each function takes what YAML gave and returns what a model takes; mistakes are ``SpecError`` without a place.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Literal, get_args

from tuner.core.dtypes import structured_dtype
from tuner.core.errors import SpecError
from tuner.core.expressions import Expression, parse

__all__ = [
    "DTYPE_SCHEMA",
    "EXPRESSION_SCHEMA",
    "INITIAL_SCHEMA",
    "OBJECTIVE_SCHEMA",
    "PARAMETER_SCHEMA",
    "PASSES_SCHEMA",
    "REFERENCE_SCHEMA",
    "Dtype",
    "InitialKind",
    "read_dtype",
    "read_expression",
    "read_initial",
    "read_objectives",
    "read_parameter",
    "read_passes",
    "read_reference",
    "read_switch",
    "read_value",
]

# fmt: off
Dtype = Literal[
    "float16", "float32", "float64", "complex64", "complex128", "bool",
    "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
]
InitialKind = Literal[
    "uniform", "normal", "randint", "permutation", "zeros", "constant", "values", "csr", "file", "python", "members",
]
# fmt: on
_ON, _OFF = ("on", "yes"), ("off", "no")
_FUNCTION = re.compile(r"(?P<file>.+):(?P<function>[A-Za-z_]\w*)$")
OBJECTIVES = ("time", "energy", "size")
_FRONT_SCHEMA = {
    "type": "array",
    "items": {"enum": list(OBJECTIVES)},
    "prefixItems": [{"const": "time"}],
    "minItems": 1,
    "uniqueItems": True,
}
OBJECTIVE_SCHEMA: dict[str, Any] = {"anyOf": [{"const": "time"}, _FRONT_SCHEMA], "default": "time"}
ARITHMETIC = {"anyOf": [{"type": "string"}, {"type": "number"}]}
EXPRESSION_SCHEMA: dict[str, Any] = ARITHMETIC | {
    "description": "A number, a name or an expression: + - * / // % **, comparisons, and, or, not, min, max, "
    "ceil, floor, log2, abs; integers are exact.",
    "examples": ["n", "ceil(n / BLOCK)", 1024],
}


DTYPE_SCHEMA: dict[str, Any] = {
    "anyOf": [
        {"enum": list(get_args(Dtype))},
        {
            "title": "Members",
            "description": "Members of structures by name: a type, an array such as `[float64, 3]`, or members again.",
            "type": "object",
            "minProperties": 1,
        },
    ],
    "examples": ["float32", {"x": "float32", "id": "int32"}],
}


def read_dtype(value: Any, read: Callable[[Any], Any]) -> Any:
    """A dtype as text, with ``read`` for those that are no structures."""
    return structured_dtype(value) if isinstance(value, dict) else read(value)


def read_expression(value: Any) -> Expression:
    if isinstance(value, Expression):
        return value
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise SpecError(f"{_show(value)} is no expression", "give a number, a name or an expression as text")
    return parse(value)


def _show(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "…"


def read_objectives(value: Any) -> tuple[str, ...]:
    asked = value if isinstance(value, list | tuple) else [value]
    good = bool(asked) and asked[0] == "time" and all(name in OBJECTIVES for name in asked)
    if not good or len(set(asked)) < len(asked):
        others = " or ".join(OBJECTIVES[1:])
        raise SpecError(
            f"objective is {value!r}", f"time, or a list of time and then {others}, as in [time, energy]"
        )
    return tuple(asked)


def read_switch(value: Any) -> Any:
    # YAML 1.1 habits: these words are truth values to many people.
    if value in _ON:
        return True
    return False if value in _OFF else value


_INIT_NUMBERS = {"type": "array", "items": ARITHMETIC, "minItems": 2, "maxItems": 2}
INITIAL_SCHEMA: dict[str, Any] = {
    "description": "How values are made: normal, permutation, zeros, or one of the mappings.",
    "examples": ["normal", {"uniform": [-1, 1]}, {"randint": [0, 256]}],
    "anyOf": [
        {"enum": ["normal", "uniform", "permutation", "zeros"]},
        {
            "title": "Init",
            "description": "Exactly one of these keys.",
            "type": "object",
            "minProperties": 1,
            "maxProperties": 1,
            "additionalProperties": False,
            "properties": {
                "uniform": {"description": "`[low, high]`.", **_INIT_NUMBERS},
                "normal": {"description": "`[mean, deviation]`.", **_INIT_NUMBERS},
                "randint": {"description": "`[low, high]`: whole numbers, `high` excluded.", **_INIT_NUMBERS},
                "constant": {"description": "The same value everywhere.", **ARITHMETIC},
                "values": {
                    "description": "One value for each element, in row-major order.",
                    "type": "array",
                    "items": ARITHMETIC,
                    "minItems": 1,
                },
                "csr": {
                    "title": "Csr",
                    "description": "One part of a random sparse matrix in compressed rows.",
                    "type": "object",
                    "additionalProperties": False,
                    "required": ["rows", "columns", "nonzeros", "part"],
                    "properties": {
                        "rows": ARITHMETIC,
                        "columns": ARITHMETIC,
                        "nonzeros": ARITHMETIC,
                        "part": {
                            "description": "Which of the two arrays this is; both are of one matrix.",
                            "enum": ["row_pointers", "columns"],
                        },
                        "skew": {
                            "description": "Exponent of the row lengths' power law; 0: even.",
                            **ARITHMETIC,
                        },
                        "matrix": {"description": "Name, where there are several.", "type": "string"},
                    },
                },
                "members": {
                    "description": "Of structures: values of their members by name; `at.x` of inner ones.",
                    "type": "object",
                },
                "file": {"description": "A .npy or raw .bin file beside the spec.", "type": "string"},
                "python": {
                    "description": "`file.py:function`: called with the sizes and `seed` by name; gives an array.",
                    "type": "string",
                },
            },
        },
    ],
}
_PAIRS = {"uniform": ("low", "high"), "normal": ("mean", "deviation"), "randint": ("low", "high")}
_KINDS = get_args(InitialKind)


def read_initial(value: Any) -> Any:
    """Every way of writing ``init`` as kind and options."""
    if isinstance(value, str):
        if value in ("normal", "uniform", "permutation", "zeros"):
            return {"kind": value}
        if value in _KINDS:
            raise SpecError(f"init {value} needs its numbers", "for example {randint: [0, 100]}")
        return {"kind": value}
    if not isinstance(value, dict) or len(value) != 1:
        raise SpecError(f"init is {_show(value)}", "one kind, for example normal or {uniform: [-1, 1]}")
    ((kind, given),) = value.items()
    return {"kind": kind, "options": _options(kind, given)}


def _options(kind: str, given: Any) -> Any:
    if kind not in _KINDS or given is None:
        return {}
    if kind in _PAIRS and isinstance(given, list):
        if len(given) != 2:
            raise SpecError(f"init {kind} has {len(given)} numbers", f"give [{', '.join(_PAIRS[kind])}]")
        return {name: read_expression(x) for name, x in zip(_PAIRS[kind], given, strict=True)}
    if kind == "constant" and not isinstance(given, dict):
        return {"value": read_expression(given)}
    if kind == "values" and isinstance(given, list):
        return {"values": tuple(map(read_expression, given))}
    if kind == "members" and isinstance(given, dict):
        return {str(name): read_initial(each) for name, each in given.items()}
    if kind == "file" and isinstance(given, str):
        return {"path": given}
    if kind == "python":
        return dict(zip(("file", "function"), _function(given), strict=True))
    if not isinstance(given, dict):
        raise SpecError(f"init {kind} is {_show(given)}", "see `tuner schema` for its form")
    words = ("part", "matrix", "path")
    return {name: value if name in words else read_expression(value) for name, value in given.items()}


def _function(given: Any) -> tuple[str, str]:
    found = _FUNCTION.fullmatch(given) if isinstance(given, str) else None
    if found is None:
        raise SpecError(f"{_show(given)} names no Python function", "write file.py:function")
    return found["file"], found["function"]


def read_parameter(value: Any) -> Any:
    if isinstance(value, list):
        return {"values": value}
    if not isinstance(value, dict):
        raise SpecError(f"{_show(value)} is no range of values", "a list, or {low: 1, high: 8}")
    return value


def read_value(value: Any) -> int | float | str | bool:
    if not isinstance(value, int | float | str):
        raise SpecError(f"{_show(value)} is no value", "numbers, text, true and false are")
    return value


PARAMETER_SCHEMA = {
    "description": "Values as a list (the first is the baseline's), or a range.",
    "anyOf": [
        {"type": "array", "minItems": 1, "items": {"type": ["integer", "number", "string", "boolean"]}},
        {
            "title": "Parameter",
            "description": "A tunable as a mapping: `values`, or the whole numbers from `low` to `high`.",
            "type": "object",
            "additionalProperties": False,
            "properties": {
                "values": {"type": "array", "minItems": 1},
                "low": {"type": "integer"},
                "high": {"type": "integer"},
                "step": {"type": "integer", "minimum": 1},
                "log": {"type": "boolean"},
                "default": {"type": ["integer", "number", "string", "boolean"]},
                "macro": {"type": "boolean"},
            },
        },
    ],
    "examples": [[8, 16, 32], {"low": 1, "high": 8, "log": True, "default": 1}],
}


def read_passes(value: Any) -> Any:
    if value is False or value in _OFF:
        return {"off": True}
    if isinstance(value, dict) and "off" not in value:
        return value
    raise SpecError(f"passes is {_show(value)}", 'write off, or {base: "default<O3>", max_edits: 40}')


PASSES_SCHEMA = {
    "description": "Pass pipelines around a base; on when left out, where the backend has passes.",
    "anyOf": [
        {"enum": ["off", False]},
        {
            "title": "Passes",
            "description": "Pipelines around a base.",
            "type": "object",
            "additionalProperties": False,
            "properties": {
                "base": {"type": "string", "default": "default<O3>"},
                "max_edits": {"type": "integer", "minimum": 1, "default": 40},
            },
        },
    ],
}


def read_reference(value: Any) -> Any:
    if isinstance(value, str) and value != "python":
        return {"kind": value}
    if isinstance(value, dict) and set(value) == {"python"}:
        file, function = _function(value["python"])
        return {"kind": "python", "file": file, "function": function}
    raise SpecError(f"reference is {_show(value)}", "original, or {python: file.py:function}")


REFERENCE_SCHEMA = {
    "description": "The kernel as given, a Python function returning outputs by name, or the recording.",
    "anyOf": [
        {"enum": ["original", "recording"]},
        {
            "title": "Reference",
            "description": "A function of the user's own.",
            "type": "object",
            "additionalProperties": False,
            "required": ["python"],
            "properties": {
                "python": {
                    "description": "`file.py:function` beside the spec: called with those arguments and sizes that it "
                    "names, floating arrays as float64; returns a dict of the outputs by name, and `return` for what "
                    "the kernel returns.",
                    "type": "string",
                    "examples": ["reference.py:softmax"],
                }
            },
        },
    ],
}
