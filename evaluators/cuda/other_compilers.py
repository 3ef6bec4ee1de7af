"""A CUDA kernel by another compiler, for comparison: nvcc where it is installed, clang with LLVM.

The compiler is the user's own and named by the user; it runs confined, with the user's PATH and nothing else of the
environment. May not run what it makes.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path, PurePath

from tuner.core.errors import MachineError, SpecError
from tuner.core.types import BASELINE, Build, BuildRequest, Resolved, Status, Task
from tuner.evaluators.cuda.compiler import CudaCompiler
from tuner.evaluators.cuda.cubin import has_kernel
from tuner.evaluators.cuda.device_part import device_variant
from tuner.evaluators.cuda.jobs import entry_expression
from tuner.evaluators.cuda.nvrtc import toolkit_folders, wheel_folders
from tuner.evaluators.device_code.pipelines import clang_words, is_clang
from tuner.evaluators.host.frontend import macro_flags
from tuner.evaluators.sandbox.compiler_runs import CompilerRuns, first_error

__all__ = ["build_with"]

_WHEEL_FOLDERS = ("cu13/bin", "cuda_nvcc/bin", "cu12/bin")
_UNROLL = re.compile(r"^([ \t]*#[ \t]*pragma[ \t]+unroll[ \t]+)(\w+)", re.MULTILINE)
"""nvcc, unlike NVRTC, has a host's preprocessor first, which replaces no macro in this pragma."""
_TIMEOUT_S = 120.0
_OWN_OUTPUT = ("-cubin", "-ptx", "-c", "-fatbin", "-o")


def build_with(compiler: CudaCompiler, task: Task, command: Sequence[str], resolved: Resolved) -> Build:
    """The kernel as given by another compiler; whatever goes wrong is a status.

    Args:
        compiler: knows what a device needs of the baseline's kernel.
        task: whose kernel.
        command: ``nvcc`` or ``clang`` with flags, split into words.
        resolved: of the baseline.
    """
    request = BuildRequest(
        trial=BASELINE, variant=task.kernel.variant, resolved=replace(resolved, pipeline=None)
    )
    if is_clang(command):
        try:
            pipeline, flags = clang_words(command)
            by_clang = replace(request, resolved=replace(resolved, flags=flags))
            return compiler.build_by_llvm(task, by_clang, pipeline)
        except (SpecError, MachineError) as error:
            return Build(status=Status.BUILD_ERROR, message=error.message)
    if PurePath(command[0]).name != "nvcc":
        text = f"{command[0]} makes no code for a CUDA device: nvcc and clang can be compared with"
        return Build(status=Status.REFUSED, message=text)
    nvcc = _find(command[0])
    if nvcc is None:
        hint = "pip install nvidia-cuda-nvcc nvidia-cuda-crt, or a CUDA toolkit"
        return Build(status=Status.BUILD_ERROR, message=f"{command[0]} is not installed: {hint}")
    (like,) = compiler.build(task, [request])
    if like.status is not Status.OK:
        return like
    made = _by_nvcc([nvcc, *command[1:]], task, resolved, compiler.arch)
    if isinstance(made, Build):
        return made
    symbol = compiler.made(like).symbol
    if not has_kernel(made, symbol):
        text = f"nvcc's code has no {symbol}, as NVRTC calls the kernel"
        return Build(status=Status.BUILD_ERROR, message=text)
    return compiler.adopt(made, like)


def _find(name: str) -> str | None:
    folders = [*wheel_folders(_WHEEL_FOLDERS), *toolkit_folders("bin")]
    return shutil.which(name) or shutil.which(name, path=os.pathsep.join(map(str, folders)))


def _by_nvcc(command: Sequence[str], task: Task, resolved: Resolved, arch: str) -> bytes | Build:
    """The cubin, or why there is none."""
    for word in command[1:]:
        if word.startswith(("-arch", "-gencode", "--gpu-")) or word in _OWN_OUTPUT:
            text = f"{word}: the architecture is the spec's target, and what comes out is a cubin"
            return Build(status=Status.REFUSED, message=text)
    kernel = task.kernel
    entry = entry_expression(kernel.entry, {**resolved.macros, **resolved.scalars})

    def count(found: re.Match[str]) -> str:
        return found[1] + str(resolved.macros.get(found[2], found[2]))

    paths = [*(Path(kernel.folder, f) for f in kernel.include), Path(kernel.folder or ".")]
    own = [str(Path(command[0]).resolve().parents[1])]
    environment = {"PATH": os.environ.get("PATH", os.defpath)}
    runs = CompilerRuns(command[:1], read=own, timeout_s=_TIMEOUT_S, environment=environment)
    with closing(runs), runs.folder() as scratch:
        folder = Path(scratch)
        for file in device_variant(kernel.variant, entry=kernel.entry, headers=kernel.headers).files:
            (folder / PurePath(file.name).name).write_text(_UNROLL.sub(count, file.text), encoding="utf-8")
        names = [PurePath(f.name).name for f in kernel.variant.files]
        sources = [n for i, n in enumerate(names) if i == 0 or n.endswith(".cu")]
        # Naming an instance of a template is what makes nvcc compile it.
        instance = f"static void *tuner_instance = (void *)&{entry};" if "<" in entry else ""
        lines = [*(f'#include "{name}"' for name in sources), instance, ""]
        (folder / "tuner_main.cu").write_text("\n".join(lines), encoding="utf-8")
        words = [*command[1:], f"-arch={arch}", "-cubin", *macro_flags(resolved.macros)]
        words += [f"-I{path.resolve()}" for path in paths]
        words += ["-o", "kernel.cubin", "tuner_main.cu"]
        status, output = runs.start(map(str, paths), runs.run, words, scratch)()
        if status is not Status.OK:
            said = f"nvcc: {first_error(output)}" if status is Status.BUILD_ERROR else output
            return Build(status=status, message=said)
        return (folder / "kernel.cubin").read_bytes()
