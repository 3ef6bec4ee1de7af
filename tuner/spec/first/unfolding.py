"""Structures that a CUDA kernel takes by value, written out as parameters of their own, in kernel and host code.

So what reads sizes, shapes and roles for a first spec needs to know nothing of structures. clang says what members
there are; their uses are found by the text's looks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace

from tuner.spec.first.values import initial_values
from tuner.spec.reading.c_types import CType
from tuner.spec.reading.cuda_kernels import CudaKernel, Parameter
from tuner.spec.reading.record_layouts import Layout
from tuner.spec.reading.record_layouts import Member as Laid
from tuner.spec.reading.type_probes import TypeScope

__all__ = ["Member", "Unfolded", "argument_lines", "unfolded"]

_DEEPEST = 4
_YAML_WORDS = ("on", "off", "yes", "no", "true", "false", "null")
"""Without quotes they are no names."""
_MARKS = re.compile(r"\b(?:const|volatile|struct|typename|__grid_constant__|__restrict__)\b")
Trail = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Member:
    """A structure or a part of one.

    Attributes:
        name: the parameter's or the member's.
        kind: its type, of a parameter.
        members: of a structure.
        flat: the parameter that stands for it, of a number or a pointer.
        dtype, extents: of an array that lies in the structure; without extents of an enumeration.
    """

    name: str
    kind: str = ""
    members: tuple[Member, ...] = ()
    flat: str = ""
    dtype: str = ""
    extents: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Unfolded:
    """A kernel without structures.

    Attributes:
        kernel: with a parameter for each number and pointer in a structure that it uses.
        structures: by the names of the parameters as they were.
        order: those names, and of the others.
        trails: where each new parameter was in its structure, by the structure's place among the parameters.
        variables: lines for the variables outside of functions that the kernel uses.
    """

    kernel: CudaKernel
    structures: Mapping[str, Member]
    order: tuple[str, ...]
    trails: Mapping[int, tuple[Trail, ...]]
    variables: tuple[str, ...] = ()


def unfolded(
    kernel: CudaKernel, scope: TypeScope, template: Mapping[str, str], types: Sequence[str] = ()
) -> Unfolded:
    """A kernel with its structures written out; one whose members no spec can describe stays as it is.

    Args:
        kernel: with types.
        scope: in which clang looks up the names of types.
        template: what stands for the template's numbers.
        types: what its parameters are given; ``float`` where it is not said.

    Raises:
        MachineError: there is no clang, or it does not answer.
    """
    made = _Writing(kernel, scope, {**template, **_given(kernel, types)})
    parameters: list[Parameter] = []
    structures: dict[str, Member] = {}
    trails: dict[int, tuple[Trail, ...]] = {}
    asked = ["" if p.dtype or p.kind.pointer or p.kind.odd else p.kind.base for p in kernel.parameters]
    known = scope.layouts([base for base in asked if base])
    for place, parameter in enumerate(kernel.parameters):
        layout = known.get(asked[place])
        found = None if layout is None else made.structure(parameter, layout)
        if layout is None or found is None:
            parameters.append(parameter)
            continue
        structures[parameter.name] = found
        own = made.flat[parameter.name]
        parameters += own.values()
        trails[place] = tuple(own)
    return Unfolded(
        kernel=replace(kernel, parameters=tuple(parameters), body=made.body),
        structures=structures,
        order=tuple(p.name for p in kernel.parameters),
        trails=trails,
    )


def _given(kernel: CudaKernel, types: Sequence[str]) -> dict[str, str]:
    """What a template's parameters that are types stand for."""
    return {
        part.split("=")[0].split()[-1]: types[place] if place < len(types) else "float"
        for place, part in enumerate(kernel.template)
        if part.startswith(("typename", "class"))
    }


def argument_lines(found: Unfolded, written: Mapping[str, str]) -> list[str]:
    """The lines of a spec's arguments.

    Args:
        found: what they are in.
        written: each parameter of the flat kernel in YAML.
    """
    lines: list[str] = []
    for name in found.order:
        member = found.structures.get(name, Member(name, flat=name))
        lines += _lines(member, written, "  ")
    return [*lines, *found.variables]


def _lines(member: Member, written: Mapping[str, str], indent: str) -> list[str]:
    name = f'"{member.name}"' if member.name.lower() in _YAML_WORDS else member.name
    if member.flat:
        return [f"{indent}- {written[member.flat].replace(f'name: {member.flat},', f'name: {name},', 1)}"]
    if member.dtype and not member.extents:
        return [f"{indent}- {{name: {name}, dtype: {member.dtype}, value: 0}}  # check: the value"]
    if member.dtype:
        init = (
            ""
            if member.dtype.startswith("float")
            else f", {initial_values(member.dtype, '2', divides=False)[0]}"
        )
        shape = ", ".join(member.extents)
        return [f"{indent}- {{name: {name}, dtype: {member.dtype}, shape: [{shape}], by: value{init}}}"]
    kind = f'"{member.kind}"' if re.search(r"[<:,]", member.kind) else member.kind
    lines = [f"{indent}- name: {name}", f"{indent}  by: value", f"{indent}  members:"]
    if kind:
        lines.insert(1, f"{indent}  struct: {kind}")
    return lines + [line for each in member.members for line in _lines(each, written, f"{indent}    ")]


@dataclass(frozen=True, slots=True)
class _Uses:
    """Members that a body names, and whether it uses the structure in other ways too."""

    used: AbstractSet[Trail]
    whole: bool

    def named(self, trail: Trail) -> bool:
        """Whether the body names the member, or one inside it."""
        return any(u[: len(trail)] == trail for u in self.used)

    def may(self, trail: Trail) -> bool:
        """Whether the body may use the member."""
        return self.whole or self.named(trail) or any(trail[: len(u)] == u for u in self.used)


class _Unknown(Exception):
    """A member that the kernel uses is of a type that no spec can describe."""


@dataclass(slots=True)
class _Writing:
    kernel: CudaKernel
    scope: TypeScope
    given: Mapping[str, str]
    body: str = ""
    flat: dict[str, dict[Trail, Parameter]] = field(default_factory=dict)
    _shared: dict[tuple[str, Trail], str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.body = self.kernel.body

    def structure(self, parameter: Parameter, layout: Layout) -> Member | None:
        """The structure that a parameter is; ``None`` where it has members that no spec can describe."""
        uses = self._uses(parameter.name)
        own = self.flat[parameter.name] = {}
        try:
            members = tuple(self._members(layout.members, (parameter.name,), uses))
        except _Unknown:
            return None
        for trail, each in sorted(own.items(), key=lambda item: -len(item[0])):
            self.body = re.sub(_access((parameter.name, *trail)) + r"(?!\s*\()", each.name, self.body)
        return Member(parameter.name, self._kind(parameter), members) if members else None

    def _kind(self, parameter: Parameter) -> str:
        """Its type as it is written, with values in the place of the template's parameters."""
        outer, bracket, inner = parameter.text[: parameter.text.rindex(parameter.name)].partition("<")
        inner = re.sub(r"\w+", lambda m: self.given.get(m[0], m[0]), inner)
        return " ".join(_MARKS.sub(" ", outer).split()) + (bracket + inner).strip()

    def _uses(self, name: str) -> _Uses:
        used, whole = set[Trail](), False
        for found in re.finditer(rf"(?<![\w.>]){name}\b((?:\s*\.\s*\w+)*)(\s*\()?", self.kernel.body):
            trail = tuple(re.findall(r"\w+", found[1]))
            if not trail or found[2]:
                whole = True
            else:
                used.add(trail)
        # A macro may hide all uses.
        return _Uses(used, whole or not used)

    def _members(self, members: Sequence[Laid], outer: Trail, uses: _Uses) -> Iterator[Member]:
        parameter, *before = outer
        for each in members if len(outer) <= _DEEPEST else ():
            if not each.name:
                # What a class has from another is its own.
                yield from self._members(each.members, outer, uses)
                continue
            trail = (*before, each.name)
            if not uses.may(trail):
                continue
            made = self._member(each, parameter, trail, uses)
            if made is not None:
                yield made
            elif uses.named(trail):
                raise _Unknown

    def _member(self, each: Laid, parameter: str, trail: Trail, uses: _Uses) -> Member | None:
        kind = each.kind
        dtype = "" if kind.odd or not kind.dtypes else kind.dtypes[0]
        if each.extents:
            fits = dtype and not kind.pointer and each.place >= 0
            return Member(each.name, dtype=dtype, extents=tuple(map(str, each.extents))) if fits else None
        if each.members:
            inner = () if each.is_union else tuple(self._members(each.members, (parameter, *trail), uses))
            return Member(each.name, members=inner) if inner else None
        if kind.base == "enum" and not kind.pointer:
            return Member(each.name, dtype=kind.dtypes[0])
        if kind.pointer and not kind.odd and not dtype:
            kind = self._declared(f"{each.type} e")
        read = Parameter(name=each.name, text=f"{each.type} {each.name}", kind=kind)
        if not read.dtype or kind.structure or each.place < 0:
            return None
        name = self._name(parameter, trail, shared=not read.pointer)
        hidden = not re.search(_access((parameter, *trail)), self.body)
        self.flat[parameter][trail] = replace(read, name=name, hidden=hidden)
        return Member(each.name, flat=name)

    def _declared(self, text: str) -> CType:
        (kind,) = self.scope.kinds([("e", text)])
        return kind

    def _name(self, parameter: str, trail: Trail, *, shared: bool) -> str:
        """A name for a member; numbers of one meaning in several structures of one type have one."""
        kind = next(p.text for p in self.kernel.parameters if p.name == parameter)
        key = (" ".join(_MARKS.sub(" ", kind).partition("<")[0].split()[:1]), trail)
        if shared and key in self._shared:
            return self._shared[key]
        taken = {p.name for p in self.kernel.parameters} | {
            p.name for own in self.flat.values() for p in own.values()
        }
        name = trail[-1]
        if name in taken or re.search(rf"(?<![\w.>]){name}\b", self.kernel.body):
            name = "_".join((parameter, *trail))
        if shared:
            self._shared[key] = name
        return name


def _access(trail: Trail) -> str:
    return r"(?<![\w.>])" + r"\s*\.\s*".join(map(re.escape, trail)) + r"\b"
