"""T1 descriptions and the Python expressions in them."""

from __future__ import annotations

import json

import pytest

from tuner.core.errors import SpecError
from tuner.core.expressions import parse
from tuner.driver.imports import import_file
from tuner.spec.foreign import list_of_values, restriction
from tuner.spec.imports import import_t1


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


def test_a_spec_in_another_folder_finds_the_kernel(tmp_path):
    source = tmp_path / "from" / "blur.json"
    source.parent.mkdir()
    source.write_text(json.dumps(t1()))
    done = import_file(source, tmp_path / "to")
    assert "source: ../from/blur.cu" in done.spec.read_text()


def test_a_description_becomes_a_spec(tmp_path):
    import yaml

    source = tmp_path / "blur.T1.json"
    source.write_text(json.dumps(t1()))
    done = import_file(source, tmp_path)
    spec = yaml.safe_load(done.spec.read_text())
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


def test_inexpressible_parts_are_noted():
    constant = {"Name": "filter", "Type": "float", "MemType": "Constant", "Size": "9"}
    imported = import_t1(t1(Arguments=[constant]))
    assert any("filter" in note for note in imported.notes)


@pytest.mark.parametrize(
    ("change", "word"),
    [({"Language": "Fortran"}, "Fortran"), ({"Arguments": [{"Name": "a", "Type": "quad"}]}, "quad")],
)
def test_unknown_keys_are_refused_by_name(change, word):
    with pytest.raises(SpecError, match=word):
        import_t1(t1(**change))


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
def test_lists_are_read(text, values):
    assert list_of_values(text) == values


@pytest.mark.parametrize(
    "text",
    ["__import__('os')", "[open('x')]", "[2**10000]", "range(10**9)", "[[1]]", "[1] * 10**9", "x", "["],
)
def test_lists_that_are_programs_are_refused(text):
    with pytest.raises(SpecError, match="cannot be read"):
        list_of_values(text)


@pytest.mark.parametrize(
    ("text", "env", "holds"),
    [
        ("a in [1, 2]", {"a": 2}, True),
        ("a not in (1, 2)", {"a": 2}, False),
        ("math.ceil(a / 2) == 2", {"a": 3}, True),
        ("4 % ((a * a) / 2) == 0", {"a": 2}, True),
    ],
)
def test_restrictions_are_translated(text, env, holds):
    assert bool(parse(restriction(text)).evaluate(env)) is holds


@pytest.mark.parametrize("text", ["len(a) > 2", "a if b else c", "lambda p: p['a'] > 1", "a.b > 1", "a >"])
def test_restrictions_without_a_counterpart_are_refused_by_name(text):
    with pytest.raises(SpecError) as caught:
        restriction(text)
    assert repr(text) in caught.value.message
