"""Backends, searchers and proposers of others that raise: one line says whose fault it is, and the run can go on."""

from __future__ import annotations

import importlib
import pickle
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tuner.cli.main import main
from tuner.core.errors import MachineError, PluginError, UsageError
from tuner.core.protocols import Replaces, WorksApart
from tuner.core.types import Proposal
from tuner.driver.audit import audit
from tuner.driver.check import check_spec
from tuner.driver.options import Options
from tuner.driver.runs import begin, resume
from tuner.evaluators import registry as backends
from tuner.recorders.record import RunRecord
from tuner.spec.load import load_spec
from tuner.testing import SimulatedBackend

PACKAGE = '''
from tuner.search.base import SearcherBase
from tuner.search.random_search import make as random
from tuner.search.remix import RemixProposer
from tuner.testing import SimulatedBackend

FAILING = None  # the method that raises
LEFT = 1        # at its call of this number, and at every later one


class Odd(Exception):
    pass


def raising(method, made):
    inner = getattr(made, method)

    def call(*arguments, **named):
        global LEFT
        if FAILING == method:
            LEFT -= 1
            if LEFT <= 0:
                raise Odd("no such\\nthing")
        found = inner(*arguments, **named)
        return Part(found) if method in ("prepare", "open") else found

    return call


class Part:
    def __init__(self, made):
        self._made = made
    def __getattr__(self, name):
        value = getattr(self._made, name)
        return raising(name, self._made) if callable(value) else value


def seconds(resolved):
    return 1e-3 / (1 + int(resolved.macros.get("A", 0)))


class Backend(Part):
    def __init__(self):
        super().__init__(SimulatedBackend(seconds=seconds))
    name = "mine"


class Beside(SimulatedBackend):
    """One whose device works beside the processor."""
    def works_apart(self, target):
        return True
    def prepare(self, task, *, workers):
        found = super().prepare(task, workers=workers)
        return Part(found)


class Searcher(Part):
    pass


def make(space):
    return Searcher(random(space))


class Proposer(Part):
    def __init__(self, kernel, numerics):
        super().__init__(RemixProposer(kernel, numerics))


def none():
    return {}


def broken(*arguments):
    return {}["nothing"]
'''

ENTRIES = """\
[tuner.backends]
mine = mine_package:Backend
none = mine_package:none
broken = mine_package:broken
[tuner.searchers]
mine = mine_package:make
broken = mine_package:broken
none = mine_package:Odd
[tuner.proposers]
mine = mine_package:Proposer
broken = mine_package:broken
"""

SPEC = """\
kernel: {source: product.c, entry: product, language: c}
backend: BACKEND
problem: {n: 64}
arguments:
  - {name: x, dtype: float32, shape: [n]}
  - {name: y, dtype: float32, shape: [n], role: output}
  - {name: n, dtype: int32, value: n}
space: {parameters: {A: [0, 1, 2, 3, 4, 5, 6, 7]}, passes: off SOURCE}
search: {strategy: STRATEGY, budget: {evaluations: 12} PROPOSERS}
"""

KERNEL = """
void product(const float *restrict x, float *restrict y, int n) {
    for (int i = 0; i < n; i++) y[i] = A * x[i];
}
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """An installed package with one of each; its module."""
    folder = tmp_path / "site"
    entries = folder / "mine-1.0.dist-info" / "entry_points.txt"
    entries.parent.mkdir(parents=True)
    entries.write_text(ENTRIES)
    (entries.parent / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
    (folder / "mine_package.py").write_text(PACKAGE)
    monkeypatch.syspath_prepend(folder)
    yield importlib.import_module("mine_package")
    del sys.modules["mine_package"]


Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes a spec."""

    def written(backend: str = "mine", strategy: str = "random", proposers: str = "") -> Path:
        (tmp_path / "product.c").write_text(KERNEL)
        text = SPEC.replace("BACKEND", backend).replace("STRATEGY", strategy)
        text = text.replace("PROPOSERS", f", proposers: [{proposers}]" if proposers else "")
        text = text.replace("SOURCE", ", source: {evolve: true}" if proposers else "")
        (tmp_path / "product.yaml").write_text(text)
        return tmp_path / "product.yaml"

    return written


def said(words: list[object], capsys: pytest.CaptureFixture[str]) -> str:
    """The one line that a command which fails prints."""
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    printed = capsys.readouterr()
    assert ended.value.code == 2, printed
    assert printed.out == ""
    (line,) = [one for one in printed.err.splitlines() if one.startswith("error: ")]
    assert "Traceback" not in printed.err
    return line


LATE = {"build": 2, "open": 3, "verify": 3, "close": 3, "ask": 2, "tell": 2}
LATE |= {"propose_informed": 1}
"""The call that raises, of methods that are called once a run has begun."""

METHODS = {
    "backend mine": (
        *("environment", "pass_catalogue", "prepare"),
        *("build", "open", "verify", "close"),
    ),
    "searcher mine": ("ask", "tell"),
    "proposer mine": ("propose_informed",),
}


@pytest.mark.parametrize(
    ("label", "method"), [(label, method) for label, methods in METHODS.items() for method in methods]
)
@pytest.mark.integration
def test_whatever_raises_is_one_line_and_the_run_goes_on(
    label: str, method: str, package: Any, write: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = write(
        strategy="mine" if label.startswith("searcher") else "random",
        proposers="mine, remix" if label.startswith("proposer") else "",
    )
    if method == "pass_catalogue":
        text = spec.read_text().replace("passes: off", "flags: {f: ['', '-x']}")
        spec.write_text(text)
    # Late enough that something is known of the run.
    package.LEFT = LATE.get(method, 1)
    package.FAILING = method
    line = said(["tune", spec, "--out", tmp_path / "runs", "--no-library"], capsys)
    assert line.startswith(f"error: {label}: {method} raised Odd: no such thing (mine_package.py, line ")
    assert "TUNER_TRACEBACK=1 prints the traceback" in line
    begun = list((tmp_path / "runs").glob("*.run"))
    assert bool(begun) is (method in LATE)
    package.FAILING = None
    for path in begun:
        # What was found is kept: the same run goes on once the package is mended.
        assert "--resume goes on from there" in line or method == "close"
        assert not resume(path).interrupted
        assert audit(path).differences == []


def test_a_traceback_is_printed_where_it_is_asked_for(
    package: Any,
    write: Write,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    package.FAILING = "prepare"
    monkeypatch.setenv("TUNER_TRACEBACK", "1")
    with pytest.raises(SystemExit):
        main(["tune", str(write()), "--out", str(tmp_path / "runs"), "--no-library"])
    printed = capsys.readouterr().err
    assert 'raise Odd("no such\\nthing")' in printed
    assert "error: backend mine: prepare raised Odd" in printed


@pytest.mark.parametrize(
    ("kind", "names"),
    [("backend", ("broken", "none")), ("strategy", ("broken", "none")), ("proposers", ("broken",))],
)
def test_impossible_third_party_parts_are_one_line(
    kind: str, names: tuple[str, ...], package: Any, write: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in names:
        spec = write(**{kind: name})
        line = said(["check", spec, "--no-faults"], capsys)
        assert name in line
        assert ("raised KeyError: 'nothing'" if name == "broken" else "is none") in line


RETURNED: dict[str, tuple[Any, str]] = {
    "environment": (None, "environment returned a NoneType in the place of a Mapping"),
    "build": ([], "build returned 0 results for 1"),
    "verify": (None, "verify returned a NoneType in the place of a Verdict"),
    "measure": (1.0, "measure returned a float in the place of a Measurement"),
    "set_baseline": ({}, "set_baseline returned a dict in the place of a BaselineReport"),
    "ask": ([{"A": 1}], "ask returned a dict in the place of a Proposal"),
}


@pytest.mark.parametrize("method", RETURNED)
def test_invalid_returns_of_third_parties_are_one_line(
    method: str, package: Any, write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, says = RETURNED[method]
    real = package.raising
    monkeypatch.setattr(
        package, "raising", lambda m, made: (lambda *a, **k: found) if m == method else real(m, made)
    )
    (spec,) = load_spec(write(strategy="mine"))
    with pytest.raises(PluginError, match=says):
        begin(spec, tmp_path / "a.run", Options())


def _proposal(**said: Any) -> Proposal:
    return Proposal(**{"configuration": {"A": 1}, "origin": "mine", **said})


ODD: dict[str, tuple[list[Proposal], str]] = {
    "outside": ([_proposal(configuration={"A": 99})], "A = 99 is out of range; allowed: 0, 1, 2"),
    "missing": ([_proposal(configuration={})], "A has no value"),
    "unknown": ([_proposal(configuration={"A": 1, "B": 2})], "'B' is not in the space"),
    "numpy": ([_proposal(configuration={"A": np.int64(3)})], "is a int64, no bool, int, float or str"),
    "none": ([_proposal(configuration=None)], "its configuration is a NoneType, no mapping"),
    "note": ([_proposal(note={"x": object()})], "are no plain JSON"),
    "nan": ([_proposal(note={"x": float("nan")})], "are no plain JSON"),
    "many": ([_proposal()] * 9000, "9000 proposals where at most"),
}


@pytest.mark.parametrize("name", ODD)
def test_a_proposal_that_cannot_be_tried_is_not_recorded(
    name: str, package: Any, write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once it is in the record every resume would fail on it, however well the searcher is mended."""
    found, says = ODD[name]
    real, calls = package.raising, [0]

    def raising(method: str, made: Any) -> Any:
        def ask(*arguments: Any) -> Any:
            calls[0] += 1
            return found if calls[0] == 3 else real(method, made)(*arguments)

        return ask if method == "ask" else real(method, made)

    monkeypatch.setattr(package, "raising", raising)
    (spec,) = load_spec(write(strategy="mine"))
    run = tmp_path / "a.run"
    with pytest.raises(
        PluginError, match=r"searcher mine: ask returned .*--resume goes on from there"
    ) as raised:
        begin(spec, run, Options(), backend=SimulatedBackend(seconds=package.seconds))
    assert says in str(raised.value)
    assert "\n" not in str(raised.value)
    ended = resume(run, backend=SimulatedBackend(seconds=package.seconds))
    assert (ended.interrupted, ended.summary.trials["ok"]) == (False, 8)
    assert audit(run).differences == []


@pytest.mark.integration
def test_a_device_beside_the_processor_does_not_leave_the_run_waiting(
    package: Any, write: Write, tmp_path: Path
) -> None:
    """Its builds and timings are in threads, whose end nobody would see."""
    (spec,) = load_spec(write())
    for number, (method, call) in enumerate({"build": 3, "verify": 2, "set_baseline": 1}.items()):
        backend = package.Beside(seconds=package.seconds)
        package.FAILING, package.LEFT = method, call
        with pytest.raises(PluginError, match=f"backend {backend.name}: {method} raised Odd"):
            begin(spec, tmp_path / f"{number}.run", Options(), backend=backend)
        package.FAILING = None
        assert not resume(tmp_path / f"{number}.run", backend=backend).interrupted
        assert audit(tmp_path / f"{number}.run").differences == []


def test_a_guarded_object_can_do_what_it_could(package: Any) -> None:
    """What it has beside the protocol is found, it travels to other processes; the project's own has no guard."""
    beside = backends.given(package.Beside(seconds=package.seconds), "")
    assert isinstance(beside, WorksApart)
    assert not isinstance(beside, Replaces)
    assert beside.works_apart("native")
    assert pickle.loads(pickle.dumps(beside)).name == beside.name
    assert str(pickle.loads(pickle.dumps(PluginError("what", "cure")))) == "what; cure"
    own = SimulatedBackend(seconds=lambda _: 1.0)
    assert backends.given(own, "") is own
    assert type(backends.create("host")).__name__ == "HostBackend"
    with pytest.raises(AttributeError):
        _ = beside.nothing  # type: ignore[attr-defined]


def test_a_check_says_whose_proposers_are_asked(package: Any, write: Write) -> None:
    (spec,) = load_spec(write(proposers="mine"))
    assert dict(check_spec(spec, faults=False).lines)["source"].endswith("; by mine")
    (spec,) = load_spec(write(proposers="remix"))
    assert dict(check_spec(spec, faults=False).lines)["source"].endswith("; by remix operators (no LLM)")


def test_errors_of_the_project_are_passed_on(package: Any, write: Write, tmp_path: Path) -> None:
    """They say more than one made here could."""
    package.FAILING, package.Odd = "prepare", lambda text: MachineError("no card", "plug it in")
    (spec,) = load_spec(write())
    with pytest.raises(MachineError, match="no card; plug it in"):
        begin(spec, tmp_path / "a.run", Options())


class Observer:
    """Raises at an event of one kind; before that it changes what it is told."""

    def __init__(self, kind: str) -> None:
        self.kind, self.seen = kind, 0

    def event(self, kind: str, body: Any) -> None:
        self.seen += 1
        if kind == self.kind:
            raise Odd("no\nnetwork")
        body["clock_s"] = -1.0
        for value in body.values():
            if isinstance(value, dict | list):
                value.clear()


class Odd(Exception):
    pass


@pytest.mark.parametrize("kind", ["start", "samples", "end"])
def test_an_observer_that_raises_ends_the_run_with_one_line_and_a_whole_record(
    kind: str, package: Any, write: Write, tmp_path: Path
) -> None:
    (spec,) = load_spec(write())
    backend = SimulatedBackend(seconds=package.seconds)
    run = tmp_path / "a.run"
    with pytest.raises(PluginError) as raised:
        begin(spec, run, Options(), backend=backend, observers=[Observer(kind)])
    said = str(raised.value)
    assert said.startswith("observer Observer: event raised Odd: no network (test_third_parties.py, line ")
    assert said.endswith("--resume goes on from there")
    if kind != "end":
        with pytest.raises(PluginError, match="observer Observer: event raised Odd"):
            resume(run, backend=backend, observers=[Observer("start")])
    assert not resume(run, backend=backend).interrupted
    assert audit(run).differences == []


def test_an_observer_changes_nothing_but_what_it_was_given(
    package: Any, write: Write, tmp_path: Path
) -> None:
    """The state of the run holds parts of the bodies of its events."""
    (spec,) = load_spec(write())
    backend = SimulatedBackend(seconds=package.seconds)
    observer = Observer("none")
    watched = begin(spec, tmp_path / "a.run", Options(), backend=backend, observers=[observer])
    alone = begin(spec, tmp_path / "b.run", Options(), backend=backend)
    assert watched.summary.trials == alone.summary.trials
    assert watched.summary.best.proposal == alone.summary.best.proposal
    assert audit(tmp_path / "a.run").differences == []
    with RunRecord.read(tmp_path / "a.run") as record:
        assert observer.seen == sum(1 for _ in record.events())


def test_non_observers_are_refused_before_anything_is_written(
    package: Any, write: Write, tmp_path: Path
) -> None:
    (spec,) = load_spec(write())
    with pytest.raises(UsageError, match="the observer <built-in function print> has no method event"):
        begin(spec, tmp_path / "a.run", Options(), observers=[print])  # type: ignore[list-item]
    assert not (tmp_path / "a.run").exists()
