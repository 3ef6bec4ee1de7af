"""The commands of the page on many devices: on a cluster of this machine alone, and on one that runs."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import needs
import pytest
from pages import ROOT, block, run
from ray_cluster import cluster

pytestmark = [*needs.ray, pytest.mark.filterwarnings("default")]

FEW = "--evaluations 3 --strategy random --json"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the page's ``kernel.yaml``, of a problem that takes no time."""
    for path in (ROOT / "examples" / "builds").glob("saxpy.*"):
        shutil.copy(path, tmp_path)
    text = (tmp_path / "saxpy.yaml").read_text()
    assert "n: 100000" in text
    (tmp_path / "kernel.yaml").write_text(text.replace("n: 100000", "n: 1000"))
    return tmp_path


def tuned(printed: str) -> bool:
    """Whether the one object on stdout is that of a run that came to its end with trials that were timed."""
    (line,) = [one for one in printed.splitlines() if one.startswith('{"schema_version"')]
    told = json.loads(line)
    return told["stopped_by"] in ("evaluations", "exhausted") and told["trials"]["ok"] > 1


def test_a_cluster_of_this_machine_and_one_that_runs(folder: Path) -> None:
    install, alone, joined = block("docs/scaling.md", "pip install")
    assert install == "pip install 'remix-tuner[ray]'"
    assert tuned(run(f"{alone} {FEW}", folder))
    with cluster() as nodes:
        nodes.add(devices=1)
        assert "HOST:6379" in joined
        assert tuned(run(f"{joined} {FEW}".replace("HOST:6379", nodes.address), folder))
