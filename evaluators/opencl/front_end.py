"""What PoCL's front end made of a program, taken from the folder that it keeps such things in and put into another.

To give a program as a binary PoCL compiles every kernel in it for work-groups of any size, which no launch here uses:
for one of many kernels that takes longer than everything else. Instead the loading process builds the source again,
and finds the front end's result where it looks for it. Where it does not, it compiles: slower, and nothing else.

Used inside workers, confined as they are. May not run a kernel.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

__all__ = ["known", "put", "take"]

_MARK = b"front end of PoCL\0"
_CODE = "program.bc"


def known(cache: Path) -> frozenset[Path]:
    """The programs in a folder of PoCL's.

    Args:
        cache: ``POCL_CACHE_DIR``.
    """
    return frozenset(cache.glob(f"*/*/{_CODE}"))


def take(cache: Path, before: frozenset[Path], source: str, options: Sequence[str]) -> bytes:
    """The one program that is new in a folder, with what it was made of; empty where there is none, or more than one.

    Args:
        cache: ``POCL_CACHE_DIR``.
        before: what was known before the build.
        source: the text that was built.
        options: that it was built with.
    """
    found = known(cache) - before
    if len(found) != 1:
        return b""
    (code,) = found
    place = code.relative_to(cache).as_posix()
    head = json.dumps({"place": place, "source": source, "options": list(options)}).encode()
    return _MARK + len(head).to_bytes(8, "little") + head + code.read_bytes()


def put(cache: Path, binary: bytes) -> tuple[str, tuple[str, ...]] | None:
    """Puts what :func:`take` gave into another folder; the source and options to build, ``None`` of other binaries."""
    if not binary.startswith(_MARK):
        return None
    start = len(_MARK) + 8
    end = start + int.from_bytes(binary[len(_MARK) : start], "little")
    head = json.loads(binary[start:end])
    code = cache / head["place"]
    if not code.exists():
        code.parent.mkdir(parents=True, exist_ok=True)
        whole = code.with_suffix(".part")
        whole.write_bytes(binary[end:])
        whole.rename(code)
    return str(head["source"]), tuple(head["options"])
