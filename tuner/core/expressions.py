"""The small language of sizes, constraints and launch geometry; read with ``ast``, never run as Python.

Every layer may use it; it knows nothing of specs, kernels or devices. Integers are exact: ``a / b`` of two
integers is a fraction until the end, so that ``ceil(a / b)`` is right however large they are.
"""

from __future__ import annotations

import ast
import difflib
import math
import numbers
import re
import warnings
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from keyword import iskeyword
from typing import Any, cast

from tuner.core.arithmetic import BINARY, COMPARE, FUNCTIONS, Value, number, to_float
from tuner.core.errors import SpecError

__all__ = ["FUNCTIONS", "RESERVED", "Expression", "parse"]

MAX_TEXT = 2000
MAX_DEPTH = 100

_GRAMMAR = (
    "use numbers, names, + - * / // % **, comparisons, and, or, not, min, max, ceil, floor, log2 and abs"
)

_Run = Callable[[Mapping[str, Any]], Any]


@dataclass(frozen=True, slots=True)
class Expression:
    """A parsed expression; equal texts are equal expressions. Make one with :func:`parse`.

    Attributes:
        text: as the user wrote it, without surrounding white space.
        names: every name that its value depends on.
        tree: the checked syntax tree, for other ways of evaluating it; not to be changed.
    """

    text: str
    names: frozenset[str] = field(compare=False, repr=False)
    tree: ast.expr = field(compare=False, repr=False)
    _run: _Run = field(compare=False, repr=False)

    def evaluate(self, env: Mapping[str, Value]) -> int | float | bool:
        """Its value.

        ``and``, ``or``, ``not`` and comparisons give a ``bool``; fractions that are not whole a ``float``.

        Args:
            env: a value for every name in :attr:`names`; other names are ignored.

        Raises:
            SpecError: a name is missing, a division by zero, a number too large, text where a number belongs.
        """
        try:
            value = self._run(env)
        except SpecError as error:
            raise SpecError(f"{error.message} in {self.text!r}", error.hint) from None
        except ZeroDivisionError:
            raise SpecError(f"division by zero in {self.text!r}", self._bindings(env)) from None
        except (OverflowError, ValueError, TypeError) as error:
            raise SpecError(f"{self.text!r} cannot be computed ({error})", self._bindings(env)) from None
        if isinstance(value, Fraction):
            value = to_float(value)
        if isinstance(value, str):
            raise SpecError(f"{self.text!r} is text where a number belongs", "compare it with == or !=")
        if isinstance(value, float) and not math.isfinite(value):
            raise SpecError(f"{self.text!r} is not finite", self._bindings(env))
        return cast("int | float | bool", value)

    def integer(self, env: Mapping[str, Value]) -> int:
        """Its value as an exact integer.

        Raises:
            SpecError: as :meth:`evaluate`, or the value is not a whole number.
        """
        value = self.evaluate(env)
        if isinstance(value, float):
            if not value.is_integer():
                raise SpecError(
                    f"{self.text!r} is {value:g}, not a whole number", "use ceil(…), floor(…) or //"
                )
            return int(value)
        return int(value)

    def _bindings(self, env: Mapping[str, Value]) -> str:
        shown = [f"{name} = {env[name]!r}" for name in sorted(self.names) if name in env]
        return "with " + ", ".join(shown[:6]) if shown else ""

    def __str__(self) -> str:
        return self.text

    def __reduce__(self) -> tuple[Callable[[str], Expression], tuple[str]]:
        # Closures cannot be pickled; the text says everything.
        return parse, (self.text,)


def parse(text: str | int | float, *, known: Collection[str] | None = None) -> Expression:
    """Reads an expression.

    ``true`` and ``false`` may be written in either case; text in quotes may only be compared with ``==`` and
    ``!=``.

    Args:
        text: the expression, or a number that stands for itself.
        known: names that may occur; ``None`` allows any.

    Raises:
        SpecError: not an expression of this language, too long or too deep, or a name that is not known.

    >>> parse("ceil(n / BLOCK)").integer({"n": 1000, "BLOCK": 64})
    16
    """
    if isinstance(text, bool):
        source = "true" if text else "false"
    elif isinstance(text, int | float):
        source = repr(text)
    elif isinstance(text, str):
        source = text.strip().replace("\r", " ").replace("\n", " ")
    else:
        raise SpecError(f"an expression is text or a number, not {type(text).__name__}", _GRAMMAR)
    tree = _read(source)
    names: set[str] = set()
    run = _Compiler(source, names).compile(tree, 0)
    if known is not None:
        for name in sorted(names):
            if name not in known:
                raise SpecError(f"unknown name {name!r} in {source!r}", _suggest(name, known))
    return Expression(source, frozenset(names), tree, run)


def _read(source: str) -> ast.expr:
    if not source:
        raise SpecError("an expression is empty", _GRAMMAR)
    if len(source) > MAX_TEXT:
        raise SpecError(f"an expression has {len(source)} characters", f"at most {MAX_TEXT} are allowed")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(_WORD.sub(_as_name, source), mode="eval").body
    except (SyntaxError, ValueError) as error:
        reason = error.msg if isinstance(error, SyntaxError) else str(error)
        raise SpecError(f"{_short(source)!r} is not an expression ({reason})", _syntax_hint(source)) from None
    except (RecursionError, MemoryError):
        raise SpecError(
            f"{_short(source)!r} is nested too deeply", f"at most {MAX_DEPTH} levels are allowed"
        ) from None


_WORD = re.compile(r"""'[^']*'|"[^"]*"|\b[A-Za-z_]\w*""")


def _as_name(found: re.Match[str]) -> str:
    """A word that only Python reserves, such as C's ``in``, spelt so that it is a name.

    Python compares words with its keywords as they are written, and names by their normal form (NFKC), in which a
    bold letter is the plain one.
    """
    word = found[0]
    if not iskeyword(word) or word in RESERVED or not word.islower():
        return word
    return chr(ord("𝐚") + ord(word[0]) - ord("a")) + word[1:]


def _short(source: str) -> str:
    return source if len(source) <= 80 else source[:77] + "…"


def _syntax_hint(source: str) -> str:
    for wrong, right in (("&&", "and"), ("||", "or"), ("!", "not or !="), ("?", "min, max, and, or")):
        if wrong in source:
            return f"write {right} instead of {wrong}"
    if "=" in source:
        return "compare with =="
    return _GRAMMAR


def _suggest(name: str, known: Collection[str]) -> str:
    if name in FUNCTIONS and name not in known:
        return f"write {name}(…)"
    close = difflib.get_close_matches(name, list(known), n=1)
    if not close:
        folded = {k.lower(): k for k in known}
        close = [folded[name.lower()]] if name.lower() in folded else []
    if close:
        return f"did you mean {close[0]!r}?"
    shown = sorted(known)[:12]
    return "known names: " + ", ".join(shown) if shown else "no names are known here"


_LITERALS = {"true": True, "false": False, "True": True, "False": False}

RESERVED = frozenset(_LITERALS) | {"and", "or", "not"}
"""Words of the language: they cannot be the name of a size or a parameter."""


def _lookup(name: str) -> _Run:
    def run(env: Mapping[str, Any]) -> Any:
        try:
            value = env[name]
        except KeyError:
            raise SpecError(f"unknown name {name!r}", _suggest(name, list(env))) from None
        if type(value) is int or isinstance(value, int | float | str):
            # NumPy's float64 is a float: its arithmetic warns where Python's raises.
            return float(value) if isinstance(value, float) else value
        if isinstance(value, numbers.Integral):
            return int(value)
        if isinstance(value, numbers.Real):
            return float(value)
        item = getattr(value, "item", None)
        if item is not None and isinstance(item(), bool):
            return bool(value)
        raise SpecError(f"{name!r} is {type(value).__name__}, not a number or text", "give the name a number")

    return run


def _truth(value: Any) -> bool:
    return bool(number(value))


class _Compiler:
    """Turns a syntax tree into nested functions, once; refuses everything that is not in the language."""

    def __init__(self, source: str, names: set[str]) -> None:
        self._source = source
        self._names = names

    def compile(self, node: ast.expr, depth: int) -> _Run:
        if depth > MAX_DEPTH:
            raise SpecError(
                f"{_short(self._source)!r} is nested too deeply", f"at most {MAX_DEPTH} levels are allowed"
            )
        if isinstance(node, ast.Constant):
            return self._constant(node)
        if isinstance(node, ast.Name):
            return self._name(node)
        if isinstance(node, ast.BinOp):
            return self._binary(node, depth)
        if isinstance(node, ast.UnaryOp):
            return self._unary(node, depth)
        if isinstance(node, ast.BoolOp):
            return self._logic(node, depth)
        if isinstance(node, ast.Compare):
            return self._comparison(node, depth)
        if isinstance(node, ast.Call):
            return self._call(node, depth)
        raise self._refuse(node)

    def _refuse(self, node: ast.AST) -> SpecError:
        part = ast.get_source_segment(self._source, node) if isinstance(node, ast.expr) else None
        hint = "write ** for a power" if isinstance(node, ast.BitXor) else _GRAMMAR
        return SpecError(f"{_short(part or self._source)!r} is not part of the expression language", hint)

    def _constant(self, node: ast.Constant) -> _Run:
        value = node.value
        if not isinstance(value, bool | int | float | str):
            raise self._refuse(node)
        if isinstance(value, float) and not math.isfinite(value):
            raise SpecError(f"a number in {_short(self._source)!r} is not finite", "write a finite number")
        return lambda env: value

    def _name(self, node: ast.Name) -> _Run:
        if node.id in _LITERALS:
            literal = _LITERALS[node.id]
            return lambda env: literal
        self._names.add(node.id)
        return _lookup(node.id)

    def _binary(self, node: ast.BinOp, depth: int) -> _Run:
        function = BINARY.get(type(node.op))
        if function is None:
            raise self._refuse(node.op if isinstance(node.op, ast.BitXor) else node)
        left, right = self.compile(node.left, depth + 1), self.compile(node.right, depth + 1)
        return lambda env: function(left(env), right(env))

    def _unary(self, node: ast.UnaryOp, depth: int) -> _Run:
        operand = self.compile(node.operand, depth + 1)
        if isinstance(node.op, ast.USub):
            return lambda env: -number(operand(env))
        if isinstance(node.op, ast.UAdd):
            return lambda env: +number(operand(env))
        if isinstance(node.op, ast.Not):
            return lambda env: not _truth(operand(env))
        raise self._refuse(node)

    def _logic(self, node: ast.BoolOp, depth: int) -> _Run:
        parts = [self.compile(value, depth + 1) for value in node.values]
        if isinstance(node.op, ast.And):
            return lambda env: all(_truth(part(env)) for part in parts)
        return lambda env: any(_truth(part(env)) for part in parts)

    def _comparison(self, node: ast.Compare, depth: int) -> _Run:
        first = self.compile(node.left, depth + 1)
        steps: list[tuple[Callable[[Any, Any], bool], bool, _Run]] = []
        for op, right in zip(node.ops, node.comparators, strict=True):
            function = COMPARE.get(type(op))
            if function is None:
                raise self._refuse(node)
            ordered = not isinstance(op, ast.Eq | ast.NotEq)
            steps.append((function, ordered, self.compile(right, depth + 1)))

        def run(env: Mapping[str, Any]) -> bool:
            left = first(env)
            for function, ordered, part in steps:
                right = part(env)
                if ordered:
                    number(left)
                    number(right)
                if not function(left, right):
                    return False
                left = right
            return True

        return run

    def _call(self, node: ast.Call, depth: int) -> _Run:
        if not isinstance(node.func, ast.Name) or node.keywords:
            raise self._refuse(node)
        name = node.func.id
        if name not in FUNCTIONS:
            raise SpecError(
                f"unknown function {name!r} in {_short(self._source)!r}", _suggest(name, list(FUNCTIONS))
            )
        fewest, most, function = FUNCTIONS[name]
        if len(node.args) < fewest or (most is not None and len(node.args) > most):
            raise SpecError(
                f"{name} in {_short(self._source)!r} has {len(node.args)} arguments",
                f"it takes {'one' if most == 1 else 'one or more'}",
            )
        parts = [self.compile(arg, depth + 1) for arg in node.args]
        if len(parts) == 1:
            only = parts[0]
            return lambda env: function(only(env))
        return lambda env: function(*(part(env) for part in parts))
