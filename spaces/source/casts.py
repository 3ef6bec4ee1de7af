"""Variables in parentheses that the grammar takes for the types of casts: ``(i) + (j) * n``, as macros write it.

And types that it takes for variables: ``(real)-x``. Without a table of types both can be meant. What the text declares
as a variable is none, and what it declares something with is one. May not look at anything but the tree.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Node

__all__ = [
    "MAY_BE_CAST",
    "MisreadCast",
    "cast_of_call",
    "divided",
    "doubtful",
    "operands_of",
    "types_in",
    "without_parentheses",
]

MAY_BE_CAST = re.compile(rb"\(\s*[A-Za-z_]\w*\s*(?:[\[(].*[\])]\s*)?\)\s*[-+*&]")
"""What a text has to have before its tree is looked through."""

_MAY_BE_TEMPLATE = re.compile(rb"<[^;]*(?:[&|^]|[!=]=|\band\b|\bor\b)[^;]*>")

_TYPE = re.compile(r"\w+_t|_?Bool|half|u(char|short|int|long)|(u?(char|short|int|long)|half|float|double)\d+")
_TYPE_WORDS = re.compile(
    rb"(?:(?:const|unsigned|signed|char|short|int|long|float|double|half|_Float16|u?int\d+_t|size_t)\s*)+"
)
_NUMBER = re.compile(
    r"(?:std::)?(?:unsigned|signed|short|long|int|char|bool|float|double|s?size_t|ptrdiff_t|u?int\d+_t)"
)
"""Types that the language or its library names with one word."""
_IN_PARENTHESES = re.compile(rb"\(\s*([A-Za-z_]\w*)\s*\)")
_OWN_HEADER = re.compile(rb'^[ \t]*#[ \t]*include[ \t]*"', re.MULTILINE)
_UNARY = ("-", "+", "*", "&")
_POSTFIX = ("subscript_expression", "field_expression", "call_expression", "update_expression")
_TYPED = ("declaration", "parameter_declaration", "optional_parameter_declaration", "function_definition")
_ENCLOSING = ("parenthesized_expression", "argument_list")
_DECLARING = frozenset(
    {"declaration", "parameter_declaration", "optional_parameter_declaration", "init_declarator"}
)


def without_parentheses(root: Node, text: bytes) -> bytes:
    """The text with spaces for the parentheses around such variables; itself where there are none."""
    casts: list[tuple[Node, Node]] = []
    stack = [root]
    while stack:
        node = stack.pop()
        if node.type == "cast_expression" and (named := _bare_type(node)) is not None:
            casts.append((named, node))
        stack.extend(node.children)
    if not casts:
        return text
    _, variables, defined = _declarations(text, root)
    made = bytearray(text)
    for named, cast in casts:
        name = named.text or b""
        within = _function_of(cast)
        # Nothing is cast to an array or a function.
        element = named.next_named_sibling is not None
        outside = (name, 0) in variables and name not in defined
        if element or (name, within) in variables or outside:
            for child in cast.children:
                if child.type in ("(", ")"):
                    made[child.start_byte : child.end_byte] = b" "
    return bytes(made)


def _bare_type(cast: Node) -> Node | None:
    """The type of a cast that is one word, of something that could be the right side of an operator."""
    kind, value = cast.child_by_field_name("type"), cast.child_by_field_name("value")
    if kind is None or value is None or value.type not in ("unary_expression", "pointer_expression"):
        return None
    inner = kind.named_children
    never = len(inner) == 2 and inner[1].type in ("abstract_array_declarator", "abstract_function_declarator")
    return inner[0] if (len(inner) == 1 or never) and inner[0].type == "type_identifier" else None


def doubtful(node: Node) -> bool:
    """Whether an expression holds, outside of parentheses, what may be a cast and may be a sum or product.

    Or what may be a call of a template and may be two comparisons: ``a + b < n && c > (d)``. How the rest binds hangs
    on that.
    """
    text = node.text or b""
    if node.type in _ENCLOSING or (
        MAY_BE_CAST.search(text) is None and _MAY_BE_TEMPLATE.search(text) is None
    ):
        return False
    stack = [node]
    while stack:
        current = stack.pop()
        if current.type in _ENCLOSING:
            continue
        named = _bare_type(current) if current.type == "cast_expression" else None
        if named is not None and not _is_type(named):
            return True
        if current.type == "template_function" and current is not node and _may_compare(current):
            return True
        stack.extend(current.children)
    return False


def _may_compare(template: Node) -> bool:
    """Whether what looks like a template with its arguments may be comparisons."""
    given = template.child_by_field_name("arguments")
    inner = [] if given is None else given.named_children
    operators = {c.type for i in inner if i.type == "binary_expression" for c in i.children}
    return bool(operators & {"&&", "||", "&", "|", "^", "==", "!=", "and", "or"})


def divided(arguments: Node) -> bool:
    """Whether what may be one argument of a call, a template's with several of its own, may be two comparisons.

    ``g(-a < b, c > (d))``: the sign is of ``a`` alone.
    """
    stack = list(arguments.named_children)
    while stack:
        current = stack.pop()
        given = current.child_by_field_name("arguments")
        if current.type == "template_function" and given is not None and len(given.named_children) > 1:
            return True
        stack.extend(c for c in current.children if c.type not in _ENCLOSING)
    return False


def _is_type(named: Node) -> bool:
    """Whether a word is a type's for certain."""
    name = (named.text or b"").decode()
    if _TYPE.fullmatch(name):
        return True
    text = (_root(named).text or b"").decode()
    if re.search(rf"\btypedef\b[^;{{}}]*\b{name}\s*;|\busing\s+{name}\s*=", text) is not None:
        return True
    return _names_type(named)


def _root(node: Node) -> Node:
    while node.parent is not None:
        node = node.parent
    return node


def _names_type(named: Node) -> bool:
    """Whether the text declares something with this name as its type, and within this function nothing of this name."""
    root = _root(named)
    types, variables, _ = _declarations(root.text or b"", root)
    name = named.text or b""
    return name in types and (name, _function_of(named)) not in variables


def types_in(root: Node) -> frozenset[bytes]:
    """The names of types that a text declares something with."""
    return _declarations(root.text or b"", root)[0]


class _Text(bytes):
    """A text with its tree: equal for equal texts that begin at the same place, which have equal trees."""

    root: Node


_Declarations = tuple[frozenset[bytes], frozenset[tuple[bytes, int]], frozenset[bytes]]
"""Types that something is declared with; variables with the function that they are in; types that are defined."""


def _declarations(text: bytes, root: Node) -> _Declarations:
    keyed = _Text(b"%d:" % root.start_byte + text)
    keyed.root = root
    return _declared_in(keyed)


@lru_cache(maxsize=64)
def _declared_in(text: _Text) -> _Declarations:
    types: set[bytes] = set()
    defined: set[bytes] = set()
    variables: set[tuple[bytes, int]] = set()
    stack: list[tuple[Node, int]] = [(text.root, 0)]
    while stack:
        node, function = stack.pop()
        if node.type == "function_definition":
            function = node.start_byte + 1
        if node.type in _TYPED:
            kind = node.child_by_field_name("type")
            if kind is not None and kind.type == "type_identifier":
                types.add(kind.text or b"")
        if node.type in ("type_definition", "alias_declaration", "type_parameter_declaration"):
            found = {c.text or b"" for c in node.named_children if c.type == "type_identifier"}
            types |= found
            defined |= found if node.type != "type_parameter_declaration" else set()
        if node.type == "preproc_def":
            value = node.child_by_field_name("value")
            name = node.child_by_field_name("name")
            if name is not None and value is not None and _TYPE_WORDS.fullmatch((value.text or b"").strip()):
                types.add(name.text or b"")
        if node.type in _DECLARING:
            for declarator in node.children_by_field_name("declarator"):
                if (variable := _declared(declarator)) is not None:
                    variables.add((variable, function))
        stack.extend((child, function) for child in node.children)
    return frozenset(types), frozenset(variables), frozenset(defined)


@dataclass(frozen=True, slots=True)
class MisreadCast:
    """An operand that is a type in parentheses: a cast of what follows, with the operators before it.

    Attributes:
        type: the type's name.
        before: unary operators, and types of casts, that stand before it, the outermost first.
    """

    type: str
    before: tuple[str, ...]


def operands_of(node: Node) -> list[Node | MisreadCast | str] | None:
    """Operands and operators of a sum or product as the text has them, where one operand is a type in parentheses.

    ``None`` where none is: then the grammar has read them right. Empty where one may be a type of a header.
    """
    if MAY_BE_CAST.search(node.text or b"") is None:
        return None
    found = _flat(node)
    parts: list[Node | MisreadCast | str] = []
    for place, part in enumerate(found):
        follows = found[place + 1] if place + 1 < len(found) else ""
        cast = None if isinstance(part, str) or follows not in _UNARY else _misread(part)
        if cast is not None and not cast.type:
            return []
        parts.append(part if cast is None else cast)
    return parts if any(isinstance(part, MisreadCast) for part in parts) else None


def _flat(node: Node) -> list[Node | str]:
    if node.type != "binary_expression":
        return [node]
    left, operator, right = (node.child_by_field_name(f) for f in ("left", "operator", "right"))
    if left is None or operator is None or right is None:
        return [node]
    return [*_flat(left), (operator.text or b"").decode(), *_flat(right)]


def _misread(node: Node) -> MisreadCast | None:
    before: list[str] = []
    while node.type in ("unary_expression", "pointer_expression", "cast_expression"):
        shown = node.child_by_field_name("type" if node.type == "cast_expression" else "operator")
        inner = node.child_by_field_name("value" if node.type == "cast_expression" else "argument")
        if shown is None or inner is None:
            return None
        text = " ".join((shown.text or b"").decode().split())
        before.append(f"({text})" if node.type == "cast_expression" else text)
        node = inner
    named = _type_in_parentheses(node)
    if named is None:
        return MisreadCast("", ()) if _may_be_of_header(node) else None
    return MisreadCast((named.text or b"").decode(), tuple(before))


def _may_be_of_header(node: Node) -> bool:
    """Whether a name in parentheses is one that only a header can explain, and not written as macros are."""
    found = _IN_PARENTHESES.fullmatch(node.text or b"")
    if found is None or found[1].isupper():
        return False
    root = _root(node)
    text = root.text or b""
    _, variables, _ = _declarations(text, root)
    known = {(found[1], 0), (found[1], _function_of(node))}
    defined = re.search(rb"\benum\b|#[ \t]*define[ \t]+%s\b" % found[1], text)
    return known.isdisjoint(variables) and defined is None and _OWN_HEADER.search(text) is not None


def _type_in_parentheses(node: Node) -> Node | None:
    if node.type != "parenthesized_expression" or len(node.named_children) != 1:
        return None
    inner = node.named_children[0]
    return inner if inner.type == "identifier" and _names_type(inner) else None


@dataclass(frozen=True, slots=True)
class WrittenCast:
    """A conversion that the grammar takes for a call, or that C++ writes as one.

    Attributes:
        type: as it is written.
        operand: what is converted.
        form: as in :class:`tuner.spaces.source.syntax.Cast`.
    """

    type: str
    operand: Node
    form: str


def cast_of_call(node: Node) -> WrittenCast | None:
    """What ``(real)(x)``, ``static_cast<double>(x)``, ``double(x)`` and ``double{x}`` convert, and to which type.

    ``None`` of calls, of what has not one argument, and of conversions to references. ``T(x)`` of a name of the text's
    own is a call here: only types can tell.
    """
    braces = node.type == "compound_literal_expression"
    fields = ("type", "value") if braces else ("function", "arguments")
    function, arguments = map(node.child_by_field_name, fields)
    given = [] if arguments is None else [c for c in arguments.named_children if c.type != "comment"]
    if function is None or len(given) != 1 or function.type == "type_descriptor":
        return None
    if function.type == "parenthesized_expression":
        named, around = _type_in_parentheses(function), node.parent
        if named is None or (around is not None and around.type in _POSTFIX):
            return None
        return WrittenCast((named.text or b"").decode(), given[0], "")
    kind, form = " ".join((function.text or b"").decode().split()), "call"
    if function.type == "template_function":
        form, _, inner = kind.partition("<")
        kind = inner.rpartition(">")[0].strip()
        if form.strip() != "static_cast" or "&" in kind:
            return None
        return WrittenCast(kind, given[0], "static_cast")
    return WrittenCast(kind, given[0], form) if _NUMBER.fullmatch(kind) else None


def _declared(declarator: Node) -> bytes | None:
    current: Node | None = declarator
    while current is not None and current.type != "identifier":
        inner = current.child_by_field_name("declarator")
        current = inner or next((c for c in current.named_children if c.type == "identifier"), None)
    return None if current is None else current.text


def _function_of(node: Node) -> int:
    around = node.parent
    while around is not None and around.type != "function_definition":
        around = around.parent
    return 0 if around is None else around.start_byte + 1
