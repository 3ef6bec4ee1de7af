"""Which compiler flags NVRTC can honour; every other one is refused with the reason.

A flag that changed nothing would be searched over in vain, so there is no "ignored".
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from tuner.core.errors import SpecError

__all__ = [
    "PRE_INCLUDES",
    "VALUE_CHANGING",
    "check_flags",
    "include_folders",
    "macro_line",
    "nvrtc_options",
    "pre_included",
    "short_names",
    "split_words",
]

_SWITCHES = (
    "use_fast_math",
    "extra-device-vectorization",
    "restrict",
    "default-device",
    "device-int128",
    "device-float128",
    "builtin-move-forward",
    "builtin-initializer-list",
    "generate-line-info",
    "lineinfo",
    "disable-warnings",
    "w",
    "minimal",
)
_BOOLEAN = ("ftz", "prec-sqrt", "prec-div", "fmad")
_STANDARDS = tuple(f"{kind}{year}" for kind in ("c++", "gnu++") for year in ("11", "14", "17", "20", "23"))
_PTXAS_SWITCHES = ("--disable-optimizer-constants", "--no-membermask-overlap", "--warn-on-spills")
_PTXAS_VALUES: dict[str, tuple[str, ...] | None] = {
    "dlcm": ("ca", "cg", "cv", "cs"),
    "dscm": ("wb", "cg", "cs", "wt"),
    "def-load-cache": ("ca", "cg", "cv", "cs"),
    "def-store-cache": ("wb", "cg", "cs", "wt"),
    "opt-level": ("0", "1", "2", "3"),
    "O": ("0", "1", "2", "3"),
    "allow-expensive-optimizations": ("true", "false"),
    "maxrregcount": None,
    "register-usage-level": (*"0123456789", "10"),
}
_REFUSED: tuple[tuple[re.Pattern[str], str, str], ...] = (
    (re.compile(r"-O\w$|--?Ofast"), "NVRTC always optimises fully", "-Xptxas -O2 sets the assembler's level"),
    (
        re.compile(r"-arch|--gpu-architecture|-gencode|--gpu-code|-code"),
        "the architecture is the spec's `target`",
        "write target: sm_90",
    ),
    (re.compile(r"-G$|--device-debug|-g$"), "debug code is not what is tuned", "remove it"),
    (
        re.compile(r"-dc$|-rdc|--relocatable-device-code|-dlto|--device-link"),
        "candidates are compiled whole, nothing is linked",
        "include the other sources",
    ),
    (re.compile(r"-mllvm"), "NVRTC passes nothing on to LLVM", "remove it"),
    (re.compile(r"-ffast-math|-Ofast"), "it is a host compiler's", "--use_fast_math"),
    (re.compile(r"-march|-mtune|-mcpu"), "it is a host compiler's", "write target: sm_90"),
    (re.compile(r"-funroll"), "NVRTC has no such option", "#pragma unroll N with N a parameter"),
    (re.compile(r"-Xcompiler|--compiler-options|-ccbin"), "there is no host compiler", "remove it"),
)
VALUE_CHANGING = re.compile(r"--?(use_fast_math|ftz|prec-sqrt|prec-div|fmad)(=|$)")
"""Flags that may change the value of floating-point results; a reference is built without them."""

_SHORT = 2


def check_flags(flags: Sequence[str]) -> None:
    """Raises ``SpecError`` for a flag that NVRTC cannot honour, with the reason and what would be right."""
    for flag, argument in split_words(flags):
        _check(flag, argument)


def nvrtc_options(flags: Sequence[str], *, folder: str = "", files: Collection[str] = ()) -> tuple[str, ...]:
    """The flags as NVRTC takes them, one option for each.

    Args:
        flags: words as on a command line.
        folder: what relative folders of ``-I`` are relative to, and where files of ``-include`` are looked for first.
        files: names of the candidate's own files, which it may include before anything else.

    Raises:
        SpecError: as :func:`check_flags`.
    """
    options: list[str] = []
    for flag, argument in split_words(flags):
        _check(flag, argument)
        if argument is not None and flag in ("-I", "--include-path") and folder and argument[:1] != "/":
            argument = f"{folder}/{argument}"
        if argument is not None and flag in PRE_INCLUDES:
            argument = pre_included(argument, folder=folder, files=files)
        if flag in _PTXAS:
            options.append(f"--ptxas-options={argument}")
        elif argument is None:
            options.append(flag)
        else:
            options.append(f"{_JOINED[flag]}{argument}")
    return tuple(options)


def include_folders(flags: Sequence[str], *, folder: str = "") -> tuple[str, ...]:
    """The folders of headers that flags name, for those who let a compiler read them; raises as :func:`check_flags`."""
    options = nvrtc_options(flags, folder=folder)
    named = (o.removeprefix("-include=") for o in options if o.startswith("-include=/"))
    return (*(o[2:] for o in options if o.startswith("-I")), *(str(Path(file).parent) for file in named))


def pre_included(name: str, *, folder: str, files: Collection[str] = ()) -> str:
    """What ``-include NAME`` means: a file of the candidate, one below the kernel's folder, else one below ``-I``.

    Args:
        name: as the flag has it.
        folder: the kernel's.
        files: names of the candidate's own files.
    """
    if name in files or not (folder or name.startswith("/")):
        return name
    path = Path(folder, name)
    return str(path.absolute()) if path.is_file() else name


def short_names(names: Sequence[str]) -> tuple[str, ...]:
    """Macro names so short that NVRTC's own headers may use them: its macros reach those too."""
    return tuple(n for n in names if len(n) <= _SHORT)


PRE_INCLUDES = ("-include", "--pre-include")
_PTXAS = ("-Xptxas", "--ptxas-options", "-ptxas-options")
_JOINED = {
    "-I": "-I",
    "--include-path": "-I",
    "-D": "-D",
    "--define-macro": "-D",
    "-U": "-U",
    "--undefine-macro": "-U",
    "-include": "-include=",
    "--pre-include": "-include=",
    "-maxrregcount": "-maxrregcount=",
    "--maxrregcount": "-maxrregcount=",
    "-std": "-std=",
    "--std": "-std=",
    **{f"{dash}{name}": f"--{name}=" for name in _BOOLEAN for dash in ("-", "--")},
}


def macro_line(flag: str, value: str) -> str | None:
    """What a flag of the preprocessor does, as a line of a source; ``None`` for any other flag."""
    name = flag.lstrip("-")
    if name in ("D", "define-macro"):
        macro, given, text = value.partition("=")
        return f"#define {macro} {text if given else 1}"
    return f"#undef {value}" if name in ("U", "undefine-macro") else None


def split_words(flags: Sequence[str]) -> Iterator[tuple[str, str | None]]:
    """Flag and argument, however they were written: apart, joined by ``=``, or glued as in ``-DN=4``."""
    rest = iter(flags)
    for word in rest:
        if not word.startswith("-") or word == "-":
            raise SpecError(f"{word!r} is no compiler flag", "flags start with a dash")
        head, equals, value = word.partition("=")
        if head in _JOINED or head in _PTXAS:
            argument = value if equals else next(rest, None)
            if not argument:
                raise SpecError(f"{head} lacks its argument", f"write for example {_example(head)}")
            yield head, argument
        elif word[:2] in ("-I", "-D", "-U") and len(word) > 2:
            yield word[:2], word[2:]
        else:
            yield word, None


def _example(flag: str) -> str:
    if flag in _PTXAS:
        return f"{flag} -dlcm=cg"
    name = flag.lstrip("-")
    return {"maxrregcount": f"{flag}=64", "std": f"{flag}=c++17"}.get(
        name, f"{flag}=true" if name in _BOOLEAN else f"{flag} NAME"
    )


def _check(flag: str, argument: str | None) -> None:
    name = flag.lstrip("-")
    if argument is None:
        if name in _SWITCHES:
            return
        raise _refuse(flag)
    if flag in _PTXAS:
        _check_ptxas(argument)
    elif name == "maxrregcount":
        if not argument.isdigit() or not 16 <= int(argument) <= 255:
            raise SpecError(f"flag {flag}={argument}: no count of registers", "16 to 255")
    elif name == "std":
        if argument not in _STANDARDS:
            raise SpecError(f"flag {flag}={argument}: NVRTC has no such standard", "-std=c++17 for example")
    elif name in _BOOLEAN and argument not in ("true", "false"):
        raise SpecError(f"flag {flag}={argument} is neither true nor false", f"--{name}=false")


def _check_ptxas(argument: str) -> None:
    for word in argument.split(","):
        if word in _PTXAS_SWITCHES or word in ("-v", "--verbose"):
            continue
        level = re.fullmatch(r"-O([0-3])", word)
        name, _, value = word.lstrip("-").partition("=")
        allowed = _PTXAS_VALUES.get(name, ())
        if level or (name in _PTXAS_VALUES and value and (allowed is None or value in allowed)):
            continue
        known = ", ".join(f"-{n}=…" for n in ("dlcm", "dscm")) + ", -O0 to -O3"
        raise SpecError(f"flag -Xptxas {word} cannot be honoured: ptxas has no such option", known)


def _refuse(flag: str) -> SpecError:
    for pattern, reason, hint in _REFUSED:
        if pattern.match(flag):
            return SpecError(f"flag {flag} cannot be honoured: {reason}", hint)
    name = flag.lstrip("-").partition("=")[0]
    near = difflib.get_close_matches(name, [*_SWITCHES, *_BOOLEAN, "maxrregcount", "std"], n=1)
    hint = f"did you mean --{near[0]}?" if near else "options of NVRTC, and of ptxas behind -Xptxas"
    return SpecError(f"flag {flag} cannot be honoured: NVRTC has no such option", hint)
