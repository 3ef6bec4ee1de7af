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

import pytest
import typer
from pages import ELSEWHERE, NOT_RUN, PAGES, ROOT, blocks, name, run, workplace

from tuner.cli.main import app
from tuner.spec.reference import reference

LINK = re.compile(r"\]\(([^)#\s]+?)(?:#[^)]*)?\)")
COMMAND = re.compile(r"^(?:\$ )?(?:\S*/)?(tuner|tune)( .*)?$")


def commands() -> Iterator[tuple[str, str]]:
    for page in PAGES:
        for block in blocks(page):
            for line in block.text.splitlines() if block.kind in ("", "sh") else ():
                if COMMAND.match(line) and "…" not in line:
                    yield name(page), line


@pytest.mark.parametrize(("page", "line"), list(dict.fromkeys(commands())))
def test_commands_on_pages_parse(page: str, line: str) -> None:
    words = shlex.split(line.removeprefix("$ "), comments=True)
    words = words[: next((i for i, w in enumerate(words) if w in ("|", ">", ">>", "&&")), len(words))]
    given = words[1:] if Path(words[0]).name == "tuner" else ["tune", *words[1:]]
    group = typer.main.get_command(app)
    if given and given[0].startswith("--"):
        assert given[0] in {option for p in group.params for option in p.opts}
        return
    with group.make_context("tuner", list(given)) as context:
        found, command, rest = group.resolve_command(context, given)  # type: ignore[attr-defined]
        assert command is not None
        command.make_context(found, list(rest), parent=context)


@pytest.mark.slow
@pytest.mark.parametrize("page", [p for p in PAGES if any(b.mark for b in blocks(p))], ids=name)
def test_marked_blocks_run(page: Path, tmp_path: Path) -> None:
    workplace(tmp_path)
    (tmp_path / "build").mkdir()
    for block in blocks(page):
        if block.mark.startswith("file: "):
            (tmp_path / block.mark.removeprefix("file: ")).write_text(block.text)
        elif block.mark == "run" and block.kind == "python":
            run(f"python -c {shlex.quote(block.text)}", tmp_path)
        elif block.mark == "run":
            run(block.text, tmp_path)
        else:
            assert not block.mark, f"what is {block.mark!r}?"


def test_every_block_of_commands_is_run_or_has_a_reason() -> None:
    """Each is marked, run by a test that looks it up by name, or listed with why not; and no entry is without one."""
    entries = {**ELSEWHERE, **NOT_RUN}
    met = set()
    for page in PAGES:
        for block in blocks(page):
            if block.shell and block.mark != "run":
                found = [(p, part) for p, part in entries if p == name(page) and part in block.text]
                assert len(found) == 1, f"{name(page)}: {len(found)} entries for\n{block.text}"
                met |= set(found)
    assert met == entries.keys()
    for (page_name, part), module in ELSEWHERE.items():
        text = (Path(__file__).parent / module).read_text()
        assert f'block("{page_name}", "{part}")' in text, f"{module} does not run {page_name}: {part}"
    assert len(NOT_RUN) <= 4


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), target


def test_the_spec_reference_is_current() -> None:
    assert (ROOT / "docs" / "spec.md").read_text() == reference(), (
        "python -m tuner.spec.reference > docs/spec.md"
    )


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
