"""Assembler text of any compiler for x86-64, made ready for the loader: variables left to the harness, one entry.

What an object says of its static variables is lost in its relocations; the text still names them. May not run anything.

Source: GNU as, "Assembler Directives".
"""

from __future__ import annotations

import re

from tuner.evaluators.host.layout import VARIABLE_ALIGN
from tuner.evaluators.host.symbols import entry_symbol

__all__ = ["CannotLoad", "with_entry", "without_load_time", "without_variable"]

_POINTER_BYTES = 8
_WORD = r"(?<![\w.$]){}(?![\w.$])"
_COMMON = r"^[ \t]*\.comm[ \t]+{}[ \t]*,[ \t]*(\d+)(?:[ \t]*,[ \t]*(\d+))?"
_TOLD = r"^[ \t]*\.(?:globl|global|local|weak|hidden|comm|type|size)[ \t]+{}[ \t]*(?:[,#].*)?\n"
_LABEL = re.compile(r"^([\w.$]+):", re.MULTILINE)
_DATA = re.compile(
    r"[ \t]*(?:\.(?:zero|skip|space|byte|value|short|2byte|hword|long|int|4byte|quad|8byte|octa|single|float|double"
    r"|string\d*|ascii|asciz)\b.*|[#/].*)?(?:\n|\Z)"
)
_LOAD_TIME = re.compile(
    r"^[ \t]*\.section[ \t]+\.(?:preinit_array|init_array|fini_array|ctors|dtors)\b[^\n]*\n(?:[ \t]*"
    r"\.(?:p2align|align|balign|quad|8byte|long)\b[^\n]*\n)*",
    re.MULTILINE,
)


class CannotLoad(Exception):
    """Code that cannot be what the spec says: one line."""


def without_load_time(text: str) -> str:
    """The text without its lists of functions that run when a program is loaded; nobody runs them here."""
    return _LOAD_TIME.sub("", text)


def with_entry(text: str, entry: str) -> str:
    """The text with its one function of a name under exactly that name.

    Args:
        text: of all that was compiled of a file.
        entry: as the source has it; a C++ function is found by its mangled name.

    Returns:
        The text as it is where it has no such function.
    """
    if re.search(rf"^{re.escape(entry)}:", text, re.MULTILINE):
        return text
    symbol = entry_symbol(set(_LABEL.findall(text)), entry)
    return text if symbol is None else f"{text}\t.globl\t{entry}\n\t.set\t{entry}, {symbol}\n"


def without_variable(text: str, name: str, size_bytes: int) -> str:
    """The text with a variable left to whoever loads the code, under its own name.

    Args:
        text: of all that was compiled of a file.
        name: in the source; a C++ one that only its file sees is found too.
        size_bytes: that there will be; 0 for a pointer.

    Returns:
        The text as it is where it has no such variable: the compiler needed none.

    Raises:
        CannotLoad: it is of another size, needs another alignment, or every thread has its own.
    """
    size_bytes = size_bytes or _POINTER_BYTES
    for symbol in (name, f"_ZL{len(name)}{name}"):
        own = re.escape(symbol)
        common = re.search(_COMMON.format(own), text, re.MULTILINE)
        label = re.search(rf"^{own}:.*\n", text, re.MULTILINE)
        if common is not None:
            _check(name, int(common[1]), size_bytes, int(common[2] or 1))
        elif label is not None:
            text = _without_label(text, label, symbol, name, size_bytes)
        elif not re.search(_WORD.format(own), text):
            continue
        text = re.sub(_TOLD.format(own), "", text, flags=re.MULTILINE)
        return re.sub(_WORD.format(own), name, text) if symbol != name else text
    return text


def _without_label(text: str, label: re.Match[str], symbol: str, name: str, size_bytes: int) -> str:
    head = text[: label.start()]
    section = re.findall(r"^[ \t]*\.section[ \t]+(\S+)", head, re.MULTILINE)
    if section and section[-1].startswith((".tdata", ".tbss")):
        raise CannotLoad(f"every thread has its own {name}")
    size = re.search(rf"^[ \t]*\.size[ \t]+{re.escape(symbol)}[ \t]*,[ \t]*(\d+)", text, re.MULTILINE)
    aligned = re.findall(r"^[ \t]*\.(align|balign|p2align)[ \t]+(\d+)", head[-400:], re.MULTILINE)
    kind, number = aligned[-1] if aligned else ("align", "1")
    align = 1 << int(number) if kind == "p2align" else int(number)
    _check(name, int(size[1]) if size else size_bytes, size_bytes, align)
    end = label.end()
    while end < len(text) and (line := _DATA.match(text, end)) and line.end() > end:
        end = line.end()
    return text[: label.start()] + text[end:]


def _check(name: str, there: int, size_bytes: int, align: int) -> None:
    if there not in (0, size_bytes):
        raise CannotLoad(f"the global {name} has {there} bytes in the source, and {size_bytes} in the spec")
    if align > VARIABLE_ALIGN:
        raise CannotLoad(f"the global {name} begins at a multiple of more than {VARIABLE_ALIGN} bytes")
