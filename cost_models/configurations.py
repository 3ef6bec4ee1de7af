"""Features of a candidate that are known before it is built. May not look at any score.

Names and units, by where they come from:

| name | from | unit |
|---|---|---|
| ``set_NAME`` | a number or truth value of the configuration | the parameter's own |
| ``set_NAME=VALUE`` | a text of the configuration (a flag, a choice) | 1 where chosen, else left out |
| ``block_threads``, ``block_x_threads`` | geometry of the first problem | threads |
| ``grid_blocks`` | the same | blocks |
| ``shared_bytes`` | the same, dynamic | bytes |
| ``pass_NAME_count``, ``passes_count`` | the pipeline's text | passes |
| ``passes_before_count``, ``passes_after_count`` | passes before and after the first whole ``default<...>`` | passes |
| ``edit_NAME_count`` | edits that made the variant | edits |

Trees split by order alone, so nothing is scaled.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from tuner.core.errors import SpecError
from tuner.core.types import Configuration
from tuner.spaces.launch import Geometry
from tuner.spaces.pipeline import Pipeline
from tuner.spaces.space import PASSES

__all__ = ["configuration_features", "edit_features", "geometry_features"]


def configuration_features(configuration: Configuration) -> dict[str, float]:
    """Of the values, the pipeline included."""
    made: dict[str, float] = {}
    for name, value in configuration.items():
        if name == PASSES:
            made.update(pipeline_features(str(value)))
        elif isinstance(value, str):
            made[f"set_{name}={value}"] = 1.0
        else:
            made[f"set_{name}"] = float(value)
    return made


def geometry_features(found: Geometry) -> dict[str, float]:
    """Of one launch."""
    x, y, z = found.grid
    return {
        "block_threads": float(found.threads),
        "block_x_threads": float(found.block[0]),
        "grid_blocks": float(x * y * z),
        "shared_bytes": float(found.shared_bytes),
    }


def edit_features(edits: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Of the edits that made a variant of the source as given."""
    counts = Counter(str(edit.get("op", "edit")) for edit in edits)
    return {f"edit_{name}_count": float(count) for name, count in counts.items()}


@lru_cache(maxsize=1024)
def _counted(text: str) -> tuple[tuple[str, float], ...]:
    try:
        leaves = list(Pipeline.parse(text).leaves())
    except SpecError:
        return ()
    names = [leaf.node.name for leaf in leaves]
    counts = Counter(names)
    made = {f"pass_{name}_count": float(count) for name, count in counts.items()}
    made["passes_count"] = float(len(names))
    if "default" in names:
        at = names.index("default")
        made["passes_before_count"] = float(at)
        made["passes_after_count"] = float(len(names) - at - 1)
    return tuple(made.items())


def pipeline_features(text: str) -> dict[str, float]:
    """Of a pass pipeline; none for a text that is no pipeline."""
    return dict(_counted(text))
