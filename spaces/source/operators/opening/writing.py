"""What the text of one function may write of structures: members by name, structures as a whole, by which calls.

Goes by names and types, not by objects: what is said of one member holds for all members of its name, what is said of
one structure for all of its type. A pointer to a structure is followed through copies of its own type; where it becomes
anything else, all of its type may be written. Numbers are written by members' names, or in buffers, which are taken to
be separate from structures. Whatever is not known here is refused. May not change a tree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING

from tuner.spaces.source.casts import cast_of_call
from tuner.spaces.source.kinds import Refused
from tuner.spaces.source.lexical import words
from tuner.spaces.source.operators.opening.declaring import (
    DECLARATORS,
    OTHER,
    TAGGED,
    TYPES,
    UNKNOWN,
    Context,
    Declared,
    Keys,
    Written,
    declared_in,
    keys_of,
    steps_to,
)
from tuner.spaces.source.parse import node_text, parameters
from tuner.spaces.source.syntax import Param

if TYPE_CHECKING:
    from tree_sitter import Node

__all__ = ["written_by"]

_STATEMENTS = frozenset(
    {
        *("compound_statement", "expression_statement", "for_statement", "while_statement", "do_statement"),
        *("if_statement", "else_clause", "switch_statement", "case_statement", "break_statement"),
        *("continue_statement", "goto_statement", "labeled_statement", "condition_clause"),
    }
)
_SILENT = frozenset(
    {
        *("number_literal", "char_literal", "string_literal", "concatenated_string", "true", "false", "null"),
        *("comment", "statement_identifier", "sizeof_expression", "type_identifier", "primitive_type"),
    }
)
_TESTS = frozenset({"==", "!=", "<", ">", "<=", ">=", "&&", "||"})


@dataclass(frozen=True, slots=True)
class _Use:
    """What becomes of a value: ``read`` leads to a member or a test, ``kept`` to a place of ``keys``, else ``lost``."""

    how: str
    keys: Keys = OTHER


_READ, _LOST = _Use("read"), _Use("lost")
_NAMED, _TARGET, _STORED = _Use("named"), _Use("target"), _Use("stored")


def written_by(node: Node, context: Context) -> Written:
    """What one definition may write.

    Args:
        node: of the definition.
        context: its text.

    Raises:
        Refused: it cannot be seen through.
    """
    scan = _Scan(node, context)
    body = node.child_by_field_name("body")
    if node.has_error or body is None or body.type != "compound_statement":
        raise Refused("a function cannot be read")
    scan.statement(body)
    return scan.found


class _Scan:
    """One definition's statements and expressions, top down: each expression with what becomes of its value."""

    def __init__(self, node: Node, context: Context) -> None:
        self.context = context
        self.found = Written()
        self._variables: dict[str, Declared] = {}
        types, plus = context.types, context.plus
        self._result = keys_of(node, types)
        result = node.child_by_field_name("declarator")
        while result is not None and result.type == "pointer_declarator":
            result = result.child_by_field_name("declarator")
        name = result.child_by_field_name("declarator") if result is not None else None
        if (
            result is None
            or result.type != "function_declarator"
            or name is None
            or name.type != "identifier"
        ):
            # Of a method, members may be named like variables.
            raise Refused("a function is declared in a way that is not known")
        for param in parameters(node):
            plain = param.base.replace("const", " ").replace("register", " ").split()
            reference = "&" in param.text
            if not param.name or "volatile" in plain or ("?" in param.suffix and not reference):
                self._declare(param.name, Declared(frozenset({UNKNOWN}), False))
                continue
            if reference and (param.stars or not plus):
                raise Refused(f"{param.name} refers to a pointer")
            kind, whole = param.base, not (param.stars or param.suffix)
            if plus and whole and not (types.is_arithmetic(kind) or types.members(kind)):
                raise Refused(f"{param.name} may be an object with functions of its own")
            own = not reference
            self._declare(param.name, Declared(types.lies_behind(param.base), own))

    def _declare(self, name: str, variable: Declared) -> None:
        before = self._variables.get(name)
        if before is not None:
            variable = Declared(before.keys | variable.keys, before.own and variable.own)
        self._variables[name] = variable

    def statement(self, node: Node) -> None:
        """Statements, and declarations."""
        if node.type == "declaration":
            return self._declaration(node)
        if node.type == "return_statement":
            for value in node.named_children:
                if value.type != "comment":
                    self.value(value, _Use("kept", self._result))
            return None
        if node.type == "preproc_call":
            if not node_text(node).lstrip().startswith("#pragma"):
                raise Refused("a directive stands in a function")
            self.found.moved |= words(node_text(node))
            return None
        if node.type not in _STATEMENTS:
            return self.value(node, _READ)
        self.found.jumps |= node.type in ("goto_statement", "labeled_statement")
        for child in node.named_children:
            self.statement(child)
        return None

    def _declaration(self, node: Node) -> None:
        plain = (*TYPES, *TAGGED, "type_qualifier", "storage_class_specifier", "comment", *DECLARATORS)
        if any(c.type not in (*plain, "identifier") for c in node.named_children):
            raise Refused(f"{node_text(node)[:40]!r} is declared in a way that is not known")
        for name, variable in declared_in(node, self.context.types, plus=self.context.plus):
            self._declare(name, variable)
            self.found.moved.add(name)
        keys = keys_of(node, self.context.types)
        for declarator in node.children_by_field_name("declarator"):
            value = declarator.child_by_field_name("value") if declarator.type == "init_declarator" else None
            if value is None:
                continue
            if "reference_declarator" in steps_to(declarator)[1]:
                self._address(value)
            self.value(value, _Use("kept", keys))

    def value(self, node: Node, use: _Use) -> None:
        """An expression."""
        match node.type:
            case kind if kind in _SILENT:
                return
            case "identifier":
                self._name(node_text(node), use)
            case "field_expression":
                self._member(node, use)
            case "subscript_expression":
                self._subscript(node, use)
            case "pointer_expression":
                self._pointer(node, use)
            case "call_expression":
                self._call(node, use)
            case "cast_expression":
                self._cast(node, use)
            case "assignment_expression":
                self._assignment(node, use)
            case _:
                self._operation(node, use)

    def _operation(self, node: Node, use: _Use) -> None:
        operator = node.child_by_field_name("operator")
        sign = "" if operator is None else node_text(operator)
        inner = [c for c in node.named_children if c.type != "comment"]
        match node.type:
            case "parenthesized_expression" | "comma_expression":
                for child in inner[:-1]:
                    self.value(child, _READ)
                self.value(inner[-1], use)
            case "conditional_expression":
                self.value(inner[0], _READ)
                for child in inner[1:]:
                    self.value(child, use)
            case "binary_expression":
                flows = _READ if sign in _TESTS else use if sign in ("+", "-") else _LOST
                for child in inner:
                    self.value(child, flows)
            case "unary_expression":
                self.value(inner[-1], _READ if sign == "!" else _LOST)
            case "update_expression":
                self.value(inner[-1], _TARGET)
                self._flows(self._keys(inner[-1]), use)
            case "initializer_list" | "subscript_argument_list":
                for child in inner:
                    self.value(child, _LOST)
            case _:
                raise Refused(f"{node_text(node)[:40]!r} cannot be seen through")

    def _name(self, name: str, use: _Use) -> None:
        variable = self._variables.get(name) or self.context.variables.get(name)
        if use.how not in ("named", "handed"):
            self.found.moved.add(name)
        if variable is None and use.how in ("target", "stored"):
            raise Refused(f"what {name} leads to is not known")
        if variable is None or (use.how == "target" and variable.own):
            return
        self._flows(variable.keys, use)

    def _member(self, node: Node, use: _Use) -> None:
        base, name = _fields(node, "argument", "field")
        if name.type != "field_identifier":
            raise Refused(f"{node_text(node)[:40]!r} cannot be seen through")
        self.value(base, _NAMED)
        if use.how == "target":
            self.found.members.add(node_text(name))
        self._flows(self.context.types.kinds_of(node_text(name)), use)

    def _subscript(self, node: Node, use: _Use) -> None:
        (base,) = _fields(node, "argument")
        self.value(base, self._through(use))
        for child in node.named_children:
            if child != base and child.type != "comment":
                self.value(child, _LOST)

    def _pointer(self, node: Node, use: _Use) -> None:
        base, operator = _fields(node, "argument", "operator")
        if node_text(operator) == "&":
            self._address(base)
        self.value(base, self._through(use))

    def _through(self, use: _Use) -> _Use:
        """What becomes of a pointer that is followed: where it is not the variable itself that is used."""
        return {"target": _STORED, "named": _READ, "handed": _Use("kept", use.keys)}.get(use.how, use)

    def _address(self, node: Node) -> None:
        """Something else may stand for a place from here on."""
        while node.type == "parenthesized_expression" and len(node.named_children) == 1:
            node = node.named_children[0]
        if node.type == "field_expression" and (name := node.child_by_field_name("field")) is not None:
            self.found.members.add(node_text(name))
        elif node.type == "conditional_expression":
            for child in node.named_children:
                self._address(child)

    def _filled(self, node: Node) -> None:
        """A function of a library may write several members from an address on."""
        within = ("parenthesized_expression", "cast_expression", "pointer_expression", "binary_expression")
        if node.type in within:
            for child in node.named_children:
                self._filled(child)
        elif node.type == "field_expression" and (name := node.child_by_field_name("field")) is not None:
            self.found.structures |= self.context.types.owners(node_text(name))

    def _assignment(self, node: Node, use: _Use) -> None:
        left, right = _fields(node, "left", "right")
        keys = self._keys(left)
        self.value(left, _TARGET)
        self.value(right, _Use("kept", keys))
        self._flows(keys, use)

    def _keys(self, node: Node) -> Keys:
        """What a place is, or points to."""
        while node.type in ("subscript_expression", "pointer_expression", "parenthesized_expression"):
            node = node.child_by_field_name("argument") or node.named_children[0]
        if node.type == "identifier":
            variable = self._variables.get(node_text(node)) or self.context.variables.get(node_text(node))
            return OTHER if variable is None else variable.keys
        if node.type == "field_expression" and (name := node.child_by_field_name("field")) is not None:
            return self.context.types.kinds_of(node_text(name))
        return frozenset({UNKNOWN})

    def _cast(self, node: Node, use: _Use) -> None:
        kind, value = _fields(node, "type", "value")
        self._converted(keys_of(kind, self.context.types), value, use)

    def _converted(self, keys: Keys, value: Node, use: _Use) -> None:
        self.value(value, _Use("kept", keys))
        self._flows(keys, use)

    def _call(self, node: Node, use: _Use) -> None:
        cast = cast_of_call(node)
        if cast is not None:
            return self._converted(self.context.types.lies_behind(cast.type), cast.operand, use)
        called, given = _fields(node, "function", "arguments")
        if given.type != "argument_list":
            raise Refused(f"{node_text(node)[:40]!r} cannot be seen through")
        name, arguments = node_text(called), [c for c in given.named_children if c.type != "comment"]
        plain = called.type == "identifier" or name.startswith("std::")
        if not plain or name in self._variables or name in self.context.variables:
            raise Refused(f"{name} may be any function")
        definition = self.context.functions.get(name)
        if definition is None:
            if not self.context.quiet(name):
                raise Refused(f"{name} may write members")
            for argument in arguments:
                if "&" in node_text(argument):
                    self._filled(argument)
            for argument in arguments:
                self.value(argument, _LOST)
            return None
        self.found.calls.add(name)
        self._handed(parameters(definition), arguments)
        self._flows(keys_of(definition, self.context.types), use)
        return None

    def _handed(self, params: Sequence[Param], arguments: list[Node]) -> None:
        """Arguments, each of which is a copy in the function that is called, or a reference there."""
        for param, argument in zip_longest(params[: len(arguments)], arguments):
            if param is not None and "&" in param.text and "const" not in param.base.split():
                self._address(argument)
            known = param is not None and param.base
            keys = self.context.types.lies_behind(param.base) if known else frozenset({UNKNOWN})
            self.value(argument, _Use("handed", keys))

    def _flows(self, keys: Keys, use: _Use) -> None:
        """What a value that is or leads to a structure is used for."""
        if use.how in ("read", "named") or keys == OTHER:
            return
        if use.how in ("kept", "handed") and keys == use.keys and UNKNOWN not in keys:
            return
        if UNKNOWN in keys:
            raise Refused("a pointer leads to what is not known")
        for key in keys - OTHER:
            self.found.structures |= self.context.types.parts(key)


def _fields(node: Node, *names: str) -> list[Node]:
    """Parts of an expression, all of which have to be there."""
    found = [node.child_by_field_name(name) for name in names]
    if None in found:
        raise Refused(f"{node_text(node)[:40]!r} cannot be seen through")
    return [part for part in found if part is not None]
