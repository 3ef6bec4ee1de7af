"""The benchmark of models on a server on the loopback: the tuner and rivals, as many calls each, judged alike."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import io
import json
import os
import statistics
import sys
from pathlib import Path
from typing import Any, NamedTuple

import llm_server as server
import pytest

from tuner.core.types import Resolved, Status, Variant
from tuner.testing import SimulatedBackend

ROOT = Path(__file__).resolve().parents[2]

KERNEL = """\
void scale(const float *a, float *b, int n)
{
    for (int j = 0; j < n; j++)
        for (int i = 0; i < n; i++)
            b[i * n + j] = a[i * n + j] * 3.0f + 1.0f;
}
"""
SPEC = """\
kernel: {source: scale.c, entry: scale}
problem: {n: 512}
arguments:
  - {name: a, dtype: float32, shape: [n * n], init: normal}
  - {name: b, dtype: float32, shape: [n * n], role: output}
  - {name: n, dtype: int32, value: n}
space: {passes: off}
"""
LOOPS = KERNEL[KERNEL.index("    for (int j") : KERNEL.rindex("}")]
FAST = "    for (int k = 0; k < n * n; k++)\n        b[k] = a[k] * 3.0f + 1.0f;\n"
DIFF = f"<<<<<<< SEARCH\n{LOOPS}=======\n{FAST}>>>>>>> REPLACE\n"


def script(number: int, body: Any) -> server.Reply:
    """A file for who asks for one, the tuner's region, else edits in the form that other programs know."""
    system, user = (m["content"] for m in body["messages"][:2])
    if "the whole file" in system:
        return server.Reply(f"So:\n```c\n{KERNEL.replace(LOOPS, FAST)}```\n")
    if "Region 1, in" in user:
        return server.Reply(f"```region 1\n{KERNEL.replace(LOOPS, FAST)}```\n")
    return server.Reply(
        f"<NAME>\nflat\n</NAME>\n<DESCRIPTION>\nflat\n</DESCRIPTION>\n<DIFF>\n{DIFF}</DIFF>\n"
    )


def factor(variant: Variant, resolved: Resolved) -> float | Status:
    """What the model writes is right, and twice as fast."""
    return 0.5 if "a[k]" in variant.files[0].text else 1.0


class Printed(NamedTuple):
    rows: dict[str, Any]
    notes: str
    headers: list[dict[str, str]]


def printed(
    folder: Path, *words: object, calls: int = 2, minutes: float = 0.2, times: bool = False
) -> Printed:
    """What the benchmark prints; with a simulated machine unless it is to time."""
    (folder / "scale.c").write_text(KERNEL)
    (folder / "scale.yaml").write_text(SPEC)
    script_file = ROOT / "benchmarks" / "models.py"
    command: list[object] = [script_file, "--model", "local", "--json", "--source-only", "--calls", calls]
    command += ["--kernel", folder / "scale.yaml", "--minutes", minutes, *words]
    simulated = SimulatedBackend(seconds=lambda _: 1e-3, of_variant=factor)
    out, errors = io.StringIO(), io.StringIO()
    with (
        server.serving(script) as running,
        pytest.MonkeyPatch.context() as patch,
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(errors),
    ):
        patch.syspath_prepend(ROOT / "benchmarks")
        patch.setenv("OPENAI_API_KEY", "sk-a-key")
        patch.setattr(sys, "argv", [str(w) for w in (*command, "--base-url", running.url)])
        status = importlib.import_module("models").main(None if times else simulated)
    assert status == 0, errors.getvalue()
    rows = {r["method"]: r for r in json.loads(out.getvalue())["rows"]}
    return Printed(rows, errors.getvalue(), running.headers)


@pytest.mark.integration
def test_the_tuner_and_simple_rivals(tmp_path: Path) -> None:
    rows, _, headers = printed(tmp_path, "--rivals", "operators,best-of-n")
    assert list(rows) == ["tuner", "operators", "best-of-n"]
    assert rows["operators"]["calls"] == 0
    assert max(rows["operators"]["speedup"]) < 1.2
    assert rows["best-of-n"]["calls"] == 2
    for name in ("tuner", "best-of-n"):
        # The tuner asks again where that promises more than transformations do.
        calls = rows[name]["calls"]
        assert calls in (1, 2)
        assert (rows[name]["prompt_tokens"], rows[name]["completion_tokens"]) == (100 * calls, 20 * calls)
        assert rows[name]["verified"] == 1
        assert statistics.median(rows[name]["speedup"]) == pytest.approx(2.0, rel=0.1)
    assert all(h["authorization"] == "Bearer sk-a-key" for h in headers)


@pytest.mark.parametrize("name", ["openevolve", pytest.param("shinka", marks=pytest.mark.measured)])
@pytest.mark.integration
def test_other_programs(tmp_path: Path, name: str) -> None:
    """Where they are installed; TUNER_TEST_RIVALS names an interpreter that has them."""
    python = os.environ.get("TUNER_TEST_RIVALS", sys.executable)
    if python == sys.executable and importlib.util.find_spec(name) is None:
        pytest.skip(f"{name} is not installed")
    rows, notes, _ = printed(tmp_path, "--rivals", name, "--python", f"{name}={python}", minutes=1)
    assert "evaluated nothing" not in notes
    assert rows[name]["calls"] == 2
    assert rows[name]["verified"] >= 1
    assert statistics.median(rows[name]["speedup"]) == pytest.approx(2.0, rel=0.1)


@pytest.mark.integration
def test_a_rival_that_is_not_there_is_named(tmp_path: Path) -> None:
    empty = tmp_path / "python"
    empty.write_text("#!/bin/sh\nexit 1\n")
    empty.chmod(0o755)
    rows, notes, _ = printed(tmp_path, "--rivals", "shinka", "--python", f"shinka={empty}", calls=1)
    assert list(rows) == ["tuner"]
    assert (
        "note: shinka is left out: pip install shinka-evolve, or name an interpreter: --python shinka=PATH"
        in notes
    )


@pytest.mark.measured
def test_on_this_machine(tmp_path: Path) -> None:
    rows, _, _ = printed(tmp_path, "--rivals", "best-of-n", minutes=0.5, times=True)
    assert statistics.median(rows["best-of-n"]["speedup"]) > 2
    assert statistics.median(rows["tuner"]["speedup"]) > 2
