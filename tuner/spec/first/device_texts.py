"""What the text of a device kernel says of its launch and its arrays, by its looks. Must not compile anything.

Of a CUDA kernel what it calls the sizes of its blocks, what a block covers, and its template's numbers, those too that
host code instantiates it with: `step<double, 32><<<…>>>`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tuner.spec.reading.cuda_kernels import CudaKernel

__all__ = [
    "MOST_THREADS",
    "WORK_ITEMS",
    "Blocks",
    "array_extents",
    "axis_sizes",
    "given_numbers",
    "loops_over",
    "numbers_of",
    "one_block_each",
    "reads_next",
    "usual_values",
    "values_from",
]

_BLOCK_NUMBERS = tuple(rf"blockIdx\s*\.\s*{axis}\b" for axis in "xyz")
WORK_ITEMS = tuple(rf"get_global_id\s*\(\s*{axis}\s*\)" for axis in "012")
"""OpenCL's number of a work-item along each axis."""
MOST_THREADS = 1024


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
        if any(re.search(rf"<=?[\s(]*{re.escape(size)}\b", condition) for size in sizes):
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocks:
    """The blocks of a kernel.

    Attributes:
        kernel: whose they are.
        macros: that the spec tunes.
        fixed: other macros that are numbers.
        template: macros that stand for the numbers of its template.
        dimensions: of a block.
        most: threads of a block.
    """

    kernel: CudaKernel
    macros: Sequence[str]
    fixed: Mapping[str, int]
    template: Mapping[str, str]
    dimensions: int
    most: int

    def _written_block(self, axis: str) -> str | None:
        """What stands for the block's size in `blockIdx.x * TILE + threadIdx.x`."""
        number, thread = (self._called(name, axis.lower()) for name in ("blockIdx", "threadIdx"))
        product = rf"(?:{number}\s*\*\s*(\w+)|(\w+)\s*\*\s*{number})"
        alone = rf"{thread}(?!\s*[%/&>*])"
        found = re.search(rf"{product}\s*\+\s*{alone}|{alone}\s*\+\s*{product}", self.kernel.body)
        return self._known(next((group for group in found.groups() if group), "")) if found else None

    def _known(self, name: str) -> str | None:
        """What the spec has for a name of the source: a number, or a macro that it tunes."""
        if name in self.fixed:
            return str(self.fixed[name])
        name = self.template.get(name, name)
        return name if name in self.macros or name in self.template.values() else None

    def _called(self, index: str, axis: str) -> str:
        """A pattern for `threadIdx.x` and the variables that stand for it."""
        itself = rf"\b{index}\s*\.\s*{axis}\b"
        others = re.findall(rf"\b(\w+)\s*=\s*{itself}\s*[;,]", self.kernel.body)
        return "(?:" + "|".join([itself, *(rf"\b{name}\b" for name in others)]) + ")"

    def names(self) -> list[str]:
        """A name or a number for each axis."""
        chosen = []
        for axis in "XYZ"[: self.dimensions]:
            written = self._written_block(axis)
            if written is not None:
                chosen.append(written)
                continue
            pattern = rf"(BLOCK|THREADS|TILE|WG|BLOCK_SIZE|BLOCK_DIM)_?{axis}"
            template = list(self.template.items())
            # A template's own name for the block: its shared arrays are as large as that.
            own = [macro for name, macro in template if re.fullmatch(pattern, name, re.IGNORECASE)]
            fits = own + [m for m in self.macros if re.fullmatch(pattern, m)]
            if not fits and self.dimensions == 1:
                alone = r"(BLOCK|THREADS)(_?SIZE|_?DIM)?"
                fits = [macro for name, macro in template if re.fullmatch(alone, name, re.IGNORECASE)]
                fits += [m for m in self.macros if re.fullmatch(alone, m)]
            whole = self.kernel.bounds and not self.kernel.bounds.isdigit() and self.most < MOST_THREADS
            if not fits and self.dimensions == 1 and whole:
                # Launch bounds reckoned from the source's own macros: what the kernel counts on.
                fits = [str(self.most)]
            chosen.append(fits[0] if fits else f"BLOCK_{axis}")
        return chosen

    def covered(self, axis: int, block: Sequence[str]) -> str:
        """The elements that a block covers: a macro that its number is multiplied with, else its threads."""
        number = self._called("blockIdx", "xyz"[axis])
        names: list[str] = re.findall(rf"{number}\s*\*\s*(\w+)", self.kernel.body)
        known = (each for name in names if (each := self._known(name)) is not None)
        return next(known, block[axis] if axis < len(block) else "1")


def numbers_of(kernel: CudaKernel) -> dict[str, str]:
    """What stands for each of a template's numbers.

    Not its own name: as a macro that would replace it in the source.
    """
    return {
        _name(part): f"ARG_{_name(part).upper()}"
        for part in kernel.template
        if not part.startswith(("typename", "class"))
    }


def given_numbers(kernel: CudaKernel, given: Sequence[str]) -> dict[str, int]:
    """The values of a template's numbers by what stands for them, as far as its use or its defaults tell them."""
    found: dict[str, int] = {}
    for place, part in enumerate(kernel.template):
        argument = given[place] if place < len(given) else part.partition("=")[2].strip()
        value = {"true": "1", "false": "0"}.get(argument, argument)
        if _name(part) in numbers_of(kernel) and re.fullmatch(r"-?\d+", value):
            found[numbers_of(kernel)[_name(part)]] = (
                abs(int(value)) if part.startswith("bool") else int(value)
            )
    return found


def usual_values(kernel: CudaKernel) -> dict[str, str]:
    """Values in YAML for a template's numbers, by what stands for them."""
    stands = numbers_of(kernel)
    return {
        stands[_name(part)]: f"[{'1, 0' if part.startswith('bool') else '1, 2, 4, 8'}]   # check: the values"
        for part in kernel.template
        if _name(part) in stands
    }


def values_from(first: int, usual: str) -> str:
    """A list of values in YAML, with its comment, that begins with another one.

    >>> values_from(32, "[16, 8, 32, 64]  # check")
    '[32, 16, 8, 64]  # check'
    """
    listed, bracket, rest = usual.partition("]")
    others = [value for value in listed.strip("[").split(", ") if value != str(first)]
    return f"[{', '.join([str(first), *others])}{bracket}{rest}"


def _name(part: str) -> str:
    return part.split("=")[0].split()[-1].lstrip(".")
