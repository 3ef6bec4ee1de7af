"""From a reply to a variant: its edits on the parent's, or what is wrong with them. Nothing is left out in silence.

May not ask a model, build or run anything.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tuner.core.canonical import digest_json
from tuner.core.expressions import parse
from tuner.search.llm.prompt import without_guards
from tuner.search.llm.reply import Reply
from tuner.search.remix import Offspring
from tuner.spaces.source.edits import Applied, Edit, applied, apply_edit
from tuner.spaces.source.identity import structure_digest
from tuner.spaces.source.lexical import tokens, unbalanced
from tuner.spaces.source.operators import Refused
from tuner.spaces.source.regions import Program

__all__ = ["Unusable", "origin", "variant_of"]

_INCLUDE = re.compile(r"<(?:[A-Za-z0-9_+]+/){0,3}[A-Za-z0-9_+]+(?:\.(?:h|hpp|cuh|hh))?>")
_DIRECTIVE = re.compile(r"^[ \t]*(?:#|%:|\?\?=)[ \t]*(\w*)[ \t]*(.*)$", re.MULTILINE)
_DIRECTIVES = frozenset(
    [
        "define",
        "undef",
        "if",
        "ifdef",
        "ifndef",
        "elif",
        "elifdef",
        "elifndef",
        "else",
        "endif",
        "pragma",
        "error",
        "warning",
    ]
)
_READS_FILES = re.compile(r"\.\s*(incbin|include)\b|\b__has_(include|embed)\b|\b_Pragma\b", re.IGNORECASE)


def origin(model: str) -> str:
    """How a model's variants say where they come from."""
    return f"llm/{model}"


@dataclass(frozen=True, slots=True)
class Unusable:
    """Why a reply gives no variant.

    Attributes:
        problems: one line each.
        final: whether it is no use to ask for a correction.
    """

    problems: tuple[str, ...]
    final: bool = False


def variant_of(
    reply: Reply,
    parent: Applied,
    *,
    original: Program,
    model: str,
    taken: Collection[str],
    known: Collection[str],
    note: Mapping[str, Any],
) -> Offspring | Unusable:
    """The parent with a reply's edits; where the reply writes all anew that was changed, the source as given with them.

    Args:
        reply: as it was read.
        parent: the variant that the edits are for.
        original: the source as given.
        model: that wrote it.
        taken: names that tunables may not have.
        known: structures that are not wanted again.
        note: for the offspring.
    """
    problems = list(reply.problems)
    edits, unused = _edits(reply)
    anew = bool(reply.rewrites) and _differs_only_in(parent.program, original, reply.rewrites)
    base = applied(original, ()) if anew else parent
    if anew:
        edits = _with_tunables(edits, parent)
    problems += [f"the tunable {name} is declared and not used" for name in unused]
    problems += _names_problems(reply, base, taken)
    problems += [f"edit {n}: {reason}" for n, e in enumerate(edits, 1) for reason in forbidden(_text_of(e))]
    if problems:
        return Unusable(tuple(problems), final=reply.declined)
    program = base.program
    for number, edit in enumerate(edits, 1):
        try:
            program = apply_edit(program, edit)
        except Refused as refusal:
            problems.append(f"edit {number}: {refusal}")
    problems = problems or _imbalances(base.program, program)
    if problems:
        return Unusable(tuple(problems))
    made = applied(program, (*base.variant.edits, *edits))
    structure = _structure(made)
    if structure == _structure(parent):
        return Unusable(("the edits change nothing",))
    if structure in known:
        return Unusable(("the same program was tried before",), final=True)
    return Offspring(
        variant=made.variant,
        parameters=made.parameters,
        constraints=made.constraints,
        origin=origin(model),
        parents=(parent.variant.digest,),
        structure=structure,
        checked=False,
        note=note,
    )


def forbidden(text: str) -> list[str]:
    """What of a text would have the compiler read files that it has no business with."""
    found = []
    # A directive may go on over lines, and its word with it.
    joined = re.sub(r"(?:\\|\?\?/)[ \t]*\n", "", text)
    for directive in _DIRECTIVE.finditer(joined):
        word, rest = directive[1], re.sub(r"//.*|/\*.*?\*/", "", directive[2]).strip()
        if word == "include" and _INCLUDE.fullmatch(rest):
            continue
        if word and word not in _DIRECTIVES:
            found.append(f"#{word} {rest[:40]} is not allowed; system headers are: #include <name.h>")
    if _READS_FILES.search(joined):
        found.append(".incbin, .include, __has_include, __has_embed and _Pragma are not allowed")
    return found


def _text_of(edit: Edit) -> str:
    return str(edit.get("replace", edit.get("text", "")))


def _edits(reply: Reply) -> tuple[list[Edit], list[str]]:
    """The reply's edits, each tunable with the first that names it; and the tunables that none names."""
    edits: list[dict[str, Any]] = [
        {"op": "text", "search": r.search, "replace": r.replace} for r in reply.replacements
    ]
    edits += [{"op": "rewrite", "region": n, "text": text} for n, text in sorted(reply.rewrites.items())]
    unused = []
    for parameter in reply.parameters:
        for edit in edits:
            if re.search(rf"\b{parameter['name']}\b", _text_of(edit)):
                edit.setdefault("parameters", []).append(dict(parameter))
                break
        else:
            unused.append(str(parameter["name"]))
    return list(edits), unused


def _differs_only_in(program: Program, original: Program, regions: Collection[int]) -> bool:
    """Whether all regions but some, given by number, are as in the source as given."""
    return program.launch == original.launch and all(
        number in regions or program.region_text(*place) == original.region_text(*place)
        for number, place in enumerate(program.regions)
    )


def _with_tunables(edits: Sequence[Edit], before: Applied) -> list[Edit]:
    """Edits that also declare what they name of the tunables that the version before them had, each once."""
    known = {p["name"] for e in edits for p in e.get("parameters", ())}
    left = {p.name: p for p in before.parameters if p.name not in known}
    made: list[dict[str, Any]] = []
    kept: set[str] = set()
    for edit in edits:
        text = _text_of(edit)
        own = [left.pop(name) for name in list(left) if re.search(rf"\b{name}\b", text)]
        declared = [{"name": p.name, "values": list(p.values), "default": p.default} for p in own]
        made.append({**edit, "parameters": [*edit.get("parameters", ()), *declared]} if own else dict(edit))
        kept |= {p.name for p in own}
    fits = [c for c in before.constraints if parse(c).names and parse(c).names <= kept]
    if fits:
        made[-1]["fits"] = fits
    return list(made)


def _names_problems(reply: Reply, parent: Applied, taken: Collection[str]) -> list[str]:
    words = {w for f in parent.program.files for part in f.parts for w in re.findall(r"\w+", part)}
    words |= {w for f in parent.variant.files for w in re.findall(r"\w+", f.text)}
    own = {p.name for p in parent.parameters}
    return [
        f"the name {p['name']} is taken: name the tunable otherwise"
        for p in reply.parameters
        if p["name"] in own or p["name"] in taken or p["name"] in words
    ]


def _imbalances(before: Program, after: Program) -> list[str]:
    """Regions whose brackets were in pairs and are no more."""
    found = []
    for number, (file, part) in enumerate(after.regions, 1):
        reason = unbalanced(after.region_text(file, part))
        if reason and not unbalanced(before.region_text(file, part)):
            found.append(f"in region {number} {reason}")
    return found


def _structure(version: Applied) -> str:
    """As :func:`structure_digest`; texts beside functions, which that one does not see, count too."""
    functions, names = structure_digest(version.program), {p.name for p in version.parameters}
    texts = [version.program.region_text(*place) for place in version.program.regions]
    shown = [without_guards(text, names) for text in texts]
    if not any(t.startswith(("#define", "#include")) for text in shown for t in tokens(text)):
        return functions
    return digest_json([functions, [tokens(text) for text in texts]])
