"""What an evolving run adds to its result: simpler searches beside it, worth of edits, twins; and OpenCL end to end."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import needs
import numpy as np
import pytest
from product_runs import SPEC, backend
from run_events import events

from tuner.api import Result, load, tune_spec
from tuner.cli.figures import Figures
from tuner.cli.progress import PlainProgress
from tuner.core.errors import UsageError
from tuner.core.protocols import Observation, configuration_key
from tuner.core.types import Configuration, Kernel, Proposal, Resolved, Source, Status, Variant
from tuner.driver.audit import audit
from tuner.driver.opening import open_state
from tuner.driver.options import Options
from tuner.driver.outcome.export import export
from tuner.driver.records import find_newest
from tuner.driver.runs import begin
from tuner.driver.state.lineage import ORIGINAL
from tuner.driver.state.settings import Evolution as EvolutionSettings
from tuner.driver.work.engine import Interruption
from tuner.recorders.record import RunRecord
from tuner.search.evolution import Evolution, Judged
from tuner.search.inheriting import InheritingSearcher
from tuner.search.registry import create
from tuner.search.remix import RemixProposer
from tuner.spaces.parameters import Parameter
from tuner.spaces.passes import Catalogue
from tuner.spaces.source.edits import apply_edits
from tuner.spaces.source.embedding import distance, embed
from tuner.spaces.source.regions import read_program
from tuner.spaces.space import Space
from tuner.spec.load import LoadedSpec, load_spec

KERNEL = """
void product(const float *a, const float *b, float *c, int n)
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            c[i * n + j] = a[i * n + j] * b[j * n + i];
    for (int k = 0; k < n; k++)
        for (int m = 0; m < n; m++)
            c[k * n + m] += 0.5f * b[k * n + m];
}
"""


def spec_in(folder: Path) -> LoadedSpec:
    (folder / "product.c").write_text(KERNEL)
    (folder / "product.yaml").write_text(SPEC)
    (loaded,) = load_spec(folder / "product.yaml")
    return loaded


@pytest.fixture
def spec(tmp_path: Path) -> LoadedSpec:
    return spec_in(tmp_path)


def only(op: str, factor: float) -> Any:
    """Times that depend on one operator alone."""

    def seconds(variant: Variant, resolved: Resolved) -> float:
        return factor if any(e["op"] == op for e in variant.edits) else 1.0

    return seconds


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Result:
    """A run with simpler searches beside it, which tests only read."""
    folder = tmp_path_factory.mktemp("compared")
    options = Options(seed=1, workers=2, evaluations=16)
    return tune_spec(spec_in(folder), options, out=folder / "runs", backend=backend(), baselines=True)


def is_a_curve(curve: dict[str, list[float]], of: Result) -> None:
    """A point for each trial that took the lead, and the last."""
    assert len({len(values) for values in curve.values()}) == 1
    assert (curve["done"][0], curve["speed"][0]) == (0, 1.0)
    assert all(a < b for a, b in itertools.pairwise(curve["speed"][:-1]))
    assert all(a <= b for a, b in itertools.pairwise(curve["clock_s"]))
    assert all(0 <= s < 1 for s in curve["spread"])
    finished = [
        row for row in of.rows if row["status"] == "ok" and row["score"] is not None and not row["raced"]
    ]
    assert curve["speed"][-1] == pytest.approx(math.exp(-min(row["score"] for row in finished)), rel=1e-4)


@pytest.mark.integration
def test_simpler_searches_stand_beside_the_result(compared: Result, spec: LoadedSpec, tmp_path: Path) -> None:
    """With the budget of the run itself, in the record and in the JSON; the record passes its audit."""
    result = compared
    value = result.to_json()
    assert [b["name"] for b in value["baselines"]] == ["parameters", "samples"]
    for found in value["baselines"]:
        trials = found["trials"]
        assert trials["total"] - trials["duplicate"] - trials["pruned"] <= 16
        rival = load(result.path.with_name(found["run"]))
        is_a_curve(found["curve"], rival)
    assert events(result.path)[0][2]["rivals"] == value["baselines"]
    assert audit(result.path, backend=backend()).differences == []
    options = Options(seed=1, workers=2, evaluations=4)
    plain = begin(spec, tmp_path / "plain.run", options, backend=backend())
    assert "baselines" not in plain.to_json()


@pytest.mark.integration
def test_simpler_searches_are_seen_while_they_run(
    spec: LoadedSpec, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each under its own name and before the run that was asked for: they take as long as that one."""
    display = PlainProgress()
    tune_spec(
        spec,
        Options(seed=1, workers=2, evaluations=4),
        out=tmp_path,
        backend=backend(),
        observers=[display],
        display=display,
        baselines=True,
        watch=lambda name: PlainProgress(role=f"to compare with: {name}"),
    )
    names = [line.partition(": searching")[0] for line in capsys.readouterr().err.splitlines()]
    shown = [n for n in dict.fromkeys(names) if "," not in n]
    assert shown == [f"product (to compare with: {rival})" for rival in ("parameters", "samples")] + [
        "product"
    ]


def test_an_interrupted_simpler_search_is_not_compared_with(spec: LoadedSpec, tmp_path: Path) -> None:
    """It did not have the budget; and what can be resumed is the run itself."""
    interruption = Interruption()

    class Stops(PlainProgress):
        def event(self, kind: str, body: Mapping[str, Any]) -> None:
            if kind == "trial" and body["trial"] == 1:
                interruption.set()

    options = Options(seed=1, workers=2, evaluations=10)
    given: dict[str, Any] = {"out": tmp_path, "backend": backend(), "baselines": True}
    result = tune_spec(spec, options, interruption=interruption, watch=lambda _: Stops(), **given)
    assert result.outcome.interrupted
    assert "baselines" not in result.to_json()
    assert len(list(tmp_path.glob("*.run"))) == 2
    assert find_newest(tmp_path, spec) == result.path
    resumed = tune_spec(spec, options, go_on=True, **given)
    assert resumed.path == result.path
    with pytest.raises(UsageError, match="no unfinished run"):
        find_newest(tmp_path, spec)


def test_waiting_counts_from_the_begin_of_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not from when the display was made: simpler searches may have run between the two."""
    now = 0.0
    monkeypatch.setattr("tuner.cli.figures.time.monotonic", lambda: now)
    figures = Figures()
    now = 600.0
    settings = {"evaluations": 1, "minutes": None, "batch": 1}
    figures.take(
        "start", {"name": "k", "backend": "host", "environment": {"backend": {}}, "settings": settings}
    )
    now = 603.0
    assert figures.waits()
    assert figures.waited_s() == 3.0


@pytest.mark.integration
def test_independent_samples_all_come_from_the_source_as_given(compared: Result) -> None:
    record = compared.path.with_name(compared.to_json()["baselines"][1]["run"])
    with RunRecord.read(record) as found:
        state, _, _ = open_state(found)
    drawn = [v for v in state.variants.values() if v.number != ORIGINAL and v.purpose == "propose"]
    assert len(drawn) > 5
    assert {v.parents for v in drawn} == {(ORIGINAL,)}
    assert {v.rung for v in drawn} == {0}
    assert audit(record, backend=backend()).differences == []


@pytest.mark.integration
def test_the_worth_of_the_edits_that_stay_is_told(spec: LoadedSpec, tmp_path: Path) -> None:
    """How many times as long a call takes without each."""
    quiet = backend(of_variant=only("restrict", 0.5), process_noise=0.001, call_noise=0.001)
    result = begin(spec, tmp_path / "a.run", Options(seed=3, workers=2, evaluations=80), backend=quiet)
    value = result.to_json()["evolution"]
    assert [e["op"] for e in value["edits"]] == ["restrict"]
    (gain,) = value["gains"]
    assert not gain["needed"]
    # A race may end the measurement early, but not so early that the loss does not show.
    assert gain["ratio"] > 1.3


@pytest.mark.integration
def test_a_variant_far_behind_ends_its_rung_at_once(spec: LoadedSpec, tmp_path: Path) -> None:
    slow = backend(of_variant=only("restrict", 9.0), process_noise=0.001, call_noise=0.001)
    result = begin(spec, tmp_path / "a.run", Options(seed=3, workers=1, evaluations=20), backend=slow)
    with RunRecord.read(result.path) as record:
        state, _, _ = open_state(record)
    tiled = [v for v in state.variants.values() if v.outclassed]
    assert tiled
    assert all(len(v.trials) == 1 for v in tiled)
    assert audit(result.path, backend=slow).differences == []


@pytest.mark.integration
def test_variants_that_their_parents_passes_break_are_not_given_up(tmp_path: Path) -> None:
    """The given pipeline is tried on them, although they get one trial."""
    golden = Path(__file__).parents[1] / "golden"
    passes, o3 = ((golden / f"llvm23_{name}.txt").read_text() for name in ("passes", "o3"))

    def seconds(variant: Variant, resolved: Resolved) -> float | Status:
        # The source as given is the fastest, so that it goes on and finds other passes.
        changed = resolved.pipeline not in (None, "default<O3>")
        if variant.edits:
            return Status.WRONG_RESULT if changed else 1.2
        return 0.8 if changed else 1.0

    (tmp_path / "product.c").write_text(KERNEL)
    (tmp_path / "product.yaml").write_text(SPEC.replace("passes: off", 'passes: {base: "default<O3>"}'))
    (loaded,) = load_spec(tmp_path / "product.yaml")
    catalogue = Catalogue.from_listing(passes, o3.strip(), "23.1.4").to_json()
    simulated = backend(of_variant=seconds, catalogue=catalogue)
    own = {"evolution": EvolutionSettings(first=1)}
    options = Options(seed=4, workers=2, evaluations=40, settings=own)
    result = begin(loaded, tmp_path / "a.run", options, backend=simulated)
    with RunRecord.read(result.path) as record:
        state, _, _ = open_state(record)
    bred = [v for v in state.variants.values() if v.number != ORIGINAL and v.purpose == "propose"]
    broken = [v for v in bred if (v.seed or {})["passes"] != "default<O3>" and len(v.finished) > 1]
    assert broken
    assert all(v.score is not None for v in broken)
    assert audit(result.path, backend=simulated).differences == []


def kernel(text: str = KERNEL) -> Kernel:
    files = (Source(name="product.c", text=text),)
    return Kernel(name="product", entry="product", language="c", variant=Variant(files=files), folder=".")


def judged(number: int, variant: Variant, structure: str, *, twin: bool = False) -> Judged:
    return Judged(
        number=number,
        variant=variant,
        origin="tile",
        parents=(0,),
        island=0,
        structure=structure,
        cell=(number,),
        score=-0.1 * number,
        twin=twin,
    )


def test_the_same_code_by_another_way_is_no_elite() -> None:
    evolution = Evolution(kernel(), "exact")
    evolution.tell([judged(0, kernel().variant, "a")])
    before = evolution.archive
    evolution.tell([judged(1, kernel().variant, "b", twin=True)])
    assert evolution.archive == before
    evolution.tell([judged(2, kernel().variant, "c")])
    assert evolution.archive != before


INTERCHANGE = {"op": "interchange", "function": "product", "loops": ["i", "j"]}


def test_undoing_an_edit_leaves_it_out() -> None:
    """Swapping loops back is no third edit: the list gets shorter, and the note says what was undone."""
    proposer, original = RemixProposer(kernel()), read_program(kernel())
    back = {**INTERCHANGE, "loops": ["j", "i"]}
    again = apply_edits(original, [INTERCHANGE, {"op": "restrict", "function": "product"}, back])
    plain = proposer._plain(
        again,
        "interchange",
        [apply_edits(original, [INTERCHANGE, {"op": "restrict", "function": "product"}]).variant],
        _structure(again.program),
    )
    assert [e["op"] for e in plain.variant.edits] == ["restrict"]
    assert plain.note["undoes"] == "interchange"


def _structure(program: Any) -> str:
    from tuner.spaces.source.identity import structure_digest

    return structure_digest(program)


def test_an_embedding_knows_orders_of_loops_but_no_names() -> None:
    original = read_program(kernel())
    renamed = read_program(
        kernel(
            KERNEL.replace("int m", "int other")
            .replace("m < n; m++", "other < n; other++")
            .replace("+ m]", "+ other]")
        )
    )
    assert distance(embed(original), embed(renamed)) < 1e-12
    more = read_program(kernel(KERNEL.replace("int n)\n{", "int n)\n{\n    c[0] = 0.0f;")))
    assert 0 < distance(embed(original), embed(more)) < 1
    for edits in ([INTERCHANGE], [{"op": "restrict", "function": "product"}]):
        made = apply_edits(original, edits).program
        assert embed(made) == embed(made)
        assert distance(embed(original), embed(made)) > 0


def observation(number: int, configuration: Configuration, score: float) -> Observation:
    return Observation(
        trial=number,
        proposal=Proposal(configuration=configuration, origin="x"),
        status=Status.OK,
        score=score,
    )


class Listening:
    """A searcher that keeps what it is told before anything else."""

    def __init__(self, space: Space) -> None:
        self._inner = create("random", space)
        self.name = "listening"
        self.prior: list[Observation] = []

    def warm_start(self, observations: list[Observation]) -> None:
        self.prior = list(observations)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def test_a_variant_learns_what_its_parent_knew() -> None:
    """Moved to where the parent's best configuration stands here, with the new tunables as they begin."""
    space = Space(
        (Parameter.choice("A", [1, 2, 3], default=2), Parameter.choice("NEW", [4, 8], default=8)), ()
    )
    prior = [observation(0, {"A": 1}, 0.0), observation(1, {"A": 2}, -1.0), observation(2, {"A": 3}, -0.25)]
    inner = Listening(space)
    searcher = InheritingSearcher(lambda: inner, space, {"A": 2, "NEW": 8}, ["NEW"], prior)  # type: ignore[arg-type, return-value]
    rng = np.random.default_rng(0)
    made = searcher.ask(4, rng)
    searcher.tell([observation(10 + i, p.configuration, -1.5 - i) for i, p in enumerate(made)])
    searcher.ask(1, rng)
    told = {configuration_key(o.proposal.configuration): o.score for o in inner.prior}
    assert told == {
        configuration_key({"A": 1, "NEW": 8}): pytest.approx(-0.5),
        configuration_key({"A": 3, "NEW": 8}): pytest.approx(-0.75),
    }


def test_auto_is_warm_but_proposes_what_was_only_believed() -> None:
    space = Space(
        (Parameter.choice("A", [1, 2, 3, 4], default=1),), (), flags={"f": ("", "-fno-unroll-loops")}
    )
    searcher: Any = create("auto", space)
    every = [{"A": a, "f": f} for a in (1, 2, 3, 4) for f in ("", "-fno-unroll-loops")]
    searcher.warm_start([observation(i, c, float(i)) for i, c in enumerate(every)])
    rng, seen = np.random.default_rng(0), set()
    for _ in range(12):
        for proposal in searcher.ask(1, rng):
            seen.add(configuration_key(proposal.configuration))
    assert len(seen) == len(every)


DEVICE_KERNEL = """__kernel void product(__global const float *a, __global const float *b, __global float *c, int n)
{
    const int x = get_global_id(0), y = get_global_id(1);
    if (x >= n || y >= n)
        return;
    c[y * n + x] = 2.0f * a[y * n + x] * b[x * n + y] + 0.5f;
}
"""
DEVICE_SPEC = """\
kernel: {source: product.cl, entry: product}
problem: {n: 24}
arguments:
  - {name: a, dtype: float32, shape: [n, n], init: {uniform: [-1, 1]}}
  - {name: b, dtype: float32, shape: [n, n], init: {uniform: [-1, 1]}}
  - {name: c, dtype: float32, shape: [n, n], role: output}
  - {name: n, dtype: int32, value: n}
launch: {grid: ["ceil(n / 4)", "ceil(n / 4)"], block: [4, 4]}
space: {source: {evolve: true}}
verify: {numerics: exact, rtol: 1.0e-5, atol: 1.0e-5, problems: [{n: 1}, {n: 13}]}
search: {budget: {evaluations: 4}}
"""


@needs.pocl
@pytest.mark.usefixtures("no_oclgrind")
def test_an_opencl_kernel_evolves_on_pocl(tmp_path: Path) -> None:
    """From the spec to an exported winner with a launch of its own, and a replay that finds no difference."""
    (tmp_path / "product.cl").write_text(DEVICE_KERNEL)
    (tmp_path / "product.yaml").write_text(DEVICE_SPEC)
    (loaded,) = load_spec(tmp_path / "product.yaml")
    assert loaded.evolves
    result = begin(loaded, tmp_path / "a.run", Options(seed=1, workers=1))
    report = audit(result.path, rebuild=True)
    assert report.differences == []
    with RunRecord.read(result.path) as record:
        state, _, _ = open_state(record)
    variants = [v for v in state.variants.values() if v.number != ORIGINAL]
    assert any(v.score is not None for v in variants)
    names = {p.name: p for p in export(result.path, tmp_path / "out")}
    launch: Mapping[str, Any] = json.loads(names["launch.json"].read_text())
    own = state.variants[result.summary.best.variant].launch
    expected = loaded.task.launch if own is None else own
    assert expected is not None
    assert launch["expressions"] == expected.to_json()
    assert math.isfinite(result.summary.speedup[0])
