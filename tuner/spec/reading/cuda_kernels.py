"""The kernels of a CUDA source and of its headers, as clang sees them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from types import MappingProxyType

from tuner.core.errors import UsageError
from tuner.spec.reading.c_types import DTYPES, CType, c_type
from tuner.spec.reading.nodes import Node, body_of, location_of, parameter_nodes, plain_type
from tuner.spec.reading.signature import Function, SourceReader
from tuner.spec.reading.source_trees import SourceTree, source_tree
from tuner.spec.reading.trees import inner_nodes
from tuner.spec.reading.type_probes import TypeScope
from tuner.spec.yaml_places import suggestion

__all__ = [
    "NOISE",
    "CudaKernel",
    "Parameter",
    "base_name",
    "chosen_kernel",
    "cuda_functions",
    "kernels_of",
    "scope_of",
    "with_types",
]

NOISE = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"", re.DOTALL)
_UNKNOWN = CType(text="", base="", odd="not asked yet")


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One parameter of a kernel as it is declared.

    Attributes:
        name: of it.
        text: of its declaration.
        kind: its type, once clang has been asked.
        hidden: the kernel may write through it where its text does not name it.
    """

    name: str
    text: str
    kind: CType = _UNKNOWN
    hidden: bool = False

    @property
    def dtype(self) -> str:
        """Of the number or of the numbers that it points to; empty for a type that no spec can describe by itself."""
        return "" if self.kind.odd or not self.kind.dtypes else self.kind.dtypes[0]

    @property
    def pointer(self) -> bool:
        """Whether it points to numbers or structures."""
        return self.kind.pointer and not self.kind.odd

    @property
    def whole(self) -> bool:
        """Whether it is a whole number of 32 or 64 bits."""
        return not self.pointer and self.kind.whole and self.dtype[-1:] in ("2", "4")

    @property
    def lanes(self) -> int:
        """Numbers in an element."""
        return self.kind.members or 1


@dataclass(frozen=True, slots=True, kw_only=True)
class CudaKernel:
    """A ``__global__`` function.

    Attributes:
        name: without its namespaces.
        template: its template's parameters as they are written.
        parameters: in order; :func:`with_types` says what all their types are.
        body: its text.
        scope: the namespaces that it is in.
        bounds: the most threads of a block, as an expression; empty where the source does not say.
        file: that it stands in.
        instance: what the template is given in the first use of it.
    """

    name: str
    template: tuple[str, ...]
    parameters: tuple[Parameter, ...]
    body: str
    scope: tuple[str, ...] = ()
    bounds: str = ""
    file: str = ""
    instance: tuple[str, ...] = ()


def kernels_of(tree: SourceTree, name: str = "") -> list[CudaKernel]:
    """The kernels that a source and its headers define, all or those of a name, in order.

    Of types only those of numbers are known yet.
    """
    return [
        kernel
        for root, file in tree.declarations(f'"name": "{name}"' if name else '"CUDAGlobalAttr"')
        for kernel in _kernels(root, tree.text_of(file), file, ())
        if name in ("", kernel.name)
    ]


def _kernels(node: Node, text: bytes, file: str, scope: tuple[str, ...]) -> Iterator[CudaKernel]:
    kind, inner = node.get("kind"), [child for child in inner_nodes(node) if child]
    if kind in ("NamespaceDecl", "LinkageSpecDecl"):
        own = (str(node["name"]),) if "name" in node else ()
        for child in inner:
            yield from _kernels(child, text, file, (*scope, *own))
        return
    functions = (
        [c for c in inner if c.get("kind") == "FunctionDecl"] if kind == "FunctionTemplateDecl" else [node]
    )
    if not functions or functions[0].get("kind") != "FunctionDecl":
        return
    function = functions[0]
    body = body_of(function)
    bounds = next((c for c in inner_nodes(function) if c.get("kind") == "CUDALaunchBoundsAttr"), {})
    if not body or not any(c.get("kind") == "CUDAGlobalAttr" for c in inner_nodes(function)):
        return
    template = [c for c in inner if str(c.get("kind")).endswith("ParmDecl")] if node is not function else []
    given = [[a for a in inner_nodes(f) if a.get("kind") == "TemplateArgument"] for f in functions]
    used = next((i for i, each in enumerate(given) if each and len(each) == len(template)), 0)
    known = parameter_nodes(functions[used])
    yield CudaKernel(
        name=str(node["name"]),
        template=tuple(_written(each, text) for each in template),
        parameters=tuple(
            _parameter(each, i, text, known[i] if len(known) > i else each)
            for i, each in enumerate(parameter_nodes(function))
        ),
        body=_written(body, text),
        scope=scope,
        bounds=_expression(inner_nodes(bounds)[0]) if bounds else "",
        file=file,
        instance=tuple(map(_argument, given[used])) if used else (),
    )


def _written(node: Node, text: bytes) -> str:
    """What a node is made from, without comments; of a macro's text where one has it."""
    first, last = (node["range"][end] for end in ("begin", "end"))
    spelt = [place.get("spellingLoc", {}).get("offset", 0) for place in (first, last)]
    inside = location_of(first) == location_of(last) and 0 < spelt[0] < spelt[1]
    first, last = (place.get("spellingLoc" if inside else "expansionLoc", place) for place in (first, last))
    part = text[first.get("offset", 0) : last.get("offset", 0) + last.get("tokLen", 0)]
    return NOISE.sub(lambda m: " " * len(m[0]), part.decode("utf-8", "replace"))


def _parameter(node: Node, position: int, text: bytes, used: Node) -> Parameter:
    """A parameter as it is declared, with a name where it has none, and its type where that is one of numbers."""
    name = str(node.get("name", f"argument{position + 1}"))
    written = " ".join(_written(node, text).split("=")[0].split())
    if "name" not in node:
        written = f"{written} {name}"
    elif not re.search(rf"\b{name}\b", written):
        # Of a macro that makes kernels.
        written = f"{node['type']['qualType']} {name}"
    kind = c_type(used["type"])
    plain = not (used.get("isInvalid") or kind.odd or kind.base == "enum") and kind.base in DTYPES
    return Parameter(name=name, text=written, kind=replace(kind, text=written) if plain else _UNKNOWN)


def _expression(node: Node) -> str:
    """Whole numbers and what is computed of them; names of what clang does not fold."""
    inner = inner_nodes(node)
    if node.get("kind") == "BinaryOperator":
        return f"({_expression(inner[0])} {node['opcode']} {_expression(inner[1])})"
    if node.get("kind") == "DeclRefExpr":
        return str(node["referencedDecl"].get("name", ""))
    return str(node["value"]) if "value" in node else _expression(inner[-1]) if inner else ""


def _argument(node: Node) -> str:
    """A template's argument as any place of the source can write it; ``float`` for a type that has no name there."""
    if "value" in node:
        # Of `true` clang's tree has -1, as of a number with one bit.
        return str(node["value"])
    text = plain_type(node)
    return text if text and not re.search(r"[(){}]", text) else "float"


def with_types(kernel: CudaKernel, scope: TypeScope) -> CudaKernel:
    """The kernel with the types of its parameters.

    Args:
        kernel: as it was found; clang is asked once more where it has others than those of numbers.
        scope: of it, see :func:`scope_of`.

    Raises:
        MachineError: there is no clang, or it does not answer.
    """
    asked = [p for p in kernel.parameters if p.kind is _UNKNOWN]
    kinds = dict(zip(asked, scope.kinds([(p.name, p.text) for p in asked]), strict=True))
    typed = (replace(p, kind=kinds.get(p, p.kind)) for p in kernel.parameters)
    return replace(kernel, parameters=tuple(typed))


def scope_of(
    kernel: CudaKernel,
    reader: SourceReader,
    types: Sequence[str] = (),
    numbers: Mapping[str, str] = MappingProxyType({}),
) -> TypeScope:
    """Where the names in a kernel's signature are looked up.

    Args:
        kernel: as it was found.
        reader: of its source.
        types: what the template's parameters stand for; a type among them is ``float`` where it is not said.
        numbers: what stands for those that are numbers; 1 where it is not said.
    """
    names = []
    for place, part in enumerate(kernel.template):
        name = part.split("=")[0].split()[-1].lstrip(".")
        if part.startswith(("typename", "class")):
            own = part.partition("=")[2].strip() or "float"
            names.append(f"using {name} = {types[place] if place < len(types) else own};")
        else:
            names.append(f"static constexpr {part.split('=')[0]} = {numbers.get(name, '1')};")
    return TypeScope(reader, kernel.scope, tuple(names))


def base_name(entry: str) -> str:
    """A kernel's name without its template's arguments."""
    return entry.partition("<")[0].strip()


def cuda_functions(reader: SourceReader, entry: str) -> list[Function]:
    """The kernels of a name that a source defines, with the types that the entry's template arguments give.

    Raises:
        MachineError: there is no clang, or it does not answer.
    """
    given = entry.partition("<")[2].rpartition(">")[0]
    chosen = _split(given)
    name = base_name(entry).rpartition("::")[2]
    found = []
    for kernel in kernels_of(source_tree(reader), name):
        if kernel.file == PurePath(reader.files[0].name).name:
            if chosen:
                kernel = replace(
                    kernel, parameters=tuple(replace(p, kind=_UNKNOWN) for p in kernel.parameters)
                )
            typed = with_types(kernel, scope_of(kernel, reader, chosen))
            parameters = tuple((p.name, _plain(p.kind)) for p in typed.parameters)
            found.append(Function(name=name, parameters=parameters, returns=None, kernel=True))
    return found


def _plain(kind: CType) -> CType:
    """A type that clang does not know, or that no spec can describe, by its looks; its memory is bytes."""
    if not kind.odd:
        return replace(kind, structure="")
    pointer = kind.text.count("*") == 1
    constant = pointer and "const" in kind.text.partition("*")[0].split()
    return replace(kind, odd="", base="", pointer=pointer, constant=constant)


def chosen_kernel(file: str, kernels: Sequence[CudaKernel], entry: str | None) -> CudaKernel:
    """The kernel that a spec is for, or the only one.

    Raises:
        UsageError: no such kernel, or several.
    """
    names = [k.name for k in kernels]
    if not kernels:
        raise UsageError(f"{file} has no __global__ function", "name the file that defines the kernel")
    if entry is None:
        if len(set(names)) > 1:
            raise UsageError(f"{file} has several kernels", "choose with --entry: " + ", ".join(names))
        return kernels[0]
    wanted = base_name(entry)
    for kernel in kernels:
        if kernel.name == wanted:
            return kernel
    hint = suggestion(wanted, names, "it has " + ", ".join(names))
    raise UsageError(f"{file} has no kernel {wanted!r}", hint)


def _split(text: str) -> list[str]:
    """Parameters apart; commas inside brackets do not count."""
    parts, depth, start = [], 0, 0
    for i, letter in enumerate(text):
        depth += {"(": 1, "<": 1, "[": 1, ")": -1, ">": -1, "]": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            parts.append(text[start:i])
            start = i + 1
    return [p.strip() for p in [*parts, text[start:]] if p.strip() and p.strip() != "void"]
