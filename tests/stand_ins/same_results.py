"""A function and its variants in one process of their own, on sizes and values drawn there, compared bit for bit."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tuner.core.types import Kernel, Source, Variant
from tuner.evaluators.host.toolchain import find_toolchain
from tuner.spaces.source.edits import Applied
from tuner.spaces.source.regions import Program, read_program

CC = shutil.which("cc")
DRIVER = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
enum { CELLS = 1 << 13, MOST = %d };
static unsigned state = %du;
static int draw(int below) { state = state * 1664525u + 1013904223u; return (int)((state >> 16) %% (unsigned)below); }
static float given[%d][CELLS], wanted[%d][CELLS], found[%d][CELLS];
int main(void)
{
    for (int trial = 0; trial < %d; trial++) {
        int s[8], v[MOST];
        for (int k = 0; k < 8; k++) s[k] = draw(4) ? draw(17) : draw(3);
        for (int k = 0; k < %d; k++) {
            for (int at = 0; at < CELLS; at++) given[k][at] = (float)(draw(2001) - 1000) / 256.0f;
            memcpy(wanted[k], given[k], sizeof wanted[k]);
        }
        original(%s);
        for (int number = 0; number < %d; number++) {
            memcpy(found, given, sizeof found);
            for (int k = 0; k < MOST; k++) tunable[k] = v[k] = 1 + draw(draw(2) ? 3 : 12);
            variants[number](%s);
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


def program_of(text: str, name: str) -> Program:
    """One function."""
    variant = Variant(files=(Source(name="f.c", text=text),))
    return read_program(Kernel(name=name, entry=name, language="c", variant=variant, folder="."))


def same(program: Program, name: str, variants: Sequence[Applied], folder: Path, *, trials: int) -> str:
    """What differs between a function and its variants in a process of their own; empty when nothing does."""
    params = program.functions[name].params
    arrays = [p.name for p in params if p.is_array]
    most = max([len(v.parameters) for v in variants], default=0) or 1

    def call(buffers: str) -> str:
        # Pointers into the middle, so that rows beyond the first one exist.
        places = iter(range(8))
        return ", ".join(
            f"{buffers}[{arrays.index(p.name)}] + CELLS / 4" if p.is_array else f"s[{next(places)}]"
            for p in params
        )

    text = [f"static int tunable[{most}];", f"#define {name} original", program.sources()[0].text]
    for number, made in enumerate(variants):
        text += [f"#undef {name}", f"#define {name} variant_{number}"]
        for at, tunable in enumerate(made.parameters):
            # Those have to be constants: vectors short enough to be filled, the buffer as it is.
            lanes = str(tunable.values[number % len(tunable.values)])
            known = {"WIDTH": "4", "CELLS": str(tunable.default), "LANES": lanes}
            fixed = known.get(tunable.name.split("_")[0])
            text += [f"#undef {tunable.name}", f"#define {tunable.name} {fixed or f'tunable[{at}]'}"]
        # Types of vectors and tables are of the file, and may differ.
        text.append(re.sub(r"\b(?:float|own)_\w+", rf"\g<0>_{number}", made.variant.files[0].text))
    kinds = ", ".join(
        "const float *" if "const" in p.text else "float *" if p.is_array else "int" for p in params
    )
    names = ", ".join(f"variant_{n}" for n in range(len(variants)))
    text.append(f"static void (*const variants[])({kinds}) = {{{names}}};")
    count = len(arrays)
    shape = (most, 7, count, count, count, trials, count, call("wanted"), len(variants), call("found"))
    source, made_of = folder / "both.c", folder / "both.o"
    source.write_text("\n".join(text) + DRIVER % shape)
    options = ["-O2", "-ffp-contract=off", "-w"]
    if not any("vectorize" in v.variant.files[0].text for v in variants):
        # Traps keep the compiler from making vectors, in which lanes that wait for each other would show.
        options += ["-fsanitize=undefined", "-fsanitize-trap=undefined"]
    clang = [find_toolchain().clang, *options, "-c", "-o", str(made_of), str(source)]
    subprocess.run(clang, check=True, timeout=300)
    program_file = str(folder / "both")
    subprocess.run([str(CC), "-o", program_file, str(made_of)], check=True, timeout=300)
    ran = subprocess.run([program_file], capture_output=True, text=True, timeout=300, check=False)
    return ran.stdout or (f"ended with {ran.returncode}" if ran.returncode else "")
