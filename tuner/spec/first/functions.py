"""Which function of a source is the kernel, and its arguments as a first spec can write them.

Types are those of specs, structures have no members that none fills and names known outside. Of arguments that no spec
can describe, structures that lead to one another and objects of classes among them, only addresses are said: what they
lead to is recorded as it is. Asks the compiler what names and types are. May not run anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tuner.core.errors import UsageError
from tuner.core.reaching import reachable
from tuner.spec.first.global_variables import used_variables
from tuner.spec.first.members import Line, quoted
from tuner.spec.first.uses import Lookup
from tuner.spec.reading.c_types import POINTERS_INSIDE, ROWS, CType
from tuner.spec.reading.declarations import enumerators
from tuner.spec.reading.flattening import Flat, Member, Structure, Trail
from tuner.spec.reading.lookup import entries_of, functions_of, included_functions, text_after_macros
from tuner.spec.reading.nodes import named_in
from tuner.spec.reading.origins import own_text
from tuner.spec.reading.record_layouts import element_type, record_layout
from tuner.spec.reading.signature import Function, SourceReader
from tuner.spec.reading.trees import inner_nodes
from tuner.spec.reading.written_types import written_dtype
from tuner.spec.yaml_places import suggestion

__all__ = ["address_lines", "chosen", "described", "named_from_outside", "without_what_none_fills"]

_HINT = "write a function that takes its address"


def chosen(reader: SourceReader, text: str, file: str, entry: str | None) -> Function:
    """The kernel.

    Args:
        reader: of the sources.
        text: of the first of them.
        file: its name, for messages.
        entry: the function's name; may be left out where the others are called by it.

    Raises:
        UsageError: there is none, there are several, or it cannot be one.
        BaselineError: clang does not accept the source.
    """
    if entry is not None:
        found = reader.exposing(entry).defined(entry)
        found = found or [f for f, _ in included_functions(reader, entry) if not f.hidden]
        if not found:
            raise _not_found(reader, text, file, entry)
        if found[0].hidden:
            hint = "write static itself before it, outside of namespaces without a name: then it can be tuned"
            raise UsageError(f"{entry!r} is hidden from other files by a macro or a namespace", hint)
        if found[0].variadic:
            hint = "write a function that takes its arguments one by one"
            raise UsageError(f"{entry!r} takes a list of arguments of any length", hint)
        if reader.language == "opencl" and not found[0].kernel:
            raise UsageError(f"{entry!r} is no kernel", "write __kernel before it, or name another function")
        return found[0]
    functions = [f for name in functions_of(text_after_macros(reader)) for f in reader.defined(name)]
    templates = {f.name: f for f in functions if f.template}
    callable_ = {f.name: f for f in functions if not f.hidden and not f.template and f.name != "main"}
    if reader.language == "opencl":
        callable_ = {name: f for name, f in callable_.items() if f.kernel}
    if len(callable_) == 1:
        return next(iter(callable_.values()))
    if not callable_ and len(templates) == 1 and reader.language == "c++":
        return next(iter(templates.values()))
    if not callable_ and templates:
        raise UsageError(f"{file} has several templates", "choose with --entry: " + ", ".join(templates))
    static = {f.name: f for f in functions if f.hidden and not f.template}
    if not callable_ and static and reader.language != "opencl":
        return chosen(reader, text, file, _root(static, file).name)
    if not callable_:
        names = functions_of(own_text(reader.preprocessed()[0], {})[0])
        included = (f for name in names for f, _ in included_functions(reader, name) if not f.hidden)
        callable_ = {f.name: f for f in included}
    if not callable_:
        raise UsageError(f"{file} has no function that can be called from outside", "name another file")
    return _root(callable_, file)


def _not_found(reader: SourceReader, text: str, file: str, entry: str) -> UsageError:
    """Why the file has no such function."""
    if entry in functions_of(text):
        text = f"{file} defines {entry!r} only under a condition that does not hold here"
        return UsageError(text, "name the source that is compiled, or take the condition away")
    for _, name in included_functions(reader, entry):
        hint = "take static away, or write what that file holds in the place of its #include"
        return UsageError(f"{file} includes {name}, in which {entry!r} is static", hint)
    others = entries_of(text_after_macros(reader))
    hint = suggestion(entry, others, "it has " + (", ".join(others[:8]) or "no functions"))
    return UsageError(f"{file} has no function {entry!r}", hint)


def _root(functions: Mapping[str, Function], file: str) -> Function:
    """The one that leads to all the others; that is the kernel."""
    calls = {
        name: {str(meant.get("name", "")) for meant in named_in(f.tree)} & set(functions)
        for name, f in functions.items()
    }
    roots = [n for n in functions if not any(n in called for other, called in calls.items() if other != n)]
    if len(roots) == 1 and reachable(roots, calls.__getitem__) == set(functions):
        return functions[roots[0]]
    raise UsageError(f"{file} has several functions", "choose with --entry: " + ", ".join(functions))


def described(function: Function, reader: SourceReader, flat: Flat | None = None) -> Function:
    """The function with arrays of structures as arrays of numbers or dtypes, and rows as what they are rows of.

    Args:
        function: the kernel.
        reader: of them.
        flat: the kernel with members in the place of structures, where it is one of a processor.

    Raises:
        UsageError: an argument is of a type that no spec can describe.
    """
    hint = "write a function that takes numbers and pointers to numbers and calls it"
    made = function.returns
    if flat is not None and made is not None and not (made.dtypes or made.pointer or made.odd):
        raise UsageError(
            f"{function.name} returns `{made.text}`, and a spec has numbers", hint + ", and stores that"
        )
    parameters = []
    for name, kind in function.parameters:
        member = None if flat is None else flat.members.get(name)
        if flat is not None and kind.odd == ROWS and kind.depth == 2 and kind.dtypes:
            parameters.append((name, replace(kind, odd="", rows=True)))
            continue
        shown = f"argument {name}" if member is None else f"member {'.'.join(member.trail)}"
        given, kind = kind, kind.referred
        plain = not (kind.odd or kind.dtypes or kind.base in ("void", ""))
        layout = record_layout(reader, element_type(kind)) if plain else None
        kind = kind if layout is None else layout.pointed(kind)
        known = kind.pointer and kind.dtypes
        if layout is not None and flat is not None and (name,) in flat.structures and not known:
            raise UsageError(
                f"argument {name} of {function.name} is a structure of which no member is used here: `{kind.text}`",
                "write a spec with `struct` and the `members` that other files use",
            )
        odd = kind.odd if known else given.odd
        if odd or not (kind.dtypes or kind.pointer):
            what = odd or "a type that no spec can describe"
            raise UsageError(f"{shown} of {function.name} is {what}: `{kind.text}`", hint)
        if plain and not known:
            what = f"what no spec can describe: `{kind.text}`"
            if layout is not None:
                types = ", ".join(dict.fromkeys(m.type for m in layout.members if m.name))
                members = f" ({types})" if types else ""
                own = "a spec has arrays of numbers, or of structures of numbers"
                what = f"structures{members}, and {own}: `{kind.text}`"
                hint = "write a function that takes an array for each member and calls it"
            raise UsageError(f"{shown} of {function.name} points to {what}", hint)
        parameters.append((name, replace(kind, values=enumerators(kind, reader))))
    return replace(function, parameters=tuple(parameters))


def without_what_none_fills(flat: Flat, reader: SourceReader) -> tuple[Flat, tuple[str, ...]]:
    """The function without members that no wrapper fills, bit-fields and arrays of pointers, and a remark on each.

    Args:
        flat: the function with members in the place of structures, which have names that are known outside of it.
        reader: of the sources.
    """
    places = reader.types([f"&{_place(flat, member.trail)}" for member in flat.members.values()])
    kinds = {name: _unfilled(flat.members[name], p) for name, p in zip(flat.members, places, strict=True)}
    names = {name for name, kind in kinds.items() if kind}
    if not names:
        return flat, ()
    function = flat.function
    parameters = tuple((name, kind) for name, kind in function.parameters if name not in names)
    nodes = [
        node
        for node in inner_nodes(function.tree)
        if node.get("kind") != "ParmVarDecl" or node.get("name") not in names
    ]
    members = {name: member for name, member in flat.members.items() if name not in names}
    remarks = sorted(f"{'.'.join(flat.members[name].trail)} is {kinds[name]}" for name in names)
    function = replace(function, parameters=parameters, tree={**function.tree, "inner": nodes})
    return replace(flat, function=function, members=members), tuple(remarks)


def _place(flat: Flat, trail: Trail) -> str:
    """A member as the end of the source can name it."""
    text = ""
    for depth in range(1, len(trail)):
        outer = flat.structures.get(trail[:depth], Structure())
        text = f"(({outer.type} *)0)" if outer.type else text
        text += f"{'.' if outer.by_value and not outer.type else '->'}{trail[depth]}"
    return text


def _unfilled(member: Member, place: CType | str) -> str:
    """What a member is that no spec fills, by its address; empty for what one does."""
    if isinstance(place, str) and "bit-field" in place:
        return "a bit-field, which no spec fills: it is zero"
    if POINTERS_INSIDE.search(member.kind.text):
        return "an array of pointers, which no spec fills: they are null"
    return ""


def named_from_outside(flat: Flat, reader: SourceReader) -> Flat:
    """Structures by names that are known outside of the function.

    With the namespaces that it is in, where one is needed, and without ``struct`` where a ``typedef`` gives the name.
    """
    scope = flat.function.qualified.split("::")[:-1]
    structures = {trail: replace(s, type=_known(s, scope, reader)) for trail, s in flat.structures.items()}
    return replace(flat, structures=structures)


def _known(structure: Structure, scope: list[str], reader: SourceReader) -> str:
    plain = structure.type.removeprefix("struct ")
    outer = ["::".join([*scope[:depth], plain]) for depth in range(len(scope), 0, -1)]
    names = dict.fromkeys((structure.type, *outer, plain))
    if len(names) == 1 or not structure.type:
        return structure.type
    sizes = zip(names, reader.types([f"sizeof({name})" for name in names]), strict=True)
    return next((name for name, size in sizes if isinstance(size, CType)), structure.type)


def address_lines(function: Function, lookup: Lookup, reader: SourceReader) -> list[Line]:
    """A line for each parameter, and for each global variable that the function, or what it calls, uses.

    Args:
        function: with a name for every parameter.
        lookup: gives other functions by name.
        reader: of the sources, for types.

    Raises:
        UsageError: a structure that is a global variable, or the address of a function.
    """
    dtype = written_dtype(function, lookup)
    says = f", dtype: {dtype}" if dtype else ""
    lines = [_parameter(name, kind, function.name, says) for name, kind in function.parameters]
    for short, variable in used_variables(function, lookup, reader).items():
        if variable is None:
            raise UsageError(f"{short} is a variable that the end of the file cannot name", _HINT)
        kind, itself = variable.kind, variable.itself
        name = quoted(variable.name)
        if itself.is_address and not kind.inner:
            lines.append(Line(f"  - {{name: {name}, global: pointer, by: address}}"))
        elif kind.odd or not kind.dtypes:
            what = kind.text.replace(" (*)", "").removesuffix("*").strip()
            raise UsageError(f"{name} is a global variable of the type `{what}`", _HINT)
        elif not kind.constant:
            extents = ", ".join(map(str, kind.inner))
            # A spec needs first values of whole numbers, though the recording has them all.
            first = "" if kind.usual.startswith("float") else ", init: {constant: 0}"
            size = f"shape: [{extents}]{first}" if extents else "value: 0"
            parts = f"name: {name}, global: true, dtype: {kind.usual}, {size}, role: inout"
            lines.append(Line(f"  - {{{parts}}}"))
    return lines


def _parameter(name: str, kind: CType, function: str, says: str) -> Line:
    if kind.is_address:
        return Line(f"  - {{name: {name}, by: address{says}}}")
    if kind.odd:
        raise UsageError(f"argument {name} of {function} is {kind.odd}: `{kind.text}`", _HINT)
    if not kind.dtypes:
        return Line(f"  - {{name: {name}, struct: {quoted(kind.text)}, by: address{says}}}")
    return Line(f"  - {{name: {name}, dtype: {kind.usual}, value: 0}}")
