"""The space of pass pipelines around a base: random ones, mutations, crossover, and how far each is from the base.

Knows passes only through the catalogue that it is handed. May not run LLVM.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from tuner.core.errors import SpecError
from tuner.spaces.catalogue import Catalogue, PassInfo
from tuner.spaces.edits import Edit, EditKind, random_edit, random_prefix
from tuner.spaces.pipeline import Node, Pipeline

__all__ = ["Catalogue", "Edit", "EditKind", "PassInfo", "PassSpace", "Pipeline", "edit_script"]

_TRIES = 20
_LONGEST_PREFIX = 12

Token = tuple[tuple[str, ...], Node]
"""A pass with the heads of its containers: what two pipelines are compared by."""


class PassSpace:
    """Pipelines within ``max_edits`` of the base or, where the base is ``default<O3>``, of O3 spelt out.

    ``default<O3>`` printed pass by pass is not the same as itself (levels are lost), so both count as a beginning.

    Args:
        catalogue: the passes that LLVM has.
        base: the baseline's pipeline.
        max_edits: how many passes may be put in, taken out or changed.

    Attributes:
        starts: the pipelines that distances are measured from, the base first.

    Raises:
        SpecError: a base that LLVM cannot read, or ``max_edits`` below 1.
    """

    def __init__(self, catalogue: Catalogue, *, base: str = "default<O3>", max_edits: int = 40) -> None:
        if max_edits < 1:
            raise SpecError(f"passes: max_edits is {max_edits}", "at least 1, or passes: off")
        parsed = Pipeline.parse(base)
        reason = catalogue.explain(parsed)
        if reason:
            raise SpecError(f"passes: base {base!r}: {reason}", f"LLVM {catalogue.version} cannot run it")
        self.catalogue = catalogue
        self.base = parsed.text
        self.max_edits = max_edits
        self.starts: tuple[Pipeline, ...] = (catalogue.explicit(parsed),)
        if self.base == "default<O3>" and catalogue.o3:
            self.starts = (*self.starts, Pipeline.parse(catalogue.o3))
        self.distance = lru_cache(maxsize=4096)(self._distance)

    @cached_property
    def flattened(self) -> str:
        """The base pass by pass: the last of :attr:`starts`."""
        return self.starts[-1].text

    def explain(self, text: str) -> str:
        """Why a pipeline is not in the space, one line; empty when it is."""
        try:
            pipeline = Pipeline.parse(text)
        except SpecError as error:
            return str(error)
        reason = self.catalogue.explain(pipeline)
        if reason:
            return reason
        distance = self.distance(text)
        if distance > self.max_edits:
            return f"the pipeline is {distance} edits from {self.base}; at most {self.max_edits} are allowed"
        return ""

    def is_valid(self, text: str) -> bool:
        """Whether a pipeline is in the space."""
        return not self.explain(text)

    def random(self, rng: np.random.Generator) -> str:
        """A random pipeline of the space, never the base itself.

        Half of them are a random prefix before the base, a third are O3 spelt out with a few edits (one to a
        quarter of ``max_edits``, fewer are likelier), the rest have edits before and after the base.
        """
        share = float(rng.random())
        if share < 0.5:
            return self._before(self.starts[0], rng).text
        if share < 0.83 and len(self.starts) > 1:
            count = min(int(rng.geometric(0.3)), max(1, self.max_edits // 4))
            return self._edited(self.starts[-1], rng, count).text
        count = min(int(rng.geometric(0.4)), self.max_edits)
        return self._edited(self.starts[0], rng, count).text

    def mutate(self, text: str, rng: np.random.Generator, edits: int = 1) -> str:
        """A pipeline a few edits away, within ``max_edits``; never the same text.

        From the base itself half of the mutations go to O3 spelt out.

        Args:
            text: a pipeline of the space.
            rng: source of all randomness.
            edits: how many, at least one.

        Raises:
            SpecError: not a pipeline.
        """
        pipeline = self.catalogue.explicit(Pipeline.parse(text))
        if text == self.base and rng.random() < 0.5:
            pipeline = self.starts[-1]
        for _ in range(_TRIES):
            changed = self._edited(pipeline, rng, edits)
            if changed.text != text and self.distance(changed.text) <= self.max_edits:
                return changed.text
        # At the rim of the space: step back towards the base.
        return self._edited(self.starts[-1], rng, min(edits, self.max_edits)).text

    def crossover(self, a: str, b: str, rng: np.random.Generator) -> str:
        """The beginning of one pipeline with the end of another, cut where both run the same pass.

        Pipelines that have only the whole base in common exchange parts of what stands before and after it. One of
        the two comes back where no cut gives a new pipeline of the space.

        Raises:
            SpecError: not a pipeline.
        """
        first, second = self._tokens(a), self._tokens(b)
        blocks = SequenceMatcher(None, first, second, autojunk=False).get_matching_blocks()
        shared = [(m.a + i, m.b + i) for m in blocks for i in range(m.size + 1) if m.size]
        whole = [i for i, (_, node) in enumerate(first) if node.head == self.base]
        other = [i for i, (_, node) in enumerate(second) if node.head == self.base]
        for _ in range(_TRIES):
            if whole and (other or rng.random() < 0.5):
                # Beginnings: one part of what stands before each base.
                stop = other[0] if other else 0
                i, j = int(rng.integers(whole[0] + 1)), int(rng.integers(stop + 1))
                if other and rng.random() < 0.3:
                    i, j = whole[0], other[0]
            elif shared:
                i, j = shared[int(rng.integers(len(shared)))]
            else:
                break
            child = Pipeline.build([*first[:i], *second[j:]])
            if child.nodes and child.text not in (a, b) and self.is_valid(child.text):
                return child.text
        return a if rng.random() < 0.5 else b

    def _before(self, start: Pipeline, rng: np.random.Generator) -> Pipeline:
        prefix = random_prefix(self.catalogue, rng, longest=min(self.max_edits, _LONGEST_PREFIX))
        return Pipeline((*prefix.nodes, *start.nodes))

    def _edited(self, pipeline: Pipeline, rng: np.random.Generator, count: int) -> Pipeline:
        before = pipeline
        for _ in range(max(1, count)):
            _, pipeline = random_edit(pipeline, self.catalogue, rng)
        if pipeline == before:
            _, pipeline = random_edit(pipeline, self.catalogue, rng)
        return pipeline

    def _tokens(self, text: str) -> list[Token]:
        return _tokens(self.catalogue.explicit(Pipeline.parse(text)))

    def _distance(self, text: str) -> int:
        tokens = self._tokens(text)
        return min(_levenshtein(_tokens(start), tokens)[0] for start in self.starts)


def _tokens(pipeline: Pipeline) -> list[Token]:
    return [(leaf.containers, leaf.node) for leaf in pipeline.leaves()]


def _common_ends(old: Sequence[Any], new: Sequence[Any]) -> tuple[int, int]:
    """How many elements two sequences share at the beginning, and then at the end."""
    start = 0
    while start < min(len(old), len(new)) and old[start] == new[start]:
        start += 1
    end = 0
    while end < min(len(old), len(new)) - start and old[-1 - end] == new[-1 - end]:
        end += 1
    return start, end


def _levenshtein(old: Sequence[Token], new: Sequence[Token]) -> tuple[int, list[list[int]]]:
    """The edit distance and its table, after common ends are cut off."""
    codes: dict[Token, int] = {}
    a = [codes.setdefault(t, len(codes)) for t in old]
    b = [codes.setdefault(t, len(codes)) for t in new]
    start, end = _common_ends(a, b)
    a, b = a[start : len(a) - end], b[start : len(b) - end]
    table = [list(range(len(b) + 1))]
    for i, x in enumerate(a, 1):
        above, row = table[-1], [i]
        for j, y in enumerate(b, 1):
            row.append(min(above[j - 1] + (x != y), above[j] + 1, row[j - 1] + 1))
        table.append(row)
    return table[-1][-1], table


def edit_script(old: Sequence[Token], new: Sequence[Token]) -> list[dict[str, Any]]:
    """A shortest list of changes from one sequence of passes to another, as plain JSON.

    Each entry has ``edit`` (``insert``, ``delete``, ``replace``, ``set_option``), ``at`` (which pass of the
    start, from 0) and ``old``, ``new`` (passes within their containers).
    """
    start, end = _common_ends(old, new)
    old, new = old[: len(old) - end], new[: len(new) - end]
    _, table = _levenshtein(old[start:], new[start:])
    # The table's own trimming is a no-op here: both ends differ already.
    i, j = len(old) - start, len(new) - start
    script: list[dict[str, Any]] = []
    while i or j:
        here = table[i][j]
        before = old[start + i - 1] if i else None
        after = new[start + j - 1] if j else None
        if before is not None and after is not None and here == table[i - 1][j - 1] + (before != after):
            i, j = i - 1, j - 1
            if before != after:
                kind = "set_option" if _only_options(before, after) else "replace"
                script.append({"edit": kind, "at": start + i, "old": _text(before), "new": _text(after)})
        elif before is not None and here == table[i - 1][j] + 1:
            i -= 1
            script.append({"edit": "delete", "at": start + i, "old": _text(before)})
        elif after is not None:
            j -= 1
            script.append({"edit": "insert", "at": start + i, "new": _text(after)})
    return script[::-1]


def _only_options(old: Token, new: Token) -> bool:
    return old[0] == new[0] and old[1].name == new[1].name


def _text(token: Token) -> str:
    return Pipeline.build([token]).text
