"""Reference pages say what the code has, all of it and nothing else: commands, results, events, settings, statuses."""

from __future__ import annotations

import ast
import re
import runpy
from dataclasses import fields
from functools import cache

import pytest
from pages import ROOT

import tuner
from tuner.core.types import Status
from tuner.driver.outcome.result import CLAIMS, STOPS
from tuner.driver.state.fold import KINDS
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


@cache
def definitions() -> dict[str, str]:
    """The text of each function of the driver, and of each class's ``to_json``, by name, wherever they stand.

    A name that several have is told apart by its folder.
    """
    found: dict[str, str] = {}
    for path in sorted((ROOT / "tuner" / "driver").rglob("*.py")):
        text = path.read_text()
        if not re.search(r"def (to_json|applied_json)\b", text):
            continue
        for node in ast.parse(text).body:
            inside = node.body if isinstance(node, ast.ClassDef) else [node]
            for each in inside:
                if isinstance(each, ast.FunctionDef) and (each is node or each.name == "to_json"):
                    name = node.name if isinstance(node, ast.ClassDef) else each.name
                    name = f"{path.parent.name}.{name}" if name == "Comparison" else name
                    found[name] = ast.get_source_segment(text, each) or ""
    return found


def keys(written_by: str) -> set[str]:
    return set(re.findall(r'"(\w+)"(?::|\] =)', definitions()[written_by]))


def printed(module: str, capsys: pytest.CaptureFixture[str]) -> str:
    """What ``python -m MODULE`` prints."""
    runpy.run_path(str(ROOT / f"{module.replace('.', '/')}.py"), run_name="__main__")
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("page", "module"),
    [
        ("commands", "tuner.cli.reference"),
        ("python", "tuner.cli.library_reference"),
        ("spec", "tuner.spec.reference"),
    ],
)
def test_references_are_current(page: str, module: str, capsys: pytest.CaptureFixture[str]) -> None:
    file = ROOT / "docs" / f"{page}.md"
    assert file.read_text() == printed(module, capsys), f"python -m {module} > docs/{page}.md"


def test_the_python_reference_is_whole() -> None:
    """Every exported name has a section, and every argument a meaning."""
    page = (ROOT / "docs" / "python.md").read_text()
    sections = set(re.findall(r"^## (\w+)$", page, re.MULTILINE))
    assert set(tuner.__all__) - {"TunerError", "__version__"} == sections - {"Errors"}
    assert [line for line in page.splitlines() if re.match(r"\| `.*\|\s*\|$", line)] == []


@pytest.mark.parametrize(
    "kind",
    [
        *("Summary", "Lineage", "Correspondence", "Savings", "DeviceShare", "Worth", "plan.Comparison"),
        "FrontPoint",
    ],
)
def test_fields_of_results_are_on_their_page(kind: str) -> None:
    assert keys(kind) - named(section("The result")) == set()


@pytest.mark.parametrize(
    "written_by",
    [
        *("CheckReport", "FaultReport", "AuditReport", "Finding", "Listing", "RecordReport"),
        *("applications.Comparison", "Applied", "Origin", "applied_json", "Exported", "ExportedFile"),
    ],
)
def test_fields_of_other_commands_are_on_the_page(written_by: str) -> None:
    said = named(section("What other commands print")) | {"schema_version", "value", "ci95"}
    assert keys(written_by) - said == set()


def test_only_fields_that_results_have_are_on_their_page() -> None:
    inside_others = {"variant", "trial", "configuration", "value", "ci95", "tried", "compile_s"}
    assert first_column(section("The result")) == keys("Summary") - inside_others
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
