"""Dtypes of a spec: how C writes them, and what they become where everything is computed in float64."""

from __future__ import annotations

__all__ = ["C_TYPES", "WIDER"]

C_TYPES = {
    "bool": "_Bool",
    "int8": "signed char",
    "int16": "short",
    "int32": "int",
    "int64": "long",
    "uint8": "unsigned char",
    "uint16": "unsigned short",
    "uint32": "unsigned int",
    "uint64": "unsigned long",
    "float16": "_Float16",
    "float32": "float",
    "float64": "double",
    "complex64": "float _Complex",
    "complex128": "double _Complex",
}
"""As 64-bit Linux has them."""

WIDER = {"float16": "float64", "float32": "float64", "complex64": "complex128"}
"""What a dtype becomes in a reference that is computed in float64."""
