"""Whether the structures that a CUDA kernel takes by value are those of the spec, by what NVRTC says.

May not build candidates.
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path as FilePath

from tuner.core.errors import MachineError, SpecError
from tuner.core.types import Argument, Parcel, Resolved, Task
from tuner.evaluators.cuda.compiler import CudaCompiler
from tuner.evaluators.cuda.layouts import NoLayout
from tuner.evaluators.cuda.parcels import Leaf, in_call_order
from tuner.evaluators.distributions import dtype_of
from tuner.spec.cuda_checks import cuda_reader
from tuner.spec.models import ArgumentModel
from tuner.spec.reading.c_types import bare
from tuner.spec.reading.cuda_kernels import kernels_of
from tuner.spec.reading.record_layouts import record_layout
from tuner.spec.reading.signature import SourceReader
from tuner.spec.reading.source_trees import source_tree
from tuner.spec.structured import parts
from tuner.spec.tunables import Tunables
from tuner.spec.yaml_places import Path, View, suggestion

__all__ = ["check_parcels"]

_ANY_CARD = "sm_90"
"""Structures lie in one way on all of them."""
_NATIVE = "native"
_NO_MEMBER = re.compile(r'has no (?:member|field) "(\w+)"')
_WORDS = {
    "int": "a whole number",
    "uint": "an unsigned number",
    "float": "a floating number",
    "bool": "a bool",
    "enum": "an enumeration",
    "other": "a structure",
}
_DTYPES = {"int": "int{}", "uint": "uint{}", "float": "float{}", "bool": "bool", "enum": "int{}"}


def check_parcels(
    task: Task, tunables: Tunables, given: Sequence[ArgumentModel], view: View
) -> tuple[str, ...]:
    """The structures are there, and have the members of the spec.

    Returns:
        What a person should know. Nothing is said where there is no NVRTC, or where it does not take the source: the
        build says so.

    Raises:
        SpecError: they are not, or have others.
    """
    kernel = task.kernel
    resolved = Resolved(
        macros={p.name: p.default for p in tunables.parameters if p.macro},
        scalars={p.name: p.default for p in tunables.parameters if not p.macro},
        flags=tuple(f for choices in tunables.flags.values() for f in shlex.split(choices[0])),
        pipeline=None,
    )
    read = [str(FilePath(kernel.folder, folder)) for folder in kernel.include]
    try:
        with CudaCompiler(_ANY_CARD if task.target == _NATIVE else task.target, read=read) as compiler:
            found = compiler.layouts(task, resolved)
    except MachineError:
        return ()
    except SpecError as error:
        raise error.at(view.place(("target",))) from None
    listed = {part.given.name: part for part in parts(given, view)}
    if isinstance(found, NoLayout):
        if found.about:
            paths = {n: part.path for n, part in listed.items()}
            raise _refused(task, found, paths, view, cuda_reader(task, tunables))
        return ()
    flat = {argument.name: argument for argument in task.arguments}
    for layout in found.values():
        for name, leaf in layout.leaves.items():
            _check_leaf(flat[name], listed[name].given, leaf, view, listed[name].path)
    return tuple(_unlisted(task, set(listed), cuda_reader(task, tunables)))


def _refused(
    task: Task, found: NoLayout, paths: dict[str, Path], view: View, reader: SourceReader
) -> SpecError:
    """Why the source has no such structure or member."""
    for number, passed in enumerate(in_call_order(task)):
        if isinstance(passed, Parcel) and passed.name == found.about:
            hint = "write the type as the source does, with its namespace: sim::Params"
            message = f"{passed.kind!r} is no structure of the source: {found.said}"
            # Arguments that are no parameters may stand before it.
            inside = (p[:2] for name, p in paths.items() if name.startswith(f"{passed.name}."))
            return view.error((*next(inside, (number,)), "struct"), message, hint)
    parcel = next(p for p in task.kernel.parcels if found.about.startswith(f"{p.name}."))
    path = paths[found.about]
    missing = _NO_MEMBER.search(found.said)
    if missing is None:
        return view.error(path, f"member {found.about!r}: {found.said}", "correct the spec")
    kind, layout = parcel.kind, record_layout(reader, parcel.kind)
    members = () if layout is None else layout.members
    trail = found.about.split(".")[1:]
    depth = trail.index(missing[1]) if missing[1] in trail else len(trail) - 1
    for name in trail[:depth]:
        inner = next((m for m in members if m.name == name), None)
        kind, members = ("", ()) if inner is None else (bare(inner.type), inner.members)
    names = [member.name for member in members]
    hint = suggestion(missing[1], names, "it has " + ", ".join(names[:12]))
    # Of `box.q` where there is no `box`, the members of that are all wrong: the outermost is said.
    place = path[: len(path) - 2 * (len(trail) - 1 - depth)]
    return view.error(
        (*place, "name"),
        f"`{kind or parcel.kind}` has no member {missing[1]!r}",
        hint if names else "name it as the source does",
    )


def _check_leaf(argument: Argument, given: ArgumentModel, leaf: Leaf, view: View, path: Path) -> None:
    says = f"member {argument.name!r} is {_described(leaf)} in the source"
    if given.by == "value" and argument.is_array:
        if leaf.outer != "array":
            raise view.error((*path, "by"), f"{says}, which is no array", "remove by", key=True)
        count = math.prod(extent.integer({}) for extent in argument.shape or ())
        if count * leaf.item != leaf.size:
            hint = f"write shape: [{leaf.size // max(1, leaf.item)}]"
            raise view.error((*path, "shape"), says, hint, key=True)
    elif leaf.outer == "array":
        raise view.error(path, says, f"write shape: [{leaf.size // max(1, leaf.item)}], by: value")
    elif argument.is_array and leaf.outer != "pointer":
        hint = "remove by" if argument.by_pointer else "give its value"
        raise view.error(path, f"{says}, no pointer", hint)
    elif not argument.is_array and leaf.outer == "pointer":
        hint = "give its shape, or write by: pointer beside the value of one number"
        raise view.error(path, f"{says}, but the spec gives a value", hint)
    wanted = dtype_of(argument)
    if not _fits(wanted.name, wanted.itemsize, leaf, array=argument.is_array):
        hint = "list its members, by: value"
        if leaf.kind != "other":
            hint = f"write {_DTYPES[leaf.kind].format(8 * leaf.item)}"
        raise view.error((*path, "dtype"), f"{says}, but the spec says {wanted}", hint)


def _fits(dtype: str, size: int, leaf: Leaf, *, array: bool) -> bool:
    if leaf.kind == "other":
        if array:
            # Elements such as float4, half and complex numbers; of `void *` nothing is known.
            return leaf.item % size == 0
        return dtype == "float16" and leaf.item == size
    kind = dtype.rstrip("0123456789")
    return leaf.item == size and kind in ((leaf.kind,) if leaf.kind != "enum" else ("int", "uint"))


def _described(leaf: Leaf) -> str:
    one = f"{_WORDS[leaf.kind]} of {leaf.item} bytes" if leaf.item > 1 else _WORDS[leaf.kind]
    if leaf.outer == "pointer":
        return f"a pointer to {one}" if leaf.item else "a pointer"
    return f"an array of {leaf.size // max(1, leaf.item)}, each {one}," if leaf.outer == "array" else one


def _unlisted(task: Task, listed: set[str], reader: SourceReader) -> Iterator[str]:
    """Members that the kernel itself uses and the spec does not list, by the text's looks."""
    name = task.kernel.entry.partition("<")[0].strip().rpartition("::")[2]
    kernel = next(iter(kernels_of(source_tree(reader), name)), None)
    if kernel is None:
        return
    for parameter, passed in zip(kernel.parameters, in_call_order(task), strict=False):
        if not isinstance(passed, Parcel):
            continue
        layout = record_layout(reader, passed.kind)
        known = {} if layout is None else {member.name: member for member in layout.members}
        used = re.findall(rf"(?<![\w.>]){re.escape(parameter.name)}\s*\.\s*(\w+)\b(?!\s*\()", kernel.body)
        for member in dict.fromkeys(used):
            full = f"{passed.name}.{member}"
            if member in known and not any(n == full or n.startswith(f"{full}.") for n in listed):
                what = "a null pointer" if known[member].kind.pointer else "zero"
                yield f"arguments: {full} is used by {name} and not listed, so it is {what}"
