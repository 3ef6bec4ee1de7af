"""What earlier runs tried of other kernels' sources: kept, carried over, ordered, tried first, and dropped in vain."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from instants import InterruptAt
from product_runs import KERNEL, SPEC, SUMS, backend
from run_events import events
from same_results import program_of

from tuner.core.types import Resolved, Status, Variant
from tuner.cost_models.library import Entry, Library
from tuner.cost_models.promise import Tried, chosen, of_moves, promises, worth
from tuner.driver.audit import audit
from tuner.driver.opening import open_state
from tuner.driver.options import Options
from tuner.driver.outcome.outcome import Outcome
from tuner.driver.plan.evolving import OWN
from tuner.driver.runs import begin, resume
from tuner.driver.state.lineage import VariantState
from tuner.driver.state.settings import Evolution
from tuner.driver.work.engine import Interruption
from tuner.recorders.record import RunRecord
from tuner.search.offers import Winner, offers
from tuner.search.porting import port, stages_of
from tuner.search.recipes import RECIPES
from tuner.search.remix import RECIPE
from tuner.spaces.source.edits import Applied, apply_edits
from tuner.spaces.source.identity import structure_digest
from tuner.spaces.source.operators import OPERATORS
from tuner.spaces.source.regions import Program
from tuner.spaces.source.roles import apart, role
from tuner.spec.load import LoadedSpec, load_spec

OTHER = """
void other(const float *x, const float *y, float *z, int m)
{
    for (int p = 0; p < m; p++)
        for (int q = 0; q < m; q++) {
            z[p * m + q] = 0.5f;
            z[p * m + q] += x[p * m + q] * y[q * m + p];
        }
}
"""

OTHER_SUMS = """
void other(const float *x, const float *y, float *z, int m)
{
    for (int p = 0; p < m; p++)
        for (int q = 0; q < m; q++) {
            z[p * m + q] = 0.0f;
            for (int r = 0; r < m; r++)
                z[p * m + q] += 2.0f * x[p * m + r] * y[r * m + q];
        }
}
"""

SWEEP = """
void sweep(float *x, int m)
{
    for (int p = 1; p < m; p++)
        x[p] = 0.5f * (x[p] + x[p - 1]);
}
"""


def program(text: str, entry: str) -> Program:
    return program_of(text, entry)


def spec_of(folder: Path, text: str = KERNEL, entry: str = "product", names: str = "abcn") -> LoadedSpec:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "product.c").write_text(text)
    described = SPEC.replace("entry: product", f"entry: {entry}")
    for old, new in zip("abc", names, strict=False):
        described = described.replace(f"name: {old},", f"name: {new},")
    if names[3] != "n":
        described = described.replace("name: n, dtype", f"name: {names[3]}, dtype")
    (folder / "product.yaml").write_text(described)
    (loaded,) = load_spec(folder / "product.yaml")
    return loaded


def swaps_help(variant: Variant, resolved: Resolved) -> float:
    """Only the order of loops matters, and a little what else was done."""
    ops = [e["op"] for e in variant.edits]
    return (0.3 if "interchange" in ops else 1.0) + 0.01 * len(ops)


def swaps_hurt(variant: Variant, resolved: Resolved) -> float:
    ops = [e["op"] for e in variant.edits]
    return 1.0 + 0.2 * len(ops) - (0.6 if ops == ["restrict"] else 0.0)


def tuned(folder: Path, library: Path | None, name: str = "a", **more: Any) -> Outcome:
    text, entry, names = (OTHER, "other", "xyzm") if name == "other" else (KERNEL, "product", "abcn")
    settings = dict(more.get("settings", {}))
    evaluations = more.get("evaluations", 30)
    options = Options(
        seed=more.get("seed", 5), evaluations=evaluations, workers=2, library=library, settings=settings
    )
    of_variant = more.get("of_variant", swaps_help)
    quiet = backend(of_variant=of_variant, process_noise=0.001, call_noise=0.001)
    return begin(spec_of(folder / name, text, entry, names), folder / f"{name}.run", options, backend=quiet)


def variants_of(outcome: Outcome) -> list[VariantState]:
    with RunRecord.read(outcome.path) as record:
        state, _, _ = open_state(record)
    return list(state.variants.values())


def evaluations_to(outcome: Outcome, factor: float) -> int:
    """Evaluations until a trial was that many times as fast as the baseline."""
    with RunRecord.read(outcome.path) as record:
        state, _, _ = open_state(record)
    for count, number in enumerate(state.finished, 1):
        score = state.trials[number].score
        if score is not None and score <= -np.log(factor):
            return count
    return 10**6


@pytest.fixture(scope="module")
def one_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library after one run of another kernel that does the same in other words."""
    folder = tmp_path_factory.mktemp("library")
    assert tuned(folder, folder / "library", "other", seed=3).summary.improved
    return folder / "library"


@pytest.fixture
def library(one_run: Path, tmp_path: Path) -> Path:
    """A copy, since every run adds to it."""
    return Path(shutil.copytree(one_run, tmp_path / "library"))


@pytest.fixture(scope="module")
def helped(one_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """A run with that library, which tests only read."""
    folder = tmp_path_factory.mktemp("helped")
    return tuned(folder, Path(shutil.copytree(one_run, folder / "library")))


@pytest.fixture(scope="module")
def other_seed(one_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """Another one, in which advice enters."""
    folder = tmp_path_factory.mktemp("other_seed")
    library = Path(shutil.copytree(one_run, folder / "library"))
    return tuned(folder, library, seed=7, evaluations=40)


def test_roles_know_no_names() -> None:
    """A loop that sums has the role of another one that sums, and not that of one that does not."""
    mine = next(iter(program(SUMS, "product").functions.values()))
    theirs = next(iter(program(OTHER_SUMS, "other").functions.values()))
    alike = apart(role(mine, {"loop": "j"}), role(theirs, {"loop": "q"}))
    unlike = apart(role(mine, {"loop": "j"}), role(theirs, {"loop": "r"}))
    assert alike < unlike
    assert apart(role(mine, {"loop": "j"}), role(mine, {"loop": "j"})) == 0.0


def made_of(text: str, entry: str, numerics: str = "reassociate", seed: int = 0) -> list[Applied]:
    return offers(program(text, entry), numerics, (), np.random.default_rng(seed))


@pytest.mark.integration
def test_edits_are_carried_over() -> None:
    """To loops of other names, with the values that were best there; one by one, or by a recipe."""
    source = program(OTHER_SUMS, "other")
    won = next(
        m
        for seed in range(8)
        for m in made_of(OTHER_SUMS, "other", seed=seed)
        if "vector_block" in [e["op"] for e in m.variant.edits] and len(m.parameters) == 3
    )
    best = {p.name: p.values[-1] for p in won.parameters}
    steps = json.loads(json.dumps(stages_of(source, won.variant.edits, best)))
    target = program(SUMS, "product")
    for moves in ((), ("recipe/inner_product",)):
        made = port(target, steps, moves, "reassociate", np.random.default_rng(0))
        assert made is not None
        assert "vector_block" in [e["op"] for e in made.variant.edits]
        assert apply_edits(target, made.variant.edits).variant.files == made.variant.files
        block = next(e for e in made.variant.edits if e["op"] == "vector_block")
        assert [p["default"] for p in block["parameters"]] == list(best.values())
        assert port(program(SWEEP, "sweep"), steps, moves, "reassociate", np.random.default_rng(0)) is None


@pytest.mark.parametrize("asked", [0, 1, 3, 6])
def test_making_ends_when_time_is_over(asked: int) -> None:
    """Each edit and each variant asks whether there is time, so that none of them holds a run that has no more."""
    target = program(KERNEL, "product")
    edit = {"op": "interchange", "function": "product", "loops": ["i", "j"]}
    winner = Winner(steps=stages_of(target, [edit], {}), moves=())
    answers: list[bool] = []

    def going() -> bool:
        answers.append(len(answers) < asked)
        return answers[-1]

    made = offers(target, "exact", [winner], np.random.default_rng(0), going)
    every = offers(target, "exact", [winner], np.random.default_rng(0))
    assert len(made) <= min(asked, len(every) - 1)
    # What is asked after the first no only leaves what has begun.
    assert answers.count(True) == asked


def test_edits_of_a_looser_version_are_not_carried_over() -> None:
    """What was taken for legal once may be refused now; the run that has it can be finished all the same."""
    edits = [{"op": "interchange", "function": "product", "loops": ["nowhere", "k"]}]
    assert stages_of(program(KERNEL, "product"), edits, {}) == []


def test_edits_of_models_are_not_carried_over() -> None:
    assert (
        stages_of(program(KERNEL, "product"), [{"op": "text", "search": "0.0f", "replace": "0.f"}], {}) == []
    )


@pytest.mark.integration
def test_offered_variants_differ_and_are_allowed() -> None:
    for numerics in ("exact", "reassociate"):
        made = made_of(OTHER, "other", numerics)
        digests = [structure_digest(m.program) for m in made]
        assert len(set(digests)) == len(digests) >= 8
        assert structure_digest(program(OTHER, "other")) not in digests
        sums = [e for m in made for e in m.variant.edits if e.get("reassociate") is True]
        assert bool(sums) == (numerics == "reassociate")


def test_variants_like_good_ones_are_promising() -> None:
    """Alike is what moves the same way; near kernels count more, other numbers not at all."""
    shape = (0.0, 0.0, 1.0)
    known = Tried(shape=shape, apart=0.1, variants=[((1.0, 0.0, 1.0), 1.0), ((0.0, 1.0, 1.0), -0.5)])
    values, sources = promises(shape, [(0.5, 0.0, 1.0), (0.0, 0.5, 1.0), (0.0, 0.0, 2.0)], [known])
    assert sources == [0, 0, 0]
    assert values[0] > 0.9
    assert values[1] < -0.4
    assert values[1] < values[2] < values[0]
    far = Tried(shape=shape, apart=2.0, variants=[((1.0, 0.0, 1.0), -1.0)])
    other = Tried(shape=(1.0,), apart=0.0, variants=[((2.0,), -1.0)])
    values, sources = promises(shape, [(0.5, 0.0, 1.0)], [other, far, known])
    assert values[0] > 0.8
    assert sources == [2]
    assert promises(shape, [(0.5, 0.0, 1.0)], [])[0] == pytest.approx([0.2])


def test_chosen_variants_differ_and_are_promising() -> None:
    shape = (0.0, 0.0)
    variants = [(1.0, 0.0), (1.0, 0.01), (0.0, 1.0), (0.5, -0.5)]
    assert chosen(shape, variants, [0.9, 0.8, 0.5, 0.0], 3) == [0, 2]
    assert chosen(shape, variants, [0.9, 0.8, 0.5, 0.0], 1) == [0]


def test_worth_is_a_part_of_the_gain() -> None:
    assert worth(-1.0, -2.0) == 0.5
    assert worth(None, -2.0) == 0.0
    assert worth(8.0, -2.0) == -1.0


@pytest.mark.integration
def test_a_kernel_never_seen_gets_what_won_elsewhere(helped: Outcome, tmp_path: Path) -> None:
    """Before anything else is bred; and a replay, which has no library, derives it again."""
    alone = tuned(tmp_path / "alone", None, evaluations=10)
    assert helped.summary.recalled is not None
    assert [s["kernel"] for s in helped.summary.recalled] == ["other"] * len(helped.summary.recalled)
    first = variants_of(helped)[1]
    assert first.origin == "library"
    assert "interchange" in [e["op"] for e in first.edits]
    assert evaluations_to(helped, 2.0) == 2 < evaluations_to(alone, 2.0)
    kinds = [kind for kind, _, _ in events(helped.path)]
    assert kinds.index("recall") < kinds.index("variant")
    assert audit(helped.path, backend=backend(of_variant=swaps_help)).differences == []


@pytest.mark.integration
def test_the_same_kernel_gets_its_own_winner(library: Path, tmp_path: Path) -> None:
    (entry,) = Library(library).entries()
    outcome = tuned(tmp_path, library, "other")
    first = variants_of(outcome)[1]
    assert tuple(first.edits) == tuple(dict(e) for e in entry.edits)
    with RunRecord.read(outcome.path) as record:
        state, _, _ = open_state(record)
    places = [state.trials[n].variant for n in state.finished]
    bred = next(i for i, v in enumerate(places) if state.variants[v].origin not in ("library", "original"))
    assert first.number in places[:bred], "it is tried before anything is bred"
    assert not first.aside
    assert len(first.trials) > 1


Step = tuple[str, str]


def steps_of(outcome: Outcome, *, advised: bool = False) -> list[Step]:
    """What was tried, in order: edits and configuration; of the run itself or of what earlier runs advised."""
    with RunRecord.read(outcome.path) as record:
        state, _, _ = open_state(record)
    return [
        (
            json.dumps(state.variant_of(n).edits, sort_keys=True),
            json.dumps(state.trials[n].proposal.configuration),
        )
        for n in state.finished
        if (state.variant_of(n).origin == "library") == advised
    ]


@pytest.mark.integration
def test_advice_in_vain_only_delays_the_run(library: Path, tmp_path: Path) -> None:
    """One trial first and then a tenth: all else is what the run tries alone, in that order."""
    alone = tuned(tmp_path / "alone", None, of_variant=swaps_hurt)
    misled = tuned(tmp_path / "misled", library, of_variant=swaps_hurt)
    own = [v for v in variants_of(misled) if v.origin == "library"]
    assert [len(v.trials) for v in own] == [1] * len(own)
    assert all(v.aside and not v.reached for v in own)
    in_vain = steps_of(misled, advised=True)
    assert 2 <= len(in_vain) <= 1 + 30 // 10
    delayed = [s for s in steps_of(misled) if s in steps_of(alone)]
    early = 20
    assert steps_of(misled)[:early] == steps_of(alone)[:early] == delayed[:early]
    with RunRecord.read(misled.path) as record:
        state, _, _ = open_state(record)
    evaluated = [n for n in state.finished if state.trials[n].status is not Status.DUPLICATE]
    at = [i for i, n in enumerate(evaluated) if state.variant_of(n).origin == "library"]
    assert at[0] == 1
    assert all(i >= 10 * number for number, i in enumerate(at))


def soon_beaten(variant: Variant, resolved: Resolved) -> float:
    """What is advised is clearly faster than the source as given, and most of what the run finds itself is faster."""
    return 0.8 if "interchange" in [e["op"] for e in variant.edits] else 0.5 if variant.edits else 1.0


@pytest.mark.integration
def test_advice_that_only_beats_the_source_as_given_delays_the_run(library: Path, tmp_path: Path) -> None:
    """It leads for a while, and neither goes on nor has a part in who does: on real kernels it took eleven trials."""
    alone = tuned(tmp_path / "alone", None, of_variant=soon_beaten)
    misled = tuned(tmp_path / "misled", library, of_variant=soon_beaten)
    own = [v for v in variants_of(misled) if v.origin == "library"]
    assert own[0].score is not None
    assert own[0].score < -0.1
    assert [len(v.trials) for v in own] == [1] * len(own)
    assert all(v.aside and not v.reached for v in own)
    assert len(own) <= 2 + 30 // 10
    # Then what goes on hangs on times that are nearly equal, and those on the number of the trial.
    early = 1 + Evolution().least
    assert steps_of(misled)[:early] == steps_of(alone)[:early]


@pytest.mark.integration
def test_advice_enters_after_own_trials(other_seed: Outcome) -> None:
    """Then it goes on like any other, and others are bred from it."""
    outcome = other_seed
    variants = variants_of(outcome)
    entered = [v for v in variants if v.origin == "library" and not v.aside]
    best = min(entered, key=lambda v: v.score or 0.0)
    assert best.rung >= 1
    assert any(best.number in v.parents and v.purpose == "propose" for v in variants)
    with RunRecord.read(outcome.path) as record:
        state, _, _ = open_state(record)
    second = best.finished[1]
    before = {state.trials[n].variant for n in state.finished[: state.finished.index(second)]}
    own = [n for n in before if state.variants[n].origin != "library"]
    assert len(own) >= OWN


@pytest.mark.integration
def test_advice_enters_where_nothing_else_can_be_made(library: Path, tmp_path: Path) -> None:
    """Nobody is waited for."""
    evolution = Evolution(barren=0)
    outcome = tuned(tmp_path, library, settings={"evolution": evolution})
    variants = variants_of(outcome)
    assert {v.origin for v in variants if v.purpose == "propose"} == {"original", "library"}
    assert any(v.origin == "library" and not v.aside and len(v.trials) > 1 for v in variants)


def far_ahead(variant: Variant, resolved: Resolved) -> float:
    """What is advised is far ahead of the first that a run finds itself, and is beaten by what comes after."""
    ops = [e["op"] for e in variant.edits]
    return 0.15 if ops == ["restrict"] else 0.2 if "interchange" in ops else 1.0


@pytest.mark.integration
def test_advice_that_is_far_ahead_changes_nothing_while_it_is_outside(library: Path, tmp_path: Path) -> None:
    """Once variants of the run's own were given up after one trial beside it."""
    alone = tuned(tmp_path / "alone", None, of_variant=far_ahead, seed=2)
    advised = tuned(tmp_path / "advised", library, of_variant=far_ahead, seed=2)
    with RunRecord.read(advised.path) as record:
        state, _, _ = open_state(record)
    own, leader = [], None
    for kind, trial, body in events(advised.path):
        if kind == "promote" and state.variants[body["variant"]].origin == "library":
            leader = state.variants[body["variant"]]
            break
        if kind == "trial" and state.variant_of(trial or 0).origin != "library":
            own.append(trial)
    assert leader is not None
    assert leader.score is not None
    assert leader.score < -1.1
    assert len(own) >= OWN
    assert steps_of(advised)[: len(own)] == steps_of(alone)[: len(own)]


def slightly(variant: Variant, resolved: Resolved) -> float:
    """With the configuration that comes with it, what is advised gains 3%, less than is worth a second trial."""
    ops = [e["op"] for e in variant.edits]
    return 0.5 if ops == ["restrict"] else 1.07 if "interchange" in ops else 1.0


@pytest.mark.integration
def test_a_small_gain_gets_one_trial_and_stays_outside(library: Path, tmp_path: Path) -> None:
    outcome = tuned(tmp_path, library, of_variant=slightly)
    first = next(v for v in variants_of(outcome) if v.origin == "library")
    assert first.score is not None
    assert -0.05 < first.score < 0.0
    assert first.aside
    assert len(first.trials) == 1


@pytest.mark.integration
def test_dropped_variants_are_not_promoted_again(library: Path, tmp_path: Path) -> None:
    """Once a run promoted a variant for ever that was over as soon as it was promoted."""

    def helps_a_little(variant: Variant, resolved: Resolved) -> float:
        ops = [e["op"] for e in variant.edits]
        return 0.5 if ops == ["restrict"] else 0.97 if "interchange" in ops else 1.0

    outcome = tuned(tmp_path, library, of_variant=helps_a_little)
    assert len([kind for kind, _, _ in events(outcome.path) if kind == "promote"]) < 40


@pytest.mark.integration
def test_advice_that_fails_is_not_tried_again(library: Path, tmp_path: Path) -> None:
    def fails(variant: Variant, resolved: Resolved) -> float | Status:
        return Status.WRONG_RESULT if any(e["op"] == "interchange" for e in variant.edits) else 1.0

    outcome = tuned(tmp_path, library, of_variant=fails)
    own = [v for v in variants_of(outcome) if v.origin == "library"]
    assert own
    assert all(len(v.trials) == 1 for v in own if v.score is None)


@pytest.mark.integration
def test_an_interrupted_run_goes_on_with_its_advice(helped: Outcome, library: Path, tmp_path: Path) -> None:
    """The library may be gone by then."""
    stop = InterruptAt("recall")
    options = Options(seed=5, evaluations=30, workers=2, library=library)
    quiet = backend(of_variant=swaps_help, process_noise=0.001, call_noise=0.001)
    path = tmp_path / "cut.run"
    begin(
        spec_of(tmp_path / "cut"),
        path,
        options,
        backend=quiet,
        observers=[stop],
        interruption=stop.interruption,
    )
    shutil.rmtree(library)
    outcome = resume(path, backend=quiet)
    assert [v.edits for v in variants_of(outcome)] == [v.edits for v in variants_of(helped)]


@pytest.mark.integration
def test_an_interruption_is_heeded_while_advice_is_made(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes when the library has been read."""
    interruption, entries = Interruption(), Library.entries

    def read(kept: Library) -> list[Entry]:
        interruption.set()
        return entries(kept)

    monkeypatch.setattr(Library, "entries", read)
    options = Options(seed=5, evaluations=30, workers=2, library=library)
    quiet = backend(of_variant=swaps_help, process_noise=0.001, call_noise=0.001)
    path = tmp_path / "cut.run"
    begin(spec_of(tmp_path / "cut"), path, options, backend=quiet, interruption=interruption)
    kinds = {kind: body for kind, _, body in events(path)}
    assert list(kinds)[-1] == "interrupt"
    assert "advice" not in kinds["recall"]
    assert resume(path, backend=quiet).summary.improved


def code_of(variant: Variant) -> dict[str, float]:
    """Code tells of what was done to the source: how often each operator was used."""
    ops = [e["op"] for e in variant.edits]
    return {"loads_count": 8.0} | {f"{op}_count": float(ops.count(op)) for op in OPERATORS}


def only_swaps_build(variant: Variant, resolved: Resolved) -> float | Status:
    ops = [e["op"] for e in variant.edits]
    return swaps_help(variant, resolved) if "tile" not in ops else Status.BUILD_ERROR


def with_code(
    folder: Path,
    library: Path,
    name: str = "a",
    evaluations: int = 8,
    minutes: float | None = None,
    clock: Callable[[], float] = time.monotonic,
    **more: Any,
) -> Outcome:
    """A run whose builds have features."""
    text, entry, names = (OTHER, "other", "xyzm") if name == "other" else (KERNEL, "product", "abcn")
    options = Options(seed=4, evaluations=evaluations, minutes=minutes, workers=2, library=library)
    quiet = backend(
        of_variant=only_swaps_build, process_noise=0.001, call_noise=0.001, features_of_source=code_of, **more
    )
    spec = spec_of(folder / name, text, entry, names)
    return begin(spec, folder / f"{name}.run", options, backend=quiet, clock=clock)


@pytest.fixture(scope="module")
def coded(tmp_path_factory: pytest.TempPathFactory) -> Entry:
    """What the library has of a run of another kernel, its code included."""
    folder = tmp_path_factory.mktemp("coded")
    assert with_code(folder, folder / "library", "other", evaluations=40).summary.improved
    (entry,) = Library(folder / "library").entries()
    return entry


def advised_ops(outcome: Outcome) -> list[list[str]]:
    (body,) = [body for kind, _, body in events(outcome.path) if kind == "recall"]
    return [[e["op"] for e in one["edits"]] for one in body.get("advice", [])]


@pytest.mark.integration
def test_advice_is_ordered_by_the_code_that_it_builds_to(coded: Entry, tmp_path: Path) -> None:
    """Code like that of good variants comes first, and what does not build is not advised."""
    swaps = coded.columns.index("interchange_count")
    assert {value > 0.5 for numbers, value in coded.codes if numbers[swaps] and value} == {True}
    assert Entry.from_json(json.loads(json.dumps(coded.to_json()))) == coded
    Library(tmp_path / "library").add(coded)
    helped = with_code(tmp_path, tmp_path / "library")
    assert "interchange" in advised_ops(helped)[0]
    assert all("tile" not in ops for ops in advised_ops(helped))
    again = backend(of_variant=only_swaps_build, features_of_source=code_of)
    assert audit(helped.path, backend=again).differences == []

    turned = replace(coded, codes=tuple((numbers, 1.0 - value) for numbers, value in coded.codes))
    Library(tmp_path / "turned").add(turned)
    misled = with_code(tmp_path / "misled", tmp_path / "turned")
    assert "interchange" not in advised_ops(misled)[0]


@pytest.mark.parametrize("telling", [True, False])
@pytest.mark.integration
def test_inspection_builds_are_no_trials(coded: Entry, tmp_path: Path, telling: bool) -> None:
    """It is neither timed nor counted, and there is none where earlier runs say nothing of code."""
    seen = list[str]()
    Library(tmp_path / "library").add(coded if telling else replace(coded, codes=(), columns=()))
    outcome = with_code(tmp_path, tmp_path / "library", on_event=seen.append)
    with RunRecord.read(outcome.path) as record:
        state, _, _ = open_state(record)
    looked = seen.count("build") - sum(t.build is not None for t in state.trials.values())
    assert advised_ops(outcome)
    assert looked > len(advised_ops(outcome)) if telling else looked == 0


@pytest.mark.integration
def test_no_more_is_built_to_be_looked_at_than_there_is_time_for(coded: Entry, tmp_path: Path) -> None:
    """Most of a short run is for trials: after the first builds the look is over."""
    Library(tmp_path / "library").add(coded)

    seen = list[str]()
    outcome = with_code(
        tmp_path,
        tmp_path / "library",
        minutes=0.2,
        clock=lambda: 0.05 * seen.count("build"),
        on_event=seen.append,
    )
    assert advised_ops(outcome)
    with RunRecord.read(outcome.path) as record:
        state, _, _ = open_state(record)
    assert seen.count("build") - sum(t.build is not None for t in state.trials.values()) == 8


@pytest.mark.integration
def test_entries_of_runs_that_tried_no_variants_advise_nothing(tmp_path: Path) -> None:
    entry = Entry(
        kernel="k",
        backend="simulated",
        language="c",
        device="d",
        features={},
        names=("WIDTH",),
        best=(({"WIDTH": 2}, -1.0),),
        edits=({"op": "restrict"},),
        speedup=2.0,
    )
    Library(tmp_path / "library").add(entry)
    outcome = tuned(tmp_path, tmp_path / "library")
    assert all(v.origin != "library" for v in variants_of(outcome))


@pytest.mark.parametrize("missing", ["op", "role", "sizes", "reassociate"])
def test_damaged_entries_are_as_good_as_absent(library: Path, missing: str) -> None:
    (path,) = library.glob("*.json")
    entry = json.loads(path.read_text())
    del entry["steps"][0][missing]
    path.write_text(json.dumps(entry))
    assert Library(library).entries() == []


def test_entries_keep_what_was_tried(library: Path) -> None:
    (entry,) = Library(library).entries()
    assert Entry.from_json(json.loads(json.dumps(entry.to_json()))) == entry
    assert abs(entry.chosen["WIDTH"] - 3) <= 1
    assert max(value for _, value in entry.variants) == pytest.approx(1.0, abs=0.1)
    assert {len(shape) for shape, _ in entry.variants} == {len(entry.shape)}
    assert [s["op"] for s in entry.steps] == [e["op"] for e in entry.edits]
    assert set(entry.paid) <= {*OPERATORS, *(f"{RECIPE}{name}" for name in RECIPES)}
    assert max(entry.paid.values()) > 0.5
    assert all(-1.0 <= value <= 1.0 for value in entry.paid.values())


def test_near_kernels_say_most_of_what_a_move_is_worth() -> None:
    near, far = {"recipe/tiled": 0.8, "unroll": 0.1}, {"recipe/tiled": -0.8, "hoist": 0.5}
    found = of_moves([(0.1, near), (1.5, far)])
    assert found["recipe/tiled"] > 0.6
    assert found["unroll"] == pytest.approx(0.1, abs=0.01)
    assert 0.2 < found["hoist"] < 0.4, "only a far kernel has tried it"
    assert of_moves([]) == {}


def expected_of(outcome: Outcome) -> dict[str, float]:
    """What the run was told of moves."""
    (body,) = [body for kind, _, body in events(outcome.path) if kind == "recall"]
    return dict(body.get("expected", {}))


@pytest.mark.integration
def test_moves_worth_elsewhere_is_known_with_advice(
    other_seed: Outcome, library: Path, tmp_path: Path
) -> None:
    """It changes what is bred then, and nothing while all advice is in vain."""
    (entry,) = Library(library).entries()
    plain = Path(shutil.copytree(library, tmp_path / "without"))
    (path,) = plain.glob("*.json")
    path.write_text(json.dumps({**json.loads(path.read_text()), "paid": {}}))
    told = other_seed
    untold = tuned(tmp_path / "untold", plain, seed=7, evaluations=40)
    assert set(expected_of(told)) == set(entry.paid) != set()
    assert not expected_of(untold)
    one, other = ([(v.origin, list(v.edits)) for v in variants_of(each)] for each in (told, untold))
    assert one != other
    assert audit(told.path, backend=backend(of_variant=swaps_help)).differences == []
