"""Structures that a CUDA kernel takes by value, written out as parameters of their own, in kernel and host code.

So what reads sizes, shapes and roles for a first spec needs to know nothing of structures. Goes by the text's looks;
may not compile or run anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tuner.spec.first.divisions import initial_values
from tuner.spec.first.host_expressions import split
from tuner.spec.reading.cuda_kernels import CudaKernel, Parameter, number_names, read_parameter
from tuner.spec.reading.device_members import Field, fields_of

__all__ = ["Member", "Unfolded", "argument_lines", "unfolded"]

_DEEPEST = 4
_YAML_WORDS = ("on", "off", "yes", "no", "true", "false", "null")
"""Without quotes they are no names."""
_MARKS = re.compile(r"\b(?:const|volatile|struct|typename|__grid_constant__|__restrict__)\b")
_NUMBER = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+\(?(\d+)\)?[uU]?[ \t]*$", re.MULTILINE)
_CONSTANT = re.compile(
    r"\b(?:const|constexpr)\s+(?:static\s+)?(?:int|unsigned|size_t)\s+(\w+)\s*=\s*(\d+)\s*;"
)

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
    """

    kernel: CudaKernel
    structures: Mapping[str, Member]
    order: tuple[str, ...]
    trails: Mapping[int, tuple[Trail, ...]]

    def host(self, text: str, source: str) -> str:
        """Host code that launches it, with the structures' members in the place of the structures."""
        kinds = {i: self.structures[self.order[i]].kind for i in self.trails}
        return _HostText(self.kernel.name, self.trails, kinds, source).unfolded(text)


def unfolded(
    kernel: CudaKernel, source: str, template: Mapping[str, str], types: Sequence[str] = ()
) -> Unfolded:
    """A kernel with its structures written out; one whose type is not known stays as it is.

    Args:
        kernel: as it was read.
        source: with what it includes, without comments.
        template: what stands for the template's numbers.
        types: what its parameters are given; ``float`` where it is not said.
    """
    made = _Writing(kernel, source, template, types)
    parameters: list[Parameter] = []
    structures: dict[str, Member] = {}
    trails: dict[int, tuple[Trail, ...]] = {}
    for place, parameter in enumerate(kernel.parameters):
        found = None if parameter.dtype or parameter.pointer else made.structure(parameter)
        if found is None:
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
    return lines


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


class _Unknown(Exception):
    """A member that the kernel uses is of a type that no spec can describe."""


@dataclass(slots=True)
class _Writing:
    kernel: CudaKernel
    source: str
    template: Mapping[str, str]
    types: Sequence[str]
    body: str = ""
    flat: dict[str, dict[Trail, Parameter]] = field(default_factory=dict)
    _shared: dict[tuple[str, Trail], str] = field(default_factory=dict)
    _numbers: dict[str, str] = field(default_factory=dict)
    _types: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.body = self.kernel.body
        self._numbers = dict((*_CONSTANT.findall(self.source), *_NUMBER.findall(self.source)))
        self._types = number_names(self.source)
        for place, part in enumerate(self.kernel.template):
            if part.startswith(("typename", "class")):
                given = self.types[place] if place < len(self.types) else "float"
                self._types[part.split("=")[0].split()[-1]] = given

    def structure(self, parameter: Parameter) -> Member | None:
        """The structure that a parameter is; ``None`` where it is none that is known."""
        kind = self._kind(parameter)
        if not kind or not fields_of(kind, self.source):
            return None
        used, whole = self._uses(parameter.name)
        own = self.flat[parameter.name] = {}
        body = self.body
        try:
            members = tuple(self._members(kind, (parameter.name,), used, whole=whole))
        except _Unknown:
            self.body = body
            return None
        for trail, each in sorted(own.items(), key=lambda item: -len(item[0])):
            self.body = re.sub(_access((parameter.name, *trail)) + r"(?!\s*\()", each.name, self.body)
        return Member(parameter.name, kind, members) if members else None

    def _kind(self, parameter: Parameter) -> str:
        """Its type with values in the place of the template's parameters; empty for a reference or pointer."""
        text = parameter.text.split("=")[0].strip()
        if "&" in text or "*" in text.partition("<")[0] or not re.search(r"\w+$", text):
            return ""
        outer, bracket, inner = text[: text.rindex(parameter.name)].partition("<")
        inner = re.sub(r"\w+", lambda m: self.template.get(m[0], self._types.get(m[0], m[0])), inner)
        return " ".join(_MARKS.sub(" ", outer).split()) + (bracket + inner).strip()

    def _uses(self, name: str) -> tuple[set[Trail], bool]:
        """Members that the body names, and whether it uses the structure in other ways too."""
        used, whole = set[Trail](), False
        for found in re.finditer(rf"(?<![\w.>]){name}\b((?:\s*\.\s*\w+)*)(\s*\()?", self.kernel.body):
            trail = tuple(re.findall(r"\w+", found[1]))
            if not trail or found[2]:
                whole = True
            else:
                used.add(trail)
        return used, whole

    def _members(self, kind: str, outer: Trail, used: set[Trail], *, whole: bool) -> Iterator[Member]:
        parameter, *before = outer
        types = self._types | _template_types(kind, self.source)
        for each in fields_of(kind, self.source) if len(outer) <= _DEEPEST else ():
            trail = (*before, each.name)
            named = any(u[: len(trail)] == trail for u in used)
            if not named and not whole and not any(trail[: len(u)] == u for u in used):
                continue
            made = self._member(each, types, parameter, trail, used, whole=whole)
            if made is not None:
                yield made
            elif named:
                raise _Unknown

    def _member(
        self,
        each: Field,
        types: Mapping[str, str],
        parameter: str,
        trail: Trail,
        used: set[Trail],
        *,
        whole: bool,
    ) -> Member | None:
        constant = "const " if each.constant or types.get(each.type, "").startswith("const ") else ""
        kind = types.get(each.type, each.type).removeprefix("const ")
        named = rf"\benum\b(?:\s+(?:class|struct))?\s+{re.escape(kind)}\b(?:\s*:\s*([\w\s]+))?"
        if not each.stars and not each.extents and (enumeration := re.search(named, self.source)):
            own = (enumeration[1] or "int").strip()
            return Member(each.name, dtype=read_parameter(f"{own} e", 0, self._types, "").dtype or "int32")
        read = read_parameter(f"{constant}{kind} {'*' * each.stars}{each.name}", 0, self._types, self.source)
        if each.extents:
            extents = tuple(self._numbers.get(extent, extent) for extent in each.extents)
            fits = read.dtype and not each.stars and all(extent.isdigit() for extent in extents)
            return Member(each.name, dtype=read.dtype, extents=extents) if fits else None
        if read.dtype:
            name = self._name(parameter, trail, shared=not read.pointer)
            hidden = not re.search(_access((parameter, *trail)), self.body)
            self.flat[parameter][trail] = replace(read, name=name, hidden=hidden)
            return Member(each.name, flat=name)
        if each.stars:
            return None
        inner = tuple(self._members(kind, (parameter, *trail), used, whole=whole))
        return Member(each.name, members=inner) if inner else None

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


def _template_types(kind: str, source: str) -> dict[str, str]:
    """What a structure's template parameters stand for."""
    name, _, given = kind.partition("<")
    found = re.search(
        rf"template\s*<([^<>]*)>\s*(?:struct|class)\s+{re.escape(name.rpartition('::')[2].strip())}\b", source
    )
    if found is None or not given:
        return {}
    names = [part.split("=")[0].split()[-1] for part in split(found[1])]
    return dict(zip(names, split(given.rpartition(">")[0]), strict=False))


@dataclass(slots=True)
class _HostText:
    """Host code, in which `kernel<<<…>>>(u, p)` becomes `kernel<<<…>>>(u, p_nx, p_data)`."""

    kernel: str
    trails: Mapping[int, tuple[Trail, ...]]
    kinds: Mapping[int, str]
    source: str

    def unfolded(self, text: str) -> str:
        """The text."""
        variables: dict[str, int] = {}
        launches = list(re.finditer(rf"\b{re.escape(self.kernel)}\s*(?:<[^;{{}}()]*>)?\s*<<<", text))
        for found in reversed(launches):
            opened = text.find("(", text.find(">>>", found.end()))
            end = _closing(text, opened)
            if end < 0:
                continue
            given = split(text[opened + 1 : end])
            passed: list[str] = []
            for place, argument in enumerate(given):
                if place not in self.trails:
                    passed.append(argument)
                    continue
                name = argument.strip()
                if name.isidentifier():
                    variables[name] = place
                passed += [
                    f"{name if name.isidentifier() else '?'}_{'_'.join(t)}" for t in self.trails[place]
                ]
            text = f"{text[: opened + 1]}{', '.join(passed)}{text[end:]}"
        for name, place in variables.items():
            text = self._variable(text, name, place)
        return text

    def _variable(self, text: str, name: str, place: int) -> str:
        """One structure's members as variables, what it begins with as assignments."""
        kind = self.kinds[place].partition("<")[0].rpartition("::")[2]
        begun = re.search(rf"\b{re.escape(kind)}\s*(?:<[^;{{}}()]*>)?\s+{name}\s*(?:=\s*)?\{{", text)
        if begun is not None and (end := _closing(text, begun.end() - 1)) > 0:
            values = dict(self._values(self.kinds[place], text[begun.end() : end], ()))
            assigned = " ".join(f"{name}_{'_'.join(t)} = {v};" for t, v in values.items())
            text = f"{text[: begun.start()]}{assigned} {text[end + 1 :].lstrip(';')}"
        for trail in sorted(self.trails[place], key=len, reverse=True):
            own = "_".join((name, *trail))
            text = re.sub(_access((name, *trail)), own, text)
            given = re.findall(rf"(?<![\w.>]){own}\s*=\s*([A-Za-z_]\w*)\s*;", text)
            if given:
                # A pointer is allocated under the name that it has before.
                text = re.sub(rf"(?<=[(,])(\s*){own}(?=\s*[,)])", rf"\g<1>{given[-1]}", text)
        return text

    def _values(self, kind: str, given: str, outer: Trail) -> Iterator[tuple[Trail, str]]:
        """What a list in braces begins each member with."""
        fields = fields_of(kind, self.source)
        for place, part in enumerate(split(given)):
            part = part.strip()
            named = re.match(r"\.\s*(\w+)\s*=?\s*", part)
            each = next((f for f in fields if f.name == named[1]), None) if named else None
            each = fields[place] if named is None and place < len(fields) else each
            if each is None:
                continue
            value = part[named.end() :] if named else part
            if value.startswith("{"):
                yield from self._values(each.type, value[1:].rstrip().removesuffix("}"), (*outer, each.name))
            else:
                yield (*outer, each.name), value


def _closing(text: str, at: int) -> int:
    """Where the bracket at ``at`` is closed; -1 where it is not."""
    depth = 0
    for i in range(max(at, 0), len(text)):
        depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(text[i], 0)
        if depth == 0:
            return i if at >= 0 else -1
    return -1
