"""How the structures that a kernel takes are laid out: asked of NVRTC once for every setting that may change it.

The kernel as given is asked, never a candidate: what the application passes is laid out as that says. May not run
anything.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from tuner.core.canonical import digest_json
from tuner.core.types import BASELINE, Build, BuildRequest, Resolved, Source, Status, Task, Variant
from tuner.evaluators.cuda.flags import short_names
from tuner.evaluators.cuda.jobs import behind, for_device, layout_job
from tuner.evaluators.cuda.messages import one_line
from tuner.evaluators.cuda.parcels import QUESTIONS, Layout, questions, read_answers
from tuner.evaluators.host.compile_pool import CompilePool, Job, Outcome
from tuner.spaces.c_declarations import declarations

__all__ = ["Layouts", "NoLayout", "widened"]

_ERROR = re.compile(
    rf"^{re.escape(QUESTIONS)}\((?P<line>\d+)\): error(?: #\S+)?: (?P<said>.*)$", re.MULTILINE
)
_DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n\\]|\\.|\\\n)*", re.MULTILINE)
_NAME = re.compile(r"[A-Za-z_]\w*")
_SAME_IN_DOUBLE = (
    *("sqrt", "rsqrt", "cbrt", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan"),
    *("asin", "acos", "atan", "atan2", "sinh", "cosh", "tanh", "pow", "fabs", "fmin", "fmax", "fma", "floor"),
    *("ceil", "round", "trunc", "rint", "fmod", "erf", "hypot", "copysign"),
)
WIDE = "\n".join(
    [
        "#define float double",
        *(f"#define float{n} double{n}" for n in (1, 2, 3, 4)),
        *(f"#define make_float{n} make_double{n}" for n in (1, 2, 3, 4)),
        *(f"#define {name}f {name}" for name in _SAME_IN_DOUBLE),
        *(f"#define __{name}f {name}" for name in ("exp", "log", "sin", "cos", "pow")),
        "#define __fdividef(a, b) ((a) / (b))",
        "#define __ldg(p) (*(p))",
        "#line 1\n",
    ]
)
"""In front of a source, the same computation in double; what it misses shows as a reference that is strange."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoLayout:
    """Why there is no layout.

    Attributes:
        about: a parcel's or an argument's name where it is one that the source does not have so; else empty.
        said: the compiler's reason.
        build: a build that fails by it.
    """

    about: str
    said: str
    build: Build


def widened(variant: Variant) -> Variant:
    """The same in double."""
    first, *others = variant.files
    return replace(variant, files=(Source(name=first.name, text=WIDE + first.text), *others))


class Layouts:
    """Knows and asks.

    Args:
        arch: what is compiled for, ``sm_90``.
        headers: folders of CUDA's headers.
    """

    def __init__(self, arch: str, headers: Sequence[str]) -> None:
        self._arch = arch
        self._headers = headers
        self._known: dict[str, Mapping[str, Layout] | NoLayout] = {}

    def find(
        self, pool: CompilePool, task: Task, settings: Sequence[Resolved], *, wide: bool
    ) -> list[Mapping[str, Layout] | NoLayout]:
        """The layouts by parcel under each setting; nothing for a task without parcels.

        Args:
            pool: of NVRTC.
            task: whose kernel as given.
            settings: configurations.
            wide: with ``double`` for ``float``.
        """
        if not task.kernel.parcels:
            return [{} for _ in settings]
        keys = [self._key(task, resolved, wide=wide) for resolved in settings]
        new = {k: r for k, r in zip(keys, settings, strict=True) if k not in self._known}
        text, about = questions(task)
        jobs: dict[str, Job] = {}
        for key, resolved in new.items():
            variant = widened(task.kernel.variant) if wide else task.kernel.variant
            asked = for_device(task, BuildRequest(trial=BASELINE, variant=variant, resolved=resolved))
            job = layout_job(
                task, behind(asked.variant, text), resolved, arch=self._arch, headers=self._headers
            )
            if isinstance(job, Build):
                self._known[key] = NoLayout(about="", said=job.message, build=job)
            else:
                jobs[key] = job
        for key, outcome in zip(jobs, pool.run(list(jobs.values())), strict=True):
            self._known[key] = _read(task, outcome, about, tuple(new[key].macros))
        return [self._known[key] for key in keys]

    def _key(self, task: Task, resolved: Resolved, *, wide: bool) -> str:
        kernel = task.kernel
        named = _names((*kernel.variant.files, *kernel.headers))
        named |= {name for parcel in kernel.parcels for name in _NAME.findall(parcel.kind)}
        macros = {name: value for name, value in resolved.macros.items() if name in named}
        return digest_json([kernel.variant.digest, macros, list(resolved.flags), wide])


@lru_cache(maxsize=64)
def _names(files: tuple[Source, ...]) -> frozenset[str]:
    """All names outside of kernels: no macro that stands in a kernel alone changes a structure."""
    found: set[str] = set()
    for file in files:
        for directive in _DIRECTIVE.findall(file.text):
            found |= set(_NAME.findall(directive))
        for item in declarations(file.text, frozenset({"__global__"}), {}):
            if not item.device:
                found |= item.names
    return frozenset(found)


def _read(
    task: Task, outcome: Outcome, about: Sequence[str], macros: Sequence[str]
) -> Mapping[str, Layout] | NoLayout:
    if outcome.status is not Status.OK:
        return _failed("", outcome.message, outcome.status)
    log = outcome.header.get("failed")
    if log is None:
        try:
            return read_answers(outcome.blobs[0].decode(), task)
        except ValueError as error:
            return _failed("", str(error), Status.REFUSED)
    found = _ERROR.search(str(log))
    if found is None or not 0 < int(found["line"]) <= len(about):
        return _failed("", one_line(str(log), task.kernel.entry, short_names(macros)), Status.BUILD_ERROR)
    name, said = about[int(found["line"]) - 1], " ".join(found["said"].split())
    return _failed(name, said, Status.BUILD_ERROR, f"argument {name!r}: {said}")


def _failed(about: str, said: str, status: Status, message: str = "") -> NoLayout:
    return NoLayout(about=about, said=said, build=Build(status=status, message=message or said))
