"""The whole path with a real model, for whoever wants it: skipped unless one is named.

``TUNER_TEST_LLM_URL=http://127.0.0.1:8080/v1 TUNER_TEST_LLM_MODEL=NAME pytest tests/unit/test_llm_opt_in.py`` asks a
server that speaks chat completions, such as llama.cpp's; ``TUNER_TEST_LLM_MODEL=FILE.gguf`` without an address starts
one on this machine, as ``TUNER_TEST_LLM_MODEL=package`` does with the weights of a package (docs/llm.md). What the
model's edits are worth is not looked at.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from local_model import serving
from product_runs import KERNEL, TASK, backend
from run_events import events

from tuner.driver.audit import audit
from tuner.driver.options import Options
from tuner.driver.runs import begin
from tuner.spec.load import load_spec

URL, MODEL = (os.environ.get(f"TUNER_TEST_LLM_{name}", "") for name in ("URL", "MODEL"))
SPEC = f"""\
{TASK}space:
  parameters: {{WIDTH: [1, 2, 3, 4]}}
  passes: off
  source: {{evolve: true}}
search:
  strategy: random
  proposers: []
  budget: {{minutes: 10, calls: 3}}
  llm: {{model: "small", base_url: "URL", timeout_s: 300, max_tokens: 300}}
"""


@pytest.fixture
def address() -> Iterator[str]:
    """Of the server that is named, or of one started for the test."""
    if URL:
        yield URL
        return
    with serving(MODEL) as found:
        yield found


@pytest.mark.skipif(not MODEL, reason="TUNER_TEST_LLM_MODEL names no model")
def test_a_real_model_is_asked_and_all_of_it_is_replayed(address: str, tmp_path: Path) -> None:
    (tmp_path / "product.c").write_text(KERNEL)
    name = MODEL if URL else "local"
    (tmp_path / "product.yaml").write_text(SPEC.replace("URL", address).replace('"small"', f'"{name}"'))
    (spec,) = load_spec(tmp_path / "product.yaml")
    few = {"choose_processes": 2, "confirm_processes": 4}
    options = Options(seed=1, workers=1, settings=few)
    result = begin(spec, tmp_path / "a.run", options, backend=backend())
    replies = [b for k, _, b in events(tmp_path / "a.run") if k == "reply"]
    assert any(b["status"] == "ok" and b["completion_tokens"] > 0 for b in replies)
    assert audit(tmp_path / "a.run", backend=backend()).differences == []
    assert result.summary.llm.calls <= 3
