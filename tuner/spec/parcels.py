"""Structures that a device's kernel takes by value, as the spec has them; what cannot be passed so is refused.

May not compile or know what the source says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tuner.core.types import Argument, Parcel
from tuner.spec.models import ArgumentModel, SpecModel
from tuner.spec.structured import has_structures, subpath
from tuner.spec.yaml_places import Path, View

__all__ = ["make_parcels", "with_inside"]


def make_parcels(model: SpecModel, backend: str, view: View) -> tuple[Parcel, ...]:
    """The structures among the parameters of a device's kernel.

    Raises:
        SpecError: a backend that takes none, or one that no launch can pass.
    """
    given = model.arguments or []
    if backend == "host" or not has_structures(given):
        return ()
    parcels = []
    for i, argument in enumerate(given):
        path: Path = ("arguments", i)
        if backend != "cuda" and has_structures([argument]):
            hint = "pass arrays and numbers"
            raise view.error(path, f"structures and rows are for C, C++ and CUDA, not for {backend}", hint)
        if argument.members is None:
            _refuse_rows(argument, argument.name, path, view)
            continue
        if argument.by != "value":
            message = (
                f"structure {argument.name!r} is passed by pointer, and CUDA kernels take them by value here"
            )
            raise view.error(path, message, "write by: value, or pass what it holds as arguments")
        _check_members(argument, argument.name, path, view)
        parcels.append(Parcel(name=argument.name, kind=argument.struct or ""))
    return tuple(parcels)


def with_inside(arguments: Sequence[Argument], model: SpecModel) -> tuple[Argument, ...]:
    """The arguments, those marked that lie in a structure themselves."""
    inside = {name for given in model.arguments or [] for name in _inside(given, "")}
    return tuple(replace(a, passing="inside") if a.name in inside else a for a in arguments)


def _inside(given: ArgumentModel, outer: str) -> set[str]:
    name = outer + given.name
    if given.members is None:
        return {name} if given.by == "value" and given.shape is not None else set()
    return {found for member in given.members for found in _inside(member, f"{name}.")}


def _check_members(given: ArgumentModel, outer: str, path: Path, view: View) -> None:
    for position, member in enumerate(given.members or ()):
        name, place = f"{outer}.{member.name}", subpath(path, position)
        if member.members is not None:
            if member.by != "value":
                message = f"member {name!r} points to a structure, which is not passed on in CUDA"
                hint = "write by: value if it lies in the structure itself"
                raise view.error(place, message, hint)
            _check_members(member, name, place, view)
            continue
        _refuse_rows(member, name, place, view)
        own = member.shape is None or member.by == "value"
        if own and member.by != "pointer" and member.role != "input":
            message = f"member {name!r} is passed by value: what the kernel writes to it is lost"
            raise view.error((*place, "role"), message, "remove role", key=True)
        for i, extent in enumerate(member.shape or ()):
            if member.by == "value" and extent.names:
                message = f"array {name!r} lies in the structure itself, and its length is {extent.text!r}"
                raise view.error((*place, "shape", i), message, "write it as a number, as the source has it")


def _refuse_rows(given: ArgumentModel, name: str, path: Path, view: View) -> None:
    if given.rows is not None:
        message = f"{name!r} has rows, which are for C and C++"
        raise view.error((*path, "rows"), message, "pass one array", key=True)
