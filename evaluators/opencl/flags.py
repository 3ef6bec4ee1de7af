"""Which build options an OpenCL compiler may be given. Says nothing of what a driver makes of them."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence

from tuner.core.errors import SpecError

__all__ = ["VALUE_CHANGING", "check_flags"]

_EXACT = (
    "-cl-single-precision-constant",
    "-cl-denorms-are-zero",
    "-cl-fp32-correctly-rounded-divide-sqrt",
    "-cl-opt-disable",
    "-cl-strict-aliasing",
    "-cl-mad-enable",
    "-cl-no-signed-zeros",
    "-cl-unsafe-math-optimizations",
    "-cl-finite-math-only",
    "-cl-fast-relaxed-math",
    "-cl-uniform-work-group-size",
    "-cl-no-subgroup-ifp",
    "-w",
    "-Werror",
)
_FORMS = (
    re.compile(r"-cl-std=CL(C\+\+)?\d\.\d"),
    re.compile(r"-D[A-Za-z_]\w*(=\S*)?"),
    re.compile(r"-cl-nv-(verbose|maxrregcount=\d+|opt-level=\d)"),
    re.compile(r"-cl-intel-[a-z0-9-]+(=\S+)?"),
)

VALUE_CHANGING = frozenset(
    {
        "-cl-single-precision-constant",
        "-cl-denorms-are-zero",
        "-cl-mad-enable",
        "-cl-no-signed-zeros",
        "-cl-unsafe-math-optimizations",
        "-cl-finite-math-only",
        "-cl-fast-relaxed-math",
    }
)
"""Options that may change results; the reference is computed without them."""


def check_flags(flags: Sequence[str]) -> None:
    """Raises ``SpecError`` for an option that OpenCL does not have (OpenCL 3.0 API, section 5.8.6)."""
    for flag in flags:
        if flag in _EXACT or any(form.fullmatch(flag) for form in _FORMS):
            continue
        if flag.startswith("-I"):
            raise SpecError(
                f"flag {flag}: folders of headers are no flags", "write them under kernel.include"
            )
        close = difflib.get_close_matches(flag, _EXACT, n=1)
        hint = f"did you mean {close[0]}?" if close else f"known are {', '.join(_EXACT[:8])} and others"
        raise SpecError(f"flag {flag} is no build option of OpenCL", hint)
