"""Edits of sources with OpenMP: what a team of threads shares stays as it was, and what each thread does may change."""

from __future__ import annotations

import pytest

from tuner.core.types import Kernel, Source, Variant
from tuner.search.remix import RemixProposer
from tuner.spaces.source.edits import Refused, apply_edit
from tuner.spaces.source.operators import OPERATORS
from tuner.spaces.source.regions import Program, read_program

LISTED = """void gemm(const float *a, const float *b, float *c, int n)
{
    int j, k;
    float sum;
#pragma omp parallel for private(j, k, sum) schedule(static)
    for (int i = 0; i < n; i++) {
        for (j = 0; j < n; j++) {
            sum = 0.0f;
            for (k = 0; k < n; k++)
                sum += a[i * n + k] * b[k * n + j];
            c[i * n + j] = sum;
        }
    }
}
"""
COLLAPSED = """void gemm(const float *a, const float *b, float *c, int n)
{
#pragma omp parallel for collapse(2) schedule(dynamic, 4)
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            float sum = 0.0f;
            for (int k = 0; k < n; k++)
                sum += a[i * n + k] * b[k * n + j];
            c[i * n + j] = sum;
        }
}
"""
SUMMED = """void gemm(const float *a, const float *b, float *c, int n)
{
    double total = 0;
#pragma omp parallel for reduction(+ : total)
    for (int i = 0; i < n; i++) {
        total += a[i] * b[i];
    }
#pragma omp parallel for
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            c[i * n + j] = total;
}
"""
ORDERED = """void gemm(const float *a, const float *b, float *c, int n)
{
    float sum = 0;
#pragma omp parallel for
    for (int i = 0; i < n; i++) {
#pragma omp atomic
        sum += a[i];
        for (int j = 0; j < n; j++)
            c[i * n + j] = b[j];
    }
    c[0] = sum;
}
"""
REGION = """void gemm(const float *a, const float *b, float *c, int n)
{
#pragma omp parallel
    {
#pragma omp for
        for (int i = 0; i < n; i++)
            for (int j = 0; j < n; j++)
                c[i * n + j] = a[i] * b[j];
    }
}
"""


def kernel_of(text: str, *, openmp: bool) -> Kernel:
    variant = Variant(files=(Source(name="g.c", text=text),))
    return Kernel(name="gemm", entry="gemm", language="c", variant=variant, folder=".", openmp=openmp)


def program(text: str, *, openmp: bool = False) -> Program:
    return read_program(kernel_of(text, openmp=openmp))


def everything(text: str) -> tuple[dict[str, list[str]], list[str]]:
    """What every operator makes of every place that it sees, by its name; and why it does not where it does not."""
    read = program(text)
    ((label, function),) = read.functions.items()
    made: dict[str, list[str]] = {}
    refused: list[str] = []
    for name, operator in OPERATORS.items():
        if "c" not in operator.languages:
            continue
        for site in operator.sites(function, True):
            try:
                changed = apply_edit(read, {"op": name, "function": label, **site})
            except Refused as refusal:
                refused.append(str(refusal))
            else:
                made.setdefault(name, []).append(changed.sources()[0].text)
    return made, refused


def edit(text: str, op: str, **arguments: object) -> str:
    read = program(text)
    (label,) = read.functions
    return apply_edit(read, {"op": op, "function": label, **arguments}).sources()[0].text


def directives(text: str) -> list[tuple[str, str]]:
    """Each directive with the head of the loop below it."""
    lines = [line.strip() for line in text.splitlines()]
    return [
        (line, lines[number + 1].rstrip("{ "))
        for number, line in enumerate(lines)
        if line.startswith("#pragma omp")
    ]


@pytest.mark.parametrize("text", [LISTED, COLLAPSED, SUMMED])
def test_every_edit_leaves_directives_and_the_heads_of_their_loops(text: str) -> None:
    made, _ = everything(text)
    assert made
    for name, texts in made.items():
        for changed in texts:
            if not OPERATORS[name].blocks:
                assert directives(changed) == directives(text)
            # Blocks of a loop's iterations are shared as these were, and so is what they leave over.
            assert dict.fromkeys(d for d, _ in directives(changed)) == dict.fromkeys(
                d for d, _ in directives(text)
            )


JAMMED = """void gemm(const float *restrict a, float *restrict c, int n)
{{
#pragma omp parallel for {}
    for (int i = 0; i < n; i++) {{
        float sum = 0;
        for (int j = 0; j < n; j++)
            sum += a[i] * a[j];
        c[i] = sum;
    }}
}}
"""
JAM = [{"name": "JAM", "values": [4], "default": 4}]


@pytest.mark.parametrize(
    "clauses", ["", "schedule(dynamic, 2) num_threads(3)", "default(shared), firstprivate(n) shared(a)"]
)
def test_threads_share_blocks_of_iterations_as_they_shared_iterations(clauses: str) -> None:
    said = f"#pragma omp parallel for {clauses}".rstrip()
    heads = {
        "unroll_and_jam": [
            "for (int i_block = 0; i_block < n - n % JAM; i_block += JAM)",
            "for (int i = n - n % JAM; i < n; i++)",
        ],
        "strip_mine": ["for (int i_tile = 0; i_tile < n; i_tile += JAM)"],
    }
    for op, expected in heads.items():
        made = edit(JAMMED.format(clauses), op, loops=["i"], parameters=JAM)
        assert directives(made) == [(said, head) for head in expected], made


@pytest.mark.parametrize(
    "clauses", ["default(none) shared(a, c, n)", "ordered", "lastprivate(n)", "collapse(1)", "nowait"]
)
def test_threads_share_no_blocks_where_a_clause_may_count_iterations(clauses: str) -> None:
    for op in ("unroll_and_jam", "strip_mine"):
        with pytest.raises(Refused, match="loop i is shared by threads as it is"):
            edit(JAMMED.format(clauses), op, loops=["i"], parameters=JAM)


def test_loops_with_one_directive_each_stay_apart_when_one_is_taken_in_blocks() -> None:
    twice = JAMMED.format("").replace("}\n}\n", "}\n") + JAMMED.format("").split("{\n", 1)[1]
    made = edit(twice, "unroll_and_jam", loops=["i#2"], parameters=JAM)
    heads = [head for _, head in directives(made)]
    assert [h.split(";")[0] for h in heads] == [
        "for (int i = 0",
        "for (int i_block = 0",
        "for (int i = n - n % JAM",
    ]


def test_loops_inside_a_shared_one_may_change() -> None:
    assert {"strip_mine", "unroll", "vectorize"} <= set(everything(COLLAPSED)[0])
    made, _ = everything(SUMMED)
    assert "reverse" in made
    assert all("reduction(+ : total)" in text for text in made["reverse"])


def test_loops_that_are_dealt_out_together_stay_in_their_order() -> None:
    with pytest.raises(Refused, match="loop i is shared by threads as it is"):
        edit(COLLAPSED, "interchange", loops=["i", "j"])


def test_variables_shared_by_threads_are_refused_by_name() -> None:
    _, refused = everything(SUMMED)
    assert any("a loop that threads share would be there another number of times" in r for r in refused), (
        refused
    )
    assert any("loop i is shared by threads as it is" in r for r in refused)
    _, refused = everything(LISTED.replace("private(j, k, sum)", "private(k, sum) lastprivate(j)"))
    # Its loop over j would count by another variable outside, which the list does not name.
    assert "the directive of loop i says whose j is, which would not be written" in refused
    # What is private has no value behind the loop.
    _, refused = everything(LISTED)
    assert not any("says whose j is" in r for r in refused)


@pytest.mark.parametrize("text", [ORDERED, REGION])
def test_directives_that_order_statements_keep_every_edit_away(text: str) -> None:
    made, refused = everything(text)
    assert not made
    assert any("beside those of loops" in reason for reason in refused)


PLAIN = """void gemm(const float *a, const float *b, float *c, int n)
{
    float sum = 0;
    for (int i = 0; i < n; i++) {
        float row = 0;
        for (int k = 0; k < n; k++)
            row += a[i * n + k] * b[k];
        c[i] = row;
        sum += row;
    }
    for (int i = 0; i < n; i++)
        c[i] -= sum / n;
}
"""


def shared(body: str, *, reassociate: bool = False, schedule: str = "static", openmp: bool = True) -> str:
    text = f"int seen;\nint strange(int);\nvoid gemm(const float *a, const float *b, float *c, int n)\n{{\n{body}\n}}\n"
    return parallel(text, "i", reassociate=reassociate, schedule=schedule, openmp=openmp)


def parallel(
    text: str, loop: str, *, reassociate: bool = False, schedule: str = "static", openmp: bool = True
) -> str:
    read = program(text, openmp=openmp)
    label = "gemm"
    edit = {"op": "parallelise", "function": label, "loop": loop, "schedule": schedule}
    if reassociate:
        edit["reassociate"] = True
    if schedule == "dynamic":
        edit["parameters"] = [{"name": "CHUNK_i", "values": [1, 4], "default": 4}]
    return apply_edit(read, edit).sources()[0].text


def test_independent_iterations_are_shared() -> None:
    assert "#pragma omp parallel for schedule(static)\n" in shared("for (int i = 0; i < n; i++) c[i] = a[i];")
    text = shared("for (int i = 0; i < n; i++) c[i] = a[i];", schedule="dynamic")
    assert "#pragma omp parallel for schedule(dynamic, CHUNK_i)\n" in text
    assert "#define CHUNK_i 4" in text


def test_a_sum_is_a_reduction_where_order_is_free() -> None:
    text = parallel(PLAIN, "i", reassociate=True)
    assert "#pragma omp parallel for schedule(static) reduction(+ : sum)\n" in text
    with pytest.raises(Refused, match="would all write to sum"):
        parallel(PLAIN, "i")
    assert "reduction" not in parallel(PLAIN, "i#2")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("for (int i = 1; i < n; i++) c[i] = c[i - 1];", "c"),
        ("for (int i = 0; i < n; i++) c[0] += a[i];", "c"),
        ("float t; for (int i = 0; i < n; i++) { t = a[i]; c[i] = t; }", "write to t"),
        ("float t = 0; for (int i = 0; i < n; i++) { t += a[i]; c[i] = t; }", "write to t"),
        ("float t = 0; for (int i = 0; i < n; i++) t -= a[i]; c[0] = t;", "write to t"),
        ("int j; for (int i = 0; i < n; i++) for (j = 0; j < n; j++) c[i * n + j] = 0;", "declared outside"),
        ("float w[4]; for (int i = 0; i < n; i++) { w[i % 4] = a[i]; c[i] = w[i % 4]; }", "w"),
        ("for (int i = 0; i < n; i++) { static float t; t = a[i]; c[i] = t; }", "keeps its value"),
        ("for (int i = 0; i < n; i++) { if (a[i] > 9) break; c[i] = 1; }", "loop i holds a `break`"),
        ("for (int i = 0; i < n; i++) { if (a[i] > 9) return; c[i] = 1; }", "loop i holds a `return`"),
        ("for (int i = 0; i < n; i++) { seen = i; c[i] = 1; }", "write to seen"),
        ("for (int i = 0; i < n; i++) c[i] = strange(i);", "effects that are not known"),
        ("for (int i = 0; i < n; i++) c[(int)a[i]] = 1;", "c"),
        ("int w[4] = {0}; for (int i = 0; i < n; i++) w[0] += i; c[0] = w[0];", "w ties"),
        ("int w[4] = {0}; for (int i = 0; i < n; i++) for (int j = 0; j < 4; j++) w[j] |= i; c[0] = w[0];", "w ties"),
        ("float t = 0;\n#pragma omp parallel for reduction(+ : t)\nfor (int i = 0; i < n; i++) t += a[i];\nc[0] = t;",
         "already"),
    ],
)  # fmt: skip
def test_racing_variables_are_not_shared(body: str, words: str) -> None:
    with pytest.raises(Refused, match=words):
        shared(body, reassociate=True)


def test_it_is_for_kernels_with_openmp_alone() -> None:
    with pytest.raises(Refused, match="not built with OpenMP"):
        shared("for (int i = 0; i < n; i++) c[i] = a[i];", openmp=False)
    (plain,) = (f for n, f in program(PLAIN).functions.items() if n == "gemm")
    (built,) = (f for n, f in program(PLAIN, openmp=True).functions.items() if n == "gemm")
    assert not list(OPERATORS["parallelise"].sites(plain, True))
    assert [s["loop"] for s in OPERATORS["parallelise"].sites(built, True)] == ["i", "i", "i#2", "i#2"]


def test_it_is_offered_to_kernels_with_openmp_alone() -> None:
    for openmp in (False, True):
        kernel = kernel_of(PLAIN, openmp=openmp)
        assert ("parallelise" in RemixProposer(kernel, "reassociate").weights) is openmp


def test_a_promise_of_independent_iterations_alone_keeps_no_edit_away() -> None:
    simd = "void gemm(float *a, const float *b, float *c, int n)\n{{\n    {}\n    for (int i = 0; i < n; i++)\n{}\n}}\n"
    promised = simd.format("#pragma omp simd", "        c[i] = b[i];")
    assert "strip_mine" in everything(promised)[0]
    listed = simd.format(
        "float s = 0;\n#pragma omp simd reduction(+ : s)", "        s += b[i];\n    c[0] = s;"
    )
    assert "strip_mine" not in everything(listed)[0]
