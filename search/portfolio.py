"""Pipelines to try before any others: a few which, between them, were good for most of the kernels they were tried on.

What is in ``portfolio.json`` was chosen greedily over times of many pipelines on many kernels
(``benchmarks/portfolio.py``). May not know what is being tuned.

Source: Purini and Jain, "Finding good optimization sequences covering program space", ACM TACO 9(4), 2013.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files

from tuner.spaces.passes import PassSpace

__all__ = ["BASE", "first_pipelines", "shipped"]

BASE = "default<O3>"
"""Stands for the space's own base in what is shipped."""


@cache
def shipped() -> tuple[str, ...]:
    """All of them, the one that was worth most first, as they are around ``default<O3>``."""
    text = files("tuner.search").joinpath("portfolio.json").read_text(encoding="utf-8")
    return tuple(json.loads(text)["pipelines"])


def first_pipelines(passes: PassSpace) -> tuple[str, ...]:
    """Those that a space allows, around its base."""
    texts = dict.fromkeys(text.replace(BASE, passes.base) for text in shipped())
    return tuple(text for text in texts if text != passes.base and passes.is_valid(text))
