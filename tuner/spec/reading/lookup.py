"""The functions of sources: which ones there are by their looks, what each reaches, and one wherever it is defined."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache

from tuner.core.errors import BaselineError
from tuner.core.reaching import reachable
from tuner.core.source_text import lines_of_text, source_bytes
from tuner.spaces.source.lexical import code, words
from tuner.spaces.source.parse import function_nodes, parse_file
from tuner.spec.reading.declarations import with_numbers
from tuner.spec.reading.origins import MARKER
from tuner.spec.reading.signature import Function, SourceReader

__all__ = [
    "callers_of",
    "entries_of",
    "function_lookup",
    "functions_of",
    "included_functions",
    "names_reached",
    "operators_of",
    "text_after_macros",
]

_BODY = re.compile(
    r"\s*(?:(?:const|override|final)\b\s*)*(?:\{|noexcept|__attribute__|(?:[A-Za-z_][\w\s*,[\]]*;\s*)+\{)"
)
"""What follows the parameters of a function that is defined: of a method its kind, in C of before 1989 their types."""
_CALLABLE = re.compile(r"\b([A-Za-z_]\w*)\s*\(")
_OPERATOR = re.compile(r"\b(operator\s*(?:\(\s*\)|\[\s*\]|[^\s\w()\[\]]+))\s*\(")
_NOISE = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.DOTALL)
_DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n\\]|\\.|\\\n)*", re.MULTILINE)
_INTO, _BACK = "1", "2"
_KEYWORDS = {"if", "for", "while", "switch", "return", "sizeof", "do", "else", "catch"}
_MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)((?:\\\n|[^\n])*)", re.MULTILINE)


def functions_of(text: str) -> list[str]:
    """Names that a source seems to define as functions, in order; found by their looks."""
    return list(dict.fromkeys(name for name, _ in _definitions(_plain(text))))


def text_after_macros(reader: SourceReader) -> str:
    """The first file after the preprocessor without what it includes; as it is written where that refuses it."""
    text, _, broken = reader.preprocessed()
    if broken is not None:
        return reader.files[0].text
    kept, depth = list[str](), 0
    for line in lines_of_text(text):
        mark = MARKER.match(line)
        if mark is None:
            kept += [] if depth else [line]
        else:
            depth += (_INTO in mark[3].split()) - (_BACK in mark[3].split())
    return "".join(kept)


def included_functions(reader: SourceReader, name: str) -> list[tuple[Function, str]]:
    """The functions of a name that the reader's further files define, which the first includes, and those files.

    Raises:
        BaselineError: the source does not compile.
    """
    found = []
    for function in reader.functions(name, included=True) if len(reader.files) > 1 else ():
        place = function.tree["loc"]
        at = int(place.get("expansionLoc", place).get("offset", 0))
        own = source_bytes(function.name)
        having = [file.name for file in reader.files[1:] if file.data[at : at + len(own)] == own]
        found += [(function, having[0])] if function.defined and having else []
    return found


def operators_of(text: str) -> list[tuple[str, int]]:
    """Operators of C++ that a source seems to define, such as ``operator+``, and where they stand."""
    return [(re.sub(r"\s", "", name), at) for name, at in _definitions(text, _OPERATOR)]


def callers_of(text: str, name: str) -> list[str]:
    """The functions of a source in which another one, or one itself, or an operator seems to be called."""
    plain = _plain(text)
    if name.startswith("operator"):
        return _using(plain, name.removeprefix("operator"))
    defined = {at: function for function, at in _definitions(plain)}
    found: dict[str, None] = {}
    inside = ""
    for called in _CALLABLE.finditer(plain):
        inside = defined.get(called.start(), inside)
        if called[1] == name and called.start() not in defined and inside:
            found[inside] = None
    return list(found)


def _using(plain: str, operator: str) -> list[str]:
    """The functions in which an operator stands, up to where the next one is defined."""
    defined = [*_definitions(plain)]
    ends = [at for _, at in defined[1:]] + [len(plain)]
    # A file of types alone has an end and no function.
    found = (f for (f, at), end in zip(defined, ends, strict=False) if operator[0] in plain[at:end])
    return list(dict.fromkeys(found))


def _plain(text: str) -> str:
    """A source without comments, texts and directives."""
    return _DIRECTIVE.sub(" ", _NOISE.sub(" ", text))


def _definitions(plain: str, pattern: re.Pattern[str] = _CALLABLE) -> Iterator[tuple[str, int]]:
    """Names that seem to be defined as functions, and where they stand."""
    for found in pattern.finditer(plain):
        depth, at = 1, found.end()
        while at < len(plain) and depth:
            depth += {"(": 1, ")": -1}.get(plain[at], 0)
            at += 1
        if depth == 0 and _BODY.match(plain, at) and found[1] not in _KEYWORDS:
            yield found[1], found.start()


def entries_of(text: str) -> list[str]:
    """As :func:`functions_of`, without those that only their own file can call."""
    hidden = set(re.findall(r"\bstatic\b[^;{}()]*?([A-Za-z_]\w*)\s*\(", _plain(text)))
    return [name for name in functions_of(text) if name not in hidden]


def function_lookup(reader: SourceReader) -> Callable[[str], Function | None]:
    """Gives a function's definition, those of the first file and its headers first; each name is read once.

    Of a method's name the class is a part: ``Grid::at``.
    """
    names = [frozenset(functions_of(file.text)) for file in reader.files]

    @cache
    def find(name: str) -> Function | None:
        last = name.rpartition("::")[2]
        having = [index for index, own in enumerate(names) if last in own]
        # A name that another file defines may be one of the first one's headers.
        readers = (reader.at(index) for index in dict.fromkeys((0, *having))) if having else ()
        found = (_defined(each, name) for each in readers if each is not None)
        return next((function for function in found if function is not None), None)

    return find


def _defined(reader: SourceReader, name: str) -> Function | None:
    try:
        found = next((f for f in reader.functions(name, included=True) if f.defined), None)
        return None if found is None else with_numbers(found, reader)
    except BaselineError:
        # Of another file, which the compiler will say itself.
        return None


def names_reached(text: str, entry: str) -> set[str]:
    """Names in a kernel, in every function and macro that these name in turn, and in all other declarations.

    Args:
        text: OpenCL C or CUDA, its headers in it.
        entry: the kernel.
    """
    rest = code(text)
    inside: dict[str, set[str]] = {}
    for name, body in _MACRO.findall(rest):
        inside.setdefault(name, set()).update(words(body))
    rest = _MACRO.sub(lambda m: "\n" * m[0].count("\n"), rest)
    functions = list(function_nodes(parse_file(rest.encode(), "c++")))
    data = rest.encode()
    for name, node in functions:
        inside.setdefault(name, set()).update(words(data[node.start_byte : node.end_byte].decode()))
    for _, node in reversed(functions):
        data = data[: node.start_byte] + data[node.end_byte :]
    if entry not in (name for name, _ in functions):
        return set(words(rest)).union(*inside.values())
    return reachable([entry, *words(data.decode())], lambda name: inside.get(name, ()))
