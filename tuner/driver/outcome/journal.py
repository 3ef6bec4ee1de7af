"""A run as a study in Optuna's journal format, for optuna-dashboard and Optuna's own plots.

A copy to look at: nothing here is read back, and Optuna takes no part in the run.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tuner.core.errors import UsageError
from tuner.core.files import settle
from tuner.core.types import Status, Value
from tuner.driver.outcome.export import check_writable
from tuner.driver.outcome.frames import read_rows
from tuner.spaces.space import PASSES

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.trial import FrozenTrial

__all__ = ["write_journal"]

MESSAGE_LONGEST = 500
WORKED = (Status.OK, Status.DUPLICATE)


def write_journal(run: Path, output: Path, *, name: str) -> int:
    """Writes the finished trials of a run as one study, which maximises the speed over the baseline.

    Trials that worked are complete; those dropped from the race are pruned, with the speed that they had; the others
    have failed. Status, origin, variant, times and pipeline are user attributes. Optuna's numbers are this run's.

    Args:
        run: the record.
        output: the journal; an existing file is replaced.
        name: of the study.

    Returns:
        How many trials.

    Raises:
        UsageError: the file cannot be written.
    """
    import optuna
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    check_writable(output)
    rows = [row for row in read_rows(run) if row["status"] is not None]
    distributions = _distributions([row["configuration"] for row in rows])
    last_s = max((row["clock_s"] for row in rows), default=0.0)
    began = datetime.fromtimestamp(run.stat().st_mtime) - timedelta(seconds=last_s)
    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        with tempfile.TemporaryDirectory(dir=output.parent, prefix=f".{output.name}.") as folder:
            draft = Path(folder) / "journal.log"
            lines = _kept_lines()
            storage = JournalStorage(lines)
            study = optuna.create_study(storage=storage, study_name=name, direction="maximize")
            study.set_user_attr("run", run.name)
            study.add_trials([_trial(row, distributions, began) for row in rows])
            JournalFileBackend(str(draft)).append_logs(lines.read_logs(0))
            settle(draft, output)
    except OSError as error:
        raise UsageError(f"{output} cannot be written: {error.strerror}", "name another file") from error
    finally:
        optuna.logging.set_verbosity(verbosity)
    return len(rows)


def _kept_lines() -> Any:
    """A journal in memory: a file would be locked, written through to the disk and read again for each trial."""
    from optuna.storages.journal import BaseJournalBackend

    class Lines(BaseJournalBackend):
        def __init__(self) -> None:
            self._lines: list[dict[str, Any]] = []

        def read_logs(self, log_number_from: int) -> list[dict[str, Any]]:
            return self._lines[log_number_from:]

        def append_logs(self, logs: list[dict[str, Any]]) -> None:
            self._lines += logs

    return Lines()


def _trial(
    row: Mapping[str, Any], distributions: Mapping[str, BaseDistribution], began: datetime
) -> FrozenTrial:
    from optuna.trial import TrialState, create_trial

    known = {n: v for n, v in row["configuration"].items() if n in distributions}
    speed = None if row["score"] is None or not math.isfinite(row["score"]) else math.exp(-row["score"])
    worked = row["status"] in WORKED and speed is not None
    state = TrialState.FAIL
    if worked:
        state = TrialState.PRUNED if row["raced"] else TrialState.COMPLETE
    attributes = {
        "status": row["status"],
        "stage": row["stage"],
        "origin": row["origin"],
        "variant": row["variant"],
        "trial": row["trial"],
        "message": row["message"][:MESSAGE_LONGEST],
    }
    if PASSES in row["configuration"]:
        attributes[PASSES] = row["configuration"][PASSES]
    found = create_trial(
        state=state,
        value=speed if state is TrialState.COMPLETE else None,
        intermediate_values={0: speed} if state is TrialState.PRUNED and speed is not None else {},
        params=known,
        distributions={n: distributions[n] for n in known},
        user_attrs=attributes,
    )
    cost_s = sum(row["time_s"]) + (row["compile_s"] or 0.0) + (row["verify_s"] or 0.0)
    found.datetime_complete = began + timedelta(seconds=row["clock_s"])
    found.datetime_start = found.datetime_complete - timedelta(seconds=min(cost_s, row["clock_s"]))
    return found


def _distributions(configurations: Sequence[Mapping[str, Value]]) -> dict[str, BaseDistribution]:
    """One for each tunable but the pipeline, whose thousands of texts every trial would list again."""
    from optuna.distributions import CategoricalDistribution, IntDistribution

    values: dict[str, dict[Value, None]] = {}
    for configuration in configurations:
        for name, value in configuration.items():
            if name != PASSES:
                values.setdefault(name, {})[value] = None
    found: dict[str, BaseDistribution] = {}
    for name, seen in values.items():
        whole = sorted(int(v) for v in seen if isinstance(v, int) and not isinstance(v, bool))
        if len(whole) == len(seen):
            # Powers of two have no step in common; on a log scale any whole number between them is allowed.
            log = whole[0] >= 1 and whole[-1] / whole[0] >= 16
            found[name] = IntDistribution(whole[0], whole[-1], log=log)
        else:
            found[name] = CategoricalDistribution(list(seen))
    return found
