"""C text of a library that calls others in the place of one function, where those are known to be right.

A call that no winner was verified on (its sizes, arrays that share memory, null pointers) goes to the application's own
function; of several winners the one that was timed at the nearest sizes gets it. May not compile anything.
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
from tuner.recorders.recordings.points import SIGNED, Point, rows, telling

__all__ = ["Standing", "Verified", "points_of", "substituting_library"]

_HINT = "pass the size as an argument, or tune each size by itself"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """What calls a winner was verified on.

    Attributes:
        sizes: each problem that it got right.
        assumed: bounds within which it was verified on sizes made up; empty where it was on ``sizes`` only.
        slower: problems that the application's own function is faster on.
        threads: how many OpenMP threads it was timed with; 0 where it uses none.
    """

    sizes: tuple[Problem, ...]
    assumed: tuple[Expression, ...] = ()
    slower: tuple[Problem, ...] = ()
    threads: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A winner and the function that it stands for.

    Attributes:
        function: the application's own, as the winner's run describes it.
        verified: the calls that the winner takes.
        points: the sizes that it was timed at; see :func:`points_of`.
        file: name, in the folder TUNER_RECORD_PLAN, of the library that exports the winner; also of its counters.
        exported: the winner's name there.
        libraries: that the winner may need and the application may not have loaded.
    """

    function: Interposed
    verified: Verified
    points: Sequence[Point]
    file: str
    exported: str
    libraries: Sequence[str] = ()


def points_of(
    arguments: Sequence[Argument], timed: Sequence[Problem], slower: Sequence[Problem]
) -> tuple[Point, ...]:
    """The problems of a run by the arguments that carry their sizes.

    Args:
        arguments: in call order.
        timed: the run's problems.
        slower: those that the application's own function is faster on.
    """
    bound = bound_sizes(arguments)
    return tuple(
        Point(
            sizes={(SIGNED, number): one.sizes[name] for name, number in bound.items() if name in one.sizes},
            taken=one not in slower,
        )
        for one in (*timed, *(other for other in slower if other not in timed))
    )


def substituting_library(standing: Sequence[Standing]) -> str:
    """The text that follows ``common.c``, for winners that stand for one function.

    Raises:
        SpecError: an extent or a bound that cannot be computed from the arguments.
        UsageError: sizes that differ and that no argument tells, or specs that describe the function differently.
    """
    function = standing[0].function
    for one in standing:
        if _called(one.function) != _called(function):
            raise UsageError(
                f"the specs of two runs give {function.entry} different arguments or another returned value",
                "name runs whose specs agree",
            )
    keys = telling([point for one in standing for point in one.points])
    known = [(winner, row) for winner, one in enumerate(standing) for row in rows(one.points, keys)]
    # Among equally near points those come first at which a winner was faster.
    known.sort(key=lambda pair: -pair[1][0])
    return function.head() + _TEMPLATE.format(
        winners=len(standing),
        files=", ".join(json.dumps(one.file) for one in standing),
        exported=", ".join(json.dumps(one.exported) for one in standing),
        libraries="".join(
            f"{json.dumps(n)}, " for n in dict.fromkeys(n for one in standing for n in one.libraries)
        ),
        keys=len(keys),
        points=len(known),
        known=", ".join(
            f"{{{winner}, {row[0]}, {{{', '.join(map(str, row[1:])) or '0'}}}}}" for winner, row in known
        ),
        here=", ".join(f"(double){function.number(number)}" for _, number in keys) or "0",
        definition=function.definition,
        declared=function.declared,
        whole=function.whole,
        able=", ".join(
            f"whole && winners[{i}] && {' && '.join(_guard(one.function, one.verified)) or '1'}"
            for i, one in enumerate(standing)
        ),
        passed=function.passed_on,
    )


def _called(function: Interposed) -> tuple[object, ...]:
    """What has to be the same for functions that share a library."""
    return function.parameters, function.declared, function.whole, function.result


def _guard(function: Interposed, verified: Verified) -> list[str]:
    arrays = [i for i, a in enumerate(function.arguments) if a.is_array]
    parts = [f"a{i} && {function.is_size(i)}" for i in arrays]
    parts += [f"({bounds})" for bounds in _bounds(function, verified)]
    parts += [f"is_team({verified.threads})"] if verified.threads else []
    for place, i in enumerate(arrays):
        for j in arrays[:place]:
            if _written(function.arguments[i]) or _written(function.arguments[j]):
                parts.append(f"apart(a{i}, {function.extent(i)}, a{j}, {function.extent(j)})")
    parts += [
        f"apart(a{i}, {function.extent(i)}, {address}, {size})"
        for i in arrays
        if _written(function.arguments[i])
        for address, size in function.views.beside(function.names)
    ]
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
    assumed = " && ".join(c_condition(e, names) for e in verified.assumed)
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
enum {{ WINNERS = {winners}, KEYS = {keys}, POINTS = {points} }};

static const char *const winner_files[] = {{{files}}}, *const winner_names[] = {{{exported}}};
static Function winners[WINNERS];
static uint64_t *counters[WINNERS]; /* replaced, left as they were */

/* What was timed: with which winner, whether that was faster than the function as given, and at which sizes. */
static const struct {{ int winner, taken; double sizes[KEYS + 1]; }} points[] = {{{known}}};

__attribute__((unused)) static int apart(const void *one, long size, const void *other, long length)
{{
    uintptr_t a = (uintptr_t)one, b = (uintptr_t)other;
    return a + (uintptr_t)size <= b || b + (uintptr_t)length <= a;
}}

/* OpenMP's own functions, of the library that application and winner share. */
static int (*omp_threads)(void), (*omp_within)(void);

/* Whether a parallel region that begins here gets as many threads as the winner was timed with. */
__attribute__((unused)) static int is_team(int threads)
{{
    static int said;
    if (!omp_threads || !omp_within || omp_within()) return 0;
    int found = omp_threads();
    if (found != threads && !__atomic_exchange_n(&said, 1, __ATOMIC_RELAXED))
        say("problem\t%s\tit is called with %d OpenMP threads and was tuned with %d", ENTRY, found, threads);
    return found == threads;
}}

static void begin_more(const char *mode)
{{
    const char *folder = getenv("TUNER_RECORD_PLAN"), *libraries[] = {{{libraries}NULL}};
    char path[4096];
    if (strcmp(mode, "apply") || !folder) return;
    *(void **)&omp_threads = real_dlsym(NULL, "omp_get_max_threads");
    *(void **)&omp_within = real_dlsym(NULL, "omp_in_parallel");
    for (int w = 0; w < WINNERS; w++) {{
        snprintf(path, sizeof path, "%s/%s", folder, winner_files[w]);
        void *loaded = dlopen(path, 0x2);
        for (int i = 0; !loaded && libraries[i]; i++) {{
            dlopen(libraries[i], 0x2 | 0x100);
            loaded = dlopen(path, 0x2);
        }}
        *(void **)&winners[w] = loaded ? real_dlsym(loaded, winner_names[w]) : NULL;
        if (!winners[w]) say("problem\\t%s\\tthe winner cannot be loaded: %s", ENTRY, dlerror());
        counters[w] = open_counters(winner_files[w]);
    }}
}}

static void count(int winner, int left)
{{
    if (counters[winner]) __atomic_add_fetch(&counters[winner][left], 1, __ATOMIC_RELAXED);
}}

/* The nearest point whose winner is able to take the call, or at which none is faster; -1 where there is none. */
static int nearest(const double *here, const int *able)
{{
    int found = -1;
    Distance best = {{2 * FAR, 0}};
    for (int i = 0; i < POINTS; i++)
        if (!able || !points[i].taken || able[points[i].winner])
            if (nearer(&best, here, points[i].sizes, KEYS)) found = i;
    return found;
}}

{definition}
{{
    begin();
    Function function = (Function)original(__builtin_return_address(0));
{declared}
    const int whole = {whole};
    const double here[] = {{{here}}};
    const int able[] = {{{able}}};
    int point = is_meant((void *)function) ? nearest(here, able) : -1;
    if (point >= 0 && points[point].taken) {{
        count(points[point].winner, 0);
        return winners[points[point].winner]({passed});
    }}
    count(points[point >= 0 ? point : nearest(here, NULL)].winner, 1);
    return function({passed});
}}
"""
