from __future__ import annotations

import os
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest

from tuner.core.errors import BaselineError, SpecError
from tuner.core.expressions import parse
from tuner.core.types import (
    Argument,
    ArgumentRole,
    Kernel,
    MeasurePolicy,
    Problem,
    Reference,
    Source,
    Task,
    Variant,
    VerifyPolicy,
)
from tuner.evaluators.python_reference import call_initialiser, run_reference
from tuner.evaluators.workloads import Workload, make_workload

GOOD = """
import numpy as np

def scale(x, factor, n):
    print("noise on stdout")
    assert x.dtype == np.float64 and isinstance(factor, float) and isinstance(n, int)
    x *= factor
    return {"y": x}
"""


def task(folder: Path, text: str, function: str = "scale", returns: str | None = None) -> Task:
    (folder / "ref.py").write_text(textwrap.dedent(text))
    shape = (parse("n"),)
    return Task(
        kernel=Kernel(
            name="k",
            entry="k",
            language="c",
            variant=Variant(files=(Source(name="k.c", text=""),)),
            folder=str(folder),
            returns=returns,
        ),
        backend="host",
        target="native",
        arguments=(
            Argument(name="x", dtype="float32", shape=shape),
            Argument(name="y", dtype="float32", shape=shape, role=ArgumentRole.OUTPUT),
            Argument(name="tmp", dtype="int32", shape=shape, role=ArgumentRole.SCRATCH),
            Argument(name="factor", dtype="float32", value=parse("0.5")),
        ),
        problems=(Problem(sizes={"n": 8}), Problem(sizes={"n": 5})),
        verify=VerifyPolicy(reference=Reference(kind="python", file="ref.py", function=function)),
        measure=MeasurePolicy(),
    )


def workloads(the_task: Task) -> list[Workload]:
    return [make_workload(the_task, p, {}, seed=i) for i, p in enumerate(the_task.problems)]


def test_one_process_answers_for_several_workloads_in_double_precision(tmp_path: Path) -> None:
    the_task = task(tmp_path, GOOD)
    inputs = workloads(the_task)
    answers = run_reference(the_task, inputs)
    for workload, answer in zip(inputs, answers, strict=True):
        assert answer["y"].dtype == np.float64
        assert np.array_equal(answer["y"], workload.arrays["x"].astype(np.float64) * 0.5)
    assert list(tmp_path.iterdir()) == [tmp_path / "ref.py"]


def test_keywords_get_inputs_and_scalars_but_no_outputs(tmp_path: Path) -> None:
    text = """
        def scale(*, y, **rest):
            assert sorted(rest) == ["factor", "x"], sorted(rest)
            return {"y": y + 1}
    """
    the_task = task(tmp_path, text)
    assert run_reference(the_task, workloads(the_task))[0]["y"].tolist() == [1.0] * 8


def test_modules_beside_the_file_can_be_imported_and_do_not_replace_our_own(tmp_path: Path) -> None:
    (tmp_path / "helper.py").write_text("half = 0.5")
    (tmp_path / "json.py").write_text("raise RuntimeError('shadowed')")
    text = "import helper\ndef scale(x):\n    return {'y': x * helper.half}\n"
    the_task = task(tmp_path, text)
    assert run_reference(the_task, workloads(the_task))[0]["y"].shape == (8,)


def test_a_returned_value_and_integers_keep_their_kind(tmp_path: Path) -> None:
    text = "def scale(x):\n    return {'y': x, 'return': 2**60 + 1}\n"
    the_task = task(tmp_path, text, returns="int64")
    answer = run_reference(the_task, workloads(the_task))[0]
    assert int(answer["return"]) == 2**60 + 1
    assert answer["return"].shape == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def scale(x):\n    return {'z': x}\n", "returns 'z', no output of the kernel"),
        ("def scale(x):\n    return {}\n", "does not return 'y'"),
        ("def scale(x):\n    return {'y': x[1:]}\n", r"shape \[7\]; the kernel's has \[8\]"),
        ("def scale(x):\n    return x\n", r"ref.py:1: scale returned ndarray; return a dict"),
        ("def scale(x):\n    return {'y': 1j * x}\n", "complex numbers"),
        ("def scale(x):\n    return {'y': ['a'] * 8}\n", "no array of numbers"),
        ("def scale(x):\n    return {'y': [object()] * 8}\n", "no array of numbers"),
        ("def scale(q):\n    pass\n", "asks for 'q', which there is not; there are x, y, tmp, n, factor"),
        ("def other(x):\n    pass\n", "no function 'scale'; it has other"),
        ("def scale(x):\n    y = x\n    return 1 / 0\n", "ref.py:3: ZeroDivisionError: division by zero"),
        ("def scale(x)\n    pass\n", "ref.py:1: SyntaxError"),
        ("import no_such_module\n", "ref.py:1: ModuleNotFoundError"),
        ("def scale(x):\n    raise SystemExit(0)\n", "ref.py:2: SystemExit"),
        ("def scale(x):\n    raise ValueError('a\\nb')\n", "ref.py:2: ValueError: a$"),
    ],
)
def test_a_mistake_in_the_file_is_one_message_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    the_task = task(tmp_path, text)
    with pytest.raises(SpecError, match=message) as caught:
        run_reference(the_task, workloads(the_task))
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    the_task = task(tmp_path, GOOD)
    inputs = workloads(the_task)
    (tmp_path / "ref.py").unlink()
    with pytest.raises(SpecError, match=r"ref\.py is missing"):
        run_reference(the_task, inputs)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("import os\ndef scale(x):\n    os._exit(0)\n", "without a result"),
        ("import os\ndef scale(x):\n    os.abort()\n", "SIGABRT"),
    ],
)
def test_a_process_that_dies_is_told(tmp_path: Path, text: str, message: str) -> None:
    the_task = task(tmp_path, text)
    with pytest.raises(BaselineError, match=message):
        run_reference(the_task, workloads(the_task))


def test_memory_is_limited(tmp_path: Path) -> None:
    the_task = task(tmp_path, "import numpy as np\ndef scale(x):\n    return {'y': np.ones(1 << 28)[:8]}\n")
    with pytest.raises(SpecError, match="out of memory"):
        run_reference(the_task, workloads(the_task), memory_bytes=1 << 30)


@pytest.mark.integration
def test_a_function_that_never_ends_is_ended_with_what_it_started(tmp_path: Path) -> None:
    text = f"""
        import subprocess, time
        def scale(x):
            child = subprocess.Popen(["sleep", "600"])
            open({str(tmp_path / "pid")!r}, "w").write(str(child.pid))
            time.sleep(600)
    """
    the_task = task(tmp_path, text)
    # On a busy machine it may be ended before its function has begun.
    for limit_s in (3, 30):
        with pytest.raises(BaselineError, match=f"longer than {limit_s} s"):
            run_reference(the_task, workloads(the_task), timeout_s=limit_s)
        if (tmp_path / "pid").exists():
            break
    pid = int((tmp_path / "pid").read_text())
    for _ in range(3000):
        if not os.path.exists(f"/proc/{pid}") or " Z " in Path(f"/proc/{pid}/stat").read_text():
            return
        time.sleep(0.02)
    pytest.fail("its child still runs")


def test_an_initialiser_gets_the_seed_only_where_it_asks(tmp_path: Path) -> None:
    path = tmp_path / "init.py"
    path.write_text(
        "def a(n, seed):\n    return [seed] * n\ndef b(**sizes):\n    return sorted(sizes) == ['m', 'n']\n"
    )
    assert call_initialiser(path, "a", sizes={"n": 3}, seed=7).tolist() == [7, 7, 7]
    assert bool(call_initialiser(path, "b", sizes={"n": 3, "m": 1}, seed=7))
