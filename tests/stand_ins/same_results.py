"""A function and its variants in one process of their own, on sizes and values drawn there, compared bit for bit."""

from __future__ import annotations

import contextlib
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import numpy as np

from tuner.core.types import Kernel, Source, Variant
from tuner.evaluators.host.toolchain import find_toolchain
from tuner.search.cooking import Attempt, try_operator
from tuner.spaces.source.edits import Applied, EditRefused, applied, apply_edits
from tuner.spaces.source.kinds import plain_type
from tuner.spaces.source.operators import OPERATORS
from tuner.spaces.source.regions import Program, read_program
from tuner.spaces.source.syntax import Param

CC = shutil.which("cc")
DRIVER = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
enum { CELLS = 1 << 13, BYTES = CELLS * 8, MOST = %(most)d };
static unsigned state = 7u;
static int draw(int below) { state = state * 1664525u + 1013904223u; return (int)((state >> 16) %% (unsigned)below); }
static _Alignas(64) char given[%(arrays)d][BYTES], wanted[%(arrays)d][BYTES], found[%(arrays)d][BYTES];
int main(void)
{
    for (int trial = 0; trial < %(trials)d; trial++) {
        int s[8], v[MOST];
        for (int k = 0; k < 8; k++) s[k] = draw(4) ? draw(17) : draw(3);
        %(fill)s
        memcpy(wanted, given, sizeof wanted);
        original(%(wanted)s);
        for (int number = 0; number < %(variants)d; number++) {
            memcpy(found, given, sizeof found);
            for (int k = 0; k < MOST; k++) tunable[k] = v[k] = 1 + draw(draw(2) ? 3 : 12);
            variants[number](%(found)s);
            if (memcmp(found, wanted, sizeof found)) {
                printf("variant %%d differs at sizes", number);
                for (int k = 0; k < 8; k++) printf(" %%d", s[k]);
                for (int k = 0; k < MOST; k++) printf(" v%%d", v[k]);
                return 1;
            }
        }
    }
    return 0;
}
"""
STRIPS = {
    "op": "strip_mine",
    "function": "f",
    "loops": ["i"],
    "parameters": [{"name": "T", "values": [4], "default": 4}],
}
"""An edit that every loop takes which operators read."""
PLAIN = ("-ffp-contract=off",)
WRAPPING = ("-ffp-contract=off", "-fwrapv")
"""Whole numbers wrap around: what is made up may overflow."""
FUSED = ("-ffp-contract=on", "-mfma")
"""A product and the sum that it is in are rounded once, as clang does by itself where the processor can."""


def program_of(text: str, name: str, language: str = "c") -> Program:
    """One function."""
    variant = Variant(files=(Source(name="f.c" if language == "c" else "f.cpp", text=text),))
    return read_program(Kernel(name=name, entry=name, language=language, variant=variant, folder="."))


def edits_of(program: Program) -> Counter[str]:
    """How often each operator applies."""
    found = Counter[str]()
    for label, function in program.functions.items():
        for name, operator in OPERATORS.items():
            if not operator.checked or program.language not in operator.languages:
                continue
            for site in operator.sites(function, False):
                try:
                    apply_edits(program, [{"op": name, "function": label, **site}])
                except EditRefused:
                    continue
                found[name] += 1
    return found


def variants_of(program: Program, seed: int, *, chains: int = 4) -> list[Applied]:
    """Every checked operator wherever it applies, and some after each other."""
    found: list[Applied] = []
    names = [n for n, o in OPERATORS.items() if o.checked and program.language in o.languages]
    for label, function in program.functions.items():
        for name in names:
            for site in OPERATORS[name].sites(function, False):
                with contextlib.suppress(EditRefused):
                    found.append(apply_edits(program, [{"op": name, "function": label, **site}]))
    rng = np.random.default_rng(seed)
    for _ in range(chains):
        attempt = Attempt(program=program, edits=(), rng=rng, reassociate=False)
        for name in rng.choice(names, 6):
            attempt = try_operator(attempt, str(name)) or attempt
        found.append(applied(attempt.program, attempt.edits))
    return found


def same(
    program: Program,
    name: str,
    variants: Sequence[Applied],
    folder: Path,
    *,
    trials: int,
    how: Sequence[str] = PLAIN,
    fills: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """What differs between a function and its variants in a process of their own; empty when nothing does.

    Args:
        program: arrays of any type of numbers, flat or of rows by their addresses, and numbers, which are sizes.
        name: the function's.
        variants: of it.
        folder: to build in.
        trials: sizes and values that are drawn.
        how: flags of the compiler.
        fills: statements that give values to ``one`` structure, by the structure's type.
    """
    params = program.functions[name].params
    arrays = [p for p in params if p.is_array]
    most = max([len(v.parameters) for v in variants], default=0) or 1

    def call(buffers: str) -> str:
        # Pointers into the middle, so that rows beyond the first one exist.
        places = iter(range(8))
        given = [
            _given(p, f"{buffers}[{arrays.index(p)}]", fills) if p.is_array else f"s[{next(places)}]"
            for p in params
        ]
        return ", ".join(given)

    text = [f"static int tunable[{most}];", f"#define {name} original", program.sources()[0].text]
    for number, made in enumerate(variants):
        text += [f"#undef {name}", f"#define {name} variant_{number}"]
        for at, tunable in enumerate(made.parameters):
            # Those have to be constants: vectors short enough to be filled, the buffer as it is.
            lanes = str(tunable.values[number % len(tunable.values)])
            known = {
                "WIDTH": "4",
                "CELLS": str(tunable.default),
                "LANES": lanes,
                "UNROLL": "3",
                "INTERLEAVE": "2",
            }
            fixed = known.get(tunable.name.split("_")[0])
            text += [f"#undef {tunable.name}", f"#define {tunable.name} {fixed or f'tunable[{at}]'}"]
        # Types of vectors and tables are of the file, and may differ.
        text.append(re.sub(r"\b(?:float|double|own)_\w+", rf"\g<0>_{number}", made.variant.files[0].text))
    kinds = ", ".join(_passed(p) for p in params)
    # Some promise more of their pointers than the original does.
    names = ", ".join(f"(void (*)({kinds}))variant_{n}" for n in range(len(variants)))
    text.append(f"static void (*const variants[])({kinds}) = {{{names}}};")
    shape = {
        "most": most,
        "arrays": len(arrays),
        "trials": trials,
        "fill": " ".join(_filled(k, _type(p), fills) for k, p in enumerate(arrays)),
        "wanted": call("wanted"),
        "found": call("found"),
        "variants": len(variants),
    }
    source, made_of = folder / program.sources()[0].name.replace("f.", "both."), folder / "both.o"
    source.write_text("\n".join(text) + DRIVER % shape)
    options = ["-O2", "-w", *how]
    if how == PLAIN and not any("vectorize" in v.variant.files[0].text for v in variants):
        # Traps keep the compiler from making vectors, in which lanes that wait for each other would show.
        options += ["-fsanitize=undefined", "-fno-sanitize=function", "-fsanitize-trap=undefined"]
    clang = [find_toolchain().clang, *options, "-c", "-o", str(made_of), str(source)]
    subprocess.run(clang, check=True, timeout=300)
    program_file = str(folder / "both")
    subprocess.run([str(CC), "-o", program_file, str(made_of), "-lm"], check=True, timeout=300)
    ran = subprocess.run([program_file], capture_output=True, text=True, timeout=300, check=False)
    return ran.stdout or (f"ended with {ran.returncode}" if ran.returncode else "")


def _type(param: Param) -> str:
    return plain_type(param.base)


def _passed(param: Param) -> str:
    """A parameter's type as the function has it."""
    return f"{param.base} {'*' * max(param.stars, 1)}" if param.is_array else param.base


def _given(param: Param, buffer: str, fills: Mapping[str, str]) -> str:
    kind = _type(param)
    if param.stars == 2:
        rows = f"static {kind} *t[60]; for (int r = 0; r < 60; r++) t[r] = ({kind} *){buffer} + 70 * r + 20;"
        return f"({{ {rows} ({_passed(param)})(t + 4); }})"
    middle = f"BYTES / 4 / (int)sizeof({kind})" if kind in fills else "CELLS / 4"
    return f"({kind} *){buffer} + {middle}"


def _filled(number: int, kind: str, fills: Mapping[str, str]) -> str:
    """Statements that give an array values: such that sums of floats are exact, and whole ones small."""
    if kind in fills:
        one = f"{kind} *one = ({kind} *)given[{number}] + at;"
        return f"for (int at = 0; at < BYTES / (int)sizeof({kind}); at++) {{ {one} {fills[kind]} }}"
    value = "(draw(2001) - 1000) / 256.0f" if kind in ("float", "double") else "draw(100)"
    return (
        f"for (int at = 0; at < BYTES / (int)sizeof({kind}); at++) (({kind} *)given[{number}])[at] = {value};"
    )
