"""C text of a library that calls another function in the place of one, where that one's calls are known to be right.

A call that the winner was not verified on (its sizes, arrays that share memory, null pointers) goes to the
application's own function. May not compile anything.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from tuner.core.errors import UsageError
from tuner.core.expressions import Expression
from tuner.core.types import Argument, ArgumentRole, Problem
from tuner.recorders.recordings.c_text import bound_sizes, c_condition
from tuner.recorders.recordings.function import Interposed

__all__ = ["Verified", "substituting_library"]

_HINT = "pass the size as an argument, or tune each size by itself"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """What calls a winner was verified on.

    Attributes:
        sizes: each problem that it got right.
        assumed: bounds within which it was verified on sizes made up; empty where it was on ``sizes`` only.
        slower: problems that the application's own function is faster on.
    """

    sizes: tuple[Problem, ...]
    assumed: tuple[Expression, ...] = ()
    slower: tuple[Problem, ...] = ()


def substituting_library(
    function: Interposed, verified: Verified, *, winner: str, libraries: Sequence[str]
) -> str:
    """The text that follows ``common.c``.

    Args:
        function: the application's own.
        verified: the calls that the winner takes.
        winner: file name, in the folder TUNER_RECORD_PLAN, of the library that exports the winner as ``entry``.
        libraries: that the winner may need and the application may not have loaded.

    Raises:
        SpecError: an extent or a bound that cannot be computed from the arguments.
        UsageError: sizes that differ and that no argument tells.
    """
    return function.head() + _TEMPLATE.format(
        winner=json.dumps(winner),
        libraries="".join(f"{json.dumps(name)}, " for name in libraries),
        definition=function.definition,
        guard=" && ".join(_guard(function, verified)) or "1",
        taken=f"return winner({function.passed});",
        left=f"return function({function.passed});",
    )


def _guard(function: Interposed, verified: Verified) -> list[str]:
    arrays = [i for i, a in enumerate(function.arguments) if a.is_array]
    parts = [f"a{i} && ({function.extent(i)}) > 0" for i in arrays]
    parts += [f"({bounds})" for bounds in _bounds(function, verified)]
    for place, i in enumerate(arrays):
        for j in arrays[:place]:
            if _written(function.arguments[i]) or _written(function.arguments[j]):
                parts.append(f"apart(a{i}, {function.extent(i)}, a{j}, {function.extent(j)})")
    return parts


def _written(argument: Argument) -> bool:
    return argument.role is not ArgumentRole.INPUT


def _bounds(function: Interposed, verified: Verified) -> list[str]:
    """Conditions on the sizes; none where no argument carries any."""
    bound = bound_sizes(function.arguments)
    names = function.names
    fixed = [
        {n: v for n, v in p.sizes.items() if n not in bound and n in function.sizes} for p in verified.sizes
    ]
    if any(one != fixed[0] for one in fixed):
        name = next(n for n in fixed[0] if any(one.get(n) != fixed[0][n] for one in fixed))
        raise UsageError(f"no argument of {function.entry} tells the size {name!r}, which differs", _HINT)
    sizes = dict.fromkeys(
        tuple(sorted((n, v) for n, v in p.sizes.items() if n in bound)) for p in verified.sizes
    )
    exact = [" && ".join(f"(long){names[n]} == {v}L" for n, v in one) or "1" for one in sizes]
    left = [
        f"!({' && '.join(f'(long){names[n]} == {v}L' for n, v in p.sizes.items() if n in bound) or '1'})"
        for p in verified.slower
    ]
    if not verified.assumed:
        return [" || ".join(f"({one})" for one in exact), *left]
    assumed = " && ".join(c_condition(e, names, "the assumption") for e in verified.assumed)
    loose = sorted(bound.keys() - {n for e in verified.assumed for n in e.names})
    for name in loose:
        # A size that no bound names was verified at its values only.
        values = sorted({p.sizes[name] for p in verified.sizes if name in p.sizes})
        assumed += " && (" + " || ".join(f"(long){names[name]} == {v}L" for v in values) + ")"
    largest = [
        f"(long){names[n]} <= {max(p.sizes[n] for p in verified.sizes if n in p.sizes)}L"
        for n in sorted(bound.keys() - set(loose))
    ]
    return [" || ".join([f"({' && '.join([assumed, *largest])})", *(f"({one})" for one in exact)]), *left]


_TEMPLATE = """
static Function winner;
static uint64_t *counters; /* replaced, left as they were */

__attribute__((unused)) static int apart(const void *one, long size, const void *other, long length)
{{
    uintptr_t a = (uintptr_t)one, b = (uintptr_t)other;
    return a + (uintptr_t)size <= b || b + (uintptr_t)length <= a;
}}

static void begin_more(const char *mode)
{{
    const char *folder = getenv("TUNER_RECORD_PLAN"), *libraries[] = {{{libraries} NULL}};
    char path[4096];
    if (strcmp(mode, "apply") || !folder) return;
    snprintf(path, sizeof path, "%s/%s", folder, {winner});
    void *loaded = dlopen(path, 0x2);
    for (int i = 0; !loaded && libraries[i]; i++) {{
        dlopen(libraries[i], 0x2 | 0x100);
        loaded = dlopen(path, 0x2);
    }}
    *(void **)&winner = loaded ? real_dlsym(loaded, ENTRY) : NULL;
    if (!winner) say("problem\\t%s\\tthe winner cannot be loaded: %s", ENTRY, dlerror());
    counters = open_counters({winner});
}}

static void count(int which)
{{
    if (counters) __atomic_add_fetch(&counters[which], 1, __ATOMIC_RELAXED);
}}

{definition}
{{
    begin();
    Function function = (Function)original(__builtin_return_address(0));
    if (winner && is_meant((void *)function) && {guard}) {{
        count(0);
        {taken}
    }}
    count(1);
    {left}
}}
"""
