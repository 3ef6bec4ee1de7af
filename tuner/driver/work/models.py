"""Which models a run asks: the spec's and the command line's word as settings, and what carries the calls.

May not ask a model itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from tuner.core.canonical import canonical_json, from_json
from tuner.core.errors import UsageError
from tuner.driver.state.settings import Llm
from tuner.driver.work.cassettes import read_cassette
from tuner.driver.work.consultant import least_tokens
from tuner.driver.work.correspondence import Cassette, Correspondent, Live
from tuner.search.llm.client import Client
from tuner.search.llm.exchange import Model
from tuner.spec.load import LoadedSpec
from tuner.spec.models import LlmModel, OneModel

__all__ = ["CASSETTE", "correspondent_of", "models_of"]

CASSETTE = "cassette"
"""Key of the ``start`` event under which a cassette's exchanges stand."""

_PREFIX = "cassette:"
_OFF = "off"


def models_of(spec: LoadedSpec, asked: str | None) -> tuple[Llm | None, str | None]:
    """Settings of the models to ask, and the text of a cassette where one stands in for them.

    Args:
        spec: one kernel's.
        asked: what the command line says: a model's name, ``off``, or ``cassette:`` with a run's record or a
            file of exchanges; ``None`` leaves it to the spec.

    Raises:
        UsageError: the source does not evolve, a budget that pays for no call, a run that is no cassette.
    """
    given = spec.search.llm
    if asked is not None and not asked.removeprefix(_PREFIX).strip():
        raise UsageError(
            f"--llm {asked!r} names nothing",
            "give a model, off, or cassette: with a run's record or a file of exchanges",
        )
    if asked == _OFF or (asked is None and (given is None or not spec.evolves)):
        return None, None
    if not spec.evolves:
        raise UsageError(
            f"{spec.name}: a model proposes variants, and the source does not evolve",
            "set space: {source: {evolve: true}}, or use --llm off",
        )
    search = spec.search
    limits: dict[str, Any] = {"usd": search.usd, "tokens": search.tokens, "calls": search.calls}
    if asked is not None and asked.startswith(_PREFIX):
        recorded, entries = read_cassette(Path(asked.removeprefix(_PREFIX)))
        return replace(recorded, cassette=True, **limits), canonical_json(entries)
    given = given or LlmModel(model=asked)
    if asked is not None:
        chosen = [m for m in given.models if m.model == asked]
        given = given.model_copy(update={"models": chosen, "model": None if chosen else asked})
    settings = Llm(
        models=_models(given),
        max_tokens=given.max_tokens,
        timeout_s=given.timeout_s,
        stream=given.stream,
        temperature=given.temperature,
        when_spent=given.when_spent,
        **limits,
    )
    _check_budget(settings, least_tokens(spec.task))
    return settings, None


def correspondent_of(
    settings: Llm | None, start: Mapping[str, Any], text: Callable[[str], str]
) -> Correspondent | None:
    """What carries a run's calls.

    Args:
        settings: of the run; ``None`` where no model is asked.
        start: the body of its first event.
        text: reads a text that the event refers to.

    Raises:
        MachineError: there is no key, or openai is not installed.
    """
    if settings is None:
        return None
    if settings.cassette:
        return Cassette(from_json(text(start[CASSETTE])))
    return Live(settings, Client(settings.models))


def _models(given: LlmModel) -> tuple[Model, ...]:
    listed = given.models or [OneModel(model=str(given.model))]
    made = []
    for one in listed:
        prices = one.prices or given.prices
        made.append(
            Model(
                name=one.model,
                base_url=one.base_url or given.base_url,
                api_key_env=one.api_key_env or given.api_key_env,
                prompt_usd=prices.prompt,
                completion_usd=prices.completion,
                role=one.role,
            )
        )
    return tuple(made)


def _check_budget(settings: Llm, prompt: int) -> None:
    """A budget that pays for no call at all is a mistake."""
    least = min(m.usd(prompt, settings.max_tokens) for m in settings.models)
    if settings.usd is not None and not any(m.prompt_usd or m.completion_usd for m in settings.models):
        raise UsageError(
            "a budget in dollars needs prices", "give search.llm.prices, in dollars for a million tokens"
        )
    if settings.usd is not None and least > settings.usd:
        raise UsageError(
            f"a budget of {settings.usd:g} dollars pays for no call: one may cost {least:.2g}",
            "raise search.budget.usd or lower search.llm.max_tokens",
        )
    if settings.tokens is not None and prompt + settings.max_tokens > settings.tokens:
        raise UsageError(
            f"a budget of {settings.tokens} tokens pays for no call: one may take {prompt + settings.max_tokens}",
            "raise search.budget.tokens or lower search.llm.max_tokens",
        )
