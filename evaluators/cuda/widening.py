"""The text in front of a source that has it computed in double, for a reference. Text only."""

from __future__ import annotations

__all__ = ["WIDE"]

_SAME_IN_DOUBLE = (
    *("sqrt", "rsqrt", "cbrt", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan"),
    *("asin", "acos", "atan", "atan2", "sinh", "cosh", "tanh", "pow", "fabs", "fmin", "fmax", "fma", "floor"),
    *("ceil", "round", "trunc", "rint", "fmod", "erf", "hypot", "copysign"),
)
WIDE = "\n".join(
    [
        "#define float double",
        *(f"#define float{n} double{n}" for n in (1, 2, 3, 4)),
        *(f"#define make_float{n} make_double{n}" for n in (1, 2, 3, 4)),
        *(f"#define {name}f {name}" for name in _SAME_IN_DOUBLE),
        *(f"#define __{name}f {name}" for name in ("exp", "log", "sin", "cos", "pow")),
        "#define __fdividef(a, b) ((a) / (b))",
        "#define __ldg(p) (*(p))",
        "#line 1\n",
    ]
)
"""In front of a source, the same computation in double; what it misses shows as a reference that is strange."""
