"""OpenCL C to unoptimised device IR by clang, and SPIR-V modules to IR by the translator.

May not optimise, see :mod:`tuner.evaluators.host.frontend`. What only the driver's own compiler knows (its macros, its
extensions beyond those that it lists) is not seen here: a source that asks for it is compiled as for any device.

Source: OpenCL C and SPIR-V environment specifications (Khronos); clang and LLVM user guides for SPIR-V; the
SPIRV-LLVM translator (Khronos), option ``-r``.
"""

from __future__ import annotations

import importlib.util
import re
import shutil
import time
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path, PurePath

from tuner.core.errors import SpecError
from tuner.core.types import Source, Status, Value, Variant
from tuner.evaluators.device_code.pipelines import file_digest
from tuner.evaluators.host import frontend as front
from tuner.evaluators.host.flags import Flags
from tuner.evaluators.host.toolchain import Toolchain
from tuner.evaluators.opencl.device import Device
from tuner.evaluators.opencl.module import SPIRV, module_bytes
from tuner.evaluators.opencl.program import Program

__all__ = [
    "INSTALL",
    "SpirvFrontEnd",
    "clang_options",
    "spirv_source",
    "translator",
    "translator_digest",
    "triple_of",
]

_VERSION = re.compile(r"SPIR-V_1\.(\d+)")
_NEWEST = 4
"""Minor version of SPIR-V beyond which nothing is asked for: kernels need nothing of later ones."""
_PLATFORM = re.compile(r"OpenCL (\d)\.(\d)")
_DRIVERS_OWN = ("-cl-nv-", "-cl-intel-")
INSTALL = "pip install 'remix-tuner[opencl-il]', or your system's llvm-spirv"
TRANSLATE = ("-r", "--spirv-target-env=CL2.0")
"""Options: IR with OpenCL's own names for what is built in, which is what makes SPIR-V of it again takes."""
_PACKAGE = "dpcpp_llvm_spirv"
_NAME = re.compile(r"llvm-spirv-(\d+)")


def triple_of(device: Device) -> str:
    """The target triple of SPIR-V that the device takes; empty where it takes none."""
    minors = [int(minor) for minor in _VERSION.findall(device.il)]
    known = [minor for minor in minors if minor <= _NEWEST]
    if not known:
        return ""
    return f"spirv{device.address_bits}v1.{max(known)}-unknown-unknown"


def clang_options(options: Sequence[str]) -> tuple[str, ...]:
    """What of a program's build options clang is given.

    Raises:
        SpecError: for one that cannot be had together with passes.
    """
    if "-cl-opt-disable" in options:
        raise SpecError(
            "flag -cl-opt-disable cannot be honoured together with a pass pipeline: it keeps passes out",
            "keep it out of space.flags, or write passes: off",
        )
    return tuple(o for o in options if not o.startswith(_DRIVERS_OWN))


def spirv_source(program: Program) -> front.Source:
    """What clang is given: all sources as one text, then the headers; or the module that is the source."""
    if program.is_module:
        return front.Source(variant=Variant(files=program.files), language=SPIRV)
    job = program.source.job()
    first = PurePath(program.files[0].name).name
    headers = [Source(name=name, text=text) for name, text in job["headers"]]
    return front.Source(
        variant=Variant(files=(Source(name=first, text=job["source"]), *headers)),
        language="cl",
        folder=program.folder,
        include=program.include,
    )


class SpirvFrontEnd(front.FrontEnd):
    """Runs clang for one device; see :class:`tuner.evaluators.host.frontend.FrontEnd`.

    Args:
        toolchain: whose clang.
        device: whose extensions a source may use.
        workers: how many at once.
    """

    def __init__(self, toolchain: Toolchain, device: Device, *, workers: int = 1) -> None:
        super().__init__(toolchain, triple_of(device), workers=workers)
        self._device = device

    def _further_programs(self) -> tuple[str, ...]:
        return tuple(path for path in (translator(),) if path)

    def _compile(
        self, key: str, source: front.Source, flags: Flags, macros: Mapping[str, Value]
    ) -> front.Unit:
        if source.language != SPIRV:
            return super()._compile(key, source, flags, macros)
        started = time.perf_counter()
        with self._runs.folder() as scratch:
            Path(scratch, "module.spv").write_bytes(module_bytes(source.variant.files[0].text))
            words = [*TRANSLATE, "module.spv", "-o", "out.bc"]
            status, output = self._runs.run(words, scratch, program=translator())
            if status is not Status.OK:
                said = " ".join(output.split())[:300] or "the translator gives no reason"
                return front.Unit(status=status, message=said, output=output, digest=key)
            modules = (Path(scratch, "out.bc").read_bytes(),)
        took = time.perf_counter() - started
        return front.Unit(status=Status.OK, modules=modules, output=output, seconds=took, digest=key)

    def words(self, source: front.Source, flags: Flags, macros: Mapping[str, Value]) -> list[str]:
        """The options of every run; a source's folders are in it, and nothing of the system."""
        extensions = ",".join(["-all", *(f"+{name}" for name in self._device.extensions)])
        words = ["-c", "-O3", "-target", triple_of(self._device), "-nostdlibinc"]
        words += ["-Xclang", f"-cl-ext={extensions}", "-Wno-unused-command-line-argument"]
        version = _PLATFORM.search(self._device.version)
        if version:
            words.append(f"-D__OPENCL_VERSION__={version[1]}{version[2]}0")
        words += ["-fno-color-diagnostics", "-fno-caret-diagnostics", *flags.frontend]
        return [*words, *source.reading_words]


@cache
def translator() -> str:
    """Its path, the newest of several; empty where there is none."""
    found = shutil.which("llvm-spirv")
    if found:
        return str(Path(found).resolve())
    installed = [
        (int(name[1]), path)
        for path in Path("/usr/bin").glob("llvm-spirv-*")
        if (name := _NAME.fullmatch(path.name))
    ]
    if installed:
        return str(max(installed)[1].resolve())
    package = importlib.util.find_spec(_PACKAGE)
    folders = list(package.submodule_search_locations or ()) if package is not None else []
    paths = [path for folder in folders for path in Path(folder, "bin").glob("llvm-spirv")]
    return str(paths[0]) if paths else ""


def translator_digest() -> str:
    """SHA-256 of the program; empty where there is none."""
    return file_digest(translator())
