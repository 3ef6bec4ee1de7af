"""What the settings and passes of a winner are worth is measured for a variant too, beside what its edits are worth."""

from __future__ import annotations

from pathlib import Path

import pytest
from product_runs import KERNEL, SPEC, backend

from tuner.core.types import Resolved, Variant
from tuner.driver.audit import audit
from tuner.driver.options import Options
from tuner.driver.runs import begin
from tuner.spec.load import load_spec

FLAG = "-mprefer-vector-width=512"


@pytest.mark.integration
def test_flags_and_tunables_of_a_winning_variant_are_taken_back(tmp_path: Path) -> None:
    """The edit, the flag and the parameter each pay, and each is said to, with its interval."""

    def cost(variant: Variant, resolved: Resolved) -> float:
        told = any(e["op"] == "restrict" for e in variant.edits)
        return (0.5 if told else 1.0) * (0.7 if FLAG in resolved.flags else 1.0)

    (tmp_path / "product.c").write_text(KERNEL)
    more = f'  flags: {{vectors: ["", "{FLAG}"]}}\n  passes: off\n'
    (tmp_path / "product.yaml").write_text(SPEC.replace("  passes: off\n", more))
    (loaded,) = load_spec(tmp_path / "product.yaml")
    quiet = backend(of_variant=cost, process_noise=0.001, call_noise=0.001)
    few = {"choose_processes": 2, "confirm_processes": 4}
    options = Options(seed=3, workers=2, evaluations=70, settings=few)
    result = begin(loaded, tmp_path / "a.run", options, backend=quiet)
    assert result.summary.improved
    assert FLAG in str(result.to_json()["best"]["configuration"])
    worth = {w.item["name"]: w for w in result.summary.ablation}
    flag = worth["vectors"].ratio
    assert flag is not None
    assert 1.3 < flag[0] < 1.6
    assert "WIDTH" in worth or result.to_json()["best"]["configuration"]["WIDTH"] == 1
    value = result.to_json()
    gains = dict(
        zip([e["op"] for e in value["evolution"]["edits"]], value["evolution"]["gains"], strict=True)
    )
    assert gains["restrict"]["ratio"] > 1.5
    assert audit(result.path, backend=quiet).differences == []
