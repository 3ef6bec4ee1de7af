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
    text = " ".join(text.split()) + _missing_header(text)
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
