"""Structures among a kernel's parameters: what a compiler is asked about their layout, and what is made of its answer.

Where a member lies is the compiler's to say, never worked out here. Text and bytes only; may not compile.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tuner.core.types import Argument, Parcel, Task

__all__ = [
    "QUESTIONS",
    "Layout",
    "Leaf",
    "assertions",
    "in_call_order",
    "members_of",
    "questions",
    "read_answers",
]

QUESTIONS = "the structures"
"""What the compiler's messages call the text of :func:`questions`."""

_ANSWERS = "tuner_layouts"
_FIRST = 1
_KINDS = "other", "int", "uint", "float", "bool", "enum"
_OUTER = "", "pointer", "array"
_NUMBERS = {
    "int": ("char", "signed char", "short", "int", "long", "long long"),
    "uint": ("unsigned char", "unsigned short", "unsigned int", "unsigned long", "unsigned long long"),
    # `float` may be a macro that says double.
    "float": ("decltype(1.0f)", "decltype(1.0)"),
    "bool": ("bool",),
}
_WORD = "unsigned long long"
_ASKED = re.compile(rf"\b{_ANSWERS}\[(?P<size>\d+)\]\s*=\s*\{{(?P<bytes>[^}}]*)\}}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """What a compiler says of one member.

    Attributes:
        offset, size: bytes.
        outer: ``pointer``, ``array`` or empty.
        kind: of the number itself, or of what is pointed to: ``int``, ``uint``, ``float``, ``bool``, ``enum``, else
            ``other``.
        item: bytes of that.
    """

    offset: int
    size: int
    outer: str
    kind: str
    item: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """A parcel's size in bytes and its members by the names of their arguments."""

    size: int
    leaves: Mapping[str, Leaf]

    def to_json(self) -> dict[str, Any]:
        """Plain JSON."""
        leaves = {n: [x.offset, x.size, x.outer, x.kind, x.item] for n, x in self.leaves.items()}
        return {"size": self.size, "leaves": leaves}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Layout:
        """The inverse of :meth:`to_json`."""
        names = ("offset", "size", "outer", "kind", "item")
        leaves = {n: Leaf(**dict(zip(names, x, strict=True))) for n, x in value["leaves"].items()}
        return cls(size=value["size"], leaves=leaves)


def in_call_order(task: Task) -> list[Argument | Parcel]:
    """The kernel's parameters: arguments, and parcels in the place of their members."""
    found: dict[str, Argument | Parcel] = {}
    for argument in task.arguments:
        if argument.constant or argument.passing in ("memory", "global"):
            continue
        parcel = next((p for p in task.kernel.parcels if p.member(argument)), None)
        found.setdefault(*((argument.name, argument) if parcel is None else (parcel.name, parcel)))
    return list(found.values())


def members_of(task: Task, parcel: Parcel) -> list[Argument]:
    """The arguments that fill a parcel."""
    return [a for a in task.arguments if parcel.member(a)]


def questions(task: Task) -> tuple[str, list[str]]:
    """A text to follow a source: compiled, it holds the layout of each parcel.

    Returns:
        The text, and whom each of its lines is about, the first line first: a parcel's or an argument's name.
    """
    lines, about = [_kinds(), f'extern "C" __device__ const {_WORD} {_ANSWERS}[] = {{{_FIRST},'], ["", ""]
    for parcel in task.kernel.parcels:
        lines.append(f"sizeof({parcel.kind}),")
        about.append(parcel.name)
        for argument in members_of(task, parcel):
            member = parcel.member(argument)
            place = f"(({parcel.kind} *)0)->{member}"
            says = f"tuner_kinds::leaf<decltype({place})>"
            offset = f"__builtin_offsetof({parcel.kind}, {member})"
            lines.append(f"{offset}, sizeof({place}), {says}::outer, {says}::kind, {says}::item,")
            about.append(argument.name)
    return "\n".join([f'\n#line 1 "{QUESTIONS}"', *lines, "};", ""]), about


def _kinds() -> str:
    """Templates that tell types apart; nothing of the source reaches them, and they include nothing."""
    words = "{{ enum : {word} {{ outer = {outer}, kind = {kind}, item = {item} }}; }};"
    number = "template <> struct number<{of}> {{ enum : {word} {{ kind = {kind} }}; }};"
    parts = [
        "namespace tuner_kinds {",
        f"template <class T> struct number {{ enum : {_WORD} {{ kind = __is_enum(T) ? 5 : 0 }}; }};",
        "template <class T> struct number<const T> : number<T> {};",
        "template <class T> struct number<volatile T> : number<T> {};",
        *(number.format(of=t, word=_WORD, kind=_KINDS.index(k)) for k, ts in _NUMBERS.items() for t in ts),
        f"template <class T> struct inner {{ enum : {_WORD} {{ kind = number<T>::kind, item = sizeof(T) }}; }};",
        *(
            f"template <> struct inner<{q}void> {{ enum : {_WORD} {{ kind = 0, item = 0 }}; }};"
            for q in ("", "const ")
        ),
        "template <class T, decltype(sizeof(0)) N> struct inner<T[N]> : inner<T> {};",
    ]
    for head, of, outer in (
        ("class T", "", ""),
        ("class T", "<T *>", "pointer"),
        ("class T", "<T *const>", "pointer"),
        ("class T", "<T *__restrict__>", "pointer"),
        ("class T", "<T *const __restrict__>", "pointer"),
        ("class T, decltype(sizeof(0)) N", "<T[N]>", "array"),
    ):
        body = words.format(
            word=_WORD, outer=_OUTER.index(outer), kind="inner<T>::kind", item="inner<T>::item"
        )
        parts.append(f"template <{head}> struct leaf{of} {body}")
    return " ".join([*parts, "}"])


def read_answers(ptx: str, task: Task) -> dict[str, Layout]:
    """The layouts by parcel, of what was compiled with :func:`questions`.

    Raises:
        ValueError: the text has no answers.
    """
    found = _ASKED.search(ptx)
    if found is None:
        raise ValueError("the compiler does not say how the structures are laid out")
    # Zeros at the end are left out.
    data = bytes(int(word) for word in found["bytes"].split(",")).ljust(int(found["size"]), b"\0")
    numbers = iter(struct.unpack(f"<{len(data) // 8}Q", data))
    next(numbers)
    layouts = {}
    for parcel in task.kernel.parcels:
        size = next(numbers)
        leaves = {}
        for argument in members_of(task, parcel):
            offset, extent, outer, kind, item = (next(numbers) for _ in range(5))
            leaves[argument.name] = Leaf(
                offset=offset, size=extent, outer=_OUTER[outer], kind=_KINDS[kind], item=item
            )
        layouts[parcel.name] = Layout(size=size, leaves=leaves)
    return layouts


def assertions(task: Task, layouts: Mapping[str, Layout]) -> str:
    """A text to follow a candidate's source: it does not compile where a parcel is laid out otherwise."""
    lines: list[str] = []
    for parcel in task.kernel.parcels:
        layout = layouts[parcel.name]
        said = f"{parcel.name}: the structure is not laid out as in the kernel as given"
        wanted = [f"sizeof({parcel.kind}) == {layout.size}"]
        for argument in members_of(task, parcel):
            leaf, member = layout.leaves[argument.name], parcel.member(argument)
            wanted.append(f"__builtin_offsetof({parcel.kind}, {member}) == {leaf.offset}")
            wanted.append(f"sizeof((({parcel.kind} *)0)->{member}) == {leaf.size}")
        lines += [f'static_assert({each}, "{said}");' for each in wanted]
    return "\n".join([f'\n#line 1 "{QUESTIONS}"', *lines, ""]) if lines else ""
