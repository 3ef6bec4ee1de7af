"""Several objectives: fronts, the searcher that looks for one, and runs that report one."""

from __future__ import annotations

import itertools
import json
import math
import operator

import numpy as np
import pytest

import tuner
from tuner.api import tune_spec
from tuner.cli.main import main
from tuner.core.errors import SpecError, UsageError
from tuner.core.protocols import Observation
from tuner.core.streams import stream
from tuner.core.types import Status
from tuner.driver.imports import import_file
from tuner.driver.options import Options
from tuner.driver.runs import begin
from tuner.evaluators.executors.threads import ThreadExecutor
from tuner.evaluators.recorded.backend import RecordedBackend
from tuner.evaluators.recorded.formats import read_space
from tuner.evaluators.recorded.spaces import RecordedSpace, Row, key_of
from tuner.search.registry import create
from tuner.search.scalarise import scalarised, weights
from tuner.spaces.parameters import Parameter
from tuner.spaces.space import Space
from tuner.spec.load import load_spec

CLOCKS, TILES = tuple(range(600, 1500, 50)), (1, 2, 4, 8, 16)


def time_ms(clock, tile):
    return 1e3 / clock * (1.0 + 0.2 * abs(math.log2(tile) - 2))


def energy_j(clock, tile):
    return time_ms(clock, tile) * (0.3 + (clock / 1000) ** 3)


def recorded(*, energies=True):
    rows = {
        key_of((clock, tile)): Row(
            status=Status.OK,
            times_s=tuple(1e-3 * time_ms(clock, tile) * (1 + 1e-4 * i) for i in range(8)),
            energy_j=energy_j(clock, tile) if energies else None,
        )
        for clock, tile in itertools.product(CLOCKS, TILES)
    }
    return RecordedSpace(
        kernel="clocked",
        device="A card",
        parameters={"CLOCK": CLOCKS, "TILE": TILES},
        rows=rows,
        restrictions=(),
    )


def spec_of(folder, objective, *, energies=True):
    data = folder / "clocked.json"
    data.write_text(recorded(energies=energies).to_text())
    spec = import_file(data, folder / "spec").spec
    spec.write_text(spec.read_text() + f"objective: {objective}\n")
    return spec


def true_front():
    pairs = list(itertools.product(CLOCKS, TILES))
    values = {p: (time_ms(*p), energy_j(*p)) for p in pairs}
    return {
        p
        for p in pairs
        if not any(o != values[p] and all(map(operator.le, o, values[p])) for o in values.values())
    }


def area(points):
    """Hypervolume below a corner that is worse than everything here."""
    total, floor = 0.0, 12.0
    for x, y in sorted(points):
        if y < floor:
            total += (4.0 - min(x, 4.0)) * (floor - y)
            floor = y
    return total


def test_energies_are_read_and_written():
    again = read_space(recorded().to_text())
    assert again.has_energy
    assert not read_space(recorded(energies=False).to_text()).has_energy
    cache = {
        "kernel_name": "k",
        "tune_params": {"x": [1, 2]},
        "cache": {
            "1": {"x": 1, "time": 2.0, "nvml_energy": 0.5},
            "2": {"x": 2, "time": 2.0, "ps_energy": "?"},
        },
    }
    rows = read_space(json.dumps(cache)).rows
    assert [row.energy_j for row in rows.values()] == [0.5, None]


@pytest.mark.integration
def test_over_several_devices_a_run_gives_the_front_as_well(tmp_path):
    (spec,) = load_spec(spec_of(tmp_path, "[time, energy]"))

    def many(task):
        return ThreadExecutor(lambda: RecordedBackend().prepare(task, workers=1), ["A card"] * 4, builders=1)

    given = Options(evaluations=len(CLOCKS) * len(TILES), seed=1, workers=1)
    result = begin(spec, tmp_path / "a.run", given, executor=many)
    found = {(p.configuration["CLOCK"], p.configuration["TILE"]) for p in result.summary.pareto}
    assert found == true_front()
    report = tuner.replay(result.path)
    assert report.clean, report.differences


@pytest.mark.integration
def test_a_run_gives_the_front_and_its_claim_stays_about_time(tmp_path, capsys):
    spec = spec_of(tmp_path, "[time, energy]")
    result = tuner.tune(spec, evaluations=45, seed=1, workers=1, out=tmp_path / "runs")
    found = result.to_json()["pareto"]
    configurations = {(p["configuration"]["CLOCK"], p["configuration"]["TILE"]) for p in found}
    assert configurations <= true_front()
    assert len(configurations) >= 0.6 * len(true_front())
    assert [p["values"]["time_s"] for p in found] == sorted(p["values"]["time_s"] for p in found)
    assert [p["values"]["energy_j"] for p in found] == sorted(p["values"]["energy_j"] for p in found)[::-1]
    assert result.improved
    assert result.configuration["CLOCK"] == max(CLOCKS)
    assert found[0]["trial"] == result.to_json()["best"]["trial"]
    assert tuner.replay(result.path).clean
    with pytest.raises(SystemExit):
        main(["show", str(result.path)])
    shown = capsys.readouterr().out
    assert f"front      {len(found)} trials" in shown
    assert " J  (trial " in shown


@pytest.mark.integration
def test_two_objectives_search_the_front_better_than_time_alone_and_than_chance():
    space = Space([Parameter.choice("CLOCK", list(CLOCKS)), Parameter.choice("TILE", list(TILES))])

    def covered(strategy, both, seed):
        searcher, points = create(strategy, space), []
        for trial in range(30):
            (proposal,) = searcher.ask(1, stream(seed, "ask", trial))
            x, y = time_ms(**_named(proposal)), energy_j(**_named(proposal))
            points.append((x, y))
            searcher.tell(
                [
                    Observation(
                        trial=trial,
                        proposal=proposal,
                        status=Status.OK,
                        score=math.log(x),
                        others=(y,) if both else (),
                    )
                ]
            )
        return area(points)

    both = np.mean([covered("surrogate", True, seed) for seed in range(3)])
    alone = np.mean([covered("surrogate", False, seed) for seed in range(3)])
    chance = np.mean([covered("random", True, seed) for seed in range(3)])
    assert both > alone
    assert both > chance


def _named(proposal):
    return {"clock": proposal.configuration["CLOCK"], "tile": proposal.configuration["TILE"]}


@pytest.mark.integration
def test_time_and_size_on_the_host(tmp_path):
    (tmp_path / "sum.c").write_text(
        "void sum(const float *a, float *out, int n) {\n"
        "  float s = 0;\n"
        "#pragma clang loop unroll_count(UNROLL)\n"
        "  for (int i = 0; i < n; i++) s += a[i] * a[i];\n"
        "  out[0] = s;\n"
        "}\n"
    )
    spec = tmp_path / "sum.yaml"
    spec.write_text(
        "kernel: {source: sum.c, entry: sum}\n"
        "problem: {n: 4096}\n"
        "arguments:\n"
        "  - {name: a, dtype: float32, shape: [n], init: normal}\n"
        "  - {name: out, dtype: float32, shape: [1], role: output}\n"
        "  - {name: n, dtype: int32, value: n}\n"
        "space:\n"
        "  parameters: {UNROLL: [1, 2, 4, 8, 16, 32]}\n"
        "  flags: {level: ['', '-ffast-math']}\n"
        "  passes: off\n"
        "objective: [time, size]\n"
    )
    (loaded,) = load_spec(spec)
    few = {"choose_processes": 2, "confirm_processes": 4}
    result = tune_spec(loaded, Options(evaluations=12, workers=1, settings=few), out=tmp_path / "runs")
    found = result.to_json()["pareto"]
    worked = [t for t in result.rows if t["status"] == "ok"]
    assert not any(t["raced"] for t in worked)
    assert (
        min(p["values"]["size_bytes"] for p in found) < max(p["values"]["size_bytes"] for p in found)
        or len(found) == 1
    )
    assert tuner.replay(result.path).clean


@pytest.mark.parametrize(
    ("objective", "options", "error", "words"),
    [
        ("[energy, time]", {}, SpecError, "objective is"),
        ("[time, time]", {}, SpecError, "objective is"),
        ("[time, power]", {}, SpecError, "objective is"),
        ("energy", {}, SpecError, "objective is"),
        ("[time, size]", {}, UsageError, "cannot say the size"),
        ("[time, energy]", {"strategy": "random"}, UsageError, "knows one objective"),
    ],
)
def test_impossible_objectives_are_one_message(tmp_path, objective, options, error, words):
    spec = spec_of(tmp_path, objective)
    with pytest.raises(error, match=words) as caught:
        tuner.tune(spec, evaluations=5, workers=1, out=tmp_path / "runs", **options)
    assert caught.value.hint
    assert not list((tmp_path / "runs").glob("*.run")) if (tmp_path / "runs").exists() else True


def test_variants_of_the_source_are_searched_for_time_alone(tmp_path):
    (tmp_path / "f.c").write_text("void f(float *a, int n) { for (int i = 0; i < n; i++) a[i] *= 2; }\n")
    spec = tmp_path / "f.yaml"
    spec.write_text(
        "kernel: {source: f.c, entry: f}\nproblem: {n: 64}\narguments:\n"
        "  - {name: a, dtype: float32, shape: [n], role: inout}\n"
        "  - {name: n, dtype: int32, value: n}\n"
        "space: {source: {evolve: true}}\nobjective: [time, size]\n"
    )
    with pytest.raises(SpecError, match="for time alone"):
        load_spec(spec)


def test_energies_that_are_missing_are_refused(tmp_path):
    spec = spec_of(tmp_path, "[time, energy]", energies=False)
    with pytest.raises(UsageError, match="cannot say the energy"):
        tuner.tune(spec, evaluations=5, workers=1, out=tmp_path / "runs")


def test_one_objective_in_a_list_is_time(tmp_path):
    (loaded,) = load_spec(spec_of(tmp_path, "[time]"))
    assert loaded.objectives == ("time",)
    assert "pareto" not in tuner.tune(loaded.path, evaluations=5, workers=1, out=tmp_path / "r").to_json()


def test_weights_cover_the_simplex_and_missing_values_count_as_worst():
    drawn = {weights(stream(0, "w", i), 3) for i in range(200)}
    assert len(drawn) > 30
    assert all(sum(w) == pytest.approx(1.0) and min(w) >= 0 for w in drawn)
    assert scalarised([(1.0, 2.0), (1.0,), (3.0, 1.0)], (0.5, 0.5)).argmax() == 1
    assert scalarised([(3.0, 9.0), (1.0, 1.0)], (1.0,)).tolist() == [3.0, 1.0]
