"""Searchers by name."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from importlib.metadata import EntryPoint

import pytest

from tuner.core.errors import MachineError, UsageError
from tuner.search import registry
from tuner.spaces.parameters import Parameter
from tuner.spaces.space import Space

SPACE = Space([Parameter.choice("A", [1, 2, 3])])


@pytest.mark.parametrize("name", sorted(set(registry.BUILT_IN) - {"optuna-gp", "passes"}))
def test_built_in_searchers_are_called_by_their_names(name):
    assert registry.create(name, SPACE).name == name
    assert name in registry.names()


@pytest.mark.parametrize("name", ["auto", "evolution", "random", "surrogate"])
def test_scipy_is_left_alone_until_there_is_something_to_model(name):
    """Importing it takes a third of the time that a check needs to start."""
    script = (
        "import sys\n"
        "from tuner.core.streams import stream\n"
        "from tuner.search.registry import create\n"
        "from tuner.spaces.parameters import Parameter\n"
        "from tuner.spaces.space import Space\n"
        f"searcher = create({name!r}, Space([Parameter.integer('A', low=1, high=99)]))\n"
        "assert len(searcher.ask(1, stream(0, 'ask', 0))) == 1\n"
        "sys.exit('scipy' in sys.modules)\n"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_an_unknown_name_is_answered_with_the_nearest_and_the_list():
    with pytest.raises(UsageError) as caught:
        registry.create("optuna-tep", SPACE)
    assert "'optuna-tpe'" in caught.value.hint
    assert "skopt-forest" in caught.value.hint


def test_a_space_without_passes_has_nothing_for_the_evolution():
    with pytest.raises(UsageError, match="no passes"):
        registry.create("passes", SPACE)


def test_exhaustive_refuses_what_it_cannot_list():
    large = Space([Parameter.integer(f"P{i}", low=0, high=999) for i in range(5)])
    with pytest.raises(UsageError, match="too large"):
        registry.create("exhaustive", large)


@pytest.mark.skipif(importlib.util.find_spec("torch") is not None, reason="torch is installed")
def test_gp_without_torch_says_what_to_install():
    with pytest.raises(MachineError) as caught:
        registry.create("optuna-gp", SPACE)
    assert caught.value.hint == "pip install 'remix-tuner[gp]'"


@pytest.mark.parametrize(
    ("name", "module"), [("skopt-gp", "skopt"), ("optuna-tpe", "optuna"), ("optuna-cmaes", "cmaes")]
)
def test_a_missing_library_is_the_machines_fault(name, module, monkeypatch):
    # What Python does for a module that cannot be imported.
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MachineError, match=f"needs {module}") as caught:
        registry.create(name, SPACE)
    assert caught.value.hint.startswith("pip install")


def test_third_parties_add_searchers_but_cannot_take_a_built_in_name(monkeypatch):
    value = "tuner.search.random_search:make"
    found = [EntryPoint(name=n, value=value, group=registry.GROUP) for n in ("mine", "auto")]
    monkeypatch.setattr(registry, "entry_points", lambda group: found if group == registry.GROUP else [])
    assert registry.create("mine", SPACE).name == "random"
    assert registry.create("auto", SPACE).name == "auto"
    assert "mine" in registry.names()


def test_an_entry_point_that_is_no_factory_is_reported(monkeypatch):
    entry = EntryPoint(name="odd", value="tuner.search.registry:GROUP", group=registry.GROUP)
    monkeypatch.setattr(registry, "entry_points", lambda group: [entry])
    with pytest.raises(UsageError, match="no factory"):
        registry.create("odd", SPACE)
