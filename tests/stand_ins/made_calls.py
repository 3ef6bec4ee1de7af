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

from same_results import PLAIN

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
_ACCESSORS = """
static own_real own_point(const own_grid *g, int i, int j) { return g->next[own_at(g, i, j)]; }
static own_real own_again(const own_grid *u, int i) { return (*u).u[i] * (*u).dt + u->w[i]; }
static own_real own_five(const own_grid *g, int i, int j)
{
    return (own_point(g, i, j) + own_point(g, i, j + 1) - 2 * own_point(g, i + 1, j)) / (g->dt + 1) + g->w[i] * g->w[j];
}
static own_real own_clamped(const own_grid *g, int i) { if (i < 0 || i >= g->nx) return 0.0; return g->w[i]; }
static own_real own_stepped(const own_grid *g, int i)
{
    if (i < g->in.lo) return g->u[i];
    if (i > g->in.hi) { own_real v = g->w[i] * 0.5; return v * v + g->dt; }
    return i;
}
static int own_wrap(int i, int n) { return i < 0 ? i + n : i >= n ? i - n : i; }
static own_real own_around(const own_grid *g, int i, int j)
{
    return g->u[own_wrap(i, g->nx) * g->ny + own_wrap(j, g->ny)];
}
static int own_width(const own_grid *g) { return g->nx; }
static size_t own_place(const own_grid *g, size_t i, size_t j) { return i * g->ny + j; }
static int own_inside(const own_grid *g, int i, int j) { return i > 0 && i < g->nx && (j > 0 || g->u[i] < g->w[j]); }
static int own_low(const struct own_box *b) { return b->lo; }
static own_real own_part(struct own_box b, int k) { return b.width[k] * 0.5; }
static own_real own_second(struct own_box b) { b.lo += 1; b.width[1] += b.lo; return b.width[1]; }
static float own_narrow(const own_grid *g, int i) { return g->u[i] * 1.0e-3; }
static float own_single(const own_grid *g, int i) { return g->w[i]; }
static unsigned char own_byte(const own_grid *g, int i) { return i * 100 + g->k; }
static own_real own_square(own_real x) { return x * x; }
static own_real own_half(int i) { return i / 2; }
static void own_put(own_grid *g, int i, int j, own_real v) { g->u[own_at(g, i, j)] = v; }
static void own_add(own_grid *g, int i, own_real v) { g->next[i] += v; g->next[i] += v; }
static int own_next(own_grid *g) { g->k = (g->k + 1) & 7; return g->k; }
static void own_raise(struct own_box *b, int v) { b->lo = (v + 1) & 7; b->hi = v & 7; }
static void own_move(own_grid *g, int n, int m) { g->nx = m & 7; g->ny = n & 7; }
static void own_turn(own_grid *g, struct own_box *b, int v) { g->far = &g->in; b->lo = (v + b->hi) & 7; }
"""
_REFERRING = """
static int own_rat(const own_grid &g, int i, int j) { return i * g.ny + j; }
static own_real own_rpoint(const own_grid &g, const int &i, const int &j) { return g.next[own_rat(g, i, j)]; }
static own_real own_mixed(const own_real &a, const own_real &b, const own_real &t) { return a + t * (b - a); }
static void own_gather(own_real &s, const own_real &v) { s += v; s += v; }
static void own_limit(int &n, int m) { n = m & 7; n = (n + m) & 7; }
static void own_rput(own_grid &g, int i, own_real v) { g.u[i] = v; g.u[i + 1] += v; }
static void own_rmove(own_grid &g, const int &n) { g.nx = (n + 1) & 7; g.ny = n & 7; }
static void own_rraise(struct own_box &b, const struct own_box &c) { b.lo = (c.hi + 1) & 7; b.hi = c.lo & 7; }
static int own_counted(int &n) { n = (n + 1) & 7; return n; }
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
_USED = (
    "g->u[{i}] += own_five(g, {i}, {j});",
    "own_put(g, {i}, {j}, own_again(o, {j}));",
    "own_put(g, {j}, {i}, own_point(g, {i}, {j}) * g->dt + 1);",
    "own_add(o, {i}, own_clamped(g, {i} - 1) + own_clamped(o, {j} + 1));",
    "own_add(g, {i}, g->next[{i}]);",
    "g->next[{i}] = {j} > 0 ? own_point(g, {i}, {j} - 1) : own_narrow(g, {i});",
    "if ({i} > 1 && own_point(g, {i}, {j}) > own_single(g, {j})) g->u[{j}] = own_single(g, {i}) * 3;",
    "if (own_inside(g, {i}, {j})) g->u[own_place(g, {i}, {j})] = own_around(g, {i} - 1, {j} + 1);",
    "if (n > 2 || own_inside(o, {j}, {i})) o->u[{i}] = own_byte(g, {i}) + own_byte(o, n);",
    "g->u[{i}] = own_low(&g->in) + own_low(o->far) * own_part(g->in, {i} & 1) + own_part(*o->far, 1);",
    "g->u[{i}] = own_second(g->in) + own_part(g->in, 1) + own_second(*g->far);",
    "g->u[{i}] = own_square({j}) + own_square(g->w[{i}]) * g->dt + own_half({i} + 1);",
    "g->u[{i}] = own_square(own_point(g, {i}, {j})) * g->dt - own_stepped(g, {j});",
    "g->u[own_wrap({i} - 1, g->nx) + {j}] += own_stepped(o, {i}) * own_stepped(g, {j}) + own_around(g, {j}, {i});",
    "for (int c{k} = 0; c{k} < own_width(g); c{k}++) g->u[c{k}] += own_again(g, c{k});",
    "for (int c{k} = own_low(&g->in); c{k} < own_width(o); c{k}++) {{ g->next[c{k}] = own_single(g, c{k}); }}",
    "{{ int u = {i}; own_real dt = own_again(g, u); g->u[u] = dt * own_again(o, {j}) + own_again(g, u); }}",
    "{{ own_grid *w = o; g->u[{i}] = own_again(w, {j}) + own_width(w); }}",
    "{{ struct own_box b = g->in; b.hi = own_low(&b) & 7; g->u[{i}] = b.hi + own_part(b, 2) + own_low(&b); }}",
)
_CHANGING = (
    "g->u[{i}] = own_next(g) + own_width(g) + own_next(o);",
    "g->u[{i}] = own_point(g, {i}, 0) + own_next(g) * (g->k + 1);",
    "if (n > 3 && own_next(g) > 2) g->u[own_next(o)] = 1;",
    "for (int c{k} = 0; c{k} < own_width(g); c{k}++) own_move(g, c{k} + 3, g->nx - 1);",
    "own_raise(&g->in, g->in.lo + 1);",
    "own_raise(g->far, g->far->hi);",
    "own_raise(o->far, own_low(o->far) + own_low(&g->in));",
    "own_move(g, g->nx, g->ny + 1);",
    "own_move(o, g->nx, own_width(o));",
    "own_turn(g, g->far, {i});",
    "own_turn(o, g->far, g->far->hi);",
    "{{ int c{k} = n; g->u[{i}] = own_point(g, c{k}++, 1) + n; }}",
    "{{ int c{k} = n; own_put(g, 1, n, c{k}++); g->u[c{k}] += 1; }}",
    "{{ int c{k} = {i}; g->u[{i}] = own_wrap(c{k} = (c{k} + 1) & 3, 2) + own_width(o); }}",
)
_USED_BY_REFERENCE = (
    "g->u[{i}] = own_rpoint(*g, {i}, {j} + 1) + own_mixed(g->u[{i}], {j}, g->dt);",
    "{{ own_real s = 0; own_gather(s, g->w[{i}]); own_gather(s, s); own_gather(s, s + 1); g->u[{j}] = s; }}",
    "own_gather(g->u[{i}], g->u[{i}]);",
    "own_gather(g->dt, g->dt);",
    "{{ int c = {i}; own_limit(c, c + 1); own_limit(c, c); own_gather(g->u[c], c); g->u[c] += 1; }}",
    "{{ int c = {i}; g->u[{j}] = own_counted(c) + c + own_half(c); }}",
    "{{ int c = {i}; g->u[c] = own_rpoint(*g, c, {j}) + own_counted(c); }}",
    "{{ own_grid &r = *g; own_rput(r, {i}, r.w[{j}]); own_rput(r, own_rat(r, 0, {i}), own_rpoint(r, {j}, n)); }}",
    "if (n > 1 && own_rpoint(*g, {i}, {j}) > own_mixed({i}, 2, 0.5)) own_rput(*o, {j}, {i});",
    "own_rmove(*g, g->nx);",
    "own_rmove(*o, g->ny + 1);",
    "own_limit(g->nx, g->nx);",
    "own_limit(g->in.lo, g->in.lo + 1);",
    "own_rraise(g->in, g->in);",
    "own_rraise(*g->far, g->in);",
    "own_rraise(o->in, *g->far);",
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
    def __init__(self, seed: int, language: str) -> None:
        self.draw = random.Random(seed)
        self.language = language
        self.count = 0
        self.lines: list[str] = []
        self.writes = self.draw.sample(_WRITES, self.draw.choice([0, 0, 1, 1, 2]))
        self.accessors: list[str] = []
        if language == "c++" or self.draw.random() < 0.7:
            self.accessors = self.draw.sample(_USED, 5) + self.draw.sample(
                _CHANGING, self.draw.choice([0, 0, 1, 2])
            )
            if language == "c++":
                self.accessors += self.draw.sample(_USED_BY_REFERENCE, 5)

    def text(self) -> str:
        for _ in range(self.draw.randint(2, 4)):
            self._call(0.4)
            self._nest()
            if self.accessors and self.draw.random() < 0.3:
                self.count += 1
                self.lines.append(self.draw.choice(self.accessors).format(i="n", j="3", k=self.count))
        self._call(0.6)
        body = "\n".join(f"    {line}" for line in self.lines)
        extra = _ACCESSORS + _REFERRING * (self.language == "c++") if self.accessors else ""
        return f"{TYPES}{_READERS}{extra}{_WRITERS}void f(own_grid *g, own_grid *o, int n)\n{{\n{body}\n}}\n"

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
        if not self.accessors or self.draw.random() < 0.4:
            self.lines.append(f"        {target} {pick(['=', '+='])} {value};")
        for _ in range(self.draw.randint(1, 2) if self.accessors else 0):
            self.count += 1
            self.lines.append(f"        {pick(self.accessors).format(i=i, j=j, k=self.count)}")
        if self.writes and self.draw.random() < 0.2:
            self.lines.append(f"        {pick(self.writes).format(f'{self.count}x')}")
        self.lines += ["    }", "}"]


def made_calls(seed: int, language: str = "c") -> str:
    """The text of a file with a function ``f``."""
    return _Maker(seed, language).text()


def compared(
    text: str,
    variants: Sequence[Applied],
    folder: Path,
    *,
    one: bool,
    language: str = "c",
    how: Sequence[str] = PLAIN,
) -> str:
    """What differs between the function of a text and its variants, in a process of their own; empty for nothing.

    Args:
        text: of :func:`made_calls`.
        variants: of its function.
        folder: to build in.
        one: whether both arguments may be one structure; what assumes separate buffers cannot have that.
        language: ``c`` or ``c++``.
        how: the compiler's flags that say how it rounds.
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
    source = folder / ("calls.c" if language == "c" else "calls.cpp")
    source.write_text("\n".join(parts) + _DRIVER % (len(variants), one))
    flags = ["-O2", "-w", *how, "-fno-strict-aliasing"]
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
