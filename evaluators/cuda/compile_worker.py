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
from tuner.evaluators.cuda.nvrtc import Compiled, Nvrtc, NvrtcError
from tuner.evaluators.cuda.ptx import instruction_mix, parameters
from tuner.evaluators.host.compile_worker import Answer, JobFailed, Work, run_zygote

__all__ = ["code_answer", "main"]


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


def _compile(library: Nvrtc, header: dict[str, Any], modules: Sequence[bytes]) -> Answer:
    """One source with its headers; the answer is :func:`code_answer`'s."""
    started = time.perf_counter()
    variables = header["variables"]
    try:
        made = _compiled(library, header, modules, [header["entry"], *(f"&{name}" for name in variables)])
    except NvrtcError as error:
        # The pool shortens an error to one line, so the whole log travels in an answer of its own.
        return {"failed": str(error)}, []
    seconds = {"nvrtc": time.perf_counter() - started}
    symbol = made.symbols[header["entry"]]
    symbols = {name: made.symbols[f"&{name}"] for name in variables}
    return code_answer(symbol, made.cubin, made.ptx, made.log, variables=symbols, seconds=seconds)


def _layout(library: Nvrtc, header: dict[str, Any], modules: Sequence[bytes]) -> Answer:
    """The PTX of one source with its headers, no kernel asked for."""
    try:
        return {}, [_compiled(library, header, modules, []).ptx.encode()]
    except NvrtcError as error:
        return {"failed": str(error)}, []


def _compiled(
    library: Nvrtc, header: dict[str, Any], modules: Sequence[bytes], entries: Sequence[str]
) -> Compiled:
    text, *headers = (m.decode() for m in modules)
    name, *names = header["names"]
    return library.compile(
        text,
        name=name,
        headers=dict(zip(names, headers, strict=True)),
        entries=entries,
        options=header["options"],
    )


def code_answer(
    symbol: str,
    cubin: bytes,
    ptx: str,
    log: str,
    *,
    variables: Mapping[str, str],
    seconds: Mapping[str, float],
) -> Answer:
    """What is told of a kernel's code: its symbol, resources, instruction mix and key; then cubin and PTX.

    Args:
        symbol: of the kernel.
        cubin: its machine code.
        ptx: what that was made from.
        log: of the assembler.
        variables: those whose sizes are told, by their names in the source their symbols.
        seconds: that were taken so far, by what took them; reading the code is added.

    Raises:
        JobFailed: the kernel is not in it.
    """
    begin = time.perf_counter()
    sizes = variable_sizes(cubin, list(variables.values()))
    try:
        found = resources(cubin, symbol, log)
        key = code_key(cubin, symbol, log)
    except ValueError as error:
        raise JobFailed(str(error)) from None
    answer = {
        "symbol": symbol,
        "key": key,
        "log": log,
        "resources": {name: getattr(found, name) for name in found.__slots__},
        "mix": instruction_mix(ptx, symbol),
        "parameters": parameters(ptx, symbol),
        "variables": {name: [own, sizes[own]] for name, own in variables.items() if own in sizes},
    }
    return {**answer, "seconds": {**seconds, "features": time.perf_counter() - begin}}, [cubin, ptx.encode()]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
