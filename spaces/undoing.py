"""A pipeline with less in it: each edit against the nearest start taken back, each pass left out, or all that may go.

May not run LLVM, nor decide which of them is worth trying.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from tuner.spaces.passes import PassSpace, Token, edit_script
from tuner.spaces.pipeline import Pipeline

__all__ = ["half_undone", "shortest", "undone"]

Item = TypeVar("Item")

_WHOLE = "default"
"""A whole optimisation level stands for itself: without it nothing would be left to compare with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Undone:
    """One pipeline with one thing undone.

    Attributes:
        name: the pass, without what is around it.
        change: ``added`` or ``changed`` and now as before, ``removed`` and now back, ``kept`` and now left out.
        at: which pass of the pipeline, from 0; ``None`` for one that is put back.
        text: the pipeline.
    """

    name: str
    change: str
    at: int | None
    text: str


def undone(space: PassSpace, text: str) -> Iterator[Undone]:
    """First each edit against the nearest of ``space.starts`` undone, then each pass of the start left out.

    Only what LLVM can run by the catalogue; equal pipelines come once, and the pipeline itself never.

    Args:
        space: with the catalogue.
        text: a pipeline of it; the base itself gives nothing.

    Raises:
        SpecError: not a pipeline.
    """
    if text == space.base:
        return
    whole = _tokens(space.catalogue.explicit(Pipeline.parse(text)))
    start, script = _nearest(space, text)
    old = _tokens(start)
    made = _applied(old, script)
    known = {_text(whole)}
    for one in _edits(old, script, made):
        if _runs(space, one.text) and one.text not in known:
            known.add(one.text)
            yield one
    if [token for token, _ in made] != whole:
        return
    for at, (token, edit) in enumerate(made):
        left = _text([*whole[:at], *whole[at + 1 :]])
        name = token[1].name
        if edit is None and name != _WHOLE and space.catalogue.may_change(name) and left not in known:
            known.add(left)
            if _runs(space, left):
                yield Undone(name=token[1].head, change="kept", at=at, text=left)


def half_undone(space: PassSpace, text: str) -> list[str]:
    """The pipeline with one half of its edits against the nearest of ``space.starts`` undone, and with the other.

    Only what LLVM can run by the catalogue.

    Args:
        space: with the catalogue.
        text: a pipeline of it.
    """
    if text == space.base:
        return []
    start, script = _nearest(space, text)
    middle = len(script) // 2
    halves = [script[:middle], script[middle:]] if middle else []
    texts = [_text([token for token, _ in _applied(_tokens(start), half)]) for half in halves]
    return [one for one in texts if _runs(space, one)]


def shortest(space: PassSpace, text: str, same: Callable[[str], bool]) -> str:
    """The pipeline with as much as may be left out: of its edits against the nearest start, then of all passes.

    Larger parts go first, halves of them where the whole may not (Zeller and Hildebrandt, "Simplifying and isolating
    failure-inducing input", 2002).

    Args:
        space: with the catalogue.
        text: a pipeline of it.
        same: whether another one, which LLVM can run by the catalogue, does as well; asked once for each.
    """
    known: dict[str, bool] = {text: True}

    def good(tokens: Sequence[Token]) -> bool:
        made = _text(tokens)
        if made not in known:
            known[made] = _runs(space, made) and same(made)
        return known[made]

    if good(_tokens(Pipeline.parse(space.base))):
        return space.base
    tokens, (start, script) = _tokens(space.catalogue.explicit(Pipeline.parse(text))), _nearest(space, text)
    if not good(tokens):
        # What goes over all functions pass by pass is another pipeline than what goes through each of them.
        return text
    if [token for token, _ in _applied(_tokens(start), script)] == tokens:
        script = _least(script, lambda some: good([token for token, _ in _applied(_tokens(start), some)]))
        tokens = [token for token, _ in _applied(_tokens(start), script)]
    # A whole level is one pass, and without it nothing of it would be left.
    own = [at for at, (_, node) in enumerate(tokens) if node.name != _WHOLE]
    left = _least(own, lambda some: good([t for at, t in enumerate(tokens) if at in some or at not in own]))
    return _text([token for at, token in enumerate(tokens) if at in left or at not in own])


def _least(items: Sequence[Item], good: Callable[[Sequence[Item]], bool]) -> Sequence[Item]:
    """What is left of items when all that may go has gone, in parts that get shorter."""
    size = len(items)
    while size:
        at = 0
        while at < len(items):
            rest = [*items[:at], *items[at + size :]]
            if good(rest):
                items = rest
            else:
                at += size
        size //= 2
    return items


def _nearest(space: PassSpace, text: str) -> tuple[Pipeline, Sequence[Mapping[str, Any]]]:
    """The start that has fewest edits to a pipeline, and these."""
    whole = _tokens(space.catalogue.explicit(Pipeline.parse(text)))
    return min(((s, edit_script(_tokens(s), whole)) for s in space.starts), key=lambda s: len(s[1]))


_Made = Sequence[tuple[Token, Mapping[str, Any] | None]]


def _edits(old: Sequence[Token], script: Sequence[Mapping[str, Any]], made: _Made) -> Iterator[Undone]:
    places = {id(edit): at for at, (_, edit) in enumerate(made) if edit is not None}
    for edit in script:
        rest = _text([token for token, _ in _applied(old, [e for e in script if e is not edit])])
        kind = {"insert": "added", "delete": "removed"}.get(edit["edit"], "changed")
        shown = _token(edit["old"] if kind == "removed" else edit["new"])
        yield Undone(name=shown[1].head, change=kind, at=places.get(id(edit)), text=rest)


def _applied(
    old: Sequence[Token], script: Sequence[Mapping[str, Any]]
) -> list[tuple[Token, Mapping[str, Any] | None]]:
    """A sequence after edits, each pass with the edit that put it there."""
    inserts: dict[int, list[Mapping[str, Any]]] = defaultdict(list)
    others: dict[int, Mapping[str, Any]] = {}
    for edit in script:
        if edit["edit"] == "insert":
            inserts[edit["at"]].append(edit)
        else:
            others[edit["at"]] = edit
    found: list[tuple[Token, Mapping[str, Any] | None]] = []
    for at in range(len(old) + 1):
        found += [(_token(edit["new"]), edit) for edit in inserts[at]]
        if at == len(old):
            break
        edit_here = others.get(at)
        if edit_here is None:
            found.append((old[at], None))
        elif "new" in edit_here:
            found.append((_token(edit_here["new"]), edit_here))
    return found


def _tokens(pipeline: Pipeline) -> list[Token]:
    return [(leaf.containers, leaf.node) for leaf in pipeline.leaves()]


def _token(text: str) -> Token:
    (token,) = _tokens(Pipeline.parse(text))
    return token


def _text(tokens: Sequence[Token]) -> str:
    return Pipeline.build(tokens).text


def _runs(space: PassSpace, text: str) -> bool:
    return bool(text) and not space.catalogue.explain(Pipeline.parse(text))
