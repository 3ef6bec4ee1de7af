"""The report as a file: whole in itself, allowed nothing, and inert whatever a record says."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import made_runs as made
import pytest

from tuner.cli.main import main
from tuner.core.errors import RecordError, UsageError
from tuner.report import live_page, report_page, write_report
from tuner.report.page import encode

HOSTILE = "</script><img src=x onerror=alert(1)><!--<script>{{script}}\u2028'\"&"


class Reader(HTMLParser):
    """Tags with their attributes, and the text inside each script, style and title."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self._inside = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attributes)))
        self._inside = tag
        self.texts.setdefault(tag, []).append("")

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.texts[self._inside][-1] += data

    def policy(self) -> str:
        return next(
            a["content"] or "" for t, a in self.tags if a.get("http-equiv") == "Content-Security-Policy"
        )

    def data(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.texts["script"][0])
        return found


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path: Path = made.simulated_run(tmp_path_factory.mktemp("page"), evolve=True, evaluations=16)
    return path


@pytest.fixture(scope="module")
def audited(run: Path) -> str:
    """Its page, with the audit."""
    return report_page(run)


@pytest.fixture(scope="module")
def unaudited(run: Path) -> str:
    """Its page, without."""
    return report_page(run, audit=False)


@pytest.fixture(scope="module")
def hostile(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same run by a kernel, a compiler and a searcher that mean no good."""

    def change(kind: str, body: dict[str, Any]) -> dict[str, Any]:
        if kind == "start":
            body["name"] = HOSTILE
            body["environment"] = {**body["environment"], HOSTILE: HOSTILE}
            body["environment"]["backend"] = {**body["environment"]["backend"], "device": HOSTILE}
        if kind == "ask":
            body["proposals"] = [{**p, "origin": HOSTILE} for p in body["proposals"]]
        if kind == "trial":
            body["message"] = HOSTILE
        if kind == "variant" and body["made"] is not None:
            body["made"] = {**body["made"], "origin": HOSTILE}
        return body

    target = tmp_path_factory.mktemp("hostile") / "hostile.run"
    made.rewritten(run, target, change)
    return target


@pytest.mark.integration
def test_the_page_needs_nothing_from_elsewhere(audited: str) -> None:
    """No tag loads anything, and the policy allows this script and this style alone."""
    page = Reader(audited)
    assert not any("src" in a for _, a in page.tags)
    assert [a["href"] for t, a in page.tags if t in ("link", "a")] == ["data:,", "#main"]
    policy = page.policy()
    assert "default-src 'none'" in policy
    assert "connect-src 'none'" in policy
    for kind, text in (("script", page.texts["script"][1]), ("style", page.texts["style"][0])):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy
    assert "unsafe" not in policy


@pytest.mark.integration
def test_nothing_in_a_record_becomes_markup(unaudited: str, hostile: Path) -> None:
    """A page full of hostile texts has the tags of a harmless one, and holds the texts unchanged."""
    harmless, page = Reader(unaudited), Reader(report_page(hostile))
    assert [t for t, _ in page.tags] == [t for t, _ in harmless.tags]
    assert page.texts["script"][1] == harmless.texts["script"][1]
    data = page.data()
    assert data["result"]["kernel"] == HOSTILE
    assert HOSTILE in data["trials"]["messages"]
    assert data["record"]["environment"][HOSTILE] == HOSTILE
    assert page.texts["h1"] == [HOSTILE]
    # A record that was made up is no sound one, and the page says so.
    assert data["audit"]["clean"] is False
    assert data["audit"]["differences"]


def test_scripts_make_no_markup_of_text() -> None:
    """Texts reach the page through text nodes only; no template turns one into HTML or code."""
    page = Reader(live_page([]))
    script = page.texts["script"][1]
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function", script
    )
    assert not re.search(r"https?://", script + page.texts["style"][0])
    assert not re.search(r"setAttribute\(\"on", script)


def test_json_holds_no_tag() -> None:
    """And reads back to what it was."""
    value = {"a": HOSTILE, "b": ["<script>", "&amp;", "\u2029"]}
    text = encode(value)
    assert not set("<>&\u2028\u2029") & set(text)
    assert json.loads(text) == value


@pytest.mark.integration
def test_the_audit_and_the_answer_stand_on_the_page_and_the_place_of_the_run_does_not(
    run: Path, audited: str, unaudited: str
) -> None:
    """Where scripts are off the sentence that matters is there.

    A report is made to be sent to others: the folder of the record is not on it, nor the one it was made in.
    """
    data = Reader(audited).data()
    assert data["audit"]["clean"] is True
    assert Reader(unaudited).data()["audit"]["clean"] is None
    assert re.search(r"<noscript>.*times as fast as the baseline, 95% interval", unaudited, re.DOTALL)
    for part in ("result", "audit"):
        text = json.dumps(data[part])
        assert str(run.parent) not in text
        assert made.MADE_IN not in text


@pytest.mark.integration
def test_the_command_writes_the_file(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With -o where it is said, else beside the record."""
    target = tmp_path / "out.html"
    assert _status(["report", str(run), "-o", str(target)]) == 0
    assert target.read_text().startswith("<!doctype html>")
    assert str(target) in capsys.readouterr().out
    assert _status(["report", str(run), "--no-audit"]) == 0
    assert run.with_suffix(".html").exists()


def _status(arguments: list[str]) -> int:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert isinstance(ended.value.code, int)
    return ended.value.code


@pytest.mark.integration
def test_mistakes_are_one_line(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No run, no record, no folder: what, and what to do."""
    (tmp_path / "text.run").write_text("hello")
    for arguments in (
        ["report", str(tmp_path / "none.run")],
        ["report", str(tmp_path / "text.run")],
        ["report", str(run), "-o", str(tmp_path / "no" / "folder.html")],
    ):
        assert _status(arguments) == 2
        said = capsys.readouterr().err.strip()
        assert said.startswith("error: ")
        assert "\n" not in said


def test_a_record_without_a_run_is_refused(tmp_path: Path) -> None:
    """It was killed before it began."""
    from tuner.recorders.record import RunRecord

    RunRecord.create(tmp_path / "empty.run").close()
    with pytest.raises(RecordError, match="holds no run"):
        report_page(tmp_path / "empty.run")
    with pytest.raises(UsageError):
        write_report(tmp_path / "empty.run", tmp_path)
