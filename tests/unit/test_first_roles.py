"""Roles in first specs: an array that is written before it is read is an output, one that is only read an input."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tuner.spec.first.init import first_spec

HEAD = """#include <string.h>
struct pair {{ float x, y; }};
void k(int n, const double *a, {what}) {{ int i, j; {body} }}
"""


def role(tmp_path: Path, body: str, what: str = "double *c", suffix: str = "c") -> str:
    source = tmp_path / f"k.{suffix}"
    source.write_text(HEAD.format(what=what, body=body))
    arguments = yaml.safe_load(first_spec(source, entry="k").text)["arguments"]
    return str(arguments[-1].get("role", "input"))


@pytest.mark.parametrize(
    "body",
    [
        "for (i = 0; i < n; i++) { c[i] = 0; for (j = 0; j < n; j++) c[i] += a[i * n + j]; }",
        "for (i = 0; i < n; i++) for (j = 0; j < n; j++) c[i * n + j] = 0;"
        "for (i = 0; i < n; i++) for (j = 0; j < n; j++) c[j * n + i] += a[j];",
        "memset(c, 0, n * sizeof *c); for (i = 0; i < n; i++) c[n - 1 - i] += a[i];",
        "memcpy(c, a, sizeof(double) * n); for (i = 0; i < n; i++) c[i] *= 2;",
        "for (i = 0; i < n; i += 1) { c[i] = 1; } for (i = 0; i < n; i++) if (a[i] > 0) c[i] *= a[i];",
        "for (i = 0; i < n; i++) { *c = 0; for (j = 0; j < n; j++) *c += a[j]; }",
    ],
    ids=[
        "in one iteration",
        "by loops before",
        "by memset",
        "by memcpy",
        "read under a condition",
        "one number",
    ],
)
def test_what_is_written_first_is_an_output(tmp_path: Path, body: str) -> None:
    assert role(tmp_path, body) == "output"


@pytest.mark.parametrize(
    "body",
    [
        "for (i = 0; i < n; i++) { if (a[i] > 0) c[i] = 0; c[i] += a[i]; }",
        "for (i = 0; i < n; i += 2) c[i] = 0; for (i = 0; i < n; i++) c[i] += a[i];",
        "for (i = 0; i < n - 1; i++) c[i] = 0; for (i = 0; i < n; i++) c[i] += a[i];",
        "for (i = 0; i < n; i++) { if (a[i] < 0) break; c[i] = 0; } for (i = 0; i < n; i++) c[i] += a[i];",
        "for (i = 0; i < n; i++) { c[i] = 0; i += 1; } for (i = 0; i < n; i++) c[i] += a[i];",
        "for (i = 0; i < n; i++) c[i] = c[n - 1 - i] + a[i];",
        "for (i = 1; i < n; i++) { c[i] = 0; c[i] += c[i - 1] * a[i]; }",
        "for (i = 0; i < n; i++) { c[i] = 0; for (j = 0; j < n; j++) { c[i] += a[j]; i++; } }",
        "for (i = 0; i < n && a[i] > 0; i++) c[i] = 0; for (i = 0; i < n; i++) c[i] += a[i];",
        "for (i = 0; i < n; i++) for (j = 0; j < n; j++) { c[i * n + j] = 0; c[j * n + i] += a[j]; }",
        "i = 0; goto in; again: c[0] = 0; in: c[0] += a[i++]; if (i < n) goto again;",
        "switch (n) { case 1: c[0] = 0; default: c[0] += a[0]; }",
        "n > 3 && (c[0] = 1) > 0; c[0] += a[0];",
        "memcpy(c, a, n); for (i = 0; i < n; i++) c[i] *= 2;",
        "memset(c, 0, n * sizeof(float)); for (i = 0; i < n; i++) c[i] += a[i];",
    ],
)
def test_what_may_be_read_first_is_both(tmp_path: Path, body: str) -> None:
    assert role(tmp_path, body) == "inout"


def test_a_member_that_is_written_says_nothing_of_the_others(tmp_path: Path) -> None:
    body = "for (i = 0; i < n; i++) { c[i].x = 0; c[i].y += a[i]; }"
    assert role(tmp_path, body, "struct pair *c") == "inout"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("double s = 0; for (double x : c) s += x * a[0]; j = s;", "input"),
        ("for (double &x : c) x *= a[0];", "inout"),
        ("for (double &x : c) x = a[0];", "output"),
        ("for (auto &x : c) { x = 0; x += a[0]; }", "inout"),
    ],
)
def test_loops_over_arrays_read_or_write_their_elements(tmp_path: Path, body: str, expected: str) -> None:
    assert role(tmp_path, body, "double (&c)[50]", "cpp") == expected
