"""Applications built from their sources with runs' winners in them, in copies of their folder."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import needs
import pytest
from loops_with_winners import LINES, PROGRAM, Cost, cost, run_of

from tuner.core.errors import FullDiskError, TunerError, UsageError
from tuner.core.types import Resolved, Variant
from tuner.driver.applications.builds import PLAIN, build_in, tree_with
from tuner.driver.applications.rebuilding import Rebuilt, compare_built, patched
from tuner.driver.applications.trees import Tree
from tuner.driver.options import Options
from tuner.driver.runs import begin
from tuner.spec.load import load_spec
from tuner.testing import SimulatedBackend


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, tuple[Path, ...]]:
    """An application's folder, and runs of two of its loops."""
    folder = tmp_path_factory.mktemp("application") / "app"
    folder.mkdir()
    (folder / "app.c").write_text(PROGRAM)
    return folder, tuple(run_of(folder, line) for line in LINES)


def application(
    folder: Path, *, build: str = "", command: Sequence[str] = ("./app",), **more: object
) -> Rebuilt:
    made = {"build": build or f"cc -O1 {folder}/app.c -o {folder}/app", "here": folder, **more}
    return Rebuilt(folder=folder, command=tuple(command), **made)  # type: ignore[arg-type]


@needs.cc
@needs.namespaces
@pytest.mark.usefixtures("free_lane")
@pytest.mark.integration
def test_both_builds_run_and_the_folder_stays_as_it_is(made: tuple[Path, tuple[Path, ...]]) -> None:
    folder, runs = made
    before = sorted(folder.iterdir())
    said: list[str] = []
    found = compare_built(runs, application(folder), pairs=4, note=said.append)
    assert sorted(folder.iterdir()) == before
    assert (folder / "app.c").read_text() == PROGRAM
    assert [kernel for kernel, _ in found.kernels] == ["main_loop13", "main_loop18"]
    assert found.files == ("app.c",)
    assert len(found.plain_s) == len(found.winner_s) == 4
    assert found.to_json()["speedup"]["ci95"][0] <= found.speedup[0]
    assert [line for line in said if line.startswith("building")] == [
        "building it as it is",
        "building it with the winners",
    ]
    notes = said[2 : said.index(next(line for line in said if line.startswith("pair 1")))]
    clang = "the run of main_loop{} was tuned under clang -O3 -march=native: set compiler: cc -O1 in the spec"
    wanted = [f"the build compiles app.c by cc -O1, {clang.format(line)}" for line in LINES]
    assert [note for note in notes if note.startswith("the build")] == wanted


@needs.cc
@needs.namespaces
@pytest.mark.usefixtures("free_lane")
@pytest.mark.integration
def test_flags_of_a_winner_that_the_build_has_not_are_told(
    made: tuple[Path, tuple[Path, ...]], tmp_path: Path
) -> None:
    folder, _ = made

    def wide(variant: Variant, resolved: Resolved) -> float:
        return cost(variant, resolved) * (0.5 if "-mprefer-vector-width=512" in resolved.flags else 1)

    run, said = run_of(folder, LINES[0], wide, evaluations=48, name="wide"), list[str]()
    compare_built([run], application(folder), pairs=4, note=said.append)
    wanted = "the winner of main_loop13 has -mprefer-vector-width=512, which the build has not: add it there"
    assert any(line.startswith(wanted) for line in said), said
    build = f"cc -O1 -mprefer-vector-width=512 {folder}/app.c -o {folder}/app"
    said.clear()
    compare_built([run], application(folder, build=build), pairs=4, note=said.append)
    assert not any(line.startswith("the winner") for line in said), said


@pytest.mark.integration
def test_winners_of_one_file_go_into_it_together(made: tuple[Path, tuple[Path, ...]], tmp_path: Path) -> None:
    folder, runs = made
    texts, kernels = patched(runs, folder)
    (text,) = texts.values()
    one = patched(runs[:1], folder)[0]["app.c"]
    other = patched(runs[1:], folder)[0]["app.c"]
    assert len(kernels) == 2
    assert {*one.splitlines(), *other.splitlines()} >= set(text.splitlines())
    assert set(text.splitlines()) - set(PROGRAM.splitlines()) == (
        {*one.splitlines(), *other.splitlines()} - set(PROGRAM.splitlines())
    )
    with pytest.raises(UsageError, match="two winners change line"):
        patched([runs[0], run_like(runs[0], folder, tmp_path)], folder)
    # Line ends and the place are the application's own.
    far = tmp_path / "src" / "deep"
    far.mkdir(parents=True)
    (far / "app.c").write_bytes(PROGRAM.replace("\n", "\r\n").encode())
    moved = patched(runs[:1], tmp_path)[0]
    assert moved == {"src/deep/app.c": one.replace("\n", "\r\n")}
    (far / "app.c").write_text(PROGRAM.replace("3;", "4;"))
    with pytest.raises(UsageError, match=r"no app\.c below .* has the text that .* was made of"):
        patched(runs[:1], tmp_path)


@needs.cc
@pytest.mark.integration
def test_tunables_of_one_name_are_each_winner_s_own(
    made: tuple[Path, tuple[Path, ...]], tmp_path: Path
) -> None:
    folder, _ = made

    def tiled(sign: int) -> Cost:
        def cost(variant: Variant, resolved: Resolved) -> float:
            tiles = [value for name, value in resolved.macros.items() if name.startswith("TILE_I")]
            return 0.5 + sign * float(tiles[0]) / 1000 if tiles else 1.0

        return cost

    runs = [
        run_of(folder, line, tiled(sign), evaluations=40, name="tiled")
        for line, sign in zip(LINES, (1, -1), strict=True)
    ]
    # Whatever else a winner tiles.
    defined = re.compile(r"#define TILE_I(?:_\d)? (\d+)")
    values = [defined.findall(patched([run], folder)[0]["app.c"]) for run in runs]
    assert values[0] != values[1]
    text = patched(runs, folder)[0]["app.c"]
    assert sorted(defined.findall(text)) == sorted([*values[0], *values[1]])
    (tmp_path / "app.c").write_text(text)
    subprocess.run(["cc", "-Werror", "app.c", "-o", "app"], cwd=tmp_path, check=True)
    assert subprocess.run([tmp_path / "app"], capture_output=True, check=False).returncode == 3


def run_like(run: Path, folder: Path, scratch: Path) -> Path:
    """A run of the same loop whose winner is another."""

    def other(variant: Variant, resolved: Resolved) -> float:
        return 0.5 if [edit["op"] for edit in variant.edits if edit["op"] != "configure"] == ["tile"] else 1.0

    (loaded,) = load_spec(folder / f"{run.stem}.yaml")
    backend = SimulatedBackend(seconds=lambda _: 1e-3, of_variant=other)
    options = Options(
        seed=1, workers=1, evaluations=24, settings={"choose_processes": 2, "confirm_processes": 4}
    )
    result = begin(loaded, scratch / "other.run", options, backend=backend)
    assert result.summary.improved
    return result.path


@needs.cc
@needs.namespaces
@pytest.mark.usefixtures("free_lane")
@pytest.mark.integration
@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"build": "echo broken >&2; exit 7"}, "fails as it is with status 7: broken"),
        ({"command": ("sh", "-c", "echo $$")}, "sh as it is, run again, prints something else: line 1 is"),
        ({"command": ("./absent",)}, "'./absent' cannot be run: No such file"),
        ({"check": "grep -q absent"}, "'grep -q absent' refuses a run with status 1"),
        (
            {"command": ("sh", "-c", "cksum app.c")},
            "with the winners prints something else: line 1 is",
        ),
        (
            {"command": ("sh", "-c", "exit $(($(cksum < app.c | cut -d' ' -f1) % 199))")},
            "with the winners ends with status",
        ),
    ],
)
def test_programs_that_cannot_be_compared_are_one_line_each(
    more: dict[str, object], said: str, made: tuple[Path, tuple[Path, ...]]
) -> None:
    folder, runs = made
    with pytest.raises(TunerError) as refused:
        compare_built(runs, application(folder, **more), pairs=4)  # type: ignore[arg-type]
    assert said in refused.value.message
    assert "\n" not in refused.value.message


@needs.cc
@needs.namespaces
@pytest.mark.usefixtures("free_lane")
@pytest.mark.integration
def test_numbers_may_differ_as_far_as_is_said(made: tuple[Path, tuple[Path, ...]]) -> None:
    folder, runs = made
    command = ("sh", "-c", "echo sum 1.000$(cksum < app.c | cut -d' ' -f1)")
    with pytest.raises(UsageError, match="prints something else"):
        compare_built(runs, application(folder, command=command), pairs=4)
    assert compare_built(runs, application(folder, command=command, rtol=1e-2), pairs=4).files
    # However many blanks stand before them.
    wide = "printf 'sum %*d\\n' $(($(cksum < app.c | cut -d' ' -f1) % 997 + 3)) 1"
    assert compare_built(runs, application(folder, command=("sh", "-c", wide), rtol=1e-2), pairs=4).files
    notes: list[str] = []
    timed = application(folder, command=("sh", "-c", "echo took $(date +%N) ns; ./app"))
    assert compare_built(runs, timed, pairs=4, note=notes.append).files
    assert "differs from run to run by itself, so * is not compared: took * ns" in notes
    # Two runs may print one time by chance.
    seldom = application(folder, command=("sh", "-c", "echo >> n; echo took $(($(wc -l < n) / 3)) ns"))
    assert compare_built(runs, seldom, pairs=4).files
    judged = application(folder, command=("sh", "-c", "echo $$; cat app.c"), check="tail -n +2 | cmp - app.c")
    assert compare_built(runs, judged, pairs=4).files


@needs.namespaces
def test_a_tree_stands_at_its_folders_path(tmp_path: Path) -> None:
    folder, scratch = tmp_path / "own", tmp_path / "scratch"
    (folder / "below").mkdir(parents=True)
    (folder / ".git").mkdir()
    (folder / "text").write_text("given")
    scratch.mkdir()
    with Tree(folder, scratch) as tree:
        assert tree.run(["cat", str(folder / "text")]).output == b"given"
        written = tree.run(
            ["sh", "-c", f"pwd; echo made > {folder}/new; rm text; ls -A"], folder=folder / "below"
        )
        assert written.output.split(b"\n")[0] == str(folder / "below").encode()
        assert tree.run(["ls", "-A"]).output == b"below\nnew\ntext\n"
        assert (tree.run(["sh", "-c", "kill -9 $$"]).status, tree.run(["false"]).status) == (-9, 1)
        with pytest.raises(UsageError, match="'nothing' cannot be run"):
            tree.run(["nothing"])
        assert tree.run(["id", "-u"]).output == f"{os.getuid()}\n".encode()
    assert sorted(path.name for path in folder.iterdir()) == [".git", "below", "text"]


@needs.namespaces
def test_what_lies_beside_a_tree_stays_as_it_is_but_for_caches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("own", "out", ".cache", "tmp/scratch"):
        (tmp_path / name).mkdir(parents=True)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    with Tree(tmp_path / "own", tmp_path / "tmp" / "scratch") as tree:
        for place in (".", "../.cache", "../tmp"):
            assert tree.run(["touch", f"{place}/made"]).status == 0
        refused = tree.run(["touch", "../out/made"])
    assert (refused.status, b"Read-only" in refused.errors) == (1, True)
    assert (tmp_path / ".cache" / "made").exists()
    assert not (tmp_path / "out" / "made").exists()


@needs.namespaces
def test_a_build_that_finds_no_room_ends_what_follows(tmp_path: Path) -> None:
    folder = tmp_path / "own"
    folder.mkdir()
    full = application(folder, build="echo 'as: No space left on device' >&2; exit 1")
    with (
        tree_with(full, tmp_path / "copy", {}) as tree,
        pytest.raises(FullDiskError, match="disk is full; make"),
    ):
        build_in(tree, full, PLAIN)


def test_options_of_builds_need_a_build(tmp_path: Path) -> None:
    from typer.testing import CliRunner

    from tuner.cli.main import app

    done = CliRunner().invoke(app, ["ab", str(tmp_path / "a.run"), "--rtol", "0.1", "--", "true"])
    assert isinstance(done.exception, UsageError)
    assert done.exception.message == "--tree, --rtol and --check go with --build"
