"""Kernels in OpenCL C made up from a seed: numbers of items, guards, loops and phases as careless authors write them.

Each item stores at places of its own or adds atomically; nothing is read or stored where there is nothing.
"""

from __future__ import annotations

import random

from same_device_results import Made

__all__ = ["made_device_kernel"]

_SIZES = ((5, 7), (8, 4), (13, 6), (1, 1), (9, 11), (33, 2))
_IDS = (*["const int"] * 5, "int", "const uint", "const size_t", "const long", "size_t")
_COUNTERS = (*["int"] * 6, "uint", "size_t", "long", "unsigned")


class _Maker:
    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.plane = self.rng.random() < 0.6
        self.before: list[str] = []
        self.lines: list[str] = []
        self.depth = 1
        self.names = 0
        self.arrays = {
            "a": ("float", "n * m"),
            "b": (self.rng.choice(["float", "float", "int", "uchar"]), "n * m"),
            "c": ("float", "n * m"),
            "p": ("int", "max(n, m)"),
            "q": ("int", "4"),
        }

    def made(self) -> Made:
        """The kernel with its launch."""
        rng = self.rng
        if self.plane:
            block = rng.choice([("8", "4"), ("16", "2"), ("7", "3"), ("4", "8")])
            grid = (f"ceil(n / {block[0]})", f"ceil(m / {block[1]})")
        else:
            size = rng.choice(["32", "16", "64", "13"])
            block = (size,)
            grid = (
                rng.choice([f"ceil(n / {size})", f"(n + {size} - 1) // {size}", f"ceil(n / {size}) + 1"]),
            )
        self.phased(block) if rng.random() < 0.2 else self.plain()
        params = ", ".join(
            f"__global {'const ' if name == 'b' else ''}{kind} *{name}"
            for name, (kind, _) in self.arrays.items()
        )
        head = "".join(f"{line}\n" for line in self.before)
        text = f"{head}__kernel void f({params}, int n, int m)\n{{\n" + "\n".join(self.lines) + "\n}\n"
        sizes = [{"n": n, "m": m} for n, m in rng.sample(_SIZES, 4)]
        return Made(text=text, arrays=self.arrays, sizes=sizes, grid=grid, block=block)

    def emit(self, line: str) -> None:
        self.lines.append("    " * self.depth + line)

    def fresh(self, stem: str) -> str:
        self.names += 1
        return f"{stem}{self.names}"

    def own(self) -> str:
        """The place that only this item stores at."""
        return "y * n + x" if self.plane else "x"

    def number(self, axis: int) -> str:
        """What numbers the items along an axis."""
        rng = self.rng
        call = f"get_global_id({axis})"
        roll = rng.random()
        if roll < 0.1:
            self.before.append(f"#define PLACE{axis} {call}")
            return f"PLACE{axis}"
        if roll < 0.15:
            self.before.append(f"int place{axis}(void) {{ return {call}; }}")
            return f"place{axis}()"
        if roll < 0.3:
            return f"(int){call}"
        return f"get_group_id({axis}) * get_local_size({axis}) + get_local_id({axis})" if roll < 0.4 else call

    def plain(self) -> None:
        """Items that do not wait for one another."""
        rng = self.rng
        self.emit(f"{rng.choice(_IDS)} x = {self.number(0)};")
        if self.plane:
            self.emit(f"{rng.choice(_IDS)} y = {self.number(1)};")
        if rng.random() < 0.3:
            self.emit(f"const int width = {rng.choice(['n', 'n - 1', 'n / 2', 'min(n, m)'])};")
            limit = "width"
        else:
            limit = rng.choice([*["n"] * 6, "min(n, m)", "n - 1", "(n + 1) / 2"])
        signed = "(int)" if rng.random() < 0.2 else ""
        inside = [f"{signed}x < {limit}"] + ([f"{signed}y < m"] if self.plane else [])
        if limit != "n":
            inside.append("(int)x < n")
        inside += [self.guard() for _ in range(rng.choice([0, 0, 0, 0, 1, 2]))]
        closing = 0
        for condition in self.grouped(inside):
            if rng.random() < 0.6 and not closing:
                self.emit(f"if (!({condition})) return;" if rng.random() < 0.2 else self.turned(condition))
            else:
                self.emit(f"if ({condition}) {{")
                self.depth += 1
                closing += 1
        self.work()
        for _ in range(closing):
            self.depth -= 1
            self.emit("}")

    def grouped(self, conditions: list[str]) -> list[str]:
        if self.rng.random() < 0.5:
            return [" && ".join(conditions)]
        return conditions

    def turned(self, condition: str) -> str:
        """An early end, by the opposites."""
        opposite = " || ".join(
            f"!({part})" if "<" not in part else _opposite(part) for part in condition.split(" && ")
        )
        if self.rng.random() < 0.15:
            self.before.append(f"#define OUTSIDE {opposite}")
            opposite = "OUTSIDE"
        return f"if ({opposite}) return;"

    def guard(self) -> str:
        rng = self.rng
        choices = ["m > 3", "n != 8", "(p[x] & 1)", "a[x] < 1.5f", "x % 3", "b[x] < 30", "a[x]", "x > 0"]
        if self.plane:
            choices += ["(int)(x + y) < n + m - 2", "(p[y] & 2)", "y != x"]
        return rng.choice(choices)

    def work(self) -> None:
        rng = self.rng
        value = self.early() if rng.random() < 0.4 else "1"
        results = []
        for _ in range(rng.choice([1, 1, 2])):
            results.append(self.loop(value))
        if rng.random() < 0.15:
            self.emit("atomic_add(&q[x % 2], 1);")
        self.emit(f"c[{self.own()}] {rng.choice(['=', '=', '+='])} {' + '.join(results)};")

    def early(self) -> str:
        """A value made before the loops."""
        name = self.fresh("v")
        kind = self.rng.choice(["const float", "float", "const int"])
        made = self.rng.choice(
            [
                *(f"a[{self.own()}]", f"*(a + {self.own()})", "a[x] * 0.5f", "b[x] + 1", "x * 2"),
                *(
                    "10 / (p[x] + 1)",
                    "atomic_add(&q[3], 1) * 0",
                    "(float)(n - x)",
                    "100 / (int)(n - x)",
                    "n / m",
                    "(x < 3 ? a[x] : 2.0f)",
                ),
            ]
        )
        self.emit(f"{kind} {name} = {made};")
        return name

    def loop(self, value: str) -> str:
        rng = self.rng
        sum_, k = self.fresh("sum"), self.fresh("k")
        self.emit(
            f"{rng.choice(['float', 'float', 'float', 'int'])} {sum_} = {rng.choice(['0', '0', value])};"
        )
        if rng.random() < 0.1:
            self.emit(f"{sum_} += x & 1;")
        kind = rng.choice(_COUNTERS)
        start = rng.choice(["0", "0", "0", "0", "1", "2", "x"])
        limits = {
            "n": "n",
            "m": "m",
            "5": "5",
            "n - 1": "n",
            "p[0] % n": "n",
            "x": "n",
            "m - 1": "m",
            "FEW": "m",
        }
        limit = rng.choice(list(limits))
        if limit == "FEW":
            self.before.append(
                rng.choice(["#define FEW (m - 1)", "#define FEW m - 1", "#define FEW (m / 2)"])
            )
            if kind not in ("int", "long"):
                limit = "m"
        if kind not in ("int", "long") and "-" in limit:
            limit = limits[limit]
        below = limits[limit]
        declared = rng.random() < 0.15
        if declared:
            self.emit(f"{kind} {k};")
        step = rng.choice(["++", "++", "++", " += 2"])
        head = f"{'' if declared else kind + ' '}{k} = {start}; {k} < {limit}; {k}{step}"
        if rng.random() < 0.1:
            self.lines.append("#pragma unroll 2")
        self.emit(f"for ({head}) {{")
        self.depth += 1
        self.body(sum_, k, below, value)
        self.depth -= 1
        self.emit("}")
        return sum_

    def body(self, sum_: str, k: str, below: str, value: str) -> None:
        rng = self.rng
        element = self.element(k, below)
        roll = rng.random()
        if roll < 0.15:
            self.emit(f"if ((int){k} % 2 == 0) {sum_} += {element};")
        elif roll < 0.25:
            self.emit(f"const float t = {element};")
            self.emit(f"{sum_} += t * {value};")
        elif roll < 0.35:
            self.emit(f"{sum_} = {element} > {sum_} ? {element} : {sum_};")
        elif roll < 0.42:
            self.emit(f"{sum_} += {element};")
            self.emit(
                rng.choice(["atomic_inc(q);", f"c[{self.own()}] = {sum_};", f"*(c + {self.own()}) = 1.0f;"])
            )
        elif roll < 0.5:
            self.emit(f"{sum_} += ({k} - 1 < 3 ? {element} : {value});")
        else:
            factor = rng.choice([value, "a[x]", "2", f"(int){k}", self.element(k, below)])
            self.emit(f"{sum_} += {element} * {factor};")

    def element(self, k: str, below: str) -> str:
        """An element of ``b`` that is there where the counter is below a size."""
        rng = self.rng
        if below == "5":
            return rng.choice(
                [
                    f"(x + {k} < n ? b[x + {k}] : 0)",
                    f"((int){k} < n ? b[{k}] : 1)",
                    f"(x + {k} < n && b[x + {k}] > 10 ? 1 : 0)",
                ]
            )
        row = "y" if self.plane else "0"
        if below == "n":
            choices = [
                f"b[{row} * n + {k}]",
                f"b[{k}]",
                f"b[(n - 1) - {k}]",
                f"b[{k} + {row} * n]",
                f"b[{k} * m]",
            ]
            if rng.random() < 0.1:
                self.before.append(f"#define ROW ({row} * n)")
                choices = [f"b[ROW + {k}]"]
            return rng.choice(choices)
        return rng.choice(
            [f"b[{k} * n + x]", f"b[x + n * {k}]", f"b[{k} * n]", f"b[{k}]", f"b[{k} * n + x / 2]"]
        )

    def phased(self, block: tuple[str, ...]) -> None:
        """Items that share memory and wait for one another."""
        rng = self.rng
        count = " * ".join(block)
        last = "get_local_id(1) * get_local_size(0) + get_local_id(0)" if self.plane else "get_local_id(0)"
        self.emit(f"__local float t[{count}];")
        self.emit(
            f"const int x = get_global_id(0){', y = get_global_id(1)' if self.plane else ''}, l = {last};"
        )
        inside = "x < n && y < m" if self.plane else "x < n"
        self.emit(f"const int inside = {inside};")
        self.emit("float sum = 0.0f;")
        loop = rng.random() < 0.6
        if loop:
            self.emit(f"for (int r = 0; r < {rng.choice(['min(m, 4)', '3', '2'])}; r++) {{")
            self.depth += 1
        self.emit(f"t[l] = inside ? a[{self.own()}] + {'r' if loop else '1'} : 0.0f;")
        self.emit("barrier(CLK_LOCAL_MEM_FENCE);")
        self.emit(f"for (int j = 0; j < {count}; j++) sum += t[j] * {rng.choice(['j', '2.0f', 't[l]'])};")
        if rng.random() < 0.5:
            self.emit(f"for (int j = 0; j < {count}; j++) if (j < l) sum -= t[j];")
        if loop:
            self.emit("barrier(CLK_LOCAL_MEM_FENCE);")
            self.depth -= 1
            self.emit("}")
        self.emit(f"if (inside) c[{self.own()}] = sum;")


def _opposite(comparison: str) -> str:
    left, right = comparison.split(" < ")
    return f"{left} >= {right}"


def made_device_kernel(seed: int) -> Made:
    """A kernel ``f`` over four arrays and two sizes."""
    return _Maker(seed).made()
