"""What ``tuner init`` and ``tuner check`` say of the kernels in a CUDA file, with nobody looking through the spec.

Specs are written beside the sources, as users have them, and removed again.
"""

from __future__ import annotations

import multiprocessing
import os
import queue
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tuner.core.errors import TunerError
from tuner.driver.check import check_spec
from tuner.spec.first.init import first_spec
from tuner.spec.load import load_spec

_LIMIT_S = 90.0
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_MARKS = r"(?:(?:static|inline|__[a-z_]+__)\b\s*(?:\((?:[^()]|\([^()]*\))*\)\s*)?)*"
_KERNEL = re.compile(rf"\b__global__\s+{_MARKS}void\s+{_MARKS}(\w+)\s*\([^;{{}}]*\)\s*\{{")
_VARYING = re.compile(r"`[^`]*`|'[^']*'|\"[^\"]*\"|\b[\w./-]+\.(?:cu|cuh|h|hpp)\b(?::\d+)*|\b\d[\w.]*\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """How far one kernel came: ``init``, ``check`` or ``ok``, and what was said where it ended."""

    file: str
    kernel: str
    stage: str
    message: str = ""
    faults: str = ""


def kernels_in(files: Sequence[Path]) -> list[tuple[Path, str]]:
    """Files with the names of their kernels; a name that a file has twice counts once."""
    found = []
    for path in files:
        names = dict.fromkeys(
            _KERNEL.findall(_COMMENT.sub(" ", path.read_text(encoding="utf-8", errors="replace")))
        )
        found += [(path, name) for name in names]
    return found


def checked(path: Path, kernel: str, *, faults: bool) -> Checked:
    """One kernel, in a process of its own that may take 90 s."""
    context = multiprocessing.get_context("fork")
    answers: multiprocessing.Queue[Checked] = context.Queue()
    child = context.Process(target=_check, args=(path, kernel, faults, answers))
    child.start()
    try:
        return answers.get(timeout=_LIMIT_S)
    except queue.Empty:
        return Checked(file=str(path), kernel=kernel, stage="check", message=f"takes over {_LIMIT_S:g} s")
    finally:
        child.join(1)
        if child.is_alive():
            child.kill()
            child.join()


def print_counts(found: Sequence[Checked]) -> None:
    """How many kernels came how far, and what the others fail for, most frequent first."""
    stages = Counter(each.stage for each in found)
    reasons = Counter((each.stage, _kind(each.message)) for each in found if each.stage != "ok")
    for (stage, kind), count in reasons.most_common(40):
        print(f"{count:4} {stage}: {kind}")
    print(f"{len(found)} kernels")
    print(f"get a first spec: {len(found) - stages['init']}")
    print(f"pass check as it is: {stages['ok']}")


def _kind(message: str) -> str:
    return _VARYING.sub("…", message)[:150]


def _check(path: Path, kernel: str, faults: bool, answers: multiprocessing.Queue[Checked]) -> None:
    stage, said, caught = "init", "", ""
    spec = path.with_name(f".{path.stem}-{kernel}-{os.getpid()}.yaml")
    try:
        first = first_spec(path, entry=kernel, folder=path.parent)
        stage = "check"
        spec.write_text(first.text, encoding="utf-8")
        (loaded,) = load_spec(spec)
        report = check_spec(loaded, faults=faults)
        if report.ok:
            stage = "ok"
            caught = "" if report.faults is None else report.faults.text()
        else:
            said = report.lines[-1][1]
    except TunerError as error:
        said = f"{error.message}; {error.hint}"
    except Exception as error:  # What a user would see as a traceback is a result here, too.
        said = f"TRACEBACK {type(error).__name__}: {error}"
    finally:
        spec.unlink(missing_ok=True)
    answers.put(Checked(file=str(path), kernel=kernel, stage=stage, message=said, faults=caught))
