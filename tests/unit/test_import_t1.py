"""T1 descriptions and the Python expressions in them."""

from __future__ import annotations

import json

import pytest
import yaml

from tuner.core.errors import SpecError
from tuner.core.expressions import parse
from tuner.driver.imports import import_file


def t1(**changes):
    kernel = {
        "Language": "CUDA",
        "CompilerOptions": ["-std=c++11"],
        "KernelName": "blur",
        "KernelFile": "blur.cu",
        "LocalSize": {"X": "bx", "Y": "by"},
        "GridDivX": ["bx", "tile"],
        "GridDivY": ["by"],
        "ProblemSize": [4096, 2048],
        "SharedMemory": "4 * bx * by",
        "Arguments": [
            {
                "Name": "out",
                "Type": "float",
                "MemoryType": "Vector",
                "AccessType": "WriteOnly",
                "FillType": "Constant",
                "Size": "ProblemSize[0]*ProblemSize[1]",
            },
            {
                "Name": "in",
                "Type": "float",
                "MemoryType": "Vector",
                "AccessType": "ReadOnly",
                "FillType": "Random",
                "Size": "(ProblemSize[0]+max(tile))*ProblemSize[1]",
            },
            {"Name": "n", "Type": "int32", "MemoryType": "Scalar", "FillValue": 7},
        ],
    }
    parameters = [
        {"Name": "bx", "Type": "int", "Values": "[2**i for i in range(4, 8)]", "Default": 32},
        {"Name": "by", "Type": "int", "Values": "[1, 2] + list(range(4, 9, 4))", "Default": 1},
        {"Name": "tile", "Type": "int", "Values": "[1, 2, 3]", "Default": [2]},
    ]
    conditions = [{"Expression": "32 <= bx * by <= 512", "Parameters": ["bx", "by"]}]
    return {
        "General": {"BenchmarkName": "blur"},
        "ConfigurationSpace": {"TuningParameters": parameters, "Conditions": conditions},
        "KernelSpecification": kernel | changes,
    }


def imported(folder, description):
    source = folder / "blur.json"
    source.write_text(json.dumps(description))
    done = import_file(source, folder)
    return yaml.safe_load(done.spec.read_text()), done.notes


def test_a_spec_in_another_folder_finds_the_kernel(tmp_path):
    source = tmp_path / "from" / "blur.json"
    source.parent.mkdir()
    source.write_text(json.dumps(t1()))
    done = import_file(source, tmp_path / "to")
    assert "source: ../from/blur.cu" in done.spec.read_text()


def test_a_description_becomes_a_spec(tmp_path):
    spec, _ = imported(tmp_path, t1())
    assert spec["kernel"] == {"source": "blur.cu", "entry": "blur", "language": "cuda"}
    assert spec["problem"] == {"size_x": 4096, "size_y": 2048}
    assert spec["space"]["parameters"]["bx"] == {"values": [16, 32, 64, 128], "default": 32}
    assert spec["space"]["parameters"]["by"]["values"] == [1, 2, 4, 8]
    assert spec["space"]["parameters"]["tile"]["default"] == 2
    env = {"bx": 64, "by": 8, "tile": 3, "size_x": 4096, "size_y": 2048}
    assert parse(spec["space"]["constraints"][0]).evaluate(env)
    assert [parse(g).integer(env) for g in spec["launch"]["grid"]] == [22, 256]
    assert parse(spec["launch"]["shared_bytes"]).integer(env) == 2048
    out, given, scalar = spec["arguments"]
    assert out["role"] == "output"
    assert parse(given["shape"][0]).integer(env) == (4096 + 3) * 2048
    assert scalar == {"name": "n", "dtype": "int32", "value": 7}


def test_inexpressible_parts_are_noted(tmp_path):
    constant = {"Name": "filter", "Type": "float", "MemType": "Constant", "Size": "9"}
    _, notes = imported(tmp_path, t1(Arguments=[constant]))
    assert any("filter" in note for note in notes)


@pytest.mark.parametrize(
    ("change", "word"),
    [({"Language": "Fortran"}, "Fortran"), ({"Arguments": [{"Name": "a", "Type": "quad"}]}, "quad")],
)
def test_unknown_keys_are_refused_by_name(change, word, tmp_path):
    with pytest.raises(SpecError, match=word):
        imported(tmp_path, t1(**change))


def with_values(text):
    description = t1()
    parameters = description["ConfigurationSpace"]["TuningParameters"]
    parameters.append({"Name": "more", "Type": "int", "Values": text})
    return description


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("[1, 2, 4]", [1, 2, 4]),
        ("list(range(1, 4))", [1, 2, 3]),
        ("[x * 8 for x in range(1, 5) if x % 2 == 0]", [16, 32]),
        ("['a', 'b']", ["a", "b"]),
        ("[-1] + [0.5]", [-1, 0.5]),
    ],
)
def test_lists_are_read(text, values, tmp_path):
    spec, _ = imported(tmp_path, with_values(text))
    assert spec["space"]["parameters"]["more"]["values"] == values


@pytest.mark.parametrize(
    "text",
    ["__import__('os')", "[open('x')]", "[2**10000]", "range(10**9)", "[[1]]", "[1] * 10**9", "x", "["],
)
def test_lists_that_are_programs_are_refused(text, tmp_path):
    with pytest.raises(SpecError, match="cannot be read"):
        imported(tmp_path, with_values(text))


def with_condition(text):
    description = t1()
    description["ConfigurationSpace"]["Conditions"] = [{"Expression": text, "Parameters": ["bx"]}]
    return description


@pytest.mark.parametrize(
    ("text", "env", "holds"),
    [
        ("bx in [1, 2]", {"bx": 2}, True),
        ("bx not in (1, 2)", {"bx": 2}, False),
        ("math.ceil(bx / 2) == 2", {"bx": 3}, True),
        ("4 % ((bx * bx) / 2) == 0", {"bx": 2}, True),
    ],
)
def test_restrictions_are_translated(text, env, holds, tmp_path):
    spec, _ = imported(tmp_path, with_condition(text))
    (constraint,) = spec["space"]["constraints"]
    assert bool(parse(constraint).evaluate(env)) is holds


@pytest.mark.parametrize(
    "text", ["len(bx) > 2", "bx if by else tile", "lambda p: p['bx'] > 1", "bx.by > 1", "bx >"]
)
def test_restrictions_without_a_counterpart_are_refused_by_name(text, tmp_path):
    with pytest.raises(SpecError) as caught:
        imported(tmp_path, with_condition(text))
    assert repr(text) in caught.value.message
