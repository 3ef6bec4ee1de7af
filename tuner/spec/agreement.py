"""Whether the arguments in the spec are those that the function in the source takes.

Compares only; :mod:`tuner.spec.reading.signature` reads the source.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tuner.core.errors import BaselineError, SpecError
from tuner.core.types import Argument, ArgumentRole, opaque_bytes
from tuner.spec.instances import is_instance
from tuner.spec.reading.c_types import CType
from tuner.spec.reading.lookup import entries_of, included_functions, text_after_macros
from tuner.spec.reading.signature import Function, SourceReader
from tuner.spec.yaml_places import Path, View, suggestion

__all__ = [
    "check_argument",
    "check_entry",
    "check_order",
    "check_return",
    "check_signature",
    "check_template",
    "defined_function",
]


def check_entry(
    reader: SourceReader,
    entry: str,
    arguments: Sequence[Argument],
    returns: str | None,
    view: View,
    *,
    shared: bool = False,
) -> Function:
    """The entry exists, can be called, and takes the arguments of the spec.

    ``shared`` says that something other than the spec gives the size of local memory.

    Raises:
        SpecError: it does not.
        BaselineError: the source does not compile.
    """
    if is_instance(entry):
        hint = 'write an extern "C" function that calls it'
        raise view.error(("kernel", "entry"), f"{entry!r}: templates are not available on this backend", hint)
    defined = defined_function(reader, entry, len(arguments), view)
    return check_signature(defined, reader.language, arguments, returns, view, shared=shared)


def check_template(source: SourceReader, template: str, instance: SourceReader, view: View) -> None:
    """A template is there, and can be called with the template arguments and the arguments of the spec.

    Args:
        source: as given.
        template: its name.
        instance: the same with a function that calls it.

    Raises:
        SpecError: it is not, or cannot be.
        BaselineError: the source by itself does not compile.
    """
    path: Path = ("kernel", "entry")
    try:
        found = source.functions(template)
    except BaselineError as error:
        if "template-parameter-list" in error.message:
            hint = "a macro of the space has the name of a parameter of the template: rename one of them"
            error = BaselineError(error.message, hint)
        raise error.at(view.place(("kernel", "source"))) from None
    if not found:
        raise _no_entry(template, found, source, view)
    if not any(f.template for f in found):
        raise view.error(path, f"{template!r} is no template", "leave its template arguments out")
    try:
        instance.functions(template)
    except BaselineError as error:
        said = error.message.removeprefix("the kernel does not compile: ")
        hint = "its template arguments and its arguments have to be those of the source, in their order"
        raise view.error(path, f"{template!r} cannot be called as the spec says: {said}", hint) from None


def defined_function(reader: SourceReader, entry: str, count: int, view: View) -> Function:
    """The function of that name; of several the one that takes so many arguments.

    Raises:
        SpecError: there is none.
        BaselineError: the source does not compile.
    """
    with view.at(("kernel", "source")):
        found = reader.exposing(entry).functions(entry)
    defined = [f for f in found if f.defined] or [f for f, _ in included_functions(reader, entry)]
    if not defined:
        raise _no_entry(entry, found, reader, view)
    if len(defined) > 1:
        # Overloads: the one that takes as many arguments.
        defined = [f for f in defined if len(f.parameters) == count] or defined
    return defined[0]


def check_signature(
    defined: Function,
    language: str,
    arguments: Sequence[Argument],
    returns: str | None,
    view: View,
    *,
    shared: bool = False,
) -> Function:
    """A function can be called and takes the arguments of the spec; see :func:`check_entry`.

    Raises:
        SpecError: it does not.
    """
    entry = defined.name
    function = without_local(defined)
    path: Path = ("kernel", "entry")
    if language == "opencl":
        _check_kernel(defined, view, shared=shared)
    if function.template:
        hint = 'write an extern "C" function that calls it'
        raise view.error(path, f"{entry!r} is a template", hint)
    if function.hidden:
        hint = "write static itself before it, outside of namespaces without a name: then it can be tuned"
        raise view.error(path, f"{entry!r} is hidden from other files by a macro or a namespace", hint)
    if function.variadic:
        hint = "write a function that takes its arguments one by one"
        raise view.error(path, f"{entry!r} takes a list of arguments of any length", hint)
    _check_arguments(function, arguments, view)
    check_return(function, returns, view)
    return function


def without_local(function: Function) -> Function:
    """The function without its parameters in local memory, which `launch.shared_bytes` gives and no spec lists."""
    return replace(function, parameters=tuple((n, t) for n, t in function.parameters if not t.local))


def _check_kernel(function: Function, view: View, *, shared: bool) -> None:
    if not function.kernel:
        hint = "write __kernel before it, or name another function"
        raise view.error(("kernel", "entry"), f"{function.name!r} is no kernel", hint)
    local = [n for n, t in function.parameters if t.local]
    given = shared or (isinstance(view.data.get("launch"), dict) and "shared_bytes" in view.data["launch"])
    if len(local) > 1:
        hint = "shared_bytes gives one: take one and divide it up inside, or declare __local arrays inside"
        raise view.error(
            ("kernel", "entry"), f"{function.name!r} has {len(local)} parameters in local memory", hint
        )
    if local and not given:
        hint = f"give launch.shared_bytes, the bytes of {local[0]!r}"
        raise view.error(("launch",), f"{local[0]!r} is in local memory and has no size", hint, key=True)
    if given and not local:
        hint = "remove it, or take a __local pointer"
        text = f"{function.name!r} has no parameter in local memory"
        raise view.error(("launch", "shared_bytes"), text, hint, key=True)


def _no_entry(entry: str, found: Sequence[Function], reader: SourceReader, view: View) -> SpecError:
    name = reader.files[0].name
    path: Path = ("kernel", "entry")
    if found:
        return view.error(
            path, f"{entry!r} is declared in {name} but not defined", "name the file that defines it"
        )
    functions = entries_of(text_after_macros(reader))
    hint = suggestion(entry, functions, "it has " + (", ".join(functions[:8]) or "no functions"))
    return view.error(path, f"{name} has no function {entry!r}", hint)


def _check_arguments(function: Function, arguments: Sequence[Argument], view: View) -> None:
    check_order(function, [a.name for a in arguments], view)
    for i, (argument, (_, kind)) in enumerate(zip(arguments, function.parameters, strict=True)):
        check_argument(argument, kind, view, ("arguments", i))


def check_order(function: Function, given: Sequence[str], view: View) -> None:
    """The spec has as many arguments as the function, and in its order.

    Raises:
        SpecError: it does not.
    """
    wanted = [n for n, _ in function.parameters]
    if len(wanted) != len(given):
        names = ", ".join(n or "?" for n in wanted) or "none"
        raise view.error(
            ("arguments",),
            f"{function.name} takes {len(wanted)} arguments, the spec lists {len(given)}",
            f"in call order: {names}",
            key=True,
        )
    if list(given) != wanted and sorted(given) == sorted(wanted):
        i = next(i for i, (a, b) in enumerate(zip(given, wanted, strict=True)) if a != b)
        hint = f"in call order: {', '.join(wanted)}"
        raise view.error(("arguments", i), f"argument {given[i]!r} is out of order", hint)


def check_argument(
    argument: Argument, kind: CType, view: View, path: Path, *, what: str = "argument"
) -> None:
    """An argument, or a member, is what the source says.

    Raises:
        SpecError: it is not.
    """
    if opaque_bytes(argument.dtype) and not argument.is_array:
        # From a recording, which is as the application passed it: a structure, a vector, a null buffer.
        return
    says = f"{what} {argument.name!r} is `{kind.text}` in the source"
    kind = kind.referred if argument.is_array else kind
    if kind.odd:
        raise view.error(
            path, f"{says}: {kind.odd} cannot be passed", "write a function without it that calls this"
        )
    if kind.pointer and not argument.is_array:
        hint = "give its shape, or write by: pointer beside the value of one number"
        raise view.error(path, f"{says}, a pointer, but the spec gives a value", hint)
    if not kind.pointer and argument.by_pointer:
        raise view.error((*path, "by"), f"{says}, which is no pointer", "remove by", key=True)
    if not kind.pointer and argument.is_array:
        raise view.error((*path, "shape"), f"{says}, but the spec gives a shape", "give its value", key=True)
    if kind.dtypes and argument.dtype not in kind.dtypes:
        raise view.error(
            (*path, "dtype"), f"{says}, but the spec says {argument.dtype}", f"write {kind.dtypes[0]}"
        )
    if not kind.dtypes and not kind.pointer:
        raise view.error(path, f"{says}, which cannot be passed by value", "pass numbers or pointers")
    written = (ArgumentRole.OUTPUT, ArgumentRole.INOUT, ArgumentRole.SCRATCH)
    if kind.pointer and kind.constant and argument.role in written:
        raise view.error(
            (*path, "role"), f"{says}, const, but its role is {argument.role}", "write role: input"
        )


def check_return(function: Function, returns: str | None, view: View) -> None:
    if returns is None:
        return
    path: Path = ("kernel", "returns")
    if function.returns is None:
        raise view.error(path, f"{function.name} returns nothing", "remove returns")
    if function.returns.pointer or (function.returns.dtypes and returns not in function.returns.dtypes):
        kind = function.returns
        hint = f"write {kind.dtypes[0]}" if kind.dtypes and not kind.pointer else "remove returns"
        raise view.error(path, f"{function.name} returns `{kind.text}`, but the spec says {returns}", hint)
