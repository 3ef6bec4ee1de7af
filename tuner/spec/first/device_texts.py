"""What the text of a device kernel says of its launch and its arrays, by its looks. Must not compile anything."""

from __future__ import annotations

import re
from collections.abc import Sequence

__all__ = ["WORK_ITEMS", "array_extents", "axis_sizes", "loops_over", "one_block_each", "reads_next"]

_BLOCK_NUMBERS = tuple(rf"blockIdx\s*\.\s*{axis}\b" for axis in "xyz")
WORK_ITEMS = tuple(rf"get_global_id\s*\(\s*{axis}\s*\)" for axis in "012")
"""OpenCL's number of a work-item along each axis."""


def reads_next(name: str, text: str) -> bool:
    """Whether an element and the one after it are read, as the row pointers of a sparse matrix are."""
    element = rf"\b{re.escape(name)}\s*\[\s*(\w+)\s*"
    after = {m[1] for m in re.finditer(element + r"\+\s*1\s*\]", text)}
    return any(m[1] in after for m in re.finditer(element + r"\]", text))


def loops_over(sizes: Sequence[str], text: str) -> bool:
    """Whether a work-item goes in a loop over as many elements as there are work-items, not in strides of them all."""
    for found in re.finditer(r"\bfor\s*\(([^;]*);([^;]*);([^{;]*)", text):
        start, condition, step = found.groups()
        all_of_them = r"get_global_(?:id|size)|gridDim|blockIdx"
        if re.search(all_of_them, start + step) or re.search(r"=\s*(?:i|gid|idx|tid|index)\b", start):
            continue
        if any(re.search(rf"<=?\s*{re.escape(size)}\b", condition) for size in sizes):
            return True
    return False


def axis_sizes(
    body: str, sizes: Sequence[str], dimensions: int, numbers: Sequence[str] = _BLOCK_NUMBERS
) -> list[str]:
    """The size that bounds each axis, x first; empty where one is not found. ``numbers`` are patterns by axis.

    >>> axis_sizes("int c = blockIdx.x * 8 + threadIdx.x, r = blockIdx.y; if (r >= rows || c >= cols) return;",
    ...            ["rows", "cols"], 2)
    ['cols', 'rows']
    """
    found = []
    for number in numbers[:dimensions]:
        names = re.findall(rf"\b(\w+)\s*=\s*[^;=,]*?\b{number}", body)
        bounds = [size for name in names for size in _bounds_of(name, body, sizes)]
        if not bounds:
            return []
        found.append(bounds[0])
    return found if len(set(found)) == len(found) or len(set(sizes)) < dimensions else []


def one_block_each(body: str, axis: str) -> bool:
    """Whether a block's number along an axis is itself an index, with no threads beside it: a block for each row.

    >>> one_block_each("int row = blockIdx.x; for (int c = threadIdx.x; c < cols; c += blockDim.x) s += x[c];", "x")
    True
    """
    number = rf"\bblockIdx\s*\.\s*{axis}\b"
    with_others = rf"{number}\s*\*|\*\s*\(?\s*(?:\w+\s*\)\s*)?{number}"
    own = re.search(rf"=\s*(?:\(\w+\)\s*)?{number}\s*[;,]", body) is not None
    return own and re.search(with_others, body) is None


def array_extents(name: str, body: str, sizes: Sequence[str]) -> list[str]:
    """The rows and the row length of an array that is indexed by a product with a size; empty where none is.

    >>> array_extents("A", "if (r0 + r < M) s += A[(r0 + r) * K + k];", ["M", "N", "K"])
    ['M', 'K']
    >>> array_extents("x", "const float *p = x + (size_t)row * cols;", ["rows", "cols"])
    ['rows', 'cols']
    """
    row = r"(\((?:[^()]|\([^()]*\))*\)|\w+)"
    cast = r"(?:\(\s*(?:size_t|long|long\s+long)\s*\)\s*)?"
    used = rf"\b{re.escape(name)}\s*(?:\[|\+)\s*{cast}{row}\s*\*\s*(\w+)"
    for place, pitch in re.findall(used, body):
        # A size inside: one more dimension than rows.
        if pitch not in sizes or set(re.findall(r"\w+", place)) & set(sizes):
            continue
        inner = place[1:-1].strip() if place.startswith("(") else place
        others = [size for size in sizes if size != pitch]
        rows = [s for s in _bounds_of(inner, body, sizes) if s != pitch] or others or [pitch]
        return [rows[0], pitch]
    return []


def _bounds_of(text: str, body: str, sizes: Sequence[str]) -> list[str]:
    """The sizes that an expression is compared with."""
    written = r"\s*".join(re.escape(part) for part in re.findall(r"\w+|[^\w\s]", text))
    if not written:
        return []
    after = re.findall(rf"(?<![\w.]){written}\s*(?:<=?|>=?)\s*(\w+)", body)
    before = re.findall(rf"\b(\w+)\s*(?:<=?|>=?)\s*{written}(?![\w.])", body)
    return [size for size in (*after, *before) if size in sizes]
