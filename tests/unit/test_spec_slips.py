"""What a spec's author gets wrong outside of the models is refused before anything is built, with its place."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tuner.core.errors import SpecError
from tuner.driver.check import check_spec
from tuner.spec.load import load_spec

KERNEL = "void k(const float *x, float *y, int n) { for (int i = 0; i < n; i += 1) y[i] = x[i] * WIDTH; }\n"

Load = Callable[..., None]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Loads a spec with keys of its input and further sections."""

    def loaded(argument: str = "", *, kernel: str = "", more: str = "") -> None:
        (tmp_path / "k.c").write_text(KERNEL)
        path = tmp_path / "k.yaml"
        path.write_text(
            f"kernel: {{source: k.c, entry: k{kernel}}}\n"
            "problem: {n: 64}\n"
            "arguments:\n"
            f"  - {{name: x, dtype: float32, shape: [n]{argument}}}\n"
            "  - {name: y, dtype: float32, shape: [n], role: output}\n"
            "  - {name: n, dtype: int32, value: n}\n" + (more or "space: {parameters: {WIDTH: [1, 2]}}\n")
        )
        load_spec(path)

    return loaded


@pytest.mark.parametrize(
    ("argument", "why"),
    [
        (", init: {normal: [0, -1]}", r"k.yaml:4:\d+: the deviation of normal is -1 with n = 64; at least 0"),
        (", init: {file: k.c}", r"k.yaml:4:\d+: argument 'x': k.c is no .npy and no .bin file"),
        (", init: {file: junk.npy}", r"k.yaml:4:\d+: argument 'x': junk.npy is no array of numbers"),
        (", init: {file: long.npy}", r"k.yaml:4:\d+: argument 'x' has shape \[64\], long.npy \[65\]"),
        (", init: {file: wide.npy}", r"k.yaml:4:\d+: argument 'x' is float32, wide.npy holds float64"),
        (", init: {file: short.bin}", r"k.yaml:4:\d+: argument 'x' takes 256 bytes, short.bin has 4"),
        (", init: {python: broken.py:made}", r"'broken.py' is not Python: broken.py:2: "),
        (", constant: true", r"k.yaml:4:43: argument 'x' is constant, which the host backend does not have"),
    ],
)
def test_an_argument_that_cannot_be(load: Load, tmp_path: Path, argument: str, why: str) -> None:
    (tmp_path / "junk.npy").write_text("junk")
    (tmp_path / "short.bin").write_text("four")
    (tmp_path / "broken.py").write_text("\ndef made(:\n")
    np.save(tmp_path / "long.npy", np.ones(65, np.float32))
    np.save(tmp_path / "wide.npy", np.ones(64))
    with pytest.raises(SpecError, match=why):
        load(argument)


@pytest.mark.parametrize("name", ["values.npy", "values.bin"])
def test_a_file_that_fits_is_taken(load: Load, tmp_path: Path, name: str) -> None:
    values = np.ones(64, np.float32)
    np.save(tmp_path / "values.npy", values)
    values.tofile(tmp_path / "values.bin")
    load(f", init: {{file: {name}}}")


@pytest.mark.parametrize("folder", ["nowhere", "k.c"])
def test_a_folder_of_headers_that_is_none(load: Load, folder: str) -> None:
    with pytest.raises(SpecError, match=rf"k.yaml:1:43: there is no folder '{folder}'"):
        load(kernel=f", include: [{folder}]")


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ("measure: {bytes: 8 * m}", r"k.yaml:7:18: unknown name 'm' in '8 \* m'; known names: n"),
        (
            "measure: {operations: -5}",
            r"k.yaml:7:23: measure.operations is -5 with n = 64; it must be over 0",
        ),
        ("verify: {reference: recording}", r"k.yaml:7:10: verify.reference is recording, and there is none"),
        (
            "space: {parameters: {WIDTH: {low: 0, high: 1000000000000}}}",
            r"k.yaml:7:29: parameter 'WIDTH' has 1,000,000,000,001 values, .* are the most; give a step",
        ),
        ("backend: recorded", r"k.yaml:7:10: the recorded backend takes recorded spaces, not c"),
    ],
)
def test_a_section_that_cannot_be(load: Load, more: str, why: str) -> None:
    with pytest.raises(SpecError, match=why):
        load(more=more + "\n")


def test_a_file_that_is_no_recorded_space_is_named(tmp_path: Path) -> None:
    (tmp_path / "k.json").write_text("no JSON")
    path = tmp_path / "k.yaml"
    path.write_text(
        "kernel: {source: k.json, entry: k, language: recorded}\nspace: {parameters: {A: [1, 2]}, passes: off}\n"
    )
    (spec,) = load_spec(path)
    with pytest.raises(SpecError, match=r"k.yaml:1:18: the file is not JSON"):
        spec.space(None)


def test_a_flag_that_only_the_compiler_knows_to_be_wrong_has_its_place(load: Load, tmp_path: Path) -> None:
    load(more='space:\n  parameters: {WIDTH: [1]}\n  flags: {m: ["", "-march=znver99"]}\n')
    (spec,) = load_spec(tmp_path / "k.yaml")
    with pytest.raises(SpecError, match=r"k.yaml:9:19: clang does not take the flags -march=znver99"):
        check_spec(spec, faults=False)
