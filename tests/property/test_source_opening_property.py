"""Sources with conditionals, macros and helper functions, laid open: compiled and run as given and as opened.

Both programs print the bits of every result; the compiler gets the same values of tunables for both.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from tuner.evaluators.host.toolchain import find_toolchain
from tuner.search.cooking import Attempt
from tuner.search.opening import opened
from tuner.spaces.source.edits import apply_edits
from tuner.spaces.source.regions import read_program
from tuner.spec.load import load_spec

HEAD = """#include <string.h>
#ifndef STEP
#define STEP 1
#endif
#ifndef MODE
#define MODE 0
#endif
#define HALF 0.5f
#define TWICE(e) ((e) + (e))
#define PRAGMA(text) _Pragma(#text)
#if MODE > 1
#define HINT PRAGMA(clang loop unroll_count(MODE))
#else
#define HINT
#endif
#if MODE == 0
#define PICK(a, b) a
#elif MODE == 1 || (0 && defined(NOWHERE))
#define PICK(a, b) (b)
#else
#define PICK(a, b) TWICE(a)
#endif
"""
HELPER = """
static float inner(float a, int i) { return a * HALF + (float)i; }

static %(result)s helper(const float *in, float *restrict out, %(counts)s n, float factor, int i)
{
    float sum = 0.0f;
    HINT
    for (int j = 0; j < n; j++) {
        const float dx = in[j] - in[i];
        sum += PICK(dx, factor) * factor;
    }
    %(change)s
    out[i] += inner(sum, i);
    %(last)s
}
"""
EARLY = """
static %(kind)s pick(%(kind)s v, int low, long high)
{
    if (v < low)
        return low;
    %(between)s
    if (v > high) {
        return high;
    }
    return v;
}
"""
KERNEL = """
void kernel(const float *x, float *y, int n)
{
    float %(local)s = 0.25f;
    int i = %(start)s;
#if STEP > 1
    for (; i + STEP <= n; i += STEP) {
        float part[STEP] = {0.0f};
        for (int b = 0; b < STEP; b++)
            part[b] += x[i + b] * %(local)s;
        for (int b = 0; b < STEP; b++)
            y[i + b] = part[b];
    }
#endif
    for (; i < n; i++) {
        %(call)s
        %(early)s
    }
    const float *at = x + %(start)s;
    for (int k = 0; k < n - 4; k++)
        y[k] += at[k] * PICK(x[k], %(local)s);
}
"""
MAIN = """#include <stdio.h>
#include <string.h>
void kernel(const float *x, float *y, int n);
int main(void)
{
    float x[64], y[64];
    for (int n = -3; n < 40; n += 1 + n / 5 * (n > 0)) {
        for (int i = 0; i < 64; i++) {
            x[i] = (float)(i * 37 % 29) / 7.0f;
            y[i] = (float)i / 3.0f;
        }
        kernel(x, y, n);
        for (int i = 0; i < 64; i++) {
            unsigned bits;
            memcpy(&bits, y + i, 4);
            printf("%x ", bits);
        }
    }
    return 0;
}
"""
SPEC = """
kernel: {source: k.c, entry: kernel}
problem: {n: 40}
arguments:
  - {name: x, dtype: float32, shape: [64]}
  - {name: y, dtype: float32, shape: [64], role: inout}
  - {name: n, dtype: int32, value: n}
space:
  source: {evolve: true}
  parameters: {STEP: [1, 2, 4], MODE: [0, 1, 2, 3]}
"""
CALLS = {
    "void": ["helper(x, y, n, {arg}, i);", "if (x[i] > 1.0f)\n            helper(x, y, n, {arg}, i);"],
    "float": [
        "y[i] = helper(x, y, n, {arg}, i);",
        "y[i] += y[i] * helper(x, y, n - 1, {arg}, i);",
        "const float value = helper(x, y, 3, {arg}, i);\n        y[i] -= value;",
        "helper(x, y, n, {arg}, i);",
    ],
}


EARLY_CALLS = [
    "y[i] += (float)pick(i - 1, 2, n);",
    "if (pick(i, 3, 9) > 5)\n            y[i] -= 1.0f;",
    "for (int q = (int)pick(i, 0, 3); q < (int)pick(n, 1, 5); q++)\n            y[q] += 0.1f * x[i];",
    "y[(int)pick(i, 1, 30)] *= 1.5f;",
    "y[i] = (float)pick((int)x[i], 0, 7) * y[i] + x[i];",
]
"""Calls of a function that returns early, some of them in conditions, casts and heads of loops."""


@st.composite
def sources(draw: st.DrawFn) -> tuple[dict[str, str], dict[str, int]]:
    """A program's files and its tunables' values."""
    result = draw(st.sampled_from(["void", "float"]))
    changes = ["", "factor = factor + 1.0f;", "n += 2;\n    sum += (float)n;"]
    last = "" if result == "void" else draw(st.sampled_from(["return sum;", "return sum * factor + out[i];"]))
    helper = HELPER % {
        "result": result,
        "counts": draw(st.sampled_from(["int", "long", "short"])),
        "change": draw(st.sampled_from(changes)),
        "last": last,
    }
    helper += EARLY % {
        "kind": draw(st.sampled_from(["int", "double", "float", "unsigned"])),
        "between": draw(st.sampled_from(["", "low += 1;", "int sum = low;\n    v += sum;"])),
    }
    local = draw(st.sampled_from(["scale", "sum", "dx", "j", "v"]))
    arg = draw(st.sampled_from([local, "1.5f", "2", f"{local} * x[i]", "(double)n"]))
    call = draw(st.sampled_from(CALLS[result])).format(arg=arg)
    kernel = KERNEL % {
        "local": local,
        "start": draw(st.sampled_from(["0", "2", "(int)x[0]"])),
        "call": call,
        "early": draw(st.sampled_from(["", *EARLY_CALLS])),
    }
    values = {"STEP": draw(st.sampled_from([1, 2, 4])), "MODE": draw(st.integers(0, 3))}
    kept = draw(st.sampled_from(["inside", "guarded", "once", "both"]))
    event(kept)
    return laid_out(kept, helper, kernel), values


def laid_out(kept: str, helper: str, kernel: str) -> dict[str, str]:
    """A program with its macros and functions in headers, kept from being read twice in one way or another."""
    if kept == "inside":
        return {"k.c": HEAD + helper + kernel}
    guards = {
        "guarded": ("#ifndef %s_H // once\n#define %s_H\n", "\n#endif\n"),
        "once": ("#pragma once\n/* %s %s */\n", "\n"),
        "both": ("#pragma once\n#if !defined(%s_H)\n#define %s_H 1\n", "\n#endif /* once */\n"),
    }
    begin, end = guards[kept]

    def header(name: str, text: str) -> str:
        return begin % (name, name) + text + end

    kernel = '#include "k.h"\n#include "head.h"\n' + kernel
    return {"k.c": kernel, "k.h": header("K", '#include "head.h"\n' + helper), "head.h": header("HEAD", HEAD)}


def printed(versions: list[dict[str, str]], values: dict[str, int], folder: Path) -> list[str]:
    """What each program prints."""
    (folder / "main.c").write_text(MAIN)
    tunables = [f"-D{name}={value}" for name, value in values.items()]
    command = [str(find_toolchain().clang), "-O1", "-w", "-march=native", *tunables]
    found = []
    for files in versions:
        for name, text in files.items():
            (folder / name).write_text(text)
        made = [*command, "k.c", "main.c", "-o", "run", "-lm"]
        subprocess.run(made, cwd=folder, check=True, timeout=60)
        done = subprocess.run([str(folder / "run")], cwd=folder, check=True, timeout=60, capture_output=True)
        found.append(done.stdout.decode())
    return found


@pytest.mark.integration
@settings(max_examples=2, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(sources())
def test_an_opened_source_computes_the_same_bits(made: tuple[dict[str, str], dict[str, int]]) -> None:
    """For every size, empty ones included; its edits alone give it again."""
    files, values = made
    with TemporaryDirectory() as folder:
        for name, text in {**files, "k.yaml": SPEC}.items():
            Path(folder, name).write_text(text)
        (spec,) = load_spec(Path(folder, "k.yaml"))
    program = read_program(spec.task.kernel)
    attempt = Attempt(program=program, edits=(), rng=np.random.default_rng(0), reassociate=False)
    found = opened(attempt, values)
    assert found is not None
    for name in [e["op"] for e in found.edits]:
        event(name)
    again = apply_edits(program, found.edits)
    assert again.checked
    assert again.variant.files == found.program.sources()
    assert set(again.constraints) == {f"{n} == {v}" for n, v in values.items()}
    opened_files = {f.name: f.text for f in again.variant.files}
    text = opened_files["k.c"][opened_files["k.c"].index("void kernel(") :]
    assert "#if" not in text
    assert "pick(" not in text
    with TemporaryDirectory() as folder:
        shown = files | {f.name: f.text for f in found.program.sources(presentable=True)}
        expected, *found_bits = printed([files, opened_files, shown], values, Path(folder))
    assert found_bits == [expected, expected]
