"""The library: what a build script or a notebook calls. A thin face over :mod:`tuner.driver`."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from tuner.core.errors import BaselineError, UsageError
from tuner.core.executors import MakeExecutor
from tuner.core.protocols import Backend, Observer
from tuner.core.types import Configuration
from tuner.driver import audit as audits
from tuner.driver import ensure as ensures
from tuner.driver import together
from tuner.driver.earlier import with_earlier
from tuner.driver.imports import read_sources
from tuner.driver.opening import state_of
from tuner.driver.options import Further, Options
from tuner.driver.outcome import export as exports
from tuner.driver.outcome import frames
from tuner.driver.outcome.card import result_card
from tuner.driver.outcome.outcome import Outcome, outcome
from tuner.driver.plan.final import finalists
from tuner.driver.records import find_newest, new_path
from tuner.driver.rivals import run_rivals
from tuner.driver.runs import begin, resume
from tuner.driver.state.claimed import CLAIMS
from tuner.driver.state.settings import Shared
from tuner.driver.state.strangers import holding_together
from tuner.driver.work.engine import Interruption
from tuner.recorders.record import RunRecord
from tuner.spec.load import LoadedSpec, load_spec

if TYPE_CHECKING:
    import pandas

__all__ = ["Result", "confirm", "ensure", "load", "replay", "tune", "tune_spec", "tune_together"]

_ENSURING = ("evaluations", "minutes", "seed", "strategy", "workers", "llm", "require_sandbox")

DEFAULT_OUT = "tuner-runs"


class Display(Observer, AbstractContextManager[Any], Protocol):
    """Shows a run while it goes on; entered before the run begins."""


@dataclass(frozen=True, slots=True)
class Result:
    """A run's result; ``to_json()`` is the object behind ``--json``."""

    outcome: Outcome

    @property
    def path(self) -> Path:
        """The run record.

        Raises:
            UsageError: the baseline failed, so there is none.
        """
        if self.outcome.path is None:
            raise UsageError("a run whose baseline failed leaves no record", "tuner check says what is wrong")
        return self.outcome.path

    @property
    def improved(self) -> bool:
        """Whether a gain is claimed."""
        return self.outcome.summary.improved

    @property
    def speedup(self) -> float:
        """Over the baseline; 1 where nothing is claimed."""
        return self.outcome.summary.speedup[0]

    @property
    def speedup_interval(self) -> tuple[float, float]:
        """The 95% interval of :attr:`speedup`."""
        return self.outcome.summary.speedup[1:]

    @property
    def configuration(self) -> Configuration:
        """The best configuration; the baseline's where nothing is claimed."""
        return self.outcome.summary.configuration

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Every trial as a plain dict: ``trial``, ``status``, ``stage``, ``raced``, ``score`` (log of its time over the
        baseline's), ``time_s`` (all timed calls), ``interval_s`` (median of a call, 95% interval within its process),
        ``clock_s``, ``compile_s``, ``verify_s``, ``variant``, ``origin``, ``configuration``, ``features``, ``message``.
        """
        return frames.read_rows(self.path)

    @property
    def trials(self) -> pandas.DataFrame:
        """Every trial as a line of a pandas DataFrame: ``speedup`` as the search saw it, ``time_s`` of a call between
        ``time_low_s`` and ``time_high_s``, tunables as ``parameter.NAME``, features as ``feature.NAME``.

        Raises:
            MachineError: pandas is not installed (extra ``frames``); :attr:`rows` needs nothing.
        """
        return frames.trials_frame(self.rows)

    def to_json(self) -> dict[str, Any]:
        """The object behind ``--json``."""
        return self.outcome.to_json()

    def export(self, folder: str | Path) -> list[Path]:
        """Writes source, object code, pipeline and result into a folder; returns the files."""
        return exports.export(self.path, Path(folder))

    def _repr_html_(self) -> str:
        """How a notebook shows it."""
        path = self.outcome.path
        return result_card(self.outcome, [] if path is None else self.rows)

    def __repr__(self) -> str:
        low, high = self.speedup_interval
        return f"<Result {self.outcome.kernel}: {self.speedup:.3f}x [{low:.3f}, {high:.3f}], {self.path}>"


def tune(
    spec: str | Path,
    *,
    evaluations: int | None = None,
    minutes: float | None = None,
    seed: int | None = None,
    strategy: str | None = None,
    workers: int | None = None,
    llm: str | None = None,
    warm_start: str | Path | Sequence[str | Path] = (),
    library: str | Path | None = None,
    out: str | Path = DEFAULT_OUT,
    go_on: bool = False,
    require_sandbox: bool = False,
    observers: Sequence[Observer] = (),
    baselines: bool = False,
) -> Result:
    """Tunes the kernel of a spec; a budget, seed or strategy that is ``None`` is the spec's.

    Args:
        spec: the YAML file; it has to describe one kernel.
        evaluations: builds or runs that may be started; with ``go_on`` so many more.
        minutes: active time, confirmation included; with ``go_on`` so many more.
        seed: of every random stream.
        strategy: a searcher by name.
        workers: compile workers.
        llm: a model to ask for variants, ``off``, or ``cassette:`` with a run's path or a file of its exchanges.
        warm_start: a run of the same kernel elsewhere to learn from, or several; ``"auto"`` finds those in ``out``.
        library: folder of finished runs; what similar kernels gained by is tried first, and this run is kept there.
        out: folder for the run record.
        go_on: go on with the newest unfinished run of this spec in ``out``; with ``evaluations`` or ``minutes`` with
            the newest, ended or not, which gets as many more from now. Of a newer record that cannot be read, and is
            passed over, a ``RuntimeWarning`` tells.
        require_sandbox: refuse to run where a protection from generated code is missing.
        observers: told of each committed event: ``event(kind, body)``, with a copy of the body; one with a method
            ``step(text)`` also of what is done while the kernel as given is verified. One that raises ends the run with
            a ``PluginError``, and ``go_on`` goes on from there.
        baselines: where the source evolves, first run simpler searches with the same budget each, to compare with.

    Raises:
        SpecError: a mistake in the spec.
        UsageError: an argument that cannot be, or several kernels in the file.
        MachineError: a sandbox is required and incomplete here.
        BaselineError: the kernel as given does not build or verify.
        PluginError: an observer, or a third party's backend, searcher or proposer, raised an exception.
    """
    specs = load_spec(spec)
    if len(specs) != 1:
        raise UsageError(
            f"{spec} describes {len(specs)} kernels", "tune them one by one, or use the command line"
        )
    learnt = [Path(p) for p in ([warm_start] if isinstance(warm_start, str | Path) else warm_start)]
    options = Options(
        evaluations=evaluations,
        minutes=minutes,
        seed=seed,
        strategy=strategy,
        workers=workers,
        llm=llm,
        require_sandbox=require_sandbox,
        warm_start=tuple(read_sources(with_earlier(learnt, specs[0], [Path(out)]))),
        library=None if library is None else Path(library),
    )
    more = go_on and (evaluations is not None or minutes is not None)
    result = tune_spec(
        specs[0],
        options,
        out=Path(out),
        go_on=go_on,
        further=Further(evaluations=evaluations, minutes=minutes) if more else None,
        observers=observers,
        baselines=baselines,
        note=lambda text: warnings.warn(text, RuntimeWarning, stacklevel=5),
    )
    if result.outcome.failed:
        raise BaselineError(result.outcome.summary.message, f"tuner check {spec} says more")
    return result


def tune_spec(
    spec: LoadedSpec,
    options: Options,
    *,
    out: Path,
    go_on: bool = False,
    force: bool = False,
    observers: Sequence[Observer] = (),
    interruption: Interruption | None = None,
    backend: Backend | None = None,
    display: AbstractContextManager[Any] | None = None,
    baselines: bool = False,
    watch: Callable[[str], Display] | None = None,
    executor: MakeExecutor | None = None,
    further: Further | None = None,
    note: Callable[[str], None] = lambda _: None,
) -> Result:
    """:func:`tune` for a spec that is loaded already; a baseline that fails is in the result, not raised.

    ``watch`` gives a display of its own for each run that ``baselines`` asks for, by its name; ``further`` is what a
    run that is gone on with gets more; ``note`` is told which records ``go_on`` passes over.
    """
    if go_on:
        path = find_newest(out, spec, ended=further is not None, note=note)
        with display or nullcontext():
            return Result(
                resume(
                    path,
                    backend=backend,
                    observers=observers,
                    interruption=interruption,
                    force=force,
                    workers=options.workers,
                    sandboxed=options.require_sandbox,
                    executor=executor,
                    further=further,
                )
            )
    if baselines:
        rivals = _rivals(spec, options, out, backend, interruption, executor, watch)
        options = replace(options, rivals=rivals)
    with display or nullcontext():
        return Result(
            begin(
                spec,
                lambda: new_path(out, spec.name),
                options,
                backend=backend,
                observers=observers,
                interruption=interruption,
                executor=executor,
            )
        )


def confirm(
    run: str | Path,
    *,
    minutes: float | None = None,
    force: bool = False,
    workers: int | None = None,
    observers: Sequence[Observer] = (),
    interruption: Interruption | None = None,
    display: AbstractContextManager[Any] | None = None,
    executor: MakeExecutor | None = None,
) -> Result:
    """Confirms, in fresh processes and on inputs of their own, the best of a run that ended or was interrupted before.

    A run whose gain is confirmed is returned as it is.

    Args:
        run: the record, which is added to.
        minutes: that choosing and confirming may take; without, they take what they need.
        force: also in another environment than the run's.
        workers: compile workers.
        observers: told of each committed event, as for :func:`tune`.
        interruption: looked at between two events.
        display: shows the run while it goes on.
        executor: what runs the task on several devices, for a run over several.

    Raises:
        UsageError: nothing in the run looks faster, or the environment is another.
        RecordError: there is no such record, or it is damaged.
    """
    path = Path(run)
    with RunRecord.read(path) as record:
        state = state_of(record)
        with holding_together(str(path)):
            if state.verdict is not None and state.verdict["claim"] in CLAIMS:
                return Result(outcome(path, state))
            if state.settings.stocked:
                raise UsageError(
                    f"{path} ran over several devices", "tuner tune SPEC --resume --executor ray --minutes +5"
                )
            if not set(finalists(state)) - state.out_of_final:
                raise UsageError(
                    f"{path}: nothing that can be confirmed looks faster than the kernel as given",
                    "tuner tune SPEC --resume --minutes +5 searches on",
                )
    with display or nullcontext():
        return Result(
            resume(
                path,
                observers=observers,
                interruption=interruption,
                force=force,
                workers=workers,
                executor=executor,
                further=Further(minutes=minutes, searches=False),
            )
        )


def tune_together(
    members: Sequence[together.Member],
    shares: Sequence[Shared],
    *,
    out: Path,
    force: bool = False,
    interruption: Interruption | None = None,
    turn: Callable[[int], AbstractContextManager[Any]] | None = None,
) -> list[Result]:
    """Several kernels with one budget, as :func:`tuner.driver.together.tune_together` says."""
    outcomes = together.tune_together(
        members, shares, out=out, force=force, interruption=interruption, turn=turn
    )
    return [Result(one) for one in outcomes]


def _rivals(
    spec: LoadedSpec,
    options: Options,
    out: Path,
    backend: Backend | None,
    interruption: Interruption | None,
    executor: MakeExecutor | None,
    watch: Callable[[str], Display] | None,
) -> tuple[str, ...]:
    def run(name: str, changed: Options) -> Outcome:
        path = new_path(out, f"{spec.name}-{name}")
        with nullcontext() if watch is None else watch(name) as display:
            return begin(
                spec,
                path,
                changed,
                backend=backend,
                observers=() if display is None else (display,),
                interruption=interruption,
                executor=executor,
            )

    return run_rivals(spec, options, run)


def load(run: str | Path) -> Result:
    """The result of a recorded run, finished or not.

    Args:
        run: the record.

    Raises:
        RecordError: there is none, or it is damaged.
    """
    path = Path(run)
    with RunRecord.read(path) as record:
        state = state_of(record)
    with holding_together(str(path)):
        return Result(outcome(path, state))


def replay(
    run: str | Path, *, rebuild: bool = False, remeasure: bool = False, sign: str | Path | None = None
) -> audits.AuditReport:
    """Audits a recorded run; ``report.clean`` says whether every decision was re-derived.

    Args:
        run: the record.
        rebuild: compile every recorded build again and compare the object code.
        remeasure: time baseline and best again.
        sign: a file with a private Ed25519 key; a record that passes is signed with it.

    Returns:
        A report with the fields that ``tuner replay --json`` prints.

    Raises:
        RecordError: there is no such record, or it is damaged.
        MachineError: something that is asked for is missing on this machine.
    """
    key = None if sign is None else Path(sign)
    return audits.audit(Path(run), rebuild=rebuild, remeasure=remeasure, sign=key)


def ensure(spec: str | Path, *, out: str | Path, offline: bool = False, **options: Any) -> Path:
    """An object file that is tuned once for this source, toolchain and processor, and then reused.

    Args:
        spec: the YAML file; it has to describe one kernel.
        out: the object file; its record and its key stand beside it.
        offline: only build a winner that is already recorded.
        options: ``evaluations``, ``minutes``, ``seed``, ``strategy``, ``workers``, ``llm``, ``require_sandbox``; as for
            :func:`tune` and the command line.

    Returns:
        The object file.

    Raises:
        SpecError: a mistake in the spec.
        UsageError: an option that there is none of, or with ``offline`` nothing that is recorded.
        BaselineError: the kernel as given does not build or verify.
    """
    specs = load_spec(spec)
    if len(specs) != 1:
        raise UsageError(f"{spec} describes {len(specs)} kernels", "split it")
    return ensures.ensure(specs[0], Path(out), _options(options), offline=offline)


def _options(values: Mapping[str, Any]) -> Options:
    wrong = ", ".join(repr(name) for name in values if name not in Options.__slots__)
    if wrong:
        raise UsageError(f"ensure has no option {wrong}", f"it takes {', '.join(_ENSURING)}")
    return Options(**values)
