"""The report under axe-core, the checker that accessibility reviews use: every tab, light and wide, dark and narrow."""

from __future__ import annotations

import os
from importlib import resources
from pathlib import Path
from typing import Any

import made_runs as made
import needs
import pytest

from tuner.report import write_report

pytestmark = needs.chromium

GRAVE = ("serious", "critical")


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """One run with variants, passes and what each is worth; one with failures, where its tabs have something else."""
    folder = tmp_path_factory.mktemp("accessible")
    evolved = made.simulated_run(folder / "evolved", evolve=True, evaluations=8)
    runs = [evolved, made.made_run(folder / "made", 30, few=True).path]
    targets = []
    for number, run in enumerate(runs):
        targets.append(folder / f"{number}.html")
        write_report(Path(run), targets[-1])
    return [target.as_uri() for target in targets]


# Each theme, each width and each run once; the contrast of each pair of colours is computed by test_report_browser.py.
@pytest.mark.parametrize(("scheme", "width", "run"), [("light", 1280, 0), ("dark", 380, 1)])
def test_no_grave_violation(reports: list[str], scheme: str, width: int, run: int) -> None:
    from playwright.sync_api import sync_playwright

    checker = resources.files("axe_playwright_python").joinpath("axe.min.js").read_text()
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    found: list[tuple[Any, ...]] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=needs.CHROMIUM, args=arguments)
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        page = context.new_page()
        page.goto(reports[run])
        page.wait_for_selector("[role=tabpanel]:not([hidden]) > *")
        page.evaluate(checker)
        tabs = [t.get_attribute("id") for t in page.query_selector_all("[role=tab]")]
        assert len(tabs) > 4
        for number, tab in enumerate(tabs):
            panel = f"#panel-{str(tab).removeprefix('tab-')}"
            page.click(f"#{tab}")
            page.wait_for_selector(f"{panel}:not([hidden]) > *")
            # What is around the panels is the same for all; nodes are described in full for violations alone.
            where = f"'{panel}'" if number else "document"
            result = page.evaluate(f"axe.run({where}, {{resultTypes: ['violations']}})")
            assert len(result["passes"]) > (1 if number else 5)
            found += [
                (tab, v["id"], v["nodes"][0]["html"]) for v in result["violations"] if v["impact"] in GRAVE
            ]
        browser.close()
    assert found == []
