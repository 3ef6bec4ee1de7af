"""What host code instantiates a kernel's template with: `step<double, 32><<<…>>>`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from tuner.core.errors import SpecError
from tuner.core.expressions import parse
from tuner.spec.reading.cuda_kernels import CudaKernel

__all__ = ["given_numbers", "numbers_of", "usual_values", "values_from"]

_CONSTANT = re.compile(
    r"\b(?:const|constexpr)\s+(?:static\s+)?(?:int|unsigned|size_t)\s+(\w+)\s*=\s*(\d+)\s*;"
)


def numbers_of(kernel: CudaKernel) -> dict[str, str]:
    """What stands for each of a template's numbers.

    Not its own name: as a macro that would replace it in the source.
    """
    return {
        _name(part): f"ARG_{_name(part).upper()}"
        for part in kernel.template
        if not part.startswith(("typename", "class"))
    }


def given_numbers(
    kernel: CudaKernel, given: Sequence[str], text: str, fixed: Mapping[str, int]
) -> dict[str, int]:
    """The values of a template's numbers by what stands for them, as far as the text tells them; else its defaults."""
    known = {name: int(value) for name, value in _CONSTANT.findall(text)} | dict(fixed)
    known |= {"true": 1, "false": 0}
    stands = numbers_of(kernel)
    found: dict[str, int] = {}
    for place, part in enumerate(kernel.template):
        argument = given[place] if place < len(given) else part.partition("=")[2].strip()
        if _name(part) not in stands or not argument:
            continue
        try:
            value = parse(argument).evaluate(known)
        except (SpecError, KeyError):
            continue
        if isinstance(value, int):
            found[stands[_name(part)]] = abs(value) if part.startswith("bool") else value
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
