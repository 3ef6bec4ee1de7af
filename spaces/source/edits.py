"""Lists of edits: the original and a list give a variant, always the same one.

An edit is plain JSON: ``op`` and ``function`` with an operator's arguments, or ``{"op": "text", "search": …,
"replace": …}``, or ``{"op": "rewrite", "region": …, "text": …}`` with a region's number from 0, or
``{"op": "configure", "values": …}``. It may carry ``parameters`` (new tunables), ``constraints`` on them, ``fits``
(constraints that count while the tunables that they name are all there), ``reassociate`` (leave to add in another
order) and ``assumes`` (what its correctness rests on). May not draw random numbers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tuner.core.errors import SpecError
from tuner.core.expressions import parse
from tuner.core.types import Variant
from tuner.spaces.parameters import Parameter
from tuner.spaces.source import configuring, textual
from tuner.spaces.source.configuring import CONFIGURE, frozen
from tuner.spaces.source.directives import require_plain_text
from tuner.spaces.source.kinds import hidden
from tuner.spaces.source.lexical import unused, with_names
from tuner.spaces.source.memo import Kept, kept_or_raised
from tuner.spaces.source.operators import OPERATORS, Refused
from tuner.spaces.source.operators.opening.separate_values import without_hidden_counters
from tuner.spaces.source.operators.teams.teams import keep_teams
from tuner.spaces.source.places import has_members
from tuner.spaces.source.regions import Program
from tuner.spaces.source.scan import scan
from tuner.spaces.source.syntax import For
from tuner.spaces.source.textual import TEXTUAL
from tuner.spaces.source.walks import subtrees

__all__ = [
    "Applied",
    "Edit",
    "EditRefused",
    "applied",
    "apply_edit",
    "apply_edits",
    "assumptions",
    "crossover",
    "each_without",
    "names_elsewhere",
    "permitted",
    "renamed",
    "without",
]

Edit = Mapping[str, Any]

_REASSOCIATING = ("reassociate", "approximate")
_APPLIED: Kept[tuple[Program, Program | Refused]] = Kept(1024)
"""Programs, or why not, by program and edit: parents and the beginnings of lists come back."""


class EditRefused(SpecError):
    """An edit does not apply.

    Attributes:
        number: its place in the list.
        reason: one line.
    """

    def __init__(self, number: int, edit: Edit, reason: str) -> None:
        super().__init__(f"edit {number + 1} ({edit.get('op', 'no op')}) does not apply: {reason}")
        self.number = number
        self.reason = reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """What a list of edits makes of the original.

    Attributes:
        program: for further edits.
        variant: files and edits.
        parameters: tunables that the edits added.
        constraints: on those, as expressions.
        checked: whether every edit is shown to keep results.
    """

    program: Program
    variant: Variant
    parameters: tuple[Parameter, ...]
    constraints: tuple[str, ...]
    checked: bool


def apply_edits(original: Program, edits: Sequence[Edit]) -> Applied:
    """Applies edits in order.

    Args:
        original: the sources as given, from :func:`tuner.spaces.source.regions.read_program`.
        edits: as above.

    Raises:
        EditRefused: the first that does not apply, with the reason.
    """
    program = original
    for number, edit in enumerate(edits):
        try:
            program = apply_edit(program, edit)
        except Refused as refusal:
            raise EditRefused(number, edit, str(refusal)) from None
    return applied(program, edits)


def applied(program: Program, edits: Sequence[Edit]) -> Applied:
    """What is known of a program that a list of edits led to."""
    return Applied(
        program=program,
        variant=Variant(
            files=program.sources(),
            edits=tuple(dict(e) for e in edits),
            launch=None if program.launch == program.entry.launch else program.launch,
        ),
        parameters=tuple(p for e in edits for p in textual.parameters(e)),
        constraints=_constraints(edits),
        checked=all(map(_checked, edits)),
    )


def _checked(edit: Edit) -> bool:
    operator = OPERATORS.get(str(edit.get("op")))
    return edit.get("op") == CONFIGURE or (operator is not None and operator.checked)


def _constraints(edits: Sequence[Edit]) -> tuple[str, ...]:
    tunables = {p["name"] for e in edits for p in e.get("parameters", ())}
    found = [c for e in edits for c in e.get("constraints", ())]
    found += [c for e in edits for c in e.get("fits", ()) if parse(c).names <= tunables]
    found += [f"{name} == {value}" for name, value in frozen(edits).items()]
    return tuple(dict.fromkeys(found))


def apply_edit(program: Program, edit: Edit) -> Program:
    """Applies one edit.

    Raises:
        Refused: it does not apply.
    """
    key = (id(program), repr(edit))
    return kept_or_raised(_APPLIED, key, program, lambda: _apply(program, edit), Refused)


def _apply(program: Program, edit: Edit) -> Program:
    op = edit.get("op")
    if op in TEXTUAL:
        return textual.apply(program, edit)
    if op == CONFIGURE:
        return configuring.apply(program, edit)
    operator = OPERATORS.get(op) if isinstance(op, str) else None
    if operator is None:
        raise Refused(f"there is no operator {op!r}")
    label = edit.get("function")
    function = program.functions.get(label) if isinstance(label, str) else None
    if function is None or not isinstance(label, str):
        raise Refused(f"there is no function {label!r} in a region")
    if program.language not in operator.languages:
        raise Refused(f"{op} is not for {program.language}")
    if not operator.members and not operator.raw and has_members(function):
        raise Refused(f"{op} does not know members of structures")
    require_plain_text(function)
    textual.check_parameters(edit)
    clash = names_elsewhere(program, label) & {p["name"] for p in edit.get("parameters", ())}
    if clash:
        raise Refused(f"the name {min(clash)} is taken")
    again = hidden(function) if operator.checked and not operator.hides else ""
    if again:
        raise Refused(f"{again} is declared again where it already means something")
    made = operator.apply(function, edit)
    if made is function or made == function:
        raise Refused("nothing changes")
    if not operator.openmp and not operator.hides:
        keep_teams(function, made, _first_loop(edit) if operator.blocks else "")
    if hidden(made):
        made = without_hidden_counters(made)
    return program.with_function(label, made)


def assumptions(program: Program, edit: Edit) -> list[str]:
    """What an edit's correctness rests on beside the analysis: ``separate buffers`` where pointers may overlap.

    Args:
        program: before the edit.
        edit: one that applies.
    """
    found = list(edit.get("assumes", ()))
    function = program.functions.get(edit.get("function", ""))
    key = _first_loop(edit)
    if function is None or not key:
        return found
    for loop in subtrees(function.body):
        if isinstance(loop, For) and loop.key == key:
            try:
                separate = scan(function, [loop]).assumes_separate
            except Refused:
                separate = False
            if separate and "separate buffers" not in found:
                found.append("separate buffers")
    return found


def _first_loop(edit: Edit) -> str:
    """The key of the outermost loop that an edit is about; empty where it is about none."""
    loops = [edit["loop"]] if "loop" in edit else list(edit.get("loops", ()))
    return str(loops[0]) if loops else ""


def permitted(edits: Sequence[Edit], numerics: str) -> bool:
    """Whether a numerics policy allows every edit of a list."""
    return numerics in _REASSOCIATING or not any(e.get("reassociate") is True for e in edits)


def without(original: Program, edits: Sequence[Edit], numbers: Collection[int]) -> Applied:
    """The variant without some of its edits, and without those that no longer apply then."""
    return _continued(original, [], [e for number, e in enumerate(edits) if number not in numbers])


def each_without(original: Program, edits: Sequence[Edit]) -> Iterator[Applied]:
    """The variant :func:`without` its first edit, without its second, and so on.

    Raises:
        Refused: an edit does not apply after those before it.
    """
    program = original
    for number, edit in enumerate(edits):
        yield _continued(program, edits[:number], edits[number + 1 :])
        program = apply_edit(program, edit)


def _continued(program: Program, before: Sequence[Edit], edits: Sequence[Edit]) -> Applied:
    """Edits after those that led to a program, as far as they apply."""
    kept = list(before)
    for edit in edits:
        try:
            program = apply_edit(program, edit)
        except Refused:
            continue
        kept.append(edit)
    return applied(program, kept)


def crossover(
    original: Program, first: Sequence[Edit], second: Sequence[Edit], cut: tuple[int, int]
) -> Applied:
    """The beginning of one list and the rest of another, as far as they apply.

    Args:
        original: the sources as given.
        first: its first ``cut[0]`` edits are kept.
        second: its edits from ``cut[1]`` on follow; those that are in already or no longer apply are left out, and
            tunables whose names are taken are renamed.
        cut: the two places.
    """
    kept = list(first[: cut[0]])
    program = apply_edits(original, kept).program
    names = {p["name"] for e in kept for p in e.get("parameters", ())}
    changed: dict[str, str] = {}
    for edit in second[cut[1] :]:
        if any(_same(edit, other) for other in kept):
            continue
        changed |= _fresh_names(edit, names)
        # Texts may name a tunable of an edit before them; operators find theirs by themselves.
        fitting = _with_names(edit, changed) if edit.get("op") in TEXTUAL else renamed(edit, names)
        if "fits" in fitting:
            fitting = {**fitting, "fits": _with_names({"fits": edit["fits"]}, changed)["fits"]}
        try:
            program = apply_edit(program, fitting)
        except Refused:
            continue
        kept.append(fitting)
        names |= {p["name"] for p in fitting.get("parameters", ())}
    return applied(program, kept)


def names_elsewhere(program: Program, label: str) -> set[str]:
    """Tunables that edits added to other functions than this one."""
    others = (f for name, f in program.functions.items() if name != label)
    return {d.name for f in others for d in f.defines}


def _same(a: Edit, b: Edit) -> bool:
    ignored = ("parameters", "constraints", "fits", "assumes")
    return {k: v for k, v in a.items() if k not in ignored} == {
        k: v for k, v in b.items() if k not in ignored
    }


def renamed(edit: Edit, taken: set[str]) -> Edit:
    """An edit whose tunables have names that are not taken."""
    return _with_names(edit, _fresh_names(edit, taken))


def _fresh_names(edit: Edit, taken: set[str]) -> dict[str, str]:
    """New names for an edit's tunables where theirs are taken."""
    names: dict[str, str] = {}
    for item in edit.get("parameters", ()):
        if item["name"] in taken:
            names[item["name"]] = unused(item["name"], taken)
    return names


def _with_names(edit: Edit, names: Mapping[str, str]) -> Edit:
    """An edit with tunables renamed; texts too, because they name them."""
    if not names:
        return edit

    made = dict(edit)
    if "parameters" in edit:
        made["parameters"] = [{**p, "name": names.get(p["name"], p["name"])} for p in edit["parameters"]]
    for key in ("constraints", "fits"):
        if key in edit:
            made[key] = [with_names(c, names) for c in edit[key]]
    if edit.get("op") in TEXTUAL:
        made |= {key: with_names(edit[key], names) for key in ("search", "replace", "text") if key in edit}
    return made
