"""Structures in a spec's arguments: taken apart into the arrays and numbers that they consist of.

Says what keys of a structure mean together. May not compile or know what the source says.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tuner.spec.models import ArgumentModel
from tuner.spec.yaml_places import Path, View

__all__ = ["Part", "has_structures", "parts", "subpath"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One array or number of a spec: an argument, or a member of one at any depth.

    Attributes:
        given: what the spec says, under its full name, such as ``c.box.nx``.
        path: where.
        member: whether it is part of a structure.
    """

    given: ArgumentModel
    path: Path
    member: bool = False


def has_structures(arguments: Sequence[ArgumentModel]) -> bool:
    """Whether some argument is not passed as it is: a structure, rows by their addresses, or an address alone."""
    return any(
        a.struct is not None or a.members is not None or a.rows is not None or a.by == "address"
        for a in arguments
    )


def subpath(path: Path, position: int) -> Path:
    """Where a member stands."""
    return (*path, "members", position)


def parts(arguments: Sequence[ArgumentModel], view: View) -> list[Part]:
    """All arrays and numbers, members in the place of their structures.

    Raises:
        SpecError: two of one name, or keys that do not belong together.
    """
    seen: set[str] = set()
    for i, given in enumerate(arguments):
        if given.name in seen:
            message = f"two arguments are called {given.name!r}"
            raise view.error(("arguments", i, "name"), message, "rename one")
        seen.add(given.name)
        if not given.variable and i and arguments[i - 1].variable:
            hint = "list what is global last"
            raise view.error(("arguments", i), f"argument {given.name!r} stands behind a global", hint)
    return [
        part for i, given in enumerate(arguments) for part in _parts(given, ("arguments", i), view, outer="")
    ]


def _parts(given: ArgumentModel, path: Path, view: View, *, outer: str) -> Iterator[Part]:
    name = outer + given.name
    if given.members is None:
        _check_plain(given, path, view, name, member=bool(outer))
        yield Part(given=given.model_copy(update={"name": name}), path=path, member=bool(outer))
        return
    if given.struct is None and not outer:
        hint = "write its type as the source does: struct: struct chunk, or a typedef's name"
        raise view.error(path, f"argument {name!r} has members and no struct", hint)
    own = {"dtype", "shape", "value", "rows", "init", "fixed", "constant", "role", "variable"}
    for key in sorted(own & given.model_fields_set):
        hint = f"remove {key}: members have theirs"
        if key == "constant":
            hint = "one in __constant__ memory has a dtype of its members: dtype: {n: int32}, shape: [1], global: true"
        raise view.error((*path, key), f"structure {name!r} has {key}", hint, key=True)
    seen: set[str] = set()
    for position, member in enumerate(given.members):
        if member.name in seen:
            message = f"two members of {name!r} are called {member.name!r}"
            raise view.error((*subpath(path, position), "name"), message, "remove one")
        seen.add(member.name)
        yield from _parts(member, subpath(path, position), view, outer=f"{name}.")


def _check_plain(given: ArgumentModel, path: Path, view: View, name: str, *, member: bool) -> None:
    what = f"{'member' if member else 'argument'} {name!r}"
    if given.by == "address":
        _check_address(given, path, view, what, member=member)
        return
    if given.struct is not None:
        hint = "list those that the kernel uses: members: [{name: n, dtype: int32, value: n}]"
        raise view.error(path, f"{what} is a structure without members", hint)
    if given.dtype is None:
        raise view.error(path, f"{what} has no 'dtype'", "this key is needed")
    if "::" in given.name and not (given.variable or given.constant):
        hint = "only variables are in namespaces: write global: true, or another name"
        raise view.error((*path, "name"), f"{what} has a name with ::", hint)
    if given.constant and given.variable:
        hint = "global alone stands for a __constant__ variable too"
        raise view.error((*path, "constant"), f"{what} is constant and global", hint, key=True)
    if given.constant and member:
        raise view.error((*path, "constant"), f"{what} cannot be constant", "remove constant", key=True)
    if given.variable and (member or given.rows is not None or given.by is not None):
        hint = "only arrays and numbers that are variables themselves can be in this version"
        raise view.error((*path, "global"), f"{what} cannot be global", hint, key=True)
    if given.rows is None:
        return
    if given.shape is None or len(given.shape) < 2:
        hint = "give the number of rows and the length of one: shape: [n, m]"
        raise view.error((*path, "rows"), f"{what} has rows and no two dimensions", hint, key=True)
    if given.by is not None:
        hint = "remove by: the addresses of its rows are passed"
        raise view.error((*path, "by"), f"{what} has rows and by", hint, key=True)


def _check_address(given: ArgumentModel, path: Path, view: View, what: str, *, member: bool) -> None:
    if member:
        hint = "give what has this member by: address, without members"
        raise view.error((*path, "by"), f"{what} is given by its address", hint, key=True)
    if given.variable is True:
        hint = "write global: pointer"
        raise view.error((*path, "global"), f"{what} is given by its address", hint, key=True)
    others = given.model_fields_set - {"name", "by", "variable", "struct", "dtype"}
    if given.dtype not in (None, "float32", "float64"):
        hint = "write float32 or float64, or leave it out: other numbers are compared byte for byte"
        raise view.error(
            (*path, "dtype"), f"{what} is given by its address and has the dtype {given.dtype}", hint
        )
    for key in sorted(others):
        hint = f"remove {key}: the application's memory is recorded as it is"
        raise view.error((*path, key), f"{what} is given by its address and has {key}", hint, key=True)
