"""Kernels in which what device operators go by is not what it seems: refused, or done right; others still edited."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import needs
import pytest
from same_device_results import Made, device_variants, differing_kernels

from tuner.core.expressions import parse
from tuner.core.types import Kernel, Launch, Source, Variant
from tuner.spaces.source.edits import Applied, EditRefused, apply_edits
from tuner.spaces.source.regions import Program, read_program

HEAD = "void f({p}float *a, {p}const float *b, {p}float *c, {p}int *p, int n, int m)\n{{\n{body}\n}}\n"
LINE = (("ceil(n / 32)",), ("32",))
PLANE = (("ceil(n / 8)", "ceil(m / 4)"), ("8", "4"))
Shape = tuple[tuple[str, ...], tuple[str, ...]]

X = "const int x = get_global_id(0);\n"
XY = "const int x = get_global_id(0), y = get_global_id(1);\n"
IN_LINE = X + "if (x >= n) return;\n"
IN_PLANE = XY + "if (x >= n || y >= m) return;\n"
SUM = "float sum = 0.0f;\nfor (int k = 0; k < n; k++) sum += b[y * n + k] * a[x];\nc[y * n + x] = sum;\n"
LINE_SUM = "float sum = 0.0f;\nfor (int k = 0; k < n; k++) sum += b[k];\nc[x] = sum;\n"

STAGE = {"op": "stage", "loop": "k", "arrays": ["b"]}
STRIDE = {"op": "grid_stride", "axis": 0}
BLOCK = {"op": "block_size", "axis": 0}
SHARE = {"op": "share_sum", "loop": "k", "reassociate": True}
VECTOR = {"op": "vector_loads", "loop": "k", "array": "b"}
COPIES = {"op": "unroll_copies", "loop": "k", "count": 2}
LOADS = {"op": "read_only_loads", "array": "a"}
TUNABLES = {
    "stage": {"TILE_K": (8, 16), "PAD": (0, 1)},
    "grid_stride": {"STRIDE_X": (2, 4)},
    "block_size": {"BLOCK_X": (16, 64)},
    "share_sum": {"LANES": (8, 4)},
}


def opencl(body: str, shape: Shape = PLANE, before: str = "") -> Made:
    """A kernel of two sizes with four arrays."""
    cells = {
        "a": ("float", "n * m"),
        "b": ("float", "n * m"),
        "c": ("float", "n * m"),
        "p": ("int", "max(n, m)"),
    }
    return Made(
        text=before + "__kernel " + HEAD.format(p="__global ", body=body),
        arrays=cells,
        sizes=[{"n": n, "m": m} for n, m in ((5, 7), (8, 4), (19, 13), (1, 1))],
        grid=shape[0],
        block=shape[1],
    )


def cuda(body: str, shape: Shape = LINE, before: str = "") -> Program:
    """The same in CUDA."""
    for axis, letter in enumerate("xy"):
        place = f"blockIdx.{letter} * blockDim.{letter} + threadIdx.{letter}"
        body = body.replace(f"get_global_id({axis})", place)
    text = before + 'extern "C" __global__ ' + HEAD.format(p="", body=body)
    variant = Variant(files=(Source(name="f.cu", text=text),))
    kernel = Kernel(name="f", entry="f", language="cuda", variant=variant, folder=".")
    return read_program(
        kernel, launch=Launch(grid=tuple(map(parse, shape[0])), block=tuple(map(parse, shape[1])))
    )


def edited(program: Program, *steps: dict[str, Any]) -> Applied:
    """With the tunables that each needs."""
    edits = []
    for step in steps:
        found = TUNABLES.get(step["op"], {})
        edits.append({"function": "f", **step})
        if found:
            edits[-1]["parameters"] = [
                {"name": n, "values": list(v), "default": v[0]} for n, v in found.items()
            ]
    return apply_edits(program, edits)


NARROW = opencl("const int x = (uchar)get_global_id(0);\nif (x < n) c[x] = b[x];", LINE)
NARROW_ID = opencl("const uchar x = get_global_id(0);\nif (x < n) c[x] = b[x];", LINE)
UNGUARDED = opencl(X + "c[x] = b[x];", LINE)
FEWER = opencl(X + "if (x < n) c[x] = b[x];", (("ceil(m / 32)",), ("32",)))
BY_PARTS = opencl(X + "if (x < n) c[x] = b[x];", (("ceil(n / 64) + ceil(m / 32)",), ("32",)))
HALF_USED = opencl(X + "if (x < n) p[x] += 1;", PLANE)
MACRO_PLACE = opencl(
    "const int x = GID, y = get_global_id(1);\nif (x >= n || y >= m) return;\n"
    + SUM.replace("[y * n + k]", "[k * n + x]"),
    before="#define GID get_global_id(0)\n",
)
HELPER_PLACE = opencl(
    IN_LINE + "c[x] = b[x] + lane();", LINE, before="float lane(void) { return get_local_id(0); }\n"
)
MACRO_ROW = opencl(IN_PLANE + SUM.replace("y * n + k", "ROW + k"), before="#define ROW (y * n)\n")
MACRO_LIMIT = opencl(IN_PLANE + SUM.replace("k < n", "k < LIMIT"), before="#define LIMIT (n - x)\n")
MACRO_APART = opencl(IN_PLANE + SUM.replace("k < n", "k < LIMIT"), before="#define LIMIT n - 1\n")
MACRO_GUARD = opencl(XY + "if (OUTSIDE) return;\n" + SUM, before="#define OUTSIDE x >= n || y >= m\n")
MACRO_ELEMENT = opencl(IN_PLANE + SUM.replace("a[x]", "a[AT]"), before="#define AT (y * n + k)\n")
CHANGED_SIZE = opencl(IN_PLANE + "const int w = n; if (x & 1) n = n / 2;\n" + SUM.replace("y * n", "y * w"))
UNDER_IF = opencl(
    IN_PLANE
    + "float sum = 0.0f;\nfor (int k = 0; k < 5; k++) if (x + k < n) sum += b[x + k];\nc[y * n + x] = sum;"
)
UNDER_CHOICE = opencl(
    IN_PLANE
    + "float sum = 0.0f;\nfor (int k = 0; k < 5; k++) sum += x + k < n ? b[x + k] : 0.0f;\nc[y * n + x] = sum;"
)
TOGETHER = opencl(XY + "if (x + y >= n) return;\n" + SUM.replace("c[y * n + x]", "if (x == 0) c[y]"))
WALKING = opencl(
    XY
    + "const __global float *row = b + y;\nif (x >= n || y >= m) return;\n"
    + "c[y * n + x] = *row; row++;\na[y * n + x] = *row;"
)
SIGNLESS = opencl(
    IN_PLANE
    + SUM.replace("int k = 0; k < n", "unsigned k = 7; k < end").replace(
        "float", "const unsigned end = n;\nfloat", 1
    )
)
BY_ROW = XY + "if (y >= m) return;\nif (x >= p[y]) return;\n"
LIMIT_IN_MEMORY = opencl(BY_ROW + "if (x < n) c[y * n + x] = 1.0f;")
SUM_OF_STAR = opencl(
    IN_LINE + "const float v = *(b + x);\nfloat sum = v;\n" + LINE_SUM.split("\n", 1)[1], LINE
)
SHARED_ALREADY = opencl(IN_LINE + "c[x] = b[x];", LINE).text.replace("__global int *p", "__local int *p")

REFUSED: dict[str, tuple[Made, dict[str, Any], str]] = {
    "a number cut off by a cast": (NARROW, STRIDE, "not numbered"),
    "a number that wraps around": (NARROW_ID, STRIDE, "not numbered"),
    "more items without a guard": (UNGUARDED, BLOCK, "is launched"),
    "more than is launched": (FEWER, STRIDE, "is launched"),
    "more than is launched, in other groups": (FEWER, BLOCK, "is launched"),
    "a grid of two parts": (BY_PARTS, BLOCK, "is launched"),
    "an axis that nothing asks for": (HALF_USED, {**BLOCK, "axis": 1}, "no variable numbers"),
    "a place in a macro": (MACRO_PLACE, STAGE, "the function names GID, a macro"),
    "a place in a function": (HELPER_PLACE, BLOCK, "get_local_id"),
    "a row in a macro": (MACRO_ROW, STAGE, "the function names ROW, a macro"),
    "a limit in a macro": (MACRO_LIMIT, STAGE, "the function names LIMIT, a macro"),
    "a limit that comes apart": (MACRO_APART, COPIES, "the function names LIMIT, a macro"),
    "a guard that comes apart": (MACRO_GUARD, STAGE, "the function names OUTSIDE, a macro"),
    "an element in a macro": (MACRO_ELEMENT, VECTOR, "the function names AT, a macro"),
    "a size that items change": (CHANGED_SIZE, STRIDE, "not the same for all"),
    "a tile of what a condition guards": (UNDER_IF, STAGE, "in every iteration"),
    "a tile of what may be chosen": (UNDER_CHOICE, STAGE, "in every iteration"),
    "a vector of what a condition guards": (UNDER_IF, VECTOR, "in every iteration"),
    "a vector of what may be chosen": (UNDER_CHOICE, VECTOR, "in every iteration"),
    "rows that end by two places": (TOGETHER, STAGE, "two places"),
    "a pointer that moves on": (WALKING, STRIDE, "not|only known"),
    "a limit below zero for a number without a sign": (
        opencl("const uint x = get_global_id(0);\nif (x < n - 3) c[x] = b[x];", LINE),
        STRIDE,
        "may be below zero",
    ),
    "an early end below zero": (
        opencl("const size_t x = get_global_id(0);\nif (x >= n - 3) return;\nc[x] = b[x];", LINE),
        BLOCK,
        "may be below zero",
    ),
    "a limit without a sign": (opencl(X + "if (x < n - 3u) c[x] = b[x];", LINE), STRIDE, "may be below zero"),
    "a limit below zero in a variable": (
        opencl("const uint x = get_global_id(0);\nconst int w = n - 3;\nif (x < w) c[x] = b[x];", LINE),
        BLOCK,
        "may be below zero",
    ),
    "a limit below zero in a macro": (
        opencl(
            "const uint x = get_global_id(0);\nif (x < END) c[x] = b[x];",
            LINE,
            before="#define END (n - 3)\n",
        ),
        STRIDE,
        "the function names END, a macro",
    ),
    "a difference of sizes": (
        opencl("const size_t x = get_global_id(0);\nif (x < n - m) c[x] = b[x];", LINE),
        STRIDE,
        "may be below zero",
    ),
    "a limit behind a guard": (
        opencl(BY_ROW + "c[y * n + x] = 1.0f;"),
        STRIDE,
        "not the same for all items",
    ),
    "a value behind a guard": (SUM_OF_STAR, SHARE, "items to compute that have ended"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_deceptive_kernels_are_refused(name: str) -> None:
    """With one line that says why."""
    made, edit, reason = REFUSED[name]
    with pytest.raises(EditRefused, match=reason) as caught:
        edited(made.program(), edit)
    assert "\n" not in caught.value.reason


def test_memory_that_a_group_shares_is_seen_among_the_parameters() -> None:
    made = opencl("", LINE)
    with pytest.raises(EditRefused, match="shares memory already"):
        edited(Made(**{**_fields(made), "text": SHARED_ALREADY}).program(), BLOCK)


def _fields(made: Made) -> dict[str, Any]:
    return {name: getattr(made, name) for name in ("text", "arrays", "sizes", "grid", "block")}


METS = "for (int k = 0; k < m; k++) {{ t[x & 31] = b[x * m + k]; {}; sum += t[x & 31]; }}"
IN_CUDA: dict[str, tuple[Program, dict[str, Any], str]] = {
    "a shuffle between strides": (
        cuda(X + "const float v = __shfl_xor_sync(0xffffffffu, x * 0.5f, 3);\nif (x < n) c[x] = v;"),
        STRIDE,
        "__shfl_xor_sync",
    ),
    "a barrier that counts": (
        cuda(X + "const int v = __syncthreads_count(x & 1);\nif (x < n) c[x] = v;"),
        BLOCK,
        "__syncthreads_count",
    ),
    "a place in a function without a name": (
        cuda(IN_LINE + "const int l = [&] { return (int)threadIdx.x; }();\nc[x] = b[x] + l;"),
        BLOCK,
        "threadIdx",
    ),
    "a place in a cast": (
        cuda(IN_LINE + "c[x] = b[x] + static_cast<int>(threadIdx.x);"),
        BLOCK,
        "more than one way",
    ),
    "a store through a cast": (
        cuda(IN_LINE + "reinterpret_cast<float *>(a)[x] = b[x];\nc[x] = a[x];"),
        LOADS,
        "not only read",
    ),
    "a store through a macro": (
        cuda(IN_LINE + "A(x) = b[x];\nc[x] = a[x];", before="#define A(at) a[at]\n"),
        LOADS,
        "the function names A, a macro",
    ),
    "a type that is not read": (
        cuda(IN_PLANE + "decltype(a[0] + 0) v = a[y * n + x];\n" + SUM.replace("a[x]", "v"), PLANE),
        STAGE,
        "v is no number",
    ),
    "a barrier between vectors": (
        cuda("__shared__ float t[32];\n" + X + "float sum = 0.0f;\n" + METS.format("__syncthreads()")),
        VECTOR,
        "meet in loop k",
    ),
}


@pytest.mark.parametrize("name", IN_CUDA)
def test_deceptive_cuda_kernels_are_refused(name: str) -> None:
    program, edit, reason = IN_CUDA[name]
    with pytest.raises(EditRefused, match=reason):
        edited(program, edit)


def test_guards_of_fractions_let_what_is_no_number_through() -> None:
    """``v > 1`` and its opposite are both false of a NaN."""
    made = opencl(IN_LINE + "if (b[x] / a[x] > 1.0f) return;\n" + LINE_SUM, LINE)
    assert "!(b[x] / a[x] > 1.0f)" in text_of(edited(made.program(), STRIDE))


def test_a_fraction_as_a_condition_is_not_cut_off() -> None:
    made = opencl(X + "const float r = n > x ? 0.5f : 0.0f;\nif (r) { " + LINE_SUM + " }", LINE)
    assert "active = r ? 1 : 0" in text_of(edited(made.program(), STAGE))


def test_items_that_have_ended_do_not_divide() -> None:
    """They would divide by nothing, which ends a program on a processor."""
    first = opencl(IN_LINE + "const int v = 100 / (n - x);\n" + LINE_SUM, LINE)
    text = text_of(edited(first.program(), STAGE))
    assert text.index("if (active) {\n        v = 100 / (n - x)") > text.index("active = ")
    inner = opencl(IN_LINE + LINE_SUM.replace("b[k]", "b[k] * (100 / (n - x))"), LINE)
    assert "if (active) {\n            for (int k" in text_of(edited(inner.program(), STAGE))


def text_of(made: Applied) -> str:
    """Of its only file."""
    return made.variant.files[0].text


LEFT = {
    "a counter beside its guard": opencl(
        IN_PLANE + "const int v = atomic_add(p, 1);\n" + SUM.replace("= sum", "= sum + 0 * v")
    ),
    "a counter in the loop": opencl(IN_PLANE + SUM.replace("sum += b", "atomic_inc(p), sum += b")),
    "a store by a pointer": opencl(IN_PLANE + SUM.replace("k++) sum", "k++) *(c + y * n + x) = sum")),
    "an element by a pointer": opencl(
        IN_PLANE + "const float v = *(b + y * n + x);\n" + SUM.replace("a[x]", "v")
    ),
    "a counter without a sign": opencl(
        IN_PLANE + "unsigned k;\n" + SUM.replace("int k", "k").replace("a[x]", "(k - 1 < 3 ? 1.0f : 2.0f)")
    ),
    "a loop without a sign, from more than it has": SIGNLESS,
    "a limit behind a guard": LIMIT_IN_MEMORY,
    "fewer items than there is work": FEWER,
    "a guard of no place": opencl(XY + "if (m < 5 || x >= n || y >= m) return;\n" + SUM),
}


@pytest.mark.integration
@needs.oclgrind
def test_remaining_variants_give_the_same(tmp_path: Path) -> None:
    """Nor does anything read or store where there is nothing, or race."""
    kernels = [(made, device_variants(made.program(), 1, reassociate=True)) for made in LEFT.values()]
    assert all(variants for _, variants in kernels)
    assert differing_kernels(kernels, 1, tmp_path, rounding=1e-3) == []


ALL_LINE = ("grid_stride", "block_size", "stage", "share_sum", "vector_loads")
ALL_PLANE = ("grid_stride", "block_size", "stage", "vector_loads")
PIXEL = "c[y * n + x] = b[y * n + x - 1] + b[y * n + x + 1];"
ORDINARY: dict[str, tuple[str, Shape, Sequence[str]]] = {
    "rows": (IN_LINE + LINE_SUM, LINE, ALL_LINE),
    "rows under a condition": (X + "if (x < n) {\n" + LINE_SUM + "}", LINE, ALL_LINE),
    "rows of long numbers": (
        "const size_t x = get_global_id(0);\nif (x < (size_t)n) {\n" + LINE_SUM + "}",
        LINE,
        ALL_LINE,
    ),
    "rows with what they had": (
        IN_LINE + "float sum = c[x];\n" + LINE_SUM.split("\n", 1)[1],
        LINE,
        ("grid_stride", "block_size", "stage", "vector_loads"),
    ),
    "rows that begin somewhere": (
        IN_LINE
        + "const int first = x * m;\n"
        + LINE_SUM.replace("k < n", "k < m").replace("b[k]", "b[first + k]"),
        LINE,
        ALL_LINE,
    ),
    "sparse rows": (
        IN_LINE + "float sum = 0.0f;\nfor (int k = p[x]; k < p[x + 1]; k++) sum += b[k] * a[k];\nc[x] = sum;",
        LINE,
        ("grid_stride", "block_size", "share_sum", "vector_loads"),
    ),
    "a product": (IN_PLANE + SUM, PLANE, ALL_PLANE),
    "a product with constants": (
        IN_PLANE + SUM.replace("= sum", "= SCALE * sum"),
        PLANE,
        ALL_PLANE,
    ),
    "a line": (
        X + "if (x < n * m) c[x] = 2.5f * b[x] + a[x];",
        (("ceil(n * m / 32)",), ("32",)),
        ("grid_stride", "block_size"),
    ),
    "a line by numbers of whole groups": (
        X + "if (x < n) c[x] = b[x];",
        (("(n + 31) // 32",), ("32",)),
        ("grid_stride",),
    ),
    "a line without its last, by numbers without a sign": (
        "const size_t x = get_global_id(0);\nif (x < n - 1) c[x] = b[x];",
        LINE,
        ("grid_stride", "block_size"),
    ),
    "a shorter line, compared with a sign": (
        "const size_t x = get_global_id(0);\nif ((int)x < n - 3) c[x] = b[x];",
        LINE,
        ("block_size",),
    ),
    "a line that ends below zero": (X + "if (x < n - 3) c[x] = b[x];", LINE, ("grid_stride", "block_size")),
    "a grid without its edge": (
        XY + f"if (x > 0 && x < n - 1 && y < m) {PIXEL}",
        PLANE,
        ("grid_stride", "block_size"),
    ),
    "a grid that begins behind its edge": (
        XY + f"if (x == 0 || x >= n - 1 || y >= m) return;\n{PIXEL}",
        PLANE,
        ("grid_stride", "block_size"),
    ),
}


@pytest.mark.parametrize("name", ORDINARY)
def test_ordinary_kernels_are_edited(name: str) -> None:
    body, shape, wanted = ORDINARY[name]
    made = opencl(body, shape, before="#ifndef SCALE\n#define SCALE 2.5f\n#endif\n")
    variants = device_variants(made.program(), 0, reassociate=True)
    assert set(wanted) <= {v.variant.edits[0]["op"] for v in variants if len(v.variant.edits) == 1}


def test_sizes_by_other_names_than_the_launch_has_are_taken_on_trust() -> None:
    """The launch says ``cells``, the kernel ``n``: which is which is for the verification to find out."""
    made = opencl(X + "if (x < n) c[x] = b[x];", (("ceil(cells / 32)",), ("32",)))
    assert "for (int x" in text_of(edited(made.program(), STRIDE))
