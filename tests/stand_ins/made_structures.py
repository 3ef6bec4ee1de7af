"""Functions made up from a seed whose arrays are of structures: members, copies of elements, local structures, lists.

What they compute is defined where whole numbers wrap around, whatever the sizes from 0 to 16.
"""

from __future__ import annotations

from made_kernels import _Maker

__all__ = ["FILLS", "made_structures"]

TYPES = """typedef struct { float u, v; } own_pair;
struct own_cell { float x; int k; own_pair p; float d[5]; short w, z; };
typedef struct { float lo, hi; } own_range;
static float own_mix(struct own_cell c, const struct own_cell *o) { float e = c.x - o->x; return 0.25f * e + c.d[1]; }
static float own_top(const own_range *q, int at) { if (q[at].lo > q[at].hi) return q[at].lo; return q[at].hi; }
static own_range own_turn(own_range q) { return (own_range){0.5f * q.hi, q.lo}; }
static void own_add(struct own_cell *c, float v) { c->x += v; c->k ^= 1; }
"""
FILLS = {
    "struct own_cell": "one->x = (draw(2001) - 1000) / 256.0f; one->k = draw(17); one->p.u = draw(9); "
    "for (int e = 0; e < 5; e++) one->d[e] = (draw(2001) - 1000) / 256.0f; "
    "one->p.v = draw(5); one->w = (short)draw(99); one->z = 0;",
    "own_range": "one->lo = (draw(2001) - 1000) / 256.0f; one->hi = draw(7);",
}
_MEMBERS = {
    "s.x": "float",
    "s.k": "int",
    "s.p.u": "float",
    "s.p.v": "float",
    "s.d": "float",
    "s.w": "short",
    "t.x": "float",
    "t.k": "int",
    "t.d": "float",
    "r.lo": "float",
    "r.hi": "float",
    "g->x": "float",
    "g->k": "int",
    "g->d": "float",
}


class _Members(_Maker):
    """With structures in the place of some arrays: ``s`` and ``t``, ``r``, one ``g``."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        kept = self.rng.sample(sorted(_MEMBERS), self.rng.randint(4, len(_MEMBERS)))
        self.arrays |= {name: _MEMBERS[name] for name in kept}
        self.read_only |= {name for name in kept if name[0] == "t"}
        if self.rng.random() < 0.6:
            self.read_only |= {name for name in kept if name[0] == "g"}

    def text(self) -> str:
        """The function ``f``."""
        plain = {n: k for n, k in self.arrays.items() if n not in _MEMBERS}
        params = [f"{'const ' if n in self.read_only else ''}{k} *{n}" for n, k in plain.items()]
        params += ["struct own_cell *s", "const struct own_cell *t", "own_range *r", "struct own_cell *g"]
        params += [f"{kind} {name}" for name, kind in self.sizes.items()]
        if self.rng.random() < 0.5:
            self.declare([], 1)
        for _ in range(self.rng.randint(1, 3)):
            self.nest([], 1)
        body = "\n".join(self.lines)
        return f"#include <stddef.h>\n{TYPES}void f({', '.join(params)})\n{{\n{body}\n}}\n"

    def cell(self, name: str, counters: list[str]) -> str:
        """An element, or a member of one."""
        if name not in _MEMBERS:
            return super().cell(name, counters)
        base, member = name.replace("->", ".").split(".", 1)
        inner = (
            f"[{self.rng.choice(['0', '2', f'({self.near(counters)} & 3)', '4'])}]" if member == "d" else ""
        )
        if base == "g":
            return f"{self.rng.choice(['g->', 'g->', 'g[0].', '(*g).'])}{member}{inner}"
        return f"{base}[{self.place(counters)}].{member}{inner}"

    def nest(self, counters: list[str], depth: int) -> None:
        """As without structures, or loops with nothing between them."""
        if counters or self.rng.random() < 0.5:
            super().nest(counters, depth)
            return
        inside: list[str] = []
        for _ in range(self.rng.randint(2, 3)):
            var = self.fresh("ijk"[len(inside)])
            self.emit(depth + len(inside), f"for ({self.head(var, [])}) {{")
            inside.append(var)
        saved = dict(self.locals)
        for _ in range(self.rng.randint(1, 3)):
            self.statement(inside, depth + len(inside))
        self.locals = saved
        for _ in inside:
            self.emit(depth, "}")

    def near(self, counters: list[str]) -> str:
        return self.rng.choice(counters) if counters else "1"

    def head(self, var: str, counters: list[str]) -> str:
        made = super().head(var, counters)
        if self.rng.random() < 0.12 and "g->k" in self.arrays:
            # From 0 to 16, unless the function changes it, so no further than that.
            limit = "g->k" if "g->k" in self.read_only else "(g->k & 15)"
            return f"int {var} = 0; {var} < {limit}; {var}++"
        return made

    def statement(self, counters: list[str], depth: int) -> None:
        """As without structures, or what takes a structure as a whole."""
        roll = self.rng.random()
        at, other = self.place(counters), self.place(counters)
        if roll < 0.14:
            self.emit(depth, f"s[{at}] = {self.rng.choice(['s', 't'])}[{other}];")
        elif roll < 0.18:
            self.emit(depth, f"s[{at}].p = t[{other}].p;")
        elif roll < 0.23:
            self.emit(depth, f"r[{at}] = r[{other}];")
        elif roll < 0.33:
            self.local_structure(counters, depth)
        elif roll < 0.39:
            self.list_of_values(counters, depth)
        elif roll < 0.46:
            calls = [
                f"a[{at}] = own_mix({self.rng.choice(['s', 't'])}[{other}], &s[{at}]);",
                f"a[{at}] = own_top(r, {other});",
                f"r[{at}] = own_turn(r[{other}]);",
                f"own_add(&s[{at}], 0.25f * {self.element(counters, ('float',))});",
            ]
            self.emit(depth, self.rng.choice(calls))
        else:
            super().statement(counters, depth)

    def local_structure(self, counters: list[str], depth: int) -> None:
        """A copy of an element, or one of its own with first values, that is changed and stored."""
        name = self.fresh("h")
        if self.rng.random() < 0.5:
            self.emit(depth, f"struct own_cell {name} = {self.rng.choice('st')}[{self.place(counters)}];")
            self.emit(depth, f"{name}.x += 0.25f * {name}.d[{self.near(counters)} & 3];")
            self.emit(depth, f"{name}.k ^= {self.near(counters)};")
            if self.rng.random() < 0.6:
                self.emit(depth, f"s[{self.place(counters)}] = {name};")
            else:
                self.emit(depth, f"s[{self.place(counters)}].x = {name}.x;")
            return
        first = self.rng.choice(["{0}", "{0.5f, -1.0f}", "{0.25f}"])
        self.emit(depth, f"own_range {name} = {first};")
        self.emit(depth, f"{name}.lo += 0.25f * {self.element(counters, ('float',))};")
        self.emit(depth, f"r[{self.place(counters)}] = {name};")

    def list_of_values(self, counters: list[str], depth: int) -> None:
        """A local array with first values."""
        name = self.fresh("l")
        one = self.element(counters, ("float",))
        first = self.rng.choice(["{0.0f}", "{0}", f"{{{one}, 2.0f}}", f"{{1.0f, {one}, 0.5f, -0.0f}}"])
        self.emit(depth, f"float {name}[4] = {first};")
        self.emit(
            depth, f"{name}[{self.near(counters)} & 3] += 0.25f * {self.element(counters, ('float',))};"
        )
        self.emit(depth, f"b2[{self.place(counters)}] = {name}[1] + {name}[3];".replace("b2", "a"))


def made_structures(seed: int) -> str:
    """The text of a file with a function ``f``."""
    return _Members(seed).text()
