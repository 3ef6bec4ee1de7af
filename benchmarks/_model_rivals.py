"""What the tuner is compared with where a model writes code: other programs and simpler ways to spend the same calls.

Each other program runs in a process of its own, with an interpreter of its own where its packages need one, talks to an
:class:`_model_endpoint.Endpoint` and asks a :class:`_model_judge.Judge` over a socket.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from _model_endpoint import Endpoint
from _model_judge import Judge

from tuner.core.types import Task
from tuner.search.llm.client import Client
from tuner.search.llm.exchange import Model, Request

__all__ = ["PACKAGES", "Given", "best_of_n", "installed", "other_program", "task_text"]

PACKAGES = {"openevolve": ("openevolve", "openevolve"), "shinka": ("shinka-evolve", "shinka")}
"""Other programs: what pip calls them, and the module."""

START, END = "EVOLVE-BLOCK-START", "EVOLVE-BLOCK-END"

_CLIENT = """\
import json, socket


def judged(text):
    with socket.socket(socket.AF_UNIX) as channel:
        channel.connect({socket!r})
        channel.sendall(json.dumps(text).encode())
        channel.shutdown(socket.SHUT_WR)
        answer = b"".join(iter(lambda: channel.recv(65536), b""))
    return json.loads(answer)


def read(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()
"""

_OPENEVOLVE = """

def evaluate(program_path):
    from openevolve.evaluation_result import EvaluationResult

    found = judged(read(program_path))
    artifacts = {{"failure": found["message"]}} if found["message"] else {{}}
    return EvaluationResult(metrics={{"combined_score": found["speedup"]}}, artifacts=artifacts)


if __name__ == "__main__":
    from openevolve import run_evolution

    run_evolution({initial!r}, __file__, config={config!r}, iterations={calls}, output_dir={out!r}, cleanup=False)
"""

_SHINKA = """

def evaluate(program_path, results_dir):
    import os

    found = judged(read(program_path))
    os.makedirs(results_dir, exist_ok=True)
    right = found["speedup"] > 0
    values = {{
        "correct.json": {{"correct": right, "error": found["message"]}},
        "metrics.json": {{
            "combined_score": found["speedup"],
            "public": {{}},
            "private": {{}},
            "text_feedback": found["message"],
        }},
    }}
    for name, value in values.items():
        with open(os.path.join(results_dir, name), "w") as file:
            json.dump(value, file)


def main():
    from shinka.core import EvolutionConfig, ShinkaEvolveRunner
    from shinka.database import DatabaseConfig
    from shinka.launch import LocalJobConfig

    runner = ShinkaEvolveRunner(
        evo_config=EvolutionConfig(
            task_sys_msg={task!r},
            language="cpp",
            num_generations={calls} + 1,
            llm_models=[{model!r}],
            llm_dynamic_selection=None,
            llm_kwargs={{"temperatures": [1.0], "max_tokens": {max_tokens}}},
            meta_rec_interval=None,
            embedding_model=None,
            use_text_feedback=True,
            init_program_path={initial!r},
            results_dir={out!r},
        ),
        job_config=LocalJobConfig(eval_program_path=__file__),
        db_config=DatabaseConfig(),
        banner_style="minimal",
        max_evaluation_jobs=1,
        max_proposal_jobs=2,
    )
    runner.run()


if __name__ == "__main__":
    import argparse

    given = argparse.ArgumentParser()
    given.add_argument("--program_path")
    given.add_argument("--results_dir")
    words = given.parse_args()
    evaluate(words.program_path, words.results_dir) if words.program_path else main()
"""

_ASK = """\
You make one kernel faster by changing its source. Its outputs are verified on inputs that you do not see; a wrong \
result is worth nothing. Answer with the whole file, changed, in one block between ``` lines."""

_FENCE = re.compile(r"^[ \t]*```[^\n`]*\n(.*?)^[ \t]*```", re.DOTALL | re.MULTILINE)
_CONCURRENT = 2
_GRACE_S = 10.0
"""Without an evaluation once calls are used up, after which nothing more is waited for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What all have in common.

    Attributes:
        model: its name.
        calls: that may be answered.
        minutes: for everything but the last timing.
        max_tokens: of a reply.
        timeout_s: for a reply.
    """

    model: str
    calls: int
    minutes: float
    max_tokens: int
    timeout_s: float


def installed(name: str, python: str) -> bool:
    """Whether an interpreter has a program."""
    probe = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({PACKAGES[name][1]!r}) is None)"
    return subprocess.run([python, "-c", probe], capture_output=True, check=False).returncode == 0


def task_text(task: Task) -> str:
    """What everybody is told of a kernel beside its source."""
    arguments = "; ".join(
        f"{a.name}: {a.dtype}" + ("" if a.shape is None else f" [{', '.join(e.text for e in a.shape)}]")
        for a in task.parameters
    )
    sizes = "; ".join(", ".join(f"{n} = {v}" for n, v in p.sizes.items()) for p in task.problems)
    return (
        f"Make the function {task.kernel.function} of this {task.kernel.language} file faster, without changing what "
        f"it computes (numerics: {task.verify.numerics}; relative tolerance {task.verify.rtol:g}) or its arguments "
        f"({arguments}). It is timed for {sizes or 'one size'} with {task.measure.threads} thread; the score is the "
        "time of the file as given over that of yours, 0 for wrong results."
    )


def best_of_n(judge: Judge, endpoint: Endpoint, given: Given, task: str) -> None:
    """Independent rewrites of the source as given."""
    until_s = time.monotonic() + 60 * given.minutes
    model = Model(name=given.model, base_url=endpoint.url)
    messages = [
        {"role": "system", "content": _ASK},
        {"role": "user", "content": f"{task}\n\n```c\n{judge.text}\n```"},
    ]
    client, sent, open_calls = Client((model,), _plain_environment()), 0, 0
    try:
        while time.monotonic() < until_s:
            while sent < given.calls and open_calls < _CONCURRENT:
                client.send(
                    Request(
                        number=sent,
                        model=model,
                        messages=messages,
                        max_tokens=given.max_tokens,
                        timeout_s=given.timeout_s,
                        retries=1,
                    )
                )
                sent, open_calls = sent + 1, open_calls + 1
            if not open_calls:
                return
            answer = client.take(1.0)
            if answer is not None:
                open_calls -= 1
                text = _file_in(answer.text)
                if text:
                    judge.judge(text)
    finally:
        client.close()


def _file_in(reply: str) -> str:
    """The longest block of a reply; all of it where there is none."""
    return max(_FENCE.findall(reply), key=len, default="" if "```" in reply else reply)


def other_program(
    name: str, python: str, folder: Path, judge: Judge, endpoint: Endpoint, given: Given, task: str
) -> str:
    """Runs one until its calls or its time are over; what went wrong in one line, or nothing.

    Args:
        name: in :data:`PACKAGES`.
        python: that has it.
        folder: for its files.
        judge: of the kernel; asked in this thread alone.
        endpoint: that it talks to.
        given: limits.
        task: what the model is told beside the source.
    """
    folder.mkdir(parents=True, exist_ok=True)
    address = str(folder / "judge")
    if len(address) > 100:
        return "the folder's name is too long for a socket: give a shorter --folder"
    script = _written(name, folder, address, judge, endpoint, given, task)
    with socket.socket(socket.AF_UNIX) as door, (folder / "log.txt").open("wb") as log:
        door.bind(address)
        door.listen(16)
        door.settimeout(0.2)
        process = subprocess.Popen(
            [python, str(script)],
            cwd=folder,
            env={**_plain_environment(), "PYTHONUNBUFFERED": "1"},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            _serve(judge, door, process, endpoint, time.monotonic() + 60 * given.minutes)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    if judge.tried:
        return ""
    lines = (folder / "log.txt").read_text(errors="replace").strip().splitlines()
    return f"{name} evaluated nothing: {lines[-1][:200] if lines else 'it said nothing'}"


def _written(
    name: str, folder: Path, address: str, judge: Judge, endpoint: Endpoint, given: Given, task: str
) -> Path:
    """The program's files; the script that runs it and that it evaluates with."""
    initial = folder / "initial.cpp"
    text = judge.text
    marked = text if START in text else f"// {START}\n{text}\n// {END}\n"
    initial.write_text(marked)
    judge.given.add(marked)
    words: dict[str, Any] = {
        "socket": address,
        "initial": str(initial),
        "config": str(folder / "config.yaml"),
        "out": str(folder / "out"),
        "calls": given.calls,
        "task": task,
        "model": f"local/{given.model}@{endpoint.url}",
        "max_tokens": given.max_tokens,
    }
    if name == "openevolve":
        # JSON is YAML.
        Path(words["config"]).write_text(json.dumps(_openevolve_config(endpoint, given, task)))
    script = folder / "evaluate.py"
    script.write_text((_CLIENT + (_OPENEVOLVE if name == "openevolve" else _SHINKA)).format(**words))
    return script


def _openevolve_config(endpoint: Endpoint, given: Given, task: str) -> dict[str, Any]:
    return {
        "max_iterations": given.calls,
        "checkpoint_interval": 10 * given.calls,
        "language": "c",
        "file_suffix": ".cpp",
        "max_code_length": 100_000,
        "llm": {
            "api_base": endpoint.url,
            "api_key": "none",
            "models": [{"name": given.model, "weight": 1.0}],
            "max_tokens": given.max_tokens,
            "timeout": int(given.timeout_s),
            "retries": 1,
            "retry_delay": 1,
        },
        "prompt": {"system_message": task},
        "database": {"log_prompts": False},
        "evaluator": {
            "timeout": int(60 * given.minutes),
            "cascade_evaluation": False,
            "parallel_evaluations": _CONCURRENT,
        },
    }


def _serve(
    judge: Judge, door: socket.socket, process: subprocess.Popen[bytes], endpoint: Endpoint, until_s: float
) -> None:
    """Answers until the program ends, its time is over, or its calls are and it evaluates nothing more."""
    judged_s = time.monotonic()
    while time.monotonic() < until_s and process.poll() is None:
        if endpoint.refused_s is not None and time.monotonic() > max(endpoint.refused_s, judged_s) + _GRACE_S:
            return
        try:
            channel, _ = door.accept()
        except TimeoutError:
            continue
        with channel, suppress(OSError, ValueError):
            _answer(judge, channel)
        judged_s = time.monotonic()


def _answer(judge: Judge, channel: socket.socket) -> None:
    channel.settimeout(10.0)
    asked = b"".join(iter(lambda: channel.recv(1 << 16), b""))
    found = judge.judge(str(json.loads(asked)))
    said = {"speedup": found.speedup, "message": found.message, "status": found.status.value}
    channel.sendall(json.dumps(said).encode())


def _plain_environment() -> Mapping[str, str]:
    """Without keys: the endpoint has the one that is needed."""
    return {n: v for n, v in os.environ.items() if not re.search(r"KEY|TOKEN|SECRET", n)}
