"""A kernel in OpenCL C and its variants on Oclgrind (or PoCL without it), compared bit for bit at several sizes.

Oclgrind also says where a variant reads or writes out of bounds, races or lets items miss a barrier.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tuner.core.errors import SpecError
from tuner.core.expressions import parse
from tuner.core.types import Kernel, Launch, Source, Variant
from tuner.evaluators.opencl.oclgrind import first_finding
from tuner.search.cooking import Attempt, cook, try_operator
from tuner.search.recipes import DEVICE_RECIPES
from tuner.spaces.launch import geometry
from tuner.spaces.source.edits import Applied, EditRefused, applied, apply_edits
from tuner.spaces.source.operators import OPERATORS
from tuner.spaces.source.regions import Program, read_program

MOST_ITEMS = 256
_LIMIT_S = 60.0
_TYPES = {"float": "f4", "double": "f8", "int": "i4", "unsigned": "u4", "uchar": "u1", "short": "i2"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A kernel with all that running it needs.

    Attributes:
        text: of its file; the kernel is ``f``.
        arrays: its array parameters, in order and before its numbers: element type and how many elements.
        sizes: its numbers, in order, with the values that are tried.
        grid: and ``block``: of the launch.
    """

    text: str
    arrays: Mapping[str, tuple[str, str]]
    sizes: Sequence[Mapping[str, int]]
    grid: tuple[str, ...]
    block: tuple[str, ...]

    @property
    def launch(self) -> Launch:
        """Its launch."""
        return Launch(grid=tuple(map(parse, self.grid)), block=tuple(map(parse, self.block)))

    def program(self) -> Program:
        """As the operators see it."""
        variant = Variant(files=(Source(name="f.cl", text=self.text),))
        kernel = Kernel(name="f", entry="f", language="opencl", variant=variant, folder=".")
        return read_program(kernel, launch=self.launch)


def device_variants(program: Program, seed: int, *, reassociate: bool = False) -> list[Applied]:
    """Every checked operator wherever it applies, recipes, and some operators after each other."""
    found: list[Applied] = []
    names = [n for n, o in OPERATORS.items() if o.checked and program.language in o.languages]
    for label, function in program.functions.items():
        for name in names:
            for site in OPERATORS[name].sites(function, reassociate):
                edit: dict[str, Any] = {"op": name, "function": label, **site}
                if name == "restrict" and program.language == "cuda":
                    edit["language"] = "c++"
                with contextlib.suppress(EditRefused):
                    found.append(apply_edits(program, [edit]))
    rng = np.random.default_rng(seed)
    start = Attempt(program=program, edits=(), rng=rng, reassociate=reassociate)
    for steps in DEVICE_RECIPES.values():
        attempt = cook(steps, start)
        if attempt is not None:
            found.append(applied(attempt.program, attempt.edits))
    for _ in range(3):
        attempt = start
        for name in rng.choice(names, 5):
            attempt = try_operator(attempt, str(name)) or attempt
        found.append(applied(attempt.program, attempt.edits))
    return [v for v in {repr(v.variant.edits): v for v in found}.values() if v.checked and v.variant.edits]


def differing_variants(
    made: Made, variants: Sequence[Applied], seed: int, folder: Path, *, rounding: float = 0.0
) -> list[str]:
    """:func:`differing_kernels` of one."""
    return differing_kernels([(made, variants)], seed, folder, rounding=rounding)


def differing_kernels(
    kernels: Sequence[tuple[Made, Sequence[Applied]]], seed: int, folder: Path, *, rounding: float = 0.0
) -> list[str]:
    """What differs or goes wrong, a line for each; empty when nothing does.

    Args:
        kernels: each with variants of it; all run in one process.
        seed: of inputs and of the tunables' values.
        folder: to work in.
        rounding: how far floating-point results may lie apart.
    """
    tasks, told = [], []
    for made, variants in kernels:
        task, about = _task(made, variants, seed)
        tasks.append(task | {"rounding": rounding})
        told.append(about)
    (folder / "task.json").write_text(json.dumps(tasks))
    command = [sys.executable, __file__, str(folder)]
    try:
        ran = subprocess.run(
            command, capture_output=True, text=True, timeout=_LIMIT_S * len(tasks), check=False
        )
    except subprocess.TimeoutExpired:
        return ["a variant does not end"]
    found = [] if not ran.returncode else [f"ended with {ran.returncode}: {ran.stderr[-500:]}"]
    for line in ran.stdout.splitlines():
        which, number, what = json.loads(line)
        jobs: Any = tasks[which]["jobs"]
        found.append(f"{what}: {told[which][number]}\n{jobs[number]['text']}")
    return found


def _task(made: Made, variants: Sequence[Applied], seed: int) -> tuple[dict[str, Any], list[str]]:
    """What the process is to run, the kernel as it was first; and of each job what it is."""
    rng = np.random.default_rng(seed)
    jobs = [{"text": made.text, "values": {}, "launch": _launches(made, made.launch, {})}]
    about = [""]
    for variant in variants:
        for values in _values(variant, rng):
            try:
                launches = _launches(made, variant.variant.launch or made.launch, values)
            except SpecError:
                continue
            jobs.append({"text": variant.variant.files[0].text, "values": dict(values), "launch": launches})
            steps = [
                {k: v for k, v in e.items() if k not in ("function", "parameters")}
                for e in variant.variant.edits
            ]
            about.append(f"{steps} {dict(values)}")
    arrays = [
        [_TYPES[kind], [int(parse(count).evaluate(s)) for s in made.sizes]]
        for kind, count in made.arrays.values()
    ]
    task: dict[str, Any] = {
        "arrays": arrays,
        "sizes": [list(s.values()) for s in made.sizes],
        "jobs": jobs,
        "seed": seed,
    }
    return task, about


def _launches(made: Made, launch: Launch, values: Mapping[str, int]) -> list[tuple[list[int], list[int]]]:
    found = []
    for sizes in made.sizes:
        shape = geometry(launch, values, sizes)
        items = [g * b for g, b in zip(shape.grid, shape.block, strict=True)]
        if np.prod(shape.block) > MOST_ITEMS:
            raise SpecError("too many items", "fewer")
        found.append((items, list(shape.block)))
    return found


def _values(variant: Applied, rng: np.random.Generator) -> Iterator[Mapping[str, int]]:
    """Defaults or a draw, of those that the constraints allow."""
    names = [p.name for p in variant.parameters]
    drawn = [{p.name: p.default for p in variant.parameters}]
    for _ in range(8):
        drawn.append({p.name: int(rng.choice(p.values)) for p in variant.parameters})
    kept = [
        v
        for v in drawn
        if all(parse(c).evaluate(v) for c in variant.constraints if parse(c).names <= set(names))
    ]
    different = list({repr(v): v for v in kept}.values())[:2]
    if different:
        yield different[int(rng.integers(len(different)))]


def _inputs(arrays: Sequence[Any], at: int, seed: int) -> list[Any]:
    rng = np.random.default_rng([seed, at])
    made = []
    for kind, counts in arrays:
        count = max(1, counts[at])
        values = rng.integers(-1000, 1000, count) / 256 if kind[0] == "f" else rng.integers(0, 50, count)
        made.append(values.astype(kind))
    return made


def _main(folder: Path) -> None:
    from tuner.evaluators.opencl import oclgrind

    log = folder / "oclgrind.log"
    driver = oclgrind._driver()
    os.environ["PYOPENCL_NO_CACHE"] = "1"
    if driver is not None:
        os.environ |= {
            "OCL_ICD_VENDORS": str(driver),
            "OCLGRIND_LOG": str(log),
            "OCLGRIND_DATA_RACES": "1",
            "OCLGRIND_MAX_ERRORS": "4",
        }
    import pyopencl as cl

    context = cl.Context([cl.get_platforms()[0].get_devices()[0]])
    read = 0
    for which, task in enumerate(json.loads((folder / "task.json").read_text())):
        read = _run(cl, context, which, task, log, read)


def _run(cl: Any, context: Any, which: int, task: Mapping[str, Any], log: Path, read: int) -> int:
    """Prints what is wrong with the jobs of one kernel; returns how much of Oclgrind's log is read then."""
    queue = cl.CommandQueue(context)
    flags = cl.mem_flags
    wanted: list[list[Any]] = []
    for number, job in enumerate(task["jobs"]):
        options = ["-w", "-cl-std=CL1.2", *(f"-D{k}={v}" for k, v in job["values"].items())]
        try:
            kernel = cl.Program(context, job["text"]).build(options=options).f
        except cl.RuntimeError as error:
            print(json.dumps([which, number, f"does not build: {str(error)[:600]}"]), flush=True)
            continue
        for at, sizes in enumerate(task["sizes"]):
            given = _inputs(task["arrays"], at, task["seed"])
            buffers = [cl.Buffer(context, flags.READ_WRITE | flags.COPY_HOST_PTR, hostbuf=x) for x in given]
            items, block = job["launch"][at]
            kernel(queue, items, block, *buffers, *(np.int32(s) for s in sizes))
            found = [np.empty_like(x) for x in given]
            for x, buffer in zip(found, buffers, strict=True):
                cl.enqueue_copy(queue, x, buffer)
            queue.finish()
            text = log.read_text() if log.exists() else ""
            finding, read = first_finding(text[read:]), len(text)
            if finding:
                print(json.dumps([which, number, f"at {sizes}: {finding}"]), flush=True)
                if not number:
                    return read
                break
            if not number:
                wanted.append(found)
                continue
            off = [
                k for k, (x, y) in enumerate(zip(found, wanted[at], strict=True)) if not _equal(x, y, task)
            ]
            if off:
                print(json.dumps([which, number, f"array {off[0]} differs at {sizes}"]), flush=True)
                break
    return read


def _equal(one: Any, two: Any, task: Mapping[str, Any]) -> bool:
    if one.dtype.kind == "f" and task["rounding"]:
        return bool(np.allclose(one, two, rtol=task["rounding"], atol=task["rounding"], equal_nan=True))
    return one.tobytes() == two.tobytes()


if __name__ == "__main__":
    _main(Path(sys.argv[1]))
