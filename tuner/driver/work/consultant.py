"""Prompts and variants of a run's exchanges, made from its state alone: what a replay derives again.

May not open a connection, look at a clock, or decide when a model is asked.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

from tuner.core.canonical import canonical_json, digest, from_json
from tuner.core.types import BASELINE, Configuration, Task
from tuner.driver.plan.actions import Consult
from tuner.driver.state.exchanges import Call, promising
from tuner.driver.state.lineage import ORIGINAL
from tuner.driver.state.run import RunState
from tuner.driver.work import prompt_facts
from tuner.search.evolution import Bred, Evolution
from tuner.search.llm.exchange import Message, Purpose, bound_tokens, cassette_key
from tuner.search.llm.offspring import Unusable, variant_of
from tuner.search.llm.prompt import Facts, Version, first_messages, repair_messages
from tuner.search.llm.reply import Reply, read_ideas, read_reply
from tuner.search.llm.rules import TEMPLATE
from tuner.spaces.source.edits import Applied, apply_edits
from tuner.spaces.space import Space

__all__ = ["Received", "consult", "least_tokens", "receive"]

_CUT = ("length", "cut")

Received = tuple[Bred | None, dict[str, Any]]
"""A variant, where a reply gave one, and what else a ``variant`` event says of the reply: ``problems``, whether they
are ``final``, its ``summary`` in the model's words, and ``ideas`` that it listed, which are final where none of them
will be written."""


def consult(
    state: RunState,
    evolution: Evolution,
    task: Task,
    space: Space,
    action: Consult,
    blobs: dict[str, bytes],
) -> dict[str, Any]:
    """A ``consult`` event's body but for what the clock says; the prompt goes to ``blobs``.

    Where no budget pays for the call, ``over`` names the budget and nothing is asked.
    """
    settings = state.exchanges.settings
    assert settings is not None
    if action.before is None:
        attempt = state.exchanges.attempt(action.model, action.parent)
        subject = [state.variants[n].digest for n in (action.parent, action.other) if n is not None]
        messages = first_messages(_facts(state, evolution, task, space, action))
    else:
        before = state.exchanges.calls[action.before]
        attempt, subject = before.attempt, [before.key]
        messages = _corrected(state, before)
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
        "purpose": action.purpose.value,
        "parent": action.parent,
        "other": action.other,
        "idea": action.idea,
        "before": action.before,
        "attempt": attempt,
        "island": state.variants[action.parent].island,
        "key": cassette_key(
            template=TEMPLATE, model=action.model, purpose=action.purpose, subject=subject, number=attempt
        ),
        "prompt": None if over is not None else f"blob:{digest(data)}",
        "tokens": tokens,
        "usd": usd,
        "over": over,
    }


def receive(state: RunState, evolution: Evolution, call: Call, taken: Collection[str]) -> Received:
    """A variant or ideas of a reply; or what is wrong with it, and whether asking for a better one is of no use."""
    reply = call.reply
    assert reply is not None
    text = state.text(reply["text"])
    parent = _applied(state, evolution, call.parent)
    read = read_reply(text, regions=len(parent.program.regions))
    if call.purpose is Purpose.IDEAS and not read.replacements and not read.rewrites:
        return None, _listed(text, read, math.exp(-prompt_facts.best_score(state)))
    summary = prompt_facts.title(read.idea)
    made = variant_of(
        read,
        parent,
        original=evolution.original,
        model=call.model,
        taken=taken,
        known={v.structure for v in state.variants.values()},
        note={"call": call.number, "idea": read.idea},
    )
    if isinstance(made, Unusable):
        problems = list(made.problems)
        if reply["finish"] in _CUT:
            problems.insert(0, "the reply was cut off at the limit of its length: write less")
        return None, {"problems": problems, "final": made.final, "summary": summary}
    bred = evolution.adopted(
        made, parent=call.parent, island=call.island, configuration=best_of(state, call.parent)
    )
    return bred, {"problems": [], "final": False, "summary": summary}


def _listed(text: str, read: Reply, reached: float) -> dict[str, Any]:
    """The ideas of a reply; ``final`` where none of them will be written."""
    ideas: list[list[Any]] = [[one.text, one.gain] for one in read_ideas(text)]
    if not ideas and read.declined:
        return {"problems": list(read.problems), "final": True, "ideas": []}
    if not ideas and read.idea:
        ideas = [[read.idea, None]]
    problems = [] if ideas else ["there is no numbered list of ideas in it"]
    final = not any(promising(gain, reached) for _, gain in ideas)
    return {"problems": problems, "final": final, "ideas": ideas}


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


def _corrected(state: RunState, before: Call) -> list[Message]:
    messages: list[Message] = from_json(state.text(before.prompt))
    text = "" if before.reply is None else state.text(before.reply["text"])
    tried = before.variant is not None
    problems = [prompt_facts.outcome_of(state, before)] if tried else before.problems
    return repair_messages(messages, text, problems, tried=tried)


def _facts(state: RunState, evolution: Evolution, task: Task, space: Space, action: Consult) -> Facts:
    def version(number: int) -> Version:
        return prompt_facts.version(state, _applied(state, evolution, number), number, space)

    flags = space.resolve(state.trials[BASELINE].proposal.configuration).flags
    ideas = state.exchanges.ideas
    settings = state.settings.evolution
    alone = settings is not None and settings.independent
    return Facts(
        purpose=action.purpose,
        numerics=task.verify.numerics if prompt_facts.has_float_outputs(task) else "integers",
        kernel=prompt_facts.kernel_lines(task),
        machine=prompt_facts.machine_lines(task, state.start or {}, flags),
        parent=version(action.parent),
        idea="" if action.idea is None else ideas[action.idea].text,
        given=None if action.parent == ORIGINAL else evolution.original,
        other=None if action.other is None else version(action.other),
        versions=[] if alone else prompt_facts.other_lines(state, (action.parent, action.other)),
        earlier=[] if alone else prompt_facts.earlier(state),
        listed=[idea.text for idea in ideas if not idea.taken],
    )


def _applied(state: RunState, evolution: Evolution, number: int) -> Applied:
    edits = () if number == ORIGINAL else state.variants[number].edits
    return apply_edits(evolution.original, edits)
