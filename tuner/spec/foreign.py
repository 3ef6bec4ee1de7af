"""Reads the Python expressions of others' files without running them: lists of values and restrictions.

Understands a small part of Python and refuses the rest by name. May never hand text to ``eval``.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any

from tuner.core.errors import SpecError
from tuner.core.expressions import parse
from tuner.core.types import Value

__all__ = ["list_of_values", "restriction"]

_MOST = 1_000_000
_OPERATORS: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


def list_of_values(text: str) -> list[Value]:
    """The values of a list that is written in Python: literals, ``range``, ``+`` and comprehensions over one name.

    Raises:
        SpecError: anything else.

    >>> list_of_values("[1, 2] + [2**i for i in range(2, 5)]")
    [1, 2, 4, 8, 16]
    """
    try:
        found = _value(ast.parse(text.strip(), mode="eval").body, {})
        if isinstance(found, list) and found and all(isinstance(v, int | float | str) for v in found):
            return found
        reason = "it is no list of values"
    except SyntaxError:
        reason = "it is not Python"
    except (SpecError, ArithmeticError, TypeError, ValueError, RecursionError) as error:
        reason = error.message if isinstance(error, SpecError) else str(error)
    raise SpecError(f"the values {text!r} cannot be read: {reason}", "write the values as a plain list")


def restriction(text: str) -> str:
    """A restriction in the language of specs (``docs``: Expressions): ``in`` becomes comparisons, ``math.`` goes.

    Raises:
        SpecError: it uses what that language does not have.
    """
    try:
        tree = _Plain().visit(ast.parse(text.strip(), mode="eval"))
        return parse(ast.unparse(tree)).text
    except (SyntaxError, ValueError, RecursionError, SpecError) as error:
        reason = error.message if isinstance(error, SpecError) else str(error)
        raise SpecError(
            f"the restriction {text!r} cannot be translated: {reason}",
            "write it by hand into space.constraints, or take it out of the file",
        ) from None


class _Plain(ast.NodeTransformer):
    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        if isinstance(node.value, ast.Name) and node.value.id in ("math", "np"):
            return ast.Name(id=node.attr, ctx=ast.Load())
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        self.generic_visit(node)
        if len(node.ops) != 1 or not isinstance(node.ops[0], ast.In | ast.NotIn):
            return node
        choices = node.comparators[0]
        if not isinstance(choices, ast.List | ast.Tuple | ast.Set) or not choices.elts:
            return node
        inside = isinstance(node.ops[0], ast.In)
        single: ast.cmpop = ast.Eq() if inside else ast.NotEq()
        parts: list[ast.expr] = [
            ast.Compare(left=node.left, ops=[single], comparators=[choice]) for choice in choices.elts
        ]
        if len(parts) == 1:
            return parts[0]
        return ast.BoolOp(op=ast.Or() if inside else ast.And(), values=parts)


def _value(node: ast.expr, names: Mapping[str, Any]) -> Any:
    match node:
        case ast.Constant(value=value) if isinstance(value, bool | int | float | str):
            return value
        case ast.Name(id=name) if name in names:
            return names[name]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, names)
        case ast.List(elts=parts) | ast.Tuple(elts=parts):
            return [_value(p, names) for p in parts]
        case ast.BinOp():
            return _binary(node, names)
        case ast.Call(func=ast.Name(id="range"), args=arguments, keywords=[]):
            numbers = range(*(_value(a, names) for a in arguments))
            if len(numbers) > _MOST:
                raise SpecError(f"the range has {len(numbers)} values")
            return list(numbers)
        case ast.Call(func=ast.Name(id="list" | "sorted" as name), args=[argument], keywords=[]):
            made = _value(argument, names)
            return sorted(made) if name == "sorted" else made
        case ast.ListComp(elt=element, generators=[ast.comprehension(target=ast.Name(id=name)) as loop]):
            found = []
            for item in _value(loop.iter, names):
                inner = {**names, name: item}
                if all(parse(ast.unparse(test)).evaluate(inner) for test in loop.ifs):
                    found.append(_value(element, inner))
            return found
    raise SpecError(f"{ast.unparse(node)} is not understood")


def _binary(node: ast.BinOp, names: Mapping[str, Any]) -> Any:
    left, right = _value(node.left, names), _value(node.right, names)
    if isinstance(node.op, ast.Pow):
        if isinstance(right, list) or abs(right) > 64:
            raise SpecError(f"the power {ast.unparse(node)} is too large")
        return left**right
    use = _OPERATORS.get(type(node.op))
    if use is None or (isinstance(node.op, ast.Mult) and isinstance(left, list | str)):
        raise SpecError(f"{ast.unparse(node)} is not understood")
    return use(left, right)
