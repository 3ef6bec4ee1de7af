"""The process that runs pass pipelines over device IR: libLLVM, llvmlite and nvJitLink loaded once, then forked.

Started as ``python -m tuner.evaluators.cuda.pass_worker PLACES``; the talk is that of
:mod:`tuner.evaluators.host.compile_worker`. May not run what it makes: it needs no driver and opens no device.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

from tuner.evaluators.cuda.compile_worker import code_answer
from tuner.evaluators.cuda.nvjitlink import NvJitLink, NvJitLinkError
from tuner.evaluators.cuda.nvptx import TRIPLE, NvptxModule
from tuner.evaluators.device_code.generators import Generator, make_generator
from tuner.evaluators.host.compile_worker import Answer, JobFailed, Work, run_zygote
from tuner.evaluators.host.llvm_library import Library, PassOptions

__all__ = ["main"]

_TIMING = re.compile(r"^ptxas info\s*: Compile time = .*\n?", re.MULTILINE)
_LINES = 2
_CODES_KEPT = 128


class _Worker:
    """What is done for each ``op``.

    Args:
        library: runs the passes.
        generator: makes PTX.
        linker: makes cubins.
    """

    def __init__(self, library: Library, generator: Generator, linker: NvJitLink) -> None:
        self._library = library
        self._generator = generator
        self._linker = linker
        self._codes: OrderedDict[str, tuple[str, bytes, str]] = OrderedDict()
        self.work: dict[str, Work] = {"prepare": self._prepare, "compile": self._compile}

    def _prepare(self, header: dict[str, Any], modules: Sequence[bytes]) -> Answer:
        """The front end's module everything but the kernel hidden."""
        module = NvptxModule(self._library, modules[0])
        try:
            symbol = module.take_entry()
            variables = {name: module.take_variable(i) for i, name in enumerate(header["variables"])}
            module.keep_only(symbol, *variables.values())
            module.resolve_reflection(header["reflection"])
            missing = module.undefined()
            if missing:
                raise JobFailed(f"nothing defines {missing[0]}, which the kernel calls")
            module.verify()
            return {"symbol": symbol, "variables": variables}, [module.bitcode()]
        finally:
            module.close()

    def _compile(self, header: dict[str, Any], modules: Sequence[bytes]) -> Answer:
        """One pipeline; the answer is :func:`tuner.evaluators.cuda.compile_worker.code_answer`'s."""
        started = time.perf_counter()
        arch, symbol = header["arch"], header["symbol"]
        module = NvptxModule(self._library, modules[0])
        try:
            module.run_passes(
                header["pipeline"], self._generator.machine(TRIPLE, arch), PassOptions(**header["passes"])
            )
            if symbol not in module.names():
                raise JobFailed("the pass pipeline removed the kernel")
            passed = time.perf_counter()
            # Many pipelines end in the same IR, and then in the same code.
            same = sha256(module.bitcode() + repr([arch, header["assembler"]]).encode()).hexdigest()
            code = self._codes.get(same)
            if code is None:
                code = self._codes[same] = self._code(module, header)
                if len(self._codes) > _CODES_KEPT:
                    self._codes.popitem(last=False)
        finally:
            module.close()
        ptx, cubin, log = code
        seconds = {"passes": passed - started, "codegen": time.perf_counter() - passed}
        return code_answer(symbol, cubin, ptx, log, variables=header["variables"], seconds=seconds)

    def _code(self, module: NvptxModule, header: Mapping[str, Any]) -> tuple[str, bytes, str]:
        """PTX, cubin, and the assembler's log."""
        ptx = self._generator.assembly(module, TRIPLE, header["arch"])
        options = [f"-arch={header['arch']}", "-Xptxas=-v", *header["assembler"]]
        try:
            cubin, log = self._linker.assemble(ptx, name="kernel.ptx", options=options)
        except NvJitLinkError as error:
            said = [line.strip() for line in str(error).splitlines() if line.strip()]
            raise JobFailed("assembler: " + "; ".join(said[:_LINES])) from None
        # The one thing in it that differs from run to run.
        return ptx, cubin, _TIMING.sub("", log)


def main(arguments: Sequence[str]) -> int:
    """The zygote; its only argument is a JSON object with the places of ``llvm`` and ``nvjitlink``."""
    places = json.loads(arguments[0])

    def load() -> tuple[dict[str, Any], Any]:
        library = Library(places["llvm"])
        generator = make_generator(library, "NVPTX")
        linker = NvJitLink(places["nvjitlink"])
        greeting = {"llvm": library.version, "generator": generator.name, "nvjitlink": linker.version}
        return greeting, lambda options, log: _Worker(library, generator, linker).work

    return run_zygote(load)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
