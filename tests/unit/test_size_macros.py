"""Macros that a build may set to sizes: sizes of the problem in a first spec, and by name in a spec's flags."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tuner.core.errors import SpecError
from tuner.spec.first.init import init_spec
from tuner.spec.load import load_spec

SIZES = """
#ifndef NI
#define NI 120
#endif
#ifndef NJ
#define NJ (NI + 8)
#endif
#ifndef LEN
#define LEN 30
#endif
#ifndef TILE
#define TILE 4
#endif
#ifndef STEPS
#define STEPS 3
#endif
double grid[NI][NJ];
void k(const double *restrict flat, double edge[LEN + 2], double weights[NI * LEN])
{
    for (int t = 0; t < STEPS; t++)
        for (int i = 0; i < NI; i++) {
            for (int j = 0; j < NJ; j++) grid[i][j] += flat[i * NJ + j] / TILE;
            for (int j = 0; j < LEN; j++) weights[i * LEN + j] += edge[j] + edge[j + 2];
        }
}
"""


@cache
def written() -> str:
    with TemporaryDirectory() as folder:
        path = Path(folder, "k.c")
        path.write_text(SIZES)
        return init_spec(path)


def first(folder: Path) -> str:
    (folder / "k.c").write_text(SIZES)
    (folder / "k.yaml").write_text(written())
    return written()


def shapes(folder: Path, text: str | None = None) -> dict[str, list[str]]:
    if text is not None:
        (folder / "k.yaml").write_text(text)
    (spec,) = load_spec(folder / "k.yaml")
    return {a.name: [e.text for e in a.shape] for a in spec.task.arguments if a.shape}


def test_macros_that_shapes_follow_from_are_the_problem(tmp_path: Path) -> None:
    text = first(tmp_path)
    assert "problem: {NI: 120, LEN: 30}" in text
    assert '"-DNI={NI} -DLEN={LEN}"' in text
    # What changes no shape is no size: the number of steps, and a tile, which is tuned.
    assert "STEPS" not in text.replace("# parameters", "")
    assert "TILE: [4, 2, 8, 16]" in text
    assert shapes(tmp_path) == {
        "flat": ["NI", "NI + 8"],
        "edge": ["LEN + 2"],
        "weights": ["NI * LEN"],
        "grid": ["120", "128"],
    }


def test_another_size_is_one_number(tmp_path: Path) -> None:
    text = first(tmp_path).replace("NI: 120", "NI: 50")
    assert shapes(tmp_path, text)["grid"] == ["50", "58"]
    (spec,) = load_spec(tmp_path / "k.yaml")
    assert spec.tunables.flags["macros"] == ("-DNI=50 -DLEN=30",)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("verify:", "verify:\n  problems: [{NI: 37}]"), "the size NI has other values"),
        (("verify:", 'verify:\n  assume: ["NI >= 3"]'), "the size NI has other values"),
        (
            ("problem: {NI: 120, LEN: 30}", "problems: [{NI: 120, LEN: 30}, {NI: 60, LEN: 30}]"),
            "the size NI has other",
        ),
    ],
)
def test_one_build_has_one_size(tmp_path: Path, change: tuple[str, str], message: str) -> None:
    text = first(tmp_path).replace(*change)
    with pytest.raises(SpecError, match=message):
        shapes(tmp_path, text)


def test_braces_that_name_no_size_are_as_they_are_written(tmp_path: Path) -> None:
    text = first(tmp_path).replace("-DLEN={LEN}", "-DLEN={LEN} -DINIT={1,2}")
    shapes(tmp_path, text)
    (spec,) = load_spec(tmp_path / "k.yaml")
    assert spec.tunables.flags["macros"] == ("-DNI=120 -DLEN=30 -DINIT={1,2}",)


def test_sizes_that_follow_in_another_way_stay_numbers(tmp_path: Path) -> None:
    (tmp_path / "k.c").write_text(
        "#ifndef N\n#define N 210\n#endif\nvoid k(double a[N / 7]) { for (int i = 0; i < N / 7; i++) a[i] *= 2; }\n"
    )
    text = init_spec(tmp_path / "k.c")
    assert "shape: [30]" in text
    assert "problem" not in text


def test_sizes_of_a_header_are_sizes_too(tmp_path: Path) -> None:
    (tmp_path / "sizes.h").write_text(
        "#ifndef N\n#define N 90\n#endif\n#ifndef OTHER\n#define OTHER 7\n#endif\n"
    )
    (tmp_path / "k.c").write_text(
        '#include "sizes.h"\n#define ROW (N + 1)\nvoid k(double a[ROW]) { for (int i = 0; i < ROW; i++) a[i] *= 2; }\n'
    )
    text = init_spec(tmp_path / "k.c")
    assert "problem: {N: 90}" in text
    assert "shape: [N + 1]" in text
    assert "OTHER" not in text


def test_what_decides_shapes_in_another_way_is_not_tuned(tmp_path: Path) -> None:
    (tmp_path / "k.c").write_text(
        "#ifndef LOGN\n#define LOGN 10\n#endif\n#define N (1 << LOGN)\n"
        "void k(double a[N]) { for (int i = 0; i < N; i++) a[i] *= 2; }\n"
    )
    text = init_spec(tmp_path / "k.c")
    assert "shape: [1024]" in text
    assert "LOGN: [" not in text
    assert 'macros: ["-DLOGN=10"]' in text
