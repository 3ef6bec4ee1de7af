"""What a cubin says of one kernel, and a key that is equal for equal machine code. Reads bytes; needs no GPU.

A cubin is an ELF file: ``.text.NAME`` holds a kernel's instructions, ``.nv.constant*`` its constants,
``.nv.info.NAME`` its attributes. The layout of ``.nv.info`` (format byte, attribute byte, value or size) is what
``cuobjdump -elf`` shows.
"""

from __future__ import annotations

import hashlib
import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass

from tuner.evaluators.cuda.limits import Usage
from tuner.evaluators.elf import HEADER, Section, Symbol, sections_of, symbols_of

__all__ = [
    "Resources",
    "code_key",
    "has_kernel",
    "kernel_symbols",
    "resources",
    "variable_sizes",
    "variables",
]

_OBJECT = 1
_MAX_THREADS = 0x05
_SIZED = 0x04

_FUNCTION = re.compile(
    r"Function properties for (?P<name>\S+)\n"
    r"(?P<rest>(?:(?![^\n]*(?:Compiling entry function|Function properties for) )[^\n]+\n?)*)"
)
_STACK = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_REGISTERS = re.compile(r"Used (\d+) registers")
_SHARED = re.compile(r"(\d+) bytes smem")
_BARRIERS = re.compile(r"used (\d+) barriers")
_ENTRY = re.compile(r"Compiling entry function '([^']+)'")


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """What one kernel takes.

    Attributes:
        registers: of one thread.
        spill_bytes: stores and loads to spilled registers in the code, bytes moved by one thread.
        local_bytes: stack frame of one thread, in local memory.
        shared_bytes: static shared memory of one block.
        constant_bytes: constants and parameters.
        code_bytes: machine code of the kernel.
        barriers: named barriers in use.
        most_threads: by ``__launch_bounds__``; 0 without.
    """

    registers: int
    spill_bytes: int
    local_bytes: int
    shared_bytes: int
    constant_bytes: int
    code_bytes: int
    barriers: int
    most_threads: int

    @property
    def usage(self) -> Usage:
        """The part that limits a launch."""
        return Usage(
            registers=self.registers,
            static_shared_bytes=self.shared_bytes,
            most_threads=self.most_threads,
        )


def resources(cubin: bytes, symbol: str, log: str) -> Resources:
    """What the kernel of a symbol takes.

    Args:
        cubin: the whole file.
        symbol: the kernel's, as in its ``.text`` section.
        log: of the assembler with ``--ptxas-options=-v``.

    Raises:
        ValueError: no cubin, or the kernel is not in it or not in the log.
    """
    sections = _sections(cubin)
    if f".text.{symbol}" not in sections:
        raise ValueError(f"the cubin has no kernel {symbol}")
    said = next((m["rest"] for m in _FUNCTION.finditer(log) if m["name"] == symbol), None)
    registers = _REGISTERS.search(said or "")
    if said is None or registers is None:
        raise ValueError(f"the assembler's log does not mention {symbol}")
    stack = _STACK.search(said)
    frame, stores, loads = (int(g) for g in stack.groups()) if stack else (0, 0, 0)
    info = sections.get(f".nv.info.{symbol}")
    return Resources(
        registers=int(registers[1]),
        spill_bytes=stores + loads,
        local_bytes=frame,
        shared_bytes=_first(_SHARED, said),
        constant_bytes=sum(s.size for n, s in sections.items() if _is_constant(n, symbol)),
        code_bytes=sections[f".text.{symbol}"].size,
        barriers=_first(_BARRIERS, said),
        most_threads=_most_threads(b"" if info is None else info.data),
    )


def has_kernel(cubin: bytes, symbol: str) -> bool:
    """Whether a cubin has the kernel of a symbol; raises ``ValueError`` for what is no cubin."""
    return f".text.{symbol}" in _sections(cubin)


def kernel_symbols(cubin: bytes) -> list[str]:
    """The kernels of a cubin; raises ``ValueError`` for what is no cubin."""
    return [name.removeprefix(".text.") for name in _sections(cubin) if name.startswith(".text.")]


def variables(cubin: bytes) -> dict[str, bool]:
    """Variables of a cubin's source by name, and whether they are constants, which kernels only read.

    What the compiler made for itself (tables, texts of ``printf``) and shared memory are left out.
    """
    sections = _read(cubin)
    named = [(s.name, sections[s.section].name) for s in _objects(sections) if s.section < len(sections)]
    return {
        name: kind.startswith(".nv.constant3")
        for name, kind in named
        if kind.startswith((".nv.global", ".nv.constant3")) and not name.startswith(("$", "__nv_", "."))
    }


def variable_sizes(cubin: bytes, names: Sequence[str]) -> dict[str, int]:
    """Bytes of the variables of these names that a cubin's symbols tell of; the others are left out."""
    return {s.name: s.size for s in _objects(_read(cubin)) if s.name in names}


def code_key(cubin: bytes, symbol: str, log: str) -> str:
    """Equal for cubins whose kernel must behave and perform alike: SHA-256 over machine code, constants, globals.

    The kernel's name and other kernels of the file do not count: template arguments are part of a name.
    """
    others = {f".text.{name}" for name in _ENTRY.findall(log)} - {f".text.{symbol}"}
    sections = _sections(cubin)
    state = hashlib.sha256()
    for name in sorted(sections, key=lambda n: n.replace(symbol, "")):
        counts = name.startswith((".text.", ".nv.global", ".nv.shared."))
        if name in others or not (counts or _is_constant(name, symbol)):
            continue
        if name.startswith(".nv.shared.") and name != f".nv.shared.{symbol}":
            continue
        state.update(f"{name.replace(symbol, '')}\0{sections[name].size}\0".encode())
        state.update(sections[name].data)
    found = resources(cubin, symbol, log)
    state.update(f"{found.registers} {found.local_bytes} {found.most_threads}".encode())
    return state.hexdigest()


def _first(pattern: re.Pattern[str], text: str) -> int:
    found = pattern.search(text)
    return int(found[1]) if found else 0


def _is_constant(name: str, symbol: str) -> bool:
    """Constants of the whole file (bank 3, literals) and those of the kernel itself (bank 0, its parameters)."""
    found = re.fullmatch(r"\.nv\.constant\d+(?:\.(.+))?", name)
    return found is not None and found[1] in (None, symbol)


def _sections(cubin: bytes) -> dict[str, Section]:
    """By name."""
    return {section.name: section for section in _read(cubin)}


def _read(cubin: bytes) -> list[Section]:
    if len(cubin) < HEADER.size or cubin[:4] != b"\x7fELF":
        raise ValueError("not a cubin")
    return sections_of(cubin)


def _objects(sections: Sequence[Section]) -> list[Symbol]:
    """What symbols name as data; NVRTC's are local symbols, which a driver finds as well."""
    return [symbol for symbol in symbols_of(sections) if symbol.section and symbol.kind == _OBJECT]


def _most_threads(info: bytes) -> int:
    """``__launch_bounds__`` as the block's three extents multiplied."""
    at = 0
    while at + 4 <= len(info):
        form, attribute, value = info[at], info[at + 1], struct.unpack_from("<H", info, at + 2)[0]
        at += 4
        if form == _SIZED:
            if attribute == _MAX_THREADS and value >= 12:
                x, y, z = struct.unpack_from("<III", info, at)
                return int(x * y * z)
            at += value
    return 0
