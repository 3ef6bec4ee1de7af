"""Keys in the user's environment: in no record, no output, no worker and no user function's process."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tuner.core.errors import SpecError
from tuner.evaluators.python_reference import Call, call_function

SECRET = "sk-this-is-a-secret-0123456789"
NAMES = ("OPENAI_API_KEY", "MY_TOKEN", "AWS_SECRET_ACCESS_KEY")


@pytest.fixture(autouse=True)
def secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NAMES:
        monkeypatch.setenv(name, SECRET)


@pytest.mark.integration
def test_run_leaves_no_trace_of_a_key(scale_spec: Callable[..., Path], tmp_path: Path) -> None:
    words = ["tune", str(scale_spec(evaluations=4, few=True)), "--out", str(tmp_path / "runs")]
    program = "import sys; from tuner.cli.main import main; main(sys.argv[1:])"
    done = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, check=True)
    assert SECRET.encode() not in done.stdout + done.stderr
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert any(path.suffix == ".run" for path in files)
    for path in files:
        assert SECRET.encode() not in path.read_bytes(), path


def test_users_functions_see_no_key(tmp_path: Path) -> None:
    path = tmp_path / "reference.py"
    path.write_text(
        "import os\n"
        "def f(a):\n"
        f"    found = [n for n in {NAMES!r} if n in os.environ]\n"
        "    raise ValueError('saw ' + str(found))\n"
    )
    with pytest.raises(SpecError, match=r"saw \[\]"):
        call_function(path, "f", [Call(arrays={"a": np.zeros(3)}, scalars={})], keyed=True)
