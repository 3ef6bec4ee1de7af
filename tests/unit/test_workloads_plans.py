from __future__ import annotations

import itertools

import numpy as np
import pytest

from tuner.core.errors import SpecError, UsageError
from tuner.core.expressions import parse
from tuner.core.streams import stream
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
from tuner.evaluators.workloads import (
    Plan,
    check_problem,
    hidden_sizes,
    make_planned,
    plan_workloads,
    timed_sets,
)

SRC = Argument(name="src", dtype="float32", shape=(parse("ny"), parse("nx")))
DST = Argument(name="dst", dtype="float32", shape=(parse("ny"), parse("nx")), role=ArgumentRole.OUTPUT)


def stencil(
    problems: tuple[dict[str, int], ...] = ({"nx": 512, "ny": 256},),
    small: tuple[dict[str, int], ...] = ({"nx": 67, "ny": 129},),
    assume: tuple[str, ...] = ("nx >= 3", "ny >= 3"),
    arguments: tuple[Argument, ...] = (SRC, DST),
    nonfinite: str = "excluded",
) -> Task:
    variant = Variant(files=(Source(name="k.c", text=""),))
    return Task(
        kernel=Kernel(name="k", entry="k", language="c", variant=variant, folder="."),
        backend="host",
        target="native",
        arguments=arguments,
        problems=tuple(Problem(sizes=p) for p in problems),
        verify=VerifyPolicy(
            problems=tuple(Problem(sizes=p) for p in small),
            assume=tuple(parse(a) for a in assume),
            nonfinite=nonfinite,
        ),
        measure=MeasurePolicy(),
        seed=11,
    )


def search_plan(task: Task) -> tuple[Plan, ...]:
    return plan_workloads(task, {}, purpose="search", number=0)


def test_the_search_verifies_main_small_and_hidden_sizes() -> None:
    task = stencil(problems=({"nx": 512, "ny": 256}, {"nx": 300, "ny": 300}))
    plans = search_plan(task)
    assert [p.timed_problem for p in plans if p.timed_problem is not None] == [0, 1]
    assert all(p.distribution == "given" for p in plans if p.timed_problem is not None)
    small = [p.distribution for p in plans if p.problem == task.verify.problems[0]]
    assert small == ["given", "scaled", "shifted", "lowered", "structured", "extreme"]
    hidden = [p for p in plans if p.hidden]
    assert len(hidden) == 2
    assert all(p.distribution == "given" for p in hidden)
    assert len({p.seed for p in plans}) == len(plans)
    assert len({p.name for p in plans}) == len(plans)
    assert [p.as_specified for p in plans] == [p.distribution == "given" and not p.hidden for p in plans]


def test_nonfinite_inputs_are_tried_only_where_the_policy_says_so() -> None:
    assert "nonfinite" not in {p.distribution for p in search_plan(stencil())}
    assert "nonfinite" in {p.distribution for p in search_plan(stencil(nonfinite="propagate"))}


def test_without_small_sizes_the_distributions_run_on_hidden_ones_or_the_main_problem() -> None:
    on_hidden = [p for p in search_plan(stencil(small=())) if p.distribution == "extreme"]
    assert on_hidden
    assert all(p.hidden for p in on_hidden)
    on_main = [p for p in search_plan(stencil(small=(), assume=())) if p.distribution == "extreme"]
    assert [p.timed_problem for p in on_main] == [0]


def test_nothing_is_hidden_without_assumptions() -> None:
    assert not any(p.hidden for p in search_plan(stencil(assume=())))


def test_the_plan_of_the_search_is_the_same_for_every_process_and_that_of_confirming_is_not() -> None:
    task = stencil()
    assert search_plan(task) == plan_workloads(task, {}, purpose="search", number=7)
    confirm = [plan_workloads(task, {}, purpose="confirm", number=n) for n in range(5)]
    assert confirm[2] == plan_workloads(task, {}, purpose="confirm", number=2)
    seeds = [{p.seed for p in plans} for plans in [search_plan(task), *confirm]]
    assert all(a.isdisjoint(b) for a, b in itertools.combinations(seeds, 2))
    hidden = {tuple(p.problem.sizes.items()) for plans in confirm for p in plans if p.hidden}
    assert len(hidden) > 5


def test_confirming_processes_take_the_distributions_by_turns() -> None:
    task = stencil()
    plans = [plan_workloads(task, {}, purpose="confirm", number=n) for n in range(5)]
    assert all(len(p) == 5 for p in plans)
    others = {p.distribution for five in plans for p in five} - {"given"}
    assert others == {"scaled", "shifted", "lowered", "structured", "extreme"}


def test_timed_sets_share_no_seed_with_anything() -> None:
    task = stencil(problems=({"nx": 64, "ny": 64}, {"nx": 32, "ny": 32}))
    sets = [
        timed_sets(task, problem, {}, purpose=purpose, number=number, count=3)
        for problem in (0, 1)
        for purpose, number in (("search", 0), ("confirm", 0), ("confirm", 1))
    ]
    seeds = [p.seed for group in sets for p in group] + [p.seed for p in search_plan(task)]
    assert len(set(seeds)) == len(seeds)
    assert all(p.distribution == "given" for group in sets for p in group)
    a, b = (make_planned(task, plan, {}).arrays["src"] for plan in sets[0][:2])
    assert not np.array_equal(a, b)


def test_integer_kernels_try_only_what_changes_something() -> None:
    data = Argument(
        name="d",
        dtype="uint8",
        shape=(parse("nx"),),
        initial=Initial(kind="randint", options={"low": 0, "high": 9}),
    )
    plans = search_plan(stencil(arguments=(data, DST)))
    assert {p.distribution for p in plans} == {"given", "structured", "extreme"}


@pytest.mark.parametrize(
    "assume",
    [
        ("nx >= 3", "ny >= 3"),
        ("nx % 16 == 0", "ny >= 1"),
        ("nx == ny",),
        ("nx % 64 == 0", "ny % 64 == 0"),
        ("nx == 2 * ny", "nx >= 3"),
    ],
)
def test_hidden_sizes_satisfy_the_assumptions_and_stay_small(assume: tuple[str, ...]) -> None:
    task = stencil(assume=assume)
    problems = hidden_sizes(task, stream(1, "test"), 2)
    assert len(problems) == 2
    for problem in problems:
        assert all(parse(a).evaluate(problem.sizes) for a in assume)
        assert problem.sizes["nx"] <= 512
        assert problem.sizes["ny"] <= 256
        assert check_problem(task, problem, {}) <= check_problem(task, task.problems[0], {})
        assert problem.sizes not in [p.sizes for p in (*task.problems, *task.verify.problems)]


def test_hidden_sizes_keep_what_no_assumption_names() -> None:
    for problem in hidden_sizes(stencil(assume=("nx >= 3",)), stream(1, "test"), 2):
        assert problem.sizes["ny"] == 256
        assert problem.sizes["nx"] % 2 == 1


def test_assumptions_that_nothing_meets_give_no_hidden_size() -> None:
    assert hidden_sizes(stencil(assume=("nx >= 1000",)), stream(1, "test"), 2) == ()


def test_hidden_sizes_of_a_sparse_matrix_can_be_made() -> None:
    options = {"rows": parse("nx"), "columns": parse("nx"), "nonzeros": parse("ny"), "part": "row_pointers"}
    pointers = Argument(
        name="p", dtype="int32", shape=(parse("nx + 1"),), initial=Initial(kind="csr", options=options)
    )
    task = stencil(arguments=(pointers, DST), assume=("nx >= 1", "ny >= 1"), small=())
    for plan in search_plan(task):
        assert make_planned(task, plan, {}).arrays["p"][-1] == plan.problem.sizes["ny"]


def test_an_impossible_size_and_unknown_names_are_refused() -> None:
    with pytest.raises(SpecError, match="shape"):
        search_plan(stencil(small=({"nx": 0, "ny": 3},)))
    with pytest.raises(UsageError, match="purpose"):
        plan_workloads(stencil(), {}, purpose="fun", number=0)
    with pytest.raises(UsageError, match="no problem 3"):
        timed_sets(stencil(), 3, {}, purpose="search", number=0, count=1)
