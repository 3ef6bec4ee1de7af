"""What a compile worker is asked about one candidate: texts, options, and the entry. May not compile."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from tuner.core.errors import SpecError
from tuner.core.types import Build, BuildRequest, Resolved, Source, Status, Task, Value, Variant
from tuner.evaluators.cuda.device_part import device_headers, device_variant
from tuner.evaluators.cuda.flags import nvrtc_options
from tuner.evaluators.host.compile_pool import Job
from tuner.evaluators.host.frontend import macro_flags

__all__ = ["behind", "entry_expression", "for_device", "job_of", "layout_job"]

_LOG_BYTES = 1 << 20
_SOURCES = (".cu",)
_EVERYWHERE = {
    f"{dashes}{name}"
    for name in ("default-device", "device-as-default-execution-space")
    for dashes in ("-", "--")
}


def for_device(task: Task, request: BuildRequest) -> BuildRequest:
    """The candidate without its host code."""
    variant = device_variant(
        request.variant,
        entry=task.kernel.entry,
        headers=task.kernel.headers,
        everywhere=bool(_EVERYWHERE & set(request.resolved.flags)),
    )
    return replace(request, variant=variant)


def behind(variant: Variant, text: str) -> Variant:
    """A variant with a text behind its first file."""
    first, *others = variant.files
    return replace(variant, files=(replace(first, text=first.text + text), *others))


def job_of(
    task: Task, variant: Variant, resolved: Resolved, *, arch: str, headers: Sequence[str]
) -> Job | Build:
    """The compilation of one candidate; a build that has failed where its flags cannot be honoured.

    Args:
        task: what is tuned.
        variant: without host code.
        resolved: its configuration.
        arch: what to compile for, ``sm_90``.
        headers: folders of CUDA's headers.
    """
    return _job(task, variant, resolved, words=[f"-arch={arch}", "--ptxas-options=-v"], headers=headers)


def layout_job(
    task: Task, variant: Variant, resolved: Resolved, *, arch: str, headers: Sequence[str]
) -> Job | Build:
    """As :func:`job_of`, as far as PTX alone: for what a compiler says of types."""
    words = [f"-arch={arch.replace('sm_', 'compute_')}"]
    found = _job(task, variant, resolved, words=words, headers=headers)
    return found if isinstance(found, Build) else replace(found, header={**found.header, "op": "layout"})


def _job(
    task: Task, variant: Variant, resolved: Resolved, *, words: Sequence[str], headers: Sequence[str]
) -> Job | Build:
    names, texts = _program(variant)
    # Behind the candidate's own, of which several may be compiled.
    parts = [part for part in _parts(task, resolved) if part.name not in names]
    names, texts = [*names, *(p.name for p in parts)], [*texts, *(p.text for p in parts)]
    values = {**resolved.macros, **resolved.scalars}
    try:
        options = [
            *words,
            *macro_flags(resolved.macros),
            *nvrtc_options(resolved.flags, folder=task.kernel.folder, files=names),
            *(f"-I{Path(task.kernel.folder, folder)}" for folder in task.kernel.include),
            *(f"-I{folder}" for folder in headers),
        ]
    except SpecError as error:
        return Build(status=Status.BUILD_ERROR, message=str(error))
    header = {
        "op": "compile",
        "names": names,
        "entry": entry_expression(task.kernel.entry, values),
        "options": options,
        "variables": [a.name for a in task.arguments if a.in_variable],
    }
    return Job(header=header, modules=tuple(t.encode() for t in texts), log_bytes=_LOG_BYTES)


def _parts(task: Task, resolved: Resolved) -> tuple[Source, ...]:
    """What the sources include from elsewhere, where it cannot be read as it lies there."""
    kernel = task.kernel
    return device_headers(
        kernel.variant,
        entry=kernel.entry,
        headers=kernel.headers,
        include=kernel.include,
        everywhere=bool(_EVERYWHERE & set(resolved.flags)),
    )


def _program(variant: Variant) -> tuple[list[str], list[str]]:
    """The main text, then what it can include; several sources are included one after the other."""
    files = list(variant.files)
    sources = [f for f in files if f is files[0] or Path(f.name).suffix in _SOURCES]
    if len(sources) == 1:
        return [f.name for f in files], [f.text for f in files]
    text = "".join(f'#include "{f.name}"\n' for f in sources)
    return ["sources", *(f.name for f in files)], [text, *(f.text for f in files)]


def entry_expression(entry: str, values: Mapping[str, Value]) -> str:
    """The name expression of a configuration: parameters inside template arguments become their values.

    >>> entry_expression("conv<float, TILE>", {"TILE": 4})
    'conv<float, 4>'
    """
    name, bracket, arguments = entry.partition("<")

    def value(found: re.Match[str]) -> str:
        given = values.get(found[0])
        if isinstance(given, bool):
            return "true" if given else "false"
        return found[0] if given is None else str(given)

    return name.strip() + bracket + re.sub(r"\b[A-Za-z_]\w*\b", value, arguments)
