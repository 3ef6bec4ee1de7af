"""Loops split within strips, what is read and computed first for it, and short loops written out."""

from __future__ import annotations

import numpy as np
import pytest
from same_results import program_of

from tuner.core.types import Kernel, Variant
from tuner.search.remix import RemixProposer
from tuner.spaces.source.edits import Refused, apply_edit
from tuner.spaces.source.operators import OPERATORS
from tuner.spaces.source.regions import Program

STRIP = [{"name": "STRIP", "values": [8], "default": 8}]


def program(
    body: str, *, above: str = "", params: str = "const float *a, float *c, const int *m, int n"
) -> Program:
    return program_of(f"{above}\nvoid f({params})\n{{\n{body}\n}}\n", "f")


def edited(read: Program, op: str, **arguments: object) -> str:
    return apply_edit(read, {"op": op, "function": "f", **arguments}).sources()[0].text


def ats(read: Program) -> list[int]:
    """After how many statements a split is proposed."""
    return [site["at"] for site in OPERATORS["split_in_strips"].sites(read.functions["f"], False)]


def test_values_between_the_parts_of_a_loop_are_kept_for_a_strip() -> None:
    read = program("for (int i = 0; i < n; i++) { const float t = a[i * 9]; float u = t * t; c[i] = u + t; }")
    assert ats(read) == [1]
    text = " ".join(edited(read, "split_in_strips", loop="i", at=1, parameters=STRIP).split())
    assert "for (int i_strip = 0; i_strip < n; i_strip += STRIP) { float t_block[STRIP];" in text
    assert "t_block[i - i_strip] = a[i * 9]; }" in text
    assert "float u = t_block[i - i_strip] * t_block[i - i_strip];" in text


def test_a_sum_in_order_is_split_off_what_is_added() -> None:
    read = program("for (int i = 0; i < n; i++) { float t = a[i] / (1.0f + a[i]); c[0] += t; }")
    assert ats(read) == [1]
    assert "t_block" in edited(read, "split_in_strips", loop="i", at=1, parameters=STRIP)


def test_parts_of_a_strip_are_split_again_in_the_same_strip() -> None:
    read = program("for (int i = 0; i < n; i++) { const float t = a[i * 9]; float u = t * t; c[0] += u; }")
    made = apply_edit(
        read, {"op": "split_in_strips", "function": "f", "loop": "i", "at": 1, "parameters": STRIP}
    )
    text = edited(made, "split_in_strips", loop="i#2", at=1)
    assert text.count("i_strip += STRIP") == 1
    assert text.count("for (int i = i_strip;") == 3


def test_a_loop_that_begins_at_another_counter_is_no_part_of_a_strip() -> None:
    """Of a loop that goes by two, one inside that begins there may go on to the end."""
    read = program(
        "for (int j = 0; j < n; j += 2) for (int i = j; i < n; i++) { const float t = a[i * 9]; c[i] += t * t; }"
    )
    text = edited(read, "split_in_strips", loop="i", at=1, parameters=STRIP)
    assert "float t_block[STRIP];" in text


def test_a_dependence_between_parts_keeps_them_together() -> None:
    read = program("for (int i = 1; i < n; i++) { const float t = c[i * 9 - 9]; c[i * 9] = t * t; }")
    with pytest.raises(Refused, match="c ties"):
        edited(read, "split_in_strips", loop="i", at=1, parameters=STRIP)


@pytest.mark.parametrize(
    ("condition", "value", "taken"),
    [
        ("m[i]", "a[i * 9]", True),
        ("i > 0", "a[i * 9 - 9]", False),
        ("n > 4 && i + 1 < n", "a[i * 9 + 9]", False),
        ("m[i] >= 0", "a[m[i] * 9]", False),
    ],
)
def test_what_a_condition_may_guard_is_not_read_without_it(condition: str, value: str, taken: bool) -> None:
    read = program(
        f"for (int i = 0; i < n; i++) if ({condition}) {{ float t = {value} * 2.0f; c[i * 9] = t; }}"
    )
    for op, more in (("read_first", {}), ("compute_first", {"at": 0})):
        if taken:
            assert edited(read, op, loop="i", **more)
        else:
            with pytest.raises(Refused, match=r"lie apart|can be computed before"):
                edited(read, op, loop="i", **more)


def test_what_may_fail_is_not_computed_without_its_condition() -> None:
    read = program("for (int i = 0; i < n; i++) if (m[i]) { int t = n / m[i]; c[i] = t; }")
    with pytest.raises(Refused, match="can be computed before"):
        edited(read, "compute_first", loop="i", at=0)


def test_a_value_that_a_store_before_it_changes_stays_behind_the_store() -> None:
    read = program(
        "for (int i = 0; i < n; i++) if (m[i]) { c[i] = a[i] * 2.0f; float t = c[i] + 1.0f; c[i] = t * t; }"
    )
    text = " ".join(edited(read, "compute_first", loop="i", at=0).split())
    assert (
        "const float value = a[i] * 2.0f; if (m[i]) { c[i] = value; float t = c[i] + 1.0f; c[i] = t * t; }"
        in text
    )


def test_columns_and_members_are_read_first_and_rows_are_not() -> None:
    read = program("for (int i = 0; i < n; i++) c[i] = a[i * 9] * a[i] + a[i * 9];")
    text = " ".join(edited(read, "read_first", loop="i").split())
    assert "const float a_2 = a[i * 9]; c[i] = a_2 * a[i] + a_2;" in text
    read = program("for (int i = 0; i < n; i++) c[i * 9] = c[i * 9 + 1] + a[0];")
    with pytest.raises(Refused, match="no elements that lie apart"):
        edited(read, "read_first", loop="i")


@pytest.mark.parametrize(
    ("kind", "number"), [("int", "2"), ("long", "2L"), ("unsigned", "2U"), ("size_t", "2UL")]
)
def test_a_number_in_the_place_of_a_counter_has_its_type(kind: str, number: str) -> None:
    """``k - n > 0`` is another question of a counter without sign."""
    read = program(f"for ({kind} k = 0; k < 3; k++) if (k - n > 0) c[k] = a[k];", above="#include <stddef.h>")
    text = edited(read, "write_out", loop="k")
    assert f"if ({number} - n > 0)" in text
    assert "c[2] = a[2];" in text


def test_local_arrays_with_numbers_for_subscripts_become_scalars() -> None:
    read = program("for (int i = 0; i < n; i++) { float u[3]; u[0] = a[i]; u[1 + 1] = u[0]; c[i] = u[2]; }")
    text = " ".join(edited(read, "scalar_elements").split())
    assert "float u_0; float u_2; u_0 = a[i]; u_2 = u_0; c[i] = u_2;" in text
    for body in ("u[i] = 0;", "float *p = u; p[0] = 1;", "u[3] = 0;"):
        with pytest.raises(Refused):
            edited(
                program(f"float u[3]; for (int i = 0; i < n; i++) {{ u[0] = a[i]; {body} }}"),
                "scalar_elements",
            )


def test_loops_and_declarations_under_a_condition_are_read() -> None:
    inside = "float s = 0; for (int k = 0; k < 4; k++) s += a[{}]; c[i] = s;"
    guarded = f"for (int i = 0; i < n; i++) if (m[i]) {{{{ {inside} }}}}"
    assert edited(program(guarded.format("i * 4 + k")), "reverse", loop="i")
    with pytest.raises(Refused, match="c ties"):
        edited(
            program(guarded.format("k").replace("a[k]", "c[i - 1]").replace("i = 0", "i = 1")),
            "reverse",
            loop="i",
        )


def test_flat_places_of_members_are_taken_apart_into_rows_and_columns() -> None:
    read = program(
        "for (int j = 0; j < n; j++) for (int i = 0; i < n; i++) for (int k = 0; k < 2; k++)"
        " s[j * n + i].v[k] = a[k] + s[j * n + i].v[k];",
        above="typedef struct { float v[2]; } cell;",
        params="const float *a, cell *s, int n",
    )
    known = apply_edit(read, {"op": "read_members", "function": "f"})
    assert "int j" in edited(known, "interchange", loops=["j", "i"])


def test_an_outer_loop_gets_vectors_where_those_inside_are_short() -> None:
    sizes = [{"name": name, "values": [4], "default": 4} for name in ("WIDTH", "COUNT")]
    body = "for (int i = 0; i < n; i++) for (int k = 0; k < {}; k++) c[i * 3 + k] = a[i * 3 + k] * 2.0f;"
    text = edited(program(body.format("3")), "vectorize", loop="i", parameters=sizes)
    assert text.index("vectorize(assume_safety)") < text.index("unroll(full)")
    with pytest.raises(Refused, match="is not the innermost"):
        edited(program(body.format("n")), "vectorize", loop="i", parameters=sizes)


@pytest.mark.parametrize("seed", range(3))
def test_a_proposer_finds_what_there_is_in_a_small_kernel(seed: int) -> None:
    """Most recipes apply to none of its loops, so that many draws are in vain."""
    read = program(
        "for (int i = 0; i < n; i++) { float s = 0; for (int j = 0; j < n; j++) s += a[j] * a[i]; c[i] = s; }"
    )
    variant = Variant(files=tuple(read.sources()))
    kernel = Kernel(name="f", entry="f", language="c", variant=variant, folder=".")
    proposer, rng, known = RemixProposer(kernel), np.random.default_rng(seed), set[str]()
    for _ in range(8):
        made = proposer.propose([kernel.variant], rng, known)
        assert made is not None
        known.add(made.structure)
