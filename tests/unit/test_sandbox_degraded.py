"""A kernel without parts of the sandbox: runs go on and say so, or refuse where the whole is required.

An outer filter of system calls makes this kernel answer as an older one would.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tuner.core.errors import MachineError
from tuner.core.types import Resolved
from tuner.driver.options import Options
from tuner.driver.runs import begin
from tuner.evaluators.sandbox.support import probe
from tuner.recorders.record import RunRecord
from tuner.spec.load import load_spec
from tuner.testing import SimulatedBackend

pytestmark = pytest.mark.skipif(not probe().seccomp, reason="an older kernel is played by a filter")

OLDER = """
import errno as errors, sys
from tuner.evaluators.sandbox.bpf import ALLOW, Rule, Condition, assemble, errno
from tuner.evaluators.sandbox.libc import prctl
from tuner.evaluators.sandbox.seccomp import install
from tuner.evaluators.sandbox.syscalls import NUMBERS

lacks = sys.argv[1].split(",")
rules = []
if "landlock" in lacks:
    rules.append(Rule(number=NUMBERS["landlock_create_ruleset"], action=errno(errors.ENOSYS)))
if "namespaces" in lacks:
    rules.append(Rule(number=NUMBERS["unshare"], action=errno(errors.EPERM)))
if "seccomp" in lacks:
    no_filter = (Condition(argument=0, value=22),)
    rules.append(
        Rule(number=NUMBERS["prctl"], action=errno(errors.EINVAL), tests=no_filter, otherwise=ALLOW)
    )
prctl(38, 1)
install(assemble(rules, default=ALLOW))
import os
from tuner.cli.main import main
if "require" in sys.argv[2]:
    # Another command before, by the same interpreter.
    if os.fork() == 0:
        main([*sys.argv[3:], "--require-sandbox"])
    print("required:", os.waitstatus_to_exitcode(os.wait()[1]), file=sys.stderr, flush=True)
main(sys.argv[3:])
"""


def tuner(lacks: str, *words: str, before: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", OLDER, lacks, before, *words], capture_output=True, text=True, check=False
    )


@pytest.mark.integration
def test_whole_sandbox_is_required_or_the_run_goes_on_with_less_and_its_record_says_so(
    scale_spec: Callable[..., Path], tmp_path: Path
) -> None:
    spec = scale_spec(evaluations=2, few=True)
    words = ("tune", str(spec), "--json", "--out", str(tmp_path / "runs"))
    done = tuner("landlock,seccomp,namespaces", *words, before="require")
    assert done.returncode == 0, done.stderr
    said, required, *_ = done.stderr.splitlines()
    assert (
        "no protection of files (Landlock), system calls (seccomp), network (namespaces or seccomp)" in said
    )
    assert required == "required: 2"
    assert json.loads(done.stdout)["trials"]["ok"] >= 1
    (path,) = (tmp_path / "runs").glob("*.run")
    assert json.loads(done.stdout)["run"] == str(path)
    with RunRecord.read(path) as record:
        sandbox = next(iter(record.events())).body["environment"]["backend"]["sandbox"]
    assert sandbox["landlock"] == 0
    assert len(sandbox["missing"]) == 3


@pytest.mark.integration
def test_doctor_names_what_is_missing_and_the_cure() -> None:
    done = tuner("landlock,namespaces", "doctor")
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert any(line.startswith("--  landlock") for line in lines)
    assert any("the network is kept away by seccomp" in line for line in lines)
    assert any("Linux 5.13 or newer" in line for line in lines)


@pytest.mark.integration
def test_required_sandbox_lets_a_whole_one_run(scale_spec: Callable[..., Path], tmp_path: Path) -> None:
    if probe().missing:
        pytest.skip("the kernel lacks a part of the sandbox")
    (spec,) = load_spec(scale_spec(evaluations=3, few=True))
    outcome = begin(spec, tmp_path / "a.run", Options(require_sandbox=True, workers=1))
    assert not outcome.failed


def test_backend_that_promises_nothing_is_refused(scale_spec: Callable[..., Path], tmp_path: Path) -> None:
    (spec,) = load_spec(scale_spec())

    def seconds(_: Resolved) -> float:
        return 1e-3

    backend = SimulatedBackend(seconds=seconds)
    with pytest.raises(
        MachineError, match="sandbox of the backend simulated is incomplete here: no protection"
    ):
        begin(spec, tmp_path / "a.run", Options(require_sandbox=True), backend=backend)
    assert not (tmp_path / "a.run").exists()
