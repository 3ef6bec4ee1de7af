"""Of what is built the likeliest is timed first, and more is built ahead only as far as that pays."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from statistics import fmean
from typing import Any
from zlib import crc32

import pytest

from tuner.core.executors import Executor
from tuner.core.types import Resolved, Status, Task
from tuner.driver import beginning
from tuner.driver.audit import audit
from tuner.driver.opening import open_state
from tuner.driver.options import Options
from tuner.driver.outcome.savings import savings
from tuner.driver.plan.ordering import MOST_WAITING
from tuner.driver.runs import begin, resume
from tuner.driver.state.order import MOST_LOOKS
from tuner.driver.state.run import RunState
from tuner.driver.state.settings import EVOLVING, RunSettings
from tuner.driver.state.trials import TrialState
from tuner.driver.work.engine import Interruption
from tuner.evaluators.executors.threads import ThreadExecutor
from tuner.recorders.record import RunRecord
from tuner.spaces.passes import Catalogue
from tuner.spec.load import LoadedSpec, load_spec
from tuner.testing import SimulatedBackend

PASSES = ("dce", "gvn", "instcombine", "licm", "simplifycfg", "sroa")
OPTIONS = Options(seed=3, workers=1, settings={"simpler": 0, "simplest": False})


@dataclass
class Clock:
    """A run's clock that only its builds and measurements move on."""

    build_s: float
    run_s: float
    now_s: float = 0.0

    def __call__(self) -> float:
        return self.now_s

    def passes(self, what: str) -> None:
        self.now_s += {"build": self.build_s, "verify": self.run_s}.get(what, 0.0)


def noise(resolved: Resolved, salt: str = "") -> float:
    text = f"{salt}{resolved.pipeline}{sorted(resolved.macros.items())}"
    return int.from_bytes(blake2b(text.encode(), digest_size=4).digest()) / 2**32


def seconds(resolved: Resolved) -> float:
    """Few candidates are much better than all others."""
    return 1e-3 * (0.3 + noise(resolved) ** 0.25)


def telling(resolved: Resolved) -> Mapping[str, float]:
    """What the code shows: how long it will take, roughly, and something that says nothing."""
    return {
        "loads_count": 1e6 * seconds(resolved) * (0.97 + 0.06 * noise(resolved, "a")),
        "text_bytes": noise(resolved, "b"),
    }


def shuffled(resolved: Resolved) -> Mapping[str, float]:
    return {"loads_count": noise(resolved, "c"), "text_bytes": noise(resolved, "d")}


def catalogue() -> Mapping[str, Any]:
    listing = "Function passes:\n" + "".join(f"  {name}\n" for name in PASSES)
    return Catalogue.from_listing(listing, f"function({','.join(PASSES)})", "23.1.4").to_json()


@pytest.fixture
def spec(scale_spec: Callable[..., Path]) -> LoadedSpec:
    (loaded,) = load_spec(scale_spec(passes='{base: "default<O3>", max_edits: 8}', evaluations=90))
    return loaded


def off(spec: LoadedSpec) -> LoadedSpec:
    return replace(spec, search=replace(spec.search, cost_model="off"))


def state_of(path: Path | None) -> RunState:
    assert path is not None
    with RunRecord.read(path) as record:
        return open_state(record)[0]


def tuned(
    spec: LoadedSpec,
    path: Path,
    features: Callable[..., Any] = telling,
    *,
    build_s: float = 0.01,
    run_s: float = 0.05,
    **more: Any,
) -> RunState:
    clock = Clock(build_s, run_s)
    backend = SimulatedBackend(
        seconds=seconds, catalogue=catalogue(), features=features, on_event=clock.passes
    )
    done = begin(spec, path, more.pop("options", OPTIONS), backend=backend, clock=clock, **more)
    assert audit(path).clean
    return state_of(done.path)


def evaluations_to(state: RunState, seconds: float) -> int:
    """How many trials ran until one was as good."""
    for tried, number in enumerate((n for n in state.finished if state.trials[n].verify is not None), 1):
        medians = state.trials[number].medians_s
        if medians and medians[0] <= seconds:
            return tried
    return 90


def timed(state: RunState) -> list[int]:
    return [n for n in state.finished if n and state.trials[n].verify is not None]


def test_the_likeliest_of_what_is_built_is_timed_first(spec: LoadedSpec, tmp_path: Path) -> None:
    found = []
    for seed in (1, 2, 3):
        options = replace(OPTIONS, seed=seed)
        ordered = tuned(spec, tmp_path / f"{seed}.run", options=options)
        plain = tuned(off(spec), tmp_path / f"{seed}-off.run", options=options)
        good = 1e-3 * (0.3 + 0.012**0.25)
        found.append((evaluations_to(ordered, good), evaluations_to(plain, good)))
        assert ordered.evaluations == plain.evaluations == 90
        # Where runs are dear four codes are found for each that is timed.
        assert ordered.order.looks == MOST_LOOKS
        assert len(ordered.trials) > 2.5 * len(plain.trials)
        later = [ordered.trials[n].score for n in timed(ordered)[30:]]
        assert fmean(later) < fmean(t.score for t in plain.trials.values() if t.score is not None) - 0.1
    assert sum(a for a, _ in found) < 0.7 * sum(b for _, b in found), found


def test_what_had_no_turn_is_pruned_and_says_so(spec: LoadedSpec, tmp_path: Path) -> None:
    state = tuned(spec, tmp_path / "a.run")
    said = Counter(t.message.partition(" of the")[0].partition(",")[0] for t in untimed(state))
    assert said["it was built"] <= MOST_WAITING
    assert sum(count for message, count in said.items() if message.startswith("ranked at")) > 30
    assert len(said) > 2
    found = savings(state)
    assert found.pruned == {"ask": 0, "build": 0}
    assert found.behind == len(untimed(state))
    assert 60 < found.ordered < 90
    # One in eight is drawn evenly.
    assert 3 <= found.audits <= 20


def untimed(state: RunState) -> list[TrialState]:
    return [t for t in state.trials.values() if t.status is Status.PRUNED]


def test_features_that_say_nothing_leave_the_order_as_proposed(spec: LoadedSpec, tmp_path: Path) -> None:
    led, took_s, plain_s = 0, 0.0, 0.0
    for seed in range(3):
        options = replace(OPTIONS, seed=seed)
        state = tuned(spec, tmp_path / f"{seed}.run", shuffled, options=options)
        plain = tuned(off(spec), tmp_path / f"{seed}-off.run", shuffled, options=options)
        if not state.order.led:
            assert timed(state) == timed(plain)
        led += state.order.led
        took_s += state.clock_s
        plain_s += plain.clock_s
    # At each of a dozen fits a test passes one time in twenty by chance.
    assert led < 0.2 * 3 * 90
    assert took_s < 1.1 * plain_s


def test_nothing_is_built_ahead_where_builds_are_dear(spec: LoadedSpec, tmp_path: Path) -> None:
    state = tuned(spec, tmp_path / "a.run", build_s=2.0, run_s=0.05)
    plain = tuned(off(spec), tmp_path / "b.run", build_s=2.0, run_s=0.05)
    assert state.order.follows
    assert state.order.looks == 1.0
    assert state.order.led == 0
    assert savings(state).why == {"build": "a run takes 50 ms, finding other code 2e+03 ms"}
    assert timed(state) == timed(plain)
    assert state.clock_s == pytest.approx(plain.clock_s)
    assert untimed(state) == []


def test_code_that_waits_already_ends_with_the_first_of_it(spec: LoadedSpec, tmp_path: Path) -> None:
    def half(resolved: Resolved) -> Any:
        return [resolved.pipeline, int(resolved.macros["WIDTH"]) // 4]

    def alike(resolved: Resolved) -> float:
        return 1e-3 * (0.3 + (crc32(str(half(resolved)).encode()) % 997 / 997) ** 0.25)

    clock = Clock(0.01, 0.05)
    backend = SimulatedBackend(
        seconds=alike,
        same_code=half,
        catalogue=catalogue(),
        features=lambda r: {"loads_count": 1e6 * alike(r)},
        on_event=clock.passes,
    )
    options = replace(OPTIONS, workers=4)
    done = begin(spec, tmp_path / "a.run", options, backend=backend, clock=clock)
    assert audit(tmp_path / "a.run").clean
    state = state_of(done.path)
    again = [t for t in state.trials.values() if t.status is Status.DUPLICATE]
    assert again
    assert all(t.of is not None and t.score == state.trials[t.of].score for t in again)
    keys = [t.build["key"] for t in state.trials.values() if t.verify is not None and t.build is not None]
    assert len(keys) == len(set(keys)) == 90


def test_what_waits_when_time_is_over_is_given_up(spec: LoadedSpec, tmp_path: Path) -> None:
    options = Options(seed=3, workers=1, minutes=0.1, evaluations=1000)
    state = tuned(spec, tmp_path / "a.run", options=options)
    assert state.search_stop == "minutes"
    assert {t.message for t in untimed(state)} >= {"the time for searching was over"}


def test_a_run_that_is_interrupted_goes_on(spec: LoadedSpec, tmp_path: Path) -> None:
    path, interruption = tmp_path / "a.run", Interruption()
    clock = Clock(0.01, 0.05)
    seen = Counter[str]()

    def stop(what: str) -> None:
        clock.passes(what)
        seen[what] += 1
        if seen["verify"] == 40:
            interruption.set()

    backend = SimulatedBackend(seconds=seconds, catalogue=catalogue(), features=telling, on_event=stop)
    cut = begin(spec, path, OPTIONS, backend=backend, clock=clock, interruption=interruption)
    assert cut.interrupted
    waited = [n for n in state_of(path).queue if state_of(path).trials[n].judged]
    assert len(waited) > 8
    done = resume(path, backend=replace(backend, on_event=clock.passes), clock=clock)
    assert not done.interrupted
    state = state_of(path)
    assert state.evaluations == 90
    assert audit(path, backend=backend).clean
    # What waited goes on waiting with what the model said of it.
    assert all(state.trials[n].status is not None for n in waited)


def test_several_devices_time_the_likeliest_first(spec: LoadedSpec, tmp_path: Path) -> None:
    path = tmp_path / "a.run"

    def make(task: Task) -> Executor:
        backend = SimulatedBackend(
            seconds=seconds,
            catalogue=catalogue(),
            features=telling,
            on_event=lambda what: time.sleep(0.01 if what == "verify" else 0.0),
        )
        return ThreadExecutor(lambda: backend.prepare(task, workers=1), ["simulated"] * 3, builders=2)

    backend = SimulatedBackend(seconds=seconds, catalogue=catalogue(), features=telling)
    begin(spec, path, OPTIONS, backend=backend, executor=make)
    report = audit(path, backend=backend)
    assert report.clean, report.differences
    state = state_of(path)
    assert state.evaluations == 90
    assert state.order.led > 30


def test_records_of_before_are_replayed_by_their_own_rules(
    spec: LoadedSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(beginning, "_modelled", lambda settings, *_, **__: replace(settings, priced=True))
        state = tuned(spec, tmp_path / "a.run", build_s=0.001)
    assert not state.settings.ordered
    assert state.judgings["build"]["fitted"] >= 30
    assert "out of sample the best few" in state.judgings["build"]["why"] or savings(state).pruned["build"]
    assert audit(tmp_path / "a.run").clean
    now = tuned(spec, tmp_path / "b.run")
    assert now.settings.ordered
    assert not now.settings.priced
    older = {k: v for k, v in now.settings.to_json().items() if k != "ordered"}
    assert not RunSettings.from_json(older).ordered


def test_a_variant_of_the_source_is_searched_without_an_order(spec: LoadedSpec) -> None:
    evolving = RunSettings(
        strategy="auto",
        seed=0,
        evaluations=9,
        minutes=None,
        batch=1,
        weights=(1.0,),
        cost_model="auto",
        evolution=EVOLVING,
    )
    space = spec.space(catalogue())
    assert not beginning._modelled(evolving, space, None, warm=False).ordered  # type: ignore[arg-type]
