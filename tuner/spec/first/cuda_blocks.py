"""What a CUDA kernel's own text calls the sizes of its blocks, what a block covers, and its template's numbers.

By its looks, and by what host code instantiates the template with: `step<double, 32><<<…>>>`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tuner.spec.reading.cuda_kernels import CudaKernel

__all__ = ["MOST_THREADS", "Blocks", "given_numbers", "numbers_of", "usual_values", "values_from"]

MOST_THREADS = 1024


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
