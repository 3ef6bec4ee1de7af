"""A candidate's program as text: what is compiled, and when two of them are the same.

The code of an OpenCL build is this text: drivers' binaries are their own affair, may hold names of temporary files,
and are not equal between machines. Headers in the folders that a spec names are in it: the process that compiles sees
no folder of the user's. May not compile or preprocess anything: what is included under a condition is read as well.
"""

from __future__ import annotations

import base64
import json
import posixpath
import re
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import Any

from tuner.core.canonical import canonical_json, digest
from tuner.core.source_text import text_of_file
from tuner.core.types import Kernel, Resolved, Source, Value, Variant
from tuner.evaluators.host.frontend import macro_flags
from tuner.evaluators.opencl.flags import VALUE_CHANGING
from tuner.evaluators.opencl.module import SPIRV, SUFFIX, entry_point, module_bytes
from tuner.evaluators.sandbox.compiling import run_compiler

__all__ = ["Program", "canonical_text"]

_FORMAT = 1
_FOR_THE_FRONT_END = ("-D", "-I", "-cl-std=", "-cl-single-precision-constant", "-w", "-Werror")
_CLANG_S = 20.0
_MOST_BYTES = 64 << 20
_EXPANDED = "expanded.i"
_HEADERS = (".h", ".hpp", ".clh", ".hcl", "")
_LITERAL = re.compile(r"(?<![\w.])((?:\d+\.\d*|\.\d+|\d+)(?:[eE][+-]?\d+)?)[fF]\b")
_DIRECTIVE = re.compile(r"^[ \t]*#[ \t]*(?:if|ifdef|ifndef|elif)\b(.*)$", re.MULTILINE)
_DEFINED = re.compile(r"^[ \t]*#[ \t]*define[ \t]+([A-Za-z_]\w*)", re.MULTILINE)
_WORD = re.compile(r"[A-Za-z_]\w*")
_WIDTHS = ("", "2", "3", "4", "8", "16")
_WIDENING = "#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n" + "".join(
    f"#define {before}float{n} {before}double{n}\n"
    for before in ("", "convert_", "as_")
    for n in _WIDTHS
    # What reinterprets bits stays what it is, and then the reference is not believed.
    if before != "as_"
)
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*["<]([^">\n]+)[">]', re.MULTILINE)
_MOST = 500
"""Headers of one program; far more are none of a kernel's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """What is compiled.

    Attributes:
        entry: the kernel.
        files: the first and further sources, then headers; or the text of a SPIR-V module.
        options: of the build, ``-D`` included.
        include: folders of headers below ``folder``; only their names belong to the program.
        wide: compute in double what the source computes in float.
        il: SPIR-V that was made of the source, or is it; empty where the driver's own compiler takes the source.
        local: for each parameter of the kernel whether it lies in local memory: of SPIR-V no driver has to say so.
    """

    entry: str
    files: tuple[Source, ...]
    options: tuple[str, ...]
    include: tuple[str, ...] = ()
    folder: str = ""
    wide: bool = False
    il: bytes = b""
    local: tuple[bool, ...] = ()

    @classmethod
    def of(cls, kernel: Kernel, variant: Variant, resolved: Resolved, *, wide: bool = False) -> Program:
        """The program of one candidate.

        Raises:
            BaselineError: the source is a module without the kernel.
        """
        flags = [f for f in resolved.flags if not (wide and f in VALUE_CHANGING)]
        if kernel.language == SPIRV:
            code = module_bytes(variant.files[0].text)
            local = tuple(p.local for p in entry_point(code, kernel.entry).parameters)
            return cls(entry=kernel.entry, files=variant.files, options=tuple(flags), il=code, local=local)
        return cls(
            entry=kernel.entry,
            files=variant.files,
            options=(*macro_flags(_texts(resolved.macros)), *flags),
            include=kernel.include,
            folder=kernel.folder,
            wide=wide,
        )

    @classmethod
    def from_code(cls, code: bytes, *, folder: str) -> Program:
        """The inverse of :meth:`code`.

        Raises:
            ValueError: bytes that no build gave.
        """
        data = json.loads(code)
        if not isinstance(data, dict) or data.get("opencl") != _FORMAT:
            raise ValueError("not the code of an OpenCL build")
        return cls(
            entry=data["entry"],
            files=tuple(Source(name=n, text=t) for n, t in data["files"]),
            options=tuple(data["options"]),
            include=tuple(data["include"]),
            folder=folder,
            wide=data["wide"],
            il=base64.b64decode(data.get("il", "")),
            local=tuple(data.get("local", ())),
        )

    def code(self) -> bytes:
        """Everything that is compiled, as bytes that are equal for equal programs."""
        data: dict[str, Any] = {
            "opencl": _FORMAT,
            "entry": self.entry,
            "files": [[f.name, f.text] for f in self.files],
            "options": list(self.options),
            "include": list(self.include),
            "wide": self.wide,
        }
        if self.il:
            data |= {"il": base64.b64encode(self.il).decode(), "local": list(self.local)}
        return canonical_json(data).encode()

    @property
    def is_module(self) -> bool:
        """Whether there is no source but SPIR-V."""
        return bool(self.files) and self.files[0].name.endswith(SUFFIX)

    @property
    def source(self) -> Program:
        """The program that the driver's own compiler takes, whatever was made of it."""
        return replace(self, il=b"", local=()) if self.il and not self.is_module else self

    @property
    def il_options(self) -> tuple[str, ...]:
        """What the driver is given with SPIR-V: preprocessing and the language are over by then."""
        return tuple(o for o in self.options if not o.startswith(_FOR_THE_FRONT_END))

    def job(self) -> dict[str, Any]:
        """What a compile worker is told."""
        if self.il:
            return {
                "il": base64.b64encode(self.il).decode(),
                "options": list(self.il_options),
                "local": list(self.local),
            }
        sources = [f for i, f in enumerate(self.files) if i == 0 or _is_source(f)]
        headers = [f for i, f in enumerate(self.files) if i > 0 and not _is_source(f)]
        options = list(self.options)
        folders = [Path(self.folder, folder) for folder in self.include]
        below = included([f.text for f in self.files], folders)
        text = "".join(f'#line 1 "{PurePath(f.name).name}"\n{f.text}\n' for f in sources)
        if self.wide:
            # Literals first: `fmax(x, 0.0f)` is ambiguous once x is a double.
            text = _WIDENING + _LITERAL.sub(_double_literal, text)
            headers = [Source(name=f.name, text=_LITERAL.sub(_double_literal, f.text)) for f in headers]
            below = [(i, name, _LITERAL.sub(_double_literal, header)) for i, name, header in below]
            options = [_LITERAL.sub(_double_literal, o) for o in options]
        for folder in folders:
            options += ["-I", str(folder)]
        return {
            "source": text,
            "headers": [[PurePath(f.name).name, f.text] for f in headers],
            "included": below,
            "options": options,
        }


# In the text, not as options: drivers read headers of their own after options.


def _double_literal(found: re.Match[str]) -> str:
    digits = found[1]
    return digits if any(c in digits for c in ".eE") else f"{digits}.0"


def _is_source(file: Source) -> bool:
    return PurePath(file.name).suffix not in _HEADERS


def _texts(macros: Mapping[str, Value]) -> dict[str, Value]:
    return {n: v.replace(" ", "") if isinstance(v, str) else v for n, v in macros.items()}


def canonical_text(program: Program, clang: str | None) -> str:
    """The program after its preprocessor, or as it is where that depends on what only the driver knows.

    Equal texts are equal programs for one device. A condition on a name that neither the source nor an option
    defines may be decided by the driver's own macros, so such a program is only equal to itself.

    Args:
        program: to be compared.
        clang: path of a clang; ``None``: the texts themselves decide.
    """
    if program.il:
        return canonical_json({"il": digest(program.il), "options": list(program.il_options)})
    job = program.job()
    rest = [o for o in program.options if not o.startswith("-D")]
    plain = canonical_json({"job": [job["source"], job["headers"]], "options": list(program.options)})
    if clang is None or _depends_on_driver(program):
        return plain
    with tempfile.TemporaryDirectory(prefix="tuner-opencl-text-") as scratch:
        for name, text in job["headers"]:
            Path(scratch, name).write_text(text, encoding="utf-8")
        Path(scratch, "program.cl").write_text(job["source"], encoding="utf-8")
        definitions = [o for o in job["options"] if o not in rest]
        words = ["-E", "-P", "-w", "-x", "cl", "-nostdinc", "-cl-no-stdinc", "-I", scratch, *definitions]
        try:
            ended = run_compiler(
                [clang, *words, "program.cl", "-o", _EXPANDED],
                scratch,
                timeout_s=_CLANG_S,
                most_bytes=_MOST_BYTES,
            )
        except OSError:
            return plain
        if ended.status != 0:
            return plain
        expanded = Path(scratch, _EXPANDED).read_text(encoding="utf-8", errors="replace")
    # Words, not lines: where a macro's value stands does not matter.
    text = " ".join(expanded.split())
    return canonical_json({"text": text, "options": rest})


def _depends_on_driver(program: Program) -> bool:
    known = {o[2:].partition("=")[0] for o in program.options if o.startswith("-D")} | {"defined"}
    asked: set[str] = set()
    for file in program.files:
        known |= set(_DEFINED.findall(file.text))
        for condition in _DIRECTIVE.findall(file.text):
            asked |= set(_WORD.findall(condition))
    guards = {name for name in asked if name.endswith(("_H", "_H_"))}
    return bool(asked - known - guards) or bool(program.include)


def included(texts: Iterable[str], folders: Sequence[Path]) -> list[tuple[int, str, str]]:
    """The headers that texts include from folders, and that those include.

    Args:
        texts: of sources and headers elsewhere.
        folders: in the order in which they are searched.

    Returns:
        The number of the folder, the name below it and the text of each, in the order in which they are met.
    """
    waiting: list[tuple[int | None, str, str]] = [(None, "", text) for text in texts]
    found: dict[tuple[int, str], str] = {}
    while waiting and len(found) < _MOST:
        own, current, text = waiting.pop(0)
        for name in _INCLUDE.findall(text):
            places = [(i, posixpath.normpath(name)) for i in range(len(folders))]
            if own is not None:
                places.insert(0, (own, posixpath.normpath(posixpath.join(posixpath.dirname(current), name))))
            for place in places:
                if place in found:
                    break
                header = _text(folders[place[0]], place[1])
                if header is not None:
                    found[place] = header
                    waiting.append((*place, header))
                    break
    return [(number, name, text) for (number, name), text in found.items()]


def _text(folder: Path, name: str) -> str | None:
    """``None`` for what is not there, lies outside the folder or is no text: the compiler says what it misses."""
    if name.startswith(("..", "/")):
        return None
    try:
        return text_of_file(folder / name)
    except (OSError, ValueError):
        return None
