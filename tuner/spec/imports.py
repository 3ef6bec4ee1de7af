"""Specs from others' files: a T1 description of a kernel, and any recorded space.

T1 is the input format of the FAIR autotuning schemas (https://github.com/odgaard/TuningSchema). Makes texts; may not
write files.
"""

from __future__ import annotations

import ast
import posixpath
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from tuner.core.errors import SpecError
from tuner.core.types import Value
from tuner.evaluators.recorded.formats import first_working
from tuner.evaluators.recorded.spaces import RecordedSpace
from tuner.spec.foreign import list_of_values, restriction

__all__ = ["Imported", "import_t1", "spec_of_space"]

_LANGUAGES = {"cuda": "cuda", "opencl": "opencl", "c": "c", "c++": "c++"}
_TYPES = {
    "float": "float32",
    "double": "float64",
    "half": "float16",
    "int": "int32",
    "int32": "int32",
    "int64": "int64",
    "long": "int64",
    "uint": "uint32",
    "unsigned int": "uint32",
    "char": "int8",
    "uchar": "uint8",
    "short": "int16",
}
_ROLES = {"readonly": "input", "writeonly": "output", "readwrite": "inout"}
_SIZES = ("size_x", "size_y", "size_z", "size_w")


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """A spec's text, and notes of what the file says that a spec cannot."""

    name: str
    text: str
    notes: tuple[str, ...] = ()


def spec_of_space(space: RecordedSpace, data_file: str) -> Imported:
    """The spec that searches a recorded space; its baseline is the first configuration of the file that worked.

    Args:
        space: the data.
        data_file: its name beside the spec.

    Raises:
        SpecError: nothing in it worked, or a restriction cannot be translated.
    """
    default = first_working(space)
    if default is None:
        raise SpecError(f"no configuration of {space.kernel} worked", "a recorded space needs one that did")
    combinations = 1
    for values in space.parameters.values():
        combinations *= len(values)
    notes = []
    if space.restrictions is None and combinations > len(space.rows):
        notes.append(
            f"the file has {len(space.rows)} of {combinations} combinations and no restrictions: "
            "only these are searched"
        )
    document = {
        "kernel": {"source": data_file, "entry": space.kernel, "language": "recorded"},
        **({"target": space.device} if space.device else {}),
        "space": {
            "parameters": {
                name: {"values": list(values), "default": default[name]}
                for name, values in space.parameters.items()
            },
            "constraints": [restriction(text) for text in space.restrictions or ()],
            "passes": "off",
        },
    }
    return Imported(name=space.kernel, text=_yaml(document), notes=tuple(notes))


def import_t1(data: Mapping[str, Any], *, beside: str = ".") -> Imported:
    """The spec of a T1 description.

    Args:
        data: the description.
        beside: the folder that its files are relative to, as the spec's folder sees it.

    Raises:
        SpecError: something is missing, or cannot be said in a spec.
    """
    try:
        return _T1(data, beside).spec()
    except (KeyError, TypeError, AttributeError) as error:
        raise SpecError(
            f"the T1 description does not hold together ({type(error).__name__}: {error})",
            "it needs ConfigurationSpace and KernelSpecification as in schema 1.0.0",
        ) from None


class _T1:
    def __init__(self, data: Mapping[str, Any], beside: str) -> None:
        self._data = data
        self._beside = beside
        self._kernel: Mapping[str, Any] = data["KernelSpecification"]
        space = data["ConfigurationSpace"]
        self._values = {p["Name"]: list_of_values(str(p["Values"])) for p in space["TuningParameters"]}
        self._defaults = {p["Name"]: p.get("Default") for p in space["TuningParameters"]}
        self._conditions = [c["Expression"] for c in space.get("Conditions") or ()]
        self._notes: list[str] = []

    def spec(self) -> Imported:
        kernel = self._kernel
        language = _LANGUAGES.get(str(kernel["Language"]).lower())
        if language is None:
            raise SpecError(
                f"the language {kernel['Language']!r} is not known", "one of " + ", ".join(_LANGUAGES)
            )
        sizes = self._sizes()
        document: dict[str, Any] = {
            "kernel": {
                "source": posixpath.normpath(posixpath.join(self._beside, kernel["KernelFile"])),
                "entry": kernel["KernelName"],
                "language": language,
            },
            **({"problem": sizes} if sizes else {}),
            "arguments": [a for a in map(self._argument, kernel.get("Arguments") or ()) if a is not None],
            **({"launch": self._launch(language)} if language in ("cuda", "opencl") else {}),
            "space": {
                "parameters": {name: self._parameter(name) for name in self._values},
                "constraints": [restriction(c) for c in self._conditions],
                **self._flags(),
            },
        }
        name = str((self._data.get("General") or {}).get("BenchmarkName") or kernel["KernelName"])
        return Imported(name=name, text=_yaml(document), notes=tuple(self._notes))

    def _sizes(self) -> dict[str, int]:
        given = self._kernel.get("ProblemSize") or []
        given = given if isinstance(given, list) else [given]
        return {name: int(size) for name, size in zip(_SIZES, given, strict=False)}

    def _parameter(self, name: str) -> dict[str, Any]:
        values, default = self._values[name], self._defaults[name]
        made: dict[str, Any] = {"values": values}
        if isinstance(default, list) and default:
            default = default[0]
        if default in values:
            made["default"] = default
        elif default is not None:
            self._notes.append(
                f"the default {default!r} of {name} is none of its values: {values[0]!r} is taken"
            )
        return made

    def _flags(self) -> dict[str, Any]:
        options = self._kernel.get("CompilerOptions") or []
        return {"flags": {"options": [" ".join(map(str, options))]}} if options else {}

    def _argument(self, given: Mapping[str, Any]) -> dict[str, Any] | None:
        name, kind = given["Name"], str(given["Type"])
        if str(given.get("MemType", "")).lower() == "constant":
            self._notes.append(f"{name} is a symbol in constant memory, no argument: set it in the source")
            return None
        dtype = _TYPES.get(kind.lower())
        if dtype is None:
            raise SpecError(f"the type {kind!r} of {name} is not known", "one of " + ", ".join(_TYPES))
        if str(given.get("MemoryType", "Vector")).lower() == "scalar":
            value = given.get("FillValue", 0)
            return {"name": name, "dtype": dtype, "value": self._expression(value)}
        made: dict[str, Any] = {"name": name, "dtype": dtype, "shape": [self._expression(given["Size"])]}
        role = _ROLES.get(str(given.get("AccessType", "ReadOnly")).lower(), "input")
        if role != "input":
            made["role"] = role
        fill = str(given.get("FillType", "Random")).lower()
        if fill == "constant" and role != "output":
            made["init"] = {"constant": given.get("FillValue", 0)}
        elif role != "output":
            made["init"] = {"uniform": [0.0, 1.0]} if dtype.startswith("float") else {"randint": [0, 100]}
        return made

    def _launch(self, language: str) -> dict[str, Any]:
        kernel = self._kernel
        local = [str(v) for v in (kernel.get("LocalSize") or {}).values()]
        block = [self._expression(v) for v in local] or ["block_size_x"]
        grid: list[Value] = []
        for axis, size in zip("XYZ", self._sizes(), strict=False):
            parts = kernel.get(f"GridDiv{axis}")
            if parts is None:
                grid = []
                break
            grid.append(f"ceil({size} / ({' * '.join(map(str, parts)) or '1'}))")
        if not grid:
            whole = [self._expression(v) for v in (kernel.get("GlobalSize") or {}).values()]
            in_blocks = str(kernel.get("GlobalSizeType", language)).lower() == "cuda"
            grid = whole if in_blocks else [f"ceil({g} / ({b}))" for g, b in zip(whole, block, strict=False)]
        made: dict[str, Any] = {"grid": grid, "block": block}
        shared = kernel.get("SharedMemory")
        if shared:
            made["shared_bytes"] = self._expression(shared)
        return made

    def _expression(self, value: Any) -> Value:
        """A number or an expression of a spec: ``ProblemSize[i]`` is a size, ``max(PARAMETER)`` its largest value."""
        if not isinstance(value, str):
            return value  # type: ignore[no-any-return]
        try:
            tree = _T1Names(self._values).visit(ast.parse(value.strip(), mode="eval"))
        except SyntaxError:
            raise SpecError(f"{value!r} is no expression", "correct the T1 file") from None
        text = ast.unparse(tree)
        return int(text) if text.isdigit() else restriction(text)


class _T1Names(ast.NodeTransformer):
    def __init__(self, values: Mapping[str, list[Value]]) -> None:
        self._values = values

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        match node:
            case ast.Subscript(value=ast.Name(id="ProblemSize"), slice=ast.Constant(value=int(i))):
                return ast.Name(id=_SIZES[i], ctx=ast.Load())
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        match node:
            case ast.Call(func=ast.Name(id="max" | "min" as which), args=[ast.Name(id=name)]) if (
                name in self._values
            ):
                numbers = [v for v in self._values[name] if isinstance(v, int | float)]
                return ast.Constant(value=max(numbers) if which == "max" else min(numbers))
        return node


def _yaml(document: Mapping[str, Any]) -> str:
    return str(yaml.safe_dump(dict(document), sort_keys=False, default_flow_style=None, width=100))
