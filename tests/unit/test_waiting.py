"""What a person sees while a kernel that does not end is waited for, and what its limit does."""

from __future__ import annotations

import io
import os
import pty
import re
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from tuner.cli import progress, waiting
from tuner.cli.main import main
from tuner.driver.check import check_spec
from tuner.driver.options import Options
from tuner.driver.runs import begin, resume
from tuner.driver.work.engine import Interruption
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
measure: {limit_s: 3}
search: {budget: {evaluations: 2}}
"""


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    (tmp_path / "ever.c").write_text(EVER)
    (tmp_path / "ever.yaml").write_text(SPEC)
    return tmp_path / "ever.yaml"


@pytest.mark.integration
def test_waits_are_announced_before_the_limit(
    spec: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(waiting, "FIRST_S", 0.1)
    spec.write_text(SPEC.replace("limit_s: 3", "limit_s: 1"))
    with pytest.raises(SystemExit) as ended:
        main(["check", str(spec)])
    said = capfd.readouterr()
    waits = "waiting for the kernel as given, of which a call may take 1 s (measure.limit_s in the spec), "
    assert any(line.startswith(f"ever: {waits}") for line in said.err.splitlines()), said.err
    assert ended.value.code == 3
    assert "no end within 1 s in n=1000, given; measure.limit_s allows more" in said.out + said.err


@pytest.mark.integration
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
    assert len(set(re.findall(r"(\d) s so far", text))) >= 2, text
    assert "no end within 3 s in n=1000, given; measure.limit_s allows more" in " ".join(text.split())


@pytest.mark.integration
def test_wait_messages_follow_the_work(
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


@pytest.mark.integration
def test_a_check_tells_what_takes_long(scale_spec: SpecWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    """Inputs, the kernel, the reference, what they give, and each planted fault."""
    monkeypatch.setattr("tuner.driver.faults.MOST_FAULTS", 4)
    (spec,) = load_spec(scale_spec())
    told: list[str] = []
    assert check_spec(spec, step=told.append).ok
    beginnings = [text.split(" ")[0] for text in told]
    assert beginnings[:4] == ["making", "waiting", "comparing", "waiting"]
    assert "sets of inputs" in told[0]
    assert any(re.match(r"planting faults, \d+ of \d+ looked at", text) for text in told)


class Told:
    """An observer that hears steps."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def event(self, kind: str, body: Mapping[str, Any]) -> None:
        """Notes where the events come between the steps."""
        self.heard.append(f"event {kind}")

    def step(self, text: str) -> None:
        self.heard.append(text)


@pytest.mark.integration
def test_a_run_tells_what_takes_long(scale_spec: SpecWriter, tmp_path: Path) -> None:
    """The same parts as a check, before the event of the baseline; again where the run is resumed."""
    (spec,) = load_spec(scale_spec())
    stop = Interruption()

    class Stopping(Told):
        def event(self, kind: str, body: Mapping[str, Any]) -> None:
            super().event(kind, body)
            if kind == "verify":
                stop.set()

    first, again = Stopping(), Told()
    begin(spec, tmp_path / "a.run", Options(evaluations=2), observers=[first], interruption=stop)
    before = first.heard[: first.heard.index("event baseline")]
    told = [text for text in before if not text.startswith("event")]
    assert [text.split(" ")[0] for text in told[:3]] == ["making", "waiting", "comparing"]
    assert told[-1] == ""
    resume(tmp_path / "a.run", observers=[again])
    assert [text for text in again.heard if not text.startswith("event")] == told


@pytest.mark.parametrize("live", [True, False])
@pytest.mark.integration
def test_a_trial_without_news_is_shown(
    live: bool, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """On large arrays a trial takes longer than a person waits, and there is no event before its end."""
    monkeypatch.setattr(progress, "FIRST_S", 0.1)
    monkeypatch.setattr(progress, "PLAIN_S", 0.2)
    monkeypatch.setattr(progress, "REDRAW_AGAIN_S", 0.05)
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=100)
    display = progress.LiveProgress(console) if live else progress.PlainProgress()
    settings = {"evaluations": 9, "minutes": None, "batch": 1, "weights": [1.0]}
    start = {"name": "k", "backend": "host", "environment": {"backend": {}}, "settings": settings}
    trial = {"again": False, "status": "ok", "medians_s": [1.0], "raced": False, "score": 0.0}
    with display:
        display.event("start", start)
        display.step("making 3 sets of inputs")
        time.sleep(0.7)
        display.step("")
        display.event("trial", {**trial, "trial": 0})
        display.event("ask", {"first": 7, "proposals": [{}]})
        display.event("build", {"trial": 7})
        time.sleep(0.8)
    said = out.getvalue() if live else capfd.readouterr().err
    assert "making 3 sets of inputs" in said
    assert re.search(r"trial 7 built.*\d s without news", said)


@pytest.mark.integration
def test_news_in_time_are_nothing_to_be_told_of(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "PLAIN_S", 0.4)
    display = progress.PlainProgress()
    with display:
        for _ in range(20):
            display.event("lane", {"lane": 0})
            time.sleep(0.05)
    assert "without news" not in capfd.readouterr().err
