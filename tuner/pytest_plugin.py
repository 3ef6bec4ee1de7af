"""A pytest plug-in: the fixture ``assert_not_slower`` for performance regressions. May not decide anything itself.

Everything heavy is imported on the first use of the fixture, so that a test suite without it pays nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pytest

if TYPE_CHECKING:
    from tuner.driver.regression import Regression

__all__ = ["AssertNotSlower", "assert_not_slower"]


class AssertNotSlower(Protocol):
    """What the fixture gives."""

    def __call__(
        self,
        spec: str | Path,
        *,
        against: str | Path,
        than: str = "winner",
        tolerance: float = 0.01,
        processes: int = 12,
    ) -> Regression:
        """Fails the test when the present source is slower than what a run recorded.

        Both are built and timed here, interleaved in fresh processes; the test fails when the 95% interval of the
        slow-down lies above ``1 + tolerance``, so for equal code in 2.5% of calls at most. It also fails when the
        source does not build or gives a wrong result. Equal object code passes without a measurement.

        Args:
            spec: the YAML file, from the folder of the test or an absolute path.
            against: the run record, alike.
            than: ``winner``, or ``baseline`` for the source as it was, with its defaults.
            tolerance: what may be lost, relative.
            processes: fresh processes for each side; more make the interval narrower.

        Returns:
            What was measured.
        """
        ...


@pytest.fixture
def assert_not_slower(
    request: pytest.FixtureRequest, record_property: Callable[[str, object], None]
) -> AssertNotSlower:
    """Fails the test when a kernel has become slower; see :class:`AssertNotSlower`."""
    folder = request.path.parent

    def check(
        spec: str | Path,
        *,
        against: str | Path,
        than: str = "winner",
        tolerance: float = 0.01,
        processes: int = 12,
    ) -> Regression:
        __tracebackhide__ = True
        from tuner.core.errors import MachineError, TunerError, UsageError
        from tuner.driver.regression import compare_with_run
        from tuner.spec.load import load_spec

        if not 0 <= tolerance < 10:
            raise UsageError(f"tolerance is {tolerance!r}", "give a share, for example 0.05 for 5%")
        try:
            specs = load_spec(folder / spec)
            if len(specs) != 1:
                raise UsageError(f"{spec} describes {len(specs)} kernels", "name a spec of one kernel")
            found = compare_with_run(specs[0], folder / against, than=than, processes=processes)
        except MachineError as error:
            pytest.skip(f"{spec}: {error}")
        except TunerError as error:
            pytest.fail(f"{spec}: {error}", pytrace=False)
        record_property("slowdown", found.slowdown)
        problem = _problem(found, than, tolerance)
        if problem:
            pytest.fail(f"{spec}: {problem}", pytrace=False)
        return found

    return check


def _problem(found: Regression, than: str, tolerance: float) -> str:
    if found.status.value != "ok":
        return f"the source has no time to compare: {found.status.value}: {found.message}"
    if not found.slower(tolerance):
        return ""
    value, low, high = found.slowdown
    return (
        f"{value:.3f} times the time of the recorded {than}, 95% interval {low:.3f} to {high:.3f} over "
        f"{len(found.present_s)} processes each; allowed is {1 + tolerance:.3f}"
    )
