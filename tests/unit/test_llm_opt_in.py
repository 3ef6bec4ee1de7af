"""The whole path with a real model, for whoever has one: skipped unless an address and a model are named.

``TUNER_TEST_LLM_URL=http://127.0.0.1:8080/v1 TUNER_TEST_LLM_MODEL=NAME pytest tests/unit/test_llm_opt_in.py`` asks a
server that speaks chat completions, such as llama.cpp's. What the model's edits are worth is not looked at.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
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
  llm: {{model: "{MODEL}", base_url: "{URL}", timeout_s: 180, max_tokens: 1024}}
"""


@pytest.mark.skipif(not (URL and MODEL), reason="TUNER_TEST_LLM_URL and TUNER_TEST_LLM_MODEL name no model")
def test_a_real_model_is_asked_and_all_of_it_is_replayed(tmp_path: Path) -> None:
    (tmp_path / "product.c").write_text(KERNEL)
    (tmp_path / "product.yaml").write_text(SPEC)
    (spec,) = load_spec(tmp_path / "product.yaml")
    few = {"choose_processes": 2, "confirm_processes": 4}
    options = Options(seed=1, workers=1, settings=few)
    result = begin(spec, tmp_path / "a.run", options, backend=backend())
    replies = [b for k, _, b in events(tmp_path / "a.run") if k == "reply"]
    assert any(b["status"] == "ok" and b["completion_tokens"] > 0 for b in replies)
    assert audit(tmp_path / "a.run", backend=backend()).differences == []
    assert result.summary.llm.calls <= 3
