"""Recorded spaces: formats, the backend through the real driver, import and export."""

from __future__ import annotations

import gzip
import json
import math
import sqlite3

import pytest

import tuner
from tuner.cli.main import main
from tuner.core.errors import SpecError, TunerError, UsageError
from tuner.core.types import Status
from tuner.driver.imports import import_file, t4_of_run
from tuner.evaluators.recorded.backend import RecordedBackend
from tuner.evaluators.recorded.formats import read_file, read_space
from tuner.evaluators.recorded.spaces import RecordedSpace, Row, key_of
from tuner.spec.load import load_spec

BLOCKS, TILES = (16, 32, 48, 64, 128), (1, 2, 3, 4)


def time_ms(block, tile, unrolled):
    return 1.0 + 0.2 * abs(math.log2(block / 64)) + 0.1 * abs(tile - 3) + (0.05 if unrolled else 0.0)


def recorded(restrictions=("BLOCK * TILE <= 256",)):
    rows = {}
    for block in BLOCKS:
        for tile in TILES:
            for unrolled in (False, True):
                if block * tile > 256:
                    continue
                status = Status.OK
                if block == 128 and tile == 2:
                    status = Status.CRASHED if unrolled else Status.BUILD_ERROR
                base = 1e-3 * time_ms(block, tile, unrolled)
                times = tuple(base * (1 + 0.001 * i) for i in range(8)) if status is Status.OK else ()
                key = key_of((block, tile, unrolled))
                rows[key] = Row(status=status, times_s=times, compile_s=0.5, run_s=0.01)
    parameters = {"BLOCK": BLOCKS, "TILE": TILES, "UNROLLED": (False, True)}
    return RecordedSpace(
        kernel="conv", device="A card", parameters=parameters, rows=rows, restrictions=restrictions
    )


@pytest.fixture
def spec(tmp_path):
    data = tmp_path / "conv.json.gz"
    data.write_bytes(gzip.compress(recorded().to_text().encode()))
    return import_file(data, tmp_path / "out").spec


def run(spec, out, **options):
    return tuner.tune(spec, evaluations=30, seed=3, strategy="surrogate", workers=1, out=out, **options)


def test_the_common_format_reads_back_as_it_was_written():
    space = recorded()
    again = read_space(space.to_text())
    assert again.rows.keys() == space.rows.keys()
    assert again.parameters == space.parameters
    assert again.restrictions == space.restrictions
    for key, row in space.rows.items():
        assert again.rows[key].status == row.status
        assert again.rows[key].times_s == pytest.approx(row.times_s, rel=1e-6)
        assert again.rows[key].compile_s == pytest.approx(row.compile_s)


@pytest.mark.integration
def test_a_run_finds_the_optimum_and_is_the_same_each_time(spec, tmp_path):
    first, second = run(spec, tmp_path / "one"), run(spec, tmp_path / "two")
    assert first.improved
    chosen = first.configuration
    assert (chosen["BLOCK"], chosen["TILE"], chosen["UNROLLED"]) == (64, 3, False)
    clocks = ("clock_s", "verify_s")
    one, other = (
        [{k: v for k, v in row.items() if k not in clocks} for row in r.rows] for r in (first, second)
    )
    assert one == other
    assert (first.speedup, first.speedup_interval) == (second.speedup, second.speedup_interval)
    assert first.speedup == pytest.approx(time_ms(16, 1, False) / time_ms(64, 3, False), rel=0.01)
    assert tuner.replay(first.path).clean


def test_failures_stand_in_the_record_with_what_they_cost(spec, tmp_path):
    result = tuner.tune(spec, evaluations=60, strategy="exhaustive", workers=1, out=tmp_path / "all")
    by_status = {t["status"] for t in result.rows}
    assert by_status == {"ok", "crashed", "build_error"}
    with sqlite3.connect(result.path) as record:
        text = "".join(str(row) for row in record.iterdump())
    assert "recorded_compile" in text
    assert "virtual_s" in text


@pytest.mark.integration
def test_of_a_partly_recorded_space_only_what_was_recorded_is_searched(tmp_path):
    space = recorded(restrictions=None)
    data = tmp_path / "conv.json"
    data.write_text(space.to_text())
    done = import_file(data, tmp_path / "out")
    assert "only these are searched" in done.notes[0]
    (loaded,) = load_spec(done.spec)
    searched = loaded.space(None)
    assert searched.count() == len(space.rows) < searched.product_size
    for configuration, _ in space.configurations():
        assert searched.is_valid(configuration)
        assert all(space.row(near) for near in searched.neighbours(configuration))
    assert "not among" in searched.explain({"BLOCK": 128, "TILE": 4, "UNROLLED": False})
    for strategy in ("exhaustive", "surrogate", "random"):
        result = tuner.tune(done.spec, evaluations=60, strategy=strategy, workers=1, out=tmp_path / strategy)
        assert len(result.rows) == len(space.rows)
        assert not [t for t in result.rows if t["status"] == "refused"]
        assert tuner.replay(result.path).clean


def test_restrictions_written_into_a_spec_hold_beside_what_was_recorded(tmp_path):
    data = tmp_path / "conv.json"
    data.write_text(recorded(restrictions=None).to_text())
    spec = import_file(data, tmp_path / "out").spec
    text = spec.read_text()
    assert "constraints: []" in text
    spec.write_text(text.replace("constraints: []", "constraints: ['TILE <= 2']"))
    (loaded,) = load_spec(spec)
    assert {loaded.space(None).listing().configuration(i)["TILE"] for i in range(20)} == {1, 2}
    assert loaded.space(None).count() == 20
    spec.write_text(text.replace("constraints: []", "constraints: ['BLOCK * TILE > 300']"))
    (loaded,) = load_spec(spec)
    with pytest.raises(SpecError, match="the space is empty"):
        loaded.space(None)


def test_a_spec_with_other_parameters_than_the_data_is_an_error(spec):
    spec.write_text(spec.read_text().replace("UNROLLED", "UNROLL"))
    (loaded,) = load_spec(spec)
    with pytest.raises(SpecError, match="UNROLL"):
        tuner.tune(loaded.path, evaluations=5, out=spec.parent / "runs")


def test_no_flag_can_be_honoured():
    with pytest.raises(SpecError, match="-O3"):
        RecordedBackend().check_flags(["-O3"])


def test_a_kernel_tuner_cache_is_read_also_while_it_is_written():
    cache = {
        "device_name": "A card",
        "kernel_name": "vector_add",
        "tune_params": {"x": [1, 2, 4]},
        "cache": {
            "1": {"x": 1, "time": 2.0, "times": [2.0, 2.1], "compile_time": 500.0},
            "2": {"x": 2, "time": "CompilationFailedConfig", "compile_time": 100.0},
            "4": {"x": 4, "time": "RuntimeFailedConfig"},
        },
    }
    text = json.dumps(cache)
    for form in (text, text[:-2] + ","):
        space = read_space(form)
        assert space.kernel == "vector_add"
        assert space.rows[("1",)].times_s == pytest.approx((0.002, 0.0021))
        assert space.rows[("1",)].compile_s == 0.5
        assert [r.status for r in space.rows.values()] == [Status.OK, Status.BUILD_ERROR, Status.CRASHED]


def test_a_run_goes_out_as_t4_and_comes_back(spec, tmp_path, capsys):
    target = tmp_path / "run.t4.json"
    arguments = ["tune", str(spec), "--evaluations", "30", "--strategy", "surrogate", "--workers", "1"]
    with pytest.raises(SystemExit) as ended:
        main([*arguments, "--out", str(tmp_path / "runs"), "--t4", str(target), "--json"])
    assert ended.value.code == 0
    path = json.loads(capsys.readouterr().out)["run"]
    written = json.loads(target.read_text())
    assert written == t4_of_run(tmp_path / "runs" / path.split("/")[-1])
    for result in written["results"]:
        assert {"configuration", "times", "invalidity", "correctness"} <= result.keys()
        assert result["invalidity"] in (
            "correct",
            "compile",
            "runtime",
            "timeout",
            "correctness",
            "constraints",
        )
    space = read_file(target)
    original = recorded()
    for configuration, row in space.configurations():
        known = original.row(configuration)
        assert known is not None
        assert known.status == row.status
        if row.times_s:
            assert (
                min(known.times_s) * 0.999
                <= min(row.times_s)
                <= max(row.times_s)
                <= max(known.times_s) * 1.001
            )


def test_a_run_record_becomes_a_recorded_space(spec, tmp_path):
    result = run(spec, tmp_path / "runs")
    done = import_file(result.path, tmp_path / "again")
    space = read_file(done.files[1])
    assert len(space.rows) == 30
    assert space.device == "A card"
    best = min((r for r in space.rows.values() if r.times_s), key=lambda r: min(r.times_s))
    assert best.times_s[0] == pytest.approx(1e-3 * time_ms(64, 3, False), rel=0.01)


def test_a_warm_start_is_in_the_record_and_replays(spec, tmp_path):
    source = run(spec, tmp_path / "source")
    warm = tuner.tune(
        spec, evaluations=8, strategy="surrogate", workers=1, out=tmp_path / "warm", warm_start=[source.path]
    )
    first = warm.rows[1]["configuration"]
    assert (first["BLOCK"], first["TILE"], first["UNROLLED"]) == (64, 3, False)
    assert tuner.replay(warm.path).clean
    with pytest.raises(UsageError, match="cannot be warm started"):
        tuner.tune(
            spec, evaluations=8, strategy="random", workers=1, out=tmp_path / "x", warm_start=[source.path]
        )


@pytest.mark.integration
def test_a_warm_start_is_one_run_or_what_is_found(spec, tmp_path):
    """``auto`` was taken apart into letters."""
    source = run(spec, tmp_path / "runs")
    for given in ("auto", source.path, str(source.path)):
        warm = tuner.tune(
            spec, evaluations=2, strategy="surrogate", workers=1, out=tmp_path / "runs", warm_start=given
        )
        first = warm.rows[1]["configuration"]
        assert (first["BLOCK"], first["TILE"], first["UNROLLED"]) == (64, 3, False)
    with pytest.raises(UsageError, match="workers is 0"):
        tuner.tune(spec, evaluations=2, workers=0, out=tmp_path / "x")


@pytest.mark.integration
def test_earlier_runs_of_the_kernel_are_found_and_others_are_not(spec, tmp_path, capsys):
    folder = tmp_path / "runs"
    first = run(spec, folder)
    second = run(spec, folder)
    tuner.tune(spec, evaluations=2, strategy="surrogate", workers=1, out=folder)
    other = tmp_path / "other" / "other.yaml"
    other.parent.mkdir()
    (other.parent / "conv.space.json").write_text(recorded().to_text().replace("BLOCK", "BLOX"))
    other.write_text(spec.read_text().replace("BLOCK", "BLOX").replace("conv_card", "conv"))
    source = next(p for p in spec.parent.iterdir() if p.suffix == ".json")
    (other.parent / source.name).write_text(recorded().to_text().replace("BLOCK", "BLOX"))
    stranger = tuner.tune(other, evaluations=20, strategy="surrogate", workers=1, out=folder)
    (folder / "damaged-1.run").write_bytes(b"no record")
    capsys.readouterr()
    arguments = ["tune", str(spec), "--evaluations", "6", "--workers", "1", "--warm-start", "auto", "--out"]
    with pytest.raises(SystemExit) as ended:
        main([*arguments, str(folder)])
    assert ended.value.code == 0
    said = capsys.readouterr().err
    assert "warm start from" in said
    for earlier, found in ((first, True), (second, True), (stranger, False)):
        assert (earlier.path.name in said) is found
    assert "damaged" not in said
    with pytest.raises(SystemExit):
        main([*arguments, str(tmp_path / "empty")])
    assert "no earlier run" in capsys.readouterr().err


@pytest.mark.parametrize(
    "text", ["{", "[]", "{}", '{"format": "kernel-space-1", "params": {}}', '{"results": [1]}']
)
def test_a_file_of_no_known_format_is_one_message(tmp_path, text):
    data = tmp_path / "odd.json"
    data.write_text(text)
    with pytest.raises(TunerError) as caught:
        import_file(data, tmp_path)
    assert caught.value.hint


def test_nothing_is_overwritten(spec, tmp_path):
    with pytest.raises(UsageError, match="exists already"):
        import_file(tmp_path / "conv.json.gz", spec.parent)
