"""NVRTC's flags as clang and the assembler take them, for candidates with a pass pipeline.

A flag that means something to NVRTC and that clang cannot honour fails those candidates, with the reason; nothing is
ignored. May not decide what NVRTC takes: :mod:`tuner.evaluators.cuda.flags` does.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tuner.core.errors import SpecError
from tuner.evaluators.cuda.flags import macro_line, pre_included, split_words

__all__ = ["ClangFlags", "clang_flags"]

_FAST = ("-fgpu-flush-denormals-to-zero", "-fgpu-approx-transcendentals", "-fapprox-func")
_FLUSH = ("-fgpu-flush-denormals-to-zero",)
_NOTHING = (
    *("device-int128", "builtin-move-forward", "builtin-initializer-list", "generate-line-info", "lineinfo"),
    *("disable-warnings", "w", "minimal"),
)
"""They change messages, debug data, or how long NVRTC takes; or clang does so anyway."""
_STANDARD = "c++17"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClangFlags:
    """Flags by who takes them.

    Attributes:
        clang: words for clang.
        prelude: lines in front of the source: macros and files to include.
        assembler: options of nvJitLink.
        reflection: what libdevice is answered when it asks about the mode of arithmetic.
    """

    clang: tuple[str, ...]
    prelude: tuple[str, ...] = ()
    assembler: tuple[str, ...] = ()
    reflection: Mapping[str, int] = field(default_factory=dict)


def clang_flags(flags: Sequence[str], *, folder: str = "", files: Collection[str] = ()) -> ClangFlags:
    """Sorts flags that NVRTC would take.

    Args:
        flags: words as on a command line.
        folder: what relative folders of ``-I`` are relative to, and where files of ``-include`` are looked for first.
        files: names of the candidate's own files.

    Raises:
        SpecError: for a flag that clang cannot honour.
    """
    clang: list[str] = []
    prelude: list[str] = []
    included: list[str] = []
    assembler: list[str] = []
    standard = _STANDARD
    for flag, argument in split_words(flags):
        name = flag.lstrip("-")
        value = argument or ""
        if name in ("I", "include-path"):
            clang += ["-I", value if value.startswith("/") or not folder else f"{folder}/{value}"]
        elif (line := macro_line(flag, value)) is not None:
            prelude.append(line)
        elif name in ("include", "pre-include"):
            value = pre_included(value, folder=folder, files=files)
            included.append(f'#include "{value}"')
            if value.startswith("/"):
                # Searched last: what counts is that the folder may be read.
                clang += ["-idirafter", str(Path(value).parent)]
        elif name == "std":
            standard = value
        elif name == "maxrregcount":
            assembler.append(f"-maxrregcount={value}")
        elif name in ("Xptxas", "ptxas-options"):
            assembler += [f"-Xptxas={word}" for word in value.split(",") if word not in ("-v", "--verbose")]
        else:
            clang += _arithmetic(flag, name, value)
    return ClangFlags(
        clang=(f"-std={standard}", *clang),
        # A file that is included sees all macros, wherever they stand on the line.
        prelude=(*prelude, *included),
        assembler=tuple(assembler),
        reflection={"__CUDA_FTZ": int(_FLUSH[0] in clang), "__CUDA_PREC_SQRT": int(_FAST[1] not in clang)},
    )


def _arithmetic(flag: str, name: str, value: str) -> tuple[str, ...]:
    if name == "use_fast_math":
        return _FAST
    if name == "ftz":
        return _FLUSH if value == "true" else ()
    if name == "fmad":
        return () if value == "true" else ("-ffp-contract=off",)
    if name in _NOTHING or (name in ("prec-div", "prec-sqrt") and value == "true"):
        return ()
    shown = f"{flag}={value}" if value else flag
    raise SpecError(
        f"flag {shown} cannot be honoured together with a pass pipeline: it is NVRTC's alone",
        "keep it out of space.flags, or write passes: off",
    )
