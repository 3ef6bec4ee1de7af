"""Kernels with what clang's preprocessor makes of their sources, as loading a spec gives them."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from tuner.core.types import Kernel, Preprocessed, Source, Value
from tuner.spaces.source.kinds import Refused
from tuner.spaces.source.regions import configured
from tuner.spec.reading.device_programs import OPENCL_WORDS, cuda_words
from tuner.spec.reading.preprocessing import preprocess
from tuner.spec.reading.signature import SourceReader

__all__ = ["CONFIGURED", "preprocessed", "preprocessed_or_why"]

CONFIGURED = {"op": "configure", "values": {}}


def preprocessed(kernel: Kernel, tunables: Mapping[str, Sequence[Value]] | None = None) -> Kernel:
    """The kernel with its preprocessed sources; headers of other folders need not be there."""
    made, reason = preprocessed_or_why(kernel, tunables)
    assert not reason, reason
    return made


def preprocessed_or_why(
    kernel: Kernel, tunables: Mapping[str, Sequence[Value]] | None = None
) -> tuple[Kernel, str]:
    """The same, or the kernel itself with the reason why there are none."""

    def placed(found: Preprocessed, mark: str = "") -> tuple[Source, ...]:
        return configured(kernel, found).sources(mark)

    words = {"opencl": OPENCL_WORDS, "cuda": cuda_words("sm_90", passes=False)}.get(
        kernel.language, ("-O3", *(("-fopenmp",) if kernel.openmp else ()))
    )
    with tempfile.TemporaryDirectory() as folder:
        for header in kernel.headers:
            Path(folder, header.name).parent.mkdir(parents=True, exist_ok=True)
            Path(folder, header.name).write_text(header.text)
        reader = SourceReader(
            files=kernel.variant.files,
            language=kernel.language,
            folder=folder,
            include=kernel.include,
            flags=words,
        )
        try:
            found, reason = preprocess(reader, tunables or {}, [], placed, kernel.headers)
        except Refused as refusal:
            return kernel, str(refusal)
    return (kernel, reason) if reason else (replace(kernel, preprocessed=found), "")
