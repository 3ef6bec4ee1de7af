"""Every message that a person may see says what happened and what to do; mistakes on the command line are one line."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
from commands import run_tuner

from tuner.core import errors

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("tuner", "search", "spaces", "evaluators", "recorders", "cost_models")
NAMES = {
    name for name in errors.__all__ if name.endswith("Error") and issubclass(getattr(errors, name), Exception)
}
JUSTIFIED = {
    "search/pass_arm.py": "caught by the searcher, which draws another edit",
    "recorders/recordings/calls.py": "a reason for not recording a call, shown in the listing of launches",
    "recorders/recordings/memory.py": "the same: what a call's structures lead to",
    "tuner/spec/foreign.py": "put into a message with a hint by the functions of the same file",
}
"""Files whose messages without a hint never reach a person by themselves."""


@dataclass(frozen=True)
class Raised:
    """One place that makes an error."""

    where: str
    file: str
    message: ast.expr | None
    hint: ast.expr | None


@cache
def raised() -> list[Raised]:
    """All places that make one of the project's errors."""
    found = []
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            file = str(path.relative_to(ROOT))
            if path.resolve() != path:
                continue
            text = path.read_text(encoding="utf-8")
            for node in ast.walk(ast.parse(text)) if "Error(" in text else ():
                if isinstance(node, ast.Call) and _name(node.func) in NAMES:
                    hints = [k.value for k in node.keywords if k.arg == "hint"]
                    hint = node.args[1] if len(node.args) > 1 else hints[0] if hints else None
                    message = node.args[0] if node.args else None
                    found.append(Raised(f"{file}:{node.lineno}", file, message, hint))
    return found


def _name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


@pytest.mark.integration
def test_every_error_has_a_message_and_a_hint() -> None:
    found = raised()
    assert len(found) > 300
    without = [r.where for r in found if r.hint is None and r.file not in JUSTIFIED]
    assert not without
    assert JUSTIFIED.keys() <= {r.file for r in found if r.hint is None}


@pytest.mark.integration
def test_messages_are_one_line_without_a_full_stop() -> None:
    for one in raised():
        for part in (one.message, one.hint):
            texts = [n.value for n in ast.walk(part) if isinstance(n, ast.Constant)] if part else []
            assert not any(isinstance(t, str) and "\n" in t and len(t.strip()) > 1 for t in texts), one.where
        if isinstance(one.message, ast.Constant):
            text = str(one.message.value)
            assert text, one.where
            assert not text.endswith((".", "!")), one.where
        if isinstance(one.hint, ast.Constant):
            assert one.hint.value, one.where


@pytest.mark.parametrize("name", sorted(NAMES))
def test_errors_show_place_message_and_hint(name: str) -> None:
    kind = getattr(errors, name)
    shown = str(kind("what", "cure").at(errors.Place(file="k.yaml", line=3, column=5)))
    assert shown == "k.yaml:3:5: what; cure"


MISTAKES: list[tuple[list[str], str]] = [
    (["tune"], "Missing argument"),
    (["tune", "missing.yaml"], "there is no file missing.yaml"),
    (["tune", "{spec}x"], "did you mean 'scale.yaml'?"),
    (["tune", "{spec}", "--evaluations", "0"], "evaluations is 0"),
    (["tune", "{spec}", "--strategy", "randm"], "randm"),
    (["tune", "{spec}", "--executor", "slurm"], "slurm"),
    (["tune", "{spec}", "--warm-start", "none.run"], "none.run"),
    (["tune", "{spec}", "--resume", "--out", "{folder}"], "no unfinished run"),
    (["tunee"], "No such command 'tunee'"),
    (["check", "{source}"], "scale.c"),
    (["init", "none.c"], "none.c"),
    (["init", "{spec}"], "is no C, C++, OpenCL or CUDA"),
    (["init", "{source}", "--entry", "scal"], "did you mean 'scale'?"),
    (["show", "none.run"], "none.run"),
    (["export", "none.run", "-o", "x"], "none.run"),
    (["export", "none.run"], "give -o FOLDER, or --cassette FILE"),
    (["import", "{source}"], "scale.c"),
    (["ensure", "{spec}"], "Missing option"),
    (["ensure", "{spec}", "-o", "{folder}/x.o", "--offline"], "is not tuned"),
    (["record", "--list"], "Missing argument"),
    (["apply", "none.run", "--", "true"], "none.run"),
]


@pytest.mark.parametrize(("words", "says"), MISTAKES, ids=[" ".join(w) for w, _ in MISTAKES])
def test_mistakes_on_the_command_line(
    words: list[str], says: str, scale_spec: Callable[..., Path], tmp_path: Path
) -> None:
    spec = scale_spec()
    names = {"spec": str(spec), "source": str(spec.with_suffix(".c")), "folder": str(tmp_path)}
    done = run_tuner(*(w.format(**names) for w in words), cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert "Traceback" not in done.stderr
    assert says in done.stderr
    if done.stderr.startswith("error: "):
        lines = done.stderr.strip().splitlines()
        assert len(lines) == 1
        assert "; " in lines[0]
