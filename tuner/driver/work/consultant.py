"""Prompts and variants of a run's exchanges, made from its state alone: what a replay derives again.

May not open a connection, look at a clock, or decide when a model is asked.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping
from typing import Any

from tuner.core.canonical import canonical_json, digest, from_json
from tuner.core.streams import stream
from tuner.core.types import Configuration, Status, Task
from tuner.driver.plan.actions import Consult
from tuner.driver.state.exchanges import Call
from tuner.driver.state.lineage import ORIGINAL, VariantState
from tuner.driver.state.run import RunState
from tuner.driver.state.trials import TrialState
from tuner.search.evolution import Bred, Evolution
from tuner.search.llm.exchange import Message, Turn, bound_tokens, cassette_key
from tuner.search.llm.offspring import Unusable, variant_of
from tuner.search.llm.prompt import TEMPLATE, Facts, Failure, Relative, first_messages, next_messages
from tuner.search.llm.reply import read_reply
from tuner.spaces.source.descriptors import AXES
from tuner.spaces.source.edits import Applied, apply_edits

__all__ = ["consult", "least_tokens", "receive"]

_RELATIVES = 2
_FAILURES = 2
_CUT = ("length", "cut")
_MACHINE = ("device", "cpu", "features", "arch", "target")
_MOST_TEXT = 300
_MORE_MACHINE = ("caches", "gpu", "opencl")
_VECTORS = re.compile(r"\+((?:avx|amx|fma|f16c|sse4|sve|neon|dotprod)[\w.-]*)")


def consult(
    state: RunState, evolution: Evolution, task: Task, action: Consult, blobs: dict[str, bytes]
) -> dict[str, Any]:
    """A ``consult`` event's body but for what the clock says; the prompt goes to ``blobs``.

    Where no budget pays for the call, ``over`` names the budget and nothing is asked.
    """
    settings = state.exchanges.settings
    assert settings is not None
    if action.before is None:
        island, parent, others = _parents(state, evolution, action.number)
        turn, attempt = Turn.PROPOSE, state.exchanges.attempt(action.model, parent)
        messages = first_messages(_facts(state, evolution, task, parent, others))
    else:
        before = state.exchanges.calls[action.before]
        assert before.turn.next is not None
        island, parent, turn, attempt = before.island, before.parent, before.turn.next, before.attempt
        messages = _corrected(state, before, turn)
    model = settings.model(action.model)
    prompt = bound_tokens(messages)
    tokens, usd = prompt + settings.max_tokens, model.usd(prompt, settings.max_tokens)
    data = canonical_json([dict(m) for m in messages]).encode()
    over = _over(state, tokens, usd)
    if over is None:
        blobs[digest(data)] = data
    return {
        "number": action.number,
        "model": action.model,
        "before": action.before,
        "turn": turn.value,
        "attempt": attempt,
        "parent": parent,
        "island": island,
        "key": cassette_key(
            template=TEMPLATE,
            model=action.model,
            parents=[state.variants[parent].digest],
            attempt=attempt,
            turn=turn,
        ),
        "prompt": None if over is not None else f"blob:{digest(data)}",
        "tokens": tokens,
        "usd": usd,
        "over": over,
    }


def receive(
    state: RunState, evolution: Evolution, call: Call, taken: Collection[str]
) -> tuple[Bred | None, list[str], bool]:
    """A variant of a reply; or what is wrong with it, and whether there is no use in asking for a better one."""
    reply = call.reply
    assert reply is not None
    parent = _applied(state, evolution, call.parent)
    read = read_reply(state.text(reply["text"]), regions=len(parent.program.regions))
    made = variant_of(
        read,
        parent,
        model=call.model,
        taken=taken,
        known={v.structure for v in state.variants.values()},
        note={"call": call.number},
    )
    if isinstance(made, Unusable):
        problems = list(made.problems)
        if reply["finish"] in _CUT:
            problems.insert(0, "the reply was cut off: write less")
        return None, problems, made.final
    bred = evolution.adopted(
        made, parent=call.parent, island=call.island, configuration=best_of(state, call.parent)
    )
    return bred, [], False


def best_of(state: RunState, variant: int) -> Configuration:
    """The best configuration of a variant that is known."""
    best = state.variants[variant].best
    return state.trials[0 if best is None else best].proposal.configuration


def least_tokens(task: Task) -> int:
    """Tokens that a first prompt has at least, by the same bound as all prompts."""
    text = "".join(f.text for f in task.kernel.variant.files)
    return bound_tokens([{"role": "user", "content": text}])


def _over(state: RunState, tokens: int, usd: float) -> str | None:
    exchanges = state.exchanges
    settings = exchanges.settings
    assert settings is not None
    if settings.usd is not None and exchanges.usd + usd > settings.usd:
        return "usd"
    if settings.tokens is not None and exchanges.tokens + tokens > settings.tokens:
        return "tokens"
    return None


def _parents(state: RunState, evolution: Evolution, number: int) -> tuple[int, int, list[int]]:
    """Island, parent, and others to show: the best of all if it is better, then different ones."""
    rng = stream(state.settings.seed, "consult", number)
    island, elites = evolution.parents(number, 1 + _RELATIVES, rng)
    if not elites:
        return island, ORIGINAL, []
    best = evolution.archive.best
    others = [best.born] if best is not None and best.score < elites[0].score else []
    others += [e.born for e in elites[1:] if e.born not in others]
    return island, elites[0].born, [n for n in others if n != elites[0].born][:_RELATIVES]


def _corrected(state: RunState, before: Call, turn: Turn) -> list[Message]:
    messages: list[Message] = from_json(state.text(before.prompt))
    text = "" if before.reply is None else state.text(before.reply["text"])
    return next_messages(messages, text, before.problems, rewrite=turn is Turn.REWRITE)


def _facts(state: RunState, evolution: Evolution, task: Task, parent: int, others: list[int]) -> Facts:
    own = state.variants[parent]
    applied = _applied(state, evolution, parent)
    best = state.trials[0 if own.best is None else own.best]
    features: Mapping[str, float] = (best.build or {}).get("features", {})
    values = {n: v if not isinstance(v, str) else v[:80] for n, v in best.proposal.configuration.items()}
    environment = (state.start or {})["environment"]["backend"]
    return Facts(
        program=applied.program,
        numerics=task.verify.numerics,
        ratio=math.exp(own.score or 0.0),
        kind=_kind(own.cell),
        task=_task_lines(task),
        tunables=values,
        machine=_machine(environment),
        features=features,
        counters=_counters(best),
        remarks={n: _without_folders(t) for n, t in state.exchanges.remarks.get(parent, {}).items()},
        relatives=[_relative(state, evolution, n) for n in others],
        failures=_failures(state, parent),
    )


def _machine(environment: Mapping[str, Any]) -> dict[str, str]:
    """The processor or device with its numbers: what sizes and vectors are chosen by."""
    found = {k: str(environment[k])[:_MOST_TEXT] for k in _MACHINE if environment.get(k)}
    vectors = sorted(_VECTORS.findall(str(environment.get("cpu_features", ""))))
    if vectors:
        found["vectors"] = ", ".join(vectors)[:_MOST_TEXT]
    for group in _MORE_MACHINE:
        values = environment.get(group)
        if isinstance(values, Mapping):
            numbers = (f"{n} {v:g}" for n, v in sorted(values.items()) if type(v) in (int, float))
            found[group] = ", ".join(numbers)[:_MOST_TEXT]
    return {name: text for name, text in found.items() if text}


def _counters(trial: TrialState) -> dict[str, float]:
    """The mean over a trial's batches of what the processor counted; empty where it counts nothing."""
    found: dict[str, list[float]] = {}
    for measured in (m for one in trial.rounds for m in one):
        for name, value in measured["notes"].get("counters", {}).items():
            found.setdefault(name, []).append(float(value))
    return {name: sum(values) / len(values) for name, values in found.items()}


def _relative(state: RunState, evolution: Evolution, number: int) -> Relative:
    own = state.variants[number]
    files = _applied(state, evolution, number).variant.files
    return Relative(files=files, ratio=math.exp(own.score or 0.0), kind=_kind(own.cell))


def _failures(state: RunState, parent: int) -> list[Failure]:
    """The last tries from this parent of which nothing worked, with what the first trial says."""
    found: list[Failure] = []
    for variant in reversed(state.variants.values()):
        nothing = variant.score is None and variant.settled and variant.finished
        if variant.parents[:1] == (parent,) and nothing and len(found) < _FAILURES:
            found.append(_failure(state, variant))
    return found


def _failure(state: RunState, variant: VariantState) -> Failure:
    trial = state.trials[variant.finished[0]]
    status = Status.LOST if trial.status is None else trial.status
    return Failure(files=variant.files, status=status.value, message=_without_folders(trial.message))


def _without_folders(text: str) -> str:
    """A message without the folders of files: they are nobody's business."""
    return re.sub(r"(?<![\w.])/(?:[^\s/:'\"]+/)+", "", text)


def _applied(state: RunState, evolution: Evolution, number: int) -> Applied:
    edits = () if number == ORIGINAL else state.variants[number].edits
    return apply_edits(evolution.original, edits)


def _kind(cell: tuple[int, ...]) -> str:
    levels = zip(AXES.items(), cell, strict=False)
    return ", ".join(f"{axis}: {names[min(level, len(names) - 1)]}" for (axis, names), level in levels)


def _task_lines(task: Task) -> list[str]:
    lines = [f"Function: {task.kernel.function}"]
    for argument in task.arguments:
        if argument.passing in ("address", "memory"):
            if argument.passing == "address":
                lines.append(
                    f"Argument {argument.name}: leads to structures of the application, which may overlap"
                )
            continue
        shape = " by pointer" if argument.by_pointer else ""
        if argument.shape is not None and not argument.by_pointer:
            shape = f" [{', '.join(e.text for e in argument.shape)}]"
        value = "" if argument.value is None else f" = {argument.value.text}"
        lines.append(f"Argument {argument.name}: {argument.dtype}{shape}{value}, {argument.role.value}")
    sizes = "; ".join(", ".join(f"{n} = {v}" for n, v in p.sizes.items()) for p in task.problems)
    lines.append(f"Timed for: {sizes or 'one size'}; threads: {task.measure.threads}")
    if task.kernel.compiler is not None:
        lines.append(f"Compiler: {task.kernel.compiler.version}; write no pragmas of others")
    if task.kernel.openmp:
        lines.append(
            "OpenMP: directives are honoured, by a team that is there already; results have to be right for any number "
            "of threads"
        )
    lines.append(
        f"Tolerance: relative {task.verify.rtol:g}, absolute {task.verify.atol:g} of the output's RMS"
    )
    if task.verify.assume:
        lines.append("Sizes satisfy: " + ", ".join(e.text for e in task.verify.assume))
    return lines
