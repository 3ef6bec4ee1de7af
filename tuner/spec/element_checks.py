"""Whether arrays of structures in a spec have the members that the compiler lays out in the source's structures.

clang is asked for places and types of members.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from tuner.core.dtypes import element_of, is_structured, members_of, numpy_dtype
from tuner.core.types import Argument, Task
from tuner.spec.reading.c_types import CType
from tuner.spec.reading.record_layouts import Member, element_type, record_layout
from tuner.spec.reading.signature import Function, SourceReader
from tuner.spec.yaml_places import Path, View

__all__ = ["check_element", "check_elements", "refuse_structures"]


def refuse_structures(task: Task, arguments: Sequence[Argument], view: View) -> None:
    """There are no structures in these arrays.

    Raises:
        SpecError: there are.
    """
    for i, argument in enumerate(task.arguments):
        if is_structured(argument.dtype) and argument in arguments:
            what = (
                f"argument {argument.name!r} has structures, which the {task.backend} backend does not take"
            )
            hint = "give all members one type and the array a dimension for them, or take an array for each member"
            raise view.error(("arguments", i, "dtype"), what, hint)


def check_elements(
    reader: SourceReader, function: Function, arguments: Sequence[Argument], view: View
) -> None:
    """Structures lie in memory as the spec says.

    Args:
        reader: of the source that has the function.
        function: the kernel.
        arguments: in call order, one for each of its parameters.
        view: for places in messages.

    Raises:
        SpecError: they do not.
    """
    for i, (argument, (_, kind)) in enumerate(zip(arguments, function.parameters, strict=True)):
        check_element(reader, argument, kind, view, ("arguments", i, "dtype"))


def check_element(
    reader: SourceReader, argument: Argument, kind: CType, view: View, path: Path, *, element: str = ""
) -> None:
    """As :func:`check_elements` for one argument or member; ``element``: the structures' type where not ``kind``'s."""
    if not is_structured(argument.dtype) or not argument.is_array or kind.base == "void":
        return
    name = element or element_type(kind)
    says = f"argument {argument.name!r} is `{kind.text}` in the source"
    hint = "list all members with their types, in the source's order"
    layout = record_layout(reader, name)
    found = {} if layout is None else dict(_members((*layout.members, *layout.plain()), ""))
    wanted = members_of(argument.dtype)
    missing = next((member for member in wanted if member not in found), None)
    if layout is None or missing is not None:
        raise view.error(path, f"{says}, which has no member {missing!r}", hint)
    for member, written in wanted.items():
        if not _agrees(found[member], written, reader.language):
            raise view.error(path, f"{says}, whose member {member!r} is not {written}", hint)
        at, place = found[member].place, _place(numpy_dtype(argument.dtype), member)
        if at != place:
            what = f"whose member {member!r} lies at byte {at}, and by the spec at byte {place}"
            raise view.error(path, f"{says}, {what}", hint)
    size = numpy_dtype(argument.dtype).itemsize
    if layout.size != size:
        what = f"which takes {layout.size} bytes, and by the spec {size}"
        raise view.error(path, f"{says}, {what}", hint)


def _place(dtype: np.dtype[np.void], member: str) -> int:
    """First byte of a member."""
    at = 0
    for name in member.split("."):
        assert dtype.fields is not None
        inner, offset, *_ = dtype.fields[name]
        at, dtype = at + offset, inner
    return at


def _members(members: Sequence[Member], outer: str) -> Iterator[tuple[str, Member]]:
    """Those that can be named, at any depth; what a structure without a name holds is the outer one's."""
    for member in members:
        if member.place >= 0 and member.name:
            yield outer + member.name, member
        yield from _members(member.members, f"{outer}{member.name}." if member.name else outer)


def _agrees(member: Member, written: str, language: str) -> bool:
    """Whether a member is numbers of a dtype, and as many of them."""
    kind, (dtype, extents) = member.kind, element_of(written)
    lanes = [4 if kind.width == 3 else kind.width] if kind.width > 1 else []
    counts = (*member.extents, *lanes)
    alike = len(counts) == len(extents) and math.prod(counts) == math.prod(extents)
    # How wide an enumeration is that other files cannot name its type does not say, but in C.
    known = not member.type.startswith("enum ") or language in ("c", "opencl")
    return alike and known and dtype in kind.dtypes and not (kind.pointer or member.members)
