"""Programs whose loops get at the same memory in many ways, made by chance."""

from __future__ import annotations

import random

__all__ = ["MARK", "made_program"]

MARK = "// LOOP {}"
"""Stands behind the first line of a function's loop."""
_HEAD = """\
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef __cplusplus
#define restrict __restrict
#endif
#define SIZE 64
typedef struct { double *m, own[SIZE]; } box;
double A[SIZE], B[SIZE], *held = A;
static double given[SIZE];
static double C[SIZE];
static box made;
static double *all[4096];
static int count;
static void keep(double *x) { held = x; }
static void keep_in(box *b, double *x) { b->m = x; }
static void put(double **to, double *x) { *to = x; }
static double *last(void) { return held; }
static double *same(double *x) { return x + 1; }
static double *one_of(int c, double *x, double *y) { return c ? x : y; }
static double half(double x) { return x * 0.5 + 1; }
static double seen(double x) { return x + held[3] + C[2]; }
static void twice(double *x) { for (int i = 0; i < SIZE / 2; i++) x[i] = x[i] * 0.5 + i; }
static double *table(int by) {
    double *x = (double *)malloc(SIZE * sizeof *x);
    for (int i = 0; i < SIZE; i++) x[i] = i % by;
    return x;
}
static double *noted(int by) { double *x = table(by); all[count++ % 4096] = x; return x; }
static double sum_of(const double *x) {
    double s = 0;
    for (int i = 0; i < SIZE / 2; i++) s += x[i] * (i % 5 + 1);
    return s;
}
"""
_FIRST = [
    "double *{v} = (double *)malloc(SIZE * 8); for (int i = 0; i < SIZE; i++) {v}[i] = i % {k};",
    "double *{v} = (double *)calloc(SIZE, 8);",
    "double *{v} = table({k});",
    "double *{v} = noted({k});",
    "double {v}_own[SIZE] = {{{k}, 2, 3}}; double *{v} = {v}_own;",
    "static double {v}_kept[SIZE]; double *{v} = {v}_kept;",
    "double *{v} = C;",
    "double *{v} = A + {o};",
    "double *const {v} = (double *)calloc(SIZE, 8);",
    "double *{v} = p + {o};",
    "double *{v} = held;",
    "double *{v} = r;",
]
_ARRAYS = ["double {v}[SIZE] = {{{k}, 1}};", "static double {v}[SIZE];"]
_LATER = [
    "double *{v} = {a} + {o};",
    "double *{v} = n > {n} ? table({k}) : {a};",
    "double *{v} = n > {n} ? {a} : {b};",
    "double *{v} = same({a});",
    "double *{v} = one_of(n > {n}, {a}, {b});",
    "double *{v}; memcpy(&{v}, &(double *){{{a}}}, sizeof {v});",
    "double *{v} = &{a}[{o}];",
    "double *{v}; put(&{v}, {a});",
    "double *{v} = table({k}); for (int t = 0; t < n % 3; t++) {{ double *z = {v}; {v} = {w}; {w} = z; }}",
    "box {v}_box; {v}_box.m = {a}; double *{v} = {v}_box.m;",
    "double *{v}_of[2] = {{{a}, {b}}}; double *{v} = {v}_of[n & 1];",
    "double *{v} = (double *)(size_t){a};",
    "double *{v} = last();",
    "double *{v} = ({{ double *z = {a}; z; }});",
    "double *{v}; {v} = (double *)memset({a}, 0, 64);",
]
_OF_CLASSES = [
    "double *{v} = new double[SIZE]();",
    "double *&{v}_ref = {w}; double *{v} = new double[SIZE](); if (n > {n}) {v}_ref = {v};",
    "double *{v} = new ({a}) double[4];",
    "auto {v}_get = [&] {{ return {a}; }}; double *{v} = {v}_get();",
    "double &{v}_at = {a}[{o}]; double *{v} = &{v}_at;",
    "double *{v}; ({v} = {a}) += 1;",
]
_BETWEEN = [
    "keep({a});",
    "made.m = {a};",
    "twice({a});",
    "keep_in(&made, {a});",
    "for (int i = 0; i < SIZE / 2; i++) {a}[i] += i;",
    "if (n > {n}) held = {a} + 2;",
    "{w} = {a};",
    "{w} = {w} + 1;",
]
_INSIDE = [
    "{a}[i] = {b}[i + {o}] + {k};",
    "{a}[i + {o}] = {b}[i] * 0.5;",
    "{a}[i] = {b}[i] + {a}[i + 1];",
    "s += {a}[i]; {b}[i] = s * 0.125;",
    "{{ double *z = {a} + i; z[0] = {b}[i + 1]; z[1] += 1; }}",
    "{{ double *z = i & 1 ? {a} : {b}; z[i] += 0.5; }}",
    "held[i] = {a}[i] + 1;",
    "made.m[i] += {a}[i];",
    "A[i] = {a}[i + 1] * 0.25;",
    "C[i + 1] = {a}[i];",
    "{a}[i] = half({b}[i]);",
    "{a}[i] = seen({b}[i]) * 0.125;",
    "keep({a});",
    "if (i == 7) twice({a});",
    "last()[i] += {a}[0] * 0.25;",
    "for (int j = 0; j < 8; j++) {a}[i] += {b}[j] * 0.125;",
    "for (int j = 0; j < 8; j++) {a}[j] = {b}[i] * 0.5;",
    "{{ double *z = same({a}); z[i] = {b}[i]; }}",
    "if (i == 11) goto end{f};",
]
_OF_LOOPS = ["double &z = {a}[i]; z = {b}[i + 1]; {b}[i] = z + 1;"]


def made_program(seed: int, functions: int, language: str) -> str:
    """A program with so many functions, each with a loop, that prints what they have made of all memory.

    Args:
        seed: of the choices.
        functions: how many.
        language: ``c`` or ``c++``.
    """
    chance = random.Random(seed)
    parts = [_HEAD] + (["#include <new>\n"] if language == "c++" else [])
    parts += [_function(chance, number, language) for number in range(functions)]
    calls = [
        f'    printf("{number} %.12g ", f{number}({chance.randint(20, 24)}, {each}, given));\n'
        f'    printf("%.12g %.12g %.12g %.12g\\n", sum_of(A), sum_of(B), sum_of(C), sum_of(given));\n'
        f"    held = {chance.choice('AB')}; made.m = {chance.choice('AC')};\n"
        for number in range(functions)
        for each in chance.sample(("A", "A + 1", "B", "C", "table(5)", "made.own"), 2)
    ]
    parts.append(
        "int main(void) {\n    for (int i = 0; i < SIZE; i++) A[i] = i % 3, B[i] = i % 5, C[i] = i % 7;\n"
        f"    made.m = C;\n{''.join(calls)}    return 0;\n}}\n"
    )
    return "\n".join(parts)


def _function(chance: random.Random, number: int, language: str) -> str:
    known, lines, steady = ["p"], list[str](), {"p"}
    more = _OF_CLASSES if language == "c++" else []

    def fill(text: str, name: str = "") -> str:
        movable = [each for each in known if each not in steady] or ["z_none"]
        return text.format(
            v=name,
            a=chance.choice(known),
            b=chance.choice(known),
            w=chance.choice(movable),
            k=chance.randint(2, 7),
            o=chance.randint(0, 3),
            n=chance.choice((10, 21, 22, 30)),
            f=number,
        )

    lines.append("double *z_none = A;")
    for each in range(chance.randint(2, 4)):
        name = f"v{each}"
        kind = chance.random()
        texts = _FIRST if kind < 0.55 else _ARRAYS if kind < 0.7 else [*_LATER, *more, *more]
        text = chance.choice(texts)
        if language == "c++" and "(double *){" in text:
            text = "double *{v} = {a};"
        lines.append(fill(text, name))
        known.append(name)
        if text in _ARRAYS or "*const" in text or text in more[1:2]:
            steady.add(name)
    lines += [fill(chance.choice(_BETWEEN)) for _ in range(chance.randint(0, 2))]
    body = [fill(chance.choice([*_INSIDE, *_OF_LOOPS] if language == "c++" else _INSIDE)) for _ in range(2)]
    body += [fill(chance.choice(_INSIDE[:6]))]
    chance.shuffle(body)
    inner = "\n".join(f"            {{ {each} }}" for each in body)
    sums = " + ".join(f"sum_of({each})" for each in known)
    declared = "\n".join(f"    {line}" for line in lines)
    return (
        f"double f{number}(int n, double *p, double *restrict r) {{\n{declared}\n    double s = 0;\n"
        f"    for (int t = 0; t < 3; t++) {{\n        for (int i = 0; i < n; i++) {{ {MARK.format(number)}\n"
        f"{inner}\n        }}\n        {fill(chance.choice(_BETWEEN)) if chance.random() < 0.3 else ''}\n    }}\n"
        f"end{number}: ;\n    return s + {sums};\n}}\n"
    )
