"""Which candidates are looked at by Oclgrind, and what it finds: races, accesses out of bounds, divergent barriers.

Says nothing of times. A finding on the baseline is a warning, and then candidates are not looked at. What a driver
makes of a barrier in divergent code may hang, or write anywhere: that is looked for before a device has to run it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from tuner.core.canonical import digest_json
from tuner.core.errors import MachineError
from tuner.core.types import Build, Problem, Resolved, Task
from tuner.evaluators.host.bundles import Bundle, make_bundle
from tuner.evaluators.host.runner import CandidateFailed
from tuner.evaluators.host.supply import runtime_of
from tuner.evaluators.opencl.device import Device
from tuner.evaluators.opencl.limits import launches_of
from tuner.evaluators.opencl.module import SPIRV
from tuner.evaluators.opencl.oclgrind import (
    MOST_ITEMS,
    MOST_S,
    Report,
    Simulator,
    is_divergence,
    items_of,
    oclgrind_version,
    too_many,
)
from tuner.evaluators.opencl.program import Program
from tuner.evaluators.workloads import Workload, check_problem, make_planned, plan_workloads

__all__ = ["Simulation", "has_barrier"]

_CHEAP_S = 1.0
_LEAST_S = 3.0
_SLOWER = 20.0
_ALWAYS, _AT_THE_END = ("search", "confirm"), ("confirm",)
_BARRIER = re.compile(r"\bbarrier\b|_barrier\b")


def has_barrier(program: Program) -> bool:
    """Whether a program's text has a barrier of a work-group anywhere; what a module has is not looked at."""
    if program.is_module:
        return False
    job = program.source.job()
    texts = [
        job["source"],
        *(h[-1] for h in job["headers"]),
        *(h[-1] for h in job["included"]),
        *job["options"],
    ]
    return any(_BARRIER.search(text) for text in texts)


class Simulation:
    """Oclgrind for one task; started when first needed.

    Args:
        task: what is tuned.
        device: that candidates run on.
        align: of every buffer, in bytes.
    """

    def __init__(self, task: Task, device: Device, *, align: int) -> None:
        self._task = task
        self._device = device
        self._align = align
        self._simulator: Simulator | None = None
        self._small: Bundle | None = None
        self._findings: dict[str, str] = {}
        self._judged: frozenset[str] = frozenset()
        self.too_large = ""
        """Why a baseline's barriers were not looked at before the device ran it; empty where they were."""
        self._most_s = min(MOST_S, task.measure.limit_s)
        self._limit_s = self._most_s

    def examine_baseline(
        self, build: Build, resolved: Resolved, workloads: Sequence[Workload]
    ) -> tuple[Sequence[str], Mapping[str, Any]]:
        """Runs the baseline on the smallest workload that can be simulated, and decides when candidates are looked at.

        Those that are confirmed are, where the baseline could be and is clean; all are where it is cheap.

        Returns:
            Warnings, and notes for the record.
        """
        self._judged, self._limit_s = frozenset(), self._most_s
        if oclgrind_version() is None or self._device.simulated:
            return (), {"oclgrind": "not installed"}
        if self._task.kernel.language == SPIRV:
            return (), {"oclgrind": "not simulated: it takes source only"}
        smallest = min(
            workloads,
            key=lambda w: (
                self._items(resolved, w.problem) > MOST_ITEMS,
                sum(a.nbytes for a in w.arrays.values()),
            ),
        )
        report = self._look(smallest, build, resolved)
        if report.finding:
            return [f"the kernel as given, under Oclgrind: {report.finding}"], {"oclgrind": report.finding}
        if not report.ran:
            return (), {"oclgrind": f"not simulated: {report.note}"}
        # One that never ends would otherwise cost a search more than many builds and timings.
        self._limit_s = min(self._most_s, max(_LEAST_S, _SLOWER * report.seconds))
        self._judged = frozenset(_ALWAYS if report.seconds < _CHEAP_S else _AT_THE_END)
        return (), {"oclgrind": "clean"}

    def divergence_of_baseline(self, build: Build, resolved: Resolved) -> str:
        """A barrier in the baseline that not all work-items of a group come to; empty for none that is seen.

        On the smallest size that the spec asks for, as on others the baseline may fail.

        Raises:
            SpecError: that workload cannot be made.
        """
        self.too_large = ""
        if oclgrind_version() is None or self._device.simulated or not has_barrier(self._program(build)):
            return ""
        runtime = runtime_of(self._task, resolved)
        plans = [p for p in plan_workloads(self._task, runtime, purpose="search", number=0) if p.as_specified]
        items = {p.name: self._items(resolved, p.problem) for p in plans}
        plan = min(
            plans,
            key=lambda p: (items[p.name] > MOST_ITEMS, check_problem(self._task, p.problem, runtime)),
        )
        # Before the inputs are made, which of a large problem takes time.
        if items[plan.name] > MOST_ITEMS:
            self.too_large = too_many(items[plan.name]) if math.isfinite(items[plan.name]) else ""
            return ""
        report = self._look(make_planned(self._task, plan, runtime), build, resolved)
        return f"{report.finding} in {plan.name}" if is_divergence(report.finding) else ""

    def divergence(self, build: Build, resolved: Resolved, purpose: str) -> str:
        """The same of a candidate, where candidates are looked at."""
        if purpose not in self._judged or not has_barrier(self._program(build)):
            return ""
        finding = self.examine(build, resolved, purpose)
        return finding if is_divergence(finding) else ""

    def examine(self, build: Build, resolved: Resolved, purpose: str) -> str:
        """What is wrong with a candidate; empty for nothing, or where it is not looked at.

        Oclgrind takes source only: of a candidate with a pass pipeline the source is looked at.
        """
        if purpose not in self._judged or self._simulator is None or self._small is None:
            return ""
        key = digest_json([build.key, runtime_of(self._task, resolved)])
        if key not in self._findings:
            self._findings[key] = self._run(self._simulator, self._small, build, resolved).finding
        return self._findings[key]

    def close(self) -> None:
        """Ends the simulator; safe to call twice."""
        if self._simulator is not None:
            self._simulator.close()
            self._simulator = None
        if self._small is not None:
            self._small.close()
            self._small = None

    def _items(self, resolved: Resolved, problem: Problem) -> float:
        """Work-items of a launch; infinite where there is none."""
        try:
            shape = launches_of(self._task, resolved)(problem.sizes)
        except CandidateFailed:
            return math.inf
        return items_of(shape)

    def _look(self, workload: Workload, build: Build, resolved: Resolved) -> Report:
        """Runs the baseline on a workload, which becomes the one that candidates are run on."""
        if self._small is not None:
            self._small.close()
        self._small = make_bundle(self._task, [workload], ["start"], key="oclgrind", align=self._align)
        try:
            if self._simulator is None:
                self._simulator = Simulator()
            return self._run(self._simulator, self._small, build, resolved)
        except MachineError as error:
            return Report(ran=False, note=error.message)

    def _program(self, build: Build) -> Program:
        return Program.from_code(build.code, folder=self._task.kernel.folder).source

    def _run(self, simulator: Simulator, small: Bundle, build: Build, resolved: Resolved) -> Report:
        shape = launches_of(self._task, resolved)
        return simulator.examine(
            self._program(build), small, shape, digest=build.digest, limit_s=self._limit_s
        )
