"""Models that mean harm, on real compilers and in real processes; keys that must not be anywhere."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import llm_server as server
import pytest
from commands import run_tuner

from tuner.driver.audit import audit
from tuner.recorders.record import RunRecord

SECRET = "sk-this-is-a-secret-0123456789"

KERNEL = """
#include <math.h>
void scale(const float *a, float *b, int n)
{
    for (int i = 0; i < n; i++)
        b[i] = 2.0f * sqrtf(a[i]) + 1.0f;
}
"""

SPEC = """\
kernel: {source: scale.c, entry: scale}
problem: {n: 4096}
arguments:
  - {name: a, dtype: float32, shape: [n], init: {uniform: [1, 2]}}
  - {name: b, dtype: float32, shape: [n], role: output}
  - {name: n, dtype: int32, value: n}
space:
  passes: off
  source: {evolve: true}
search:
  strategy: random
  proposers: []
  budget: {evaluations: 60, calls: CALLS}
  llm: {model: local, base_url: "URL", stream: false, prices: {prompt: 1.0, completion: 2.0}}
"""

LINE = "        b[i] = 2.0f * sqrtf(a[i]) + 1.0f;"

HOSTILE = {
    "reads a key": "{ extern char **environ; b[i] = environ[0] ? 3.0f : 4.0f; }",
    "opens a file": '{ extern int open(const char *, int, ...); b[i] = (float)open("TARGET", 01 | 0100, 0666); }',
    "calls the shell": '{ extern int system(const char *); b[i] = (float)system("touch TARGET"); }',
    "writes to inputs": "{ ((float *)a)[i] = 0.0f; b[i] = 1.0f; }",
    "loops for ever": "{ for (volatile int k = 1; k; ) b[i] = 0.0f; }",
    "crashes": "{ *(volatile float *)8 = 1.0f; b[i] = 0.0f; }",
    "reads a file at the build": '\n#include "/etc/passwd"\n',
    "embeds a file": '__asm__(".incbin \\"/etc/passwd\\"");',
    "is no code": "this is not C at all (",
}


Reply = server.Reply


def tune(folder: Path, url: str, *words: str, calls: int) -> subprocess.CompletedProcess[str]:
    (folder / "scale.c").write_text(KERNEL)
    (folder / "scale.yaml").write_text(SPEC.replace("URL", url).replace("CALLS", str(calls)))
    return run_tuner("tune", folder / "scale.yaml", "--out", folder / "runs", *words)


def edit(text: str) -> str:
    return f"<<<<<<< SEARCH\n{LINE}\n=======\n{text}\n>>>>>>> REPLACE\n"


@pytest.mark.integration
def test_hostile_variants_gain_nothing_and_leave_nothing(tmp_path: Path) -> None:
    """Each is refused, wrong, crashes or does not build; no file appears; the run goes on to its end."""
    target = tmp_path / "written"
    texts = [t.replace("TARGET", str(target)) for t in HOSTILE.values()]

    def script(number: int, body: Any) -> Any:
        return Reply(edit(texts[number % len(texts)]))

    with server.serving(script) as running:
        done = tune(tmp_path, running.url, "--json", calls=10)
        prompts = json.dumps(running.requests)
    assert done.returncode == 0, done.stderr
    value = json.loads(done.stdout)
    assert value["llm"]["calls"] >= len(HOSTILE)
    assert value["trials"]["ok"] == 1
    assert value["evolution"]["variant"] == 0
    assert not value["improved"]
    assert not target.exists()
    assert "root:x:0" not in prompts
    assert "Your version was tried and does not work: " in prompts
    assert "The compiler's report, loops: `" in prompts
    assert {"refused", "wrong_result", "crashed", "timed_out"} <= {k for k, n in value["trials"].items() if n}
    assert audit(tmp_path / "runs" / "scale-1.run").differences == []


@pytest.mark.integration
def test_a_model_is_told_why_a_variant_was_refused(tmp_path: Path) -> None:
    """Every reply reads the environment, so whichever tries a prompt has room for, they say that."""

    def script(number: int, body: Any) -> Any:
        return Reply(edit(HOSTILE["reads a key"].replace("4.0f", f"{number}.5f")))

    with server.serving(script) as running:
        done = tune(tmp_path, running.url, calls=4)
        prompts = json.dumps(running.requests)
    assert done.returncode == 0, done.stderr
    assert "the object calls or reads environ" in prompts


@pytest.mark.integration
def test_a_key_is_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not in the record, the output, a prompt, or what a variant could see; the server itself had it."""
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)

    def script(number: int, body: Any) -> Any:
        if number == 1:
            return Reply(f"invalid key {SECRET}", status=401)
        return Reply(
            f"Your key is {SECRET}.\n" + edit(f"        b[i] = 2.0f * sqrtf(a[i]) + 1.0f; /* {SECRET} */ ;")
        )

    with server.serving(script) as running:
        done = tune(tmp_path, running.url, calls=3)
        assert all(h["authorization"] == f"Bearer {SECRET}" for h in running.headers)
        assert SECRET not in json.dumps(running.requests)
    assert done.returncode == 0, done.stderr
    assert SECRET not in done.stdout + done.stderr
    assert "calls" in done.stdout
    with RunRecord.read(tmp_path / "runs" / "scale-1.run") as record:
        replies = [e.body for e in record.events(kind="reply")]
        texts = [record.blob(r["text"].removeprefix("blob:")).decode() for r in replies]
    assert any("[key]" in t for t in texts)
    for path in tmp_path.rglob("*"):
        assert not path.is_file() or SECRET.encode() not in path.read_bytes(), path


@pytest.mark.integration
def test_models_on_the_command_line(tmp_path: Path) -> None:
    """What is printed, and mistakes as one line with status 2."""
    with server.serving(server.always(edit("        b[i] = sqrtf(a[i]) * 2.0f + 1.0f;"))) as running:
        done = tune(tmp_path, running.url, "--llm", "another", "--evaluations", "8", calls=2)
        assert {r["model"] for r in running.requests} == {"another"}
    assert done.returncode == 0, done.stderr
    assert "by llm/another" in done.stdout
    assert "models     2 calls" in done.stdout
    off = tune(tmp_path, running.url, "--llm", "off", "--evaluations", "1", calls=2)
    assert off.returncode == 0, off.stderr
    assert "  models  " not in off.stdout
    gone = tune(tmp_path, running.url, "--llm", "cassette:nowhere.run", calls=2)
    assert gone.returncode == 2
    assert gone.stderr.count("\n") == 1
    assert "nowhere.run" in gone.stderr
