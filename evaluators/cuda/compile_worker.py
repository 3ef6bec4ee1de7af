"""The process that compiles CUDA: libnvrtc loaded once, forked for each worker.

Started as ``python -m tuner.evaluators.cuda.compile_worker LIBRARY``; the talk is that of
:mod:`tuner.evaluators.host.compile_worker`. May not run what it makes: it needs no driver and opens no device.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from tuner.evaluators.cuda.cubin import code_key, resources, variable_sizes
from tuner.evaluators.cuda.nvrtc import Nvrtc, NvrtcError
from tuner.evaluators.cuda.ptx import instruction_mix, parameters
from tuner.evaluators.host.compile_worker import JobFailed, Work, run_zygote

__all__ = ["main"]


def main(arguments: Sequence[str]) -> int:
    """The zygote of libnvrtc, whose path is the first argument; folders of headers follow."""

    def load() -> tuple[dict[str, Any], Any]:
        library = Nvrtc(arguments[0])

        def begin(options: Sequence[str], log: int) -> Mapping[str, Work]:
            return {
                "compile": lambda header, modules: _compile(library, header, modules),
                "layout": lambda header, modules: _layout(library, header, modules),
            }

        return {"version": library.version, "architectures": library.architectures()}, begin

    # The library opens another one beside it when it compiles for the first time.
    return run_zygote(load, read=(os.path.dirname(os.path.realpath(arguments[0])), *arguments[1:]))


def _compile(
    library: Nvrtc, header: dict[str, Any], modules: Sequence[bytes]
) -> tuple[dict[str, Any], list[bytes]]:
    """One source with its headers; the answer has the kernel's symbol, resources, instruction mix and key."""
    started = time.perf_counter()
    texts = [m.decode() for m in modules]
    entry = header["entry"]
    try:
        made = library.compile(
            texts[0],
            name=header["names"][0],
            headers=dict(zip(header["names"][1:], texts[1:], strict=True)),
            entries=[entry, *(f"&{name}" for name in header["constants"])],
            options=header["options"],
        )
    except NvrtcError as error:
        # The pool shortens an error to one line, so the whole log travels in an answer of its own.
        return {"failed": str(error)}, []
    compiled = time.perf_counter()
    symbol = made.symbols[entry]
    try:
        found = resources(made.cubin, symbol, made.log)
        key = code_key(made.cubin, symbol, made.log)
    except ValueError as error:
        raise JobFailed(str(error)) from None
    answer = {
        "symbol": symbol,
        "key": key,
        "log": made.log,
        "resources": {name: getattr(found, name) for name in found.__slots__},
        "mix": instruction_mix(made.ptx, symbol),
        "parameters": parameters(made.ptx, symbol),
        "constants": variable_sizes(made.cubin, header["constants"]),
        "seconds": {"nvrtc": compiled - started, "features": time.perf_counter() - compiled},
    }
    return answer, [made.cubin, made.ptx.encode()]


def _layout(
    library: Nvrtc, header: dict[str, Any], modules: Sequence[bytes]
) -> tuple[dict[str, Any], list[bytes]]:
    """The PTX of one source with its headers, no kernel asked for."""
    texts = [m.decode() for m in modules]
    try:
        made = library.compile(
            texts[0],
            name=header["names"][0],
            headers=dict(zip(header["names"][1:], texts[1:], strict=True)),
            entries=[],
            options=header["options"],
        )
    except NvrtcError as error:
        return {"failed": str(error)}, []
    return {}, [made.ptx.encode()]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
