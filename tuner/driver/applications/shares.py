"""What part of an application's time each of several kernels takes, by the index that recording it wrote."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from tuner.core.errors import UsageError
from tuner.driver.applications.recorded_specs import INDEX_FILE
from tuner.spec.load import LoadedSpec

__all__ = ["weights_of"]


def weights_of(specs: Sequence[LoadedSpec]) -> list[float]:
    """A weight for each spec, adding up to 1: its share of the time where one index names them all, else equal ones.

    A spec that stands several times (a run for each kind of device) has its weight divided among them.

    Raises:
        UsageError: the index cannot be read.
    """
    shares = [_share(spec) for spec in specs]
    folders = {Path(spec.path).resolve().parent for spec in specs}
    known = [share for share in shares if share is not None]
    if len(folders) > 1 or len(known) < len(specs) or sum(known) <= 0:
        return [1 / len(specs)] * len(specs)
    digests = [(spec.path, spec.index) for spec in specs]
    weights = [share / digests.count(one) for share, one in zip(known, digests, strict=True)]
    return [weight / sum(weights) for weight in weights]


def _share(spec: LoadedSpec) -> float | None:
    path = Path(spec.path)
    index = path.parent / INDEX_FILE
    if not index.is_file():
        return None
    try:
        kernels = json.loads(index.read_text())["kernels"]
        found = [float(one["share"]) for one in kernels if one["spec"] == path.name]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{index} is no index of kernels: {error}", "record the application again") from None
    return found[0] if found else None
