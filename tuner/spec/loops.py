"""A loop as a spec's kernel: made a function by this machine's clang, or that of a record.

Must not read C.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

from tuner.core.compilers import BuildCompiler
from tuner.core.errors import UsageError
from tuner.core.types import Source, Variant
from tuner.evaluators.host.flags import meaning_to_clang
from tuner.evaluators.host.openmp import as_if_openmp
from tuner.spaces.source.outlined import OUTLINED, Outlined
from tuner.spec.build_compilers import reading_flags
from tuner.spec.models import SpecModel
from tuner.spec.reading.outlining import outline
from tuner.spec.reading.signature import SourceReader
from tuner.spec.sources import Sources
from tuner.spec.tunables import make_parameters
from tuner.spec.yaml_places import View

__all__ = ["outlined_of", "with_outlined"]

_PLACE = ("kernel", "loop")


def outlined_of(
    model: SpecModel,
    sources: Sources,
    folder: str,
    view: View,
    recorded: Mapping[str, str] | None,
    *,
    compiler: BuildCompiler | None = None,
) -> Outlined | None:
    """The loop that a spec names as a function of its own; ``None`` where it names none.

    Args:
        model: of the spec.
        sources: of its kernel.
        folder: of the spec.
        view: for places.
        recorded: files of a record, which stand for clang.
        compiler: of the user's build, where that makes the code.

    Raises:
        SpecError: there is no such loop, or it cannot be a function.
        BaselineError: clang does not accept the source.
        MachineError: there is no clang.
    """
    kernel = model.kernel
    if kernel.loop is None:
        return None
    first = sources.variant.files[0]
    if recorded is not None:
        return Outlined.from_json(json.loads(recorded[OUTLINED]), first.text)
    if sources.language not in ("c", "c++"):
        raise view.error(_PLACE, f"kernel.loop is for C and C++, not {sources.language}", "leave it out")
    if "EVOLVE-BLOCK-START" in first.text:
        raise view.error(_PLACE, "kernel.loop and EVOLVE-BLOCK marks are both there", "keep one")
    flags = list(as_if_openmp() if kernel.openmp else ())
    flags += meaning_to_clang(compiler, sources.language, folder)
    for group, choices in model.space.flags.items():
        with view.at(("space", "flags", group, 0)):
            flags += reading_flags(choices[0], compiler, folder)
    reader = SourceReader(
        files=sources.variant.files,
        language=sources.language,
        folder=folder,
        include=sources.include,
        macros={p.name: p.default for p in make_parameters(model, view) if p.macro},
        flags=tuple(flags),
    )
    try:
        return outline(reader, kernel.entry, kernel.loop)
    except UsageError as error:
        raise view.error(_PLACE, error.message, error.hint) from None


def with_outlined(model: SpecModel, sources: Sources, loop: Outlined) -> tuple[SpecModel, Sources]:
    """Model and sources with the loop's function as the kernel."""
    first, *others = sources.variant.files
    kernel = model.kernel.model_copy(update={"entry": loop.entry})
    files = (Source(name=first.name, text=loop.text), *others)
    return model.model_copy(update={"kernel": kernel}), replace(sources, variant=Variant(files=files))
