"""Loops that count in their tests, or whose counters are used after them: as counting loops they do the same."""

from __future__ import annotations

from pathlib import Path

import needs
import pytest
from same_results import edits_of, program_of, same

from tuner.spaces.source.edits import applied, apply_edit
from tuner.spaces.source.kinds import Refused
from tuner.spaces.source.regions import Program

HEAD = "void f(int n, int m, double *restrict a, const double *restrict b)\n"
USES = "a[3] += {0}; a[{0} & 7] += b[{0} & 7];"
COUNTS = [
    f"{init}{loop}"
    for init in ("int i = n; ", "int i = n - m; ")
    for loop in (
        "while (i-- > 0) {B}",
        "while (i > 0) {B i--;}",
        "while (i >= 0) {B --i; a[1] += 1;}",
        "while (--i > 0) {B}",
        "while (--i >= 0) {B}",
        "for (; i-- > 0; a[0] += 1) {B}",
        "for (; i > 0; i--) {B}",
        "do {B} while (--i > 0);",
        "do {B} while (--i >= 0);",
        "do {B} while (i-- > 0);",
        "do {B i--;} while (i > 0);",
        "while (i < m) {B i++;}",
        "while (i <= m) {B ++i; a[2] += 1;}",
        "do {B i++;} while (i < m);",
        "for (; i < m; i++) {B}",
    )
]
COUNTS += [
    "int i = n; while (i--) {B}",
    "int i = n + 1; while (--i) {B}",
    "int i = n + 1; do {B} while (--i);",
    "unsigned i = n; while (i--) {B}",
    "unsigned i; for (i = n; i-- > 0; ) {B}",
    "unsigned long i = n; m += 2; while (i > 0) {B i--;}",
    "short i = n - 3; while (i-- > 0) {B}",
    "signed char i = n - 3; do {B} while (--i > 0);",
    "unsigned char i = n; while (i--) {B}",
    "int i; for (i = 2; i < n; i++) {B}",
    "int i; for (i = m; i <= n; i++) {B}",
]
COUNTS += ["int i = 5; for (int k = 0; k < i; k++) { i = 3; for (; i-- > 0;) {B} }"]
WALKS = [
    f"{begin}{loop}"
    for begin in ("double *p = a; double *e = a + n; ", "double *p = a - n, *e = a - 1; ")
    for loop in ("while (p < e) {P p++;}", "for (; p < e; p += 3) {P}", "do {P p += 2;} while (p < e);")
]
WALKS += [
    "double *p; for (p = a; p < a + n; p++) {P}",
    "double *p; for (p = a; p != a + n; ++p) {P}",
    "const double *q = b; double *p = a; while (n--) {P *p++ += *q++;}",
    "double *p = a; for (double *q = a; q < a + n; q++) {P q[0] += 1;}",
]


def opened(text: str) -> tuple[Program, Program, list[dict[str, object]]]:
    """A program of one function, and the same with its loops made counting ones."""
    program = made = program_of(text, "f")
    edits: list[dict[str, object]] = []
    tries = [{"op": "while_to_for"}, *({"op": "own_counter", "loop": name} for name in "ip")]
    for one in tries:
        edit = {"function": "f", **one}
        try:
            made = apply_edit(made, edit)
        except Refused:
            continue
        edits.append(edit)
    return program, made, edits


def text_of(loop: str, used: str) -> str:
    body = loop.replace("B", USES.format("i")).replace("P", "p[0] = p[0] * 2 + p[1];")
    return f"{HEAD}{{\n    {body}\n    {used}\n}}\n"


@needs.cc
@pytest.mark.integration
@pytest.mark.parametrize("loop", [*COUNTS, *WALKS])
def test_they_do_the_same(loop: str, tmp_path: Path) -> None:
    """And the counter ends with the value that it had."""
    used = "a[5] += i;" if loop in COUNTS else "a[5] += p - a;"
    program, made, edits = opened(text_of(loop, used))
    assert edits
    assert not edits_of(made).keys().isdisjoint({"strip_mine", "count_by_one"})
    assert not same(program, "f", [applied(made, edits)], tmp_path, trials=300)


@pytest.mark.parametrize(
    "loop",
    [
        "int i = n; while (i-- > 0) { if (b[i] > 1) break; a[i] = 1; }",
        "int i = n; while (i-- > 0) { if (b[i] > 1) return; a[i] = 1; }",
        "int i = n; while (i-- > 0) { a[i] = 1; i -= 1; }",
        "int i = n; int *q = &i; while (i-- > 0) a[i] = *q;",
        "static int i; while (i < n) { a[i] = 1; i++; }",
        "volatile int i = n; while (i-- > 0) a[i] = 1;",
        "short i = n; while (i--) a[i] = 1;",
        "short i = 3; while (i < n) { a[i] = 1; i++; }",
        "short i; for (i = 3; i < n; i++) a[i] = 1;",
        "unsigned i = n; while (--i) a[i] = 1;",
        "unsigned i = n; do a[i] = 1; while (i-- > 0);",
        "unsigned i = 3; while (i < n) { a[i] = 1; i++; }",
        "int i = 0; do { a[i] = 1; i++; m--; } while (i < m);",
        "int i = 3; while (i < m) { a[i] = 1; if (b[i] > 0) i++; i++; }",
        "int i = n; while (i -= 2) a[i] = 1;",
        "int i = 9; while (i > n) { a[i] = 1; i--; }",
        "double i = 9; while (i-- > 0) a[1] += i;",
        "double *p = a, *e = a + n; while (p < e) { *p++ = 1; e--; }",
        "double *p = a, *e = a + n; while (p != e) { *p = 1; p += 2; }",
        "int i = n;\n#pragma unroll\nwhile (i-- > 0) a[i] = 1;",
        "int i = n;\n#pragma unroll\n// as often as that\nwhile (i-- > 0) a[i] = 1;",
        "int i = 0; unsigned u = m; do { a[i] = 1; i++; } while (i < u);",
        "int i = 0; double u = m; do { a[i] = 1; i++; } while (i < u);",
        "int i = 0; do { a[i] = 1; i++; } while (i < n - i);",
        "unsigned u = m; int i = 5; for (; i < u; i++) a[i] = 1;",
        "int i = 5; for (; i < (unsigned)m; i++) a[i] = 1;",
        "int i = 5; for (; i < n * 0.75; i++) a[i] = 1;",
        "int *q = &n, i = 0; for (; i < n; i++) { q[0] -= 1; a[i] = 1; } a[7] = i;",
        "int i; for (i = 0; i < sqrt(n); i++) a[i] = 1;",
        'int n2 = n;\n_Pragma("unroll") while (n2-- > 0) a[n2] = 1;',
        "double *p = a; int *e = (int *)(a + n); while ((void *)p < (void *)e) { *p = 1; p++; }",
        "double *p; int s = 1; for (p = a; p < a + n; p += s) { *p = 1; s = 2; }",
        "int i; for (i = 0; i < n; i++) { a[i] = 1; n = n - 1; }",
    ],
)
def test_other_loops_stay_as_they_are(loop: str) -> None:
    _, _, edits = opened(f"{HEAD}{{\n    {loop}\n    a[5] += 1;\n}}\n")
    assert edits == []


@needs.cc
@pytest.mark.integration
def test_such_loops_in_their_bodies_count_in_their_heads_too(tmp_path: Path) -> None:
    text = (
        f"{HEAD}{{\n    int j;\n    for (int i = n; i-- > 0; ) {{ j = m; while (j--) a[j] += b[i]; }}\n}}\n"
    )
    program, made, edits = opened(text)
    assert len(edits) == 1
    assert edits_of(made)["strip_mine"] == 2
    assert not same(program, "f", [applied(made, edits)], tmp_path, trials=100)


@needs.cc
@pytest.mark.integration
@pytest.mark.parametrize(
    "loop", ["while (n-- > 0) a[n] = b[n];", "do { a[n + 8] = b[n + 8]; } while (--n > 0);"]
)
def test_a_counter_that_is_used_behind_a_region_ends_as_it_did(loop: str, tmp_path: Path) -> None:
    region = f"    // EVOLVE-BLOCK-START\n    {loop}\n    // EVOLVE-BLOCK-END\n"
    program, made, edits = opened(f"{HEAD}{{\n{region}    a[5] += n;\n}}\n")
    assert edits
    assert not same(program, "f", [applied(made, edits)], tmp_path, trials=100)
