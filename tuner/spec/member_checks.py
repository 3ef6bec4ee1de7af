"""Whether the structures and rows in the spec are those that the function in the source takes.

Asks clang for the types of members; what agrees for arrays and numbers is said in :mod:`tuner.spec.agreement`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tuner.core.dtypes import is_structured
from tuner.core.errors import BaselineError, SpecError
from tuner.core.types import Argument, ArgumentRole, Task
from tuner.spec.agreement import check_argument, check_order, check_return, defined_function
from tuner.spec.element_checks import check_element
from tuner.spec.models import ArgumentModel
from tuner.spec.reading.c_types import POINTERS_INSIDE, ROWS, CType
from tuner.spec.reading.flattening import Flat, flattened
from tuner.spec.reading.lookup import function_lookup
from tuner.spec.reading.signature import Function, SourceReader
from tuner.spec.reading.written_types import written_dtype
from tuner.spec.structured import parts, subpath
from tuner.spec.yaml_places import Path, View, suggestion

__all__ = ["check_wrapped", "flat_of"]

_EXTENTS = re.compile(r"\[(\d+)\]")
_ACCESS = re.compile(r"(?:->|\.)\s*([A-Za-z_]\w*)")
_MEMBER = re.compile(r"no member named '(\w+)' in '([^']+)'")

_Checked = tuple[Function, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class _Place:
    """A member in the source: an expression of its type, and where the spec describes it."""

    expression: str
    name: str
    given: ArgumentModel
    path: Path


def check_wrapped(reader: SourceReader, task: Task, given: Sequence[ArgumentModel], view: View) -> _Checked:
    """The kernel exists and takes the structures, rows, arrays and numbers of the spec.

    Args:
        reader: of the sources as a compiler gets them, the wrapper behind the first.
        task: what is tuned.
        given: the spec's arguments.
        view: for places in messages.

    Returns:
        The kernel, and what a person should know.

    Raises:
        SpecError: it does not.
        BaselineError: the source does not compile.
    """
    kernel = task.kernel
    own = replace(reader, files=kernel.variant.files)
    function = defined_function(own, kernel.wrapped, len(given), view)
    if function.template:
        hint = 'write an extern "C" function that calls it'
        raise view.error(("kernel", "entry"), f"{kernel.wrapped!r} is a template", hint)
    check_order(function, [argument.name for argument in given], view)
    flat = {argument.name: argument for argument in task.arguments}
    for i, (argument, (_, kind)) in enumerate(zip(given, function.parameters, strict=True)):
        path: Path = ("arguments", i)
        if argument.by == "address":
            if kind.is_address == (argument.struct is not None):
                what = f"argument {argument.name!r} is `{kind.text}` in the source"
                hint = "by: address alone is for pointers, with struct: TYPE for a structure by value"
                raise view.error((*path, "by"), what, hint, key=True)
            continue
        if argument.members is None:
            _check_part(argument, flat[argument.name], kind, own, view, path, what="argument")
            continue
        members = _check_structure(argument, kind, own, view, path)
        for place, found in members:
            _check_member(place, flat.get(place.name), found, own, view)
        _check_apart([place for place, _ in members], own, view)
    _check_written(function, own, given, view)
    check_return(function, kernel.returns, view)
    try:
        reader.functions(kernel.entry)
    except BaselineError as error:
        said = error.message.removeprefix("the kernel does not compile: ")
        what = f"{kernel.wrapped!r} cannot be called as the spec says: {said}"
        hint = "structures, members and their types have to be those of the source"
        raise view.error(("arguments",), what, hint, key=True) from None
    return function, tuple(_unlisted(function, own, given, view))


def _check_written(
    function: Function, reader: SourceReader, given: Sequence[ArgumentModel], view: View
) -> None:
    """What is said of the numbers that are written through addresses is so: others have no tolerance."""
    for i, argument in enumerate(given):
        if argument.by == "address" and argument.dtype is not None:
            found = written_dtype(function, function_lookup(reader))
            if found != argument.dtype:
                says = f"{function.name} also writes other things than {argument.dtype}, or calls what may"
                raise view.error(
                    ("arguments", i, "dtype"), says, "remove dtype: then bytes are compared", key=True
                )
            return


def flat_of(function: Function, reader: SourceReader, names: Sequence[str]) -> Flat:
    """A function as if it took members, seen through functions of its own files that it calls.

    Args:
        function: with its tree.
        reader: of its files.
        names: of its parameters, as the spec has them.
    """
    parameters = tuple((name, kind) for name, (_, kind) in zip(names, function.parameters, strict=True))
    return flattened(replace(function, parameters=parameters), function_lookup(reader))


def _unlisted(
    function: Function, reader: SourceReader, given: Sequence[ArgumentModel], view: View
) -> Iterator[str]:
    """Members that the function uses and the spec does not list.

    Raises:
        SpecError: the function writes a number that is an input.
    """
    names = [argument.name for argument in given]
    kinds = [kind for _, kind in function.parameters]
    copied = {name for name, kind in zip(names, kinds, strict=True) if not kind.pointer and not kind.odd}
    flat = flat_of(function, reader, names)
    listed = {part.given.name: part for part in parts(given, view)}
    known = {argument.name for argument in given if argument.by == "address"}
    for member in flat.members.values():
        name = ".".join(member.trail)
        if member.trail[0] in known:
            continue
        part = listed.get(name)
        if part is None and not any(each == name or each.startswith(f"{name}.") for each in listed):
            what = "a null pointer" if member.kind.pointer and not member.extents else "zero"
            what += ", and what is written to it is not verified" if member.written else ""
            yield f"arguments: {name} is used by {function.name} and not listed, so it is {what}"
        elif part is not None and member.written and part.given.shape is None and part.given.role == "input":
            if member.trail[0] in copied and len(member.trail) == 2:
                # The function's own copy.
                continue
            hint = "write role: inout, or output where it is not read before"
            text = f"member {name!r} is written by {function.name}, and its role is input"
            raise view.error((*part.path, "role"), text, hint)


def _check_structure(
    given: ArgumentModel, kind: CType, reader: SourceReader, view: View, path: Path
) -> list[tuple[_Place, CType]]:
    """The members of a structure that is passed, with their types."""
    says = f"argument {given.name!r} is `{kind.text}` in the source"
    by_value = given.by == "value"
    if kind.odd not in ("", "a reference") or (kind.pointer and kind.dtypes):
        raise view.error(path, f"{says}, which is no structure", "give its shape and dtype, not its members")
    if kind.pointer and by_value:
        raise view.error((*path, "by"), f"{says}, a pointer", "remove by", key=True)
    if not kind.pointer and not by_value:
        hint = "write by: value" if not kind.dtypes else "give its value"
        raise view.error(path, f"{says}, no pointer", hint)
    places = list(_places(given, f"(({given.struct} *)0)", path, ""))
    return list(zip(places, _types(places, given, reader, view, path), strict=True))


def _places(given: ArgumentModel, before: str, path: Path, outer: str) -> Iterator[_Place]:
    """The members of a structure, at any depth; ``before`` is an expression for it, or for its address."""
    arrow = "." if outer and given.by == "value" else "->"
    name = f"{outer}{given.name}"
    for position, member in enumerate(given.members or ()):
        expression = f"{before}{arrow}{member.name}"
        yield _Place(expression, f"{name}.{member.name}", member, subpath(path, position))
        if member.members is not None:
            if member.struct is not None and member.by != "value":
                # What the member points to may be declared as something else, and be cast.
                expression = f"(({member.struct} *)0)"
            yield from _places(member, expression, subpath(path, position), f"{name}.")


def _types(
    places: Sequence[_Place], given: ArgumentModel, reader: SourceReader, view: View, path: Path
) -> list[CType]:
    size, *found = reader.types([f"sizeof({given.struct})", *(place.expression for place in places)])
    if isinstance(size, str):
        hint = "write the type as the source does: `struct chunk`, or the name that a typedef gives it"
        raise view.error((*path, "struct"), f"{given.struct!r} is no structure of the source: {size}", hint)
    for place, kind in zip(places, found, strict=True):
        if isinstance(kind, str):
            raise _refused(place, kind, reader, view)
    return [kind for kind in found if isinstance(kind, CType)]


def _refused(place: _Place, said: str, reader: SourceReader, view: View) -> SpecError:
    """Why a member has no type."""
    outer = place.name.rpartition(".")[0]
    if missing := _MEMBER.search(said):
        words = {word for file in reader.files for word in _ACCESS.findall(file.text)}
        hint = suggestion(missing[1], words - {missing[1]}, "name it as the source does")
        return view.error((*place.path, "name"), f"`{missing[2]}` has no member {missing[1]!r}", hint)
    if "is not a pointer" in said:
        hint = f"write by: value beside {outer.rpartition('.')[2]}"
        return view.error(
            place.path[:-2], f"member {outer!r} is no pointer to a structure in the source", hint
        )
    if "is a pointer" in said:
        return view.error(
            (*place.path[:-2], "by"), f"member {outer!r} is a pointer in the source", "remove by", key=True
        )
    if "bit-field" in said:
        hint = "leave it out, and it is zero; or make it a plain number"
        return view.error(place.path, f"member {place.name!r} is a bit-field in the source", hint)
    return view.error(place.path, f"member {place.name!r}: {said}", "correct the spec")


def _check_member(
    place: _Place, argument: Argument | None, kind: CType, reader: SourceReader, view: View
) -> None:
    what = f"member {place.name!r} is `{kind.text}` in the source"
    given, path = place.given, place.path
    if argument is None:
        if kind.pointer and given.by == "value":
            raise view.error((*path, "by"), f"{what}, a pointer", "remove by", key=True)
        if not kind.pointer and given.by != "value":
            hint = "write by: value" if not kind.dtypes else "give its value"
            raise view.error(path, f"{what}, no pointer", hint)
        return
    extents = [int(extent) for extent in _EXTENTS.findall(kind.base)]
    if POINTERS_INSIDE.search(kind.text):
        hint = "leave it out where it may be null, or write a function that takes each array by itself"
        raise view.error(path, f"{what}, pointers in the structure itself, which cannot be filled", hint)
    if given.shape is not None and extents and not kind.pointer:
        _check_inside(place, argument, kind, extents, reader, view)
        return
    if given.shape is not None and kind.text.endswith("[]"):
        hint = "write a function that takes it apart, or leave it out"
        raise view.error(path, f"{what}, as long as what is behind the structure, which cannot be made", hint)
    if given.shape is not None and given.by == "value":
        raise view.error((*path, "by"), f"{what}, which is no array", "remove by", key=True)
    _check_part(given, argument, kind, reader, view, path, what="member")


def _check_apart(places: Sequence[_Place], reader: SourceReader, view: View) -> None:
    """No two members lie in the same memory: of a union one can be filled."""
    if not any("union" in file.text for file in reader.files):
        return
    leaves = [place for place in places if place.given.members is None or place.given.by != "value"]
    split = [place.expression.rpartition("->") for place in leaves]
    asked = [f"__builtin_offsetof(__typeof__(*{outer}), {member}) + 1" for outer, _, member in split]
    asked += [f"sizeof({place.expression})" for place in leaves]
    numbers = _numbers(asked, reader)
    if not numbers:
        return  # A C++ reference has no place of its own.
    spans = [(at, at + size) for at, size in zip(numbers[: len(leaves)], numbers[len(leaves) :], strict=True)]
    for i, (place, (outer, *_), (start, end)) in enumerate(zip(leaves, split, spans, strict=True)):
        for other, (others, *_), (first, last) in zip(leaves[:i], split[:i], spans[:i], strict=True):
            if outer == others and start < last and first < end:
                what = f"members {other.name!r} and {place.name!r} share memory in the source, a union"
                raise view.error(place.path, what, "list the one that the function uses")


def _numbers(asked: Sequence[str], reader: SourceReader) -> list[int]:
    """Numbers of the source, each known by the length of an array; none of all where one has no value."""
    found = reader.types([f"*(char (*)[{number}])0" for number in asked])
    kinds = [kind for kind in found if isinstance(kind, CType)]
    return [int(_EXTENTS.findall(kind.base)[0]) for kind in kinds] if len(kinds) == len(found) else []


def _check_inside(
    place: _Place, argument: Argument, kind: CType, extents: list[int], reader: SourceReader, view: View
) -> None:
    """An array that lies in the structure itself."""
    what = f"member {place.name!r} is `{kind.text}` in the source"
    if place.given.by != "value":
        raise view.error(place.path, f"{what}, an array in the structure itself", "write by: value")
    one = place.expression + "[0]" * len(extents)
    (element,) = reader.types([one])
    assert isinstance(element, CType)
    if is_structured(argument.dtype):
        check_element(reader, argument, kind, view, (*place.path, "dtype"), element=f"__typeof__({one})")
    elif not element.dtypes and not element.pointer:
        # Structures: as many numbers as go into each.
        (bytes_of_one,) = _numbers([f"sizeof({one})"], reader)
        size, rest = divmod(bytes_of_one, np.dtype(argument.dtype).itemsize)
        if rest:
            hint = "write the dtype of a member"
            raise view.error((*place.path, "dtype"), f"{what}, not of {argument.dtype}", hint)
        extents = [*extents, size]
    shape = argument.shape or ()
    if any(extent.names for extent in shape) or math.prod(e.integer({}) for e in shape) != math.prod(extents):
        hint = f"write shape: {extents}"
        raise view.error((*place.path, "shape"), what, hint, key=True)
    check_argument(argument, replace(element, pointer=True, text=kind.text), view, place.path, what="member")


def _check_part(
    given: ArgumentModel,
    argument: Argument,
    kind: CType,
    reader: SourceReader,
    view: View,
    path: Path,
    *,
    what: str,
) -> None:
    """An array, rows or a number."""
    says = f"{what} {argument.name!r} is `{kind.text}` in the source"
    rows = kind.odd == ROWS
    if given.rows and not (rows and kind.depth <= 2):
        hint = "rows: pointers is for `T **`" if rows else "remove rows"
        raise view.error((*path, "rows"), says, hint, key=True)
    if rows and not given.rows:
        hint = "write rows: pointers beside the shape of the whole, [rows, elements of a row]"
        raise view.error(path, f"{says}, a pointer to pointers", hint)
    if given.rows:
        kind = replace(kind, odd="")
    if what == "member" and argument.is_array and given.by != "pointer" and given.value is not None:
        # A number that is written: it is passed by its address to the wrapper alone.
        argument = replace(argument, shape=None, role=ArgumentRole.INPUT)
    check_argument(argument, kind, view, path, what=what)
    check_element(reader, argument, kind, view, (*path, "dtype"))
