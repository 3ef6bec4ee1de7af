"""Headers with macros, guards, conditionals and functions in any order: a kernel prints as opened what it did before.

Whatever compiles is either opened such that it computes the same, or left alone.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st

from tuner.core.errors import BaselineError
from tuner.evaluators.host.toolchain import find_toolchain
from tuner.search.cooking import Attempt
from tuner.search.opening import opened
from tuner.spaces.source.regions import read_program
from tuner.spec.load import load_spec

MAIN = """#include <stdio.h>
void f(int *x, int *y, int n);
int main(void)
{
    int x[8] = {3, 1, 4, 1, 5, 9, 2, 6}, y[8] = {0};
    for (int n = 0; n < 8; n++) {
        f(x, y, n);
        printf("%d %d\\n", y[0], y[1]);
    }
    return 0;
}
"""
SPEC = """
kernel: {source: f.c, entry: f}
problem: {n: 7}
arguments:
  - {name: x, dtype: int32, shape: [8], init: {randint: [0, 9]}}
  - {name: y, dtype: int32, shape: [8], role: inout, init: {randint: [0, 9]}}
  - {name: n, dtype: int32, value: n}
space: {source: {evolve: true}, flags: {wrap: ["-fwrapv"]}}
"""
NAMES = st.sampled_from(["A", "B", "C"])
VALUES = st.sampled_from(["1", "2", "(A)", "v", "n", "3 -", "(B + 1)", ""])
CALLED = [
    "static int g(int v) { return v * A + 1; }",
    "static int g(int v) { int m = v + B; return m * 2; }",
    "static int g(int v) { if (v > A) return B; return v; }",
    "static inline int g(int v) { return ADD(v, A); }",
]
CALLING = [
    "static int h(int A1) { return A1 + C; }",
    "static int h(int n) { int t = n * B; return g(t) - A; }",
    "static const int t = 7; static int h(int v) { return t - v; }",
]
HEADERS = ("one.h", "two.h", "sub/three.h")


@st.composite
def lines(draw: st.DrawFn, depth: int = 0) -> str:
    """What a header consists of."""
    kind = draw(st.integers(0, 9 if depth < 2 else 6))
    name = draw(NAMES)
    if kind <= 2:
        return (
            f"#define {name} {draw(VALUES)}{draw(st.sampled_from(['', ' // as a number', ' /* or */']))}".rstrip()
            + "\n"
        )
    if kind == 3:
        return f"#undef {name}\n"
    if kind == 4:
        return "#define ADD(a, b) ((a) + (b) * A)\n"
    if kind == 5:
        return draw(st.sampled_from(["int g(int);\n", f"/* {name} g(1) */ // h\n", "static int n;\n"]))
    if kind <= 7:
        return f'#include "{draw(st.sampled_from(HEADERS))}"\n'
    asked = draw(st.sampled_from([f"#ifdef {name}", f"#ifndef {name}", f"#if {name} + 0 > 1", "#if UNKNOWN"]))
    inner = "".join(draw(st.lists(lines(depth + 1), max_size=2)))
    other = "#else\n" + "".join(draw(st.lists(lines(depth + 1), max_size=2))) if draw(st.booleans()) else ""
    return f"{asked}\n{inner}{other}#endif\n"


@st.composite
def projects(draw: st.DrawFn) -> dict[str, str]:
    """A kernel and its headers."""
    files, texts = {}, [draw(st.lists(lines(), max_size=5)) for _ in range(4)]
    at = draw(st.integers(0, 3))
    for functions, place in ((CALLED, at), (CALLING, draw(st.integers(at, 3)))):
        texts[place].insert(draw(st.integers(0, len(texts[place]))), draw(st.sampled_from(functions)) + "\n")
    for number, name in enumerate(HEADERS):
        text = "".join(texts[number])
        guard = draw(st.sampled_from(["none", "once", "macro", "shared"]))
        if guard in ("macro", "shared"):
            own = f"H_{number if guard == 'macro' else ''}"
            text = f"#ifndef {own}\n#define {own}\n{text}#endif\n"
        files[name] = ("#pragma once\n" if guard == "once" else "") + text
    for name in HEADERS[::-1]:
        texts[3].insert(draw(st.integers(0, 1)), f'#include "{name}"\n')
    before = "".join(texts[3])
    values = st.sampled_from(
        ["g(n)", "h(x[n])", "A", "g(A) + h(B)", "ADD(n, g(2))", "(t = 4) + h(n)", "g(h(n))"]
    )
    first, second, third = (draw(values) for _ in range(3))
    local = draw(st.sampled_from(["t", "v", "n2", "t_2"]))
    files["f.c"] = (
        f"#define A 2\n#define B 5\n#define C 1\n#define ADD(a, b) ((a) - (b))\n{before}"
        f"void f(int *x, int *y, int n)\n{{\n    int t = 1, {local}1 = 3;\n    y[0] = {first} + {local}1;\n"
        f"    for (int i = 0; i < n; i++)\n        y[1] += {second} * i;\n"
        f"    if ({third} > 3)\n        y[1] -= t;\n}}\n"
    )
    return files


def printed(files: dict[str, str], folder: Path) -> bytes | None:
    """What a project prints; ``None`` where it does not compile."""
    (folder / "sub").mkdir(exist_ok=True)
    for name, text in {**files, "main.c": MAIN}.items():
        (folder / name).write_text(text)
    clang = [str(find_toolchain().clang), "-O1", "-w", "-fwrapv", "-I.", "f.c", "main.c", "-o", "run"]
    if subprocess.run(clang, cwd=folder, capture_output=True, timeout=60).returncode:
        return None
    return subprocess.run([folder / "run"], check=True, capture_output=True, timeout=60).stdout


@pytest.mark.integration
@settings(
    max_examples=2, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)
@given(projects())
def test_a_project_with_headers_computes_the_same(files: dict[str, str]) -> None:
    with TemporaryDirectory() as folder:
        Path(folder, "sub").mkdir()
        for name, text in {**files, "f.yaml": SPEC}.items():
            Path(folder, name).write_text(text)
        try:
            (spec,) = load_spec(Path(folder, "f.yaml"))
        except BaselineError:
            assume(False)
        event("preprocessed" if spec.task.kernel.preprocessed else str(spec.notices[-1:]))
    program = read_program(spec.task.kernel)
    attempt = Attempt(program=program, edits=(), rng=np.random.default_rng(0), reassociate=False)
    found = opened(attempt, {})
    assume(found is not None)
    assert found is not None
    with TemporaryDirectory() as folder:
        expected = printed(files, Path(folder))
        assume(expected is not None)
        for edit in found.edits:
            event(edit["op"])
        for presentable in (False, True):
            made = {f.name: f.text for f in found.program.sources(presentable=presentable)}
            assert printed(files | made, Path(folder)) == expected
