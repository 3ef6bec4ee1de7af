"""Small changes of a pass pipeline as plain data, and how to draw one at random. May not judge their worth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from tuner.core.errors import SpecError
from tuner.spaces.catalogue import Catalogue, PassInfo, wrappers
from tuner.spaces.pipeline import Leaf, Node, Path, Pipeline

__all__ = [
    "Edit",
    "EditKind",
    "default_form",
    "random_edit",
    "random_params",
    "random_pass",
    "random_prefix",
    "sequence",
]

_TRIES = 50
_SMALL_NUMBERS = (1, 2, 3, 4, 8, 16, 32, 64)
_EXCLUSIVE = (frozenset({"preserve-cfg", "modify-cfg"}), frozenset({"O0", "O1", "O2", "O3"}))
_LEVELS = frozenset({"O0", "O1", "O2", "O3"})
_FIRST = "sroa"
_UNWANTED = frozenset({"verify-fixpoint", "O0", "max-iterations=N"})
"""Options that stop the compiler, switch the pass off, or only cost time."""


class EditKind(StrEnum):
    """What an edit does."""

    INSERT = "insert"
    DELETE = "delete"
    SWAP = "swap"
    REPLACE = "replace"
    SET_OPTION = "set_option"


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """One change of a pipeline.

    Attributes:
        kind: what is done.
        path: the pass it is done to; for an insertion the place before which the new pass comes.
        text: the new pass with its parameters; for an option the new parameters with their brackets.
        other: the second pass of a swap.
    """

    kind: EditKind
    path: Path
    text: str = ""
    other: Path = ()

    def apply(self, pipeline: Pipeline, catalogue: Catalogue) -> Pipeline:
        """The changed pipeline. A pass is wrapped in the containers that its place asks for.

        A pass that may not stand in the innermost container at the path goes before the nearest container around it
        that can take it.

        Raises:
            SpecError: no such place, an unknown pass, or two passes that cannot change places.
        """
        if self.kind is EditKind.INSERT:
            return _insert(pipeline, self.path, _leaf(self.text), catalogue)
        node = pipeline.node(self.path)
        if node.children is not None:
            raise SpecError(f"{node.head!r} holds other passes", "edit one of those")
        if self.kind is EditKind.DELETE:
            return _nonempty(pipeline.splice(self.path, 1, ()))
        if self.kind is EditKind.SET_OPTION:
            return pipeline.splice(self.path, 1, [_leaf(node.name + self.text)])
        if self.kind is EditKind.SWAP:
            return _swap(pipeline, self.path, self.other, catalogue)
        return _replace(pipeline, self.path, _leaf(self.text), catalogue)


def _leaf(text: str) -> Node:
    nodes = Pipeline.parse(text).nodes
    if len(nodes) != 1 or nodes[0].children is not None:
        raise SpecError(f"{text!r} is not one pass", "for example licm<allowspeculation>")
    return nodes[0]


def _nonempty(pipeline: Pipeline) -> Pipeline:
    if not pipeline.nodes:
        raise SpecError("the pipeline would be empty", "leave one pass")
    return pipeline


def _info(node: Node, catalogue: Catalogue) -> PassInfo:
    info = catalogue.passes.get(node.name)
    if info is None:
        raise SpecError(f"unknown pass {node.name!r}", f"LLVM {catalogue.version} does not list it")
    return info


def _fits(info: PassInfo, container: str, catalogue: Catalogue) -> bool:
    """Whether a pass may stand in a container without further wrapping."""
    if container == "loop-mssa":
        return info.name in catalogue.mssa
    return info.level == container


def _takes(info: PassInfo, container: str, catalogue: Catalogue) -> bool:
    """Whether a container can hold a pass, wrapped where necessary."""
    if container in ("loop", "loop-mssa"):
        return _fits(info, container, catalogue)
    if container == "function":
        return info.level in ("function", "loop", "loop-mssa")
    return container == "module" or info.level != "module"


def _wrap(node: Node, info: PassInfo, container: str, catalogue: Catalogue) -> Node:
    if _fits(info, container, catalogue):
        return node
    for head in wrappers(container, info.level):
        node = Node(head, "", (node,))
    return node


def _insert(pipeline: Pipeline, path: Path, node: Node, catalogue: Catalogue) -> Pipeline:
    info = _info(node, catalogue)
    for end in range(len(path) - 1, -1, -1):
        container = pipeline.level(path[:end])
        if _takes(info, container, catalogue):
            return pipeline.splice(path[: end + 1], 0, [_wrap(node, info, container, catalogue)])
    raise SpecError(f"no place {list(path)} in the pipeline", "a path has at least one number")


def _replace(pipeline: Pipeline, path: Path, node: Node, catalogue: Catalogue) -> Pipeline:
    info = _info(node, catalogue)
    container = pipeline.level(path[:-1])
    if _takes(info, container, catalogue):
        return pipeline.splice(path, 1, [_wrap(node, info, container, catalogue)])
    # Put in first, before a container further out: the old pass then stands one place later there.
    inserted = _insert(pipeline, path, node, catalogue)
    for end in range(len(path) - 1, 0, -1):
        moved = (*path[: end - 1], path[end - 1] + 1, *path[end:])
        if _same(inserted, moved, pipeline.node(path)):
            return _nonempty(inserted.splice(moved, 1, ()))
    raise SpecError(
        f"{info.name!r} cannot take the place of {pipeline.node(path).name!r}", "insert it instead"
    )


def _same(pipeline: Pipeline, path: Path, node: Node) -> bool:
    try:
        return pipeline.node(path) == node
    except SpecError:
        return False


def _swap(pipeline: Pipeline, first: Path, second: Path, catalogue: Catalogue) -> Pipeline:
    a, b = pipeline.node(first), pipeline.node(second)
    if b.children is not None:
        raise SpecError(f"{b.head!r} holds other passes", "swap one of those")
    for node, path in ((a, second), (b, first)):
        if not _fits(_info(node, catalogue), pipeline.level(path[:-1]), catalogue):
            raise SpecError(f"{node.name!r} may not stand at {list(path)}", "swap passes of one level")
    return pipeline.splice(first, 1, [b]).splice(second, 1, [a])


def random_params(info: PassInfo, current: str, rng: np.random.Generator) -> str:
    """Parameters with one option changed; unchanged where the pass has no options.

    Args:
        info: the pass.
        current: its parameters now, with their brackets; may be empty.
        rng: source of all randomness.
    """
    choices = [o for o in info.options if o not in _UNWANTED]
    if not choices:
        return current
    option = choices[int(rng.integers(len(choices)))]
    now = [part for part in current[1:-1].split(";") if part] if current else []
    stem = option.partition("=")[0]
    if option.endswith("=N"):
        option = f"{stem}={_SMALL_NUMBERS[int(rng.integers(len(_SMALL_NUMBERS)))]}"
    elif not all(c.isalnum() or c in "-_" for c in option):
        return current
    if option in now:
        # What is already set is taken back: its opposite where there is one, else LLVM's own choice.
        opposite = option.removeprefix("no-") if option.startswith("no-") else "no-" + option
        if opposite in _UNWANTED:
            return current  # It is what LLVM chooses by itself.
        now.remove(option)
        return _brackets([*now, opposite] if opposite in choices else now, current)
    kept = [part for part in now if not _clash(part, option, stem)]
    return _brackets([*kept, option], current)


def _clash(part: str, option: str, stem: str) -> bool:
    if part.partition("=")[0] == stem or part == "no-" + option or option == "no-" + part:
        return True
    return any(part in group and option in group for group in _EXCLUSIVE)


def _brackets(parts: list[str], current: str) -> str:
    if parts:
        return f"<{';'.join(parts)}>"
    return "<>" if current else ""


def default_form(info: PassInfo, catalogue: Catalogue) -> str:
    """A pass as text with parameters that are known to work, the same each time."""
    params = catalogue.forms.get(info.name, ("",))[0]
    if not params and _needs_level(info):
        params = f"<{max(info.options)}>"
    return info.name + params


def _needs_level(info: PassInfo) -> bool:
    return bool(info.options) and set(info.options) <= _LEVELS


def random_pass(catalogue: Catalogue, rng: np.random.Generator, *, levels: tuple[str, ...] = ()) -> str:
    """A pass that a search may use, with parameters that are known to work or one option drawn.

    Passes of O3 are drawn as often as all others together: they are the ones that matter.

    Args:
        catalogue: the passes.
        rng: source of all randomness.
        levels: allowed levels; all when empty.

    Raises:
        SpecError: no pass is allowed.
    """
    usable = [p for p in catalogue.usable if not levels or p.level in levels]
    if not usable:
        raise SpecError("the catalogue has no pass that may be used", "is it of a working LLVM?")
    common = [p for p in usable if p.name in catalogue.forms]
    pool = common if common and rng.random() < 0.5 else usable
    info = pool[int(rng.integers(len(pool)))]
    forms = catalogue.forms.get(info.name, ("",))
    params = forms[int(rng.integers(len(forms)))]
    if _needs_level(info) and not params:
        params = f"<{max(info.options)}>"
    elif rng.random() < 0.25:
        params = random_params(info, params, rng)
    return info.name + params


def random_prefix(catalogue: Catalogue, rng: np.random.Generator, *, longest: int = 12) -> Pipeline:
    """A short random sequence to stand before a whole pipeline; shorter ones are likelier.

    Args:
        catalogue: the passes.
        rng: source of all randomness.
        longest: most passes, at least one.
    """
    length = min(int(rng.geometric(0.2)), longest)
    texts = [
        random_pass(catalogue, rng, levels=("function", "loop", "loop-mssa", "cgscc")) for _ in range(length)
    ]
    # Loop passes find nothing in code whose values are still in memory.
    if length > 1 and _FIRST in catalogue.passes and rng.random() < 0.7:
        texts[0] = default_form(catalogue.passes[_FIRST], catalogue)
    return sequence(texts, catalogue)


def sequence(texts: Sequence[str], catalogue: Catalogue) -> Pipeline:
    """Passes one after the other, each in the containers that its level asks for.

    Args:
        texts: single passes with their parameters.
        catalogue: must know them.
    """
    made: list[tuple[tuple[str, ...], Node]] = []
    for text in texts:
        node = _leaf(text)
        made.append((tuple(reversed(wrappers("module", _info(node, catalogue).level))), node))
    return Pipeline.build(made)


def random_edit(pipeline: Pipeline, catalogue: Catalogue, rng: np.random.Generator) -> tuple[Edit, Pipeline]:
    """An edit that applies and changes something, with its result.

    Whole pipelines (``default<O3>``), analyses and passes of no use are left where they are.

    Raises:
        SpecError: nothing can be changed.
    """
    leaves = pipeline.leaves()
    movable = [leaf for leaf in leaves if catalogue.may_change(leaf.node.name)]
    for _ in range(_TRIES):
        edit = _draw(leaves, movable, catalogue, rng)
        if edit is None:
            continue
        try:
            changed = edit.apply(pipeline, catalogue)
        except SpecError:
            continue
        if changed != pipeline:
            return edit, changed
    raise SpecError("no edit of the pipeline was found", "does the catalogue list passes that may be used?")


def _draw(
    leaves: list[Leaf], movable: list[Leaf], catalogue: Catalogue, rng: np.random.Generator
) -> Edit | None:
    share = float(rng.random())
    if share < 0.35 or not movable:
        spot = int(rng.integers(len(leaves) + 1))
        # Past the last pass: the end of the module.
        path = leaves[spot].path if spot < len(leaves) else (leaves[-1].path[0] + 1,)
        return Edit(kind=EditKind.INSERT, path=path, text=random_pass(catalogue, rng))
    leaf = movable[int(rng.integers(len(movable)))]
    if share < 0.55:
        return Edit(kind=EditKind.DELETE, path=leaf.path)
    if share < 0.70:
        info = catalogue.passes[leaf.node.name]
        levels = ("loop", "loop-mssa") if leaf.level in ("loop", "loop-mssa") else (info.level,)
        text = random_pass(catalogue, rng, levels=levels)
        return Edit(kind=EditKind.REPLACE, path=leaf.path, text=text)
    if share < 0.85:
        params = random_params(catalogue.passes[leaf.node.name], leaf.node.params, rng)
        return Edit(kind=EditKind.SET_OPTION, path=leaf.path, text=params)
    others = [m for m in movable if m.level == leaf.level and m.path != leaf.path]
    if not others:
        return None
    # Near neighbours half of the time: far swaps change more than one likes.
    if rng.random() < 0.5:
        here = movable.index(leaf)
        others = sorted(others, key=lambda m: abs(movable.index(m) - here))[:4]
    other = others[int(rng.integers(len(others)))]
    return Edit(kind=EditKind.SWAP, path=leaf.path, other=other.path)
