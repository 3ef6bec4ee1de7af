"""Pass pipelines: the winner's, and what single passes were worth.

Two kinds of evidence, kept apart. A *pair* is two trials with the same source, parameters and flags whose pipelines
differ by one pass alone: the ratio of their times is what the pass did there. An *association* is the coefficient of an
edit (a pass put in or taken out, against the nearest pipeline that the search starts from) in a ridge regression of the
log time on all edits and all settings, with an interval from bootstrap resamples of the trials: edits that were tried
together cannot be told apart by it.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any

import numpy as np
import numpy.typing as npt

from tuner.core.canonical import canonical_json
from tuner.core.errors import SpecError
from tuner.core.types import BASELINE, Status
from tuner.driver.state.run import RunState
from tuner.driver.state.trials import TrialState
from tuner.report.trials import rounded
from tuner.spaces.pipeline import Leaf, Pipeline
from tuner.spaces.space import PASSES

__all__ = ["passes"]

MOST_TRIALS = 2000
RESAMPLES = 40
LEAST = 3
"""Trials with and without a pass below which no association is given."""

RIDGE = 1.0
SHOWN = 60
"""Passes that the page lists."""

Matrix = npt.NDArray[np.float64]
Edit = tuple[str, str]
"""``added`` or ``removed``, and the pass."""


def passes(state: RunState, starts: Sequence[Pipeline]) -> dict[str, Any] | None:
    """The winner's pipeline against the baseline's and what each pass was worth; ``None`` where passes are off.

    Args:
        state: of the run.
        starts: pipelines that the search starts from, the baseline's first; O3 spelt out may be one.
    """
    base = state.trials[BASELINE].proposal.configuration.get(PASSES)
    if base is None:
        return None
    worked = [t for t in state.trials.values() if t.status in (Status.OK, Status.DUPLICATE)]
    worked = [t for t in worked if t.score is not None and not t.raced]
    pipelines = {t.number: _read(t) for t in worked}
    best = state.chosen if state.chosen is not None else state.best
    number = BASELINE if best is None else best
    own = _read(state.trials[number])
    pairs = _pairs(worked, pipelines)
    measured = sorted((_measured(n, p) for n, p in pairs.items()), key=_size, reverse=True)
    associated = sorted(_associations(worked, pipelines, starts), key=_effect, reverse=True)
    return {
        "base": str(base),
        "best": {"trial": number, "text": state.trials[number].proposal.configuration.get(PASSES, "")},
        **_steps(starts, own, pairs),
        "pairs": measured[:SHOWN],
        "associations": associated[:SHOWN],
        "left_out": max(0, len(measured) - SHOWN) + max(0, len(associated) - SHOWN),
        "trials": len(worked),
        "pipelines": len({p.text for p in pipelines.values()}),
    }


def _read(trial: TrialState) -> Pipeline:
    try:
        return Pipeline.parse(str(trial.proposal.configuration.get(PASSES, "")))
    except SpecError:
        # Another version's notation is no reason to show nothing of the run.
        return Pipeline(())


def _label(leaf: Leaf) -> str:
    return leaf.node.head


def _steps(
    starts: Sequence[Pipeline], own: Pipeline, pairs: Mapping[str, Sequence[tuple[float, bool]]]
) -> dict[str, Any]:
    """The winner's passes in order against the nearest start: which were put in, and which are gone."""
    leaves = own.leaves()
    mine = [_label(leaf) for leaf in leaves]
    scripts = []
    for index, start in enumerate(starts):
        theirs = [_label(leaf) for leaf in start.leaves()]
        matcher = SequenceMatcher(None, theirs, mine, autojunk=False)
        scripts.append(
            (len(theirs) + len(mine) - 2 * _matched(matcher), index, theirs, matcher.get_opcodes())
        )
    _, nearest, theirs, codes = min(scripts, key=lambda s: s[:2])
    steps: list[dict[str, Any]] = []
    for kind, i, j, k, end in codes:
        if kind in ("replace", "delete"):
            steps += [{"name": name, "around": [], "state": "removed"} for name in theirs[i:j]]
        state = "kept" if kind == "equal" else "added"
        for leaf in leaves[k:end]:
            steps.append({"name": _label(leaf), "around": list(leaf.containers), "state": state})
    for step in steps:
        found = pairs.get(step["name"], ())
        step["pairs"] = len(found)
        step["worth"] = rounded(math.exp(_middle([w for w, _ in found])), 4) if found else None
    return {"steps": steps, "spelt_out": nearest > 0}


def _matched(matcher: SequenceMatcher[str]) -> int:
    return sum(block.size for block in matcher.get_matching_blocks())


def _pairs(
    trials: Sequence[TrialState], pipelines: Mapping[int, Pipeline]
) -> dict[str, list[tuple[float, bool]]]:
    """For each pass the log gain of having it, from trials that differ by it alone; whether the code was the same."""
    groups: dict[str, dict[str, TrialState]] = defaultdict(dict)
    for trial in trials:
        rest = {k: v for k, v in trial.proposal.configuration.items() if k != PASSES}
        groups[canonical_json([trial.variant, rest])].setdefault(pipelines[trial.number].text, trial)
    found: dict[str, list[tuple[float, bool]]] = defaultdict(list)
    for group in groups.values():
        if len(group) < 2:
            continue
        sums = {number: _sums(pipelines[number].leaves()) for number in (t.number for t in group.values())}
        by_sum = {sums[t.number][0]: t for t in group.values()}
        for trial in group.values():
            leaves = pipelines[trial.number].leaves()
            seen = set()
            for leaf, without in zip(leaves, sums[trial.number][1], strict=True):
                other = by_sum.get(without)
                if other is None or (_label(leaf), without) in seen:
                    continue
                seen.add((_label(leaf), without))
                assert trial.score is not None
                assert other.score is not None
                found[_label(leaf)].append((other.score - trial.score, _same_code(trial, other)))
    return found


_MODULUS = (1 << 61) - 1
_BASE = 0x1F3D5B79A2C4E6
_INVERSE = pow(_BASE, -1, _MODULUS)


def _sums(leaves: Sequence[Leaf]) -> tuple[int, list[int]]:
    """A polynomial hash of the sequence of passes, and those of the sequences with one of them left out.

    Writing out and comparing every shorter pipeline would take seconds for a thousand trials.
    """
    prefixes, power = [0], 1
    for leaf in leaves:
        code = hash((leaf.containers, _label(leaf))) % _MODULUS
        prefixes.append((prefixes[-1] + code * power) % _MODULUS)
        power = power * _BASE % _MODULUS
    whole = prefixes[-1]
    shorter = [
        (before + (whole - after) * _INVERSE) % _MODULUS for before, after in itertools.pairwise(prefixes)
    ]
    return whole, shorter


def _same_code(one: TrialState, other: TrialState) -> bool:
    return bool(one.build and other.build and one.build["key"] == other.build["key"])


def _associations(
    trials: Sequence[TrialState], pipelines: Mapping[int, Pipeline], starts: Sequence[Pipeline]
) -> list[dict[str, Any]]:
    """For each edit its coefficient as a factor on the speed, its 90% interval, and how often it was there."""
    if len(trials) > MOST_TRIALS:
        step = len(trials) / MOST_TRIALS
        trials = [trials[int(i * step)] for i in range(MOST_TRIALS)]
    counted = [Counter(_label(leaf) for leaf in start.leaves()) for start in starts]
    present = [_edits(pipelines[t.number], counted) for t in trials]
    counts = Counter(edit for edits in present for edit in edits)
    edits = sorted(e for e, c in counts.items() if c >= LEAST and len(trials) - c >= LEAST)
    edits, together = _merged(edits, present)
    if not edits:
        return []
    matrix = np.array([[edit in row for edit in edits] for row in present], dtype=np.float64)
    design = np.hstack([matrix, _settings(trials)])
    target = np.array([-(t.score or 0.0) for t in trials], dtype=np.float64)
    rng = np.random.Generator(np.random.PCG64(0))
    whole = _ridge(design, target)[: len(edits)]
    drawn = []
    for _ in range(RESAMPLES):
        rows = rng.integers(len(trials), size=len(trials))
        drawn.append(_ridge(design[rows], target[rows])[: len(edits)])
    low, high = np.quantile(np.array(drawn), [0.05, 0.95], axis=0)
    return [
        {
            "name": edit[1],
            "change": edit[0],
            "together": [f"{change} {name}".strip() for change, name in together[edit]],
            "with": counts[edit],
            "without": len(trials) - counts[edit],
            "worth": rounded(math.exp(whole[i]), 4),
            "least": rounded(math.exp(min(low[i], whole[i])), 4),
            "most": rounded(math.exp(max(high[i], whole[i])), 4),
        }
        for i, edit in enumerate(edits)
    ]


def _edits(pipeline: Pipeline, starts: Sequence[Counter[str]]) -> set[Edit]:
    """What was put in and taken out against the nearest start, and which start that was if not the first."""
    own = Counter(_label(leaf) for leaf in pipeline.leaves())
    found = []
    for index, start in enumerate(starts):
        added, removed = own - start, start - own
        edits: set[Edit] = {("added", name) for name in added} | {("removed", name) for name in removed}
        if index:
            edits.add(("", "the base spelt out pass by pass"))
        found.append((added.total() + removed.total(), index, edits))
    return min(found, key=lambda f: f[:2])[2]


def _merged(
    labels: Sequence[Edit], present: Sequence[set[Edit]]
) -> tuple[list[Edit], dict[Edit, list[Edit]]]:
    """One of those edits that were always there together, and the others by it: nothing can tell them apart."""
    firsts: dict[bytes, Edit] = {}
    together: dict[Edit, list[Edit]] = {}
    for label in labels:
        column = bytes(label in row for row in present)
        first = firsts.setdefault(column, label)
        together.setdefault(first, []).extend([label] if first != label else [])
    return list(together), together


def _settings(trials: Sequence[TrialState]) -> Matrix:
    """One column for each setting that is not the pipeline, and each variant."""
    keys: dict[tuple[str, str], int] = {}
    rows = []
    for trial in trials:
        pairs = [("variant", str(trial.variant))]
        pairs += [(n, repr(v)) for n, v in trial.proposal.configuration.items() if n != PASSES]
        rows.append([keys.setdefault(p, len(keys)) for p in pairs])
    matrix = np.zeros((len(trials), len(keys)))
    for i, columns in enumerate(rows):
        matrix[i, columns] = 1.0
    return matrix


def _ridge(design: Matrix, target: Matrix) -> Matrix:
    centred = design - design.mean(axis=0)
    gram = centred.T @ centred + RIDGE * np.eye(design.shape[1])
    solved: Matrix = np.linalg.solve(gram, centred.T @ (target - target.mean()))
    return solved


def _middle(values: Sequence[float]) -> float:
    return float(np.median(np.array(values)))


def _measured(name: str, pairs: Sequence[tuple[float, bool]]) -> dict[str, Any]:
    gains = [gain for gain, _ in pairs]
    return {
        "name": name,
        "pairs": len(pairs),
        "worth": rounded(math.exp(_middle(gains)), 4),
        "least": rounded(math.exp(min(gains)), 4),
        "most": rounded(math.exp(max(gains)), 4),
        "same_code": sum(same for _, same in pairs),
    }


def _size(row: Mapping[str, Any]) -> float:
    return abs(math.log(row["worth"] or 1.0))


def _effect(row: Mapping[str, Any]) -> float:
    """How far from no effect, by the end of the range nearer to none: what surely does something comes first."""
    low, high = math.log(row["least"] or 1.0), math.log(row["most"] or 1.0)
    return max(low, -high, 1e-3 * abs(math.log(row["worth"] or 1.0)))
