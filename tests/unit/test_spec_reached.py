"""What of a program's text one kernel can reach."""

from __future__ import annotations

import pytest

from tuner.spec.reading.reached import reached_text

PROGRAM = """
#define WIDTH 4
#define GROUP get_local_id(0) /* only the other kernel's */
typedef struct { float x; int kind; } Atom;
constant float table[2] = {1.0f, 2.0f};
static float helper(float x) { return x * table[1]; }
static float deep(float x) { return helper(x) + WIDTH; }
float indexed(float x) { return x + GROUP; }
// barrier(CLK_LOCAL_MEM_FENCE) in a comment
__kernel void plain(__global float *y) { y[get_global_id(0)] = deep(y[0]); }
__kernel __attribute__((reqd_work_group_size(64, 1, 1))) void sized(__global float *y) { y[0] = 1; }
__kernel void grouped(__global float *y) { y[0] = indexed(y[1]); }
__kernel void summed(__global float *y, __local float *t) { barrier(1); if (y[0]) { t[0] = 1; } }
"""


@pytest.mark.parametrize(
    ("entry", "there", "not_there"),
    [
        (
            "plain",
            ["helper(float", "WIDTH 4", "typedef struct", "table[2]"],
            ["get_local_id", "barrier", "sized"],
        ),
        ("sized", ["reqd_work_group_size"], ["helper(float", "get_local_id"]),
        ("grouped", ["get_local_id"], ["barrier", "helper(float"]),
        ("summed", ["barrier", "__local"], ["get_local_id"]),
    ],
)
def test_a_kernel_reaches_what_it_names(entry: str, there: list[str], not_there: list[str]) -> None:
    text = reached_text(PROGRAM, entry)
    assert not [part for part in there if part not in text]
    assert not [part for part in not_there if part in text]


@pytest.mark.parametrize(
    "program",
    [
        "#define KERNEL(n) __kernel void n\nKERNEL(plain)(__global int *x) { x[0] = get_local_id(0); }",
        "#ifdef A\n__kernel void plain(int a) {\n#else\n__kernel void plain(int a, int b) {\n#endif\n barrier(1); }",
        "__kernel void other(void) { barrier(1); }",
    ],
    ids=["made by a macro", "braces that do not match", "not there"],
)
def test_all_of_it_where_the_text_cannot_be_followed(program: str) -> None:
    text = reached_text(program, "plain")
    assert "get_local_id(0)" in text or "barrier(1)" in text
