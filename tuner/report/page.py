"""Puts the page together: one file with everything in it, which may load nothing and talk to nobody.

What comes from a record is data: it stands in a JSON block in which no markup can begin, and the scripts show it as
text only. The page's own policy allows this one script and this one style sheet by their hashes, so even text that did
become markup could neither run nor load anything.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from tuner.core.files import write_atomically
from tuner.driver.outcome.export import check_writable
from tuner.driver.state.strangers import holding_together
from tuner.report.data import audit_or_reason, collect
from tuner.report.follow import Follower

__all__ = ["encode", "live_page", "page_of", "policy", "report_page", "write_report"]

SCRIPTS = (
    "base.js",
    "charts.js",
    "answer.js",
    "progress.js",
    "worth.js",
    "parameters.js",
    "source.js",
    "trials.js",
    "record.js",
    "app.js",
)


@holding_together()
def report_page(run: Path, *, audit: bool = True) -> str:
    """The whole report of a run as HTML.

    Args:
        run: the record.
        audit: replay it first, without a compiler, and say what that found.

    Raises:
        RecordError: it is no run record, or holds no run.
        AuditError: its events do not follow from one another.
    """
    follower = Follower(run)
    # First, so that what a replay holds of a long run is gone when the page is put together.
    replayed = audit_or_reason(follower) if audit else "left out with --no-audit"
    follower.update()
    follower.start  # noqa: B018
    return page_of(collect(follower, audited=replayed))


def page_of(data: Mapping[str, Any]) -> str:
    """The page around what :func:`tuner.report.data.collect` gave."""
    result = data["result"]
    return _fill(
        data,
        title=f"{result['kernel']}: tuning report",
        heading=str(result["kernel"]),
        under=f"{result['backend']} · {result['run']}",
        sentence=_sentence(data),
        connect="'none'",
    )


def live_page(runs: Sequence[str]) -> str:
    """The page that asks the server which sent it for data; ``runs`` are names to choose from."""
    return _fill(
        {"runs": list(runs)},
        title="tuner",
        heading="tuner",
        under="",
        sentence="The live page needs JavaScript.",
        connect="'self'",
    )


def write_report(run: Path, output: Path, *, audit: bool = True) -> int:
    """Writes the report; returns its size in bytes.

    Raises:
        UsageError: the file cannot be written.
        RecordError, AuditError: as :func:`report_page`.
    """
    check_writable(output)
    page = report_page(run, audit=audit).encode()
    write_atomically(output, page)
    return len(page)


def encode(data: Mapping[str, Any]) -> str:
    """JSON in which no tag can begin or end, and no line separator that older readers stumble over."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def policy(connect: str) -> str:
    """The content security policy of the page; ``connect`` is where its script may ask for data."""
    return (
        f"default-src 'none'; script-src 'sha256-{_hash(_script())}'; style-src 'sha256-{_hash(_style())}'; "
        f"img-src data:; connect-src {connect}; base-uri 'none'; form-action 'none'"
    )


def _fill(
    data: Mapping[str, Any], *, title: str, heading: str, under: str, sentence: str, connect: str
) -> str:
    parts = {
        "policy": html.escape(policy(connect)),
        "title": html.escape(title),
        "heading": html.escape(heading),
        "under": html.escape(under),
        "sentence": html.escape(sentence),
        "style": _style(),
        "script": _script(),
        "data": encode(data),
    }
    # One pass over the template, so that a record's own "{{script}}" stays what it is.
    pieces = _template("page.html").split("{{")
    page = [pieces[0]]
    for piece in pieces[1:]:
        name, rest = piece.split("}}", 1)
        page += [parts[name], rest]
    return "".join(page)


def _sentence(data: Mapping[str, Any]) -> str:
    answer = data["answer"]
    if answer["improved"]:
        value, low, high = answer["speed"]
        return f"{value:.2f} times as fast as the baseline, 95% interval {low:.2f} to {high:.2f}, confirmed."
    return "Nothing is claimed." if data["ended"] else "The run has not ended."


@cache
def _template(name: str) -> str:
    return resources.files("tuner.report").joinpath("templates", name).read_text(encoding="utf-8")


@cache
def _script() -> str:
    return '(() => {\n"use strict";\n' + "\n".join(_template(name) for name in SCRIPTS) + "\n})();\n"


@cache
def _style() -> str:
    return _template("style.css")


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
