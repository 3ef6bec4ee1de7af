from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tuner.core.errors import SpecError, UsageError
from tuner.core.expressions import parse
from tuner.core.types import (
    Argument,
    ArgumentRole,
    Initial,
    Kernel,
    MeasurePolicy,
    Problem,
    Source,
    Task,
    Variant,
    VerifyPolicy,
)
from tuner.evaluators.workloads import DISTRIBUTIONS, NONFINITE, Workload, make_workload


def array(name: str, dtype: str, shape: list[str], kind: str = "normal", **options: Any) -> Argument:
    role, fixed = options.pop("role", ArgumentRole.INPUT), options.pop("fixed", False)
    return Argument(
        name=name,
        dtype=dtype,
        shape=tuple(parse(s) for s in shape),
        role=role,
        fixed=fixed,
        initial=Initial(kind=kind, options=options),
    )


def scalar(name: str, dtype: str, value: str) -> Argument:
    return Argument(name=name, dtype=dtype, value=parse(value))


def task(*arguments: Argument, sizes: dict[str, int] | None = None, folder: str = ".") -> Task:
    variant = Variant(files=(Source(name="k.c", text=""),))
    return Task(
        kernel=Kernel(name="k", entry="k", language="c", variant=variant, folder=folder),
        backend="host",
        target="native",
        arguments=arguments,
        problems=(Problem(sizes=sizes or {"n": 100}),),
        verify=VerifyPolicy(),
        measure=MeasurePolicy(),
    )


def made(the_task: Task, seed: int = 1, distribution: str = "given", **scalars: int) -> Workload:
    return make_workload(the_task, the_task.problems[0], scalars, seed=seed, distribution=distribution)


def one(argument: Argument, seed: int = 1, distribution: str = "given") -> np.ndarray[Any, Any]:
    return made(task(argument), seed, distribution).arrays[argument.name]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("kind", ["uniform", "normal"])
@pytest.mark.parametrize("distribution", [*DISTRIBUTIONS, NONFINITE])
def test_floating_values_have_the_type_and_shape_asked_for(dtype: str, kind: str, distribution: str) -> None:
    values = one(array("a", dtype, ["n", "n // 4"], kind), distribution=distribution)
    assert values.dtype == dtype
    assert values.shape == (100, 25)
    assert values.flags.c_contiguous
    assert values.flags.writeable
    assert np.isfinite(values).all() == (distribution != NONFINITE)


def test_equal_seeds_give_equal_values_and_other_seeds_or_names_others() -> None:
    a = one(array("a", "float32", ["n"]))
    assert np.array_equal(a, one(array("a", "float32", ["n"])))
    assert not np.array_equal(a, one(array("a", "float32", ["n"]), seed=2))
    assert not np.array_equal(a, one(array("b", "float32", ["n"])))


def test_options_are_honoured() -> None:
    uniform = one(array("a", "float32", ["n"], "uniform", low=2, high=parse("n / 25")))
    assert uniform.min() >= 2
    assert 3.5 < uniform.max() <= 4
    normal = one(array("a", "float64", ["n * n"], "normal", mean=10, deviation=0.5))
    assert abs(normal.mean() - 10) < 0.05
    assert abs(normal.std() - 0.5) < 0.05
    integers = one(array("a", "uint8", ["n * n"], "randint", low=3, high=256))
    assert integers.min() == 3
    assert integers.max() == 255
    assert (one(array("a", "int16", ["n"], "constant", value=-7)) == -7).all()
    assert (one(array("a", "bool", ["n"], "randint", low=0, high=2)).sum()) in range(20, 80)
    assert not one(array("a", "float32", ["n"], "zeros")).any()


def test_fixed_keeps_values_over_seeds_and_distributions() -> None:
    argument = array("a", "float32", ["n"], fixed=True)
    assert np.array_equal(one(argument, 1), one(argument, 2, "extreme"))


def test_outputs_and_scratch_are_zero_and_inout_has_values() -> None:
    workload = made(
        task(
            array("out", "float32", ["n"], role=ArgumentRole.OUTPUT),
            array("tmp", "int32", ["n"], role=ArgumentRole.SCRATCH),
            array("acc", "float32", ["n"], role=ArgumentRole.INOUT),
        )
    )
    assert not workload.arrays["out"].any()
    assert not workload.arrays["tmp"].any()
    assert workload.arrays["acc"].all()


def test_scalars_are_rounded_to_their_type_and_know_run_time_names() -> None:
    workload = made(
        task(scalar("n", "int32", "n"), scalar("x", "float32", "1 / 3"), scalar("b", "int64", "n * BLOCK")),
        BLOCK=8,
    )
    assert workload.scalars == {"n": 100, "x": float(np.float32(1 / 3)), "b": 800}
    assert all(type(v) in (int, float) for v in workload.scalars.values())


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_integers_and_permutations_stay_legal_in_every_distribution(distribution: str) -> None:
    for seed in range(6):
        drawn = one(array("a", "int32", ["n"], "randint", low=-3, high=4), seed, distribution)
        assert drawn.min() >= -3
        assert drawn.max() < 4
        order = one(array("p", "int32", ["n"], "permutation"), seed, distribution)
        assert np.array_equal(np.sort(order), np.arange(100))


def test_distributions_move_the_values_as_named() -> None:
    argument = array("a", "float32", ["n", "n"], "uniform", low=-1, high=1)
    given = one(argument)
    assert np.array_equal(one(argument, distribution="scaled"), given * np.float32(10))
    assert np.array_equal(one(argument, distribution="shifted"), given + np.float32(5))
    assert np.array_equal(one(argument, distribution="lowered"), given - np.float32(5))
    extreme = one(argument, distribution="extreme")
    assert 500 < np.abs(extreme).max() <= 1000
    assert (np.abs(extreme) < 1).any()
    assert np.array_equal(np.signbit(extreme), np.signbit(given))
    special = one(argument, distribution=NONFINITE)
    assert np.isnan(special).sum() == 1
    assert np.isposinf(special).sum() == np.isneginf(special).sum() == 1


def test_structured_inputs_vary_in_structure() -> None:
    argument = array("a", "float32", ["n", "n"], "uniform", low=-1, high=1)
    seen = set()
    for seed in range(40):
        values = one(argument, seed, "structured")
        flat = values.reshape(-1)
        if np.array_equal(values, np.eye(100)):
            seen.add("identity")
        elif np.array_equal(values, np.diag(np.diag(values))):
            seen.add("diagonal")
        elif (flat == flat[0]).all():
            seen.add("constant")
        elif (np.diff(flat) >= 0).all():
            seen.add("sorted")
        elif np.isin(flat, [0, 1]).all():
            seen.add("zeros and ones")
    assert len(seen) == 5


def test_scaled_values_never_overflow() -> None:
    wide = array("a", "float16", ["n"], "uniform", low=30000, high=60000)
    assert np.isfinite(one(wide, distribution="scaled")).all()


def csr(part: str, shape: str, **more: Any) -> Argument:
    name = f"{part}{more.get('matrix', '')}"
    options = {"rows": parse("r"), "columns": parse("c"), "nonzeros": parse("z"), "part": part, **more}
    return array(name, "int32", [shape], "csr", **options)


@settings(deadline=None, max_examples=150)
@given(
    r=st.integers(1, 40),
    c=st.integers(1, 40),
    full=st.floats(0, 1),
    skew=st.one_of(st.just(0.0), st.floats(0, 10)),
    distribution=st.sampled_from(["given", "structured"]),
    seed=st.integers(0, 2**32),
)
@example(r=7, c=5, full=1.0, skew=1.5, distribution="given", seed=3)
@example(r=7, c=5, full=34 / 35, skew=0.0, distribution="structured", seed=3)
@example(r=1, c=99, full=0.6, skew=1.5, distribution="given", seed=3)
@example(r=90, c=1, full=0.5, skew=1.5, distribution="given", seed=3)
@example(r=9, c=4, full=0.0, skew=0.0, distribution="given", seed=3)
def test_csr_parts_agree_and_hold_the_nonzeros_exactly(
    r: int, c: int, full: float, skew: float, distribution: str, seed: int
) -> None:
    z = round(full * r * c)
    arguments = [csr("row_pointers", "r + 1", skew=skew)]
    arguments += [csr("columns", "z", skew=skew)] if z else []
    workload = made(task(*arguments, sizes={"r": r, "c": c, "z": z}), seed, distribution)
    pointers = workload.arrays["row_pointers"]
    assert pointers[0] == 0
    assert pointers[-1] == z
    assert (np.diff(pointers) >= 0).all()
    for row in range(r if z else 0):
        columns = workload.arrays["columns"][pointers[row] : pointers[row + 1]]
        assert (np.diff(columns) > 0).all()
        assert columns.size == 0 or (columns[0] >= 0 and columns[-1] < c)


def test_csr_columns_of_a_row_are_drawn_evenly() -> None:
    arguments = csr("row_pointers", "r + 1"), csr("columns", "z")
    counts = np.zeros(10, np.int64)
    for seed in range(400):
        drawn = made(task(*arguments, sizes={"r": 6, "c": 10, "z": 30}), seed).arrays["columns"]
        counts += np.bincount(drawn, minlength=10)
    assert counts.sum() == 12000
    assert abs(counts - 1200).max() < 150


def test_csr_skew_makes_long_rows_and_two_matrices_differ() -> None:
    sizes = {"r": 400, "c": 400, "z": 4000}
    even = made(task(csr("row_pointers", "r + 1"), sizes=sizes)).arrays["row_pointers"]
    skewed = made(task(csr("row_pointers", "r + 1", skew=1.0), sizes=sizes)).arrays["row_pointers"]
    assert np.diff(skewed).max() > 4 * np.diff(even).max()
    two = made(
        task(csr("row_pointers", "r + 1"), csr("row_pointers", "r + 1", matrix="B"), sizes=sizes)
    ).arrays
    assert not np.array_equal(two["row_pointers"], two["row_pointersB"])


def test_parts_of_one_matrix_that_disagree_are_refused() -> None:
    sizes = {"r": 20, "c": 20, "z": 100}
    with pytest.raises(SpecError, match="disagree"):
        made(task(csr("row_pointers", "r + 1", skew=1), csr("columns", "z"), sizes=sizes))


def test_a_fixed_part_fixes_the_whole_matrix() -> None:
    sizes = {"r": 20, "c": 20, "z": 100}
    the_task = task(csr("row_pointers", "r + 1", fixed=True), csr("columns", "z"), sizes=sizes)
    a, b = made(the_task, 1), made(the_task, 2, "structured")
    assert np.array_equal(a.arrays["columns"], b.arrays["columns"])
    assert np.array_equal(a.arrays["row_pointers"], b.arrays["row_pointers"])


def test_files_are_read_beside_the_kernel(tmp_path: Path) -> None:
    values = np.arange(100, dtype=np.float32)
    np.save(tmp_path / "a.npy", values)
    values.tofile(tmp_path / "a.bin")
    for name in ("a.npy", "a.bin"):
        the_task = task(array("a", "float32", ["n"], "file", path=name), folder=str(tmp_path))
        result = made(the_task, distribution="extreme").arrays["a"]
        assert np.array_equal(result, values)
        assert type(result) is np.ndarray


def test_a_python_initialiser_is_called_with_sizes_and_seed(tmp_path: Path) -> None:
    (tmp_path / "make.py").write_text(
        "import numpy as np\ndef ramp(n, seed):\n    return np.arange(n) + seed % 7 * 1000\n"
    )
    argument = array("a", "int64", ["n"], "python", file="make.py", function="ramp")
    the_task = task(argument, folder=str(tmp_path))
    first, second = made(the_task, 1).arrays["a"], made(the_task, 5).arrays["a"]
    assert first.dtype == np.int64
    assert first.tolist() == list(range(int(first[0]), int(first[0]) + 100))
    assert first[0] % 1000 == second[0] % 1000 == 0


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        (array("a", "float31", ["n"]), "unknown dtype"),
        (array("a", "int32", ["n"]), "randint"),
        (array("a", "float32", ["n"], "gauss"), "unknown init"),
        (array("a", "float32", ["n"], "uniform", lo=1), "no option 'lo'"),
        (array("a", "int32", ["n"], "randint", low=1), "needs 'high'"),
        (array("a", "int32", ["n"], "randint", low=5, high=5), "empty"),
        (array("a", "uint8", ["n"], "randint", low=0, high=257), "does not fit"),
        (array("a", "float32", ["n"], "uniform", low=2, high=1), "empty"),
        (array("a", "int8", ["2 * n"], "permutation"), "cannot hold"),
        (array("a", "uint8", ["n"], "constant", value=-1), "does not fit"),
        (array("a", "float32", ["n - 100"]), "shape"),
        (array("a", "float32", ["n ** 9", "n"]), "too large"),
        (array("a", "float32", ["n"], "file", path="gone.npy"), "gone.npy cannot be read"),
        (array("a", "float32", ["n"], "file", path="gone.txt"), "no .npy and no .bin"),
        (array("a", "float32", ["n"], "python", file="gone.py", function="f"), "missing"),
        (scalar("a", "int8", "n * 2"), "does not fit"),
        (scalar("a", "int32", "n / 3"), "whole number"),
        (array("a", "int32", ["9"], "csr", rows=3, columns=3, nonzeros=10, part="columns"), "nonzeros"),
        (array("a", "int32", ["9"], "csr", rows=3, columns=3, nonzeros=8, part="columns"), "elements"),
        (array("a", "int32", ["8"], "csr", rows=3, columns=3, nonzeros=8, part="rows"), "row_pointers"),
        (array("a", "float32", ["8"], "csr", rows=3, columns=3, nonzeros=8, part="columns"), "cannot hold"),
    ],
)
def test_impossible_workloads_are_one_message(argument: Argument, message: str) -> None:
    with pytest.raises(SpecError, match=message) as caught:
        made(task(argument))
    assert "'a'" in str(caught.value) or "gone" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_of_another_size_or_type_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros(99, np.float32))
    np.save(tmp_path / "b.npy", np.zeros(100, np.float64))
    np.save(tmp_path / "c.npy", np.array([None]), allow_pickle=True)
    (tmp_path / "d.bin").write_bytes(b"123")
    for name in ("a.npy", "b.npy", "c.npy", "d.bin"):
        the_task = task(array("a", "float32", ["n"], "file", path=name), folder=str(tmp_path))
        with pytest.raises(SpecError):
            made(the_task)


def test_an_unknown_distribution_is_refused() -> None:
    with pytest.raises(UsageError, match="unknown distribution"):
        one(array("a", "float32", ["n"]), distribution="weird")
