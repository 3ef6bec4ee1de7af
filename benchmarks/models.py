"""What the tuner makes of a model's calls, beside other ways to spend the same calls, time and evaluator.

Every method talks to the same server with models, as chat completions, gets so many calls and minutes, and is judged by
the same builds, verification and times; what it found is timed at the end in fresh processes on new inputs, beside the
source as given. The tuner also tunes what the spec lets it (parameters, flags, passes): ``--source-only`` takes passes
from it.

    python benchmarks/models.py --base-url URL --model NAME [--calls 20] [--minutes 10] [--kernel SPEC ...]
                                [--rivals operators,best-of-n,openevolve,shinka] [--python shinka=VENV/bin/python]

``operators`` is the tuner without the model; ``best-of-n`` asks for independent rewrites of the source as given.
OpenEvolve (``pip install openevolve``) and ShinkaEvolve (``pip install shinka-evolve``) may live in environments of
their own. The key is taken from the variable of ``--api-key-env``; a local server needs none.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from _common import ROOT, altered, emit, note, parser, table
from _model_endpoint import Endpoint
from _model_judge import Judge
from _model_rivals import PACKAGES, Given, best_of_n, installed, other_program, task_text

from tuner.core.errors import TunerError
from tuner.core.protocols import Backend
from tuner.driver.opening import open_lineup
from tuner.driver.options import Options
from tuner.driver.runs import begin
from tuner.recorders.record import RunRecord
from tuner.spec.load import LoadedSpec, load_spec

TUNER, OPERATORS, BEST = "tuner", "operators", "best-of-n"
RIVALS = (OPERATORS, BEST, *PACKAGES)
KERNELS = ("gemm", "jacobi-2d", "atax")
UNLIMITED = 1_000_000


def main(backend: Backend | None = None) -> int:
    """Prints a table; a backend instead of the specs' own is for tests."""
    given = _arguments()
    given.backend = backend
    rivals = [name for name in given.rivals.split(",") if name]
    unknown = sorted(set(rivals) - set(RIVALS))
    if unknown:
        print(f"error: there is no rival {unknown[0]!r}: {', '.join(RIVALS)}", file=sys.stderr)
        return 2
    pythons = dict.fromkeys(PACKAGES, sys.executable) | dict(p.split("=", 1) for p in given.python)
    for name in [r for r in rivals if r in PACKAGES and not installed(r, pythons[r])]:
        package = PACKAGES[name][0]
        note(f"note: {name} is left out: pip install {package}, or name an interpreter: --python {name}=PATH")
        rivals.remove(name)
    if given.folder is not None:
        return _compared(given, rivals, pythons, given.folder)
    # A short name: sockets have short ones.
    with tempfile.TemporaryDirectory(prefix="models-") as folder:
        return _compared(given, rivals, pythons, Path(folder))


def _arguments() -> Any:
    made = parser(__doc__)
    made.add_argument("--base-url", required=True, help="of the server, such as http://127.0.0.1:8080/v1")
    made.add_argument("--model", required=True, help="its name there")
    made.add_argument("--api-key-env", default="OPENAI_API_KEY", help="the variable with the key, if any")
    made.add_argument("--calls", type=int, default=20, help="answers of the model for each method")
    made.add_argument("--minutes", type=float, default=10.0, help="for each method")
    made.add_argument("--kernel", type=Path, action="append", metavar="SPEC", help="a spec of one kernel")
    made.add_argument("--rivals", default=",".join(RIVALS), help="names between commas; empty for none")
    made.add_argument("--python", action="append", default=[], metavar="NAME=PATH", help="of a rival")
    made.add_argument("--source-only", action="store_true", help="the tuner leaves passes as they are")
    made.add_argument("--max-tokens", type=int, default=4096, help="of a reply")
    made.add_argument("--timeout", type=float, default=120.0, help="seconds for a reply")
    made.add_argument("--seed", type=int, default=0)
    made.add_argument("--folder", type=Path, help="keeps records and logs; with a short name")
    return made.parse_args()


def _compared(given: Any, rivals: Sequence[str], pythons: dict[str, str], folder: Path) -> int:
    specs = given.kernel or [ROOT / "benchmarks" / "kernels" / f"{name}.yaml" for name in KERNELS]
    for spec in specs:
        # Each run has a copy of the spec's folder.
        if folder.resolve().is_relative_to(spec.parent.resolve()):
            print(f"error: {folder} is in the folder of {spec}: name another --folder", file=sys.stderr)
            return 2
    rows = []
    for number, spec in enumerate(specs):
        for method in (TUNER, *rivals):
            place = folder.resolve() / f"{number}-{method}"
            try:
                row = _method(method, spec, place, given, pythons)
            except TunerError as error:
                note(f"{spec.stem}, {method}: {error}")
                continue
            rows.append({"kernel": spec.stem, "method": method, **row})
            note(f"{spec.stem}, {method}: {_shown(row['speedup'])}")
    emit(given.json, {"rows": rows}, _text(rows))
    return 0 if rows else 1


def _method(method: str, path: Path, place: Path, given: Any, pythons: dict[str, str]) -> dict[str, Any]:
    """One method on one kernel: its figures."""
    place.mkdir(parents=True)
    common = Given(
        model=given.model,
        calls=given.calls,
        minutes=given.minutes,
        max_tokens=given.max_tokens,
        timeout_s=given.timeout,
    )
    endpoint = Endpoint(given.base_url, os.environ.get(given.api_key_env, ""), given.calls)
    judge = None
    try:
        (spec,) = load_spec(altered(path, place, _changes(method, given, endpoint)))
        judge = Judge(spec, given.seed, given.backend)
        started = time.monotonic()
        if method in (TUNER, OPERATORS):
            speedup, right = _tuned(method, spec, place, given, judge)
            wall_s = time.monotonic() - started
        else:
            failure = _by_other(method, place, judge, endpoint, common, spec, pythons)
            if failure:
                note(f"{path.stem}, {method}: {failure}")
            wall_s = time.monotonic() - started
            speedup, right = judge.best(), judge.right
        return {
            "speedup": speedup,
            "calls": endpoint.calls,
            "verified": right,
            "prompt_tokens": endpoint.prompt_tokens,
            "completion_tokens": endpoint.completion_tokens,
            "wall_s": wall_s,
        }
    finally:
        if judge is not None:
            judge.close()
        endpoint.close()


def _by_other(
    method: str,
    place: Path,
    judge: Judge,
    endpoint: Endpoint,
    common: Given,
    spec: LoadedSpec,
    pythons: dict[str, str],
) -> str:
    task = task_text(spec.task)
    if method == BEST:
        best_of_n(judge, endpoint, common, task)
        return ""
    return other_program(method, pythons[method], place, judge, endpoint, common, task)


def _changes(method: str, given: Any, endpoint: Endpoint) -> dict[str, dict[str, Any]]:
    """What a method's spec says otherwise."""
    space: dict[str, Any] = {"source": {"evolve": True}}
    if given.source_only:
        space["passes"] = "off"
    if method != TUNER:
        return {"space": space}
    llm = {
        "model": given.model,
        "base_url": endpoint.url,
        "max_tokens": given.max_tokens,
        "timeout_s": given.timeout,
        "when_spent": "go_on",
    }
    budget = {"minutes": given.minutes, "calls": given.calls}
    return {"space": space, "search": {"llm": llm, "budget": budget}}


def _tuned(method: str, spec: LoadedSpec, place: Path, given: Any, judge: Judge) -> tuple[list[float], int]:
    """The tuner's own run; its winner timed as everybody's, and how many of the model's variants were right."""
    options = Options(
        minutes=given.minutes,
        evaluations=UNLIMITED,
        seed=given.seed,
        llm=None if method == TUNER else "off",
    )
    outcome = begin(spec, place / "a.run", options, backend=given.backend)
    if outcome.failed or outcome.path is None:
        note(f"{spec.name}, {method}: {outcome.summary.message}")
        return judge.best(), 0
    with RunRecord.read(outcome.path) as record:
        state, _, lineup = open_lineup(record)
        written = [v for v in state.variants.values() if v.origin.startswith("llm/")]
        right = sum(v.best is not None for v in written)
        # Nobody else has to claim anything either.
        best = outcome.summary.candidate or outcome.summary.best
        speedup = judge.confirmed(*lineup.of_trial(best.number)) if best.number else []
    return speedup or judge.best(), right


def _text(rows: Sequence[dict[str, Any]]) -> str:
    header = ["kernel", "method", "speed-up", "calls", "right answers", "tokens", "seconds"]
    cells = [
        [
            r["kernel"],
            r["method"],
            _shown(r["speedup"]),
            r["calls"],
            r["verified"],
            f"{r['prompt_tokens']} + {r['completion_tokens']}",
            f"{r['wall_s']:.0f}",
        ]
        for r in rows
    ]
    means = [
        f"{method}: {_mean([statistics.median(r['speedup']) for r in rows if r['method'] == method]):.3f}"
        for method in dict.fromkeys(r["method"] for r in rows)
    ]
    return f"{table(header, cells)}\n\nGeometric means of the medians: {', '.join(means)}."


_mean: Callable[[Sequence[float]], float] = statistics.geometric_mean


def _shown(speedup: Sequence[float]) -> str:
    return f"{statistics.median(speedup):.3f} [{min(speedup):.3f}, {max(speedup):.3f}]"


if __name__ == "__main__":
    sys.exit(main())
