"""The report in a real browser: loads without a word on the console, every tab, by keyboard, dark and light, narrow."""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any

import made_runs as made
import needs
import pytest
from product_runs import SUMS

import tuner
from tuner.recorders.record import Event, RunRecord
from tuner.report import Follower, write_report
from tuner.report.data import collect
from tuner.report.gallery import Gallery
from tuner.report.page import page_of
from tuner.report.server import ReportServer

pytestmark = needs.chromium

HOSTILE = "</script><img src=x onerror=\"document.title='taken'\"><svg onload=alert(1)>"
READY = "[role=tabpanel]:not([hidden]) > *"
STILL = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    # Chromium's own sandbox cannot be had as root, which CI often is; the pages are our own.
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=needs.CHROMIUM, args=arguments)
        yield found
        found.close()


class Tab:
    """A page that remembers everything which a console, a failed request or an error said."""

    def __init__(self, browser: Any, **options: Any) -> None:
        self.context = browser.new_context(viewport={"width": 1280, "height": 900}, **options)
        self.page = self.context.new_page()
        self.said: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda m: self.said.append(f"{m.type}: {m.text}"))
        self.page.on("pageerror", lambda e: self.said.append(f"error: {e}"))
        self.page.on("request", lambda r: self.requests.append(r.url))
        self.page.on("dialog", lambda d: self.said.append(f"dialog: {d.message}"))

    def open(self, address: str) -> None:
        """And waits until the first tab stands."""
        self.page.goto(address)
        self.page.wait_for_selector(READY)
        self.page.evaluate(STILL)

    def tabs(self) -> list[str]:
        return [t.get_attribute("id") for t in self.page.query_selector_all("[role=tab]")]

    def show(self, tab: str) -> None:
        self.page.click(f"#{tab}")
        self.page.wait_for_selector(f"#panel-{tab.removeprefix('tab-')}:not([hidden]) > *")
        self.page.evaluate(STILL)

    def text(self) -> str:
        found: str = self.page.inner_text("[role=tabpanel]:not([hidden])")
        return found


@contextmanager
def tab(browser: Any, **options: Any) -> Iterator[Tab]:
    found = Tab(browser, **options)
    try:
        yield found
        assert found.said == []
    finally:
        found.context.close()


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("browser")
    path: Path = made.simulated_run(folder, evolve=True, evaluations=16, kernel=SUMS)
    return path


@pytest.fixture(scope="module")
def collected(run: Path) -> str:
    """What its page is made of, as JSON: each test changes what it reads of it."""
    follower = Follower(run)
    follower.update()
    return json.dumps(collect(follower))


@pytest.fixture(scope="module")
def report(run: Path) -> str:
    target = run.with_suffix(".html")
    write_report(run, target)
    return target.as_uri()


@pytest.fixture(scope="module")
def failing(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("failing")
    target = folder / "report.html"
    write_report(made.made_run(folder, 60, few=True).path, target)
    return target.as_uri()


COLOURS = (
    "--ink/--page --ink/--card --soft/--page --soft/--card --soft/--faint --ink/--faint --accent/--card "
    "--good/--good-soft --bad/--bad-soft --warn/--warn-soft --accent/--accent-soft --ink/--accent-soft "
    "--violet/--faint"
)
"""Texts and their grounds."""

HARD_TO_READ = """pairs => {
    const style = getComputedStyle(document.documentElement);
    const light = name => { const hex = style.getPropertyValue(name).trim().slice(1);
        const [r, g, b] = [0, 2, 4].map(i => parseInt(hex.slice(i, i + 2), 16) / 255)
            .map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
    return pairs.split(' ').map(p => p.split('/')).map(([a, b]) => [a, b, light(a), light(b)])
        .map(([a, b, x, y]) => [a, b, (Math.max(x, y) + 0.05) / (Math.min(x, y) + 0.05)])
        .filter(r => r[2] < 4.5);
}"""
"""Those of which the ratio of contrast is below 4.5 (WCAG 2, AA)."""

WITHOUT_NAME = """() => {
    const found = [], all = (what) => [...document.querySelectorAll(what)];
    const ids = all('[id]').map(e => e.id);
    found.push(...ids.filter((id, i) => ids.indexOf(id) !== i));
    const named = e => e.textContent.trim() || e.getAttribute('aria-label');
    const lacks = [
        ...all('canvas').filter(e => !e.getAttribute('aria-label')),
        ...all('table').filter(e => !e.caption || !e.caption.textContent),
        ...all('select, input').filter(e => !e.closest('label') && !e.getAttribute('aria-label')),
        ...all('button').filter(e => !named(e)),
        ...all('[role=tab]').filter(e => !document.getElementById(e.getAttribute('aria-controls'))),
    ];
    found.push(...lacks.map(e => e.outerHTML.slice(0, 200)));
    found.push(...['main', 'header', 'nav', 'h1'].filter(tag => all(tag).length !== 1));
    if (!document.documentElement.lang) found.push('lang');
    return found;
}"""
"""What a screen reader needs and does not find: names, roles, landmarks; and ids that are there twice."""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_tab_opens_and_can_be_read(browser: Any, report: str, failing: str, scheme: str) -> None:
    """Nothing is said on the console, nothing is loaded but the file, every tab has words and drawn charts.

    Texts stand out from their ground, and whoever hears the page finds a name for every part.
    """
    shown = [(report, {"tab-passes", "tab-source"}), (failing, {"tab-failures"})]
    # What only the second has is a table: no chart of its own to draw in the dark.
    for address, wanted in shown if scheme == "light" else shown[:1]:
        with tab(browser, color_scheme=scheme) as opened:
            opened.open(address)
            assert wanted | {"tab-answer", "tab-progress", "tab-trials", "tab-record"} <= set(opened.tabs())
            for name in opened.tabs():
                opened.show(name)
                assert len(opened.text()) > 10, name
                assert "undefined" not in opened.text(), name
                assert "[object" not in opened.text(), name
                assert "NaN" not in opened.text(), name
                for canvas in opened.page.query_selector_all("[role=tabpanel]:not([hidden]) canvas"):
                    drawn = canvas.evaluate(
                        "c => new Set(new Uint32Array(c.getContext('2d').getImageData(0, 0, c.width, c.height)"
                        ".data.buffer)).size"
                    )
                    assert drawn > 3, name
            assert opened.page.evaluate(HARD_TO_READ, COLOURS) == []
            assert opened.page.evaluate(WITHOUT_NAME) == []
            assert opened.requests == [address]


def test_the_answer_stands_first(browser: Any, report: str, failing: str, run: Path) -> None:
    """The figure, its interval, that it is confirmed, what changed; of recorded times that nothing ran here."""
    with RunRecord.read(run) as record:
        verdict = [e.body for e in record.events(kind="verdict")][-1]
    with tab(browser) as opened:
        opened.open(report)
        text = opened.text()
        assert f"{verdict['speedup'][0]:.2f}×" in text
        assert "confirmed" in text
        assert "every decision stands" in text
        edits = tuner.load(run).to_json()["evolution"]["edits"]
        assert edits
        assert all(edit["op"] in text for edit in edits)
        assert "tune --baselines" in text
        assert opened.page.title().startswith("product")
        opened.open(failing)
        assert "Nothing ran here" in opened.text()


def test_by_keyboard_alone(browser: Any, report: str) -> None:
    """Arrow keys go through tabs, charts, and the tree; the skip link leads to the content."""
    with tab(browser) as opened:
        page = opened.page
        opened.open(report)
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.className") == "skip"
        page.keyboard.press("Enter")
        assert page.evaluate("document.activeElement.id") == "main"
        page.focus("#tab-answer")
        tabs = opened.tabs()
        for name in [*tabs[1:], tabs[0]]:
            page.keyboard.press("ArrowRight")
            assert page.evaluate("document.activeElement.id") == name
            assert page.get_attribute(f"#{name}", "aria-selected") == "true"
        page.keyboard.press("End")
        assert page.evaluate("document.activeElement.id") == tabs[-1]

        opened.show("tab-progress")
        page.focus("#panel-progress canvas")
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowRight")
        assert page.inner_text("#panel-progress .readout >> nth=0").startswith("Trial ")
        page.keyboard.press("Enter")
        assert page.get_attribute("#tab-trials", "aria-selected") == "true"
        assert "Trial " in page.inner_text("#panel-trials h3")

        opened.show("tab-source")
        first = page.inner_text("#panel-source [role=treeitem][aria-selected=true]")
        page.focus("#panel-source [role=treeitem][aria-selected=true]")
        page.keyboard.press("Home")
        page.keyboard.press("ArrowRight")
        second = page.inner_text("#panel-source [role=treeitem][aria-selected=true]")
        page.keyboard.press("ArrowLeft")
        assert "the source as given" in page.inner_text("#panel-source [role=treeitem][aria-selected=true]")
        assert first
        assert second


def test_optional_parts_of_runs(browser: Any, collected: str, tmp_path: Path) -> None:
    """Simpler searches, gains of edits, a front, a bound, a cost model, spend: each shown where it is known."""
    data = json.loads(collected)
    speedup = {"value": 1.2, "ci95": [1.1, 1.3]}
    rival = {"claim": "improved", "speedup": speedup, "trials": {"total": 60}, "wall_s": 3.0}
    rival["curve"] = {"done": [0, 9, 80], "clock_s": [0, 1, 2], "speed": [1, 1.2, 1.2], "spread": [0.1] * 3}
    light = {"bytes": 1e6, "operations": 4e6, "bound_s": 1e-4}
    rates = {"bandwidth_bytes_per_s": 1e10, "operations_per_s": 1e11}
    edits = next(r for r in data["variants"]["rows"] if r["number"] == data["variants"]["winner"])["edits"]
    data["result"] |= {
        "baselines": [{"name": "parameters", **rival}, {"name": "samples", **rival, "claim": "none"}],
        "pareto": [
            {"trial": 3, "values": {"time_s": 1e-3, "energy_j": 2.345678}, "configuration": {"A": 1, "B": 7}},
            {"trial": 5, "values": {"time_s": 2e-3, "energy_j": 1.25}, "configuration": {"A": 2, "B": 7}},
        ],
        "light": {"bound_s": 1e-4, "best_over_bound": 3.5},
        "cost_model": {"audits": 7, "losses": 1, "loss_bound": 0.25, "fit_s": 0.5},
    }
    data["result"]["evolution"]["gains"] = [{"ratio": 1.5, "needed": False}, *[None] * (len(edits) - 1)]
    data["light"] = {"declared": True, "problems": [{**light, **rates}]}
    data["costs"]["screening"] = [
        {"stage": "ask", "verdicts": {"keep": 5}, "measured": 5, "rank_correlation": 0.75, "saved_s": 2.0}
    ]
    data["costs"]["llm"] = {
        "models": [{"model": "m-1", "calls": 2, "prompt_tokens": 1000, "completion_tokens": 10, "usd": 0.5}]
    }
    gain = {"baseline_s": 2e-3, "best_s": 1e-3, "speed": [2.0, 1.9, 2.1], "weight": 0.5}
    data["problems"] = [{"sizes": {"n": 67, "m": 3}, **gain}, {"sizes": {}, **gain}]
    target = tmp_path / "more.html"
    target.write_text(page_of(data))
    with tab(browser) as opened:
        opened.open(target.as_uri())
        text = opened.text()
        for words in ("simpler searches", "parameters", "1.10× to 1.30×", "every objective"):
            assert words in text
        for words in ("On each problem", "n=67, m=3", "no. 2", "50.0%", "1.900× to 2.100×"):
            assert words in text
        opened.page.click("section:has(h2:text('every objective')) summary")
        front = opened.page.inner_text("section:has(h2:text('every objective')) tbody")
        assert front.split() == ["3", "1", "ms", "2.346", "J", "1", "5", "2", "ms", "1.25", "J", "2"]
        opened.show("tab-progress")
        assert "parameters: 1.20× confirmed" in opened.text()
        opened.show("tab-source")
        assert "1.500×" in opened.text()
        opened.show("tab-machine")
        for words in ("Roofline", "4 operations for each byte", "vouches"):
            assert words in opened.text()
        opened.show("tab-costs")
        for words in ("0.75", "25.0%", "m-1", "0.5000"):
            assert words in opened.text()


def test_the_theme_can_be_chosen_and_paper_is_white(browser: Any, report: str) -> None:
    """It follows the system until someone says otherwise; axes of the dark theme could not be read on paper."""
    with tab(browser, color_scheme="dark") as opened:
        opened.open(report)
        ground = "getComputedStyle(document.documentElement).backgroundColor"
        dark = opened.page.evaluate(ground)
        opened.page.click("#theme")
        assert opened.page.evaluate(ground) != dark
        assert opened.page.get_attribute("#theme", "aria-label") == "Use the dark theme"
        opened.page.click("#theme")
        assert opened.page.evaluate(ground) == dark
        opened.page.evaluate(
            "seen = []; for (const name of ['beforeprint', 'afterprint'])"
            " addEventListener(name, () => seen.push(document.documentElement.dataset.theme))"
        )
        opened.page.pdf()
        assert opened.page.evaluate("seen") == ["light", "dark"]


def test_settings_without_a_gain_of_their_own_are_folded(
    browser: Any, collected: str, tmp_path: Path
) -> None:
    """What is worth something first, failures before all; one of which nothing is known keeps its line."""
    data = json.loads(collected)
    data["answer"] |= {
        "improved": True,
        "changes": [{"name": f"ROWS_{n}", "from": 1, "to": n} for n in range(8)],
    }
    ratios = {0: [1.0, 0.9, 1.1], 1: [1.2, 1.1, 1.3], 2: [3.0, 2.9, 3.1], 3: [1.01, 0.9, 1.1]}
    ratios |= {4: [0.99, 0.9, 1.1], 5: [1.0, 1.0, 1.0]}
    data["result"]["ablation"] = [
        {
            "kind": "parameter",
            "name": f"ROWS_{n}",
            **dict.fromkeys(("change", "also", "message"), ""),
            "at": None,
            "value": n,
            "back": 1,
            "status": "ok" if n in ratios else "wrong_result",
            "same_code": n == 5,
            "ratio": {"value": ratios[n][0], "ci95": ratios[n][1:]} if n in ratios else None,
        }
        for n in range(7)
    ]
    target = tmp_path / "folded.html"
    target.write_text(page_of(data))
    tables = "[...document.querySelectorAll('table')].filter(t => /^Settings/.test(t.caption.textContent))"
    with tab(browser) as opened:
        opened.open(target.as_uri())
        assert "4 others gain nothing that can be told by itself" in opened.text()
        shown = opened.page.evaluate(
            f"{tables}.map(t => [...t.tBodies[0].rows].map(r => r.cells[0].textContent))"
        )
        assert shown[0] == ["ROWS_6", "ROWS_2", "ROWS_1", "ROWS_7"]
        assert shown[1:] == [["ROWS_0", "ROWS_3", "ROWS_4", "ROWS_5"]]


def test_long_names_and_passes_stay_inside(browser: Any, collected: str, tmp_path: Path) -> None:
    """Names without a place to break, and passes with options for lines: no tab scrolls sideways, long lists fold.

    Wide tables scroll in themselves.
    """
    name = "name_without_a_place_to_break_" * 5
    data = json.loads(collected.replace("WIDTH", name))
    data["result"]["kernel"] = data["result"]["run"] = name
    options = ";".join(f"option-{i}" for i in range(15))
    single = {"worth": 1.1, "least": 1.0, "most": 1.2, "pairs": 2, "same_code": 0}
    data["passes"]["pairs"] = [
        *({**single, "name": f"simplifycfg<{options};{i}>"} for i in range(30)),
        {**single, "name": "licm", "same_code": 2},
    ]
    target = tmp_path / "long.html"
    target.write_text(page_of(data))
    with tab(browser) as opened:
        opened.open(target.as_uri())
        for width in (360, 1280):
            opened.page.set_viewport_size({"width": width, "height": 800})
            for one in opened.tabs():
                opened.show(one)
                page = "document.documentElement"
                assert opened.page.evaluate(f"{page}.scrollWidth - {page}.clientWidth") <= 0, one
            opened.show("tab-passes")
            assert "simplifycfg 16 options" in opened.text()
            assert "option-3" not in opened.text()
            assert "15 more" in opened.text()
            assert "Same code with and without 1 pass" in opened.text()


def test_short_names_leave_room_for_what_stands_beside_them(
    browser: Any, collected: str, tmp_path: Path
) -> None:
    """A card of a wide window shows all columns of what changed, and no value letter by letter."""
    data = json.loads(collected)
    changes = [
        ("TILE_I", 64, 128),
        ("vectors", "", "-mprefer-vector-width=512"),
        ("passes", "", "licm,gvn<pre>"),
    ]
    data["answer"] |= {
        "improved": True,
        "changes": [dict(zip(("name", "from", "to"), change, strict=True)) for change in changes],
    }
    ratio = {"value": 1.001, "ci95": [0.9, 1.1]}
    data["result"]["ablation"] = [
        {"kind": "parameter", "name": "TILE_I", "ratio": ratio, "same_code": False, "value": 128, "back": 64}
    ]
    target = tmp_path / "short.html"
    target.write_text(page_of(data))
    with tab(browser) as opened:
        opened.page.set_viewport_size({"width": 1400, "height": 900})
        opened.open(target.as_uri())
        table = opened.page.locator("[role=region]", has=opened.page.get_by_text("Setting", exact=True)).first
        assert "Without it" in table.inner_text()
        assert table.evaluate("box => box.scrollWidth - box.clientWidth") <= 0
        tallest = table.evaluate(
            "box => Math.max(...[...box.querySelectorAll('tr')].map(r => r.clientHeight))"
        )
        assert tallest < 120


def test_what_a_run_lacks_is_left_out_and_refused_edits_have_reasons(
    browser: Any, report: str, failing: str
) -> None:
    """As check and tune say them, with the operators; of a run that left the source alone nothing is said.

    The tab Record names those left out. A difference is coloured to the end of its longest line.
    """
    with tab(browser) as opened:
        opened.page.set_viewport_size({"width": 420, "height": 900})
        opened.open(report)
        assert "tab-failures" not in opened.tabs()
        opened.show("tab-record")
        assert "failures" in opened.text().partition("Not part of this run: ")[2]
        opened.show("tab-source")
        narrow = opened.page.evaluate(
            "[...document.querySelectorAll('.diff')]"
            ".flatMap(d => [...d.children].map(s => d.scrollWidth - s.clientWidth))"
        )
        assert narrow
        assert max(narrow) <= 30
        said = opened.text()
        assert "Refused edits" in said
        assert re.search(r"Operators refused \d+ of \d+ edits of the source as given", said)
        rows = opened.page.query_selector_all("#panel-source table:last-of-type tbody tr")
        assert any("reverse" in row.inner_text() for row in rows)
        opened.open(failing)
        assert "Refused edits" not in opened.page.inner_text("body")


def test_trials_are_sorted_filtered_and_taken_apart(browser: Any, failing: str) -> None:
    """A person finds the best, the failed, what a trial was, and which one the pointer is at."""
    with tab(browser) as opened:
        page = opened.page
        opened.open(failing)
        opened.show("tab-progress")
        box = page.query_selector("#panel-progress canvas").bounding_box()
        said = set()
        for step in range(20):
            page.mouse.move(box["x"] + 80 + 30 * step, box["y"] + 60 + 9 * step)
            page.evaluate(STILL)
            said.add(page.inner_text("#panel-progress .readout >> nth=0")[:6])
        assert "Trial " in said
        opened.show("tab-trials")
        page.click("#panel-trials button[data-key=speed]")
        assert page.get_attribute("#panel-trials th[aria-sort]", "aria-sort") == "descending"
        speeds = [
            float(cell.inner_text().rstrip("×"))
            for cell in page.query_selector_all("#panel-trials tbody td:nth-child(3)")
            if cell.inner_text() != "–"
        ]
        assert speeds == sorted(speeds, reverse=True)
        page.select_option("#panel-trials select", "crashed")
        rows = page.query_selector_all("#panel-trials tbody tr")
        assert rows
        assert all("crashed" in row.inner_text() for row in rows)
        page.select_option("#panel-trials select", "")
        page.fill("#panel-trials input", "layout=blocked")
        page.click("#panel-trials tbody tr >> nth=0")
        assert "blocked" in page.inner_text("#panel-trials .kv")


def test_numbers_at_the_ends_of_what_there_is(browser: Any, collected: str, tmp_path: Path) -> None:
    """As large, as small and as alike as a stranger's record may say: every tab still opens."""
    data = json.loads(collected)
    timed = [i for i, speed in enumerate(data["trials"]["speed"]) if speed is not None]
    data["trials"]["speed"][timed[0]], data["trials"]["speed"][timed[-1]] = 1.7e308, 1e-320
    data["controls"] = [[1e20, 1e20, 0], [1e20, 1e20, 0]]
    for row in data["finals"]["confirm"]:
        row["times_s"] = [0.0 for _ in row["times_s"]]
    target = tmp_path / "ends.html"
    target.write_text(page_of(data))
    with tab(browser) as opened:
        opened.open(target.as_uri())
        for name in opened.tabs():
            opened.show(name)


def test_hostile_texts_stay_texts(browser: Any, run: Path, tmp_path: Path) -> None:
    """Nothing runs, nothing is asked for, nothing of it becomes an element."""

    def change(kind: str, body: dict[str, Any]) -> dict[str, Any]:
        if kind == "start":
            body["name"] = HOSTILE
            body["environment"] = {**body["environment"], HOSTILE: HOSTILE}
            reason = {"message": HOSTILE, "count": 2, "function": HOSTILE, "loops": [HOSTILE]}
            body["refusals"] = {"tried": 3, "refused": 3, "reasons": [reason], "unread": {HOSTILE: HOSTILE}}
        if kind == "ask":
            body["proposals"] = [{**p, "origin": HOSTILE} for p in body["proposals"]]
        if kind == "trial":
            body["message"] = HOSTILE
        if kind == "variant" and body["made"] is not None:
            body["made"] = {**body["made"], "origin": HOSTILE}
        return body

    made.rewritten(run, tmp_path / "hostile.run", change)
    target = tmp_path / "hostile.html"
    write_report(tmp_path / "hostile.run", target)
    with tab(browser) as opened:
        opened.open(target.as_uri())
        for name in opened.tabs():
            opened.show(name)
        assert opened.page.query_selector_all("img, svg, iframe, object") == []
        assert opened.page.title() != "taken"
        assert opened.requests == [target.as_uri()]
        opened.show("tab-source")
        assert opened.text().count(HOSTILE) >= 5
        opened.show("tab-trials")
        opened.page.click("#panel-trials tbody tr >> nth=0")
        assert HOSTILE in opened.page.inner_text("#panel-trials .kv")
        # Even markup that came about could run nothing: the policy stands.
        opened.page.evaluate(
            "document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"window.ran = 1\">')"
        )
        opened.page.evaluate(STILL)
        assert opened.page.evaluate("window.ran") is None
        opened.said.clear()


def test_the_live_page_follows_a_run(browser: Any, run: Path, tmp_path: Path) -> None:
    """Trials come in while one looks, the chosen tab stays, and at the end the answer is there."""
    with RunRecord.read(run) as source:
        events = list(source.events())
    half = len(events) // 3
    record = made.rewritten(run, tmp_path / "live.run", lambda kind, body: body, first=half, close=False)
    server = ReportServer(Gallery(tmp_path), port=0)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        with tab(browser) as opened:
            page = opened.page
            opened.open(server.url)
            page.wait_for_selector("text=live: searching")
            opened.show("tab-trials")
            before = page.inner_text("#panel-trials caption")
            page.fill("#panel-trials input", "loop")
            filtered = page.inner_text("#panel-trials caption")
            with RunRecord.read(run) as source:
                for event in events[half:]:
                    blobs = {n: source.blob(n) for n in made._references(dict(event.body))}
                    record.append([Event(kind=event.kind, body=event.body, trial=event.trial)], blobs)
            page.wait_for_selector("text=this tab waits while you use it")
            assert page.inner_text("#panel-trials caption") == filtered
            assert page.input_value("#panel-trials input") == "loop"
            page.focus("#theme")
            page.wait_for_selector("text=the run has ended")
            assert page.get_attribute("#tab-trials", "aria-selected") == "true"
            assert page.inner_text("#panel-trials caption") != before
            opened.show("tab-answer")
            assert "confirmed" in opened.text()
            page.wait_for_selector("text=every decision stands")
            assert {r.split("/")[2] for r in opened.requests if r.startswith("http")} == {
                f"127.0.0.1:{server.port}"
            }
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
        record.close()


def of_parts(*names: str, say: str) -> str:
    """A function of the page's own scripts, which keep their names to themselves."""
    folder = files("tuner.report").joinpath("templates")
    parts = "\n".join(folder.joinpath(name).read_text(encoding="utf-8") for name in names)
    return f"given => {{ {parts}\nreturn {say}; }}"


def test_neighbours_on_an_axis_read_differently(browser: Any) -> None:
    """A front within a percent had the same label seven times."""
    said = of_parts("base.js", say="given.map(apart(given))")
    with tab(browser) as opened:
        assert opened.page.evaluate(said, [1.006, 1.008, 1.01]) == ["1.006", "1.008", "1.01"]
        assert opened.page.evaluate(said, [0, 0.5, 20]) == ["0", "0.5", "20"]
        assert opened.page.evaluate(said, [1, 1]) == ["1", "1"]


def test_what_workloads_were_and_missed_faults_stand_beside_the_answer(browser: Any) -> None:
    """It said of recordings that hidden sizes were among them, which they cannot have."""
    said = of_parts("base.js", "answer.js", say="sureCard(given).textContent")
    with tab(browser) as opened:
        for names, held in (
            (["n=8, given"], "on 1 workload."),
            (["n=8, given", "n=7, given, hidden", "n=8, scaled"], "hidden sizes and odd values among them."),
            (
                ["recording=1 n=8, given", "recording=1 n=8, perturbed"],
                ", recorded values with noise among them.",
            ),
        ):
            answer = {"workloads": names, "reference": "baseline"}
            assert held in opened.page.evaluate(said, {"answer": answer, "result": {}})
        answer = {"workloads": ["n=8, given"], "reference": "float64"}
        text = opened.page.evaluate(said, {"answer": answer, "result": {"warnings": ["zeros pass"]}})
        assert "The verification would miss faults: zeros pass." in text
