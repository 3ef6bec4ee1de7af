"""How much local memory a kernel's source declares, for drivers that do not say what a kernel takes.

Clang makes assembly of the source for this machine, in which variables in local memory are plain ones with their sizes.
May not run anything; what does not compile so is not known.
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

from tuner.evaluators.opencl.program import Program
from tuner.evaluators.sandbox.compiling import run_compiler

__all__ = ["declared_local_bytes"]

_TIMEOUT_S = 20.0
_MOST_BYTES = 64 << 20
_ASSEMBLY = "program.s"
_LOCAL = re.compile(r"\b(?:__)?local\b")
_VARIABLE = re.compile(r"^\s*\.local\s+(\S+)\s+\.comm\s+\1,(\d+)", re.MULTILINE)
_FUNCTION = re.compile(r"^(\w+):(.*?)^\.Lfunc_end\d+:", re.MULTILINE | re.DOTALL)
_SYMBOL = re.compile(r"[A-Za-z_][\w.$]*")
_WORDS = ["-x", "cl", "-O0", "-w", "--target=x86_64-unknown-linux-gnu", "-S", "-o", _ASSEMBLY, "program.cl"]


def declared_local_bytes(program: Program, clang: str | None) -> int | None:
    """Bytes of the variables in local memory that the entry, or what it calls, uses; ``None`` where it is not known.

    Args:
        program: with source.
        clang: path of a clang; ``None`` for none.
    """
    if clang is None or program.is_module:
        return None
    job = program.source.job()
    headers = [*job["headers"], *((name, text) for _, name, text in job["included"])]
    if not any(_LOCAL.search(text) for text in (job["source"], *(t for _, t in headers), *job["options"])):
        return 0
    assembly = _assembly(clang, job["source"], headers, job["options"])
    if assembly is None:
        return None
    sizes = {name: int(size) for name, size in _VARIABLE.findall(assembly)}
    used = {name: set(_SYMBOL.findall(body)) for name, body in _FUNCTION.findall(assembly)}
    if program.entry not in used:
        return None
    reached, todo = set[str](), [program.entry]
    while todo:
        name = todo.pop()
        if name not in reached:
            reached.add(name)
            todo += used.get(name, ())
    return sum(size for name, size in sizes.items() if name in reached)


def _assembly(clang: str, source: str, headers: list[tuple[str, str]], options: list[str]) -> str | None:
    kept = [o for o in options if o.startswith(("-D", "-U", "-cl-std="))]
    with tempfile.TemporaryDirectory(prefix="tuner-opencl-local-") as scratch:
        for name, text in headers:
            path = Path(scratch, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        Path(scratch, "program.cl").write_text(source, encoding="utf-8")
        try:
            ended = run_compiler(
                [clang, *_WORDS, "-I", scratch, *kept], scratch, timeout_s=_TIMEOUT_S, most_bytes=_MOST_BYTES
            )
        except OSError:
            return None
        return (
            Path(scratch, _ASSEMBLY).read_text(encoding="utf-8", errors="replace")
            if ended.status == 0
            else None
        )
