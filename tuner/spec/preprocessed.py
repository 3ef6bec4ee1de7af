"""The preprocessed sources of a spec's kernel, and its function where a macro makes it: by clang, or of a record.

Must not read C.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace

from tuner.core.canonical import canonical_json
from tuner.core.errors import SpecError
from tuner.core.types import Kernel, Preprocessed, Source, Task
from tuner.spaces.source.kinds import Refused
from tuner.spaces.source.regions import configured, read_program
from tuner.spec.build_compilers import reading_flags
from tuner.spec.machine import host_reader
from tuner.spec.reading.device_programs import DEVICE, OPENCL_WORDS, cuda_words, preprocessor_flags
from tuner.spec.reading.macro_dependence import macros_that_count, requirement
from tuner.spec.reading.preprocessing import Placed, preprocess
from tuner.spec.reading.signature import SourceReader
from tuner.spec.tunables import Tunables

__all__ = ["PREPROCESSED", "build_requirement", "with_preprocessed"]

PREPROCESSED = "preprocessed.json"
"""Under what name a record keeps them."""


def with_preprocessed(
    task: Task, tunables: Tunables, files: dict[str, str], *, live: bool
) -> tuple[Task, tuple[str, ...]]:
    """The task with its preprocessed sources, and what a person should know where it has none.

    Args:
        task: whose sources evolve.
        tunables: of its spec.
        files: of the record; what clang made is added.
        live: whether clang is asked; else the record is.

    Raises:
        MachineError: there is no clang, or it does not answer.
    """
    kernel = task.kernel
    if live:
        found, reason = _preprocess(task, tunables)
        if reason:
            _require_definition(kernel, reason)
            return task, (f"space.source: operators see the source with its macros: {reason}",)
        files[PREPROCESSED] = _to_json(found)
    if PREPROCESSED not in files:
        return task, ()
    return replace(task, kernel=replace(kernel, preprocessed=_from_json(files[PREPROCESSED]))), ()


def _require_definition(kernel: Kernel, reason: str) -> None:
    """Refuses a function that only the preprocessor makes where that cannot stand for the source."""
    try:
        read_program(kernel)
    except SpecError as error:
        if error.message in reason:
            raise
        hint = "leave source: {evolve: true} out, or mark what may change as the documentation says"
        raise SpecError(
            f"{error.message} as it is written, and of what is preprocessed {reason}", hint
        ) from None


def build_requirement(task: Task, tunables: Tunables, values: Mapping[str, int] | None) -> str:
    """Lines above an edited function that stop builds in which the author's would have been another one.

    Args:
        task: whose sources were preprocessed; of device programs there are none.
        tunables: of its spec.
        values: of tunables that the preprocessor's choices in the function rest on; ``None`` where it made none.

    Raises:
        MachineError: there is no clang, or it does not answer.
    """
    kernel = task.kernel
    if values is None or kernel.language in DEVICE:
        return ""
    reader, groups = _host(task, tunables)
    reader = reader.with_flags([word for choices in groups for word in choices[0]])
    macros = {p.name: p.values for p in tunables.parameters if p.macro}
    found = next(one for one in kernel.preprocessed if dict(one.values) == values)

    counted = macros_that_count(reader, macros, found, _placing(kernel), kernel.headers)
    return requirement(kernel.entry, {**values, **counted})


def _placing(kernel: Kernel) -> Placed:
    def placed(found: Preprocessed, mark: str = "") -> tuple[Source, ...]:
        return configured(kernel, found).sources(mark)

    return placed


def _preprocess(task: Task, tunables: Tunables) -> tuple[tuple[Preprocessed, ...], str]:
    kernel = task.kernel
    reader, flags = (_device if kernel.language in DEVICE else _host)(task, tunables)

    macros = {p.name: p.values for p in tunables.parameters if p.macro}
    try:
        return preprocess(reader, macros, flags, _placing(kernel), kernel.headers)
    except Refused as refusal:
        return (), str(refusal)


_Asked = tuple[SourceReader, list[list[tuple[str, ...]]]]
"""Whom to ask, and the choices of each group of flags."""


def _host(task: Task, tunables: Tunables) -> _Asked:
    kernel = task.kernel
    plain = host_reader(task, replace(tunables, flags={}), tunables.view)
    # Macros of the compiler's own hang on these, as in every build.
    usual = ("-O3", f"-march={task.target}")
    flags = [
        [reading_flags(choice, kernel.compiler, kernel.folder) for choice in choices]
        for choices in tunables.flags.values()
    ]
    return replace(plain, files=kernel.variant.files, flags=(*usual, *plain.flags)), flags


def _device(task: Task, tunables: Tunables) -> _Asked:
    kernel = task.kernel
    words = (
        cuda_words(task.target, passes=tunables.passes_asked) if kernel.language == "cuda" else OPENCL_WORDS
    )
    reader = SourceReader(
        files=kernel.variant.files,
        language=kernel.language,
        folder=kernel.folder,
        include=kernel.include,
        flags=words,
    )
    flags = [
        [preprocessor_flags(shlex.split(choice), kernel) for choice in choices]
        for choices in tunables.flags.values()
    ]
    return reader, flags


def _to_json(found: Sequence[Preprocessed]) -> str:
    """As JSON, for a record."""
    return canonical_json(
        [
            {
                "values": dict(each.values),
                "files": [[f.name, f.text] for f in each.files],
                "macros": list(each.macros),
                "origins": [[list(run) for run in runs] for runs in each.origins],
                "counted": each.counted,
                "numbered": each.numbered,
            }
            for each in found
        ]
    )


def _from_json(text: str) -> tuple[Preprocessed, ...]:
    """What :func:`_to_json` wrote."""
    return tuple(
        Preprocessed(
            values=tuple(sorted(each["values"].items())),
            files=tuple(Source(name=name, text=made) for name, made in each["files"]),
            macros=tuple(each["macros"]),
            origins=tuple(tuple((row, file, line) for row, file, line in runs) for runs in each["origins"]),
            counted=each["counted"],
            numbered=each["numbered"],
        )
        for each in json.loads(text)
    )
