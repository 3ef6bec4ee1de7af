"""Fixtures that several test files share."""

from __future__ import annotations

import compileall
import gc
import itertools
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from virtual_clock import clock_of

KERNEL = """
void scale(const float *restrict a, float *restrict b, int n) {
    for (int i = 0; i < n; i++)
        b[i] = 2.0f * a[i] + (float)(STEP - STEP) + (float)(WIDTH - WIDTH);
}
"""

SPEC = """\
kernel: {{source: scale.c, entry: scale}}
problem: {{n: 4096}}
arguments:
  - {{name: a, dtype: float32, shape: [n], init: {{uniform: [-1, 1]}}}}
  - {{name: b, dtype: float32, shape: [n], role: output}}
  - {{name: n, dtype: int32, value: n}}
space:
  parameters:
    STEP: {steps}
    WIDTH: {widths}
  flags: {{vector: ["", "-fno-vectorize"]}}
  passes: {passes}
search:
  strategy: {strategy}
  budget: {{evaluations: {evaluations}}}
"""


# The longest tests begin first, one kind on each of two workers: those of the second column time real code and would
# wait for each other, because a device is timed by one process at a time.
LONGEST = (
    (
        "test_killed_sixty_times_a_cassette_run_has_the_same_archive",
        "test_three_hundred_kills_at_random_instants",
        "test_at_most_ten_claims_in_200_simulated_runs",
        "test_an_opencl_kernel_evolves_on_pocl",
        "test_killed_at_random_instants_a_cassette_run_has_the_same_archive",
        "test_a_machine_that_sleeps_costs_no_trial",
    ),
    (
        "test_few_claims_in_real_runs_of_identical_code",
        "test_three_hundred_kills_of_any_worker",
        "test_several_kernels_and_putting_them_back",
        "test_recording",
        "test_a_naive_product_gains_and_is_handed_over",
        "test_other_load_is_marked_and_measured_again",
        "test_killed_workers_are_started_again",
        "test_tune_json_show_replay_export",
    ),
)


# Whether examples are made fast enough is a matter of what else the machine does. The same ones each time tell what a
# change has broken; others are looked for on purpose: ``pytest tests/property --hypothesis-profile search``.
settings.register_profile("search", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("same", settings.get_profile("search"), derandomize=True, database=None)
settings.load_profile("same")

_NUMBERS = itertools.count()

SOURCES = ("cost_models", "evaluators", "recorders", "search", "spaces", "tuner")


def pytest_configure(config: pytest.Config) -> None:
    """Lets the processes of all tests share compiled sources, and a folder of caches that can be written.

    Also where the environment says to keep no compiled sources: tests start more than a thousand interpreters, and each
    would compile what it imports, for a second and more. Processes of sandboxed users may not write here, so it is done
    before they begin.
    """
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    # As the command sets it: threads of several workers on the same cores do nothing but wait for one another.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if not hasattr(config, "workerinput"):
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())
        try:
            cache.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=cache):
                pass
        except OSError:
            folder = tempfile.TemporaryDirectory(prefix="tuner-tests-cache-")
            config.add_cleanup(folder.cleanup)
            os.environ["XDG_CACHE_HOME"] = folder.name
        for folder in SOURCES:
            compileall.compile_dir(config.rootpath / folder, quiet=2)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Workers begin with a half each, and who has none left takes over from the other's end."""
    if config.getoption("dist") != "load":
        return None
    from xdist.scheduler import WorkStealingScheduling

    return WorkStealingScheduling(config, log)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts the longest tests at the beginning of each half."""
    first, second = ([i for name in names for i in items if _name(i) == name] for names in LONGEST)
    others = [i for i in items if not any(_name(i) in names for names in LONGEST)]
    cut = max(0, len(items) // 2 - len(first))
    items[:] = [*first, *others[:cut], *second, *others[cut:]]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[Any]:
    """Every test has a virtual clock but those that are marked as measured; before fixtures of any scope are made."""
    with clock_of(measured=any(item.get_closest_marker(name) for name in ("measured", "gpu"))):
        return (yield)


def pytest_collection_finish() -> None:
    """Thousands of collected tests stay: no collection of garbage needs to look through them again."""
    gc.collect()
    gc.freeze()


def _name(item: pytest.Item) -> str:
    return item.name.split("[")[0]


@pytest.fixture(autouse=True)
def _own_library(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads or writes the user's library of runs.

    The folder is made by who writes to it: making one looks through all that were made before.
    """
    folder = tmp_path_factory.getbasetemp() / "libraries" / str(next(_NUMBERS))
    monkeypatch.setenv("XDG_DATA_HOME", str(folder))


@pytest.fixture
def scale_spec(tmp_path: Path) -> Callable[..., Path]:
    """Writes a small real kernel whose parameters change nothing that matters; returns its spec's path.

    Almost all candidates are equal code, so a real run ends when it has built them all; ``few`` are 8 and not 112.
    """

    def write(
        *, passes: str = "off", strategy: str = "random", evaluations: int = 12, few: bool = False
    ) -> Path:
        (tmp_path / "scale.c").write_text(KERNEL)
        path = tmp_path / "scale.yaml"
        steps = "[1, 2]" if few else "{low: 1, high: 64, log: true}"
        widths = "[1, 2]" if few else "[1, 2, 3, 4, 5, 6, 7, 8]"
        path.write_text(
            SPEC.format(steps=steps, widths=widths, passes=passes, strategy=strategy, evaluations=evaluations)
        )
        return path

    return write
