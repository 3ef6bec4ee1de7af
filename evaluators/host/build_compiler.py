"""Builds candidates by the compiler of the user's own build: gcc, icx, another clang. May not run what it makes.

The compiler runs confined, as what it is given may be a candidate that nobody has looked at; it gets the user's PATH
and nothing else of the environment.

Source: GCC manual, "Options Controlling the Kind of Output", "Code Generation Conventions".
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePath

from tuner.core.canonical import digest_json
from tuner.core.compilers import CLANG, GCC, BuildCompiler
from tuner.core.errors import BaselineError, SpecError
from tuner.core.types import Build, BuildRequest, Kernel, Resolved, Status, Variable
from tuner.evaluators.host.assembly import CannotLoad, reached, without_variable
from tuner.evaluators.host.bundles import variable_bytes
from tuner.evaluators.host.flags import absolute_words, flag_words, for_clang
from tuner.evaluators.host.frontend import Source, language_of, macro_flags, readable
from tuner.evaluators.host.objects import Object, refusal
from tuner.evaluators.host.structure_layout import Layouts
from tuner.evaluators.host.toolchain import find_toolchain
from tuner.evaluators.sandbox.compiler_runs import PRINTED, CompilerRuns, first_error

__all__ = ["ByBuildCompiler", "asked_compiler", "makes_threads"]

_TIMEOUT_S = 120.0
_LEAST_S, _TIMES = 10.0, 20.0
"""Once the source as given is compiled, a candidate may take so many times as long, with some seconds more."""
_POSITIONS = ("-fPIC", "-fpic", "-fPIE", "-fpie", "-fno-pic", "-fno-PIC", "-fno-pie", "-fno-PIE")
_LAST = ("-g0", "-w", "-fno-lto", "-ffunction-sections", "-fdata-sections")
"""Behind the user's own flags: nothing that changes code, and what cannot be loaded switched off."""
_OUTPUT = (
    "-c",
    "-S",
    "-E",
    "-o",
    "-x",
    "-M",
    "-MM",
    "-MD",
    "-MMD",
    "-MF",
    "-MT",
    "-MQ",
    "-MP",
    "-shared",
    "-r",
)
_KEPT = 512
_THREADS = re.compile(r"-(?:fopenmp(?:=.*)?|f?iopenmp|qopenmp|mp(?:=.*)?|xopenmp(?:=.*)?)")


def asked_compiler(command: Sequence[str]) -> BuildCompiler:
    """What a compiler says of itself.

    Args:
        command: the program, by name or path, and flags.

    Raises:
        SpecError: it is not installed, does not answer, or a word is no flag.
    """
    for flag, _ in flag_words(command[1:]):
        if flag in _OUTPUT:
            raise SpecError(f"{flag} says what is made of a file", "leave it out")
    program = found_program(command[0])
    state = Path(program).stat()
    return _answers(tuple(command), program, os.environ.get("PATH", ""), state.st_mtime_ns, state.st_size)


@lru_cache(maxsize=64)
def _answers(
    command: tuple[str, ...], program: str, path: str, changed_ns: int, size_bytes: int
) -> BuildCompiler:
    """What one state of a compiler says of itself, asked once."""
    runs = CompilerRuns([program], environment=_environment(program))
    try:
        with runs.folder() as scratch:
            Path(scratch, "empty.c").write_text("", encoding="utf-8")
            said = _asked(runs, [*command[1:], "--version"], scratch)
            macros = _asked(runs, [*command[1:], "-w", "-dM", "-E", "-x", "c", "empty.c"], scratch)
            library = _library(runs, command, scratch)
    finally:
        runs.close()
    family = CLANG if "#define __clang__ " in macros else GCC if "#define __GNUC__ " in macros else ""
    version = said.strip().split("\n")[0]
    digest = digest_json([said, hashlib.sha256(Path(program).read_bytes()).hexdigest()])
    return BuildCompiler(command=command, family=family, version=version, digest=digest, library=library)


def _library(runs: CompilerRuns, command: Sequence[str], folder: str) -> tuple[str, ...]:
    """Clang's flags for GNU's standard library of C++, where the compiler has that."""
    Path(folder, "library.cc").write_text("#include <cstddef>\n", encoding="utf-8")
    try:
        macros = _asked(runs, [*command[1:], "-w", "-dM", "-E", "-x", "c++", "library.cc"], folder)
        beside = _asked(runs, ["-print-file-name=libgcc.a"], folder).strip()
    except SpecError:
        # It is for C alone.
        return ()
    if "#define __GLIBCXX__ " not in macros or not os.path.isabs(beside):
        return ()
    return ("-stdlib=libstdc++", f"--gcc-install-dir={os.path.dirname(beside)}")


def _asked(runs: CompilerRuns, words: Sequence[str], folder: str) -> str:
    status, output = runs.start((), runs.run, words, folder)()
    if status is not Status.OK:
        said = first_error(output) if status is Status.BUILD_ERROR else output
        raise SpecError(f"the compiler does not take its flags: {said}", "correct or remove the flag")
    return Path(folder, PRINTED).read_text("utf-8", "replace")


def makes_threads(command: Sequence[str]) -> bool:
    """Whether a compiler with flags heeds directives of OpenMP."""
    return any(_THREADS.fullmatch(word) for word in command)


def found_program(name: str) -> str:
    """The path of a compiler.

    Raises:
        SpecError: it is not installed.
    """
    # The project's own clang need not be on the path.
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), str(Path(find_toolchain().clang).parent)])
    program = shutil.which(name, path=path)
    if program is None:
        raise SpecError(f"{name} is not installed", "install it, or name one that is")
    return str(Path(program).resolve()) if os.sep in name else program


def _environment(program: str) -> dict[str, str]:
    # What a cache of compilers would write lies outside of what it may write to.
    return {"PATH": os.environ.get("PATH", os.defpath), "CCACHE_DISABLE": "1"}


@dataclass(frozen=True, slots=True)
class _Made:
    """Object code, or why there is none."""

    status: Status
    message: str = ""
    code: bytes = b""
    seconds: float = 0.0


class ByBuildCompiler:
    """Builds candidates with one compiler. Not thread safe.

    Args:
        command: the program and its flags.
        layouts: of the kernel's structures; ``None`` where no candidate changes any.
        workers: how many compile at once.

    Raises:
        SpecError: the compiler is not installed.
    """

    def __init__(self, command: Sequence[str], *, layouts: Layouts | None = None, workers: int = 1) -> None:
        program = found_program(command[0])
        self._words = tuple(command[1:])
        self._layouts = layouts
        self._known: dict[str, _Made] = {}
        self._limit_s = _TIMEOUT_S
        self._runs = CompilerRuns(
            [program],
            read=[str(Path(program).resolve().parents[1])],
            workers=workers,
            timeout_s=_TIMEOUT_S,
            environment=_environment(program),
        )

    def close(self) -> None:
        """Ends all processes; safe to call twice."""
        self._runs.close()

    def build(
        self,
        kernel: Kernel,
        requests: Sequence[BuildRequest],
        *,
        allowed_imports: Collection[str] | None = frozenset(),
    ) -> list[Build]:
        """Compiles candidates; one build for each request, in order.

        Args:
            kernel: whose sources, entry and folders the variants belong to.
            requests: what to build; there are no pipelines.
            allowed_imports: as :meth:`tuner.evaluators.host.compiler.HostCompiler.build` takes them.
        """
        builds: list[Build | None] = []
        waiting = {}
        keys = []
        for request in requests:
            try:
                source = Source.of(self._kept(kernel, request), request.variant)
            except BaselineError as error:
                builds.append(Build(status=Status.BUILD_ERROR, message=error.message))
                keys.append("")
                continue
            words = self._compiling(kernel, request.resolved)
            key = digest_json([[f.name, f.text] for f in source.variant.files] + [list(words)])
            if key not in self._known and key not in waiting:
                waiting[key] = self._runs.start(readable(source, words), self._compile, kernel, source, words)
            builds.append(None)
            keys.append(key)
        made = {key: ended() for key, ended in waiting.items()}
        taken = [m.seconds for m in made.values() if m.status is Status.OK]
        if taken and self._limit_s == _TIMEOUT_S:
            self._limit_s = min(_TIMEOUT_S, _LEAST_S + _TIMES * max(taken))
        self._known |= {k: m for k, m in made.items() if m.status not in (Status.LOST, Status.TIMED_OUT)}
        made = {**self._known, **made}
        for key in list(self._known)[: max(0, len(self._known) - _KEPT)]:
            del self._known[key]
        return [
            build or _finished(kernel, request.resolved, made[key], allowed_imports)
            for build, request, key in zip(builds, requests, keys, strict=True)
        ]

    def _kept(self, kernel: Kernel, request: BuildRequest) -> Kernel:
        if self._layouts is None:
            return kernel
        return self._layouts.kept(kernel, request.variant, for_clang(kernel, request.resolved))

    def _compiling(self, kernel: Kernel, resolved: Resolved) -> tuple[str, ...]:
        words = absolute_words([*self._words, *resolved.flags], kernel.folder)
        places = [word for word in words if word in _POSITIONS]
        # The loader puts code anywhere, as a shared library's or that of a program that can be anywhere.
        place = () if places and places[-1].lower() == "-fpic" else ("-fPIE",)
        return (*words, *place, *_LAST, *macro_flags(resolved.macros))

    def _compile(self, kernel: Kernel, source: Source, words: Sequence[str]) -> _Made:
        started = time.perf_counter()
        files = source.variant.files
        with self._runs.folder() as scratch:
            for file in files:
                (Path(scratch) / PurePath(file.name).name).write_bytes(file.data)
            with (Path(scratch) / PurePath(files[0].name).name).open("ab") as first:
                first.write(_writer(kernel.variables))
            texts = []
            for number, file in enumerate(files):
                language = language_of(file.name, source.language, first=number == 0)
                if language is None:
                    continue
                made = ["-S", "-x", language, PurePath(file.name).name, "-o", "code.s"]
                status, output = self._runs.run(
                    [*words, *source.reading_words, *made], scratch, timeout_s=self._limit_s
                )
                if status is not Status.OK:
                    return _failed(status, output)
                texts.append(Path(scratch, "code.s").read_text("utf-8", "surrogateescape"))
            try:
                texts = _loadable(texts, kernel)
            except CannotLoad as error:
                return _Made(Status.BUILD_ERROR, str(error))
            status, output = self._assembled(texts, scratch)
            if status is not Status.OK:
                return _failed(status, output)
            code = Path(scratch, "out.o").read_bytes()
        return _Made(Status.OK, code=code, seconds=time.perf_counter() - started)

    def _assembled(self, texts: Sequence[str], scratch: str) -> tuple[Status, str]:
        """One object, ``out.o``, of assembler texts."""
        objects = [f"code{number}.o" for number in range(len(texts))] if len(texts) > 1 else ["out.o"]
        for text, name in zip(texts, objects, strict=True):
            Path(scratch, "code.s").write_text(text, "utf-8", "surrogateescape")
            status, output = self._runs.run(["-c", "code.s", "-o", name], scratch)
            if status is not Status.OK:
                return status, output
        if len(objects) == 1:
            return Status.OK, ""
        return self._runs.run(["-r", "-nostdlib", *objects, "-o", "out.o"], scratch)


def _writer(variables: Sequence[Variable]) -> bytes:
    """Behind a source a function that writes to variables, as calls do: one that nothing writes to is a constant.

    Nothing calls it, and it lets no address out, so that compilers know of the variables what they knew before.
    """
    if not variables:
        return b""
    copies = (f"__builtin_memcpy((void *)&{v.name}, from, sizeof({v.name}));" for v in variables)
    return (
        f"\n\n__attribute__((used)) void tuner_writer(const void *from) {{ {' '.join(copies)} }}\n".encode()
    )


def _failed(status: Status, output: str) -> _Made:
    return _Made(status, first_error(output) if status is Status.BUILD_ERROR else output)


def _loadable(texts: Sequence[str], kernel: Kernel) -> list[str]:
    texts = reached(texts, kernel.entry)
    for name, size_bytes in variable_bytes(kernel, wide=False).items():
        texts = [without_variable(text, name, size_bytes) for text in texts]
    return texts


def _finished(
    kernel: Kernel, resolved: Resolved, made: _Made, allowed_imports: Collection[str] | None
) -> Build:
    if made.status is not Status.OK:
        return Build(status=made.status, message=made.message)
    try:
        parsed = Object(made.code)
    except ValueError as error:
        return Build(status=Status.BUILD_ERROR, message=f"the object cannot be used: {error}")
    seconds = {"compiler": made.seconds}
    if kernel.entry not in parsed.exports:
        message = f"the source defines no function {kernel.entry} that others can call"
        return Build(status=Status.BUILD_ERROR, message=message, seconds=seconds)
    if allowed_imports is not None:
        reason = refusal(parsed, allowed_imports=allowed_imports, openmp=kernel.openmp)
        if reason:
            return Build(status=Status.REFUSED, message=reason, seconds=seconds)
    scalars = [[name, value] for name, value in sorted(resolved.scalars.items())]
    return Build(
        status=Status.OK,
        code=made.code,
        digest=hashlib.sha256(made.code).hexdigest(),
        key=digest_json([parsed.key(kernel.entry), scalars]),
        features=parsed.features(),
        seconds=seconds,
    )
