"""Which function of a source is the kernel: the one that is named, or the one that leads to all the others."""

from __future__ import annotations

from collections.abc import Mapping

from tuner.core.errors import UsageError
from tuner.core.reaching import reachable
from tuner.spec.reading.lookup import entries_of, functions_of
from tuner.spec.reading.nodes import named_in
from tuner.spec.reading.signature import Function, SourceReader
from tuner.spec.yaml_places import suggestion

__all__ = ["chosen"]


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
    names = functions_of(text)
    if entry is not None:
        found = reader.exposing(entry).defined(entry)
        if not found:
            if entry in names:
                text = f"{file} defines {entry!r} only under a condition that does not hold here"
                raise UsageError(text, "name the source that is compiled, or take the condition away")
            others = entries_of(text)
            hint = suggestion(entry, others, "it has " + (", ".join(others[:8]) or "no functions"))
            raise UsageError(f"{file} has no function {entry!r}", hint)
        if found[0].hidden:
            hint = "write static itself before it, outside of namespaces without a name: then it can be tuned"
            raise UsageError(f"{entry!r} is hidden from other files by a macro or a namespace", hint)
        if found[0].variadic:
            hint = "write a function that takes its arguments one by one"
            raise UsageError(f"{entry!r} takes a list of arguments of any length", hint)
        if reader.language == "opencl" and not found[0].kernel:
            raise UsageError(f"{entry!r} is no kernel", "write __kernel before it, or name another function")
        return found[0]
    functions = [f for name in names for f in reader.defined(name)]
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
        raise UsageError(f"{file} has no function that can be called from outside", "name another file")
    return _root(callable_, file)


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
