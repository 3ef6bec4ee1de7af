"""Functions in C made up from a seed: loops, subscripts and types as a hostile or careless author may write them.

What they compute is defined where whole numbers wrap around, whatever the sizes from 0 to 16.
"""

from __future__ import annotations

import random

__all__ = ["made_kernel"]

_FLOATS = ("float", "float", "double")
_WHOLES = ("int", "unsigned", "short", "unsigned char", "long")
_COUNTERS = ("int",) * 8 + ("long", "short", "unsigned char")
_SIGNLESS = (*_COUNTERS, "unsigned", "size_t")


class _Maker:
    def __init__(self, seed: int, *, rows: bool = False) -> None:
        self.rng = random.Random(seed)
        self.lines: list[str] = []
        floats = self.rng.choice(_FLOATS)
        self.arrays = {"a": floats, "b": floats, "c": self.rng.choice(_FLOATS), "p": self.rng.choice(_WHOLES)}
        self.arrays["q"] = self.rng.choice(_WHOLES)
        self.read_only = {"b", "q"} if self.rng.random() < 0.7 else {"b"}
        # Beside numbers without sign nothing is below zero: it would be huge.
        self.counters = self.rng.choice((_COUNTERS, _SIGNLESS))
        self.sizes = {"n": self.rng.choice(self.counters[5:]), "m": "int"}
        self.locals: dict[str, str] = {}
        self.names = 0
        # Arrays whose rows are found by their addresses, and local pointers to a row with what they are of.
        self.tables = {n for n in ("a", "b", "c") if rows and self.rng.random() < 0.7} or (
            {"a"} if rows else set()
        )
        self.rows: dict[str, str] = {}

    def text(self) -> str:
        """The function ``f``."""
        params = [
            f"{'const ' if name in self.read_only else ''}{kind} {'**' if name in self.tables else '*'}{name}"
            for name, kind in self.arrays.items()
        ] + [f"{kind} {name}" for name, kind in self.sizes.items()]
        self.lines = []
        if self.rng.random() < 0.5:
            self.declare([], 1)
        for _ in range(self.rng.randint(1, 3)):
            self.nest([], 1)
        body = "\n".join(self.lines)
        return f"#include <stddef.h>\nvoid f({', '.join(params)})\n{{\n{body}\n}}\n"

    def emit(self, depth: int, line: str) -> None:
        self.lines.append("    " * depth + line)

    def fresh(self, stem: str) -> str:
        self.names += 1
        return f"{stem}{self.names}"

    def nest(self, counters: list[str], depth: int) -> None:
        """A loop with statements, and perhaps loops, in it."""
        rng = self.rng
        var = self.fresh("ijk"[min(len(counters), 2)])
        self.emit(depth, f"for ({self.head(var, counters)}) {{")
        inside = [*counters, var]
        saved, pointers = dict(self.locals), dict(self.rows)
        deeper = len(counters) < 2 and rng.random() < 0.6
        for _ in range(rng.randint(0 if deeper else 1, 2)):
            self.statement(inside, depth + 1)
        if deeper:
            if rng.random() < 0.3:
                self.guarded(inside, depth + 1)
            else:
                self.nest(inside, depth + 1)
            if rng.random() < 0.4:
                self.statement(inside, depth + 1)
        self.locals, self.rows = saved, pointers
        self.emit(depth, "}")

    def guarded(self, counters: list[str], depth: int) -> None:
        """A condition on a loop, and on variables of its own beside it."""
        saved, pointers = dict(self.locals), dict(self.rows)
        self.emit(depth, f"if ({self.question(counters)}) {{")
        for _ in range(self.rng.randint(0, 2)):
            self.statement(counters, depth + 1)
        self.nest(counters, depth + 1)
        if self.rng.random() < 0.4:
            self.statement(counters, depth + 1)
        self.locals, self.rows = dict(saved), dict(pointers)
        if self.rng.random() < 0.4:
            self.emit(depth, "} else {")
            self.declare(counters, depth + 1)
            self.assign(counters, depth + 1)
        self.locals, self.rows = saved, pointers
        self.emit(depth, "}")

    def head(self, var: str, counters: list[str]) -> str:
        rng = self.rng
        kind, signed = rng.choice(self.counters), self.counters is _COUNTERS
        outer = rng.choice(counters) if counters else "0"
        if rng.random() < 0.12 and kind in ("int", "long"):
            low = rng.choice(["0", "1", outer if signed else "2"])
            return f"{kind} {var} = {rng.choice(['m', '9'])}; {var} >= {low}; {var}--"
        start = rng.choice(
            ["0"] * 6 + ["1", "2", outer, f"{outer} + 1", "-1" if kind == "int" and signed else "0"]
        )
        below = "m - 1" if kind in ("int", "long", "short") else "m"
        limit = rng.choice(["n", "n", "m", "m", "7", below, f"{outer} + 2", "(m < 5 ? m : 5)"])
        step = "++" if rng.random() < 0.85 else " += 2"
        # Up to a limit and with it may never end in numbers without sign.
        op = "<=" if rng.random() < 0.15 and kind in ("int", "long") and limit != "n" else "<"
        return f"{kind} {var} = {start}; {var} {op} {limit}; {var}{step}"

    def subscript(self, counters: list[str]) -> str:
        """One that stays within what there is: a quarter of the cells before, three quarters behind."""
        rng = self.rng
        one = rng.choice(counters) if counters else "0"
        two = rng.choice(counters) if counters else "1"
        return rng.choice(
            [
                *[one] * 4,
                *[f"{one} * 20 + {two}"] * 4,
                *[f"{one} + {rng.randint(1, 3)}"] * 2,
                f"{one} * 20 + {two} + {rng.randint(1, 21)}",
                f"{one} * m + {two}",
                f"{one} + {two}",
                f"(unsigned char)({one} * 37)",
                f"{one} % 4",
                f"{one} * 4 + {two}",
                f"(int){one} - 1",
                "3",
            ]
        )

    def declare(self, counters: list[str], depth: int) -> None:
        rng = self.rng
        if self.tables and rng.random() < 0.4:
            table = rng.choice(sorted(self.tables))
            name, const = self.fresh("r"), "const " if table in self.read_only else ""
            steady = " *const " if rng.random() < 0.5 else " *"
            self.emit(depth, f"{const}{self.arrays[table]}{steady}{name} = {table}[{self.near(counters)}];")
            self.rows[name] = table
            return
        if rng.random() < 0.3:
            name = self.fresh("at")
            kind = rng.choice(
                ["const int", "const int", "int", "const unsigned char", "const short", "const long"]
            )
            self.emit(depth, f"{kind} {name} = {self.subscript(counters).replace('m', '17')};")
            if "const" in kind:
                self.locals[name] = "subscript"
            return
        if rng.random() < 0.15:
            name = self.fresh("few")
            self.emit(depth, f"float {name}[3];")
            for at in range(3):
                self.emit(depth, f"{name}[{at}] = {self.fraction(counters)};")
            self.locals |= {f"{name}[{at}]": "float" for at in range(3)}
            return
        name, kind = self.fresh("t"), rng.choice(["float", "float", "double", "int", "short"])
        value = self.fraction(counters) if kind in _FLOATS else self.whole(counters)
        self.emit(depth, f"{kind} {name} = {value};")
        self.locals[name] = kind

    def statement(self, counters: list[str], depth: int) -> None:
        rng = self.rng
        roll = rng.random()
        if roll < 0.22:
            self.declare(counters, depth)
        elif roll < 0.37:
            self.emit(depth, f"if ({self.question(counters)})")
            self.assign(counters, depth + 1)
            if rng.random() < 0.3:
                self.emit(depth, "else")
                self.assign(counters, depth + 1)
        else:
            self.assign(counters, depth)

    def question(self, counters: list[str]) -> str:
        rng = self.rng
        one = rng.choice(counters)
        return rng.choice(
            [
                f"{self.fraction(counters)} > 0.5f",
                f"{self.whole(counters)} > 20",
                f"{one} > 0",
                f"{one} + 1 < m",
                f"{one} > 0 && {self.element(counters, _FLOATS)} < 1.0f",
            ]
        )

    def assign(self, counters: list[str], depth: int) -> None:
        rng = self.rng
        values = [n for n, k in self.locals.items() if k != "subscript"]
        if values and rng.random() < 0.35:
            name = rng.choice(values)
            kind, target = self.locals[name], name
        else:
            name = rng.choice([a for a in self.arrays if a not in self.read_only])
            kind, target = self.arrays[name], self.cell(name, counters)
        if kind in _FLOATS:
            # Halved, so that nothing grows without end.
            value = self.fraction(counters)
            op = rng.choice(["=", "=", "+=", "-="])
            self.emit(depth, f"{target} {op} 0.25f * ({value});")
        elif rng.random() < 0.15:
            element = self.cell("b", counters)
            self.emit(depth, f"{target} {rng.choice(['=', '+='])} (int)({element} * 3.3f);")
        elif rng.random() < 0.15 and kind in ("int", "long"):
            self.emit(depth, f"{target} = ({target} & 1023) + {self.cell('b', counters)} * 1.7f;")
        else:
            op = rng.choice(["=", "+=", "+=", "-=", "^=", "*="])
            self.emit(depth, f"{target} {op} {self.whole(counters)};")

    def place(self, counters: list[str]) -> str:
        known = [n for n, k in self.locals.items() if k == "subscript"]
        if known and self.rng.random() < 0.4:
            return self.rng.choice(known)
        return self.subscript(counters)

    def element(self, counters: list[str], kinds: tuple[str, ...]) -> str:
        found = [a for a, k in self.arrays.items() if k in kinds]
        return self.cell(self.rng.choice(found), counters)

    def near(self, counters: list[str]) -> str:
        """A subscript that stays within a table's rows, and within a row."""
        one = self.rng.choice(counters) if counters else "0"
        two = self.rng.choice(counters) if counters else "1"
        more = self.rng.randint(1, 3)
        return self.rng.choice(
            [*[one] * 5, f"{one} + {more}", f"(int){one} - 1", f"{one} % 4", f"{one} + {two}", "3"]
        )

    def cell(self, name: str, counters: list[str]) -> str:
        if name in self.tables:
            known = [r for r, table in self.rows.items() if table == name]
            if known and self.rng.random() < 0.5:
                return f"{self.rng.choice(known)}[{self.near(counters)}]"
            return f"{name}[{self.near(counters)}][{self.near(counters)}]"
        return f"{name}[{self.place(counters)}]"

    def fraction(self, counters: list[str]) -> str:
        rng = self.rng
        terms = [self.element(counters, _FLOATS) for _ in range(rng.randint(1, 3))]
        values = [n for n, k in self.locals.items() if k in _FLOATS]
        if values and rng.random() < 0.5:
            terms.append(rng.choice(values))
        if counters and rng.random() < 0.2:
            terms.append(f"({rng.choice(counters)} % 5)")
        made = terms[0]
        for term in terms[1:]:
            made = f"{made} {rng.choice(['+', '-'])} {term}"
        return made

    def whole(self, counters: list[str]) -> str:
        rng = self.rng
        terms = [self.element(counters, _WHOLES), str(rng.randint(1, 9))]
        terms += [n for n, k in self.locals.items() if k in _WHOLES][:1]
        if counters:
            terms.append(rng.choice(counters))
        one, two = rng.choice(terms), rng.choice(terms)
        return f"({one} {rng.choice(['+', '-', '*', '&', '^'])} {two})"


def made_kernel(seed: int, *, rows: bool = False) -> str:
    """The text of a file with a function ``f``; with ``rows`` some of its arrays are pointers to their rows."""
    return _Maker(seed, rows=rows).text()
