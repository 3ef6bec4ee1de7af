"""CUDA source to unoptimised device IR by clang, with a small header in the place of NVIDIA's own.

May not optimise, see :mod:`tuner.evaluators.host.frontend`. Clang 23 cannot read the headers of CUDA 13; the folder
``include`` beside this module has what CUDA C++ offers without any ``#include``, over clang's own device headers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from tuner.core.types import Source, Task, Value, Variant
from tuner.evaluators.cuda.clang_flags import ClangFlags
from tuner.evaluators.cuda.nvptx import MARK
from tuner.evaluators.host import frontend as front
from tuner.evaluators.host.flags import Flags
from tuner.evaluators.host.toolchain import Toolchain

__all__ = ["DeviceFrontEnd", "device_source"]

_INCLUDE = Path(__file__).parent / "include"
_FEATURES = "+ptx83"
"""Of PTX at least, or clang hides instructions that every architecture here has."""
_SOURCES = (".cu",)


class DeviceFrontEnd(front.FrontEnd):
    """Runs clang for one architecture; see :class:`tuner.evaluators.host.frontend.FrontEnd`.

    Args:
        toolchain: whose clang.
        arch: for example ``sm_90``.
        libdevice: path of NVIDIA's mathematical functions as bitcode; what the kernel needs of it is linked in.
        workers: how many at once.
    """

    def __init__(self, toolchain: Toolchain, arch: str, *, libdevice: str, workers: int = 1) -> None:
        super().__init__(toolchain, arch, workers=workers)
        self._arch = arch
        self._libdevice = libdevice

    def compile(self, work: Sequence[tuple[front.Source, Flags, Mapping[str, Value]]]) -> list[front.Unit]:
        """Unoptimised bitcode for each source; the folders of the header and of libdevice may be read too."""
        own = (str(_INCLUDE), str(Path(self._libdevice).parent))
        return super().compile([(replace(s, include=(*own, *s.include)), f, m) for s, f, m in work])

    def words(self, source: front.Source, flags: Flags, macros: Mapping[str, Value]) -> list[str]:
        """The options of every run; a source's folders are in it, and nothing of the system."""
        words = [
            "-c",
            "-O3",
            "--cuda-device-only",
            f"--cuda-gpu-arch={self._arch}",
            "-nocudainc",
            "-nocudalib",
        ]
        words += ["-nostdlibinc", "-Wno-unknown-cuda-version", "-Wno-unused-command-line-argument"]
        words += ["-fomit-frame-pointer", "-Xclang", "-target-feature", "-Xclang", _FEATURES]
        # Linked by clang, libdevice's functions get the target's attributes; without those nothing inlines them.
        words += ["-Xclang", "-mlink-builtin-bitcode", "-Xclang", self._libdevice]
        # CUDA's own half is a class that braces convert to from anything; here it is a number.
        words += ["-Wno-c++11-narrowing"]
        words += ["-fno-color-diagnostics", "-fno-caret-diagnostics", *flags.frontend]
        return [*words, *source.reading_words]


def device_source(
    task: Task, variant: Variant, flags: ClangFlags, *, entry: str, macros: Mapping[str, Value]
) -> front.Source:
    """What clang is given for one candidate.

    The macros stand behind the header, which they would otherwise reach. A variable with the kernel's
    address instantiates a template and tells the symbol; it is dropped before any pass.

    Args:
        task: whose folders are looked at.
        variant: the files; several sources are included one after the other.
        flags: of the candidate.
        entry: the kernel's name expression, parameters replaced.
        macros: of the configuration.
    """
    first, *others = variant.files
    more = [f for f in others if Path(f.name).suffix in _SOURCES]
    lines = [
        '#include "tuner_device.h"',
        *(f"#define {name} {_text(value)}" for name, value in sorted(macros.items())),
        *flags.prelude,
        f'#line 1 "{first.name}"',
        first.text,
        *(f'#include "{f.name}"' for f in more),
        '#line 1 "the entry"',
        f"namespace {MARK} {{ __device__ decltype(&{entry}) entry = &{entry}; }}",
        "",
    ]
    files = (Source(name=first.name, text="\n".join(lines)), *others)
    return front.Source(
        variant=Variant(files=files),
        language="cuda",
        folder=task.kernel.folder,
        include=task.kernel.include,
    )


def _text(value: Value) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)
