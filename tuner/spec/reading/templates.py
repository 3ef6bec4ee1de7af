"""A function that calls a template, so that a spec can name it: C++ templates have no symbol of their own.

Reads the template's parameters by their looks. May not compile anything.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from tuner.spec.reading.declarators import declaration
from tuner.spec.reading.signature import Function

__all__ = ["instance_of"]

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_SCOPE = re.compile(r"\bnamespace\s+(\w+(?:::\w+)*)\s*\{|[{}]")
_KINDS = ("typename", "class")
_NUMBERS = re.compile(r"(?:unsigned|int|long|short|std::size_t|size_t|bool|char|\s)+(\w+)(?:\s*=\s*(\w+))?$")


def instance_of(template: Function, text: str) -> tuple[str, str] | None:
    """A function that calls the template with ``float`` for its types; ``None`` where its parameters are not plain.

    A type that nothing points to is taken for a size and becomes ``int``. Numbers of the template are macros in it.

    Args:
        template: whose parameters have names.
        text: the source that defines it.

    Returns:
        Its name, and its text, to follow the template's own.
    """
    plain = _COMMENT.sub(lambda m: " " * len(m[0]), text)
    found = re.search(rf"\btemplate\s*<([^{{}};]*?)>\s*[^;{{}}()]*?\b{re.escape(template.name)}\s*\(", plain)
    if found is None:
        return None
    types: dict[str, str] = {}
    macros: dict[str, int] = {}
    arguments = []
    for part in (p.strip() for p in found[1].split(",") if p.strip()):
        kind, _, rest = part.partition(" ")
        number = _NUMBERS.match(part)
        if kind in _KINDS and re.match(r"\w+", rest.strip()):
            name = rest.split("=")[0].strip()
            types[name] = _type(name, template)
            arguments.append(types[name])
        elif number is not None:
            # Not the parameter's own name: as a macro it would replace that in the source.
            macro = f"ARG_{number[1].upper()}"
            value = {"true": "1", "false": "0"}.get(number[2] or "", number[2] or "")
            macros[macro] = int(value) if value.isdigit() else 8
            arguments.append(macro)
        else:
            return None
    name = f"{template.name}_instance"
    called = "::".join([*_namespaces(plain[: found.start()]), template.name])
    lines = []
    for macro, default in macros.items():
        lines += [f"#ifndef {macro}", f"#define {macro} {default}", "#endif"]
    parameters = ", ".join(declaration(_with(t.text, types), n) for n, t in template.parameters)
    result = "void" if template.returns is None else _with(template.returns.text, types)
    call = f"{called}<{', '.join(arguments)}>({', '.join(n for n, _ in template.parameters)})"
    returned = "" if template.returns is None else "return "
    lines += [f'extern "C" {result} {name}({parameters})', "{", f"    {returned}{call};", "}"]
    return name, "\n".join(lines) + "\n"


def _type(name: str, template: Function) -> str:
    pointed = any(t.pointer and re.search(rf"\b{name}\b", t.text) for _, t in template.parameters)
    by_value = any(not t.pointer and re.search(rf"\b{name}\b", t.text) for _, t in template.parameters)
    return "int" if by_value and not pointed else "float"


def _with(text: str, types: Mapping[str, str]) -> str:
    for name, kind in types.items():
        text = re.sub(rf"\b{name}\b", kind, text)
    return text


def _namespaces(before: str) -> list[str]:
    """The namespaces that are open at the end of a text."""
    opened: list[str] = []
    for found in _SCOPE.finditer(before):
        if found[0] == "}":
            opened = opened[:-1]
        else:
            opened.append(found[1] or "")
    return [name for name in opened if name]
