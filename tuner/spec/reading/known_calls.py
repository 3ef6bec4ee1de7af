"""Functions of the standard libraries of C and C++, by what they do with the addresses that they are given."""

from __future__ import annotations

import re

__all__ = ["ALLOCATING", "CHOOSING", "KEEP_NOTHING", "RETURN_FIRST", "TOUCH_NOTHING", "known_name"]

_OF_NUMBERS = """
    acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp2 expm1 fabs fdim floor fma fmax
    fmin fmod frexp hypot ilogb ldexp lgamma llrint llround log log10 log1p log2 logb lrint lround modf nearbyint
    nextafter pow remainder rint round scalbn sin sincos sinh sqrt tan tanh tgamma trunc cabs carg cexp cimag conj creal
    csqrt
"""
_OTHERS = """
    abs labs llabs isnan isinf isfinite signbit free posix_memalign memcmp strlen strcmp strncmp __builtin_expect
    __builtin_assume __builtin_unreachable __builtin_prefetch __builtin_popcount __builtin_popcountl
    __builtin_popcountll __builtin_ctz __builtin_ctzl __builtin_ctzll __builtin_clz __builtin_clzl __builtin_clzll
    __builtin_huge_val __builtin_inf __builtin_nan __builtin_isnan __builtin_isinf __builtin_isfinite __builtin_signbit
"""
_OF_FILES = """
    printf fprintf sprintf snprintf puts fputs putchar scanf fscanf sscanf fread fwrite fgets fopen fclose fflush fseek
    atoi atol atof clock time gettimeofday clock_gettime exit abort getenv rand srand
"""
_MEMORY = (
    "malloc calloc realloc reallocarray aligned_alloc memalign valloc alloca __builtin_alloca_with_align"
)
_COPYING = "__builtin_assume_aligned memcpy memmove memset strcpy strncpy strcat strncat"
_MATHEMATICAL = frozenset(f"{name}{suffix}" for name in _OF_NUMBERS.split() for suffix in ("", "f", "l"))

ALLOCATING = frozenset(_MEMORY.split())
"""What they return is an object of its own, to which nothing else leads."""
RETURN_FIRST = frozenset(_COPYING.split())
"""Those that return their first argument."""
CHOOSING = frozenset({"max", "min"})
"""Those of C++ that return one of two arguments."""
TOUCH_NOTHING = _MATHEMATICAL | ALLOCATING | RETURN_FIRST | CHOOSING | frozenset(_OTHERS.split())
"""Those that access no memory of the program's but what their arguments lead to, and keep none of these."""
KEEP_NOTHING = TOUCH_NOTHING | frozenset(_OF_FILES.split())
"""Those that keep no address which they are given."""

_REFERENCES = re.compile(r"const (?P<kind>[\w ]+) &\(const (?P=kind) &, const (?P=kind) &\)( noexcept)?")
_NUMBERS = re.compile(r"[\w ]+\([\w ,]*(?:\*(?:, )?)*\)(?: noexcept.*)?")


def known_name(name: str, kind: str) -> str:
    """The name of one of these functions; empty where the type is that of another with its name.

    Args:
        name: as it is called.
        kind: the function's type, as clang writes it.
    """
    plain = name.removeprefix("__builtin_")
    plain = plain if plain in KEEP_NOTHING else name
    if plain in CHOOSING and not _REFERENCES.fullmatch(kind):
        return ""
    if plain in _MATHEMATICAL and not _NUMBERS.fullmatch(kind):
        return ""
    return "" if plain in ALLOCATING and not kind.startswith("void *(") else plain
