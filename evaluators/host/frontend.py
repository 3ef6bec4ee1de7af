"""Runs clang: source to unoptimised bitcode, once for each variant, macros and front-end flags.

May not optimise: the bitcode is that of ``-O3 -Xclang -disable-llvm-passes`` (``-O1`` would tag every loop against
unrolling). Works on a machine without system headers: the folder ``include`` beside this module is searched last.
"""

from __future__ import annotations

import re
import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePath

from tuner.core.canonical import digest_json
from tuner.core.errors import SpecError
from tuner.core.types import Kernel, Status, Value, Variant
from tuner.evaluators.host.exposing import exposed
from tuner.evaluators.host.flags import Flags
from tuner.evaluators.host.openmp import find_openmp
from tuner.evaluators.host.search_words import search_words
from tuner.evaluators.host.toolchain import Toolchain, find_toolchain
from tuner.evaluators.sandbox.compiler_runs import PRINTED, CompilerRuns, first_error

__all__ = ["FrontEnd", "Source", "Unit", "language_of", "macro_flags", "readable"]

_SHIMS = Path(__file__).parent / "include"
_SUFFIXES = {".c": "c", ".cc": "c++", ".cpp": "c++", ".cxx": "c++", ".C": "c++", ".c++": "c++"}
_LANGUAGES = ("c", "c++", "cuda", "cl")
_KEPT = 512
_MATH_PROBE_TEXT = (
    "acos acosh asin asinh atan atanh cbrt cos cosh erf erfc exp exp10 exp2 expm1 lgamma log log10 "
    "log1p log2 sin sinh tan tanh tgamma"
)
_MATH_PROBE = _MATH_PROBE_TEXT.split()
_MATH_PROBE_2 = ("atan2", "fmod", "hypot", "pow")
_CALL = re.compile(r"call .*@([\w.]+)\(.*\) #(\d+)")
_ATTRIBUTES = re.compile(r'^attributes #(\d+) = \{.*"vector-function-abi-variant"="([^"]+)"', re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """What the front end compiles: files, and where includes are looked for.

    ``openmp`` is the folder of ``omp.h`` for a kernel with OpenMP, else empty. ``private``: what stands behind the
    sources fills private members of C++ classes.
    """

    variant: Variant
    language: str
    folder: str = ""
    include: tuple[str, ...] = ()
    openmp: str = ""
    private: bool = False

    @property
    def folders(self) -> tuple[str, ...]:
        """Where files to include are looked up, in order; nothing else of the user's can be read."""
        paths = [Path(folder) for folder in self.include]
        found = [str(path if path.is_absolute() else Path(self.folder) / path) for path in paths]
        return (*found, self.folder) if self.folder else tuple(found)

    @property
    def reading_words(self) -> list[str]:
        """Options by which the files are read: folders as :func:`search_words` has them, access to members."""
        access = ["-fno-access-control"] if self.private else []
        return [*access, *search_words(self.folders, self.folder)]

    @classmethod
    def of(cls, kernel: Kernel, variant: Variant | None = None) -> Source:
        """The kernel's own sources, or a variant of them.

        Raises:
            MachineError: it needs OpenMP, and there is no library.
        """
        return cls(
            variant=exposed(kernel.compiled(variant), kernel.entry, kernel.language),
            language=kernel.language,
            folder=kernel.folder,
            include=kernel.include,
            openmp=find_openmp(find_toolchain()).include if kernel.openmp else "",
            private=kernel.flattened and kernel.language == "c++",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """Bitcode of each file, or why there is none."""

    status: Status
    message: str = ""
    modules: tuple[bytes, ...] = ()
    output: str = ""
    seconds: float = 0.0
    digest: str = ""


def macro_flags(macros: Mapping[str, Value]) -> tuple[str, ...]:
    """``-DNAME=value`` in the names' order; booleans are 1 and 0."""
    return tuple(
        f"-D{name}={int(value) if isinstance(value, bool) else value}"
        for name, value in sorted(macros.items())
    )


class FrontEnd:
    """Runs clang, several at once, and remembers what came out.

    Args:
        toolchain: whose clang.
        target: ``native`` or a CPU's name, for ``-march``.
        workers: how many at once.
        timeout_s: wall time for one file.
        bare: pretend that the machine has no system headers, for tests.
    """

    def __init__(
        self,
        toolchain: Toolchain,
        target: str,
        *,
        workers: int = 1,
        timeout_s: float = 30.0,
        bare: bool = False,
    ) -> None:
        self._target = target
        self._bare = bare
        self._known: OrderedDict[str, Unit] = OrderedDict()
        self._variants: dict[str, dict[str, str]] = {}
        self._checked: dict[tuple[str, ...], SpecError | None] = {}
        self._runs = CompilerRuns(
            [toolchain.clang, *self._further_programs()],
            read=[str(_SHIMS)],
            workers=workers,
            timeout_s=timeout_s,
        )

    def close(self) -> None:
        """Ends all runs of clang; safe to call twice."""
        self._runs.close()

    def _further_programs(self) -> tuple[str, ...]:
        """What is run beside clang."""
        return ()

    def compile(self, work: Sequence[tuple[Source, Flags, Mapping[str, Value]]]) -> list[Unit]:
        """Unoptimised bitcode for each source with its flags and macros, in order; equal work is done once."""
        keys = [self._key(*one) for one in work]
        fresh = {key: one for key, one in zip(keys, work, strict=True) if key not in self._known}
        # Only the first that needs a unit pays for it.
        results = {key: replace(self._known[key], seconds=0.0) for key in keys if key in self._known}
        free = dict(results)
        waiting = {
            key: self._runs.start(readable(one[0], one[1].frontend), self._compile, key, *one)
            for key, one in fresh.items()
        }
        for key, ended in waiting.items():
            unit = ended()
            results[key], free[key] = unit, replace(unit, seconds=0.0)
            if unit.status not in (Status.TIMED_OUT, Status.LOST):
                self._remember(key, unit)
        units = []
        for key in keys:
            units.append(results[key])
            results[key] = free[key]
        return units

    def _remember(self, key: str, unit: Unit) -> None:
        self._known[key] = unit
        if len(self._known) > _KEPT:
            self._known.popitem(last=False)

    def _key(self, source: Source, flags: Flags, macros: Mapping[str, Value]) -> str:
        files = [[f.name, f.text] for f in source.variant.files]
        where = [source.language, source.folder, *source.include, source.openmp]
        return digest_json([files, where, list(flags.frontend), list(macro_flags(macros))])

    def _compile(self, key: str, source: Source, flags: Flags, macros: Mapping[str, Value]) -> Unit:
        started = time.perf_counter()
        modules: list[bytes] = []
        outputs: list[str] = []
        with self._runs.folder() as scratch:
            for file in source.variant.files:
                (Path(scratch) / PurePath(file.name).name).write_bytes(file.data)
            for index, file in enumerate(source.variant.files):
                language = language_of(file.name, source.language, first=index == 0)
                if language is None:
                    continue
                words = [*self.words(source, flags, macros), "-emit-llvm", "-x", language]
                words += ["-Xclang", "-disable-llvm-passes", PurePath(file.name).name, "-o", "out.bc"]
                status, output = self._runs.run(words, scratch)
                outputs.append(output)
                if status is not Status.OK:
                    message = first_error(output) if status is Status.BUILD_ERROR else output
                    return Unit(status=status, message=message, output="".join(outputs), digest=key)
                modules.append((Path(scratch) / "out.bc").read_bytes())
        return Unit(
            status=Status.OK,
            modules=tuple(modules),
            output="".join(outputs),
            seconds=time.perf_counter() - started,
            digest=key,
        )

    def words(self, source: Source, flags: Flags, macros: Mapping[str, Value]) -> list[str]:
        """The options that every run of clang on this source gets, without what says which output is wanted."""
        words = ["-c", "-O3", f"-march={self._target}", "-fno-color-diagnostics", *flags.frontend]
        words += macro_flags(macros)
        if self._bare:
            words += ["-nostdlibinc"]
        words += source.reading_words
        if source.openmp:
            words += ["-fopenmp", "-idirafter", source.openmp]
        return [*words, "-idirafter", str(_SHIMS)]

    def object_of(
        self, source: Source, flags: Flags, macros: Mapping[str, Value]
    ) -> tuple[Status, str, bytes]:
        """What clang alone makes of the first file with the flags as written: status, output, object code."""
        return self.object_and_text_of(source, flags, macros)[:3]

    def object_and_text_of(
        self, source: Source, flags: Flags, macros: Mapping[str, Value]
    ) -> tuple[Status, str, bytes, str]:
        """:meth:`object_of`, and what clang wrote where no message of the source's goes: its standard output."""
        with self._runs.folder() as scratch:
            for file in source.variant.files:
                (Path(scratch) / PurePath(file.name).name).write_bytes(file.data)
            first = source.variant.files[0].name
            language = language_of(first, source.language, first=True) or "c"
            words = [*self.words(source, flags, macros), *flags.given, "-x", language]
            words += [PurePath(first).name, "-o", "out.o"]
            status, output = self._runs.start(
                readable(source, flags.frontend), self._runs.run, words, scratch
            )()
            code = (Path(scratch) / "out.o").read_bytes() if status is Status.OK else b""
            return status, output, code, (Path(scratch) / PRINTED).read_text("utf-8", "replace")

    def check(self, flags: Flags) -> None:
        """Asks clang whether it takes these flags.

        Raises:
            SpecError: with what clang says.
        """
        if flags.given not in self._checked:
            self._checked[flags.given] = self._complaint(flags)
        error = self._checked[flags.given]
        if error is not None:
            raise error

    def _complaint(self, flags: Flags) -> SpecError | None:
        options = [word for option in flags.options for word in ("-mllvm", option)]
        veclib = [f"-fveclib={flags.veclib}"] if flags.veclib else []
        words = ["-c", "-O3", f"-march={self._target}", "-fno-color-diagnostics", "-Werror", *flags.frontend]
        # Macros that a header needs may be missing here, so files to include are left out.
        words = [w for i, w in enumerate(words) if w != "-include" and words[i - 1] != "-include"]
        with self._runs.folder() as scratch:
            (Path(scratch) / "empty.c").write_text("typedef int empty;\n", encoding="utf-8")
            language = "c++" if any(w.startswith(("-std=c++", "-std=gnu++")) for w in words) else "c"
            words = [*words, *veclib, *options, "-x", language, "empty.c", "-o", "out.o"]
            status, output = self._runs.start((), self._runs.run, words, scratch)()
        if status is Status.OK:
            return None
        said = first_error(output) if "error: " in output else output.strip().split("\n")[0]
        said = re.sub(r"^clang[^:]*: (error: )?", "", said).replace(
            "  Try: 'clang (LLVM option parsing) --help'", ""
        )
        return SpecError(
            f"clang does not take the flags {' '.join(flags.given)}: {said}", "correct or remove the flag"
        )

    def vector_variants(self, library: str) -> Mapping[str, str]:
        """What a vector library offers: attribute texts by function, read from what clang does with a probe.

        Raises:
            SpecError: when LLVM knows no such library for this target, or it offers nothing.
        """
        if library not in self._variants:
            self._variants[library] = self._probe(library)
        if not self._variants[library]:
            raise SpecError(
                f"flag -fveclib={library} cannot be honoured: it offers no vector functions on this target",
                "libmvec is the one of glibc",
            )
        return self._variants[library]

    def _probe(self, library: str) -> dict[str, str]:
        lines = []
        for suffix, type_ in (("f", "float"), ("", "double")):
            for name in _MATH_PROBE:
                lines.append(
                    f"for (int i = 0; i < n; i++) d{type_}[i] = __builtin_{name}{suffix}(s{type_}[i]);"
                )
            for name in _MATH_PROBE_2:
                lines.append(
                    f"for (int i = 0; i < n; i++) d{type_}[i] = __builtin_{name}{suffix}(s{type_}[i], d{type_}[i]);"
                )
        head = (
            "void probe(const float *restrict sfloat, float *restrict dfloat, const double *restrict sdouble, "
            "double *restrict ddouble, int n) {"
        )
        found: dict[str, str] = {}
        with self._runs.folder() as scratch:
            (Path(scratch) / "probe.c").write_text("\n".join([head, *lines, "}"]), encoding="utf-8")
            words = ["-c", "-O3", f"-march={self._target}", "-ffast-math", f"-fveclib={library}"]
            words += ["-mllvm", "-print-after=inject-tli-mappings", "-mllvm", "-print-module-scope"]
            words += ["-x", "c", "probe.c", "-o", "out.o"]
            status, output = self._runs.start((), self._runs.run, words, scratch)()
        if status is not Status.OK:
            raise SpecError(f"clang does not take -fveclib={library}: {first_error(output)}", "try libmvec")
        attributes = dict(_ATTRIBUTES.findall(output))
        for name, number in _CALL.findall(output):
            if number in attributes:
                found[name] = attributes[number]
        return found


def readable(source: Source, words: Sequence[str]) -> Iterator[str]:
    """What a run of a compiler on this source with these flags may have to read beside the system's own."""
    yield from source.folders
    if source.openmp:
        yield source.openmp
    for head, word in zip(("", *words), words, strict=False):
        if word.startswith("-I/"):
            yield word.removeprefix("-I")
        if head in ("-I", "-isystem", "-iquote", "-idirafter", "-include") and word.startswith("/"):
            yield word


def language_of(name: str, first_language: str, *, first: bool) -> str | None:
    """What a file is compiled as, for ``-x``; ``None`` for one that is included alone."""
    if first:
        return first_language if first_language in _LANGUAGES else "c"
    return _SUFFIXES.get(PurePath(name).suffix)
