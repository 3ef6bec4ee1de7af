"""Expressions of host code in C and C++, as far as a first spec can say them: sizes, launch geometry, bytes.

Reads text only; what it does not know gives ``None``. May not compile or run anything.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from tuner.spec.first.host_arithmetic import (
    Call,
    Node,
    Op,
    UnknownPart,
    ceiling,
    folded,
    operation,
    real,
    whole,
)

__all__ = ["Inner", "Resolver", "parsed", "sizeof", "split"]

_TOKEN = re.compile(
    r"\s*(?:(?P<number>0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)(?P<suffix>[uUlLfF]*)"
    r"|(?P<name>[A-Za-z_][\w]*(?:\s*::\s*[A-Za-z_]\w*)*)|(?P<sign><<|>>|[<>=!]=|&&|\|\||->|.))"
)
_CAST = re.compile(
    r"(?:const |unsigned |signed |std::)*(?:unsigned|int|long|short|char|size_t|float|double|u?int\d+_t|uint)"
    r"(?: int| long)*"
)
_ROUNDED_UP = re.compile(
    r"(?:\w+::)*\w*(?:div_?(?:round_?)?up|ceil_?div|divceil|cdiv|round_?up_?div|divide_?up)\w*", re.IGNORECASE
)
_BYTES = {
    "char": 1,
    "bool": 1,
    "short": 2,
    "half": 2,
    "int": 4,
    "unsigned": 4,
    "float": 4,
    "long": 8,
    "double": 8,
}
_LEVELS = (("<<", ">>"), ("+", "-"), ("*", "/", "%"))
_DEEPEST = 24


Resolver = Callable[[str, str], "Node | None"]
"""What stands for a name and, of ``block.x``, a member; the name itself where it is to stay."""
Inner = Callable[[str, tuple[str, ...]], "Node | None"]


def parsed(text: str, resolve: Resolver, size_of: Callable[[str], int | None], called: Inner) -> Node | None:
    """The expression; ``None`` where it has a part that is not known.

    Args:
        text: C or C++.
        resolve: what stands for a name.
        size_of: bytes of a type, for ``sizeof``.
        called: what a call of a function or a macro gives, by its name and the text of its arguments.
    """
    try:
        reader = _Reader(text, resolve, size_of, called)
        node = reader.level(0)
        return node if not reader.left() else None
    except (UnknownPart, RecursionError):
        return None


class _Reader:
    def __init__(
        self, text: str, resolve: Resolver, size_of: Callable[[str], int | None], called: Inner
    ) -> None:
        self._tokens = [m for m in _TOKEN.finditer(text) if m[0].strip()]
        self._text = text
        self._at = 0
        self._resolve = resolve
        self._size_of = size_of
        self._called = called

    def left(self) -> bool:
        """Whether something follows."""
        return self._at < len(self._tokens)

    def level(self, depth: int) -> Node:
        """Operators of one precedence and all that bind tighter."""
        if depth == len(_LEVELS):
            return self._unary()
        node = self.level(depth + 1)
        while self._next() in _LEVELS[depth]:
            sign = self._take()
            node = operation(sign, node, self.level(depth + 1))
        return node

    def _unary(self) -> Node:
        if self._next() in ("+", "-"):
            sign = self._take()
            return operation(sign, 0, self._unary())
        if self._next() == "(" and (cast := self._cast()):
            inner = self._unary()
            return real(inner) if cast.split()[-1] in ("float", "double") else whole(inner)
        return self._primary()

    def _primary(self) -> Node:
        if not self.left():
            raise UnknownPart
        token = self._tokens[self._at]
        if token["number"]:
            self._at += 1
            return _number(token["number"], token["suffix"])
        if token["name"]:
            return self._named()
        if self._take() != "(":
            raise UnknownPart
        node = self.level(0)
        self._expect(")")
        return node

    def _named(self) -> Node:
        name = re.sub(r"\s+", "", self._take())
        if name in ("static_cast", "reinterpret_cast") and self._next() == "<":
            kind = self._until(">")
            inner = self._arguments()
            if len(inner) != 1:
                raise UnknownPart
            node = self._of(inner[0])
            return real(node) if kind.split()[-1] in ("float", "double") else whole(node)
        if self._next() == "(":
            return self._call(name, self._arguments())
        if self._next() == ".":
            self._take()
            return _known(self._resolve(name, self._take()))
        if self._next() in ("[", "->"):
            raise UnknownPart
        return _known(self._resolve(name, ""))

    def _call(self, name: str, given: tuple[str, ...]) -> Node:
        short = name.rpartition("::")[2]
        if short == "sizeof" and len(given) == 1:
            return _known(self._size_of(given[0]))
        if short in ("ceil", "ceilf") and len(given) == 1:
            return ceiling(self._of(given[0]))
        if short in ("min", "max", "fmin", "fmax") and len(given) == 2:
            return folded(Call(short.lstrip("f"), tuple(map(self._of, given))))
        if _CAST.fullmatch(short) and len(given) == 1:
            return (real if short in ("float", "double") else whole)(self._of(given[0]))
        if _ROUNDED_UP.fullmatch(name) and len(given) == 2:
            return ceiling(Op("/", self._of(given[0]), self._of(given[1])))
        return _known(self._called(short, given))

    def _of(self, text: str) -> Node:
        return _known(parsed(text, self._resolve, self._size_of, self._called))

    def _arguments(self) -> tuple[str, ...]:
        opened = self._tokens[self._at].end()
        depth = 0
        while self.left():
            sign = self._take()
            depth += {"(": 1, ")": -1}.get(sign, 0)
            if depth == 0:
                return tuple(split(self._text[opened : self._tokens[self._at - 1].end() - 1]))
        raise UnknownPart

    def _cast(self) -> str:
        """The type of a cast that stands here, taken."""
        words, at = list[str](), self._at + 1
        while at < len(self._tokens) and self._tokens[at]["name"]:
            words.append(re.sub(r"\s+", "", self._tokens[at]["name"]))
            at += 1
        kind = " ".join(words)
        closed = at < len(self._tokens) and self._tokens[at][0].strip() == ")"
        if not closed or not _CAST.fullmatch(kind):
            return ""
        self._at = at + 1
        return kind

    def _until(self, sign: str) -> str:
        start = self._tokens[self._at].end()
        while self.left():
            if self._take() == sign:
                return self._text[start : self._tokens[self._at - 1].start()].strip()
        raise UnknownPart

    def _next(self) -> str:
        return self._tokens[self._at][0].strip() if self.left() else ""

    def _take(self) -> str:
        if not self.left():
            raise UnknownPart
        self._at += 1
        return self._tokens[self._at - 1][0].strip()

    def _expect(self, sign: str) -> None:
        if self._take() != sign:
            raise UnknownPart


def split(text: str) -> list[str]:
    """Parts between commas outside of brackets."""
    parts, depth, start = [], 0, 0
    for i, letter in enumerate(text):
        depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
    return [p for p in [*parts, text[start:].strip()] if p]


def sizeof(kind: str) -> int | None:
    """Bytes of a number's type or of a vector type; ``None`` for any other.

    >>> sizeof("unsigned char"), sizeof("float4"), sizeof("Body")
    (1, 16, None)
    """
    plain = re.sub(r"\b(?:const|unsigned|signed|struct)\b", " ", kind).split()
    if "*" in kind:
        return 8
    if not plain:
        return 4
    if fixed := re.fullmatch(r"u?int(8|16|32|64)_t", plain[-1]):
        return int(fixed[1]) // 8
    if plain[-1] == "size_t" or plain[0] == "long":
        return 8
    vector = re.fullmatch(r"u?(char|short|int|float|double|long)([1234]?)", plain[-1])
    if vector:
        return _BYTES[vector[1]] * int(vector[2] or 1)
    return _BYTES.get(plain[-1].lstrip("_"))


def _known(node: Node | None) -> Node:
    if node is None:
        raise UnknownPart
    return node


def _number(text: str, suffix: str) -> Node:
    if text.lower().startswith("0x"):
        # Its own digits may look like a suffix.
        return int(text + suffix.rstrip("uUlL"), 16)
    if "." in text or "e" in text.lower() or "f" in suffix.lower():
        return float(text)
    return int(text, 8) if re.fullmatch(r"0[0-7]+", text) else int(text)
