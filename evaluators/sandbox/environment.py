"""What a worker process sees of the user's environment variables: an allow-list, so that no key or token gets in."""

from __future__ import annotations

import os
from collections.abc import Mapping

__all__ = ["worker_environment"]

_ALLOWED_TEXT = """
PATH HOME TMPDIR LANG LC_ALL LC_CTYPE LC_NUMERIC TZ PYTHONPATH PYTHONHASHSEED LD_LIBRARY_PATH VIRTUAL_ENV
CONDA_PREFIX XDG_CACHE_HOME CUDA_HOME CUDA_PATH CUDA_VISIBLE_DEVICES NVIDIA_VISIBLE_DEVICES OCL_ICD_VENDORS
OPENCL_VENDOR_PATH POCL_CACHE_DIR
"""
ALLOWED = frozenset(_ALLOWED_TEXT.split())
"""Names that workers may see."""


def worker_environment(*names: str, environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """Variables for a process that works on generated code or runs the user's functions.

    Args:
        names: which of :data:`ALLOWED` to take; all where left out.
        environment: variables, ``os.environ`` where left out.

    Raises:
        ValueError: a name that is not in :data:`ALLOWED`.
    """
    strange = set(names) - ALLOWED
    if strange:
        raise ValueError(f"not for workers: {', '.join(sorted(strange))}")
    variables = os.environ if environment is None else environment
    kept = names or sorted(ALLOWED)
    return {name: variables[name] for name in kept if name in variables}
