"""What clang makes of a kernel by itself: whether its code is the baseline's, and what its vectoriser says of loops."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath

from tuner.core.types import BuildRequest, Kernel, Resolved, Status, Value, Variant
from tuner.evaluators.host import frontend as front
from tuner.evaluators.host.compiler import BASE_PIPELINE, HostCompiler
from tuner.evaluators.host.flags import sort_flags
from tuner.evaluators.host.objects import Object
from tuner.spaces.c_declarations import declarations

__all__ = ["Difference", "baseline_differs", "loop_remarks"]

_VECTORISER_REMARKS = tuple(f"-Rpass{kind}=loop-vectorize" for kind in ("", "-missed", "-analysis"))
_REMARK = re.compile(r"^([^\n:]+):(\d+):\d+: remark: (.*?)(?: \[-R[^\n]*\])?$", re.MULTILINE)
_MOST_REMARKS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """How the project's own baseline compares with the code of clang itself.

    ``same`` is ``None`` where there is nothing to compare, and ``message`` says why.
    """

    same: bool | None
    message: str = ""


def baseline_differs(
    compiler: HostCompiler,
    kernel: Kernel,
    flags: Sequence[str] = (),
    *,
    macros: Mapping[str, Value] | None = None,
) -> Difference:
    """Compares ``default<O3>`` here with ``clang -O3`` itself.

    Raises:
        SpecError: for a flag that cannot be honoured.
    """
    resolved = Resolved(macros=macros or {}, scalars={}, flags=tuple(flags), pipeline=BASE_PIPELINE)
    request = BuildRequest(trial=0, variant=kernel.variant, resolved=resolved)
    # What an argument stands for is defined in clang's own object.
    kernel = replace(kernel, variables=(), alone=False)
    ours = compiler.build(kernel, [request], allowed_imports=None)[0]
    if ours.status is not Status.OK:
        return Difference(same=None, message=ours.message)
    if sum(PurePath(f.name).suffix not in (".h", ".hpp", "") for f in kernel.variant.files) > 1:
        return Difference(same=None, message="several files are linked before they are optimised")
    sorted_ = sort_flags(flags, folder=kernel.folder)
    status, output, code = compiler.front.object_of(front.Source.of(kernel), sorted_, macros or {})
    if status is not Status.OK:
        return Difference(same=None, message=output.strip().split("\n")[0])
    # The entry of a C++ kernel has its mangled name in clang's own object.
    same = Object(ours.code).key("") == Object(code).key("")
    return Difference(
        same=same,
        message="" if same else "the baseline's code is not that of clang -O3",
    )


def loop_remarks(
    compiler: HostCompiler,
    kernel: Kernel,
    flags: Sequence[str],
    macros: Mapping[str, Value],
    variant: Variant | None = None,
) -> str:
    """What clang's vectoriser says of the loops of a source, one line; empty where it says nothing.

    Source: clang's user manual, options to emit optimisation reports (``-Rpass``).
    """
    sorted_ = sort_flags(flags, folder=kernel.folder)
    asking = replace(sorted_, given=(*sorted_.given, *_VECTORISER_REMARKS))
    _, output, _ = compiler.front.object_of(front.Source.of(kernel, variant), asking, macros)
    first = (variant or kernel.variant).files[0]
    lines = _lines_of(kernel, first.text)
    found = [m for m in _REMARK.finditer(output) if not m[1].endswith(first.name) or int(m[2]) in lines]
    said = [f"line {m[2]}: {m[3]}" for m in found]
    return "; ".join(dict.fromkeys(said[:_MOST_REMARKS]))


def _lines_of(kernel: Kernel, text: str) -> range:
    """Lines of the first file that the user is told of."""
    if kernel.alone:
        for found in declarations(text, frozenset(), {}):
            if kernel.entry.rpartition("::")[2] in found.declares:
                return range(text.count("\n", 0, found.start) + 1, text.count("\n", 0, found.end) + 2)
    # Behind the source stands the wrapper of a kernel that takes structures, which is none of the user's.
    return range(1, len(text.splitlines()) + 1 if kernel.wrapper else sys.maxsize)
