"""What host code instantiates a kernel's template with: `step<double, 32><<<…>>>`."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tuner.spec.reading.cuda_kernels import CudaKernel

__all__ = ["given_numbers", "numbers_of", "usual_values", "values_from"]


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
