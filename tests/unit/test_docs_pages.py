"""The pages hold: their commands are parsed or run, links lead somewhere, the reference is current, the site builds.

A block after the line ``<!-- run -->`` is run, with the blocks of its page in order in one folder that holds the
examples; after ``<!-- file: NAME -->`` it is written to that file. Other blocks of commands are run by the tests that
``pages.ELSEWHERE`` names, or stand in ``pages.NOT_RUN`` with the reason. Every command of this program also goes
through the command line's own parser.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from pages import ELSEWHERE, NOT_RUN, PAGES, ROOT, block, blocks, name, run, run_marked, served, workplace

from tuner.cli.main import app

LINK = re.compile(r"\]\(([^)#\s]+?)(?:#[^)]*)?\)")
COMMAND = re.compile(r"^(?:\$ )?(?:\S*/)?(tuner|tune)( .*)?$")


def commands() -> Iterator[tuple[str, str]]:
    for page in PAGES:
        for one in blocks(page):
            for line in one.text.splitlines() if one.kind in ("", "sh") else ():
                if COMMAND.match(line) and "…" not in line:
                    yield name(page), line


@pytest.fixture(scope="module")
def group() -> Any:
    """The command line."""
    return typer.main.get_command(app)


@pytest.mark.parametrize(("page", "line"), list(dict.fromkeys(commands())))
def test_commands_on_pages_parse(group: Any, page: str, line: str) -> None:
    words = shlex.split(line.removeprefix("$ "), comments=True)
    words = words[: next((i for i, w in enumerate(words) if w in ("|", ">", ">>", "&&")), len(words))]
    given = words[1:] if Path(words[0]).name == "tuner" else ["tune", *words[1:]]
    if given and given[0].startswith("--"):
        assert given[0] in {option for p in group.params for option in p.opts}
        return
    with group.make_context("tuner", list(given)) as context:
        found, command, rest = group.resolve_command(context, given)
        assert command is not None
        command.make_context(found, list(rest), parent=context)


MARKED = [p for p in PAGES if any(b.mark for b in blocks(p))]
LOOKING = ROOT / "docs" / "report.md"
"""Its run is looked at with the first page's commands too."""


@pytest.mark.integration
@pytest.mark.usefixtures("guessed_sizes")
@pytest.mark.parametrize("page", [p for p in MARKED if p != LOOKING], ids=name)
def test_marked_blocks_run(page: Path, tmp_path: Path) -> None:
    workplace(tmp_path)
    (tmp_path / "build").mkdir()
    run_marked(page, tmp_path)


@pytest.mark.integration
def test_looking_at_a_run(tmp_path: Path) -> None:
    """The page's blocks, and on the run that they make what the first page does with one; both show it live."""
    run_marked(LOOKING, workplace(tmp_path))
    (serve,) = block("docs/report.md", "tuner serve tuner-runs")
    lines = block("README.md", "tuner replay tuner-runs/matmul-1.run")
    assert f".venv/bin/{serve}" in lines
    for number, line in enumerate(lines):
        if line.endswith(serve):
            page = served(serve, tmp_path)
            assert "<title>" in page
            assert "matmul" in page
        else:
            # The program by its path begins as a reader's would: once is enough.
            run(line.removeprefix(".venv/bin/") if number else line, tmp_path)


def test_an_own_kernel_is_tuned_as_the_tutorial_does() -> None:
    """What the first page says of a kernel of one's own is run by the tutorial, under its kernel's name."""
    lines = [line.removeprefix(".venv/bin/") for line in block("README.md", "tuner init mykernel.c")]
    run_there = [b.text.strip() for b in blocks(ROOT / "docs" / "tutorial.md") if b.mark == "run"]
    for line in lines:
        own = line.replace("mykernel", "blur")
        assert any(there == own or there.startswith(f"{own} --") for there in run_there), line


def test_every_block_of_commands_is_run_or_has_a_reason() -> None:
    """Each is marked, run by a test that looks it up by name, or listed with why not; and no entry is without one."""
    entries = {**ELSEWHERE, **NOT_RUN}
    met = set()
    for page in PAGES:
        for one in blocks(page):
            if one.shell and one.mark != "run":
                found = [(p, part) for p, part in entries if p == name(page) and part in one.text]
                assert len(found) == 1, f"{name(page)}: {len(found)} entries for\n{one.text}"
                met |= set(found)
    assert met == entries.keys()
    for (page_name, part), module in ELSEWHERE.items():
        text = (Path(__file__).parent / module).read_text()
        assert f'block("{page_name}", "{part}")' in text, f"{module} does not run {page_name}: {part}"
    assert len(NOT_RUN) <= 5


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), target


@pytest.mark.integration
def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-q", "-d", str(tmp_path / "site")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    site = tmp_path / "site"
    assert (site / "spec.schema.json").exists()
    assert (site / "decisions" / "sandbox" / "index.html").exists()
    pages = "".join(p.read_text() for p in site.rglob("*.html"))
    assert not re.search(r"<(?:script|link)[^>]*(?:src|href)=\"https?://", pages)


def test_every_page_can_be_found() -> None:
    """In the site's navigation, where decisions come by a hook."""
    listed = (ROOT / "mkdocs.yml").read_text()
    assert [p.name for p in (ROOT / "docs").glob("*.md") if f" {p.name}\n" not in listed] == []


def test_completion_is_offered(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "from tuner.cli.main import main; main()"]
    environment = {
        **os.environ,
        "_TUNER_COMPLETE": "complete_bash",
        "COMP_WORDS": "tuner re",
        "COMP_CWORD": "1",
    }
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=tmp_path)
    assert {"record", "replay"} <= set(done.stdout.split())
