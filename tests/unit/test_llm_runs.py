"""Runs that ask a model: a server on the loopback answers well or badly; budgets, resumes, replays, cassettes."""

from __future__ import annotations

import gzip
import json
import os
import re
import signal
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import llm_server as server
import made_runs
import pytest
from commands import run_tuner
from instants import Instants, killed, killed_runs
from product_runs import KERNEL, TASK

from tuner.core.abilities import Peaks
from tuner.core.errors import MachineError, RecordError, SpecError, UsageError
from tuner.core.executors import Executor
from tuner.core.types import Resolved, Status, Task, Variant
from tuner.driver.audit import audit
from tuner.driver.opening import open_lineup
from tuner.driver.options import Options
from tuner.driver.outcome.export import export
from tuner.driver.plan import consulting
from tuner.driver.plan.actions import Await, Decide
from tuner.driver.plan.evolving import search_action
from tuner.driver.runs import begin, resume
from tuner.driver.state.exchanges import Exchanges
from tuner.driver.state.fold import STEPS, apply
from tuner.driver.state.run import RunState
from tuner.driver.work import cassettes
from tuner.driver.work.correspondence import Cassette
from tuner.evaluators.executors.threads import ThreadExecutor
from tuner.recorders.record import RunRecord
from tuner.search.archive import Archive
from tuner.search.llm.exchange import Answer
from tuner.spec.load import LoadedSpec, load_spec
from tuner.testing import SimulatedBackend

SPEC = f"""\
{TASK}space:
  parameters: {{WIDTH: [1, 2, 3, 4]}}
  passes: off
  source: {{evolve: true}}
search:
  strategy: random
  budget: {{BUDGET}}
  llm: {{LLM}}
"""

GOOD = """Unroll by a size of our own.
<<<<<<< SEARCH
            for (int k=0; k<n; k++)
=======
            #pragma clang loop unroll_count(BY)
            for (int k = 0; k < n; k++)
>>>>>>> REPLACE
```tunables
BY: [2, 4, 8] = 4
```
"""
NO_MATCH = "<<<<<<< SEARCH\nfloat nothing;\n=======\nfloat x;\n>>>>>>> REPLACE\n"

WAIT_S = 120
"""For what will come: a busy machine may take tens of seconds for ten trials."""

Reply = server.Reply


def write(
    folder: Path,
    url: str,
    *,
    budget: str = "evaluations: 24",
    llm: str = "model: local",
    alone: bool = False,
) -> LoadedSpec:
    """The spec over the kernel; ``alone`` where nothing but the model makes variants, so that it is asked at once."""
    (folder / "product.c").write_text(KERNEL)
    text = SPEC.replace("BUDGET", budget).replace("LLM", f'{llm}, base_url: "{url}", timeout_s: {WAIT_S}')
    if alone:
        text = text.replace("strategy: random", "strategy: random\n  proposers: []")
    (folder / "product.yaml").write_text(text)
    (loaded,) = load_spec(folder / "product.yaml")
    return loaded


def factor(variant: Variant, resolved: Resolved) -> float | Status:
    """What the model writes helps most; reversing breaks, and so does a variant with BREAK in it."""
    text = "".join(f.text for f in variant.files)
    ops = [e["op"] for e in variant.edits]
    if "reverse" in ops or "BREAK" in text:
        return Status.WRONG_RESULT
    value = 0.9 if "restrict" in text else 1.0
    if "unroll_count(BY)" in text:
        value *= 0.5 * (1.0 + 0.02 * abs(int(resolved.macros.get("BY", 2)) - 8))
    return value


def backend(**more: Any) -> SimulatedBackend:
    def seconds(resolved: Resolved) -> float:
        return 1e-3 * (1.0 + 0.05 * abs(int(resolved.macros["WIDTH"]) - 3))

    slow = {"on_event": lambda what: time.sleep(0.002)}
    return SimulatedBackend(**{"seconds": seconds, "of_variant": factor, **slow, **more})


FEW = {"choose_processes": 2, "confirm_processes": 4}


def options(**more: Any) -> Options:
    return Options(**{"seed": 3, "workers": 2, "settings": FEW, **more})


def events(path: Path) -> list[Any]:
    with RunRecord.read(path) as record:
        return list(record.events())


def state_of(path: Path) -> RunState:
    with RunRecord.read(path) as record:
        return open_lineup(record)[0]


def archive_of(path: Path) -> Archive:
    with RunRecord.read(path) as record:
        _, _, lineup = open_lineup(record)
        return lineup.breeding.informed().archive


@pytest.mark.integration
def test_a_models_variant_wins_and_all_of_it_is_replayed(tmp_path: Path) -> None:
    llm = "model: local, prices: {prompt: 1.0, completion: 3.0}"
    with server.serving(server.always(GOOD)) as running:
        spec = write(tmp_path, running.url, llm=llm)
        result = begin(spec, tmp_path / "a.run", options(), backend=backend())
        asked = len(running.requests)
    assert result.summary.improved
    assert any("unroll_count(BY)" in e.get("replace", "") for e in result.summary.evolution.edits)  # type: ignore[union-attr]
    value = result.to_json()
    assert value["evolution"]["by"]["llm/local"] >= 1
    assert value["llm"]["calls"] == asked
    assert value["llm"]["usd"] == pytest.approx(
        (value["llm"]["prompt_tokens"] + 3 * value["llm"]["completion_tokens"]) / 1e6
    )
    report = audit(result.path, rebuild=True, backend=backend())
    assert report.differences == []
    written = export(result.path, tmp_path / "out")
    patch = next(p for p in written if p.suffix == ".patch").read_text()
    assert any(line.startswith("+") and "unroll_count(BY)" in line for line in patch.splitlines())
    assert "+#define BY" in patch


@pytest.mark.integration
def test_a_failed_try_is_shown_to_the_model(tmp_path: Path) -> None:
    """The model alone makes variants here, so the next prompt is for the same parent."""

    def script(number: int, body: Any) -> Any:
        return Reply(
            GOOD.replace(
                "#pragma clang loop unroll_count(BY)", f"int broken{number} = BY + {number}; /* BREAK */"
            )
        )

    with server.serving(script) as running:
        spec = write(tmp_path, running.url, budget="evaluations: 30", alone=True)
        result = begin(spec, tmp_path / "a.run", options(), backend=backend())
        prompts = [r["messages"][1]["content"] for r in running.requests]
        repairs = [r["messages"][-1]["content"] for r in running.requests if len(r["messages"]) > 2]
    assert any("wrong result: as simulated" in r for r in repairs)
    assert any("Unroll by a size of our own. -> wrong result: as simulated" in p for p in prompts)
    assert set(result.to_json()["evolution"]["by"]) == {"llm/local"}


@pytest.mark.integration
def test_unusable_replies_are_repaired_then_rewritten_then_failed(tmp_path: Path) -> None:
    with server.serving(server.always(NO_MATCH)) as running:
        spec = write(tmp_path, running.url, budget="evaluations: 100, calls: 3", alone=True)
        result = begin(spec, tmp_path / "a.run", options(), backend=backend())
        chains = [[m["role"] for m in r["messages"]] for r in running.requests]
        last = max(running.requests, key=lambda r: len(r["messages"]))
    assert sorted(len(c) for c in chains) in ([2, 2, 4], [2, 4, 6])
    assert (
        "edit 1: its search text is not in a region"
        in last["messages"][-1 if len(chains[-1]) == 4 else 3]["content"]
    )
    failed = [e.body for e in events(result.path) if e.kind == "variant" and "call" in e.body]
    assert failed
    assert all(b["made"] is None and b["problems"] for b in failed)
    assert audit(result.path).differences == []


@pytest.mark.integration
@pytest.mark.parametrize("calls", [6, 30])
def test_replies_that_come_together_are_all_corrected(tmp_path: Path, calls: int) -> None:
    def script(number: int, body: Any) -> Any:
        if number == 0:
            return Reply("1. One.\n2. Two.\n3. Three.\n4. Four.\n")
        if number > 4:
            return Reply(GOOD.replace("BY", f"BY{number}"))
        server.wait_until(lambda: len(running.requests) > 4)
        return Reply(NO_MATCH, delay_s=0.3)

    with server.serving(script) as running:
        spec = write(tmp_path, running.url, budget=f"evaluations: 40, calls: {calls}")
        result = begin(spec, tmp_path / "a.run", options(), backend=backend())
    asked = state_of(result.path).exchanges.calls
    assert len(asked) <= calls
    assert {c.before for c in asked if c.before} >= {1, 2, 3, 4} or calls == 6
    assert audit(result.path).differences == []


@pytest.mark.integration
def test_a_correction_is_taken(tmp_path: Path) -> None:
    with server.serving(lambda n, body: Reply(NO_MATCH if len(body["messages"]) == 2 else GOOD)) as running:
        spec = write(tmp_path, running.url, budget="evaluations: 12, calls: 4", alone=True)
        result = begin(spec, tmp_path / "a.run", options(), backend=backend())
    assert result.to_json()["evolution"]["by"]["llm/local"] >= 1
    assert audit(result.path).differences == []


@pytest.mark.integration
@pytest.mark.parametrize(
    ("budget", "reason"),
    [("calls: 2", "calls"), ("tokens: 9_000", "tokens"), ("usd: 0.013", "usd")],
)
def test_a_budget_is_never_passed_and_ends_the_search(tmp_path: Path, budget: str, reason: str) -> None:
    llm = "model: local, max_tokens: 1000, prices: {prompt: 1.0, completion: 2.0}"
    usage = {"prompt_tokens": 3000, "completion_tokens": 1000}
    with server.serving(server.always(NO_MATCH, usage=usage)) as running:
        spec = write(tmp_path, running.url, budget=f"evaluations: 20_000, {budget}", llm=llm, alone=True)
        result = begin(spec, tmp_path / "a.run", options(), backend=backend())
        asked = len(running.requests)
    value = result.to_json()
    assert value["stopped_by"] == reason
    assert value["llm"]["calls"] == asked >= 1
    assert asked <= 2 or reason != "calls"
    assert value["llm"]["prompt_tokens"] + value["llm"]["completion_tokens"] <= 9_000 or reason != "tokens"
    assert value["llm"]["usd"] <= 0.013 or reason != "usd"
    assert audit(result.path).differences == []


@pytest.mark.integration
def test_the_last_version_that_a_budget_pays_for_is_tuned(tmp_path: Path) -> None:
    """The search ends with its calls, though not before what they gave has been tried with other sizes."""
    with server.serving(server.always(GOOD)) as running:
        spec = write(tmp_path, running.url, budget="evaluations: 500, calls: 1", alone=True)
        result = begin(spec, tmp_path / "a.run", options(), backend=backend())
    assert result.summary.stopped_by == "calls"
    state = state_of(result.path)
    (version,) = [v for v in state.variants.values() if v.origin == "llm/local" and v.purpose == "propose"]
    assert len(version.trials) >= 8
    assert state.evaluations < 100
    assert audit(result.path).differences == []


@pytest.mark.integration
def test_after_the_budget_a_run_may_go_on_without(tmp_path: Path) -> None:
    with server.serving(server.always(GOOD)) as running:
        spec = write(
            tmp_path, running.url, budget="evaluations: 16, calls: 1", llm="model: local, when_spent: go_on"
        )
        result = begin(spec, tmp_path / "a.run", options(), backend=backend())
        assert len(running.requests) == 1
    assert result.summary.stopped_by == "evaluations"


@pytest.mark.integration
def test_a_dead_server_costs_nothing_and_is_given_up(tmp_path: Path) -> None:
    with server.serving(server.always("no", status=404)) as running:
        spec = write(tmp_path, running.url, budget="evaluations: 16, calls: 50")
        result = begin(spec, tmp_path / "a.run", options(), backend=backend())
        assert len(running.requests) <= 5
    llm = result.to_json()["llm"]
    assert llm["failed"] == llm["calls"]
    assert "404" in llm["message"]
    assert (llm["prompt_tokens"], llm["usd"]) == (0, 0.0)
    assert result.summary.stopped_by == "evaluations"


@pytest.mark.integration
def test_the_search_does_not_wait_for_a_slow_model(tmp_path: Path) -> None:
    """All but the first answer come only when ten more trials are done; they come between two batches of them."""
    trials = threading.Semaphore(0)

    class Watch:
        asked = 0

        def event(self, kind: str, body: Mapping[str, Any]) -> None:
            self.asked += kind == "consult"
            if kind == "trial" and self.asked > 1:
                trials.release()

    def script(number: int, body: Any) -> Any:
        if number == 1:
            assert all(trials.acquire(timeout=WAIT_S) for _ in range(10))
        return Reply(GOOD.replace("BY", f"BY{number}"))

    with server.serving(script) as running:
        spec = write(tmp_path, running.url, budget="evaluations: 32")
        result = begin(spec, tmp_path / "a.run", options(), backend=backend(), observers=[Watch()])
    found = events(result.path)
    kinds = [e.kind for e in found]
    asked, reply = (
        next(n for n, e in enumerate(found) if e.kind == kind and e.body[key] == 1)
        for kind, key in (("consult", "number"), ("reply", "call"))
    )
    assert kinds[asked:reply].count("trial") >= 10
    assert found[reply].body["status"] == "ok"
    # Nobody is asked to refine what is being refined.
    refined: dict[int, int] = {}
    for event in found:
        if event.kind == "consult" and event.body["purpose"] == "refine":
            assert event.body["parent"] not in refined.values()
            refined[event.body["number"]] = event.body["parent"]
        if event.kind == "reply":
            refined.pop(event.body["call"], None)


@pytest.mark.integration
def test_a_run_waits_for_its_first_version_by_a_model(tmp_path: Path) -> None:
    """A list of ideas, then several of them at once, what promises most first, and what promises a loss not at all.

    No trial but the baseline's comes before a version is there.
    """
    ideas = "Here.\n\n1. Unroll.\n2. **[9x] Blocks** of\n   k.\n3. Rows.\n4. [0.5x] No.\n\nGood luck."

    def script(number: int, body: Any) -> Any:
        return Reply(ideas if number == 0 else GOOD.replace("BY", f"BY{number}"))

    with server.serving(script) as running:
        spec = write(tmp_path, running.url, budget="evaluations: 12, calls: 4")
        fast = Peaks(bandwidths=((1 << 10, 1e15),), operations={"float32": 1e15}, clock_hz=2e9)
        result = begin(spec, tmp_path / "a.run", options(), backend=backend(at_best=fast))
        prompts = [r["messages"][1]["content"] for r in running.requests]
    assert all("Clock of a processor at work: 2 GHz" in p for p in prompts)
    assert all(re.search(r"Time of a call, size 1: [\d.]+ ms \([\d.e+]+ cycles\)", p) for p in prompts)
    found = events(result.path)
    asked = [e.body for e in found if e.kind == "consult"]
    assert [b["purpose"] for b in asked] == ["ideas", "write", "write", "write"]
    assert [b["idea"] for b in asked] == [None, 1, 0, 2]
    assert sorted(p.rpartition("\n\n")[2] for p in prompts[1:]) == [
        "Blocks of k.",
        "Rows.",
        "Unroll.",
    ]
    purposes = result.to_json()["llm"]["purposes"]
    assert purposes["ideas"] == {"answers": 1, "work": 1}
    assert purposes["write"]["answers"] == 3
    first = next(n for n, e in enumerate(found) if e.kind == "variant" and e.body["made"])
    assert [e.trial for e in found[:first] if e.kind == "trial"] == [0]
    assert audit(result.path).differences == []


@pytest.mark.integration
@pytest.mark.parametrize(
    "reply", ["DECLINED: it is as fast as can be.", NO_MATCH, "1. [0.1x] Nothing.\n2. [0.2x] Little."]
)
@pytest.mark.parametrize("alone", [True, False])
def test_a_model_that_has_nothing_to_say_is_not_asked_for_ever(
    tmp_path: Path, reply: str, alone: bool
) -> None:
    """Without a budget of calls; what is known is tuned on between a few requests in vain."""
    with server.serving(server.always(reply)) as running:
        spec = write(tmp_path, running.url, alone=alone)
        result = begin(spec, tmp_path / "a.run", options(), backend=backend())
        asked = len(running.requests)
    found = events(result.path)
    calls = state_of(result.path).exchanges.calls
    assert 4 <= asked <= 3 * (4 + 4 * sum(e.kind == "promote" for e in found))
    assert not any(c.variant for c in calls)
    assert result.summary.stopped_by in ("evaluations", "exhausted")
    if reply.startswith("DECLINED"):
        assert {c.problems for c in calls if c.purpose == "ideas"} == {
            ("declined: it is as fast as can be.",)
        }
    assert audit(result.path).differences == []


@pytest.mark.integration
def test_lists_of_ideas_that_promise_too_little_do_not_take_the_place_of_all_else(tmp_path: Path) -> None:
    def script(number: int, body: Any) -> Any:
        if "list ideas" in body["messages"][-1]["content"]:
            return Reply("1. [1.05x] Unroll.\n")
        return Reply(GOOD.replace("BY", f"BY{number}").replace("(BY", "(BY) /* unroll_count(BY) */ ("))

    with server.serving(script) as running:
        spec = write(tmp_path, running.url, budget="evaluations: 60, calls: 30", alone=True)
        result = begin(spec, tmp_path / "a.run", options(), backend=backend())
    purposes = [c.purpose for c in state_of(result.path).exchanges.calls]
    assert purposes.count("ideas") <= len(purposes) / 2
    assert audit(result.path).differences == []


@pytest.mark.integration
def test_tunables_and_constraints_of_the_spec_are_told(tmp_path: Path) -> None:
    with server.serving(server.always(GOOD)) as running:
        spec = write(tmp_path, running.url, budget="evaluations: 6, calls: 1")
        spec_file, source = tmp_path / "product.yaml", tmp_path / "product.c"
        source.write_text(source.read_text().replace("0.5f", "0.5f * (WIDTH > 0)"))
        more = "parameters: {WIDTH: [1, 2, 3, 4], UNUSED: [1, 2]}\n  constraints: [WIDTH * UNUSED < 5]"
        spec_file.write_text(spec_file.read_text().replace("parameters: {WIDTH: [1, 2, 3, 4]}", more))
        (spec,) = load_spec(spec_file)
        begin(spec, tmp_path / "a.run", options(), backend=backend())
        prompt = running.requests[0]["messages"][1]["content"]
    assert "Its tunables, which the tuner defines: WIDTH in [1, 2, 3, 4], best 1\n" in prompt
    assert "only those are tried that satisfy: WIDTH * UNUSED < 5\n" in prompt


def _until_it_only_waits(path: Path) -> None:
    """Returns when a live run has nothing left to do but to wait for a model."""
    with RunRecord.read(path) as record:
        state, seen = RunState(record.blob), 0
        while True:
            for event in record.events(after=seen):
                apply(state, event)
                seen = event.seq
            if isinstance(search_action(state), Await):
                return
            time.sleep(0.05)


@pytest.mark.integration
def test_devices_wait_for_a_model_before_its_share_goes_elsewhere(tmp_path: Path) -> None:
    """A model that is slower than the devices replies when they have nothing more to do; no call is in vain."""

    def many(task: Task) -> Executor:
        return ThreadExecutor(lambda: backend().prepare(task, workers=1), ["simulated"] * 3, builders=2)

    def script(number: int, body: Any) -> Any:
        _until_it_only_waits(tmp_path / "a.run")
        return Reply(GOOD.replace("BY", f"BY{number}"))

    with server.serving(script) as running:
        spec = write(tmp_path, running.url, budget="evaluations: 40")
        result = begin(spec, tmp_path / "a.run", options(), backend=backend(), executor=many)
        asked = len(running.requests)
    kinds = [e.kind for e in events(result.path)]
    assert kinds.count("consult") == kinds.count("reply") == asked >= 1
    value = result.to_json()
    assert value["evolution"]["by"]["llm/local"] >= 1
    assert value["llm"]["calls"] == asked
    assert len({t.lane for t in state_of(result.path).trials.values() if t.rounds}) >= 2
    assert audit(result.path, backend=backend()).differences == []
    changed = 0
    with RunRecord.read(result.path) as record:
        state = RunState(record.blob)
        for event in record.events():
            apply(state, event)
            if (
                event.kind == "trial"
                and state.exchanges.waiting
                and state.queue
                and state.search_stop is None
            ):
                changed += _goes_on(state, waits=False) > _goes_on(state, waits=True)
    assert changed


def _goes_on(state: RunState, *, waits: bool) -> bool:
    """Whether a variant would get more trials beside those in the works, were replies not waited for."""
    with pytest.MonkeyPatch.context() as patch:
        if not waits:
            patch.setattr(consulting, "waiting_action", lambda *_: None)
        return isinstance(search_action(state), Decide)


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> tuple[LoadedSpec, Path]:
    """A run whose model answered well, badly and late, and its spec; for tests that write nothing to them."""
    folder = tmp_path_factory.mktemp("live")

    def script(number: int, body: Any) -> Any:
        texts = (GOOD, NO_MATCH, GOOD.replace("BY", f"BY{number}"))
        return Reply(texts[number % 3], delay_s=0.01 * (number % 3))

    with server.serving(script) as running:
        llm = "model: local, prices: {prompt: 1.0, completion: 2.0}"
        spec = write(folder, running.url, budget="evaluations: 25", llm=llm)
        result = begin(spec, folder / "live.run", options(), backend=backend())
    assert result.to_json()["llm"]["calls"] >= 3
    return spec, result.path


@pytest.mark.integration
def test_a_cassette_gives_the_same_run_with_no_server(live: tuple[LoadedSpec, Path], tmp_path: Path) -> None:
    """Also a cassette that was made from one; on one clock such runs are equal to the bit."""
    spec, path = live
    still = backend(on_event=None)

    def play(name: str, cassette: Path) -> Any:
        more = options(llm=f"cassette:{cassette}")
        return begin(spec, tmp_path / name, more, backend=still, clock=lambda: 0.0)

    one, two = play("one.run", path), play("two.run", path)
    assert [e.hash for e in events(one.path)] == [e.hash for e in events(two.path)]
    assert _plain(one.path) == _plain(path)
    assert archive_of(one.path) == archive_of(path)
    assert one.to_json()["llm"]["cassette"] is True
    assert audit(one.path, backend=backend()).differences == []
    assert archive_of(play("third.run", one.path).path) == archive_of(path)


@pytest.mark.integration
def test_a_file_of_exchanges_is_a_cassette_without_server_key_or_record(
    live: tuple[LoadedSpec, Path], tmp_path: Path
) -> None:
    """The same bytes again, also from the run that it was played in; nothing of the server is in it."""
    spec, path = live
    file = tmp_path / "kept.json.gz"
    done = run_tuner("export", path, "--cassette", file, "--json")
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    calls = state_of(path).exchanges.calls
    assert (said["exchanges"], said["cassette"]) == (len(calls), str(file))
    text = gzip.decompress(file.read_bytes()).decode()
    assert all(word not in text for word in ("127.0.0.1", "base_url", "OPENAI", str(tmp_path.parent)))
    value = json.loads(text)
    assert value["exchanges"][0]["prompt"][0]["role"] == "system"
    assert {e["answer"]["text"] for e in value["exchanges"] if e["answer"]} >= {GOOD, NO_MATCH}

    more = options(llm=f"cassette:{file}")
    played = begin(spec, tmp_path / "a.run", more, backend=backend(on_event=None), clock=lambda: 0.0)
    assert _plain(played.path) == _plain(path)
    assert archive_of(played.path) == archive_of(path)
    assert audit(played.path, backend=backend()).differences == []
    again = tmp_path / "again.json.gz"
    assert run_tuner("export", played.path, "--cassette", again).stdout == f"{again}\n"
    # Prompts hold measured times.
    assert _without_prompts(again) == _without_prompts(file)
    assert run_tuner("export", path, "--cassette", again).returncode == 0
    assert again.read_bytes() == file.read_bytes()


def test_of_replies_at_one_step_a_cassette_gives_what_failed_first() -> None:
    """The record has it so: one that can be read is made use of, which is a step, before the next comes."""
    answer = {
        "number": 0,
        "text": "",
        "prompt_tokens": 1,
        "completion_tokens": 1,
        "finish": "",
        "message": "",
    }
    answers = [answer | {"status": status, "tries": 1, "wall_s": 0.0} for status in ("ok", "broken")]
    cassette = Cassette([{"key": str(n), "delay": 2 - n, "answer": a} for n, a in enumerate(answers)])
    exchanges = Exchanges(settings=None, proposers=(), evaluations=None, first=1)
    asked = {"purpose": "write", "over": None, "before": None, "idea": None, "model": "m", "attempt": 0}
    asked |= {"parent": 0, "other": None, "island": 0, "prompt": "", "tokens": 1, "usd": 0.0, "clock_s": 0.0}
    for number in range(2):
        exchanges.begin(asked | {"number": number, "key": str(number)})
        exchanges.steps += 1
    assert cassette.take(exchanges, 0.0) == Answer(**{**answers[1], "number": 1})


@pytest.mark.integration
def test_a_cassette_of_a_model_that_was_slower_than_the_beginning(tmp_path: Path) -> None:
    """Its first reply came when trials had gone on without it; nobody waits for it in the cassette's run."""
    trials = threading.Event()

    class Watch:
        def event(self, kind: str, body: Mapping[str, Any]) -> None:
            if kind == "promote":
                trials.set()

    def script(number: int, body: Any) -> Any:
        trials.wait(WAIT_S)
        return Reply(GOOD.replace("BY", f"BY{number}"))

    with server.serving(script) as running:
        spec = write(tmp_path, running.url, budget="evaluations: 40, minutes: 0.15, calls: 1")
        live = begin(spec, tmp_path / "a.run", options(), backend=backend(), observers=[Watch()])
    kinds = [e.kind for e in events(live.path)]
    assert "waited" in kinds
    again = begin(
        spec,
        tmp_path / "b.run",
        options(llm=f"cassette:{live.path}"),
        backend=backend(on_event=None),
        clock=lambda: 0.0,
    )
    found = [e.kind for e in events(again.path)]
    assert found[: found.index("waited")] == kinds[: kinds.index("waited")]
    steps = [k for k in kinds[: kinds.index("reply")] if k in STEPS]
    assert [k for k in found[: found.index("reply")] if k in STEPS] == steps
    assert audit(again.path, backend=backend()).differences == []


def _without_prompts(file: Path) -> Any:
    value = json.loads(gzip.decompress(file.read_bytes()))
    for exchange in value["exchanges"]:
        del exchange["prompt"]
    return value


@pytest.mark.integration
def test_what_a_server_said_of_itself_is_not_in_a_file(tmp_path: Path) -> None:
    def script(number: int, body: Any) -> Any:
        if number == 0:
            return Reply("no such deployment at host.example, key sk-12345", status=404)
        refusal = {"choices": [{"message": {"refusal": "I cannot."}, "finish_reason": "stop"}]}
        return Reply(raw=json.dumps(refusal).encode())

    with server.serving(script) as running:
        spec = write(tmp_path, running.url, budget="evaluations: 30, calls: 3", alone=True)
        begin(spec, tmp_path / "a.run", options(), backend=backend())
    file = tmp_path / "a.gz"
    answers = [e["answer"] for e in cassettes.write_cassette(tmp_path / "a.run", file) if e["answer"]]
    assert {a["message"] for a in answers} == {"refused when it was recorded", "the model refused: I cannot."}
    assert "host.example" not in gzip.decompress(file.read_bytes()).decode()


def test_an_export_writes_one_thing(tmp_path: Path) -> None:
    for words in (
        (),
        ("-o", tmp_path / "o", "--cassette", tmp_path / "c"),
        ("--cassette", "c", "--unconfirmed"),
    ):
        done = run_tuner("export", tmp_path / "a.run", *words)
        assert done.returncode == 2
        assert "give -o FOLDER, or --cassette FILE and nothing else" in done.stderr


EXCHANGE = {
    "key": "0" * 64,
    "model": "m",
    "purpose": "write",
    "attempt": 0,
    "delay": 1,
    "prompt": [],
    "answer": None,
}
FILE = {
    "format": "remix-tuner cassette",
    "version": 1,
    "settings": {
        "models": [{"name": "m", "prompt_usd": 0.0, "completion_usd": 0.0, "role": "all"}],
        "max_tokens": 10,
        "timeout_s": 1.0,
        "retries": 0,
        "stream": True,
        "temperature": None,
        "when_spent": "stop",
        "concurrent": 1,
    },
    "exchanges": [EXCHANGE],
}


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (FILE | {"version": 2}, "version: Input should be 1"),
        (FILE | {"exchanges": []}, "exchanges: "),
        (FILE | {"exchanges": [EXCHANGE | {"delay": -1}]}, "exchanges.0.delay: "),
        (FILE | {"exchanges": [EXCHANGE | {"more": 1}]}, "exchanges.0.more: "),
        ({}, "format: Field required"),
        (b"[" * 10_000, "is no cassette: "),
        (b'{"format": "\\ud800"}', "is no cassette: "),
        (b" " * 5000, "holds more than"),
    ],
)
def test_files_that_are_no_cassettes_are_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: Any, said: str
) -> None:
    if said == "holds more than":
        monkeypatch.setattr(cassettes, "MOST_BYTES", 4096)
    raw = data if isinstance(data, bytes) else json.dumps(data).encode()
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(raw))
    with pytest.raises(RecordError, match=re.escape(said)) as raised:
        cassettes.read_cassette(path)
    assert str(path) in str(raised.value)
    assert "\n" not in raised.value.message
    assert raised.value.hint


def test_half_a_file_and_one_with_more_behind_it(tmp_path: Path) -> None:
    path = tmp_path / "a.gz"
    whole = gzip.compress(json.dumps(FILE).encode())
    for raw in (whole[: len(whole) // 2], whole + whole, b"\x1f\x8bnothing"):
        path.write_bytes(raw)
        with pytest.raises(RecordError, match=r"ends early or late|cannot be read"):
            cassettes.read_cassette(path)
    path.write_bytes(whole)
    settings, entries = cassettes.read_cassette(path)
    assert [m.name for m in settings.models] == ["m"]
    assert entries == [{"key": "0" * 64, "delay": 1, "answer": None}]


def _plain(path: Path) -> list[Any]:
    """Events without the first and without clock readings."""
    timing = ("clock_s", "cost_s", "ask_s", "wall_s")
    return [(e.kind, e.trial, {k: v for k, v in e.body.items() if k not in timing}) for e in events(path)[1:]]


@pytest.mark.integration
def test_a_cassette_of_another_run_misses(live: tuple[LoadedSpec, Path], tmp_path: Path) -> None:
    _, path = live
    spec = write(tmp_path, "http://127.0.0.1:9/v1", budget="evaluations: 30")
    (tmp_path / "product.c").write_text(KERNEL.replace("+ 0.5f", "+ 0.50f"))
    (other,) = load_spec(tmp_path / "product.yaml")
    with pytest.raises(UsageError, match="the cassette has no reply for call 0"):
        begin(other, tmp_path / "b.run", options(llm=f"cassette:{path}"), backend=backend(on_event=None))
    plain = begin(spec, tmp_path / "c.run", options(llm="off"), backend=backend(on_event=None))
    with pytest.raises(UsageError, match="holds no exchange with a model"):
        begin(spec, tmp_path / "d.run", options(llm=f"cassette:{plain.path}"), backend=backend(on_event=None))


@pytest.mark.parametrize(
    "count",
    [pytest.param(2, marks=pytest.mark.integration), pytest.param(30, marks=pytest.mark.measured)],
)
def test_killed_at_any_instant_a_cassette_run_has_the_same_archive(
    live: tuple[LoadedSpec, Path], tmp_path: Path, count: int
) -> None:
    spec, cassette = live
    played = options(llm=f"cassette:{cassette}")
    expected = archive_of(cassette)

    def run(path: Path, instants: Instants) -> None:
        begin(spec, path, played, backend=backend(on_event=instants.at), observers=[instants])

    for path in killed_runs(run, tmp_path, count, seed=2):
        resume(path, backend=backend(on_event=None))
        assert archive_of(path) == expected
        assert audit(path, backend=backend()).differences == []


@pytest.mark.integration
def test_killed_while_a_model_is_asked_the_call_counts_as_spent(tmp_path: Path) -> None:
    class Kill:
        def event(self, kind: str, body: Mapping[str, Any]) -> None:
            if kind == "consult":
                os.kill(os.getpid(), signal.SIGKILL)

    llm = "model: local, prices: {prompt: 1.0, completion: 2.0}"
    path = tmp_path / "a.run"
    with server.serving(server.always(GOOD)) as running:
        spec = write(tmp_path, running.url, llm=llm, budget="evaluations: 16, calls: 2")
        killed(lambda _: begin(spec, path, options(), backend=backend(), observers=[Kill()]))
        result = resume(path, backend=backend())
        assert len(running.requests) <= 2
    replies = [e.body for e in events(path) if e.kind == "reply"]
    assert replies[0]["status"] == "lost"
    assert all(r["status"] == "ok" for r in replies[1:])
    assert replies[0]["completion_tokens"] == 8192
    assert result.to_json()["llm"]["calls"] == len(replies) <= 2
    assert audit(path, backend=backend()).differences == []


@pytest.mark.integration
def test_a_changed_prompt_or_price_is_found_by_the_replay(
    live: tuple[LoadedSpec, Path], tmp_path: Path
) -> None:
    """A record written anew with a valid chain but another key or price does not pass."""
    _, path = live
    changes = {"consult": {"key": "0" * 64}, "reply": {"usd": 0.5}}
    for changed in changes:
        forged = tmp_path / f"{changed}.run"
        made_runs.rewritten(
            path, forged, lambda kind, body, only=changed: body | (changes[kind] if kind == only else {})
        )
        assert any(changed in line for line in audit(forged, backend=backend()).differences)


@pytest.mark.integration
def test_several_models_are_all_tried(tmp_path: Path) -> None:
    with server.serving(lambda n, b: Reply(GOOD.replace("BY", f"BY{n}"))) as running:
        llm = "models: [cheap, {model: dear, prices: {prompt: 50, completion: 100}}]"
        spec = write(tmp_path, running.url, llm=llm, budget="evaluations: 24, usd: 5", alone=True)
        result = begin(spec, tmp_path / "a.run", options(), backend=backend())
        asked = {r["model"] for r in running.requests}
    assert asked == {"cheap", "dear"}
    calls = state_of(result.path).exchanges.calls
    assert {c.model for c in calls} == asked
    assert audit(result.path).differences == []


@pytest.mark.integration
def test_models_are_asked_for_what_their_role_is(tmp_path: Path) -> None:
    """A cheap one lists ideas and corrects what the strong one wrote."""

    def script(number: int, body: Any) -> Any:
        asked = body["messages"][-1]["content"]
        if "list ideas" in asked:
            return Reply("1. Unroll.\n2. Block.\n")
        return Reply(GOOD.replace("BY", f"BY{number}") if "could not be used" in asked else NO_MATCH)

    with server.serving(script) as running:
        llm = "models: [{model: strong, role: write}, {model: cheap, role: ideas}]"
        spec = write(tmp_path, running.url, llm=llm, budget="evaluations: 16, calls: 12")
        result = begin(spec, tmp_path / "a.run", options(), backend=backend())
    calls = state_of(result.path).exchanges.calls
    assert {(c.purpose, c.model) for c in calls} >= {
        ("ideas", "cheap"),
        ("write", "strong"),
        ("repair", "cheap"),
    }
    assert not {(c.purpose, c.model) for c in calls} & {("ideas", "strong"), ("write", "cheap")}
    assert result.to_json()["evolution"]["by"]["llm/strong"] >= 1
    assert audit(result.path).differences == []


@pytest.mark.integration
def test_what_a_model_of_ideas_has_left_is_no_budget_for_versions(tmp_path: Path) -> None:
    """The search ends when no budget pays for who writes, though another could still list ideas."""

    def script(number: int, body: Any) -> Any:
        ideas = "list ideas" in body["messages"][-1]["content"]
        usage = {"prompt_tokens": 3000, "completion_tokens": 8000}
        return Reply("1. a\n2. b\n" if ideas else GOOD.replace("BY", f"BY{number}"), usage=usage)

    with server.serving(script) as running:
        llm = (
            "models: [{model: strong, role: write, prices: {prompt: 1, completion: 9}}, "
            "{model: cheap, role: ideas, prices: {prompt: 0, completion: 0.001}}]"
        )
        spec = write(tmp_path, running.url, llm=llm, budget="evaluations: 20_000, usd: 0.2", alone=True)
        result = begin(spec, tmp_path / "a.run", options(), backend=backend())
    assert result.summary.stopped_by == "usd"
    assert result.to_json()["llm"]["usd"] <= 0.2
    assert audit(result.path).differences == []


@pytest.mark.parametrize(
    ("budget", "llm", "said"),
    [
        ("evaluations: 9, usd: 1", "model: local", "a budget in dollars needs prices"),
        ("evaluations: 9, calls: 1", "models: [], model: null", "names no model"),
        ("evaluations: 9, calls: 1", "models: [a], model: b", "names no model, or one and a list"),
        ("evaluations: 9, calls: 1", "models: [a, a]", "a model is there twice"),
        ("evaluations: 9, calls: 1", "models: [{model: a, role: ideas}]", "no model writes versions"),
        ("evaluations: 9, calls: 1", "models: [{model: a, role: idea}]", "role"),
        ("evaluations: 9, calls: 1", "model: a, max_token: 3", "did you mean 'max_tokens'"),
    ],
)
def test_mistakes_in_the_spec(tmp_path: Path, budget: str, llm: str, said: str) -> None:
    with pytest.raises(SpecError, match=said) as raised:
        write(tmp_path, "http://127.0.0.1:9/v1", budget=budget, llm=llm)
    assert "product.yaml:" in str(raised.value)


@pytest.mark.parametrize("url", ["ftp://x/v1", "http://user:word@host/v1", "host:80", "http://host/v1?key=1"])
def test_addresses_that_are_none_or_hold_a_secret(tmp_path: Path, url: str) -> None:
    with pytest.raises(SpecError, match="no address of a server"):
        write(tmp_path, url)


def test_mistakes_on_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    path = tmp_path / "a.run"
    spec = write(tmp_path, "http://127.0.0.1:9/v1", budget="evaluations: 9, tokens: 50")
    with pytest.raises(UsageError, match="50 tokens pays for no call"):
        begin(spec, path, options(), backend=backend())
    text = (tmp_path / "product.yaml").read_text().split("  llm:")[0]
    (tmp_path / "product.yaml").write_text(text.replace(", tokens: 50", ""))
    (plain,) = load_spec(tmp_path / "product.yaml")
    for nothing in ("", "cassette:"):
        with pytest.raises(UsageError, match="names nothing"):
            begin(plain, path, options(llm=nothing), backend=backend())
    with pytest.raises(RecordError):
        begin(plain, path, options(llm=f"cassette:{tmp_path}"), backend=backend())
    with pytest.raises(MachineError, match="OPENAI_API_KEY is not set"):
        begin(plain, path, options(llm="some-model"), backend=backend())
    (tmp_path / "product.yaml").write_text(
        text.replace("evolve: true", "evolve: false").replace(", tokens: 50", "")
    )
    (fixed,) = load_spec(tmp_path / "product.yaml")
    with pytest.raises(UsageError, match="the source does not evolve"):
        begin(fixed, path, options(llm="some-model"), backend=backend())
    assert not path.exists()
