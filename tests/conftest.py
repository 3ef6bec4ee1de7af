"""Fixtures that several test files share."""

from __future__ import annotations

import compileall
import gc
import itertools
import os
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from _pytest.runner import runtestprotocol
from commands import GUESSED
from hypothesis import HealthCheck, settings
from virtual_clock import ALONE, clock_of, without_oclgrind

from tuner.evaluators.host import compile_zygote
from tuner.evaluators.host.compile_zygote import CompileZygote

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


# Skips that say what a machine is or that a person has not asked for something, not that a package is missing.
EXPECTED_SKIPS = re.compile(
    r"TUNER_TEST_LLM_MODEL|without root|user namespaces|the kernel (has|lacks)|an older kernel|perf events"
    r"|this PoCL takes|this llvmlite reads"
)

REPORT_EVERY_S = 15.0


# Whether examples are made fast enough is a matter of what else the machine does. The same ones each time tell what a
# change has broken; others are looked for on purpose: ``pytest tests/property --hypothesis-profile search``.
settings.register_profile("search", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("same", settings.get_profile("search"), derandomize=True, database=None)
settings.load_profile("same")

_NUMBERS = itertools.count()

SOURCES = ("cost_models", "evaluators", "recorders", "search", "spaces", "tuner")


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--no-skips``: for machines that are said to have everything."""
    parser.addoption(
        "--no-skips", action="store_true", help="a test that is skipped for a missing package fails"
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """What is missing is a failure where everything is said to be there."""
    report: pytest.TestReport = yield
    if (
        item.config.getoption("no_skips")
        and report.skipped
        and isinstance(report.longrepr, tuple)
        and not EXPECTED_SKIPS.search(report.longrepr[2])
    ):
        report.outcome = "failed"
    return report


def pytest_configure(config: pytest.Config) -> None:
    """Lets the processes of all tests share compiled sources, and a folder of caches that can be written.

    Also where the environment says to keep no compiled sources: tests start more than a thousand interpreters, and each
    would compile what it imports, for a second and more. Processes of sandboxed users may not write here, so it is done
    before they begin.
    """
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    # What is asked of this run is not asked of those that tests start.
    os.environ.pop("PYTEST_ADDOPTS", None)
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
        config.pluginmanager.register(Progress(), "progress")


class Progress:
    """A line now and then in the place of a dot for each test, and skips by their reason."""

    def __init__(self) -> None:
        self._begin = self._told = time.monotonic()
        self._done = self._failed = self._all = 0
        self._skips: Counter[str] = Counter()
        self._terminal: Any = None

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        self._terminal = session.config.pluginmanager.get_plugin("terminalreporter")

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._all = len(session.items)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: Any, ids: list[str]) -> None:
        self._all = len(ids)

    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str] | None:
        if hasattr(report, "wasxfail") or (report.when != "call" and report.passed):
            return None
        category = "error" if report.failed and report.when != "call" else report.outcome
        return category, "", category.upper()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._failed += report.failed
        if report.failed and self._terminal is not None:
            self._terminal.write_line(f"failed: {report.nodeid}")
        self._done += report.when == "teardown"
        if report.skipped and isinstance(report.longrepr, tuple):
            self._skips[report.longrepr[2].removeprefix("Skipped: ")] += 1
        now = time.monotonic()
        if now - self._told >= REPORT_EVERY_S and self._terminal is not None:
            self._told = now
            took = f"{(now - self._begin) // 60:.0f}:{(now - self._begin) % 60:02.0f}"
            self._terminal.write_line(f"{took}  {self._done} of {self._all}, {self._failed} failed")

    def pytest_terminal_summary(self) -> None:
        for reason, count in self._skips.most_common():
            self._terminal.write_line(f"{count} skipped: {reason}")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Workers begin with a half each, and who has none left takes over from the other's end."""
    if config.getoption("dist") != "load":
        return None
    from xdist.scheduler import WorkStealingScheduling

    return WorkStealingScheduling(config, log)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool:
    """Every test has a virtual clock, before fixtures of any scope are made, but those that are marked as measured.

    Of these one that fails has to pass twice more: what others do to the machine is no fault of the product.
    """
    measured = any(item.get_closest_marker(name) for name in ("measured", "gpu"))
    hook = item.ihook
    hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    with clock_of(measured=measured):
        reports = runtestprotocol(item, nextitem=nextitem, log=False)
        if measured and any(report.failed for report in reports):
            first = reports
            for _ in range(2):
                reports = runtestprotocol(item, nextitem=nextitem, log=False)
                if any(report.failed for report in reports):
                    reports = first
                    break
    for report in reports:
        hook.pytest_runtest_logreport(report=report)
    hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests over clusters begin: they take longest, and one that is begun last is waited for by all workers."""
    items.sort(key=lambda item: "nodes" not in getattr(item, "fixturenames", ()))


def pytest_collection_finish() -> None:
    """Thousands of collected tests stay: no collection of garbage needs to look through them again."""
    gc.collect()
    gc.freeze()


class _Kept(CompileZygote):
    """One that is never given back by all: whoever builds next in this process has it.

    But where it is a test's own: by folders of headers that it made, or a spelling of the library's path.
    """

    def __init__(self, library: str, *, program: str, read: Sequence[str] = ()) -> None:
        super().__init__(library, program=program, read=read)
        own = any(folder.startswith(tempfile.gettempdir()) for folder in read)
        self.users += not own and os.path.normpath(library) == library


@pytest.fixture(scope="session", autouse=True)
def _kept_compilers() -> Iterator[None]:
    """What compilers are forked from stays from test to test: to start it takes a fifth of a second."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compile_zygote, "CompileZygote", _Kept)
        yield
    for kept in list(compile_zygote._lent.values()):
        compile_zygote.given_back(kept)


@pytest.fixture(autouse=True)
def _own_library(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads or writes the user's library of runs.

    The folder is made by who writes to it: making one looks through all that were made before.
    """
    folder = tmp_path_factory.getbasetemp() / "libraries" / str(next(_NUMBERS))
    monkeypatch.setenv("XDG_DATA_HOME", str(folder))


@pytest.fixture
def free_lane(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lane of the test's own, where applications are timed and nothing is made of how long they took."""
    monkeypatch.setenv("TUNER_LANE_FOLDER", str(tmp_path))


@pytest.fixture
def no_oclgrind(monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenCL kernels run on their device alone, also by commands: where it is no subject, Oclgrind costs the most."""
    monkeypatch.setenv(ALONE, "1")
    without_oclgrind(monkeypatch)


@pytest.fixture
def guessed_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    """First specs keep the sizes that are guessed: by a virtual clock no size takes longer than another.

    To find that out kernels are run for seconds at sizes that are too large.
    """
    monkeypatch.setenv(GUESSED, "1")
    monkeypatch.setattr("tuner.driver.first_sizes._TRIED", 0)


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
