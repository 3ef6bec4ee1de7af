"""Sorts compiler flags by who honours them: front end, pass builder, target machine, or LLVM's globals.

A flag that nobody here can honour is an error, never a silent nothing. Sorting is by tables; whether clang itself
takes a flag is :func:`tuner.evaluators.host.frontend.FrontEnd.check`'s to ask.

Who honours what:

- *front end*: everything that changes the IR that clang writes (``-D``, ``-ffast-math`` and its parts, ``-fwrapv``,
  and ``-march``, ``-mtune``, ``-m<feature>``, ``-mprefer-vector-width``, which become attributes of functions).
- *pass builder*: interleaving and unrolling, which unoptimised IR does not show (clang also marks the loops).
- *target machine*: the code model.
- *globals*: ``-mllvm X`` and the switches of both vectorisers (the text ``default<O3>`` overrides the pass builder's
  own): a process-wide option of LLVM, so that a worker of its own serves each value.
- *vector library*: ``-fveclib=NAME``, see :meth:`tuner.evaluators.host.frontend.FrontEnd.vector_variants`.

The level of optimisation is the pipeline's: ``-O2`` and the like are refused, the front end always runs at ``-O3``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from tuner.core.compilers import BuildCompiler
from tuner.core.errors import SpecError
from tuner.core.types import Kernel, Resolved
from tuner.evaluators.host.llvm_library import MachineOptions, PassOptions

__all__ = [
    "HEADERS",
    "MEANING",
    "VALUE_CHANGING",
    "Flags",
    "absolute_words",
    "flag_words",
    "for_clang",
    "meaning_of",
    "meaning_to_clang",
    "sort_flags",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Flags:
    """Flags by who honours them.

    Attributes:
        frontend: for clang, in order, each word with its argument attached or behind it.
        passes: for the pass builder.
        machine: for the target machine; ``cpu`` is empty unless ``-march`` names one.
        options: LLVM's global options, without ``-mllvm``.
        veclib: name of the vector library, empty for none.
        given: the flags as written, for a run of clang itself.
    """

    frontend: tuple[str, ...] = ()
    passes: PassOptions = field(default_factory=PassOptions)
    machine: MachineOptions = field(default_factory=MachineOptions)
    options: tuple[str, ...] = ()
    veclib: str = ""
    given: tuple[str, ...] = ()


_VECTORIZERS = {
    "-vectorize-loops": ("-f{}vectorize", "-f{}tree-vectorize"),
    "-vectorize-slp": ("-f{}slp-vectorize", "-f{}tree-slp-vectorize"),
}
_SWITCHES: dict[str, tuple[str, bool]] = {
    spelling.format(no): (option, not no)
    for option, spellings in _VECTORIZERS.items()
    for spelling in spellings
    for no in ("", "no-")
}
_UNROLLING = {"-funroll-loops": True, "-fno-unroll-loops": False}
_CODE_MODEL = re.compile(r"-mcmodel=(small|medium|large)$")
_TWO_WORDS = ("-mllvm", "--param", "-Xclang", "-Xassembler")
_LIBRARY = ("-stdlib=", "--gcc-install-dir=")
"""Flags that say which standard library of C++ is read."""
HEADERS = ("-include", "-imacros")
"""Flags that name a header to be read before the source."""
_FOLDERS = ("-I", "-isystem", "-iquote", "-idirafter")
_JOINED = ("-D", "-U", "-I", "-isystem", "-iquote", "-idirafter", *HEADERS)
_FRONTEND_F_TEXT = (
    "fast-math unsafe-math-optimizations finite-math-only associative-math reciprocal-math signed-zeros "
    "trapping-math math-errno rounding-math approx-func honor-nans honor-infinities fp-contract "
    "fp-model fp-exception-behavior ffp-eval-method fp-eval-method excess-precision denormal-fp-math "
    "denormal-fp-math-f32 cx-limited-range cx-fortran-rules complex-arithmetic protect-parens "
    "strict-aliasing strict-overflow strict-enums strict-vtable-pointers strict-return "
    "strict-flex-arrays strict-float-cast-overflow wrapv wrapv-pointer trapv delete-null-pointer-checks "
    "finite-loops builtin freestanding hosted inline inline-functions inline-hint-functions "
    "inline-max-stacksize optimize-sibling-calls omit-frame-pointer jump-tables zero-initialized-in-bss "
    "trivial-auto-var-init stack-protector stack-protector-strong stack-protector-all "
    "stack-clash-protection cf-protection unwind-tables asynchronous-unwind-tables exceptions rtti "
    "threadsafe-statics signed-char unsigned-char char8_t short-enums short-wchar common visibility "
    "visibility-inlines-hidden semantic-interposition plt pack-struct ms-extensions gnu-keywords "
    "gnu89-inline lax-vector-conversions openmp-simd constexpr-depth constexpr-steps template-depth "
    "elide-constructors sized-deallocation aligned-allocation assume-nothrow-exception-dtor "
    "assume-sane-operator-new assume-unique-vtables use-cxa-atexit merge-all-constants align-functions "
    "zero-call-used-regs patchable-function-entry reg-struct-return escaping-block-tail-calls "
    "math-errno convergent-functions pointer-tbaa force-enable-int128 fine-grained-bitfield-accesses "
    "relaxed-template-template-args"
)
_FRONTEND_F = _FRONTEND_F_TEXT.split()
_FRONTEND = re.compile(rf"-f(no-)?({'|'.join(map(re.escape, _FRONTEND_F))})(-[\w.]+)?(=.*)?$")
_MACHINE_FEATURE = re.compile(r"-m(no-)?[a-z0-9][a-z0-9.\-]*$")
_MACHINE_VALUE = re.compile(
    r"-m(arch|tune|prefer-vector-width|recip|fpmath|stack-alignment|branch-protection)=[\w.,+:\-!]+$"
)
_REFUSED: tuple[tuple[re.Pattern[str], str, str], ...] = tuple(
    (re.compile(pattern), reason, hint)
    for pattern, reason, hint in (
        (r"-Ofast$", "the pass pipeline decides the level", "write -ffast-math and set passes.base"),
        (r"-O", "the pass pipeline decides the level", 'set passes.base, for example "default<O2>"'),
        (r"-(Wl|Wa|Wp),", "nothing is linked or assembled by clang here", "use kernel.link for libraries"),
        (r"-[lL]|-(shared|static|rdynamic|pthread|pie)", "clang links nothing here", "use kernel.link"),
        (r"-fuse-ld|-flto|-ffat-lto", "there is no link step", "list the files in kernel.sources"),
        (
            r"-f(no-)?openmp(=|$)",
            "every candidate is built alike with OpenMP or without",
            "write openmp: true under kernel; -fopenmp-simd honours the simd pragmas alone",
        ),
        (r"-f(no-)?(pic|PIC|pie|PIE)$", "the loader decides how code is placed", "leave it out"),
        (
            r"-fprofile|-fcoverage|-fsanitize|-fno-sanitize|--coverage",
            "it needs a run-time library",
            "leave it out",
        ),
        (
            r"-m(32|16|x32|iamcu|abi)|-mregparm|-target|--target",
            "it changes how a function is called",
            "leave it out",
        ),
        (r"-mcmodel=", "this code model cannot be loaded", "small, medium and large can"),
        (r"-mcpu=", "on x86 it names nothing", "write -march="),
        (
            r"-(c|E|S|o|x|v|M|MD|MMD|MF|MP|emit-llvm|###|save-temps|Xclang|Xlinker|fsyntax-only)",
            "it changes what clang does, not the code",
            "leave it out",
        ),
        (r"-g", "debugging information changes no code", "leave it out"),
    )
)
VALUE_CHANGING = re.compile(
    r"-f(fast-math|unsafe-math|finite-math|associative-math|reciprocal-math|approx-func|fp-model|fp-contract"
    r"|no-signed-zeros|no-honor|no-trapping|no-math-errno|cx-|complex-arithmetic|denormal|excess|rounding-math"
    r"|fp-|veclib)|-mrecip|-ffp-"
)
"""Flags that may change the value of floating-point results; a reference is built without them."""


MEANING = frozenset(
    {
        *("-fsigned-char", "-funsigned-char", "-fshort-enums", "-fshort-wchar", "-fms-extensions"),
        *("-fgnu89-inline", "-fwrapv", "-fno-strict-aliasing", "-fno-exceptions", "-fno-rtti"),
        *("-ffast-math", "-fno-math-errno", "-ffinite-math-only", "-fassociative-math", "-freciprocal-math"),
        *("-funsafe-math-optimizations", "-fno-trapping-math", "-fno-signed-zeros", "-ffp-contract=off"),
        *("-ffp-contract=fast", "-ffp-contract=on", "-fno-builtin", "-ffreestanding", "-fopenmp-simd"),
        "-ansi",
    }
)
"""Flags that say to gcc and clang alike what a source means; others say how it is compiled."""


def meaning_of(flags: Sequence[str], folder: str) -> tuple[str, ...]:
    """Those of another compiler's flags that say what a source means, as clang takes them.

    Args:
        flags: words as on a command line; what clang does not know is left out.
        folder: what relative folders of ``-I`` and the like are relative to.
    """
    kept: list[str] = []
    for flag, argument in flag_words(flags):
        # What gcc only warns of may be an error of clang's.
        if flag in _JOINED or flag in MEANING or flag.startswith(("-D", "-U", "-I", "-std=", "-Wno-")):
            words = (flag,) if argument is None else (flag, argument)
            kept += _absolute(words, folder)
    return tuple(kept)


def meaning_to_clang(compiler: BuildCompiler | None, language: str, folder: str) -> tuple[str, ...]:
    """What another compiler's own flags say of a source, and its standard library, as clang takes them.

    Args:
        compiler: of the user's build; nothing for none.
        language: of the source.
        folder: as of :func:`meaning_of`.
    """
    if compiler is None:
        return ()
    return (*meaning_of(compiler.command[1:], folder), *(compiler.library if language == "c++" else ()))


def absolute_words(flags: Sequence[str], folder: str) -> tuple[str, ...]:
    """Flags of any compiler, for a run of it in another folder than the one that their paths are relative to."""
    made: list[str] = []
    for flag, argument in flag_words(flags):
        made += _absolute((flag,) if argument is None else (flag, argument), folder)
    return tuple(made)


def for_clang(kernel: Kernel, resolved: Resolved) -> Resolved:
    """The setting for clang to read a kernel in, where another compiler makes its code; else as it is."""
    if kernel.compiler is None:
        return resolved
    own = meaning_to_clang(kernel.compiler, kernel.language, kernel.folder)
    return replace(resolved, flags=(*own, *meaning_of(resolved.flags, kernel.folder)))


def sort_flags(flags: Sequence[str], *, folder: str = "") -> Flags:
    """Sorts flags.

    Args:
        flags: words as on a command line.
        folder: what relative folders of ``-I`` and the like are relative to.

    Raises:
        SpecError: for a flag that cannot be honoured, with the reason.
    """
    sorted_ = Flags(given=tuple(flags))
    for flag, argument in flag_words(flags):
        sorted_ = _place(sorted_, flag, argument, folder)
    return sorted_


def flag_words(flags: Sequence[str]) -> Iterator[tuple[str, str | None]]:
    """Flags with their arguments, where those are words of their own.

    Raises:
        SpecError: a word is no flag, or an argument is missing.
    """
    rest = iter(flags)
    for flag in rest:
        if not flag.startswith("-") or flag == "-":
            raise SpecError(
                f"{flag!r} is no compiler flag", "flags start with a dash; quote those with spaces"
            )
        if flag in _JOINED or flag in _TWO_WORDS:
            argument = next(rest, None)
            if argument is None:
                raise SpecError(f"{flag} lacks its argument", f"write for example {flag} NAME")
            yield flag, argument
        else:
            yield flag, None


def _place(flags: Flags, flag: str, argument: str | None, folder: str) -> Flags:
    if flag == "-mllvm":
        return replace(flags, options=(*flags.options, argument or ""))
    if flag.startswith("-fveclib="):
        return replace(flags, veclib=_vector_library(flag))
    if flag in _SWITCHES:
        return _switch(flags, *_SWITCHES[flag])
    if flag in _UNROLLING:
        # As clang has it: without unrolling there is no interleaving either, and the front end marks every loop.
        on = _UNROLLING[flag]
        passes = replace(flags.passes, loop_unrolling=on, loop_interleaving=on)
        return replace(flags, passes=passes, frontend=(*flags.frontend, flag))
    model = _CODE_MODEL.match(flag)
    if model:
        machine = replace(flags.machine, code_model=model[1])
        return replace(flags, machine=machine, frontend=(*flags.frontend, flag))
    if not _is_frontend(flag, argument):
        raise _refuse(flag)
    if flag.startswith("-march="):
        cpu = flag.partition("=")[2]
        machine = replace(flags.machine, cpu="" if cpu == "native" else cpu)
        flags = replace(flags, machine=machine)
    words = (flag,) if argument is None else (flag, argument)
    return replace(flags, frontend=(*flags.frontend, *_absolute(words, folder)))


def _vector_library(flag: str) -> str:
    name = flag.partition("=")[2]
    if name not in ("none", "libmvec"):
        raise SpecError(
            f"flag {flag} cannot be honoured: candidates are linked with no such library", "-fveclib=libmvec"
        )
    return "" if name == "none" else name


def _switch(flags: Flags, option: str, on: bool) -> Flags:
    off = f"{option}=false"
    options = tuple(o for o in flags.options if o != off)
    return replace(flags, options=options if on else (*options, off))


def _is_frontend(flag: str, argument: str | None) -> bool:
    if argument is not None or flag.startswith(("-D", "-U", "-I", "-std=", *_LIBRARY)):
        return True
    if _FRONTEND.match(flag) or _MACHINE_VALUE.match(flag):
        return True
    if any(pattern.match(flag) for pattern, _, _ in _REFUSED):
        return False
    return flag.startswith("-W") or bool(_MACHINE_FEATURE.match(flag)) or flag in ("-ansi", "-pedantic", "-w")


def _refuse(flag: str) -> SpecError:
    for pattern, reason, hint in _REFUSED:
        if pattern.match(flag):
            return SpecError(f"flag {flag} cannot be honoured: {reason}", hint)
    return SpecError(
        f"flag {flag} cannot be honoured: it is not known to change the IR, the passes or the target machine",
        "an option of LLVM itself is written as -mllvm OPTION, a pass as an edit of the pipeline",
    )


def _absolute(words: tuple[str, ...], folder: str) -> tuple[str, ...]:
    if not folder:
        return words
    head, path = words[0], words[1] if len(words) == 2 else ""
    if head not in _FOLDERS and (len(words) == 2 or not head.startswith("-I")):
        return words
    if len(words) == 1:
        head, path = "-I", words[0][2:]
    return (head, path if path.startswith("/") else f"{folder}/{path}")
