"""Assembler text of any compiler for x86-64, made ready for the loader: variables left to the harness, one entry.

What an object says of its static variables is lost in its relocations; the text still names them. May not run anything.

Source: GNU as, "Assembler Directives".
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from tuner.evaluators.host.layout import VARIABLE_ALIGN
from tuner.evaluators.host.symbols import entry_symbol, variable_symbol

__all__ = ["CannotLoad", "reached", "without_variable"]

_POINTER_BYTES = 8
_WORD = r"(?<![\w.$]){}(?![\w.$])"
_COMMON = r"^[ \t]*\.comm[ \t]+{}[ \t]*,[ \t]*(\d+)(?:[ \t]*,[ \t]*(\d+))?"
_TOLD = r"^[ \t]*\.(?:globl|global|local|weak|hidden|comm|type|size)[ \t]+{}[ \t]*(?:[,#].*)?\n"
_LABEL = re.compile(r"^([\w.$]+):", re.MULTILINE)
_DATA = re.compile(
    r"[ \t]*(?:\.(?:zero|skip|space|byte|value|short|2byte|hword|long|int|4byte|quad|8byte|octa|single|float|double"
    r"|string\d*|ascii|asciz)\b.*|[#/].*)?(?:\n|\Z)"
)
_SYMBOL = re.compile(r"(?<![\w.$@])[.A-Za-z_$][\w.$]*")
_SECTION = re.compile(r'[ \t]*\.(?:section[ \t]+"?([^",\s]+)|(text|data|bss)\b)')
_SAYS = re.compile(
    r"[ \t]*\.(?:globl|global|weak|hidden|protected|internal|local|type|comm|addrsig_sym)[ \t]+([\w.$]+)"
    r"[ \t]*(?:[,#].*)?$"
)
_IS = re.compile(r"[ \t]*\.set[ \t]+([\w.$]+)[ \t]*,(?!.*(?<![\w.$])\.(?![\w.$]))[ \t]*(.*)$")
"""Another name of a place that does not hang on where this is said."""
_KEPT = (".note", ".comment")
"""Sections of no code and no data."""


class CannotLoad(Exception):
    """Code that cannot be what the spec says: one line."""


@dataclass(slots=True)
class _Part:
    """What lies in one section between two directives that name sections."""

    lines: list[str]
    kept: bool
    defines: set[str] = field(default_factory=set)

    @property
    def uses(self) -> set[str]:
        return set(_SYMBOL.findall("\n".join(self.lines)))


class _File:
    """An assembler text in its parts; what is said of a symbol anywhere, and other names of symbols, stand apart."""

    def __init__(self, text: str) -> None:
        self.parts = [_Part([], kept=True)]
        self.said: list[tuple[str, str]] = []
        self.same: dict[str, str] = {}
        for line in text.split("\n"):
            section, said, same = _SECTION.match(line), _SAYS.match(line), _IS.match(line)
            label = _LABEL.match(line)
            if section is not None:
                self.parts.append(_Part([line], kept=(section[1] or "").startswith(_KEPT)))
            elif said is not None:
                self.said.append((said[1], line))
            elif same is not None:
                self.same[same[1]] = same[2]
            else:
                self.parts[-1].lines.append(line)
                if label is not None:
                    self.parts[-1].defines.add(label[1])

    def text(self, wanted: set[str]) -> str:
        """What is kept of it."""
        said = [line for name, line in self.said if name in wanted]
        same = [f"\t.set\t{name}, {other}" for name, other in self.same.items() if name in wanted]
        lines = [line for part in self.parts if part.kept for line in part.lines]
        return "\n".join([*lines[:1], *said, *lines[1:], *same, ""])


def reached(texts: Sequence[str], entry: str) -> list[str]:
    """Assembler texts without what an entry has no use for: a program's ``main``, what runs when it is loaded.

    Args:
        texts: of all files; each function and each variable in a section of its own.
        entry: as the source has it. A C++ function is found by its mangled name, and has its own beside that.

    Raises:
        CannotLoad: there is no such function, or there are several.
    """
    files = [_File(text) for text in texts]
    places: dict[str, list[_Part]] = {}
    for part in (part for file in files for part in file.parts):
        for name in part.defines:
            places.setdefault(name, []).append(part)
    symbol = entry_symbol(places, entry)
    if symbol is None:
        raise CannotLoad(f"the source defines no function {entry} that others can call")
    wanted, waiting = set[str](), [symbol, *(s for f in files for p in f.parts if p.kept for s in p.uses)]
    while waiting:
        name = waiting.pop()
        if name in wanted:
            continue
        wanted.add(name)
        waiting += [s for file in files for s in _SYMBOL.findall(file.same.get(name, ""))]
        for part in places.get(name, ()):
            if not part.kept:
                part.kept = True
                waiting += part.uses
    made = [file.text(wanted) for file in files]
    if symbol != entry:
        there = next(i for i, file in enumerate(files) if places[symbol][0] in file.parts)
        made[there] += f'\t.globl\t"{entry}"\n\t.set\t"{entry}", {symbol}\n'
    return made


def without_variable(text: str, name: str, size_bytes: int) -> str:
    """The text with a variable left to whoever loads the code, under its own name.

    Args:
        text: of all that was compiled of a file.
        name: in the source, with its namespaces; one that only its file sees is found too.
        size_bytes: that there will be; 0 for a pointer.

    Returns:
        The text as it is where it has no such variable: the compiler needed none.

    Raises:
        CannotLoad: it is of another size, needs another alignment, or every thread has its own.
    """
    size_bytes = size_bytes or _POINTER_BYTES
    symbol = variable_symbol(set(_SYMBOL.findall(text)), name)
    if symbol is None:
        return text
    own = re.escape(symbol)
    common = re.search(_COMMON.format(own), text, re.MULTILINE)
    label = re.search(rf"^{own}:.*\n", text, re.MULTILINE)
    if common is not None:
        _check(name, int(common[1]), size_bytes, int(common[2] or 1))
    elif label is not None:
        text = _without_label(text, label, symbol, name, size_bytes)
    text = re.sub(_TOLD.format(own), "", text, flags=re.MULTILINE)
    written = name if name.isidentifier() else f'"{name}"'
    return re.sub(_WORD.format(own), written, text) if symbol != name else text


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
