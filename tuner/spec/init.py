"""Writes a first spec from a kernel's signature and what its source does with its arguments.

Guesses, and says in comments what it guessed. May not run or optimise the kernel.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from tuner.core.errors import BaselineError, SpecError, UsageError
from tuner.spec.accesses import Findings, Use, examine
from tuner.spec.agreement import entries_of, functions_of
from tuner.spec.cuda_init import init_cuda
from tuner.spec.init_device import MISSING_BLOCK, device_spec
from tuner.spec.macros import Macros, macros_of, spread
from tuner.spec.models import KernelModel
from tuner.spec.signature import CType, Function, SourceReader, walk
from tuner.spec.sources import folder_reader, language_of, read_sources
from tuner.spec.yaml_places import Document, View, closest

__all__ = ["init_spec"]

_SIZES = {0: 1 << 16, 1: 1 << 20, 2: 2048, 3: 160}
"""Sizes by depth of the loop nest, for a call of some milliseconds."""
_DEEP = 48
_ODD = (67, 129, 35, 41, 19, 23)
_ODD_DEEP = (37, 29, 41, 17, 19, 23)
_MAX_DIMENSIONS = 8
_MOST_MISSING = 16
_INNER = re.compile(r"\[(\d+)\]")
_UNDECLARED = re.compile(r"use of undeclared identifier '([A-Z][A-Z0-9_]*)'")


def init_spec(kernel_file: str | Path, *, entry: str | None = None) -> str:
    """The text of a first spec.

    Args:
        kernel_file: a C, C++, OpenCL or CUDA source.
        entry: the function; may be left out where the file has one that can be called from outside.

    Raises:
        UsageError: no such file or function, several functions, or a type that no spec can describe.
        BaselineError: clang does not accept the source.
    """
    path = Path(kernel_file)
    language = language_of(path.name)
    if language == "cuda":
        return init_cuda(path.name, _read(path), entry=entry)
    if language not in ("c", "c++", "opencl"):
        raise UsageError(
            f"{path.name} is no C, C++, OpenCL or CUDA", "write its spec by hand; see tuner schema"
        )
    view = View(document=Document(data={}, file=str(path), values={}, keys={}), data={})
    folder = path.resolve().parent
    try:
        model = KernelModel(source=path.name, entry=entry or "kernel")
        sources = read_sources(model, view, folder_reader(folder), str(folder))
    except SpecError as error:
        raise UsageError(error.message, error.hint) from None
    reader = SourceReader(files=sources.variant.files, language=language, folder=str(folder))
    text = sources.variant.files[0].text
    reader = _with_missing(reader, text)
    function = _choose(reader, text, path.name, entry)
    for position, (name, kind) in enumerate(function.parameters):
        if kind.odd or not (kind.dtypes or kind.pointer):
            what = kind.odd or "a type that no spec can describe"
            raise UsageError(
                f"argument {name or position + 1} of {function.name} is {what}: `{kind.text}`",
                "write a function that takes numbers and pointers to numbers and calls it",
            )
    function = _named(function)
    if language == "opencl":
        return device_spec(path.name, function, text, missing=tuple(reader.macros))
    names = set(functions_of(text))
    known: dict[str, Function | None] = {}

    def lookup(name: str) -> Function | None:
        if name not in known:
            found = reader.functions(name) if name in names else []
            known[name] = next((f for f in found if f.defined and not f.template), None)
        return known[name]

    macros = replace(macros_of(text), missing=tuple(reader.macros))
    return _Writer(path.name, function, examine(function, lookup), macros).text()


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}", "name a source file") from None


def _with_missing(reader: SourceReader, text: str) -> SourceReader:
    """The reader with a value for macros that C sources use and that only a build defines."""
    names = functions_of(text)
    for _ in range(_MOST_MISSING if names else 0):
        try:
            reader.functions(names[0])
            break
        except BaselineError as error:
            missing = _UNDECLARED.search(error.message)
            if missing is None or missing[1] in reader.macros:
                raise
            value = MISSING_BLOCK if reader.language == "opencl" else 1
            reader = replace(reader, macros={**reader.macros, missing[1]: value})
    return reader


def _choose(reader: SourceReader, text: str, file: str, entry: str | None) -> Function:
    names = functions_of(text)
    if entry is not None:
        found = [f for f in reader.functions(entry) if f.defined]
        if not found:
            named = entries_of(text)
            near = closest(entry, named)
            hint = f"did you mean {near!r}?" if near else "it has " + (", ".join(named[:8]) or "no functions")
            raise UsageError(f"{file} has no function {entry!r}", hint)
        if found[0].template or found[0].hidden:
            what = "a template" if found[0].template else "static"
            raise UsageError(
                f"{entry!r} is {what}, so it cannot be called from outside", "name another function"
            )
        if reader.language == "opencl" and not found[0].kernel:
            raise UsageError(f"{entry!r} is no kernel", "write __kernel before it, or name another function")
        return found[0]
    functions = [f for name in names for f in reader.functions(name) if f.defined]
    callable_ = {f.name: f for f in functions if not f.hidden and not f.template and f.name != "main"}
    if reader.language == "opencl":
        callable_ = {name: f for name, f in callable_.items() if f.kernel}
    if len(callable_) == 1:
        return next(iter(callable_.values()))
    if not callable_:
        raise UsageError(f"{file} has no function that can be called from outside", "name another file")
    # Where one leads to all the others it is the kernel.
    calls = {name: _called(f) & set(callable_) for name, f in callable_.items()}
    roots = [name for name in callable_ if not any(name in c for other, c in calls.items() if other != name)]
    if len(roots) == 1 and _reached(roots[0], calls) == set(callable_):
        return callable_[roots[0]]
    raise UsageError(f"{file} has several functions", "choose with --entry: " + ", ".join(callable_))


def _called(function: Function) -> set[str]:
    return {
        str(node["referencedDecl"].get("name", ""))
        for node in walk(function.tree)
        if node.get("kind") == "DeclRefExpr" and isinstance(node.get("referencedDecl"), dict)
    }


def _reached(root: str, calls: Mapping[str, set[str]]) -> set[str]:
    reached, waiting = {root}, [root]
    while waiting:
        new = calls[waiting.pop()] - reached
        reached |= new
        waiting += new
    return reached


def _named(function: Function) -> Function:
    """The function with a name for every argument."""
    parameters = tuple((n or f"argument{i + 1}", t) for i, (n, t) in enumerate(function.parameters))
    return Function(
        name=function.name,
        parameters=parameters,
        returns=function.returns,
        line=function.line,
        kernel=function.kernel,
        tree=function.tree,
    )


@dataclass(frozen=True, slots=True)
class _Line:
    text: str
    comment: str = ""


class _Writer:
    """Puts the YAML together."""

    def __init__(self, file: str, function: Function, findings: Findings, macros: Macros) -> None:
        self._file = file
        self._macros = macros
        self._function = function
        self._findings = findings
        self._sizes = findings.sizes or self._likely_sizes()

    def _likely_sizes(self) -> list[str]:
        whole = [n for n, t in self._function.parameters if _whole(t)]
        return whole[:1]

    def text(self) -> str:
        """The spec."""
        deep = self._findings.depth >= 3
        size = _SIZES.get(self._findings.depth, _DEEP)
        odd = _ODD_DEEP if deep else _ODD
        sizes = ", ".join(f"{n}: {size}" for n in self._sizes)
        small = ", ".join(
            f"{n}: {odd[i % len(odd)] + 6 * (i // len(odd))}" for i, n in enumerate(self._sizes)
        )
        lines = [
            _Line(
                "# A first spec, guessed from the source: look through what says `check`, then run tuner check."
            ),
            *self._kernel(),
        ]
        if self._sizes:
            lines.append(
                _Line(f"problem: {{{sizes}}}", "check: sizes as in your application; a call of 1 ms or more")
            )
        lines.append(_Line("arguments:", "in call order"))
        lines += [self._argument(i) for i in range(len(self._function.parameters))]
        lines += [
            _Line("space:"),
            *self._parameters(),
            _Line("  flags:"),
            _Line('    vectors: ["", "-mprefer-vector-width=128", "-mprefer-vector-width=512"]'),
            _Line('    # math: ["", "-ffast-math"]         # if the tolerance below allows it'),
            _Line('  passes: {base: "default<O3>", max_edits: 40}'),
            _Line("verify:"),
            _Line("  rtol: 1.0e-5", "check: allowed error, relative to the value"),
            _Line("  atol: 1.0e-6", "and in units of the output's root mean square"),
        ]
        if self._sizes:
            lines.append(_Line(f"  problems: [{{{small}}}]", "check: odd sizes that must come out right too"))
        lines += [_Line("search:"), _Line("  budget: {evaluations: 200, minutes: 10}")]
        return "".join(_layout(line) for line in lines)

    def _parameters(self) -> list[_Line]:
        lines = []
        if self._macros.guarded or self._macros.missing:
            lines.append(_Line("  parameters:", "macros of the source, each -DNAME=value at the build"))
            for name, value in self._macros.guarded.items():
                values = ", ".join(map(str, spread(value)))
                lines.append(
                    _Line(f"    {name}: [{values}]", "check: the values; the first is the baseline's")
                )
            for name in self._macros.missing:
                lines.append(_Line(f"    {name}: [1, 2, 4, 8]", "check: the values; the source defines none"))
        elif not self._macros.fixed:
            lines.append(
                _Line(
                    "  # parameters: {TILE: [8, 16, 32]}    # macros of the source, each -DNAME=value at the build"
                )
            )
        for name, value in self._macros.fixed.items():
            values = ", ".join(map(str, spread(value)))
            note = f"to tune {name}, put #ifndef {name} and #endif around its #define, and then here:"
            lines += [_Line(f"  # {note}"), _Line(f"  # parameters: {{{name}: [{values}]}}")]
        return lines

    def _kernel(self) -> list[_Line]:
        parts = [f"source: {_quoted(self._file)}", f"entry: {self._function.name}"]
        returns = self._function.returns
        if returns is not None and returns.dtypes and not returns.pointer:
            parts.append(f"returns: {returns.dtypes[0]}")
        return [_Line(f"kernel: {{{', '.join(parts)}}}")]

    def _argument(self, position: int) -> _Line:
        name, kind = self._function.parameters[position]
        dtype = kind.dtypes[0] if kind.dtypes else "float32"
        if kind.text.startswith(("char", "const char")) and kind.pointer:
            dtype = "uint8"
        notes = [] if kind.dtypes else [f"check: the type behind `{kind.text}`"]
        if not kind.pointer:
            return self._scalar(name, dtype, notes)
        use = self._findings.uses[position]
        shape = self._shape(kind, use, notes)
        role = self._role(kind, use, notes)
        parts = [f"name: {name}", f"dtype: {dtype}", f"shape: [{shape}]"]
        if role != "input":
            parts.append(f"role: {role}")
        if role != "output":
            parts += self._initial(dtype, notes)
        return _Line(f"  - {{{', '.join(parts)}}}", "; ".join(notes))

    def _scalar(self, name: str, dtype: str, notes: list[str]) -> _Line:
        if name in self._sizes:
            value = name
        else:
            value = "1.0" if dtype.startswith("float") else "1"
            notes.append("check: the value")
        return _Line(f"  - {{name: {name}, dtype: {dtype}, value: {value}}}", "; ".join(notes))

    def _shape(self, kind: CType, use: Use, notes: list[str]) -> str:
        shape = use.shape
        inner = _INNER.findall(kind.text.partition("(*")[2])
        if inner and shape is not None and len(shape) == 1 + len(inner):
            # `float a[][64]`: the declaration says how far apart rows lie.
            return ", ".join([shape[0].text(), *inner])
        if shape is None or len(shape) > _MAX_DIMENSIONS or any(e.value == 0 for e in shape):
            notes.append("check: the shape")
            return self._sizes[0] if self._sizes else "1024"
        if use.lost:
            notes.append("check: the shape")
        # A product of sizes reads better as dimensions only where the source says so.
        return ", ".join(extent.text() for extent in shape)

    def _role(self, kind: CType, use: Use, notes: list[str]) -> str:
        if kind.constant or not use.written:
            return "input"
        if use.unclear or use.read:
            notes.append("check: output if all of it is written before it is read")
            return "inout"
        return "output"

    def _initial(self, dtype: str, notes: list[str]) -> list[str]:
        if dtype.startswith(("float", "complex")):
            return ["init: normal"]
        if dtype == "bool":
            return ["init: {randint: [0, 2]}"]
        if dtype.endswith("int8"):
            return ["init: {randint: [0, 100]}"]
        high = self._sizes[0] if self._sizes and dtype.endswith(("32", "64")) else "100"
        notes.append("check: the values, above all where they are indices")
        return [f"init: {{randint: [0, {high}]}}"]


def _whole(kind: CType) -> bool:
    return not kind.pointer and any(d.startswith(("int", "uint")) for d in kind.dtypes)


def _quoted(name: str) -> str:
    plain = name.replace(".", "").replace("-", "").replace("_", "").replace("/", "").isalnum()
    return (
        name
        if plain and not name[0].isdigit()
        else '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'
    )


def _layout(line: _Line) -> str:
    if not line.comment:
        return line.text + "\n"
    return f"{line.text}{' ' * max(2, 40 - len(line.text))}# {line.comment}\n"
