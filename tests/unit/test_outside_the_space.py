"""Records in which a searcher of a third party proposed what nobody can try, as earlier versions kept them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tuner.core.errors import PluginError, RecordError, SpecError
from tuner.core.executors import Executor, MakeExecutor
from tuner.core.types import Proposal, Resolved, Status, Task
from tuner.driver.audit import audit
from tuner.driver.opening import open_state
from tuner.driver.options import Options
from tuner.driver.runs import begin, resume
from tuner.driver.work import outside
from tuner.evaluators.executors.threads import ThreadExecutor
from tuner.recorders.record import RunRecord
from tuner.search import registry
from tuner.spec.load import LoadedSpec, load_spec
from tuner.testing import SimulatedBackend

SpecWriter = Callable[..., Path]

PACKAGE = """
from tuner.search.random_search import make as random


class Searcher:
    '''Random, but that its third answer begins with what is set here.'''

    name = "odd"
    first = None

    def __init__(self, space):
        self._inner, self._asked = random(space), 0

    def ask(self, count, rng):
        self._asked += 1
        found = self._inner.ask(count, rng)
        return [self.first, *found[1:]] if self._asked == 3 and self.first is not None else found

    def adopt(self, proposals):
        self._asked += 1
        self._inner.adopt(proposals)

    def tell(self, observations):
        self._inner.tell(observations)
"""


@pytest.fixture
def odd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The class of a third party's searcher called ``odd``."""
    folder = tmp_path / "site"
    info = folder / "odd-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "entry_points.txt").write_text("[tuner.searchers]\nodd = odd_package:Searcher\n")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: odd\nVersion: 1.0\n")
    (folder / "odd_package.py").write_text(PACKAGE)
    monkeypatch.syspath_prepend(folder)
    import odd_package

    yield odd_package.Searcher
    del sys.modules["odd_package"]


def seconds(resolved: Resolved) -> float:
    return 1e-3 / int(resolved.macros["WIDTH"])


def backend() -> SimulatedBackend:
    return SimulatedBackend(seconds=seconds)


def devices(task: Task) -> Executor:
    return ThreadExecutor(lambda: backend().prepare(task, workers=1), ["simulated"] * 2, builders=1)


def by_an_earlier_version(
    spec: LoadedSpec, odd: Any, path: Path, executor: MakeExecutor | None = None, **configuration: Any
) -> None:
    """A run that took whatever it was given, and that ended with it."""
    odd.first = Proposal(configuration={"STEP": 1, "WIDTH": 1, **configuration}, origin="odd")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "_wrong", lambda *_: "")
        patch.setattr(outside, "refused", lambda *_: {})
        with pytest.raises((SpecError, TypeError)):
            begin(spec, path, Options(), backend=backend(), executor=executor)


@pytest.fixture
def spec(scale_spec: SpecWriter) -> LoadedSpec:
    (loaded,) = load_spec(scale_spec(strategy="odd", evaluations=20))
    return loaded


@pytest.mark.parametrize("executor", [None, devices], ids=["alone", "devices"])
@pytest.mark.parametrize("mended", [False, True])
def test_such_a_trial_is_refused_and_the_run_goes_on(
    mended: bool, executor: MakeExecutor | None, odd: Any, spec: LoadedSpec, tmp_path: Path
) -> None:
    path = tmp_path / "a.run"
    by_an_earlier_version(spec, odd, path, executor, WIDTH=99)
    if mended:
        odd.first = None
    ended = resume(path, backend=backend(), executor=executor)
    with RunRecord.read(path) as record:
        state = open_state(record)[0]
    (wrong,) = [t for t in state.trials.values() if t.proposal.configuration["WIDTH"] == 99]
    assert wrong.status is Status.REFUSED
    assert wrong.message.startswith("it is outside the space: WIDTH = 99 is out of range; allowed: ")
    assert (ended.interrupted, ended.summary.trials["refused"]) == (False, 1)
    assert ended.summary.trials["ok"] >= 15
    difference = next(line for line in audit(path).differences if "trial" in line)
    assert f"; trial {wrong.number}: it is outside the space: WIDTH = 99 is out of range" in difference
    assert mended or "searcher odd: ask returned a proposal that cannot be tried" in difference


def test_other_faults_of_a_searcher_are_its_own(odd: Any, spec: LoadedSpec, tmp_path: Path) -> None:
    """A record is not blamed for a package that fails today."""
    path = tmp_path / "a.run"
    begin(spec, path, Options(), backend=backend())
    assert audit(path).differences == []
    odd.first = Proposal(configuration={}, origin="odd")
    with pytest.raises(PluginError, match="searcher odd: ask returned"):
        audit(path)


def test_non_configurations_are_one_line(odd: Any, spec: LoadedSpec, tmp_path: Path) -> None:
    path = tmp_path / "a.run"
    by_an_earlier_version(spec, odd, path, WIDTH=[1])
    with pytest.raises(
        RecordError, match=r"trial \d+ proposes WIDTH = \[1\], which is no bool, .*: start anew"
    ):
        resume(path, backend=backend())
