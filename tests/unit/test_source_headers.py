"""Functions and macros of a project's own headers: taken where what they mean is known, else refused."""

from __future__ import annotations

import pytest
from preprocessed_kernels import CONFIGURED, preprocessed, preprocessed_or_why

from tuner.core.types import Kernel, Source, Variant
from tuner.spaces.source.edits import Applied, EditRefused, apply_edits
from tuner.spaces.source.regions import read_program

CALL = {"op": "inline_call", "function": "f", "call": "g"}


def kernel_of(text: str, headers: dict[str, str], *, language: str = "c") -> Kernel:
    """A kernel of one file; headers without a folder lie beside it."""
    beside = [Source(name=n, text=t) for n, t in headers.items() if "/" not in n]
    suffix = {"c++": "cpp", "opencl": "cl", "cuda": "cu"}.get(language, "c")
    return Kernel(
        name="f",
        entry="f",
        language=language,
        variant=Variant(files=(Source(name=f"f.{suffix}", text=text), *beside)),
        headers=tuple(Source(name=n, text=t) for n, t in headers.items() if "/" in n),
        include=("include",),
        folder=".",
    )


def inlined(text: str, headers: dict[str, str], *, language: str = "c") -> Applied:
    kernel = preprocessed(kernel_of(text, headers, language=language))
    return apply_edits(read_program(kernel), [CONFIGURED, CALL])


def body(made: Applied) -> list[str]:
    """The statements of ``f``."""
    lines = [line.strip() for line in made.variant.files[0].text.splitlines()]
    return lines[lines.index("{", next(n for n, s in enumerate(lines) if "void f(" in s)) + 1 : -1]


G = "static inline float g(const float *p, int i) { return p[i] * 2.0f; }\n"
F = "void f(const float *x, float *y, int n)\n{\n    y[0] = g(x, n);\n}\n"
INLINED = ["const float g_value = x[n] * 2.0f;", "y[0] = g_value;"]


@pytest.mark.parametrize(
    "headers",
    [
        {"g.h": G},
        {"g.h": f"#pragma once\n{G}"},
        {"g.h": f"// Guarded\n#ifndef G_H\n#define G_H\n{G}#endif // G_H\n"},
        {"g.h": f"#if !defined(G_H)\n#define G_H 1\n{G}#endif\n"},
        {"g.h": '#include "inner.h"\n', "inner.h": f"#include <math.h>\n{G}"},
        {"g.h": '#pragma once\n#include "inner.h"\n', "inner.h": f'#pragma once\n#include "g.h"\n{G}'},
        {"include/g.h": G},
        {"g.h": f'#ifdef __cplusplus\nextern "C" {{\n#endif\n{G}#ifdef __cplusplus\n}}\n#endif\n'},
        {
            "g.h": f"#define INLINE static inline\n#define REAL float\nINLINE {G[14:].replace('float', 'REAL')}"
        },
        {"g.h": f"#ifndef SIZE\n#define SIZE 16\n#endif\n#if UNKNOWN\n#define OTHER 1\n#endif\n{G}"},
        {
            "g.h": f"#define ELEMENT(p, i) p[i] // an element /* of p\n{G.replace('p[i]', 'ELEMENT(p, i)')}/* end */\n"
        },
    ],
)
def test_a_function_of_a_header_goes_in_the_place_of_its_call(headers: dict[str, str]) -> None:
    made = inlined('#include <math.h>\n#include "g.h"\n' + F, headers)
    assert body(made) == INLINED
    assert made.checked
    assert made.variant.files[0].text.startswith('#include <math.h>\n#include "g.h"\n')


@pytest.mark.parametrize(
    ("before", "headers", "number"),
    [
        ("#include <g.h>", {"include/g.h": G}, "2.0f"),
        ('#define HEADER "g.h"\n#include HEADER', {"g.h": G}, "2.0f"),
        ('#pragma push_macro("A")\n#include "g.h"', {"g.h": G}, "2.0f"),
        ('#include "g.h"\n#undef G_H', {"g.h": f"#ifndef G_H\n#define G_H\n{G}#endif\n"}, "2.0f"),
        ('#if U\n#include "g.h"\n#endif\n#include "g.h"', {"g.h": f"#pragma once\n{G}"}, "2.0f"),
        ('#include "g.h"', {"g.h": f"#if U\n{G}#else\n{G.replace('2', '3')}#endif\n"}, "3.0f"),
        (
            '#include "g.h"\n#undef SCALE\n#define SCALE 3.0f',
            {"g.h": "#define SCALE 2.0f\n" + G.replace("2.0f", "SCALE")},
            "2.0f",
        ),
        ('#include "g.h"', {"g.h": G.replace("2.0f", "__LINE__")}, "1"),
        (
            '#include "g.h"',
            {
                "g.h": "#if U\n#define K n\n#else\n#define K 2\n#endif\nstatic int n;\n"
                + G.replace("2.0f", "K")
            },
            "2",
        ),
        (
            '#include "g.h"\n#include "h.h"',
            {
                "g.h": f"#ifndef H\n#define H\n{G}#endif\n",
                "h.h": "#ifndef H\n#define H\nint g(int);\n#endif\n",
            },
            "2.0f",
        ),
        ('#include "g.h"', {"g.h": "#define MAKE(t) static t g##1(t);\n" + G}, "2.0f"),
    ],
)
def test_macros_of_headers_are_known(before: str, headers: dict[str, str], number: str) -> None:
    assert body(inlined(f"{before}\n{F}", headers)) == [INLINED[0].replace("2.0f", number), INLINED[1]]


def test_macros_of_a_header_are_replaced() -> None:
    """So are those that another header takes back and defines anew; each as it is where it stands."""
    headers = {
        "grid.h": "#define IDX(i, j) ((i) * n + (j))\n#define OLD 1 +\n",
        "later.h": "#undef OLD\n#define OLD 2 *\n",
    }
    text = (
        '#include "grid.h"\n#include "later.h"\nvoid f(float *x, int n)\n{\n    x[IDX(1, n)] = OLD 3.0f;\n}\n'
    )
    made = apply_edits(read_program(preprocessed(kernel_of(text, headers))), [CONFIGURED])
    assert body(made) == ["x[((1) * n + (n))] = 2 * 3.0f;"]


@pytest.mark.parametrize(
    ("text", "headers", "reason"),
    [
        ('#include "missing.h"\n' + F, {"g.h": G}, "'missing.h' file not found"),
        ('#include "g.h"\n' + F, {"a/g.h": G, "b/g.h": G.replace("2", "3")}, "'g.h' file not found"),
        ('#pragma GCC optimize("fast-math")\n#include "g.h"\n' + F, {"g.h": G}, "no other function"),
        (
            '#include "g.h"\n' + F,
            {"g.h": f"#pragma STDC FP_CONTRACT OFF\n{G}"},
            "no other function",
        ),
        ('#include "g.h"\n' + F, {"g.h": '#include "g.h"\n' + G}, "nested too deeply"),
        ('#if U\n#include "g.h"\n#endif\n' + F, {"g.h": G}, "no other function"),
        ('#include "g.h"\n' + F, {"g.h": f"#ifdef FAST\n{G}#endif\n"}, "no other function"),
        ('#include "g.h"\n#include "g.h"\n' + F, {"g.h": G}, "no other function"),
        (
            '#include "g.h"\n#define SCALE 3.0f\n' + F,
            {"g.h": "static float SCALE;\n" + G.replace("2.0f", "SCALE")},
            "a macro elsewhere",
        ),
        (
            '#include "g.h"\n#define float double\n' + F,
            {"g.h": G},
            "a macro elsewhere",
        ),
        (
            '#include "g.h"\n' + F.replace("y[0]", "float scale = 1.0f; y[0]"),
            {"g.h": "static const float scale = 2.0f;\n" + G.replace("2.0f", "scale")},
            "means something else",
        ),
        (
            '#include "g.h"\n' + F.replace("y[0]", "typedef double real; y[0]"),
            {"g.h": "typedef float real;\n" + G.replace("2.0f", "(real)2.0")},
            "means something else",
        ),
        (
            '#include "g.h"\n' + F.replace("y[0]", "float (*g)(const float *, int) = other; y[0]"),
            {"g.h": G},
            "g",
        ),
        (
            '#include "g.h"\n' + F,
            {"g.h": "#if U\n#define K 2 +\n#endif\n" + G.replace("2.0f", "K 1")},
            "text that is no plain C",
        ),
        (
            '#include "g.h"\n' + F,
            {"g.h": "extern __attribute__((weak)) float g(const float *, int);\n" + G},
            "an attribute that is not known",
        ),
        (
            '#include "g.h"\n' + F,
            {"g.h": 'static float g(const float *, int) __attribute__((target("no-fma")));\n' + G},
            "an attribute that is not known",
        ),
        (
            '#include "g.h"\n' + F,
            {"g.h": G + 'extern float h(void) __attribute__((alias("g")));\n'},
            "linker",
        ),
        (
            '#include "g.h"\n' + F,
            {"g.h": G.replace("static", "__attribute__((optnone)) static")},
            "not known",
        ),
    ],
)
def test_unknown_headers_are_refused(text: str, headers: dict[str, str], reason: str) -> None:
    kernel, unseen = preprocessed_or_why(kernel_of(text, headers))
    if unseen:
        assert reason in unseen
        return
    with pytest.raises(EditRefused, match=reason):
        apply_edits(read_program(kernel), [CONFIGURED, CALL])


@pytest.mark.parametrize(
    ("before", "header", "reason"),
    [
        ("", G, ""),
        ("", G + "static inline double g(const double *p, int i) { return p[i]; }\n", "no other function"),
        ("", G + "double g(const double *p, int i);\n", "declared more than once"),
        ("", G + "template <class T> T g(const T *p, long i);\n", "declared more than once"),
        ("", G + "namespace a { float g(const float *p, int i); }\n", "declared more than once"),
        ("", f"namespace a {{ {G} }}\nusing a::g;\n", "no other function"),
        ("using namespace std;\n", G, ""),
        ("", "template <class T> " + G.replace("float", "T"), "no other function"),
        ("", G.replace("int i", "const int &i"), "not plain"),
        (
            "",
            G.replace("static inline float g", "static inline auto g").replace(") {", ") -> float {"),
            "not known",
        ),
    ],
)
def test_a_name_of_cpp_has_to_be_one_function(before: str, header: str, reason: str) -> None:
    text = f'{before}#include "g.h"\n{F}'
    if not reason:
        assert body(inlined(text, {"g.h": header}, language="c++")) == INLINED
        return
    with pytest.raises(EditRefused, match=reason):
        inlined(text, {"g.h": header}, language="c++")


DEVICE = """#include "grid.h"
%(kernel)s void f(%(space)s const float *a, %(space)s float *b, int n)
{
    int i = %(item)s;
    for (int k = 0; k < n; k++)
        b[IDX(i, k)] = g(a, IDX(i, k), n);
}
"""
GUARDED = """#pragma once
#define IDX(i, k) ((i) + (k) * n)
%(head)s float g(%(space)s const float *p, int i, int n)
{
    if (i < 0 || i >= n)
        return 0.0f;
    return p[i];
}
"""


@pytest.mark.parametrize(
    ("language", "words"),
    [
        ("opencl", {"kernel": "__kernel", "space": "__global", "item": "get_global_id(0)", "head": "inline"}),
        (
            "cuda",
            {
                "kernel": "__global__",
                "space": "",
                "item": "threadIdx.x",
                "head": "__device__ __forceinline__",
            },
        ),
    ],
)
def test_functions_of_headers_in_kernels_that_are_launched(language: str, words: dict[str, str]) -> None:
    """Early returns and subscripts that begin with a variable in parentheses among them."""
    kernel = preprocessed(kernel_of(DEVICE % words, {"grid.h": GUARDED % words}, language=language))
    made = apply_edits(read_program(kernel), [CONFIGURED, CALL])
    loop = [line for line in body(made) if line != "}"][2:]
    assert loop == [
        "const float g_value = i + k * n < 0 || i + k * n >= n ? 0.0f : a[i + k * n];",
        "b[i + k * n] = g_value;",
    ]


def test_the_order_in_which_memory_changes_stays() -> None:
    """What a call reads may be changed by what stands before it in its statement, or by its arguments."""
    helpers = "float h(float *p);\nstatic inline float k(const float *p) { return p[1]; }\n"
    for call, reason in (
        ("y[0] = h(x) + g(x, n)", "may change"),
        ("y[0] = x[0] + g(x, (int)h(x))", "among other things"),
        ("y[0] = (x[1] = 2.0f) + g(x, n)", "may change"),
        ("y[0] = k(x) + g(x, n)", ""),
        ("y[n] = g(x, n) + g(x, 0)", ""),
        ("y[0] = g(x, (int)h(x))", ""),
    ):
        text = f'#include "g.h"\n{helpers}{F.replace("const ", "").replace("y[0] = g(x, n)", call)}'
        if reason:
            with pytest.raises(EditRefused, match=reason):
                inlined(text, {"g.h": G})
        else:
            assert inlined(text, {"g.h": G}).checked


def test_functions_that_name_macros_are_refused_where_no_preprocessor_has_been() -> None:
    """By name and kind: what they stand for is not looked at."""
    text = f'#include "g.h"\nstatic float g(const float *p, int m) {{ int n = m + 1; return p[LAST]; }}\n{F}'
    headers = {"g.h": "#define LAST (n - 1)\n"}
    with pytest.raises(EditRefused, match="g is no other function"):
        apply_edits(read_program(kernel_of(text, headers)), [CALL])
    own = read_program(kernel_of(text.replace("g(x, n)", "x[LAST]"), headers))
    with pytest.raises(EditRefused, match="the function names LAST, a macro"):
        apply_edits(own, [{"op": "delete_statement", "function": "f", "statement": "0"}])
    asks = read_program(kernel_of(F.replace("    y", "#if N > 1\n    y").replace(";\n}", ";\n#endif\n}"), {}))
    with pytest.raises(EditRefused, match="the function has #if in it"):
        apply_edits(asks, [{"op": "delete_statement", "function": "f", "statement": "0"}])
    assert "y[0] = p[LAST]" not in "".join(body(inlined(text, headers)))


def test_names_of_an_inlined_body_are_not_taken() -> None:
    """``t`` became ``t_2``, which the body already meant something by."""
    text = (
        "static int t_2 = 5;\nstatic float g(const float *p, int i) { int t = i; return p[t + t_2]; }\n"
        + F.replace("y[0]", "int t = n; y[0]")
    )
    made = apply_edits(read_program(kernel_of(text, {})), [CALL])
    assert body(made)[1:] == ["int t_3 = n;", "y[0] = x[t_3 + t_2];"]
