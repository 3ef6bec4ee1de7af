"""The report under axe-core, the checker that accessibility reviews use: every tab, both themes, wide and narrow."""

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
    """One run with variants, passes and what each is worth; one with failures of three kinds."""
    folder = tmp_path_factory.mktemp("accessible")
    runs = [made.simulated_run(folder / "evolved", evolve=True), made.made_run(folder / "made", 200).path]
    targets = []
    for number, run in enumerate(runs):
        targets.append(folder / f"{number}.html")
        write_report(Path(run), targets[-1])
    return [target.as_uri() for target in targets]


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 1280), ("light", 380)])
def test_no_grave_violation(reports: list[str], scheme: str, width: int) -> None:
    from playwright.sync_api import sync_playwright

    checker = resources.files("axe_playwright_python").joinpath("axe.min.js").read_text()
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    found: list[tuple[Any, ...]] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=needs.CHROMIUM, args=arguments)
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        for address in reports:
            page = context.new_page()
            page.goto(address)
            page.wait_for_selector("[role=tabpanel]:not([hidden]) > *")
            page.evaluate(checker)
            tabs = [t.get_attribute("id") for t in page.query_selector_all("[role=tab]")]
            assert len(tabs) > 4
            for tab in tabs:
                page.click(f"#{tab}")
                page.wait_for_selector(f"#panel-{str(tab).removeprefix('tab-')}:not([hidden]) > *")
                result = page.evaluate("axe.run(document)")
                assert len(result["passes"]) > 5
                found += [
                    (tab, v["id"], v["nodes"][0]["html"])
                    for v in result["violations"]
                    if v["impact"] in GRAVE
                ]
        browser.close()
    assert found == []
