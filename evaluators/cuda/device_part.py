"""A CUDA source without its host code, for compilers that take kernels alone.

Most people's kernels stand in one file with the code that launches them. NVRTC, clang for the device and the emulation
take none of that: no `<<<`, no headers of the host. Here what no kernel needs becomes blanks, so that lines and columns
stay; the files themselves, which are edited and handed back, keep everything. Works by the text's looks, as macros that
are tunables are not defined yet. May not compile, or change what is left.

Kept are functions and variables for the device, and of all else (types, constants, templates) what these name, and what
that names in turn.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import PurePosixPath

from tuner.core.types import Source, Variant
from tuner.spaces.c_declarations import Declaration, declarations, marks_of

__all__ = ["device_headers", "device_variant", "host_header"]

_NOISE = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"", re.DOTALL)
_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[ \t]*[<\"]([^>\"\n]+)[>\"][^\n]*", re.MULTILINE)
_DEFINE = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)((?:[^\n\\]|\\.|\\\n)*)", re.MULTILINE)
_NAME = re.compile(r"[A-Za-z_]\w*")
_DIRECTIVES = re.compile(r"(^[ \t]*#(?:[^\n\\]|\\.|\\\n)*)", re.MULTILINE)
"""Within host code these stay: a conditional that opens there may close behind it, and a macro counts from there on."""
_NOTHING = re.compile(r"(?!)")
_GUARDED = "__CUDACC_RTC__"
"""Who asks for this macro has parted device and host code already."""

_FIRST = (
    "#include <limits.h>\n#include <math.h>\n#include <stddef.h>\n#include <stdint.h>\n#include <string.h>\n"
    "typedef unsigned short ushort; typedef unsigned int uint; typedef unsigned long ulong;\n"
)
"""What nvcc has before each source, as it is a compiler of the host's too."""
_OF_CCCL = re.compile(r"(cuda|cub|thrust|nv)/|cooperative_groups|curand_")
_CCCL = "#if __has_include(<cuda/std/cstdint>)\n#include <cuda/std/cstdint>\n#endif\n"
"""Before ours where CCCL is used: it has other integers of 64 bits for NVRTC."""
_BROUGHT = (
    ("cuda_bf16.h", frozenset({"__nv_bfloat16", "nv_bfloat16", "__nv_bfloat162", "nv_bfloat162"})),
    ("cuda_fp16.h", frozenset({"__half", "half", "__half2", "half2"})),
)
"""Headers for devices that headers of the host bring along, with the names that ask for them."""
_TRAITS = """
is_same is_same_v enable_if enable_if_t conditional conditional_t bool_constant integral_constant true_type false_type
void_t remove_const remove_const_t remove_cv remove_cv_t remove_reference remove_reference_t remove_pointer
remove_pointer_t decay decay_t is_integral is_integral_v is_floating_point is_floating_point_v is_arithmetic
is_arithmetic_v is_signed is_signed_v is_unsigned is_unsigned_v is_pointer is_pointer_v is_enum is_enum_v
make_unsigned make_unsigned_t make_signed make_signed_t underlying_type underlying_type_t common_type common_type_t
is_const is_const_v is_base_of is_base_of_v is_trivially_copyable is_trivially_copyable_v declval
"""
_ASKED_FOR = {
    "limits": frozenset({"numeric_limits"}),
    "type_traits": frozenset(_TRAITS.split()),
    "algorithm": frozenset({"min", "max", "clamp"}),
    "utility": frozenset({"swap", "move", "forward"}),
    "cstddef": frozenset({"size_t", "ptrdiff_t"}),
}
"""Headers of C++ that device code uses without a mark, of which the project has what devices use."""
_OF_STD = re.compile(r"\bstd\s*::\s*(\w+)")
_USES_STD = re.compile(r"\busing\s+namespace\s+std\s*;")
_ALL_OF_CUB = "cub/cub.cuh"
"""Has what the host starts as well, which NVRTC refuses; its parts can be included one by one."""
_CUB_TEXT = (
    "adjacent_difference discontinuity exchange histogram load merge_sort radix_rank radix_sort reduce "
    "run_length_decode scan shuffle store"
)
_CUB_PARTS = frozenset(_CUB_TEXT.split())
_NAMED_FOLDERS = ("thrust/", "cub/")
"""Headers that are for the host unless what is left names their namespace."""
_HOST_HEADER_TEXT = """
algorithm any array atomic barrier bit bitset charconv chrono codecvt compare complex
condition_variable coroutine deque exception execution filesystem format forward_list fstream
functional future initializer_list iomanip ios iosfwd iostream istream iterator latch limits list
locale map memory memory_resource mutex new numbers numeric optional ostream queue random ranges
ratio regex scoped_allocator semaphore set shared_mutex span sstream stack stdexcept stop_token
streambuf string string_view strstream system_error thread tuple type_traits typeindex typeinfo
unordered_map unordered_set utility valarray variant vector cctype cerrno cfenv cinttypes clocale
csetjmp csignal cstdarg cstdlib ctime cuchar cwchar ctype.h errno.h error.h fenv.h getopt.h
inttypes.h libgen.h locale.h malloc.h memory.h omp.h mpi.h pthread.h sched.h setjmp.h signal.h
stdarg.h strings.h time.h unistd.h wchar.h fcntl.h dirent.h stdbool.h windows.h cublas.h cublas_v2.h
cublasLt.h cufft.h cufftXt.h curand.h cusolverDn.h cusparse.h cudnn.h nccl.h nvml.h nvrtc.h
nvJitLink.h glob.h grp.h netdb.h poll.h pwd.h semaphore.h termios.h cuda_runtime_api.h
cuda_profiler_api.h cudaProfiler.h cuda_gl_interop.h cutil.h cutil_inline.h cutil_math.h exception.h
err.h alloca.h execinfo.h regex.h spawn.h sysexits.h utime.h zlib.h
"""
_HOST_HEADERS = frozenset(_HOST_HEADER_TEXT.split())
"""Of C++, C and POSIX, then NVIDIA's; those that the compilers here have in a form for devices are not among them."""
_HOST_FOLDERS = (
    "sys/",
    "linux/",
    "arpa/",
    "netinet/",
    "GL/",
    "X11/",
    "EGL/",
    "GLFW/",
    "cudnn_frontend",
    "opencv2/",
    "boost/",
    "gtest/",
    "nvtx3/",
    "bits/",
)
_HOST_STEMS = re.compile(r"helper_(?!math)|nvToolsExt")


def device_variant(
    variant: Variant, *, entry: str, headers: tuple[Source, ...] = (), everywhere: bool = False
) -> Variant:
    """A variant whose files are without host code; itself where none has any.

    Args:
        variant: the files as they are edited.
        entry: the kernel's name expression; types that it names are kept.
        headers: others that the files include: what they need of the files is kept, and their macros may be marks.
        everywhere: functions without a mark are for the device too, as with ``--device-as-default-execution-space``.
    """
    files, _ = _device_files(variant.files, entry, headers, everywhere)
    return variant if files is variant.files else replace(variant, files=files)


def device_headers(
    variant: Variant,
    *,
    entry: str,
    headers: tuple[Source, ...],
    include: tuple[str, ...],
    everywhere: bool = False,
) -> tuple[Source, ...]:
    """Headers of other folders, and sources that others include, without their host code.

    They go by each name under which they are included, because a compiler that is handed a text does not know where it
    lay. Empty where the files on disk will do.

    Args:
        variant: as given, with its host code.
        entry: as in :func:`device_variant`.
        headers: by their names relative to the kernel's folder.
        include: folders of headers, relative to it.
        everywhere: as in :func:`device_variant`.
    """
    _, cut = _device_files(variant.files, entry, headers, everywhere)
    if cut == headers and not any(PurePosixPath(h.name).suffix == ".cu" for h in headers):
        return ()
    named: dict[str, Source] = {}
    known = {posixpath.normpath(h.name): h for h in cut}
    for file in (*variant.files, *headers):
        for written in (m[1].strip() for m in _includes(file.text)):
            places = (posixpath.dirname(file.name), "", *include)
            for place in places:
                found = known.get(posixpath.normpath(posixpath.join(place, written)))
                if found is not None:
                    named.setdefault(written, replace(found, name=written))
                    break
    return tuple(named.values())


@lru_cache(maxsize=64)
def _device_files(
    files: tuple[Source, ...], entry: str, headers: tuple[Source, ...], everywhere: bool
) -> tuple[tuple[Source, ...], tuple[Source, ...]]:
    """The files and the headers, each without host code; themselves where they have none."""
    every = (*files, *headers)
    macros = _macros(every)
    marks = marks_of(macros)
    items = {f: declarations(f.text, marks, macros) for f in every}
    mixed = [f for f in every if _GUARDED not in f.text and _has_host_code(f, items[f], everywhere)]
    if not mixed:
        return files, headers
    kept = _needed([item for f in every for item in items[f]], macros, entry, everywhere)
    named = frozenset().union(*(item.names for item in kept))
    own = any(f in mixed for f in files)

    def cut(file: Source) -> Source:
        if _GUARDED in file.text or (file not in mixed and not (own and file in files)):
            return file
        return replace(file, text=_blanked(file.text, items[file], kept, named))

    first, *others = map(cut, files)
    before = _before(every, [first, *others, *map(cut, headers)], named)
    first = replace(first, text=f"{before}#line 1\n{first.text}")
    return (first, *others), tuple(map(cut, headers))


def _has_host_code(file: Source, items: Sequence[Declaration], everywhere: bool) -> bool:
    """Whether a compiler for devices would stumble."""
    refused = not everywhere and not all(item.device or item.usable for item in items)
    return refused or any(_of_host(m[1], frozenset()) for m in _includes(file.text))


def _before(files: Sequence[Source], cut: Sequence[Source], named: frozenset[str]) -> str:
    """What a source without its host code finds all the same, as headers of the host would bring it along."""
    headers = [header for header, names in _BROUGHT if names & named]
    spelt = {name for f in cut for name in _OF_STD.findall(_NOISE.sub(" ", f.text))}
    standard = [header for header, names in _ASKED_FOR.items() if names & spelt]
    uses = any(_USES_STD.search(_NOISE.sub(" ", f.text)) for f in files)
    if uses:
        others = (header for header in ("limits", "type_traits") if _ASKED_FOR[header] & named)
        standard = list(dict.fromkeys((*standard, *others)))
    if any(m[1] == _ALL_OF_CUB for f in files for m in _includes(f.text)):
        headers += _of_cub(named)
    included = [m[1] for f in cut for m in _includes(f.text)]
    cccl = any(_OF_CCCL.match(header) for header in (*included, *headers))
    own = "".join(f"#include <{header}>\n" for header in (*headers, *standard))
    return (_CCCL if cccl else "") + _FIRST + own + ("using namespace std;\n" if uses and standard else "")


def _of_cub(named: frozenset[str]) -> list[str]:
    """The headers of the blocks' and warps' operations that are named: ``BlockReduce`` is in ``block_reduce.cuh``."""
    found = (m for name in sorted(named) if (m := re.fullmatch(r"(Block|Warp)([A-Z][a-z]+)+", name)))
    words = (re.findall(r"[A-Z][a-z]+", m[0]) for m in found)
    return [
        f"cub/{first.lower()}/{first.lower()}_{'_'.join(rest).lower()}.cuh"
        for first, *rest in words
        if "_".join(rest).lower() in _CUB_PARTS
    ]


def host_header(name: str) -> bool:
    """Whether a header is known to be one of the host's."""
    return _of_host(name, frozenset())


def _of_host(header: str, named: frozenset[str]) -> bool:
    name = header.strip()
    if name in _ASKED_FOR:
        return not named & _ASKED_FOR[name]
    if name == "cuda.h":
        # What a device knows of it are types like CUtensorMap.
        return not any(word.startswith("CU") for word in named)
    if name.startswith(_NAMED_FOLDERS):
        return name == _ALL_OF_CUB or name.partition("/")[0] not in named
    return (
        name in _HOST_HEADERS
        or name.startswith(_HOST_FOLDERS)
        or _HOST_STEMS.match(PurePosixPath(name).name) is not None
    )


def _macros(files: Sequence[Source]) -> dict[str, frozenset[str]]:
    """The names in each macro's definitions."""
    found: dict[str, frozenset[str]] = {}
    for file in files:
        for name, rest in _DEFINE.findall(_NOISE.sub(" ", file.text)):
            found[name] = found.get(name, frozenset()) | frozenset(_NAME.findall(rest))
    return found


def _includes(text: str) -> Iterator[re.Match[str]]:
    """What a text includes, but for comments; as long as the text."""
    plain = _NOISE.sub(lambda m: m[0] if m[0].startswith('"') else re.sub(r"[^\n]", " ", m[0]), text)
    return _INCLUDE.finditer(plain)


def _needed(
    items: Sequence[Declaration], macros: Mapping[str, frozenset[str]], entry: str, everywhere: bool
) -> set[Declaration]:
    """What is for the device, and what that names, over and over."""
    kept = {item for item in items if item.device}
    wanted: set[str] = set()
    new = set(_NAME.findall(entry)).union(*(item.names for item in kept))
    while new:
        wanted |= new
        found = {
            item
            for item in items
            if item not in kept and item.declares & wanted and (everywhere or item.usable)
        }
        kept |= found
        spelt = set().union(*(macros.get(name, frozenset()) for name in new))
        new = spelt.union(*(item.names for item in found)) - wanted
    dropped = {name for item in items if item not in kept for name in item.declares} | {"std"}
    known = {name for item in kept for name in item.declares}
    return kept | {
        item for item in items if not item.declares and not item.names & (dropped - known) and item.names
    }


def _blanked(text: str, items: Sequence[Declaration], kept: set[Declaration], named: frozenset[str]) -> str:
    spans = [(item.start, item.end, _DIRECTIVES) for item in items if item not in kept]
    spans += [(*span, _DIRECTIVES) for item in items if item in kept for span in item.host]
    spans += [(m.start(), m.end(), _NOTHING) for m in _includes(text) if _of_host(m[1], named)]
    for start, end, stays in sorted(spans, key=lambda span: span[:2], reverse=True):
        parts = stays.split(text[start:end])
        # What a pattern in brackets splits at stands at the odd places.
        blank = "".join(part if i % 2 else re.sub(r"[^\n]", " ", part) for i, part in enumerate(parts))
        text = text[:start] + blank + text[end:]
    return text
