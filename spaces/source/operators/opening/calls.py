"""Bodies of functions in the place of calls, so that other operators reach their loops.

May not change what a call computes, rounding included: a value comes from a statement of its own, as it did from the
function.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from tuner.spaces.source.directives import unread
from tuner.spaces.source.kinds import Refused, is_pure, lasts
from tuner.spaces.source.lexical import overloads
from tuner.spaces.source.operators.base import Args, Keys, Site, argument, attempt, opener, replace_statement
from tuner.spaces.source.operators.naming import names_known, require_in_scope
from tuner.spaces.source.operators.opening.call_sites import CallSite, first_site, require_order
from tuner.spaces.source.operators.opening.callees import (
    callees,
    callees_by_places,
    local_names,
    require_same_meaning,
)
from tuner.spaces.source.operators.opening.exits import with_one_exit
from tuner.spaces.source.operators.opening.handing import HandingOn, declared_value
from tuner.spaces.source.operators.opening.inlining import Inlining
from tuner.spaces.source.operators.opening.text_places import as_text, is_reference
from tuner.spaces.source.syntax import Call, Decl, ExprStmt, For, Function
from tuner.spaces.source.walks import names_in, statements, subtrees

__all__ = ["OPERATORS", "hidden_calls"]

_SPECIAL = re.compile(
    r"__attribute__|\[\[|template|virtual|weak|auto|decltype|consteval|__global__|__kernel|\bkernel\b"
)


def inline_call(function: Function, args: Args) -> Function:
    """Puts the body of a function of the same file, or of a header that it was configured with, in the place of a call.

    Of its first call that a statement evaluates exactly once: also in a condition, a cast or the head of a loop.

    Takes ``call``, the function's name.
    """
    helpers = callees(function)
    name = _known(function, args, helpers)
    require_same_meaning(function, helpers[name])
    return _inlined(function, first_site(function, name, helpers), helpers)


def inline_by_members(function: Function, args: Args) -> Function:
    """The same of a function that names members, of calls that are made in some cases only, and of references in C++.

    Members stay the text that they are, of the argument's structure in the place of the parameter's.

    Takes ``call``, the function's name.
    """
    helpers = callees_by_places(function)
    name = _known(function, args, helpers)
    if function.language in ("c++", "cuda") and overloads(function.file):
        raise Refused("an operator of the project's own may stand for a member")
    require_same_meaning(function, helpers[name], members=True)
    site = attempt(first_site, function, name, helpers)
    if site is None:
        site = first_site(function, name, helpers, surely=False)
        return _inlined(function, site, helpers, members=True, within=True)
    try:
        return _inlined(function, site, helpers, members=True)
    except Refused:
        # What cannot be said before the statement may fit into it.
        within = attempt(_inlined, function, site, helpers, members=True, within=True)
        if within is None:
            raise
        return within


def _inlined(
    function: Function,
    site: CallSite,
    helpers: Mapping[str, Function],
    *,
    members: bool = False,
    within: bool = False,
) -> Function:
    """One call: ``members`` are places while that is done; ``within`` a statement, as one expression."""
    stmt, call = site.stmt, site.call
    helper = helpers[call.function]
    if len(call.arguments) != len(helper.params):
        raise Refused(f"{helper.name} is called with {len(call.arguments)} arguments")
    _require_nothing_kept(helper)
    body, value = with_one_exit(helper)
    if members:
        body, value = declared_value(body, value, helper)
    require_in_scope(replace(helper, body=body if value is None else (*body, ExprStmt(value))))
    ended = replace(helper, body=body)
    inlining = (
        HandingOn(function, ended, value, helpers)
        if members
        else Inlining(function, ended, names_in((body, value)))
    )
    made = [*inlining.arguments(call.arguments), *inlining.renamed(body)]
    last = inlining.renamed(value)
    written = as_text if members else tuple
    if isinstance(stmt, ExprStmt) and stmt.expr is call and not within:
        if value is not None and not inlining.is_quiet(value):
            raise Refused(f"the value of {helper.name} has effects")
        return replace_statement(function, stmt, written(Keys(function).again(tuple(made))))
    if inlining.changed_for_caller:
        changed_name = min(inlining.changed_for_caller)
        raise Refused(
            f"{helper.name} changes what {changed_name} refers to, and is called among other things"
        )
    require_order(function, site, (helper, body), helpers)
    if within and (made or last is None):
        raise Refused(f"{helper.name} is called in some cases only, and is more than one expression")
    if within and isinstance(inlining, HandingOn):
        values, changed = inlining.put(stmt, call, last)
    else:
        values, changed = inlining.used(stmt, call, last)
    return replace_statement(function, stmt, written((*Keys(function).again((*made, *values)), changed)))


def _known(function: Function, args: Args, helpers: Mapping[str, Function]) -> str:
    """The name of a function that is called, and known to be plain."""
    name: str = argument(args, "call")
    if name not in helpers or name == function.name:
        hidden = unread(function.file)
        why = f" that can be known beside {hidden}" if hidden else " of the sources"
        raise Refused(f"{name} is no other function{why}")
    _require_plain(function, helpers[name], helpers)
    return name


def hidden_calls(function: Function) -> dict[str, str]:
    """Functions of the project that are called in loops, and why the calls stay; each a line.

    Args:
        function: as opened as it can be.
    """
    loops = [s for s in statements(function.body) if isinstance(s, For)]
    called = dict.fromkeys(
        n.function for n in subtrees(tuple(loops)) if isinstance(n, Call) and not is_pure(n)
    )
    found: dict[str, str] = {}
    # A text's pattern will do: what a header defines mostly lies under its guard, which is no outermost level.
    for name in called:
        if re.search(rf"\b{name}\s*\([^;{{}}]*\)\s*\{{", function.source):
            try:
                inline_by_members(function, {"call": name})
            except Refused as refusal:
                found[name] = str(refusal)
    return found


def _inline_sites(function: Function, _: bool) -> Iterator[Site]:
    helpers = callees(function)
    called = dict.fromkeys(n.function for n in subtrees(function.body) if isinstance(n, Call))
    yield from ({"call": name} for name in called if name in helpers and name != function.name)


def _require_plain(function: Function, helper: Function, helpers: Mapping[str, Function]) -> None:
    name = helper.name
    if _SPECIAL.search(helper.head) or "*" in helper.head or "->" in helper.signature:
        raise Refused(f"{name} is declared in a way that is not known")
    if not helper.params and not re.search(r"\(\s*(void)?\s*\)", helper.signature):
        raise Refused(f"the parameters of {name} are not known")
    for param in helper.params:
        flat = param.stars == 0 and re.fullmatch(r"\[[^][]*\]", param.suffix)
        referred = helper.members and is_reference(param, function.language)
        if not (param.plain or flat or referred) or param.stars > 1 or "volatile" in param.text:
            raise Refused(f"the parameter {param.name} of {name} is not plain")
    reached, waiting = set[str](), [name]
    while waiting:
        through = helpers[waiting.pop()]
        # A parameter may be called as a function is.
        own = local_names(through) if helper.members else set[str]()
        found = ((names_known(through) - own) & helpers.keys()) - reached
        reached |= found
        waiting += found
    if not reached.isdisjoint({name, function.name}):
        raise Refused(f"{name} calls itself")


def _require_nothing_kept(helper: Function) -> None:
    for stmt in statements(helper.body):
        if isinstance(stmt, Decl) and lasts(stmt):
            raise Refused(f"{helper.name} keeps values between calls")


OPERATORS = (
    opener(inline_call, _inline_sites, "the body of a function of the same file in the place of its call"),
    opener(
        inline_by_members,
        _inline_sites,
        "likewise of a function that names a member as a variable is named where it is called",
    ),
)
