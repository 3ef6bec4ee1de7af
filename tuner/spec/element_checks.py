"""Whether arrays of structures in a spec have the members that the compiler lays out in the source's structures.

clang is asked for places and types of members.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tuner.core.dtypes import element_of, is_structured, members_of, numpy_dtype
from tuner.core.types import Argument, Task
from tuner.spec.reading.c_types import DTYPES, CType
from tuner.spec.reading.nodes import walk
from tuner.spec.reading.record_layouts import element_type
from tuner.spec.reading.signature import Function, SourceReader
from tuner.spec.yaml_places import Path, View

__all__ = ["check_element", "check_elements", "refuse_structures"]

_PROBE = "tuner_element_probe_"


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
    members = members_of(argument.dtype)
    wanted = {member: _place(numpy_dtype(argument.dtype), member) for member in members}
    questions = [f"sizeof({name})"]
    for member, written in members.items():
        questions += [
            f"__builtin_offsetof({name}, {member})",
            f"sizeof((({name} *)0)->{member})",
            _same_type(reader.language, f"(({name} *)0)->{member}", written),
        ]
    answers = _answers(reader, questions)
    if answers is None:
        missing = [m for m in members if _answers(reader, [f"sizeof((({name} *)0)->{m})"]) is None]
        what = f"has no member {missing[0]!r}" if missing else "is no structure of such members"
        raise view.error(path, f"{says}, which {what}", hint)
    size, *rest = answers
    for number, (member, written) in enumerate(members.items()):
        at, item, same = rest[3 * number : 3 * number + 3]
        place, bytes_of_it = wanted[member]
        if not same or item != bytes_of_it:
            raise view.error(path, f"{says}, whose member {member!r} is not {written}", hint)
        if at != place:
            what = f"whose member {member!r} lies at byte {at}, and by the spec at byte {place}"
            raise view.error(path, f"{says}, {what}", hint)
    if size != numpy_dtype(argument.dtype).itemsize:
        what = f"which takes {size} bytes, and by the spec {numpy_dtype(argument.dtype).itemsize}"
        raise view.error(path, f"{says}, {what}", hint)


def _place(dtype: np.dtype[np.void], member: str) -> tuple[int, int]:
    """First byte and bytes of a member."""
    at = 0
    for name in member.split("."):
        assert dtype.fields is not None
        inner, offset, *_ = dtype.fields[name]
        at, dtype = at + offset, inner
    return at, dtype.itemsize


def _same_type(language: str, expression: str, written: str) -> str:
    """Whether a member's numbers are of a type that agrees with a dtype: more than zero where they are."""
    dtype, extents = element_of(written)
    element = expression + "[0]" * len(extents)
    names = [
        _written(each)
        for each, dtypes in DTYPES.items()
        if dtype in dtypes and each not in ("enum", "__fp16")
    ]
    if language == "opencl":
        names = [
            each
            for each in names
            if "_Complex" not in each and each not in ("_Bool", "_Float16", "long long", "unsigned long long")
        ]
    if language in ("c++", "cuda"):
        same = [f"__is_same(__remove_cv(__typeof__({element})), {each})" for each in names if each != "_Bool"]
    else:
        same = [
            f"__builtin_types_compatible_p(__typeof__({element}), {each})"
            for each in names
            if each != "bool" or language == "opencl"
        ]
    return " + ".join(["0", *same])


def _written(name: str) -> str:
    return f"{name.removeprefix('_Complex ')} _Complex" if name.startswith("_Complex") else name


def _answers(reader: SourceReader, questions: Sequence[str]) -> list[int] | None:
    """What whole numbers come to behind the source; ``None`` where one of them does not compile."""
    lines = ",\n".join(f"{_PROBE}{i} = {each}" for i, each in enumerate(questions))
    found: dict[str, int] = {}
    trees, _ = reader.answered(_PROBE, f"\n\nenum {{\n{lines}\n}};\n")
    for tree in trees:
        values = [node["value"] for node in walk(tree) if node.get("kind") == "ConstantExpr"]
        if tree.get("kind") == "EnumConstantDecl" and values:
            found[str(tree["name"])] = int(values[0])
    return [found[f"{_PROBE}{i}"] for i in range(len(questions))] if len(found) == len(questions) else None
