"""What NVRTC's log says, as one line for people with what to do about it. Text only."""

from __future__ import annotations

import re
from collections.abc import Sequence

__all__ = ["one_line"]

_LINE_LIMIT = 300
_NAME_MAP = "__nv_name_map"
_ERROR = re.compile(
    r"^(?P<where>[^\n]*?\(\d+\)): (?:catastrophic )?error(?: #\S+)?: (?P<what>.*)$", re.MULTILINE
)
_NO_HEADER = re.compile(r'cannot open source file "([^"]+)"')
_WHEELS = {
    **dict.fromkeys(("nv/", "cuda/", "cub/", "thrust/"), "nvidia-cuda-cccl"),
    "crt/": "nvidia-cuda-crt",
    "curand": "nvidia-curand",
}
_UNDEFINED = re.compile(r'identifier "(\w+)" is undefined')
_BROUGHT_BY = {
    "math.h": re.compile(r"INFINITY|NAN|HUGE_VALF?|M_\w+"),
    "stdint.h": re.compile(
        r"u?int(?:_fast|_least)?(?:8|16|32|64|ptr|max)_t|U?INT(?:8|16|32|64|PTR)_(?:MAX|MIN|C)"
    ),
    "float.h": re.compile(r"(?:FLT|DBL)_\w+"),
    "limits.h": re.compile(r"CHAR_BIT|(?:U?(?:CHAR|SHRT|INT|LONG|LLONG)|SCHAR)_(?:MAX|MIN)"),
    "cuda_fp16.h": re.compile(r"(?:__)?half2?|__(?:float2half|half2float|h(?:add|sub|mul|fma)2?)\w*"),
}


def one_line(log: str, entry: str, short: Sequence[str]) -> str:
    """The first error of a log.

    Args:
        log: of one compilation.
        entry: the kernel that was asked for.
        short: macros so short that NVRTC's headers may use their names.
    """
    found = _ERROR.search(log)
    if found and found["where"].startswith(_NAME_MAP):
        said = " ".join(found["what"].split())
        if "which instance" in said:
            said += f"; for a template write its arguments, {entry}<...>"
        return f"there is no kernel {entry!r}: {said}"
    text = (
        f"{found['where']}: {found['what']}" if found else next(iter(log.strip().splitlines()), "no reason")
    )
    text = " ".join(text.split()) + _missing_header(text) + _missing_include(text)
    if short:
        text += f"; the macro {short[0]} is so short that it may break the compiler's own headers: rename it"
    return text if len(text) <= _LINE_LIMIT else text[: _LINE_LIMIT - 1] + "…"


def _missing_header(text: str) -> str:
    """What to do about a header that is not there; empty where that is not the trouble."""
    missing = _NO_HEADER.search(text)
    if missing is None:
        return ""
    for start, wheel in _WHEELS.items():
        if missing[1].startswith(start):
            return f"; it is CUDA's own: pip install {wheel}"
    return "; NVRTC has no host or C++ library: name its folder in kernel.include, or take the #include out"


def _missing_include(text: str) -> str:
    """The header that brings an unknown name: nvcc includes some by itself, NVRTC none."""
    name = _UNDEFINED.search(text)
    if name is not None:
        for header, names in _BROUGHT_BY.items():
            if names.fullmatch(name[1]):
                return f"; #include <{header}> brings it"
    return ""
