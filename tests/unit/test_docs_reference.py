"""Reference pages say what the code has, all of it and nothing else: commands, results, events, settings, statuses."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import pytest
from pages import ROOT

import tuner
from tuner.cli.library_reference import reference as library_reference
from tuner.cli.reference import reference
from tuner.core.types import Status
from tuner.driver.applications.applying import Applied, applied_json
from tuner.driver.applications.applying import Comparison as ApplicationComparison
from tuner.driver.applications.in_place import Origin
from tuner.driver.applications.listing import Listing
from tuner.driver.applications.recorded_specs import RecordReport
from tuner.driver.audit import AuditReport
from tuner.driver.check import CheckReport
from tuner.driver.doctor import Finding
from tuner.driver.faults import FaultReport
from tuner.driver.outcome.devices import DeviceShare
from tuner.driver.outcome.export import Exported, ExportedFile
from tuner.driver.outcome.result import CLAIMS, STOPS, Correspondence, Lineage, Summary
from tuner.driver.outcome.savings import Savings
from tuner.driver.plan.ablation import Worth
from tuner.driver.plan.comparison import Comparison
from tuner.driver.state.fold import KINDS
from tuner.driver.state.objectives import FrontPoint
from tuner.driver.state.settings import Evolution, Llm, RunSettings, Shared
from tuner.search.recipes import recipes_for
from tuner.search.registry import BUILT_IN
from tuner.spaces.source.operators import OPERATORS
from tuner.spec.json_schema import schema, titled

PAGE = (ROOT / "docs" / "run-record.md").read_text()


def section(title: str) -> str:
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def named(text: str) -> set[str]:
    return set(re.findall(r"`(\w+)`", text))


def first_column(text: str) -> set[str]:
    return {n for line in text.splitlines() if line.startswith("| `") for n in named(line.split("|")[1])}


def keys(written_by: Callable[..., Any]) -> set[str]:
    return set(re.findall(r'"(\w+)"(?::|\] =)', inspect.getsource(written_by)))


def test_the_commands_reference_is_current() -> None:
    assert (ROOT / "docs" / "commands.md").read_text() == reference(), (
        "python -m tuner.cli.reference > docs/commands.md"
    )


def test_the_python_reference_is_current_and_whole() -> None:
    """Every exported name has a section, and every argument a meaning."""
    page = (ROOT / "docs" / "python.md").read_text()
    assert page == library_reference(), "python -m tuner.cli.library_reference > docs/python.md"
    sections = set(re.findall(r"^## (\w+)$", page, re.MULTILINE))
    assert set(tuner.__all__) - {"TunerError"} == sections - {"Errors"}
    assert [line for line in page.splitlines() if re.match(r"\| `.*\|\s*\|$", line)] == []


@pytest.mark.parametrize(
    "kind", [Summary, Lineage, Correspondence, Savings, DeviceShare, Worth, Comparison, FrontPoint]
)
def test_fields_of_results_are_on_their_page(kind: Any) -> None:
    assert keys(kind.to_json) - named(section("The result")) == set()


@pytest.mark.parametrize(
    "written_by",
    [
        *(CheckReport.to_json, FaultReport.to_json, AuditReport.to_json, Finding.to_json, Listing.to_json),
        *(RecordReport.to_json, ApplicationComparison.to_json, Applied.to_json, Origin.to_json, applied_json),
        *(Exported.to_json, ExportedFile.to_json),
    ],
)
def test_fields_of_other_commands_are_on_the_page(written_by: Callable[..., Any]) -> None:
    said = named(section("What other commands print")) | {"schema_version", "value", "ci95"}
    assert keys(written_by) - said == set()


def test_only_fields_that_results_have_are_on_their_page() -> None:
    inside_others = {"variant", "trial", "configuration", "value", "ci95", "tried", "compile_s"}
    assert first_column(section("The result")) == keys(Summary.to_json) - inside_others
    assert set(CLAIMS) <= named(section("The result"))
    assert first_column(section("Why a search ends")) == {"stopped_by", *STOPS}


def test_operators_and_recipes_are_on_their_page() -> None:
    page = (ROOT / "docs" / "source-variants.md").read_text()
    recipes = {name for language in ("c", "opencl", "cuda") for name in recipes_for(language, openmp=True)}
    assert set(OPERATORS) | recipes <= first_column(page)


def test_searchers_are_on_their_page() -> None:
    assert set(BUILT_IN) <= {
        name
        for line in (ROOT / "docs" / "searching.md").read_text().splitlines()
        if line.startswith("| `")
        for name in re.findall(r"`([\w-]+)`", line.split("|")[1])
    }


def test_events_and_statuses_are_on_their_page() -> None:
    assert first_column(section("The record")) == KINDS
    assert first_column(section("Statuses of trials")) == {status.value for status in Status}


def test_settings_are_on_their_page() -> None:
    parts = section("Settings").split("\nIn `")
    for part, kind in zip(parts, (RunSettings, Evolution, Llm), strict=False):
        assert first_column(part) == {f.name for f in fields(kind)}
    assert {f.name for f in fields(Shared)} <= named(parts[3])


def test_every_key_of_a_spec_is_on_its_page_with_what_it_means() -> None:
    """Also those of mappings that have a short form: of a range, of passes, of an argument's initial values."""
    page = (ROOT / "docs" / "spec.md").read_text()
    for part, written in titled(schema()["$defs"]).items():
        table = page.partition(f"\n## {part}\n")[2].partition("\n## ")[0]
        assert first_column(table) == set(written["properties"]), part
    for key in ("low", "log", "macro", "max_edits", "randint", "python"):
        (row,) = [line for line in page.splitlines() if line.startswith(f"| `{key}` ")][-1:]
        assert len(row.split("|")[4].strip()) > 10, row
