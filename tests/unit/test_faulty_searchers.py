"""A third party's searcher that proposes what nobody can try: the record that it wrote before is not blamed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tuner.core.errors import PluginError
from tuner.core.types import Proposal, Resolved
from tuner.driver.audit import audit
from tuner.driver.options import Options
from tuner.driver.runs import begin
from tuner.spec.load import load_spec
from tuner.testing import SimulatedBackend

PACKAGE = """
from tuner.search.random_search import make as random


class Searcher:
    '''Random, but that its third answer begins with what is set here.'''

    name = "odd"
    first = None

    def __init__(self, space):
        self._inner, self._asked = random(space), 0

    def ask(self, count, rng):
        self._asked += 1
        found = self._inner.ask(count, rng)
        return [self.first, *found[1:]] if self._asked == 3 and self.first is not None else found

    def adopt(self, proposals):
        self._asked += 1
        self._inner.adopt(proposals)

    def tell(self, observations):
        self._inner.tell(observations)
"""


@pytest.fixture
def odd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The class of a third party's searcher called ``odd``."""
    folder = tmp_path / "site"
    info = folder / "odd-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "entry_points.txt").write_text("[tuner.searchers]\nodd = odd_package:Searcher\n")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: odd\nVersion: 1.0\n")
    (folder / "odd_package.py").write_text(PACKAGE)
    monkeypatch.syspath_prepend(folder)
    import odd_package

    yield odd_package.Searcher
    del sys.modules["odd_package"]


def seconds(resolved: Resolved) -> float:
    return 1e-3 / int(resolved.macros["WIDTH"])


def test_other_faults_of_a_searcher_are_its_own(
    odd: Any, scale_spec: Callable[..., Path], tmp_path: Path
) -> None:
    """A record is not blamed for a package that fails today."""
    (spec,) = load_spec(scale_spec(strategy="odd", evaluations=20))
    path = tmp_path / "a.run"
    begin(spec, path, Options(), backend=SimulatedBackend(seconds=seconds))
    assert audit(path).differences == []
    odd.first = Proposal(configuration={}, origin="odd")
    with pytest.raises(PluginError, match="searcher odd: ask returned"):
        audit(path)
