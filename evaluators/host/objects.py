"""Relocatable ELF objects: what a candidate's code is, apart from names, and what it asks of its surroundings.

Reads ELF64 little-endian relocatables as LLVM writes them for x86-64, nothing else. May not change an object.
"""

from __future__ import annotations

import hashlib
import re
import struct
from collections.abc import Collection, Iterator

from tuner.core.canonical import digest_json
from tuner.evaluators.elf import HEADER, Symbol, sections_of, symbols_of

__all__ = ["Object", "refusal", "unknown_calls"]

_RELA = struct.Struct("<QQq")
_ALLOC, _EXECUTE, _EXCLUDE = 0x2, 0x4, 0x80000000
_RELA_TYPE = 4
_AT_LOAD = frozenset((14, 15, 16))  # SHT_INIT_ARRAY, SHT_FINI_ARRAY, SHT_PREINIT_ARRAY
_SHN_UNDEF, _SHN_COMMON, _SHN_RESERVED = 0, 0xFFF2, 0xFF00
_STB_LOCAL, _STT_FUNC, _STT_IFUNC = 0, 2, 10
_PROLOGUE_BYTES = 64
_MAX_FRAME_BYTES = 1 << 26
# sub rsp, imm8 and sub rsp, imm32
_FRAME = re.compile(rb"\x48\x83\xec(.)|\x48\x81\xec(....)", re.DOTALL)

# An address of stack pointer plus displacement: ModRM with a displacement and SIB 24h (Intel SDM vol. 2, 2.1.5).
_STACK = re.compile(rb"[\x44\x4c\x54\x5c\x64\x6c\x74\x7c\x84\x8c\x94\x9c\xa4\xac\xb4\xbc]\x24")

_MATH = (
    "acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp10 exp2 expm1 fabs fdim "
    "floor fma fmax fmin fmod frexp hypot ilogb ldexp lgamma llrint llround log log10 log1p log2 logb lrint lround "
    "modf nan nearbyint nextafter pow remainder remquo rint round roundeven scalbln scalbn sin sincos sinh sqrt "
    "tan tanh tgamma trunc"
)
_MEMORY = (
    "memcpy memmove memset memcmp memchr bcmp bzero strlen strnlen strcmp strncmp strcpy strncpy strchr strrchr "
    "memset_pattern16 stpcpy abs labs llabs __memcpy_chk __memset_chk __stack_chk_fail _GLOBAL_OFFSET_TABLE_ "
    "__divti3 __modti3 __udivti3 __umodti3 __multi3 __extendhfsf2 __truncsfhf2 __truncdfhf2 __truncsfbf2 "
    "__truncdfbf2 __mulsc3 __muldc3 __divsc3 __divdc3 __powisf2 __powidf2"
)
_ALLOWED = frozenset(
    [f"{name}{suffix}" for name in _MATH.split() for suffix in ("", "f", "l")]
    + [f"__{name}{suffix}_finite" for name in _MATH.split() for suffix in ("", "f")]
    + _MEMORY.split()
)
_OPENMP = re.compile(
    r"__kmpc_((for|dist)_(static|dispatch)_\w+|dispatch_(init|next|fini)_\d+u?|dispatch_deinit|fork_call(_if)?"
    r"|push_num_threads\w*|push_proc_bind|(end_)?serialized_parallel|global_thread_num|(cancel_)?barrier"
    r"|(end_)?(reduce|reduce_nowait|critical|critical_with_hint|single|master|masked|ordered|taskgroup)"
    r"|critical_with_hint|critical|copyprivate|flush|atomic_\w+|threadprivate_cached"
    r"|omp_task(_alloc|_with_deps|_begin_if0|_complete_if0|wait|yield|wait_deps_\d+)?|omp_wait_deps|taskloop(_\d+)?"
    r"|doacross_(init|wait|post|fini)|task_reduction_\w+|taskred_\w+)"
    r"|omp_(get_(num_threads|max_threads|thread_num|num_procs|thread_limit|level|active_level|ancestor_thread_num"
    r"|team_size|schedule|wtime|wtick|dynamic|cancellation|max_active_levels|num_places|place_num|proc_bind)|in_parallel"
    r"|in_final|(init|destroy|set|unset|test)_(nest_)?lock|set_num_threads|set_schedule)|\.gomp_critical_user_.*"
    r"|GOMP_(atomic|barrier|cancel\w*|critical|doacross|loop|ordered|parallel|sections2?|single|task\w*|workshare)(_\w+)?"
)
"""What pragmas become, by clang and by gcc, and what asks the library something; nothing that takes threads away or
sets how they wait."""

_CALL = 4
"""``R_X86_64_PLT32``, which clang writes for calls and jumps alone."""

_VECTOR_MATH = re.compile(r"_ZGV[bcde]N\d+[vlu]+_\w+$")


class Object:
    """A parsed relocatable.

    Args:
        code: the file's bytes.

    Raises:
        ValueError: when this is no x86-64 relocatable.
    """

    def __init__(self, code: bytes) -> None:
        try:
            self._read(code)
        except (struct.error, IndexError, OverflowError) as error:
            raise ValueError("this object file is cut short") from error

    def _read(self, code: bytes) -> None:
        ident, kind, machine = HEADER.unpack_from(code)[:3]
        if ident[:6] != b"\x7fELF\x02\x01" or (kind, machine) != (1, 62):
            raise ValueError("this is no relocatable ELF file for x86-64")
        self.sections = sections_of(code)
        self.symbols = symbols_of(self.sections)

    @property
    def imports(self) -> frozenset[str]:
        """Names of undefined symbols."""
        return frozenset(s.name for s in self.symbols if s.section == _SHN_UNDEF and s.name)

    @property
    def called(self) -> frozenset[str]:
        """Those of the imports that are called and nothing else: no address is taken, nothing is read."""
        other = {self.symbols[symbol].name for _, _, kind, symbol, _ in self._relocations() if kind != _CALL}
        return self.imports - other

    @property
    def exports(self) -> frozenset[str]:
        """Names of defined symbols that others can see."""
        return frozenset(s.name for s in self.symbols if s.section != _SHN_UNDEF and s.binding != _STB_LOCAL)

    @property
    def runs_at_load(self) -> bool:
        """Whether loading runs code: constructors, destructors, indirect functions."""
        return any(
            s.kind in _AT_LOAD or (s.name.startswith((".ctors", ".dtors")) and s.flags & _ALLOC)
            for s in self.sections
        ) or any(s.kind == _STT_IFUNC for s in self.symbols)

    def features(self) -> dict[str, float]:
        """Static features of the machine code: sizes in bytes, counts.

        ``stack_frame_bytes`` is the largest constant that a function takes off the stack pointer in its first 64
        bytes, which misses nothing but frames made later; spills show in it. ``stack_accesses_count`` counts byte pairs
        that address the stack: spills, and a few constants that look like it.
        """
        loaded = [s for s in self.sections if s.flags & _ALLOC and not s.flags & _EXCLUDE]
        text = sum(s.size for s in loaded if s.flags & _EXECUTE)
        return {
            "text_bytes": float(text),
            "data_bytes": float(sum(s.size for s in loaded if s.name != ".eh_frame") - text),
            "relocations_count": float(sum(1 for _ in self._relocations())),
            "imports_count": float(len(self.imports)),
            "stack_accesses_count": float(
                sum(len(_STACK.findall(s.data)) for s in loaded if s.flags & _EXECUTE)
            ),
            "stack_frame_bytes": float(max(self._frames(), default=0)),
        }

    def functions(self) -> list[bytes]:
        """The code of each function that it defines, in the order of its symbols."""
        return [
            self.sections[s.section].data[s.value : s.value + s.size]
            for s in self.symbols
            if s.kind == _STT_FUNC and 0 < s.section < len(self.sections) and s.size
        ]

    def _frames(self) -> Iterator[int]:
        for symbol in self.symbols:
            if symbol.kind == _STT_FUNC and 0 < symbol.section < len(self.sections):
                data = self.sections[symbol.section].data
                size = min(symbol.size or _PROLOGUE_BYTES, _PROLOGUE_BYTES)
                found = _FRAME.search(data[symbol.value : symbol.value + size])
                if found:
                    frame = int.from_bytes(found[1] or found[2], "little")
                    if frame <= _MAX_FRAME_BYTES:
                        yield frame

    def _relocations(self) -> Iterator[tuple[int, int, int, int, int]]:
        """Index of the section, offset, kind, index of the symbol, addend."""
        for section in self.sections:
            if section.kind == _RELA_TYPE:
                for offset, info, addend in _RELA.iter_unpack(section.data):
                    yield section.info, offset, info & 0xFFFFFFFF, info >> 32, addend

    def key(self, entry: str) -> str:
        """Equal for objects that are the same code and data however their parts are called.

        File names, comments, the order of the symbol table and the names of everything that the object itself
        defines do not count; the names of what it imports do.

        Args:
            entry: the symbol that is called.
        """
        order: dict[int, int] = {}
        parts: list[object] = []
        for index, section in enumerate(self.sections):
            if section.flags & _ALLOC and not section.flags & _EXCLUDE and section.size:
                order[index] = len(order)
                data = hashlib.sha256(section.data).hexdigest()
                shape = [section.kind, section.flags & 0xFFF, section.align, section.entry_size]
                parts.append([*shape, section.size, data])
        links = [
            [order[index], offset, kind, *self._target(self.symbols[symbol], addend, order)]
            for index, offset, kind, symbol, addend in self._relocations()
            if index in order
        ]
        entries = [[order.get(s.section, -1), s.value] for s in self.symbols if s.name == entry]
        return digest_json([parts, sorted(links, key=repr), entries])

    @staticmethod
    def _target(symbol: Symbol, addend: int, order: dict[int, int]) -> list[object]:
        if symbol.section == _SHN_UNDEF:
            return ["import", symbol.name, addend]
        if symbol.section == _SHN_COMMON:
            return ["common", symbol.name, symbol.size, addend]
        if symbol.section >= _SHN_RESERVED:
            return ["absolute", symbol.value, addend]
        return ["own", order.get(symbol.section, -1), symbol.value + addend]


def unknown_calls(code: Object) -> frozenset[str]:
    """Functions that the object calls and that are no part of C's or the mathematical library."""
    return frozenset(n for n in code.called if n not in _ALLOWED and not _VECTOR_MATH.match(n))


def refusal(code: Object, *, allowed_imports: Collection[str] = (), openmp: bool = False) -> str:
    """Why this object may not be run, one line; empty when it may.

    Allowed are libm, libmvec, the string and memory functions of libc, the compiler's run-time helpers, what
    ``allowed_imports`` adds (what the baseline itself imports), and with ``openmp`` what its pragmas need.
    """
    if code.runs_at_load:
        return "the object runs code when it is loaded (a constructor or an indirect function)"
    strange = sorted(
        name
        for name in code.imports
        if name not in _ALLOWED
        and name not in allowed_imports
        and not _VECTOR_MATH.match(name)
        and not (openmp and _OPENMP.fullmatch(name))
    )
    if strange:
        return f"the object calls or reads {', '.join(strange[:5])}, which the kernel as given does not"
    return ""
