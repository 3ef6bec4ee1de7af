"""First specs of functions whose project defines in other files what they call."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tuner.driver.check import check_spec
from tuner.spec.first.init import first_spec
from tuner.spec.load import load_spec

KERNEL = """\
#include "part.h"
extern int shift;
static double unrelated(double x) { return elsewhere(x); }
void k(double *x, int n) { for (int i = 0; i < n; i++) x[i] = scale(x[i]) + shift; }
"""
PART = '#include "part.h"\nint shift = 3;\ndouble scale(double x) { return 2 * deeper(x); }\n'
HEADER = "double scale(double);\ndouble deeper(double);\ndouble elsewhere(double);\n"
DEEPER = "double deeper(double x) { return x + 1; }\nint main(void) { return 0; }\n"


def written(folder: Path, files: dict[str, str]) -> Path:
    """A project; its first file."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (folder / ".git").mkdir()
    return folder / next(iter(files))


def first(source: Path, entry: str = "k") -> tuple[dict[str, Any], str]:
    """The spec beside a source: its document and its text."""
    text = first_spec(source, entry=entry, folder=source.parent).text
    source.with_suffix(".yaml").write_text(text)
    return yaml.safe_load(text), text


@pytest.mark.integration
def test_callees_are_found_through_several_files(tmp_path: Path) -> None:
    source = written(
        tmp_path,
        {
            "src/k.c": KERNEL,
            "src/part.h": HEADER,
            "src/part.c": PART,
            "src/more/deeper.c": DEEPER,
            # Says its name, and does not define it.
            "src/a.c": '#include "part.h"\ndouble use(double x) { return scale(x); }\n',
        },
    )
    spec, _ = first(source)
    assert spec["kernel"]["sources"] == ["part.c", "more/deeper.c"]
    (loaded,) = load_spec(source.with_suffix(".yaml"))
    report = check_spec(loaded, faults=False)
    assert report.ok, report.lines


@pytest.mark.integration
def test_names_of_cpp_and_headers_of_what_is_found(tmp_path: Path) -> None:
    source = written(
        tmp_path,
        {
            "src/k.cpp": (
                'namespace q { double scale(double); }\nextern "C" double plain(double);\n'
                "namespace q { void k(double *x, int n) { for (int i = 0; i < n; i++) x[i] = plain(scale(x[i])); } }\n"
            ),
            "src/scale.cpp": '#include "settings.h"\nnamespace q { double scale(double x) { return FACTOR * x; } }\n',
            "src/other.cpp": "namespace p { double scale(double x) { return x; } }\n",
            "src/plain.c": "double plain(double x) { return x + 1; }\n",
            "headers/settings.h": "#define FACTOR 2\n",
        },
    )
    spec, _ = first(source)
    assert spec["kernel"]["sources"] == ["scale.cpp", "plain.c"]
    assert spec["kernel"]["include"] == ["../headers"]
    (loaded,) = load_spec(source.with_suffix(".yaml"))
    assert check_spec(loaded, faults=False).ok


@pytest.mark.parametrize(
    ("others", "sources", "says"),
    [
        (
            {"part.c": PART, "slow.c": PART, "deeper.c": DEEPER},
            None,
            "# check: scale is defined in part.c and slow.c: add the one that is built to sources",
        ),
        # With one of two that cannot stand beside the kernel there is no choice.
        (
            {"part.c": PART, "slow.c": PART + "void k(double *x, int n) {}\n", "deeper.c": DEEPER},
            ["part.c", "deeper.c"],
            "",
        ),
        (
            {"part.c": PART, "deeper.c": DEEPER + "double scale(double x) { return x; }\n"},
            ["part.c"],
            "# check: deeper is defined in deeper.c, which defines scale a second time: put it into another file",
        ),
        (
            {"part.c": PART, "deeper.c": "#error not here\n" + DEEPER},
            ["part.c"],
            "# check: deeper may be defined in deeper.c, which does not compile by itself",
        ),
        # Another program of the repository has a function of that name.
        ({"Makefile": "", "part.c": PART, "../tool/deeper.c": DEEPER}, ["part.c"], ""),
    ],
)
def test_ambiguous_definitions_are_reported(
    others: dict[str, str], sources: list[str] | None, says: str, tmp_path: Path
) -> None:
    files = {
        "src/k.c": KERNEL,
        "src/part.h": HEADER,
        **{f"src/{name}": text for name, text in others.items()},
    }
    spec, text = first(written(tmp_path, files))
    assert spec["kernel"].get("sources") == sources
    assert says in text
    assert says or "# check: deeper" not in text


@pytest.mark.integration
def test_members_that_functions_of_other_files_use_are_listed(tmp_path: Path) -> None:
    source = written(
        tmp_path,
        {
            "k.c": (
                '#include "grid.h"\nvoid k(struct grid *g) { prepare(g); '
                "for (int i = 0; i < g->n; i++) g->u[i] *= g->factor; }\n"
            ),
            "grid.h": "struct grid { int n; double *u, *v; double factor, start; };\nvoid prepare(struct grid *);\n",
            "grid.c": (
                '#include "grid.h"\nstatic double begin(struct grid *g) { return g->start; }\n'
                "void prepare(struct grid *g) { g->factor = begin(g) + g->v[0]; }\n"
            ),
        },
    )
    spec, text = first(source)
    assert spec["kernel"]["sources"] == ["grid.c"]
    assert {m["name"] for m in spec["arguments"][0]["members"]} == {"n", "u", "v", "factor", "start"}
    (loaded,) = load_spec(source.with_suffix(".yaml"))
    assert check_spec(loaded, faults=False).ok
    # A spec that leaves one out is told, whatever file uses it.
    source.with_suffix(".yaml").write_text(
        "".join(x for x in text.splitlines(True) if "name: start" not in x)
    )
    (loaded,) = load_spec(source.with_suffix(".yaml"))
    assert any("g.start is used by k and not listed" in notice for notice in loaded.notices)
