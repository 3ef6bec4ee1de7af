"""``tuner record --list``: what an application launches, and in which of its functions and lines its time goes.

May not record.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import files as package_files
from pathlib import Path
from typing import Any

from tuner.driver.applications.host_functions import HostFunctions, host_functions
from tuner.driver.applications.recording import application_of, require_run
from tuner.driver.applications.trees import Tree
from tuner.evaluators.host.shared import shared_library
from tuner.recorders.recordings.capture import Application, Ran
from tuner.recorders.recordings.executables import is_static_program
from tuner.recorders.recordings.samples import Samples, read_samples

__all__ = ["Listing", "list_built", "list_launches"]


_WAITS_ASLEEP = {"OMP_WAIT_POLICY": "passive"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """What an application launches; ``to_json`` is the object behind ``--json``.

    Attributes:
        ran: how it ran, with the kernels of devices.
        own: functions of its own code.
        samples: how often its threads were found anywhere, by their processor time.
        static: whether the command's program is linked statically, so that nothing is seen of it.
    """

    ran: Ran
    own: HostFunctions = field(default_factory=HostFunctions)
    samples: int = 0
    static: bool = False

    def share(self, samples: int) -> float:
        """Of its processor time."""
        return samples / self.samples if self.samples else 0.0

    def most(self, samples: int) -> float | None:
        """How many times as fast the whole is where what the samples are of takes no time at all; ``None`` for any.

        Source: Amdahl, "Validity of the single processor approach to achieving large scale computing capabilities",
        1967.
        """
        rest = 1 - self.share(samples)
        return 1 / rest if rest > 0 else None

    def to_json(self) -> dict[str, Any]:
        """Plain JSON."""
        total = sum(use.seconds for use in self.ran.kernels)
        return {
            "schema_version": 1,
            "status": self.ran.status,
            "wall_s": self.ran.wall_s,
            "kernels": [
                {
                    "name": use.name,
                    "program": use.program,
                    "launches": use.launches,
                    "seconds": use.seconds,
                    "share": use.seconds / total if total else 0.0,
                    "geometries": len(use.signatures),
                    "recordable": use.launches - sum(use.refused.values()),
                    "refused": dict(use.refused),
                }
                for use in self.ran.kernels
            ],
            "processor_s": self.ran.processor_s,
            "samples": self.samples,
            "functions": [
                {**function.to_json(), **self._time(function.samples)} for function in self.own.listed
            ],
            "further": self.own.further,
            "libraries": [
                {"file": str(path), "samples": count, **self._time(count)}
                for path, count in self.own.libraries.items()
            ],
        }

    def _time(self, samples: int) -> dict[str, float | None]:
        share, most = self.share(samples), self.most(samples)
        return {"share": share, "seconds": share * self.ran.processor_s, "at_most": most}


def _sampler() -> Path:
    """The library that finds where an application spends its processor time, made where it is missing.

    Raises:
        MachineError: it cannot be made.
    """
    text = package_files("tuner.recorders.recordings").joinpath("sampler.c").read_text(encoding="utf-8")
    return shared_library(text, "sampler")


def list_launches(command: Sequence[str], *, aside: bool = False) -> Listing:
    """Runs a command and lists its launches, and the functions of its own that could be recorded.

    Args:
        command: the application.
        aside: whether its standard output goes to standard error.

    Raises:
        UsageError: there is no such command, or there is nothing to list.
        MachineError: the library cannot be made.
    """
    application = application_of(command, aside=aside)
    libraries = (*application.libraries, _sampler())
    ran, samples = _sampled(replace(application, libraries=libraries))
    ours = {library.resolve() for library in libraries}
    files = {path: how for path, how in ran.loaded.items() if path not in ours}
    own = host_functions(files, command[0], samples)
    if not own.listed:
        require_run(ran, command)
    return Listing(ran=ran, own=own, samples=samples.total)


def list_built(command: Sequence[str], tree: Tree, folder: Path) -> Listing:
    """:func:`list_launches` of a program that was built in a copy, of its own functions alone; its output is lost.

    Args:
        command: the application.
        tree: the copy.
        folder: that it runs in.
    """
    library = tree.readable(_sampler())
    around = tree.around(folder)
    ran, samples = _sampled(
        Application(command=tuple(command), libraries=(library,), silent=True, around=around)
    )
    places = {tree.in_copy(path): count for path, count in samples.places.items()}
    in_copy = os.sep in command[0]
    program = str(tree.in_copy(folder / command[0])) if in_copy else shutil.which(command[0]) or command[0]
    own = host_functions(dict.fromkeys(places, "linked"), program, replace(samples, places=places))
    return Listing(ran=ran, own=own, samples=samples.total, static=is_static_program(Path(program)))


def _sampled(application: Application) -> tuple[Ran, Samples]:
    with tempfile.TemporaryDirectory(prefix="tuner-record-") as scratch:
        variables = {"TUNER_RECORD_MODE": "list", "TUNER_SAMPLE_OUT": scratch}
        # Threads of OpenMP that wait for others take a processor for it: where other work on the machine holds those
        # up, nearly all of the time would be found in the library.
        variables |= {name: value for name, value in _WAITS_ASLEEP.items() if name not in os.environ}
        return application.run(Path(scratch), variables), read_samples(Path(scratch))
