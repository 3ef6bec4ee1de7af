"""Loops with parameters as bounds, made up from a seed: versions of them, conditions around them, and a ``switch``.

Each variant is compiled beside the original and compared bit for bit on sizes that meet the conditions and on others.
"""

from __future__ import annotations

import contextlib
import random
from pathlib import Path

import needs
import numpy as np
import pytest
from same_results import PLAIN, program_of, same

from tuner.search.cooking import Attempt, try_operator
from tuner.search.opening import opened
from tuner.spaces.source.edits import Applied, EditRefused, applied, apply_edit, apply_edits
from tuner.spaces.source.operators import OPERATORS, Refused

OURS = {"assume_rows", "heed_conditions", "cases_to_branches"}
SIZES = ("pitch", "wide", "n", "m", "halo", "off")


class Maker:
    """Writes one function from a seed."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.nests = 0
        kinds = ["int"] * 4 + ["long", "short", "unsigned short"]
        self.kinds = {name: self.draw.choice(kinds) for name in SIZES}
        self.names = {name: name for name in SIZES}
        self.lines: list[str] = []

    def text(self) -> str:
        pick = self.draw.choice
        for name in ("n", "m", "halo", "off"):
            if self.draw.random() < 0.4:
                # Sizes are drawn from 0: below that only so.
                self.lines.append(
                    f"{pick(['int', 'const long'])} {name}_ = {name} - {self.draw.randint(1, 9)};"
                )
                self.names[name] = f"{name}_"
        for _ in range(self.draw.randint(1, 2)):
            self._placed()
        params = [f"{pick(['float', 'double'])} *{name}" for name in "ab"] + ["const float *c"]
        params += [f"{self.kinds[name]} {name}" for name in SIZES]
        return f"void f({', '.join(params)})\n{{\n" + "\n".join(self.lines) + "\n}\n"

    def _placed(self) -> None:
        """A nest by itself, after a way out, in a branch, or in a case."""
        a, b = self._size(), self._size()
        test = self.draw.choice(
            [f"{a} < {b}", f"{a} < 1", f"{a} < 0 || {b} < 2", f"!({a} > 0 && {b} <= pitch)"]
        )
        match self.draw.randrange(5):
            case 0 | 1:
                self._nest()
            case 2:
                self.lines.append(f"if ({test}) return;")
                self._nest()
            case 3:
                self.lines.append(f"if ({test}) {{")
                self._nest()
                self.lines.append("} else {")
                self._nest()
                self.lines.append("}")
            case _:
                self.lines.append(f"switch ({a} % 3) {{ case 1: case -2:")
                self._nest()
                self.lines.append("break; default:")
                self._nest()
                self.lines.append("}")

    def _size(self) -> str:
        return self.names[self.draw.choice(SIZES)]

    def _nest(self) -> None:
        pick = self.draw.choice
        self.nests += 1
        i, j = f"i{self.nests}", f"j{self.nests}"
        halo, off = self.names["halo"], self.names["off"]
        for counter in (i, j):
            start = pick(["0", "1", halo, off, f"{halo} + 1"])
            end = pick([self._size(), f"{self._size()} - 1", f"{self._size()} - {halo}"])
            op = "<" if " " in end else pick(["<", "<="])
            self.lines.append(f"for (int {counter} = {start}; {counter} {op} {end}; {counter}++) {{")
        pitch = pick(["pitch", "pitch", "wide", "(pitch + 3)"])
        for _ in range(self.draw.randint(1, 2)):
            place, other = (
                f"{pick([i, f'({i} + 1)', f'({i} + {off})'])} * {pitch} + {j}{pick(['', '', ' + 1', f' - {halo}'])}"
                for _ in range(2)
            )
            made = f"0.25f * {pick('abc')}[{other}] + c[{i} * {pitch} + {j}]"
            self.lines.append(f"{pick('ab')}[{place}] {pick(['=', '+='])} {made};")
        self.lines.append("}}")


def variants(text: str, seed: int) -> list[Applied]:
    """The function opened, each operator wherever it applies then, and some after each other."""
    rng = np.random.default_rng(seed)
    start = Attempt(program=program_of(text, "f"), edits=(), rng=rng, reassociate=False)
    base = opened(start, {})
    if base is None or OURS.isdisjoint(e["op"] for e in base.edits):
        return []
    found = [applied(base.program, base.edits)]
    names = [n for n, o in OPERATORS.items() if o.checked and not o.opens and "c" in o.languages]
    for name in names:
        for site in OPERATORS[name].sites(base.program.functions["f"], False):
            edit = {"op": name, "function": "f", **site}
            with contextlib.suppress(Refused):
                found.append(applied(apply_edit(base.program, edit), (*base.edits, edit)))
    for _ in range(3):
        attempt = base
        for name in rng.choice(names, 6):
            attempt = try_operator(attempt, str(name)) or attempt
        found.append(applied(attempt.program, attempt.edits))
    return found


@pytest.mark.integration
@needs.cc
def test_variants_give_the_same_whatever_the_sizes(tmp_path: Path) -> None:
    made = ((text, variants(text, 1)) for text in (Maker(1000 + at).text() for at in range(40)))
    text, found = next((text, found) for text, found in made if found)
    with contextlib.suppress(EditRefused):
        # What is proposed is what a record holds.
        assert (
            apply_edits(program_of(text, "f"), found[-1].variant.edits).variant.files
            == found[-1].variant.files
        )
    assert same(program_of(text, "f"), "f", found, tmp_path, trials=100, how=PLAIN) == "", text
