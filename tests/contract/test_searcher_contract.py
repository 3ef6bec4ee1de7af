"""Every built-in searcher passes the conformance suite, with and without passes."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tuner.core.expressions import parse
from tuner.core.streams import stream
from tuner.search import conformance
from tuner.search.registry import BUILT_IN, create
from tuner.spaces.parameters import Parameter
from tuner.spaces.passes import Catalogue, PassSpace
from tuner.spaces.space import Space

GOLDEN = Path(__file__).parents[1] / "golden"
TORCH = importlib.util.find_spec("torch") is not None
USABLE = tuple(name for name in sorted(BUILT_IN) if TORCH or name != "optuna-gp")
WITHOUT_PASSES = tuple(name for name in USABLE if name != "passes")
HASHED = ("auto", "optuna-tpe", "passes", "skopt-forest")
FEW = 12
"""Trials for skopt, of which a proposal takes a tenth of a second once it has a model, from ten on."""
WITH_PASSES = tuple(name for name in USABLE if name != "exhaustive")


def pass_space() -> PassSpace:
    listing = (GOLDEN / "llvm23_passes.txt").read_text()
    return PassSpace(
        Catalogue.from_listing(listing, (GOLDEN / "llvm23_o3.txt").read_text().strip(), "23.1.4")
    )


def medium(passes: PassSpace | None = None) -> Space:
    return Space(
        [
            Parameter.choice("TILE", [8, 16, 32, 64]),
            Parameter.log_integer("UNROLL", low=1, high=8),
            Parameter.integer("SKEW", low=0, high=5),
            Parameter.choice("ORDER", ["ij", "ji", "tiled"]),
            Parameter.choice("VECTOR", [False, True]),
        ],
        [parse("TILE % UNROLL == 0"), parse("SKEW < TILE // 4")],
        flags={"math": ("", "-ffast-math"), "unroll": ("", "-funroll-loops", "-fno-unroll-loops")},
        passes=passes,
    )


def small() -> Space:
    return Space(
        [Parameter.integer("A", low=1, high=4), Parameter.choice("B", ["x", "y", "z"])],
        [parse("A != 2")],
        flags={"math": ("", "-ffast-math")},
    )


def unlisted() -> Space:
    return Space([Parameter.integer(f"P{i}", low=0, high=999) for i in range(6)], [parse("P0 + P1 < 1500")])


def only_passes() -> Space:
    return Space([], passes=pass_space())


@pytest.mark.parametrize("name", USABLE)
@pytest.mark.integration
def test_parameters_flags_and_passes(name):
    """All of them where a searcher has all; spaces without passes are the others here."""
    space = medium(pass_space() if name in WITH_PASSES else None)
    conformance.check_all(
        lambda space: create(name, space),
        space,
        trials=FEW if name.startswith("skopt") else 18,
        small=small() if name in WITHOUT_PASSES else None,
    )


@pytest.mark.parametrize("name", [n for n in WITHOUT_PASSES if n != "exhaustive"])
@pytest.mark.integration
def test_space_too_large_to_list(name):
    space = unlisted()
    assert space.listing() is None
    conformance.check_proposals(lambda s: create(name, s), space, trials=16, batch=2)
    conformance.check_adopt(lambda s: create(name, s), space, trials=16)


@pytest.mark.parametrize("name", ["auto", "passes", "random"])
def test_only_passes(name):
    conformance.check_all(lambda space: create(name, space), only_passes(), trials=20)


@pytest.mark.parametrize("name", ["auto", "optuna-cmaes", "skopt-gp"])
@pytest.mark.integration
def test_only_flags(name):
    flags = {"math": ("", "-ffast-math"), "a": ("", "-fa", "-fb"), "b": ("", "-fc", "-fd")}
    conformance.check_exhaustion(lambda space: create(name, space), Space([], flags=flags))


@pytest.mark.parametrize("name", WITHOUT_PASSES)
def test_space_of_one_configuration(name):
    space = Space([Parameter.choice("A", [3])])
    conformance.check_exhaustion(lambda s: create(name, s), space)
    fresh = create(name, space)
    proposals = fresh.ask(4, stream(0, "ask", 1))
    assert [dict(p.configuration) for p in proposals] == [{"A": 3}]


SCRIPT = """
import sys
sys.path.insert(0, sys.argv[1])
from test_searcher_contract import transcripts
print(transcripts())
"""


def transcripts():
    """What some searchers propose, as a digest of each."""
    space = medium(pass_space())
    told = {name: conformance.transcript(lambda s, n=name: create(n, s), space, trials=12) for name in HASHED}
    return {name: hashlib.sha256(text.encode()).hexdigest() for name, text in told.items()}


@pytest.mark.integration
def test_proposals_do_not_depend_on_the_process():
    """Another one's texts have other hashes, by which sets are ordered."""
    other = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    environment = {**os.environ, "PYTHONHASHSEED": other}
    command = [sys.executable, "-c", SCRIPT, str(Path(__file__).parent)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(transcripts())


@pytest.mark.parametrize("broken", ["repeats", "invalid", "impure", "forgets"])
def test_the_suite_finds_a_broken_searcher(broken):
    with pytest.raises(AssertionError):
        conformance.check_all(lambda space: Broken(space, broken), medium(), trials=12, small=small())


class Broken:
    """Random search with one fault."""

    name = "broken"
    _made = 0

    def __init__(self, space, fault):
        self._inner, self._fault = create("random", space), fault
        Broken._made += 1
        self._number = Broken._made

    def ask(self, count, rng):
        if self._fault == "impure":
            rng.random(self._number)
        proposals = self._inner.ask(count, rng)
        if self._fault == "repeats" and proposals:
            self._first = getattr(self, "_first", proposals[0])
            return [self._first]
        if self._fault == "invalid":
            for proposal in proposals:
                proposal.configuration["TILE"] = 7
        return proposals

    def adopt(self, proposals):
        self._inner.adopt(proposals)

    def tell(self, observations):
        if self._fault != "forgets":
            self._inner.tell(observations)
