"""Functions of mathematics that are taken to set no error number, so that compilers make instructions of them.

A C library's ``sqrt`` sets ``errno`` for a number below zero; while it may, a compiler keeps the call, and makes no
vectors of the loop around. Source: GCC manual, "-fmath-errno" and "Common function attributes", ``const``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from tuner.spaces.source.kinds import Refused, types_of
from tuner.spaces.source.lexical import words
from tuner.spaces.source.operators.operator import HOST, Args, knowing_members, where_it_applies
from tuner.spaces.source.parse import function_nodes, parse_file
from tuner.spaces.source.syntax import Call, Expr, Function, Stmt
from tuner.spaces.source.walks import map_expressions, subtrees
from tuner.spaces.source.widths import type_of

__all__ = ["OPERATORS"]

_OF_ONE = """
    acos acosh asin atanh cos cosh erfc exp exp2 expm1 log log10 log1p log2 sin sinh sqrt tan tgamma
"""
_OF_TWO = "atan2 fmod hypot pow remainder"
_ARGUMENTS = {**dict.fromkeys(_OF_ONE.split(), 1), **dict.fromkeys(_OF_TWO.split(), 2), "fma": 3}
"""Functions of C that may set ``errno`` and have no other effect, with how many numbers they take."""
_TYPES = {"": "double", "f": "float", "l": "long double"}
_SIGNATURES = {f"{name}{end}": (kind, n) for name, n in _ARGUMENTS.items() for end, kind in _TYPES.items()}
_WATCHED = frozenset({"errno", "__errno_location", "math_errhandling", "tgmath"})
_TRAPS = re.compile(r"fe\w*(?:except\w*|round|env)")
"""What asks which exceptions a function of mathematics has raised, or how it rounds."""


def ignore_errno(function: Function, _: Args) -> Function:
    """Declares the functions of mathematics that are called as ones that set no error number."""
    if function.language == "c++" and not function.whole:
        raise Refused("functions of C are not declared inside a function of C++")
    said = words(function.source) | function.words
    if not _WATCHED.isdisjoint(said) or any(map(_TRAPS.fullmatch, said)):
        raise Refused("the program reads errno, or looks after floating-point exceptions")
    if function.language == "c++" and _inside_a_class(function):
        raise Refused("functions of C are not declared inside a class")
    kinds = types_of(function)
    body = _of_floats(function, kinds) if function.language == "c++" else function.body
    called = {n.function.removeprefix("std::") for n in subtrees(body) if _calls_that_of_c(n, kinds)}
    known = called & _SIGNATURES.keys() - function.macros
    lines = [_declared(name, function) for name in sorted(known) if not _is_declared(name, function)]
    if not lines or not set(lines).isdisjoint(function.preamble):
        raise Refused("no further function is called that may set errno")
    return replace(function, body=body, preamble=(*function.preamble, *lines))


def _declared(name: str, function: Function) -> str:
    kind, count = _SIGNATURES[name]
    linkage = 'extern "C" ' if function.language == "c++" else ""
    return f"{linkage}{kind} {name}({', '.join([kind] * count)}) __attribute__((const));"


def _calls_that_of_c(node: object, kinds: Mapping[str, str]) -> bool:
    """Whether a node calls a library's function; one of C++'s for ``float`` is another than C's."""
    if not isinstance(node, Call) or node.own:
        return False
    if not node.function.startswith("std::"):
        return True
    count = _ARGUMENTS.get(node.function.removeprefix("std::"))
    return count == len(node.arguments) and {type_of(a, kinds) for a in node.arguments} != {"float"}


def _is_declared(name: str, function: Function) -> bool:
    """Whether the project seems to declare a function by itself, perhaps with another type."""
    kinds = r"\s*\(\s*(?:const\s+)?(?:float|double|int|long|void)\b(?!\s*\()"
    return re.search(rf"\b{name}{kinds}", function.source) is not None


def _inside_a_class(function: Function) -> bool:
    """Whether the function is defined where members are, in a class of its own file."""
    found = function_nodes(parse_file(function.file.encode(), function.language), references=True)
    node = next((node for name, node in found if name == function.name), None)
    while node is not None and node.type != "field_declaration_list":
        node = node.parent
    return node is not None


def _of_floats(function: Function, kinds: Mapping[str, str]) -> tuple[Stmt, ...]:
    """A body in which functions of C++ for ``float`` are those of C that they stand for, of names nothing else has."""
    taken = words(function.source) | function.words | function.macros

    def change(expr: Expr) -> Expr:
        if isinstance(expr, Call) and not expr.own and expr.function.startswith("std::"):
            name = f"{expr.function.removeprefix('std::')}f"
            count = _SIGNATURES[name][1] if name in _SIGNATURES and name not in taken else 0
            if count == len(expr.arguments) and {type_of(a, kinds) for a in expr.arguments} == {"float"}:
                return replace(expr, function=name)
        return expr

    return map_expressions(function.body, change)


OPERATORS = (
    knowing_members(
        ignore_errno,
        where_it_applies(ignore_errno, "errno is not read"),
        "takes functions of mathematics to set no error number",
        languages=HOST,
    ),
)
