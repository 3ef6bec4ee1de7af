"""Every operator on several kernels: compiled, run on odd sizes in a sandboxed process, compared with the original."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tuner.core.types import BuildRequest, Problem, Resolved, Status, Task
from tuner.evaluators.host.backend import HostBackend
from tuner.evaluators.host.evaluation import HostEvaluation
from tuner.spaces.source.edits import Applied, EditRefused, apply_edits
from tuner.spaces.source.operators import OPERATORS, Operator
from tuner.spaces.source.regions import Program, read_program
from tuner.spec.load import load_spec

KERNELS = Path(__file__).resolve().parents[2] / "benchmarks" / "kernels"
CONV = """void atax(const float *a, const float *x, float *y, float *tmp, int m, int n)
{
    for (int i = 0; i < m; i++)
        tmp[i] = a[i * n];
    for (int i = 0; i < n; i++) {
        float sum = 0.0f;
        for (int j = 0; j < 5; j++) {
            const int at = i + j - 2;
            if (at >= 0 && at < n)
                sum += x[at] * a[j % m];
        }
        y[i] = sum;
    }
}
"""
IN_PLACE = """void gemm(float alpha, float beta, const float *a, const float *b, float *c, int ni, int nj, int nk)
{
    for (int i = 0; i < ni; i++)
        for (int j = 0; j < nj; j++) {
            float sum = beta * c[i * nj + j];
            for (int k = 0; k < nk; k++)
                sum += alpha * a[i * nk + k] * b[k * nj + j];
            c[i * nj + j] = sum;
        }
}
"""
UPDATE = """void gemm(float alpha, float beta, float *a, float *b, float *c, int ni, int nj, int nk)
{
    (void)beta;
    for (int i = 0; i < ni; i++)
        for (int j = 0; j < nj; j++)
            for (int k = 0; k < nk; k++)
                c[i * nj + j] += alpha * a[i * nk + k] * b[k * nj + j];
}
"""
STORED = """void atax(const float *a, const float *x, float *y, float *tmp, int m, int n)
{
    for (int i = 1; i < m - 1; i++)
        tmp[i] = a[i - 1] - a[i + 1];
    for (int i = 0; i < n; i++) {
        const float half = 0.5f * x[i];
        y[i] = half + a[i];
    }
}
"""
SHARED = """static float weighted(const float *row, const float *x, int n, float sum)
{
    for (int j = 0; j < n; j++)
        sum += row[j] * x[j];
    return sum;
}

void atax(const float *a, const float *x, float *y, float *tmp, int m, int n)
{
    float sum;
    for (int i = 0; i < m; i++) {
        sum = weighted(a + i * n, x, n, 0.0f);
        tmp[i] = sum;
    }
    for (int j = 0; j < n; j++) {
        int at = j;
        y[at] = 0.0f;
    }
    for (int i = 0; i < m; i++) {
        const float *row = a + i * n;
        for (int j = 0; j < n; j++)
            y[j] += row[j] * tmp[i];
    }
}
"""
STRUCTURED = """typedef struct { float value, weight; } pair;

void atax(const float *a, const float *x, float *y, float *tmp, int m, int n)
{
    for (int i = 0; i < m; i++) {
        float sums[2] = {0.0f};
        pair last = {a[i * n], 0.5f};
        for (int j = 0; j < n; j++) {
            sums[j % 2] += a[i * n + j] * x[j];
            last.value += last.weight * x[j];
        }
        tmp[i] = sums[0] + sums[1] + last.value;
    }
    for (int j = 0; j < n; j++)
        y[j] = x[j];
}
"""
REUSED = """void atax(const float *a, const float *x, float *y, float *tmp, int m, int n)
{
    int i, j;
    for (i = 0; i < m; i++) {
        j = 0;
        tmp[i] = a[i * n + j] * x[j];
        for (j = 1; j < n; j++)
            tmp[i] += a[i * n + j] * x[j];
    }
    for (j = 0; j < n; j++)
        y[j] = 0.0f;
    for (i = 0; i < m; i++)
        for (j = 0; j < n; j++)
            y[j] += a[i * n + j] * tmp[i];
}
"""
WALKED = """void atax(const float *a, const float *x, float *y, float *tmp, int m, int n)
{
    const float *row = a, *from;
    float *to;
    for (int i = 0; i < m; i++) {
        float sum = 0.0f;
        from = x;
        for (int j = 0; j < n; j++)
            sum += *row++ * *from++;
        *tmp++ = sum;
    }
    to = y;
    for (int j = 0; j < n; j++)
        *to++ = 0.0f;
    tmp -= m;
    row = a;
    for (int i = 0; i < m; i++, tmp++) {
        to = y;
        for (int j = 0; j < n; j++)
            *to++ += *row++ * tmp[0];
    }
    tmp -= m;
    if (n > 1) {
        from = y + n - 1;
        const float last = *from--;
        y[0] += last * 0.5f + *from--;
    }
}
"""
DOWNWARDS = """void atax(const float *a, const float *x, float *y, float *tmp, int m, int n)
{
    for (int i = m - 1; i >= 0; i--) {
        tmp[i] = 0.0f;
        for (int j = 0; j < n; j += 2) {
            tmp[i] += a[i * n + j] * x[j];
            if (j + 1 < n) tmp[i] += a[i * n + j + 1] * x[j + 1];
        }
    }
    for (int j = n; j > 0; --j)
        y[j - 1] = 0.0f;
    for (int i = 0; i < m; i++)
        for (int j = n - 1; j >= 0; j -= 1)
            y[j] += a[i * n + j] * tmp[i];
}
"""
SIZED = """static int kept[2] = {1, 0};
void atax(const float *a, const float *x, float *y, float *tmp, int m, int n)
{
    for (int i = 0; i < m; i++) {
        tmp[i] = 0.0f;
        for (int j = kept[1]; j <= kept[0] - 1; j++)
            tmp[i] += a[i * n + j] * x[j];
    }
    for (int j = 0; j < n; j++)
        y[j] = tmp[0] * x[j];
}
"""
COUNTED = """void atax(const float *a, const float *x, float *y, float *tmp, int m, int n)
{
    float at = 0.0f;
    for (int i = 0; i < m; i++) {
        at = at + 0.25f;
        tmp[i] = at * a[i * n];
    }
    for (int j = 0; j < n; j++)
        y[j] = x[j] * at;
}
"""
GUARDED = """void gemm(float alpha, float beta, const float *a, const float *b, float *c, int ni, int nj, int nk)
{
    int edge = nk % 3;
    if (edge < 0 || alpha > 1e30f)
        return;
    for (int i = 0; i < ni; i++)
        for (int j = edge; j < nj - edge; j++)
            c[i * nj + j] = beta * c[i * nj + j] + alpha * a[i * nk] * b[j];
}
"""
CHOSEN = """void gemm(float alpha, float beta, const float *a, const float *b, float *c, int ni, int nj, int nk)
{
    for (int i = 0; i < ni; i++)
        switch ((i + nk) % 4) {
        case 0:
        case 3:
            for (int j = 0; j < nj; j++)
                c[i * nj + j] *= beta;
            break;
        default: {
            for (int j = 0; j < nj; j++)
                c[i * nj + j] += alpha * a[i * nk] * b[j];
            break;
        }
        case 2:
            c[i * nj] = alpha;
        }
}
"""
CELLS = """void atax(const float *a, const float *x, float *y, float *tmp, int m, int n)
{
    for (int j = 0; j < n; j++)
        y[j] = x[j];
    for (int i = 0; i < m; i++)
        tmp[i] = 0.25f;
    for (int i = 0; i < m; i++) {
        if (a[i * n] > 0.1f) {
            float part[3];
            float sum = 0.0f;
            for (int k = 0; k < 3; k++)
                sum += a[i * n] * (float)(k + 1);
            part[0] = sum * 0.5f;
            part[1] = -sum;
            part[2] = part[0] * x[0];
            tmp[i] = part[0] + part[1] * part[2];
        }
    }
    for (int i = 0; i < m; i++) {
        const float half = a[i * n] * 0.5f;
        y[0] += half;
    }
}
"""
HIDING = """void atax(const float *a, const float *x, float *y, float *tmp, int m, int n)
{
    int i, j = 0;
    float sum = 0.0f;
    for (i = 0; i < m; i++)
        sum += a[i * n];
    for (int i = 0; i < m; i++) {
        float sum = a[i * n] * 0.5f;
        for (int j = 0; j < n; j++)
            sum += a[i * n + j] * x[j];
        tmp[i] = sum;
    }
    for (j = 0; j < n; j++)
        y[j] = sum * x[j];
}
"""
ROOTS = """#include <math.h>
void atax(const float *a, const float *x, float *y, float *tmp, int m, int n)
{
    for (int j = 0; j < n; j++)
        y[j] = sqrtf(x[j] * x[j] + 1.0f);
    for (int i = 0; i < m; i++)
        tmp[i] = expf(-a[i * n] * a[i * n]);
}
"""
SUBJECTS = {
    "update": ("gemm", UPDATE),
    "gemm": ("gemm", ""),
    "in_place": ("gemm", IN_PLACE),
    "convolution": ("atax", CONV),
    "atax": ("atax", ""),
    "trmm": ("trmm", ""),
    "jacobi": ("jacobi-2d", ""),
    "floyd_warshall": ("floyd-warshall", ""),
    "seidel": ("seidel-2d", ""),
    "lu": ("lu", ""),
}
NAMED = {
    "mvt": ("mvt", ""),
    "shared": ("atax", SHARED),
    "stored": ("atax", STORED),
    "structured": ("atax", STRUCTURED),
    "counted": ("atax", COUNTED),
    "reused": ("atax", REUSED),
    "sized": ("atax", SIZED),
    "walked": ("atax", WALKED),
    "downwards": ("atax", DOWNWARDS),
    "guarded": ("gemm", GUARDED),
    "chosen": ("gemm", CHOSEN),
    "cells": ("atax", CELLS),
    "roots": ("atax", ROOTS),
    "hiding": ("atax", HIDING),
}
PREPARED: Mapping[str, tuple[str, list[dict[str, Any]]]] = {
    # Local arrays and accumulators in memory come from other operators.
    "pack": ("update", [{"op": "tile", "loops": ["i", "j", "k"]}]),
    "pad": ("in_place", [{"op": "tile", "loops": ["i", "j"]}, {"op": "register_block", "loops": ["i", "j"]}]),
    "align": ("in_place", [{"op": "register_block", "loops": ["i", "j"]}]),
    # A function of the same file, a local of each round, a pointer into a row, a subscript in a variable.
    "inline_call": ("shared", []),
    "separate_values": ("reused", []),
    "read_sizes": ("sized", []),
    "forward_pointer": ("shared", []),
    "settle_locals": ("shared", []),
    "join_steps": ("walked", []),
    "index_pointer": ("walked", []),
    "index_first": ("walked", []),
    "count_by_one": ("downwards", []),
    # Members and lists of first values.
    "read_members": ("structured", []),
    # Rows that begin at a parameter, of which a condition says what they need.
    "heed_conditions": ("guarded", []),
    "cases_to_branches": ("chosen", []),
    "from_counter": ("counted", []),
    "fuse": ("mvt", []),
    # Short loops, local arrays, branches with values of their own, columns.
    "write_out": ("cells", []),
    "scalar_elements": ("cells", [{"op": "write_out", "loop": "k"}]),
    "compute_first": ("cells", [{"op": "write_out", "loop": "k"}]),
    "read_first": ("cells", []),
    "split_in_strips": ("cells", []),
    "ignore_errno": ("roots", []),
    "rename_hidden": ("hiding", []),
    "square": ("trmm", [{"op": "strip_mine", "loops": ["i"]}]),
    # Results that nothing reads again.
    "stream_stores": ("stored", []),
    "swap_layout": ("in_place", [{"op": "register_block", "loops": ["i", "j"]}]),
}


def subject(name: str) -> Task:
    """A small task; the kernel's text may stand in for the file's."""
    spec, text = {**SUBJECTS, **NAMED}[name]
    task = load_spec(KERNELS / f"{spec}.yaml")[0].task_with(seed=5)
    problems = tuple(Problem(sizes=p.sizes) for p in task.verify.problems)
    if text:
        files = (replace(task.kernel.variant.files[0], text=text),)
        task = replace(task, kernel=replace(task.kernel, variant=replace(task.kernel.variant, files=files)))
    return replace(task, problems=problems[-1:])


class Bench:
    """A kernel with its baseline set; judges variants."""

    def __init__(self, name: str) -> None:
        self.task = subject(name)
        self.program = read_program(self.task.kernel)
        self.evaluation: HostEvaluation = HostBackend().prepare(self.task, workers=1)
        plain = _resolved({})
        build = self.evaluation.build(
            [BuildRequest(trial=0, variant=self.task.kernel.variant, resolved=plain)]
        )[0]
        report = self.evaluation.set_baseline(build, plain)
        assert report.status is Status.OK, report.message

    def judge(self, made: Applied, values: Mapping[str, int]) -> str:
        """Empty when the variant is right, else what is wrong with it."""
        resolved = _resolved(values)
        build = self.evaluation.build([BuildRequest(trial=1, variant=made.variant, resolved=resolved)])[0]
        if build.status is not Status.OK:
            return f"{build.status}: {build.message}"
        session = self.evaluation.open(build, resolved, purpose="search", number=0)
        try:
            verdict = session.verify()
        finally:
            session.close()
        return "" if verdict.status is Status.OK else f"{verdict.status}: {verdict.message}"


def _resolved(values: Mapping[str, int]) -> Resolved:
    return Resolved(macros=dict(values), scalars={}, flags=(), pipeline=None)


@pytest.fixture(scope="module")
def benches() -> Iterator[dict[str, Bench]]:
    """Made when first asked for, closed together."""
    made: dict[str, Bench] = {}
    yield made
    for bench in made.values():
        bench.evaluation.close()


def bench_of(benches: dict[str, Bench], name: str) -> Bench:
    """One kernel's."""
    if name not in benches:
        benches[name] = Bench(name)
    return benches[name]


def applicable(program: Program, operator: Operator, before: list[dict[str, Any]]) -> list[Applied]:
    """What an operator makes of a program at every place where it applies."""
    found = []
    start = apply_edits(program, before)
    for label, function in start.program.functions.items():
        for site in operator.sites(function, True):
            try:
                edit = {"op": operator.name, "function": label, **site}
                found.append(apply_edits(program, [*before, edit]))
            except EditRefused:
                continue
    return found


def prepare(program: Program, steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Edits from steps that name their loops only."""
    edits: list[dict[str, Any]] = []
    for step in steps:
        functions = apply_edits(program, edits).program.functions
        for label, function in functions.items():
            for site in OPERATORS[step["op"]].sites(function, True):
                if step.items() <= {"op": step["op"], **site}.items():
                    edits.append({"op": step["op"], "function": label, **site})
                    break
    assert len(edits) == len(steps)
    return edits


# Loops that a team shares are run in `test_source_teams`, structures that a kernel takes in `test_source_taking`,
# rows that are found by their addresses in `test_source_row_pointers`.
ELSEWHERE = (
    "inline_by_members",
    "take_members",
    "heed_rows",
    "forward_row",
    "declare_privates",
    "while_to_for",
    "own_counter",
)
CHECKED = [
    name
    for name, operator in OPERATORS.items()
    if operator.checked and "c" in operator.languages and not operator.openmp and name not in ELSEWHERE
]


MOST_CASES = 1
"""Kernels that an operator is run in, at one place of each; more are in ``property/test_source_made_kernels.py``."""


def drawn(program: Program, operator: Operator, rng: np.random.Generator) -> Applied | None:
    """What an operator makes of a program at a place drawn from those where it applies."""
    places = [
        (label, site)
        for label, function in program.functions.items()
        for site in operator.sites(function, True)
    ]
    for place in rng.permutation(len(places)):
        label, site = places[int(place)]
        try:
            return apply_edits(program, [{"op": operator.name, "function": label, **site}])
        except EditRefused:
            continue
    return None


@pytest.mark.parametrize("name", CHECKED)
@pytest.mark.integration
def test_results_stay_the_same(name: str, benches: dict[str, Bench]) -> None:
    """At a place in each of some kernels, at sizes drawn from what the edit offers."""
    rng = np.random.default_rng(sum(name.encode()))
    cases = []
    if name in PREPARED:
        kernel, steps = PREPARED[name]
        bench = bench_of(benches, kernel)
        cases = [
            (bench, m) for m in applicable(bench.program, OPERATORS[name], prepare(bench.program, steps))
        ]
    else:
        for kernel in rng.permutation(list(SUBJECTS)):
            bench = bench_of(benches, str(kernel))
            made = drawn(bench.program, OPERATORS[name], rng)
            cases += [(bench, made)] if made else []
            if len(cases) == MOST_CASES:
                break
    assert cases, "applied nowhere"
    for bench, made in cases:
        values = {p.name: int(p.values[int(rng.integers(len(p.values)))]) for p in made.parameters}
        wrong = bench.judge(made, values)
        assert not wrong, f"{wrong}\n{values}\n{made.variant.files[0].text}"


def test_a_wrong_variant_is_seen(benches: dict[str, Bench]) -> None:
    """The harness above would notice."""
    bench = bench_of(benches, "atax")
    deleted = applicable(bench.program, OPERATORS["delete_statement"], [])
    assert any(bench.judge(made, {}) for made in deleted)
    assert not any(made.checked for made in deleted)
