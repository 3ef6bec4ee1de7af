"""Variables of a file that are structures, or arrays of them: operators read their members as they do of arguments."""

from __future__ import annotations

from pathlib import Path

import needs
import pytest
from same_results import edits_of, program_of, same, variants_of

from tuner.spaces.source.edits import apply_edit
from tuner.spaces.source.kinds import Refused
from tuner.spaces.source.regions import Program

KINDS = """\
struct own_cell { double v, w; };
typedef struct { int k; double far[2]; } own_about;
static struct own_cell own_cells[32];
static struct own_par { double dt; own_about a; } own_g;
static own_about own_here = {1, {2, 3}};
"""
FUNCTION = """\
void f(int n, const double *restrict b, double *restrict a)
{
    own_g.dt = b[0];
    own_g.a.k = 3;
    own_here.far[1] = b[1];
    for (int i = 0; i < 32; i++) {
        own_cells[i].v = b[i];
        own_cells[i].w = own_g.dt;
    }
    for (int i = 1; i < n; i++)
        own_cells[i].w += own_cells[i].v * own_here.far[1] + own_g.dt * own_cells[i - 1].v;
    for (int i = 0; i < 32; i++)
        a[i] = own_cells[i].w + own_g.a.k;
}
"""


def read(text: str) -> Program:
    """A program of one function, with the members read that operators know."""
    program = program_of(text, "f")
    try:
        return apply_edit(program, {"op": "read_members", "function": "f"})
    except Refused:
        return program


def test_their_members_are_read() -> None:
    found = edits_of(read(KINDS + FUNCTION))
    assert (found["strip_mine"], found["fission"]) == (3, 1)
    assert found["vectorize"] == 3


@needs.cc
@pytest.mark.integration
def test_variants_compute_the_same(tmp_path: Path) -> None:
    made = variants_of(read(KINDS + FUNCTION), 1, chains=4)
    assert len(made) > 20
    assert not same(program_of(KINDS + FUNCTION, "f"), "f", made, tmp_path, trials=20)


@pytest.mark.parametrize(
    ("before", "line"),
    [
        ("", "struct own_cell *p = &own_cells[2]; p->v = 1;"),
        ("", "struct own_cell *p = own_cells; p->v = 1;"),
        ("union both { struct { double v, w; } c; float x[4]; } u[32];", "u[1].c.v = b[1];"),
        ("struct bits { int one : 3, two; } s[32];", "s[1].one = 1;"),
        ("volatile struct own_cell x[32];", "x[1].v = 1;"),
        ("extern struct { double v; } *x;", "x[1].v = 1;"),
    ],
)
def test_what_may_be_reached_by_another_way_stays_text(before: str, line: str) -> None:
    loop = f"for (int i = 0; i < n; i++) {{ own_cells[i].w = b[i]; {line.split(';')[-2]}; }}"
    text = f"{KINDS}{before}\nvoid f(int n, const double *b, double *a)\n{{\n    {line}\n    {loop}\n}}\n"
    assert edits_of(read(text)).keys().isdisjoint({"fission", "reverse", "vectorize"})


def test_a_local_of_the_name_is_another_variable() -> None:
    """Here one that operators do not read."""
    local = "    struct { float v; int (*call)(void); } own_cells[32];\n    for"
    assert edits_of(read(KINDS + FUNCTION.replace("    for", local, 1)))["fission"] == 0
