"""Pointers that walk and loops that go down or in steps: opened to other operators, the same in what they compute."""

from __future__ import annotations

import re
from pathlib import Path

import needs
import numpy as np
import pytest
from same_results import program_of, same

from tuner.search.cooking import Attempt, try_operator
from tuner.search.opening import opened
from tuner.spaces.source.edits import Applied, applied, apply_edits
from tuner.spaces.source.regions import Program

OPEN = {
    "a copy": "for (int i = 0; i < n; i++) *p++ = *q++ * 2; p[-1] += 1;",
    "two at a time": "for (int i = 0; i < n; i++) { *p++ = *q++; p[0] = q[0] - 1; *p++ += *q++; }",
    "locals": "int *s = p; const int *t = q + 1; for (int i = 0; i < n - 1; i++) { *s = *t * 2; s++; t++; }",
    "rows": (
        "for (int i = 0; i < n; i++) { int *s = p + i * n; const int *t = q;"
        " for (int j = 0; j < n; j++) *s++ += *t++; }"
    ),
    "rows, declared above": (
        "int *s; const int *t; int i, j;"
        " for (i = 0; i < n; i++) { s = p + i * n; t = q; for (j = 0; j < n; j++) *s++ += *t++; }"
    ),
    "all of it": "int *s = p; for (int i = 0; i < n; i++) for (int j = 0; j < n; j++) *s++ += q[j];",
    "a column": "for (int j = 0; j < n; j++) { *p = q[j]; p += n; }",
    "downwards": "for (int i = n - 1; i >= 0; i--) p[i] = q[i] + p[i + 1];",
    "downwards, and pointers": "int i; for (i = n; i > 0; i--) *p++ = *q++; p[0] = 3;",
    "by two": "for (int i = 1; i <= n; i += 2) { p[i] = q[i]; p[i + 1] += i; }",
    "downwards by three": "for (int i = n - 1; i >= 2; i -= 3) p[i] = q[n - i];",
    "by two in rows": "for (int i = n - 1; i >= 0; i--) for (int j = i; j < n; j += 2) p[i * n + j] = q[j];",
    "backwards": "int *s = p + n; for (int i = 0; i < n; i++) *--s = q[i]; s[0]++;",
    "from one": "for (int i = 1; i < n; i++) { p[i] = q[0] + q[1]; q += 2; } p[0] = *q;",
    "without a loop": (
        "for (int i = 1; i < n - 1; i++)"
        " { const int *t = q + i - 1; int s = *t++; s += *t++; s += *t; p[i] = s; }"
    ),
    "in a declaration": "for (int i = 0; i < n; i++) { int s = *q++, t = *q++; *p++ = s - t; }",
    "in the head": "for (int i = 0; i < n; i++, p++, q += 3) *p = q[1];",
    "beside a branch": "for (int i = 0; i < n; i++) { if (q[0] > 3) p[0] = q[1]; else p[1] = 2; p++; q += 2; }",
    "counts on": "int i; for (i = n; i > 1; i--) p[i] = q[i]; p[0] = i;",
}
CLOSED = {
    "in a branch": "for (int i = 0; i < n; i++) if (q[i] > 3) *p++ = q[i];",
    "compared": "const int *end = q + n; for (int i = 0; i < n; i++) { if (q == end) p[0] = 1; p[i] = *q++; }",
    "by what changes": "int k = 1; for (int i = 0; i < n; i++) { *p = i; p += k; k = k % 3 + 1; }",
    "perhaps not": "for (int i = 0; i < n; i++) p[i] = q[0] > 2 && *q++ > 5;",
    "one of two": "for (int i = 0; i < n; i++) p[i] = i % 2 ? *q++ : 3;",
    "by what is no number": "for (int i = 0; i < n; i += 1 + n / 3) p[i] = q[i];",
    "a shorter loop": (
        "int m = n; for (int i = 0; i < m; i++) {"
        " m -= 4; for (int j = 0; j < m; j++) { *p += 1; p++; } p[0] += q[i]; }"
    ),
    "handed on": "for (int i = 0; i < n; i++) { p[i] = g(q); q++; }",
}
STRIP = {"op": "strip_mine", "parameters": [{"name": "T", "values": [4], "default": 4}]}


def function(body: str) -> str:
    return f"int g(const int *);\nvoid f(int n, int *p, const int *q)\n{{\n    {body}\n}}\n"


def attempt(program: Program, seed: int) -> Attempt:
    start = Attempt(program=program, edits=(), rng=np.random.default_rng(seed), reassociate=False)
    return opened(start, {}) or start


def variants(program: Program, seed: int) -> list[Applied]:
    """As opened, and with further edits."""
    made = attempt(program, seed)
    for name in ("strip_mine", "unroll_copies", "interchange", "scalar_replace", "strip_mine"):
        made = try_operator(made, name) or made
    opened_only = attempt(program, 0)
    return [applied(each.program, each.edits) for each in (opened_only, made)]


@needs.cc
@pytest.mark.parametrize("name", OPEN)
def test_they_become_subscripts_and_compute_the_same(name: str, tmp_path: Path) -> None:
    program = program_of(function(OPEN[name]), "f")
    made = attempt(program, 0)
    text = made.program.sources()[0].text
    assert not re.search(r"\b[pqst](?:\+\+|--| [-+]= \d)|[ij](?:--| [-+]=)", text)
    assert not same(program, "f", variants(program, list(OPEN).index(name)), tmp_path, trials=20)


@needs.cc
@pytest.mark.parametrize("name", [n for n in CLOSED if n != "handed on"])
def test_pointers_without_an_even_stride_stay_and_compute_the_same(name: str, tmp_path: Path) -> None:
    program = program_of(function(CLOSED[name]), "f")
    made = attempt(program, 0).edits
    assert not [e for e in made if e["op"] in ("index_pointer", "count_by_one") and e.get("pointer") != "p"]
    assert not same(program, "f", variants(program, list(CLOSED).index(name)), tmp_path, trials=20)


def test_a_pointer_that_is_handed_on_is_where_it_was() -> None:
    made = attempt(program_of(function(CLOSED["handed on"]), "f"), 0)
    assert "g(q)" in made.program.sources()[0].text
    assert not made.edits


LOOP = "for (int i = 0; i < n; i++) *p++ = *q++;"
KEPT = {
    "a region that is come to again": (
        "void f(int n, int *p, const int *q)\n{\n    for (int k = 0; k < n; k++) {\n        // EVOLVE-BLOCK-START\n"
        f"        {LOOP}\n        // EVOLVE-BLOCK-END\n        q -= n;\n    }}\n}}\n"
    ),
    "what is returned": f"int *f(int n, int *p, const int *q)\n{{\n    {LOOP}\n    return p;\n}}\n",
    "what is asked for behind a region": (
        "void f(int n, int *p, const int *q)\n{\n    // EVOLVE-BLOCK-START\n"
        f"    {LOOP}\n    // EVOLVE-BLOCK-END\n    *p = 3;\n}}\n"
    ),
}


@pytest.mark.parametrize("name", KEPT)
def test_a_pointer_is_where_it_was_for(name: str) -> None:
    text = attempt(program_of(KEPT[name], "f"), 0).program.sources()[0].text
    assert "p[i] = q[i];" in text
    assert "p += n;" in text
    assert ("q +=" not in text) == (name == "what is returned")


STAYS = {
    "until the next call": f"static int *p = 0; if (!p) p = a; {LOOP}",
    "where something jumps back": f"int *p = a; again: {LOOP} if (n-- > 3) goto again;",
    "where it is another one in a block": f"int *p = a; {{ extern int *p; {LOOP} }}",
}


@pytest.mark.parametrize("name", STAYS)
def test_a_pointer_that_lasts_is_left_alone(name: str) -> None:
    text = f"void f(int n, int *a, const int *q)\n{{\n    {STAYS[name]}\n}}\n"
    edits = attempt(program_of(text, "f"), 0).edits
    assert not [edit for edit in edits if edit.get("pointer") == "p"]


def test_an_iterator_of_cpp_goes_on_as_it_is_written() -> None:
    text = (
        "namespace std { template <class C> struct inserter { inserter &operator*(); inserter operator++(int); }; }\n"
        "void f(int n, std::inserter<int> to, const int *q, int *x)\n{\n"
        "    for (int i = 0; i < n; i++) *to++ = *q++;\n    for (int k = 0; k < n; k++) x[k] = k;\n}\n"
    )
    made = apply_edits(program_of(text, "f", "c++"), [{**STRIP, "function": "f", "loops": ["k"]}])
    text = made.variant.files[0].text
    assert "to++" in text
    assert "+= 1" not in text


def test_statements_that_no_edit_touches_keep_their_increments() -> None:
    text = "typedef int count;\n" + function(
        """for (int i = 0; i < n; i++) {
        *p++ = *q++; // as it was
        if (n > 3) n--, *p = *q++;
    }
    for (int j = 0; j < n; j++) *p++ = j;
    for (count k = 0; k < n; k++) p[k] = k;"""
    )
    made = apply_edits(program_of(text, "f"), [{**STRIP, "function": "f", "loops": ["k"]}])
    shown = made.program.sources(presentable=True)[0].text
    assert "        *p++ = *q++; // as it was\n        if (n > 3) n--, *p = *q++;\n    }\n" in shown
    assert "    for (int j = 0; j < n; j++) *p++ = j;\n    for (int k_tile" in shown
