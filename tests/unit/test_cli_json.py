"""What commands print for programs: one object with its version, whose files and runs are those that are there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import typer.main
from applications import with_library
from commands import run_tuner

from tuner.cli.main import app

KERNEL = """
#ifndef ROUNDS
#define ROUNDS 1
#endif
void tuner_work(long long ns);
void scale(int n, float *y) {
    if (ROUNDS > 1) tuner_work(ROUNDS);
    for (int i = 0; i < n; i++) y[i] += 1;
}
"""

SPEC = """\
kernel: {source: scale.c, entry: scale}
problem: {n: 64}
arguments:
  - {name: n, dtype: int32, value: n}
  - {name: y, dtype: float32, shape: [n], role: inout}
space: {parameters: {ROUNDS: [300000, 1]}, passes: off}
search: {strategy: exhaustive, budget: {evaluations: 2}}
"""

MAIN = """
void scale(int, float *);
int printf(const char *, ...);
float y[64];
int main(int count, char **words) {
    scale(64, y);
    printf("%g\\n", (double)y[0]);
    return count - 1;
}
"""

TRIED = {"tune", "check", "confirm", "replay", "show", "list", "export", "doctor", "record", "apply", "ab"}


def printed(*words: object, status: int = 0) -> dict[str, Any]:
    """The object that a command prints, and nothing else."""
    done = run_tuner(*words)
    assert done.returncode == status, done.stderr
    (line,) = done.stdout.splitlines()
    value = json.loads(line)
    assert value["schema_version"] == 1
    assert isinstance(value, dict)
    return value


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A kernel, its spec, an application that calls it, and a run that gains."""
    made = tmp_path_factory.mktemp("json")
    (made / "scale.c").write_text(KERNEL)
    (made / "scale.yaml").write_text(SPEC)
    (made / "main.c").write_text(MAIN)
    with_library(made, "scale.c")
    result = printed("tune", made / "scale.yaml", "--out", made / "runs", "--no-library", "--json")
    assert result["improved"], result
    return made


@pytest.fixture
def run(folder: Path) -> Path:
    """Its record."""
    (path,) = (folder / "runs").glob("*.run")
    return path


def test_every_command_that_prints_json_is_tried_here() -> None:
    group = typer.main.get_command(app)
    commands: dict[str, Any] = group.commands  # type: ignore[attr-defined]
    assert {name for name, one in commands.items() if any("--json" in p.opts for p in one.params)} == TRIED


@pytest.mark.integration
def test_lists_have_a_version_at_their_top(tmp_path: Path) -> None:
    body = "{ for (int i = 0; i < n; i++) b[i] = A * a[i] / A; }\n"
    for name in ("one", "two"):
        (tmp_path / f"{name}.c").write_text(f"void {name}(const float *a, float *b, int n) {body}")
    both = tmp_path / "both.yaml"
    both.write_text(
        "kernels:\n" + "".join(f"- {{{NAMED.format(entry=entry)}}}\n" for entry in ("one", "two"))
    )
    runs = printed("tune", both, "--evaluations", 1, "--no-library", "--out", tmp_path / "runs", "--json")
    assert [one["schema_version"] for one in runs["runs"]] == [1, 1]
    listed = printed("list", "--out", tmp_path / "runs", "--json")
    assert {one["run"] for one in listed["runs"]} == {one["run"] for one in runs["runs"]}
    checks = printed("check", both, "--no-faults", "--json")["checks"]
    assert [(one["schema_version"], one["kernel"]) for one in checks] == [(1, "one"), (1, "two")]


NAMED = (
    "kernel: {{source: {entry}.c, entry: {entry}}}, problem: {{n: 64}}, "
    "space: {{parameters: {{A: [1, 2]}}, passes: off}}, arguments: [{{name: a, dtype: float32, shape: [n]}}, "
    "{{name: b, dtype: float32, shape: [n], role: output}}, {{name: n, dtype: int32, value: n}}]"
)


@pytest.mark.integration
def test_objects_of_single_commands_have_it_too(folder: Path, run: Path) -> None:
    assert printed("check", folder / "scale.yaml", "--no-faults", "--json")["ok"]
    assert printed("show", run, "--json")["run"] == str(run)
    assert printed("replay", run, "--json")["clean"]
    assert printed("confirm", run, "--json")["claim"] == "improved"
    assert printed("doctor", "--json")["findings"]
    assert printed("record", "--json", folder / "scale.yaml", "--", folder / "app")["recordings"]


@pytest.mark.integration
def test_an_export_says_what_it_wrote_of_which_run(run: Path, tmp_path: Path) -> None:
    value = printed("export", run, "-o", tmp_path / "build", "--json")
    assert (value["run"], value["kernel"], value["claim"]) == (str(run), "scale", "improved")
    assert value["speedup"]["ci95"][0] > 1
    assert value["trial"] == 1
    files = {one["kind"]: Path(one["path"]) for one in value["files"]}
    assert set(files) == {"object", "source", "wisdom", "result", "pipeline", "script"}
    assert set(files.values()) == set((tmp_path / "build").iterdir())
    assert files["object"].read_bytes()[:4] == b"\x7fELF"


@pytest.mark.integration
def test_apply_says_what_became_of_each_winner_and_of_the_application(
    free_lane: None, folder: Path, run: Path
) -> None:
    """Its status is the application's, and what that prints goes elsewhere."""
    value = printed("apply", run, "--json", "--", folder / "app", "x", "y", status=2)
    assert (value["status"], value["replaced"], value["left"], value["problems"]) == (2, 1, 0, [])
    (winner,) = value["winners"]
    assert (winner["kernel"], winner["replaced"], winner["why"]) == ("scale", 1, "")
    assert (winner["run"], winner["claim"]) == (str(run), "improved")
    assert winner["speedup"]["ci95"][0] > 1
    compared = printed("ab", run, "--pairs", 4, "--json", "--", folder / "app")
    assert compared["winners"][0]["run"] == str(run)


@pytest.mark.integration
def test_apply_without_json_leaves_the_output_to_the_application(folder: Path, run: Path) -> None:
    done = run_tuner("apply", run, "--", folder / "app")
    assert (done.returncode, done.stdout) == (0, "1\n")
    assert "1 calls with the winner in place" in done.stderr


@pytest.mark.integration
def test_apply_says_how_the_application_ended_also_where_nothing_was_put_in_place(run: Path) -> None:
    """The application has run, so its status is told; the command's own says that nothing was done."""
    done = run_tuner("apply", run, "--json", "--", "false")
    assert done.returncode == 2
    value = json.loads(done.stdout)
    assert (value["status"], value["replaced"], value["left"]) == (1, 0, 0)
    (winner,) = value["winners"]
    assert "never called scale" in winner["why"]
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: the winner was not put in place")
    assert run_tuner("apply", run, "--", "true").stdout == ""


@pytest.mark.integration
def test_a_kernel_that_does_not_compile_is_an_object_too(tmp_path: Path) -> None:
    """Its spec cannot be read to the end, so there is no run; a program gets the same answer as of one that fails."""
    (tmp_path / "scale.c").write_text(KERNEL + "this is not C\n")
    spec = tmp_path / "scale.yaml"
    spec.write_text(SPEC)
    good = tmp_path / "good" / "scale.yaml"
    good.parent.mkdir()
    good.write_text(SPEC)
    good.with_suffix(".c").write_text(KERNEL)
    value = printed("tune", good, spec, "--out", tmp_path / "runs", "--json", status=3)
    assert (value["run"], value["improved"], value["stopped_by"]) == (None, False, "baseline")
    assert value["baseline"] == {"time_s": None, "ci95": [None, None]}
    assert "does not compile" in value["message"]
    value = printed("check", spec, "--json", status=3)
    assert (value["kernel"], value["ok"]) == (None, False)
    assert "does not compile" in value["message"]
    assert not (tmp_path / "runs").exists()


@pytest.mark.integration
def test_failures_are_one_line_and_no_json(folder: Path, tmp_path: Path) -> None:
    """Of a file that is no record, one that is cut off, a folder without runs, and a run without a gain."""
    (whole,) = (folder / "runs").glob("*.run")
    (tmp_path / "text.run").write_text("hello")
    (tmp_path / "cut.run").write_bytes(whole.read_bytes()[:9000])
    (tmp_path / "none").mkdir()
    for command, name in (
        ("show", "text.run"),
        ("export", "cut.run"),
        ("apply", "none"),
        ("ab", "missing.run"),
    ):
        more = {"show": (), "export": ("-o", tmp_path / "build")}.get(command, ("--", folder / "app"))
        done = run_tuner(command, tmp_path / name, "--json", *more)
        assert (done.returncode, done.stdout) == (2, ""), (command, name)
        (line,) = done.stderr.splitlines()
        assert line.startswith("error: "), (command, name)
    assert printed("list", "--out", tmp_path, "--json")["runs"] == []
    assert printed("replay", tmp_path / "cut.run", "--json", status=4)["clean"] is False
