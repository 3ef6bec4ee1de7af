"""The library as build scripts use it: tune, ensure, export; and what is listed for the wheel."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

import tuner
from tuner.core.errors import UsageError

ROOT = Path(__file__).resolve().parents[2]


def test_tune_returns_the_result(scale_spec: Callable[..., Path], tmp_path: Path) -> None:
    result = tuner.tune(scale_spec(few=True), evaluations=4, out=tmp_path / "runs")
    assert result.path.exists()
    assert result.rows[0]["status"] == "ok"
    assert result.speedup >= 1.0
    assert tuner.load(result.path).to_json() == result.to_json()
    assert tuner.replay(result.path).clean


@pytest.mark.integration
def test_ensure_tunes_once_and_reuses(scale_spec: Callable[..., Path], tmp_path: Path) -> None:
    spec, out = scale_spec(few=True), tmp_path / "build" / "scale.o"
    with pytest.raises(UsageError, match="not tuned"):
        tuner.ensure(spec, out=out, offline=True)
    assert tuner.ensure(spec, out=out, evaluations=3) == out
    first, record = out.read_bytes(), Path(f"{out}.run").stat().st_mtime_ns
    assert first[:4] == b"\x7fELF"
    out.unlink()
    assert tuner.ensure(spec, out=out, offline=True).read_bytes() == first
    assert Path(f"{out}.run").stat().st_mtime_ns == record
    source = tmp_path / "scale.c"
    source.write_text(source.read_text().replace("2.0f", "3.0f"))
    with pytest.raises(UsageError, match="not tuned"):
        tuner.ensure(spec, out=out, offline=True)
    with pytest.raises(UsageError, match="ensure has no option 'evaluatons'; it takes evaluations, minutes"):
        tuner.ensure(spec, out=out, evaluatons=3)


def test_ensure_refuses_a_folder_before_it_tunes(scale_spec: Callable[..., Path], tmp_path: Path) -> None:
    """It tuned first, and then could not write."""
    (tmp_path / "out").mkdir()
    with pytest.raises(UsageError, match="out is a folder; name the object file"):
        tuner.ensure(scale_spec(), out=tmp_path / "out", evaluations=3)
    assert not list(tmp_path.glob("out.*"))


@pytest.mark.integration
def test_a_file_is_no_folder_for_records(scale_spec: Callable[..., Path], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(tuner.TunerError, match="no folder for run records"):
        tuner.tune(scale_spec(), evaluations=2, out=tmp_path / "file")


def test_importing_costs_little() -> None:
    code = "import sys, tuner; print([m for m in ('numpy', 'optuna', 'sklearn', 'pydantic') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_root_folders_refuse_another_name() -> None:
    for folder in ("search", "spaces", "evaluators", "recorders", "cost_models"):
        command = [sys.executable, "-c", f"import {folder}"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 1
        assert f"import this package as tuner.{folder}" in done.stderr


FOLDERS = ("search", "spaces", "evaluators", "recorders", "cost_models", "tuner")


def test_every_module_and_every_file_beside_one_is_listed_for_the_wheel() -> None:
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    beside = {
        file.resolve()
        for package, patterns in listed["package-data"].items()
        for pattern in patterns
        for file in (ROOT / package.replace(".", "/")).glob(pattern)
    }
    found = 0
    for folder in FOLDERS:
        for path in (ROOT / folder).rglob("*"):
            if path.suffix == ".pyc" or path.is_dir():
                continue
            inside = path.relative_to(ROOT) if folder == "tuner" else Path("tuner") / path.relative_to(ROOT)
            package = ".".join(inside.parent.parts)
            assert (path.suffix == ".py" and package in listed["packages"]) or path.resolve() in beside, path
            found += 1
    assert found > 500
