"""What opens the way for operators: conditionals decided, macros, calls and pointers replaced; and what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from preprocessed_kernels import preprocessed, preprocessed_or_why
from product_runs import SPEC, seconds
from run_events import events
from spec_files import spec_in

from tuner.core.types import Kernel, Resolved, Source, Status, Variant
from tuner.driver.audit import audit
from tuner.driver.options import Options
from tuner.driver.runs import begin
from tuner.search.cooking import Attempt
from tuner.search.opening import opened
from tuner.spaces.source.edits import EditRefused, apply_edits
from tuner.spaces.source.regions import read_program
from tuner.spaces.source.syntax import For
from tuner.spaces.source.walks import subtrees
from tuner.spec.load import load_spec
from tuner.testing import SimulatedBackend

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def kernel_of(text: str, entry: str = "f") -> Kernel:
    """A C kernel of one file."""
    return Kernel(
        name=entry,
        entry=entry,
        language="c",
        variant=Variant(files=(Source(name="f.c", text=text),)),
        folder=".",
    )


def region(text: str, values: dict[str, int]) -> str:
    """The function ``f`` of a text, as operators see it."""
    kernel = preprocessed(kernel_of(text), {name: [value] for name, value in values.items()})
    return read_program(kernel).with_preprocessed(kernel.preprocessed[0]).region_text(0, 1)


@pytest.mark.parametrize(
    ("condition", "values", "taken"),
    [
        ("A > 1", {"A": 2}, "yes"),
        ("A > 1", {"A": 1}, "no"),
        ("defined(A) && !defined B", {"A": 0}, "yes"),
        ("A == 3 || UNKNOWN", {"A": 3}, "yes"),
        ("A == 3 && UNKNOWN", {"A": 3}, "no"),
        ("(A << 2) % 3 == -(2 - 4) ? A : 0", {"A": 2}, "yes"),
        ("LIMIT(A) >= 0x10u", {"A": 4}, "yes"),
        ("-7 / 2 == -3 && -7 % 2 == -1", {}, "yes"),
        ("-1 > 0u", {}, "yes"),
        ("A - 2 < 0 ? 1 : 0u", {"A": 1}, "yes"),
    ],
)
def test_conditions(condition: str, values: dict[str, int], taken: str) -> None:
    text = (
        f"#define LIMIT(a) ((a) * 4)\nvoid f(void)\n{{\n#if {condition}\nyes();\n#else\nno();\n#endif\n}}\n"
    )
    made = region(text, values)
    other = "no" if taken == "yes" else "yes"
    assert f"{taken}();" in made
    assert f"{other}();" not in made
    assert "#" not in made


def test_macros_of_the_file_are_replaced() -> None:
    """Texts and functions; strings and comments stay."""
    text = """#define SIZE 16
#define ADD(a, b) ((a) + (b))
#define TWICE(a) ADD(a, a)
#define EMPTY
#define TEXT(a) #a
#define MANY(...) g(__VA_ARGS__)
#define RUN _Pragma("clang loop unroll(full)")
void f(void)
{
    EMPTY x = TWICE(y[SIZE]); /* TWICE(y) */
    s = TEXT(a  "b"); t = "TWICE(1)";
    MANY(1, TWICE(2)); HEADER(3);
    ADD;
    RUN for (;;) { }
}
"""
    made = region(text, {})
    assert "x = ((y[16]) + (y[16])); /* TWICE(y) */" in made
    assert r's = "a \"b\""; t = "TWICE(1)";' in made
    assert "g(1, ((2) + (2))); HEADER(3);" in made
    assert "    ADD;" in made
    assert "\n#pragma clang loop unroll(full)\n" in made


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("#if A\nvoid f(void)\n{\n}\n#endif\n", "no definition of 'f' is found"),
        ("void f(void)\n{\n#if A\n}\n", "unterminated conditional"),
        ("#define P(a, b) a\nvoid f(void)\n{\nP(1);\n}\n", "too few arguments"),
        ("#define P(a) a\nvoid f(void)\n{\nP(1;\n}\n", "unterminated function-like macro"),
        ("void f(void)\n{\n#if 1 / (A - A)\n#endif\n}\n", "division by zero"),
    ],
)
def test_sources_that_cannot_be_preprocessed(text: str, reason: str) -> None:
    _, unseen = preprocessed_or_why(kernel_of(text), {"A": [0]})
    assert reason in unseen


def test_guards_of_defaults_do_not_decide() -> None:
    """A tunable is always given."""
    text = "#ifndef A\n#define A 1\n#endif\n#if B > 1 // C\n#elif D\n#endif\nvoid f(void)\n{\n}\n"
    kernel = preprocessed(kernel_of(text), {name: [0, 1] for name in "ABCD"})
    assert {name for found in kernel.preprocessed for name, _ in found.values} == {"B", "D"}


@pytest.mark.integration
@pytest.mark.parametrize(
    ("name", "values", "nests"),
    [
        ("matmul", {"ORDER": 0, "TILE": 0, "UNROLL": 0}, ["i", "j", "k"]),
        (
            "nbody",
            {"BODIES": 4, "INTERLEAVE": 2},
            ["i", "at_2", "at_3", "at_4", "j", "b", "b#2", "i#2", "j#2"],
        ),
    ],
)
def test_the_examples_open(name: str, values: dict[str, int], nests: list[str]) -> None:
    """Every loop of the configured kernel has a key, which is what operators work on."""
    (spec,) = load_spec(EXAMPLES / name / f"{name}.yaml")
    tunables = {p.name: p.values for p in spec.tunables.parameters if p.macro}
    program = read_program(preprocessed(spec.task.kernel, tunables))
    attempt = Attempt(program=program, edits=(), rng=np.random.default_rng(0), reassociate=False)
    found = opened(attempt, values)
    assert found is not None
    made = apply_edits(program, found.edits)
    assert made.constraints == tuple(f"{n} == {v}" for n, v in sorted(values.items()))
    body = made.program.functions[name]
    assert [part.key for part in subtrees(body.body) if isinstance(part, For)] == nests
    assert opened(Attempt(program=made.program, edits=(), rng=attempt.rng, reassociate=False), values) is None


HELPER = "static float g(const float *a, int n) {{ {body} }}\nvoid f(float *x, float *y, int n)\n{{\n    {call}\n}}\n"


@pytest.mark.parametrize(
    ("body", "call", "reason"),
    [
        ("return n ? g(a, n - 1) : 0.0f;", "y[0] = g(x, n);", "calls itself"),
        (
            "for (int i = 0; i < n; i++) return a[i]; return a[0];",
            "y[0] = g(x, n);",
            "returns from within a loop",
        ),
        ("static int count; count += 1; return a[0];", "y[0] = g(x, n);", "keeps values between calls"),
        ("y_count += 1; return a[0];", "y[0] = g(x, n);", "which is not its own"),
        ("int a = n; return (float)a;", "y[0] = g(x, n);", "declares a again"),
        ("return x[0] + a[0];", "y[0] = g(x, n);", "means something else"),
        ("return a[n];", "y[0] = n > 1 ? g(x, n) : 0.0f;", "in any case"),
        ("return a[n];", "y[0] = n > 1 && g(x, n) > 0.0f;", "in any case"),
        ("return a[n];", "for (int i = 0; i < g(x, n); i++) y[i] = 0.0f;", "in any case"),
        ("((float *)a)[0] = 1.0f; a[1] = 2.0f; return a[n];", "y[0] = x[0] + g(x, n);", "among other things"),
        ("return a[n];", "y[0] = g(x);", "with 1 arguments"),
        ("a[n];", "y[0] = g(x, n);", "does not end with its value"),
    ],
)
def test_calls_that_stay(body: str, call: str, reason: str) -> None:
    program = read_program(kernel_of("extern int y_count;\n" + HELPER.format(body=body, call=call)))
    with pytest.raises(EditRefused, match=reason):
        apply_edits(program, [{"op": "inline_call", "function": "f", "call": "g"}])


def test_a_parameter_that_is_an_array_by_its_type_s_name_is_a_pointer() -> None:
    text = (
        "typedef double real;\ntypedef real real3[3];\ntypedef real box[2][3];\n"
        "static void zero(real3 a, const real3 from) { a[0] = from[0]; a[1] = 0; }\n"
        "static void clear(box b) { b[0][0] = 0; }\n"
        "void f(real3 *v, real3 *w, int n)\n{\n"
        "    for (int i = 0; i < n; i++) zero(v[i], w[i + 1]);\n    clear(v);\n}\n"
    )
    program = read_program(kernel_of(text))
    made = apply_edits(program, [{"op": "inline_call", "function": "f", "call": "zero"}])
    lines = [line.strip() for line in made.variant.files[0].text.splitlines()]
    assert "real *a = v[i];" in lines
    assert "const real *from = w[i + 1];" in lines
    with pytest.raises(EditRefused, match="an array by the name of its type"):
        apply_edits(program, [{"op": "inline_call", "function": "f", "call": "clear"}])


def test_an_inlined_value_has_a_statement_of_its_own() -> None:
    """So it is rounded as it was; names that are taken get others, and arguments keep the parameter's type."""
    text = HELPER.format(
        body="float s = a[n] * 2.0f; return s + 3.0f;", call="float s = 1.0f; y[0] += s * g(x, n + 1L);"
    )
    made = apply_edits(read_program(kernel_of(text)), [{"op": "inline_call", "function": "f", "call": "g"}])
    lines = [line.strip() for line in made.variant.files[0].text.splitlines()]
    assert lines[lines.index("float s = 1.0f;") :] == [
        "float s = 1.0f;",
        "const int n_2 = n + 1L;",
        "float s_2 = x[n_2] * 2.0f;",
        "const float g_value = s_2 + 3.0f;",
        "y[0] += s * g_value;",
        "}",
    ]


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ("const float *p = x; p += 1; y[0] = p[0];", "changes"),
        ("const float *p = x + m; y[0] = p[0];", "signed whole number"),
        ("const float *p = x; y[0] = *p + (p == y);", "without a subscript"),
        ("const float *p = x; y[0] = *x++ > 2 || p[0] > 3;", "changes"),
        ("const float *p = x; y[0] = h(p + 1);", "without a subscript"),
        ("const double *p = (const double *)x; y[0] = p[0];", "not known"),
        ("const float *p = x; goto p; y[0] = p[0]; p: ;", "p is used in a `goto`"),
    ],
)
def test_pointers_that_stay(lines: str, reason: str) -> None:
    text = f"float h(const float *);\nvoid f(float *x, float *y, unsigned m)\n{{\n    {lines}\n}}\n"
    with pytest.raises(EditRefused, match=reason):
        apply_edits(
            read_program(kernel_of(text)), [{"op": "forward_pointer", "function": "f", "pointer": "p"}]
        )


REVERSED = {"op": "reverse", "function": "f", "loop": "i"}
PRODUCT = """\
void f(int n, %s sum, const float *a, const float *b)
{
    *sum = 0;
    for (int i = 0; i < n; i++)
        *sum = *sum + a[i] * b[n - i];
}
"""


def test_a_sum_by_its_address_is_open_to_operators() -> None:
    program = read_program(kernel_of(PRODUCT % "float *"))
    with pytest.raises(EditRefused, match="no plain place to write to"):
        apply_edits(program, [REVERSED])
    with pytest.raises(EditRefused, match="sum ties iterations"):
        apply_edits(program, [{"op": "index_first", "function": "f"}, REVERSED])


@pytest.mark.parametrize("language", ["c", "c++"])
def test_what_is_no_pointer_keeps_its_star(language: str) -> None:
    """An iterator's star may be a function of its own."""
    program = read_program(replace(kernel_of(PRODUCT % "iterator"), language=language))
    with pytest.raises(EditRefused, match="no plain pointer"):
        apply_edits(program, [{"op": "index_first", "function": "f"}])


def test_loops_go_on_where_their_limit_may_have_no_sign() -> None:
    """``i <= n - 4`` would be another loop in numbers without sign."""
    text = """#define ONE(a) (a)
void f(float *x, unsigned n)
{
    unsigned i = 0;
    for (; i + 4 <= n; i += 4)
        x[i] = ONE(2.0f);
    for (; i < n; i++)
        x[i] = 1.0f;
}
"""
    made = apply_edits(read_program(preprocessed(kernel_of(text))), [{"op": "configure", "values": {}}])
    assert "for (; i + 4 <= n; i += 4)" in made.variant.files[0].text
    assert "(2.0f)" in made.variant.files[0].text


@pytest.mark.parametrize("values", [None, {"A": "1"}, {"A": True}, {"A B": 1}])
def test_values_are_whole_numbers(values: object) -> None:
    program = read_program(kernel_of("void f(void)\n{\n}\n"))
    with pytest.raises(EditRefused, match="'values' is"):
        apply_edits(program, [{"op": "configure", "values": values}])


HIDDEN = """
#ifndef WIDTH
#define WIDTH 2
#endif
static void row(const float *a, const float *b, float *c, int n, int i)
{
    for (int j = 0; j < n; j++)
        c[i * n + j] = 2.0f * a[i * n + j] * b[j * n + i];
}

void product(const float *a, const float *b, float *c, int n)
{
#if WIDTH > 1
    for (int i = 0; i < n; i++)
        row(a, b, c, n, i);
#else
    for (int i = n - 1; i >= 0; i--)
        row(a, b, c, n, i);
#endif
}
"""


@pytest.mark.integration
def test_a_run_reaches_loops_that_are_hidden(tmp_path: Path) -> None:
    """In a helper under a conditional; the tunable that decided is fixed for the variant, and all of it replays."""
    spec = spec_in(tmp_path, "product.c", HIDDEN, SPEC)

    def cost(variant: Variant, resolved: Resolved) -> float | Status:
        ops = [e["op"] for e in variant.edits]
        fixed = {n: v for e in variant.edits if e["op"] == "configure" for n, v in e["values"].items()}
        assert all(resolved.macros[n] == v for n, v in fixed.items())
        return 0.4 if "interchange" in ops else 1.0

    backend = SimulatedBackend(seconds=seconds, of_variant=cost, process_noise=0.001, call_noise=0.001)
    result = begin(spec, tmp_path / "a.run", Options(seed=1, workers=1, evaluations=40), backend=backend)
    lineage = result.summary.evolution
    assert lineage is not None
    assert {e["op"] for e in lineage.edits} >= {"configure", "inline_call", "interchange"}
    assert result.summary.improved
    assert audit(result.path, backend=backend).differences == []
    made = [b["made"] for k, _, b in events(result.path) if k == "variant" and b.get("made")]
    assert any(m["edits"] and m["edits"][0]["op"] == "configure" for m in made)


INDEXED = """void f(const float *restrict u, float *restrict v, int nx, int ny)
{
    for (int x = 1; x < nx - 1; x++)
        for (int y = 1; y < ny - 1; y++) {
            int i = y * nx + x;
            v[i] = u[i] + 0.5f * (u[i - 1] + u[i + nx]);
        }
}
"""


def test_a_subscript_in_a_variable_hides_no_loop() -> None:
    """Nothing but ``const`` told ``int i = y * nx + x`` from a variable that may be anything."""
    program = read_program(kernel_of(INDEXED))
    swap = {"op": "interchange", "function": "f", "loops": ["x", "y"]}
    with pytest.raises(EditRefused, match="i is not affine"):
        apply_edits(program, [swap])
    attempt = Attempt(program=program, edits=(), rng=np.random.default_rng(0), reassociate=False)
    found = opened(attempt, {})
    assert found is not None
    made = apply_edits(program, [*found.edits, swap])
    assert made.checked
    text = made.variant.files[0].text
    assert "const int i = y * nx + x;" in text
    assert text.index("int y = 1") < text.index("int x = 1")
    assert opened(found, {}) is None


@pytest.mark.parametrize(
    "lines",
    [
        "int i = n / 2; i += 1; x[i] = 0.0f;",
        "int i = n / 2; x[i++] = 0.0f;",
        "int i; i = 1; x[i] = 0.0f;",
        "int i = 0; for (i = 1; i < n; i++) x[i] = 0.0f;",
        "int i = n / 2; int *p = &i; *p = 3; x[i] = 0.0f;",
        "int i = n / 2; int *p = &(i); *p = 3; x[i] = 0.0f;",
        'int i = n / 2; asm("" : "+r"(i)); x[i] = 0.0f;',
        "{ int i = n / 2; x[i] = 0.0f; } { int i = 1; i++; x[i] = 0.0f; }",
        "static int i = 2; x[i] = 0.0f;",
        "volatile int i = 2; x[i] = 0.0f;",
        "unsigned char i = n; x[i] = 0.0f;",
        "int i = g(n); x[i] = 0.0f;",
        "int i = n / 2; x[0] = i;",
    ],
)
def test_variables_that_may_change_stay(lines: str) -> None:
    text = f"int g(int);\nvoid f(float *x, int n)\n{{\n    {lines}\n}}\n"
    with pytest.raises(EditRefused, match="could be a constant"):
        apply_edits(read_program(kernel_of(text)), [{"op": "settle_locals", "function": "f"}])


@pytest.mark.parametrize("lines", ["g(i);", "int &r = i; r = 3;", "auto h = [&] { i = 3; }; h();"])
def test_references_of_cpp_may_change_a_variable(lines: str) -> None:
    text = f"void g(int &);\nvoid f(float *x, int n)\n{{\n    int i = n / 2;\n    {lines}\n    x[i] = 0.0f;\n}}\n"
    kernel = kernel_of(text)
    files = (Source(name="f.cpp", text=text),)
    kernel = replace(kernel, language="c++", variant=Variant(files=files))
    with pytest.raises(EditRefused, match="could be a constant"):
        apply_edits(read_program(kernel), [{"op": "settle_locals", "function": "f"}])
