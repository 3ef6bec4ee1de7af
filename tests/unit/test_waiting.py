"""What a person sees while a kernel that does not end is waited for, and what its limit does."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from commands import run_tuner

from tuner.cli import waiting
from tuner.driver.check import check_spec
from tuner.spec.load import load_spec

SpecWriter = Callable[..., Path]

EVER = """
void ever(const float *a, float *b, int n)
{
    volatile int go = 1;
    while (go) { }
    for (int i = 0; i < n; i++) b[i] = a[i];
}
"""

SPEC = """\
kernel: {source: ever.c, entry: ever}
problem: {n: 1000}
arguments:
  - {name: a, dtype: float32, shape: [n]}
  - {name: b, dtype: float32, shape: [n], role: output}
  - {name: n, dtype: int32, value: n}
measure: {limit_s: 4}
search: {budget: {evaluations: 2}}
"""


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    (tmp_path / "ever.c").write_text(EVER)
    (tmp_path / "ever.yaml").write_text(SPEC)
    return tmp_path / "ever.yaml"


@pytest.mark.parametrize("words", [["check"], pytest.param(["tune", "--no-library"], marks=pytest.mark.slow)])
def test_what_is_waited_for_is_said_before_the_limit(spec: Path, words: list[str]) -> None:
    ran = run_tuner(words[0], "ever.yaml", *words[1:], cwd=spec.parent)
    waits = "waiting for the kernel as given, of which a call may take 4 s (measure.limit_s in the spec), "
    assert ran.stderr.startswith(f"ever: {waits}"), ran.stderr
    assert ran.returncode == 3
    assert "no end within 4 s in n=1000, given; measure.limit_s allows more" in ran.stdout + ran.stderr


def test_a_terminal_sees_the_seconds_go_by(spec: Path) -> None:
    parent, child = pty.openpty()
    process = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "from tuner.cli.main import main; main()",
            "tune",
            "ever.yaml",
            "--no-library",
        ],
        cwd=spec.parent,
        stdin=child,
        stdout=child,
        stderr=child,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "100"},
    )
    os.close(child)
    seen = b""
    while True:
        try:
            piece = os.read(parent, 4096)
        except OSError:
            break
        if not piece:
            break
        seen += piece
    os.close(parent)
    assert process.wait(30) == 3
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", seen.decode())
    assert "waiting for the kernel as given" in text
    assert len(set(re.findall(r"(\d) s so far", text))) >= 3, text


def test_what_is_at_work_is_said_in_other_words_as_it_changes(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Large arrays take long in many small parts: no part is as long as what a person waits without a word."""
    monkeypatch.setattr(waiting, "FIRST_S", 0.2)
    monkeypatch.setattr(waiting, "AGAIN_S", 0.2)
    with waiting.Stages("k", {"faults": "planting faults"}) as stages:
        stages.begin("faults")
        for done in range(10):
            stages.say(f"planting faults, {done} of 10 looked at")
            time.sleep(0.1)
    lines = capfd.readouterr().err.splitlines()
    assert len(lines) >= 2
    assert all(re.fullmatch(r"k: planting faults, \d of 10 looked at, \d s so far", line) for line in lines)


def test_a_check_tells_what_takes_long(scale_spec: SpecWriter) -> None:
    """Inputs, the kernel, the reference, what they give, and each planted fault."""
    (spec,) = load_spec(scale_spec())
    told: list[str] = []
    assert check_spec(spec, step=told.append).ok
    beginnings = [text.split(" ")[0] for text in told]
    assert beginnings[:4] == ["making", "waiting", "comparing", "waiting"]
    assert "sets of inputs" in told[0]
    assert any(re.match(r"planting faults, \d+ of \d+ looked at", text) for text in told)
