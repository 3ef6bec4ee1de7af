"""Functions made up from a seed that take structures and call others, and a program that compares variants with them.

Everything that could write a member behind a function's back is drawn: calls that write members, by the structure, a
pointer in it, a global pointer, a pointer to a number, as a whole; recursion; two arguments that are one structure; a
member that points into its own structure. Sizes stay from 0 to 7 whatever happens.
"""

from __future__ import annotations

import random
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tuner.evaluators.host.toolchain import find_toolchain
from tuner.spaces.source.edits import Applied

__all__ = ["TYPES", "compared", "made_calls"]

TYPES = """#include <stddef.h>
#include <string.h>
typedef double own_real;
struct own_box { int lo, hi; own_real width[3]; };
typedef struct own_grid { int nx, ny, k; own_real dt, sum, *u, *next; const own_real *w; struct own_box in, *far; }
    own_grid;
"""
_READERS = """
static int own_at(const own_grid *g, int i, int j) { return i * g->ny + j; }
static own_real own_mean(const own_grid *g, int i) { return 0.5 * (g->next[i] + g->w[i]); }
static own_real own_sum(const own_grid *g)
{
    own_real sum = 0;
    int i = 0;
    while (i < g->nx) { sum += g->u[i]; i++; }
    return sum;
}
static int own_far(own_grid *g) { struct own_box *far = g->far; return far == NULL ? 0 : far->lo + g->in.hi; }
static void own_fill(own_grid *g, own_real v) { for (int i = 0; i < g->nx; i++) g->next[i] = v; }
static int own_down(own_grid *g, int n) { return n < 1 ? g->k : own_down(g, n - 1) + own_at(g, 1, 0); }
"""
_WRITERS = """
static own_grid *own_kept;
static int *own_number;
static struct own_box *own_inner;
void own_prepare(own_grid *g) { own_kept = g; own_number = &g->k; own_inner = &g->in; }
static void own_bump(own_grid *g) { g->nx = (g->nx + 1) & 7; }
static void own_swap(own_grid *g) { own_real *u = g->u; g->u = g->next; g->next = u; }
static void own_through(int *p) { *p = (*p + 3) & 7; }
static void own_global(void) { own_kept->ny = (own_kept->ny + 5) & 7; }
static void own_by_number(void) { *own_number = 2; }
static void own_by_inner(void) { struct own_box b = *own_inner; b.hi = 1; *own_inner = b; }
static void own_whole(own_grid *g, own_grid *o) { int n = o->ny; own_grid copy = *g; copy.nx = n; *g = copy; }
static void own_bytes(own_grid *g) { int *p = (int *)g; p[0] = 3; }
static void own_copied(struct own_box *b) { struct own_box c = {1, 2, {0.5, 1, 2}}; memcpy(b, &c, sizeof c); }
static own_grid *own_same(own_grid *g) { return g; }
static void own_result(own_grid *g) { own_same(g)->dt = 0.25; *own_same(g)->far = g->in; }
static void own_either(own_grid *g, own_grid *o) { (g->k > 2 ? g : o)->nx = 2; }
static void own_deep(own_grid *g, int n) { if (n > 0) own_deep(g, n - 1); else own_bump(g); }
static void own_pointer(void (*call)(own_grid *), own_grid *g) { call(g); }
"""
_READS = (
    "g->sum = own_sum(g);",
    "g->sum += own_far(g);",
    "own_fill(g, 0.5 * n);",
    "own_real s{0} = own_sum(g); g->u[0] += s{0};",
    "if (own_down(g, 3) > n) g->u[1] += 1;",
    "own_real *next = g->next; next[2] += own_mean(g, 3);",
)
_WRITES = (
    *("own_bump(o);", "own_bump(g);", "own_swap(g);", "own_through(&g->nx);", "own_through(&o->ny);"),
    *("own_global();", "own_by_number();", "own_by_inner();", "own_whole(g, o);", "own_bytes(g);"),
    *("own_copied(&g->in);", "own_copied(g->far);", "own_result(g);", "own_either(g, o);", "own_deep(o, 2);"),
    *("own_pointer(own_bump, g);", "{{ own_grid *q{0} = o; q{0}->nx = 1; }}", "*g->far = o->in;"),
    *("o->in.lo = (g->in.lo + 1) & 7;", "g->dt = 0.75;", "g->k++; g->k &= 7;"),
)
_DRIVER = """
static struct { own_grid g, o; struct own_box box; own_real cells[4][512]; } now, wanted;
static unsigned state;
static int draw(int below) { state = state * 1664525u + 1013904223u; return (int)((state >> 16) %% (unsigned)below); }
static void build(unsigned seed)
{
    memset(&now, 0, sizeof now);
    state = seed;
    for (int a = 0; a < 4; a++) for (int i = 0; i < 512; i++) now.cells[a][i] = (draw(2001) - 1000) / 256.0;
    own_grid *both[] = {&now.g, &now.o};
    for (int a = 0; a < 2; a++) {
        own_grid *g = both[a];
        g->nx = draw(8); g->ny = draw(8); g->k = draw(8); g->dt = draw(9) / 4.0; g->in.lo = draw(8); g->in.hi = draw(8);
        g->in.width[1] = draw(5); g->u = now.cells[0] + 64; g->next = now.cells[1] + 64; g->w = now.cells[2] + 64;
        g->far = draw(2) ? &now.box : &now.g.in;
    }
    now.box.lo = draw(8); now.box.hi = draw(8); now.box.width[0] = draw(7);
}
int main(void)
{
    for (unsigned trial = 0; trial < 60; trial++)
        for (int number = -1; number < %d; number++) {
            build(trial * 77u + 5u);
            int n = draw(8), same = %d && draw(3) == 0;
            prepares[number + 1](&now.g);
            runs[number + 1](&now.g, same ? &now.g : &now.o, n);
            if (number < 0) wanted = now;
            else if (memcmp(&now, &wanted, sizeof now)) return number + 1;
        }
    return 0;
}
"""


class _Maker:
    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.count = 0
        self.lines: list[str] = []
        self.writes = self.draw.sample(_WRITES, self.draw.choice([0, 0, 1, 1, 2]))

    def text(self) -> str:
        for _ in range(self.draw.randint(2, 4)):
            self._call(0.4)
            self._nest()
        self._call(0.6)
        body = "\n".join(f"    {line}" for line in self.lines)
        return f"{TYPES}{_READERS}{_WRITERS}void f(own_grid *g, own_grid *o, int n)\n{{\n{body}\n}}\n"

    def _call(self, chance: float) -> None:
        if self.draw.random() > chance:
            return
        self.count += 1
        line = self.draw.choice([*_READS, *self.writes, *self.writes]).format(self.count)
        # Scopes of their own, so that names do not clash.
        self.lines.append(f"{{ {line} }}" if "next" in line and self.draw.random() < 0.5 else line)
        if (
            "own_real *next" in line
            and not line.startswith("{")
            and sum("*next =" in k for k in self.lines) > 1
        ):
            self.lines[-1] = f"{{ {line} }}"

    def _nest(self) -> None:
        pick = self.draw.choice
        self.count += 1
        i, j = f"i{self.count}", f"j{self.count}"
        limit = pick(["g->nx", "g->ny", "o->nx", "g->in.hi", "g->far->lo", "n"])
        self.lines.append(f"for (int {i} = 0; {i} < {limit}; {i}++) {{")
        at = pick([f"own_at(g, {i}, {j})", f"{i} * g->ny + {j}", f"{j} * g->nx + {i}"])
        value = pick(
            [
                f"g->w[{at}] * g->dt",
                f"own_mean(g, {j})",
                "g->in.width[1] + o->in.lo",
                f"g->next[{i}]",
                "g->far->hi",
            ]
        )
        target = pick([f"g->u[{at}]", f"g->next[{at}]", f"g->u[{i}]"])
        self.lines.append(f"    for (int {j} = 0; {j} < {pick(['g->ny', 'o->ny', 'n', 'g->nx'])}; {j}++) {{")
        self.lines.append(f"        {target} {pick(['=', '+='])} {value};")
        if self.writes and self.draw.random() < 0.2:
            self.lines.append(f"        {pick(self.writes).format(f'{self.count}x')}")
        self.lines += ["    }", "}"]


def made_calls(seed: int) -> str:
    """The text of a file with a function ``f``."""
    return _Maker(seed).text()


def compared(text: str, variants: Sequence[Applied], folder: Path, *, one: bool) -> str:
    """What differs between the function of a text and its variants, in a process of their own; empty for nothing.

    Args:
        text: of :func:`made_calls`.
        variants: of its function.
        folder: to build in.
        one: whether both arguments may be one structure; what assumes separate buffers cannot have that.
    """
    parts = [text]
    for number, made in enumerate(variants):
        given = made.variant.files[0].text.removeprefix(TYPES)
        given = re.sub(r"\bown_(?!grid\b|box\b|real\b)\w+|\bf(?=\()", rf"\g<0>_{number}", given)
        parts += [f"#undef {p.name}" for p in made.parameters] + [given]
    names = ["", *(f"_{number}" for number in range(len(variants)))]
    parts.append(
        f"static void (*const prepares[])(own_grid *) = {{{', '.join(f'own_prepare{n}' for n in names)}}};"
    )
    runs = ", ".join(f"(void (*)(own_grid *, own_grid *, int))f{n}" for n in names)
    parts.append(f"static void (*const runs[])(own_grid *, own_grid *, int) = {{{runs}}};")
    source = folder / "calls.c"
    source.write_text("\n".join(parts) + _DRIVER % (len(variants), one))
    flags = ["-O2", "-w", "-ffp-contract=off", "-fno-strict-aliasing"]
    clang = [find_toolchain().clang, *flags, "-c", "-o", str(folder / "calls.o"), str(source)]
    subprocess.run(clang, check=True, timeout=300)
    link = [str(shutil.which("cc")), "-o", str(folder / "calls"), str(folder / "calls.o"), "-lm"]
    subprocess.run(link, check=True, timeout=300)
    ran = subprocess.run([str(folder / "calls")], timeout=120, check=False)
    return (
        ""
        if not ran.returncode
        else f"variant {ran.returncode - 1}: {variants[ran.returncode - 1].variant.edits}"
    )
