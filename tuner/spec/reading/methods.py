"""Methods of C++ classes as functions that take the object's address first, under the name ``this``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from tuner.spec.reading.made_nodes import named, read, rebuilt, template_arguments, with_arguments
from tuner.spec.reading.nodes import Node, plain_type, walk

__all__ = ["THIS", "as_function_call", "method_object", "methods_of", "name_parts", "scopes_of", "with_this"]

THIS = "this"
_OBJECT = re.compile(r"\b(?:const|volatile|class|struct)\b|[*&]")


def scopes_of(tree: Node) -> list[str]:
    """As :func:`name_parts`, of a function or a variable."""
    return tree["scopes"] if "scopes" in tree else name_parts(str(tree.get("mangledName", "")))


def name_parts(symbol: str) -> list[str]:
    """A name with the namespaces and classes around it, the outermost first, as far as its symbol says them.

    Source: Itanium C++ ABI, 5.1.3 (nested names).

    >>> name_parts("_ZN2nsL4gridE"), name_parts("_Z5scaled"), name_parts("_ZNSt3mapEv"), name_parts("scale")
    (['ns', 'grid'], ['scale'], [], [])
    """
    parts: list[str] = []
    # Of a method that changes nothing, or is for objects of a kind, letters stand before the names.
    begin = re.match(r"_Z(N[VKRO]*)?", symbol)
    rest = "" if begin is None else symbol[begin.end() :]
    # An ``L`` stands before the name of what other files cannot call.
    while number := re.match(r"L?(\d+)", rest):
        end = number.end() + int(number[1])
        parts.append(rest[number.end() : end])
        rest = rest[end:] if begin is not None and begin[1] else ""
    return parts


def methods_of(trees: Iterable[Node], scope: str) -> Iterator[Node]:
    """The methods of an instance of a class template, which know how the source writes their class.

    Args:
        trees: among which the instance is.
        scope: the class as the source writes it, with its arguments and the namespaces that it is in.
    """
    names, _, given = scope.rpartition(">")[0].partition("<")
    # Those that no line of the source asks for by themselves stand in their template.
    for tree in (each for outer in trees for each in (outer, *outer.get("inner", []))):
        if "".join(template_arguments(tree).split()) == "".join(given.split()):
            for method in (m for m in tree.get("inner", []) if m.get("kind") == "CXXMethodDecl"):
                if name_parts(str(method.get("mangledName")))[: names.count("::") + 1] == names.split("::"):
                    yield {**with_arguments(method), "scopes": [scope, str(method.get("name"))]}


def with_this(tree: Node, scope: str) -> Node:
    """A method's tree with a parameter for its object, which is named where the method names the object or a member.

    Args:
        tree: clang's node of the method; static ones, and functions that are none, stay as they are.
        scope: the class.
    """
    if tree.get("kind") != "CXXMethodDecl" or tree.get("storageClass") == "static":
        return tree
    constant = "const " if str(tree["type"]["qualType"]).endswith(" const") else ""
    # As the first use of the object says.
    uses = (str(n["type"]["qualType"]) for n in walk(tree) if n.get("kind") == "CXXThisExpr")
    kind = next(uses, f"{constant}{scope} *")
    parameter = {"id": THIS, "kind": "ParmVarDecl", "name": THIS, "type": {"qualType": kind}}

    def of_parameter(node: Node) -> Node:
        own = node.get("kind") == "CXXThisExpr"
        return {**node, **read({**named(parameter, node), "type": node["type"]})} if own else node

    made = rebuilt(tree, of_parameter)
    return {**made, "inner": [parameter, *filter(None, made.get("inner", []))]}


def method_object(callee: Node) -> Node:
    """What a method is called on, by what stands before the arguments of the call."""
    while callee.get("kind") == "ParenExpr" and callee.get("inner"):
        callee = callee["inner"][0]
    inner = callee.get("inner") or [{}]
    return inner[0] if callee.get("kind") == "MemberExpr" else {}


def as_function_call(call: Node) -> Node:
    """A call of a method as one of a function that takes the object first, with the class in its name."""
    method, *arguments = call["inner"]
    while method.get("kind") == "ParenExpr":
        method = method["inner"][0]
    scope = _OBJECT.sub(" ", plain_type(method_object(method))).strip()
    name = f"{scope}::{method.get('name', '')}"
    meant = {"id": method.get("referencedMemberDecl", ""), "kind": "CXXMethodDecl", "name": name}
    callee = {"kind": "DeclRefExpr", "type": method.get("type", {}), "referencedDecl": meant}
    return {**call, "kind": "CallExpr", "inner": [callee, method_object(method), *arguments]}
