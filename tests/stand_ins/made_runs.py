"""Runs of any size and with any texts, written by the real driver and the real record."""

from __future__ import annotations

import atexit
import gzip
import itertools
import math
import shutil
import tempfile
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from product_runs import KERNEL, TASK
from spec_files import spec_in

from tuner.api import Result, tune
from tuner.core.types import Resolved, Status, Variant
from tuner.driver.imports import import_file
from tuner.driver.options import Options
from tuner.driver.runs import begin
from tuner.evaluators.recorded.spaces import RecordedSpace, Row, key_of
from tuner.recorders.record import Event, RunRecord
from tuner.spaces.passes import Catalogue
from tuner.testing import SimulatedBackend

PARAMETERS: Mapping[str, tuple[Any, ...]] = {
    "BLOCK_X": (16, 32, 64, 128, 256),
    "BLOCK_Y": (1, 2, 4, 8),
    "TILE": (1, 2, 3, 4, 5, 6, 7, 8),
    "UNROLL": (0, 1, 2, 4, 8),
    "LAYOUT": ("rows", "columns", "blocked"),
    "CACHED": (False, True),
    "STAGES": (1, 2, 3, 4, 5),
}
"""24,000 configurations."""

FEW: Mapping[str, tuple[Any, ...]] = {
    **PARAMETERS,
    "BLOCK_X": (16, 64, 256),
    "UNROLL": (4, 8),
    "STAGES": (3, 5),
}
"""2,304 of them, with failures of the same kinds: to read and to write them all is most of a short run's time."""


def _row(values: tuple[Any, ...]) -> Row:
    x, y, tile, unroll, layout, cached, stages = values
    if x * y > 1024:
        return Row(status=Status.BUILD_ERROR, times_s=(), compile_s=0.3, run_s=0.0)
    if tile == 7 and unroll == 8:
        return Row(status=Status.CRASHED, times_s=(), compile_s=0.4, run_s=0.1)
    if layout == "blocked" and stages == 5 and tile % 3 == 0:
        return Row(status=Status.WRONG_RESULT, times_s=(), compile_s=0.4, run_s=0.1)
    cost = 1 + 0.25 * abs(math.log2(x / 64)) + 0.15 * abs(math.log2(y / 4)) + 0.08 * abs(tile - 4)
    cost += (
        0.05 * abs(unroll - 4) + (0.0 if layout == "rows" else 0.3) + (0.2 if cached and tile > 4 else 0.0)
    )
    base = 1e-3 * (cost + 0.03 * abs(stages - 3))
    times = tuple(base * (1 + 0.004 * ((7 * i + tile) % 5)) for i in range(8))
    return Row(status=Status.OK, times_s=times, compile_s=0.4, run_s=0.02)


@cache
def _recorded(few: bool) -> bytes:
    parameters = dict(FEW if few else PARAMETERS)
    rows = {key_of(v): _row(v) for v in itertools.product(*parameters.values())}
    space = RecordedSpace(
        kernel="synthetic", device="A card", parameters=parameters, rows=rows, restrictions=()
    )
    return gzip.compress(space.to_text().encode(), compresslevel=1)


def made_run(
    folder: Path, trials: int, *, strategy: str = "random", seed: int = 1, few: bool = False
) -> Result:
    """A finished run of so many trials over a recorded space, or a part of it, with failures of three kinds."""
    folder.mkdir(parents=True, exist_ok=True)
    data = folder / "synthetic.json.gz"
    data.write_bytes(_recorded(few))
    spec = import_file(data, folder / "space").spec
    text = spec.read_text()
    assert "\nsearch:" not in text
    # Every proposal is to be tried: a model would leave most of them out.
    spec.write_text(f"{text}search: {{cost_model: off}}\n")
    return tune(spec, evaluations=trials, strategy=strategy, seed=seed, workers=4, out=folder / "runs")


SPEC = f"""\
{TASK}space:
  parameters: {{WIDTH: [1, 2, 3, 4]}}
  flags: {{vector: ["", "-fno-vectorize"]}}
  passes: {{base: "default<O3>", max_edits: 10}}
  source: {{evolve: EVOLVE}}
verify: {{numerics: reassociate}}
search:
  strategy: auto
  budget: {{evaluations: 60}}
"""

MADE_IN = "tuner-tests-run-"
"""How the folder's name begins in which a simulated run was made before it was copied."""

PASSES = {"loop-interchange": 0.8}
"""What a pass does to the time; the others change nothing."""

GOLDEN = Path(__file__).parents[1] / "golden"


def _seconds(resolved: Resolved) -> float:
    text = resolved.pipeline or ""
    effect = math.prod(gain for name, gain in PASSES.items() if name in text)
    return 1e-3 * effect * (1.0 + 0.05 * abs(int(resolved.macros["WIDTH"]) - 3))


def _of_variant(variant: Variant, resolved: Resolved) -> float | Status:
    ops = [e["op"] for e in variant.edits]
    if "reverse" in ops or "fuse" in ops:
        return Status.WRONG_RESULT
    return math.prod(gain for op, gain in (("interchange", 0.6), ("restrict", 0.8)) if op in ops)


def simulated_run(
    folder: Path,
    *,
    evolve: bool,
    evaluations: int = 40,
    strategy: str = "auto",
    kernel: str = KERNEL,
    seed: int = 1,
) -> Path:
    """A finished run over passes, and over variants of the source where asked, with times from a formula.

    Each call has files of its own; a run that was made before in this process is copied.
    """
    shutil.copytree(_simulated(evolve, evaluations, strategy, kernel, seed).name, folder, dirs_exist_ok=True)
    return folder / "product.run"


@cache
def _simulated(
    evolve: bool, evaluations: int, strategy: str, kernel: str, seed: int
) -> tempfile.TemporaryDirectory[str]:
    made = tempfile.TemporaryDirectory(prefix=MADE_IN)
    atexit.register(made.cleanup)
    folder = Path(made.name)
    spec = spec_in(folder, "product.c", kernel, SPEC.replace("EVOLVE", str(evolve).lower()))
    listing, o3 = (GOLDEN / "llvm23_passes.txt").read_text(), (GOLDEN / "llvm23_o3.txt").read_text().strip()
    backend = SimulatedBackend(
        seconds=_seconds,
        of_variant=_of_variant,
        catalogue=Catalogue.from_listing(listing, o3, "23.1.4").to_json(),
    )
    options = Options(seed=seed, workers=2, evaluations=evaluations, strategy=strategy)
    begin(spec, folder / "product.run", options, backend=backend)
    return made


Change = Callable[[str, dict[str, Any]], dict[str, Any]]


def rewritten(
    run: Path,
    target: Path,
    change: Change,
    *,
    first: int | None = None,
    close: bool = True,
    twice: str = "",
) -> RunRecord:
    """The same events with other bodies, through the record's own writer; the first so many only where asked.

    Those of a kind may be there twice.
    """
    record = RunRecord.create(target)
    with RunRecord.read(run) as source:
        for event in itertools.islice(source.events(), first):
            body = change(event.kind, dict(event.body))
            blobs = {n: source.blob(n) for n in _references(body)}
            for _ in range(1 + (event.kind == twice)):
                record.append([Event(kind=event.kind, body=body, trial=event.trial)], blobs)
    if close:
        record.close()
    return record


def _references(value: Any) -> list[str]:
    if isinstance(value, str) and value.startswith("blob:"):
        return [value.removeprefix("blob:")]
    if isinstance(value, Mapping):
        value = list(value.values())
    return [name for item in value for name in _references(item)] if isinstance(value, list) else []
