"""What a model is told: the kernel, the machine, the version to start from with its numbers, what was tried before.

A prompt is a pure function of its facts. May not hold anything of the user's machine but what is handed in.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from tuner.search.llm.exchange import Message, Purpose
from tuner.search.llm.rules import REPAIR_REPLY, REPAIR_VERSION, asked, system
from tuner.spaces.source.regions import Program

__all__ = ["Earlier", "Facts", "Version", "first_messages", "repair_messages", "without_guards"]

_MOST_BYTES = 96_000
_MOST_FIXED = 8_000
_MOST_OTHER = 16_000
_MOST_SHOWN = 24_000
_MOST_LINE = 600
_MOST_FEATURES = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """A version of the kernel with what is known of it.

    Attributes:
        program: its regions.
        name: how others speak of it, such as ``version 12``.
        times: for each problem a line with its time and the baseline's.
        idea: where it comes from, in a sentence; empty for the source as given.
        tunables: those that it has, with their values and the best one; the spec's own are among them.
        names: of those that are its own, to which the tuner gives a value in the text.
        constraints: on tunables, as expressions.
        features: of its best build's code.
        counters: of the processor while it was timed; empty where it counts nothing.
        remarks: of the compiler, by topic.
        loops: its innermost loops in assembly; empty where they are not known.
    """

    program: Program
    name: str
    times: Sequence[str]
    idea: str = ""
    tunables: Sequence[str] = ()
    names: Collection[str] = ()
    constraints: Sequence[str] = ()
    features: Mapping[str, float] = field(default_factory=dict)
    counters: Mapping[str, float] = field(default_factory=dict)
    remarks: Mapping[str, str] = field(default_factory=dict)
    loops: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Earlier:
    """An earlier request: what for, the reply's idea, and what became of it."""

    purpose: str
    idea: str
    outcome: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """All that a prompt is made of.

    Attributes:
        purpose: of the request; not a repair.
        idea: to be written.
        numerics: as :func:`tuner.search.llm.rules.system` takes it.
        kernel: what it is called with, sizes and tolerance, one line each.
        machine: what it runs on and how it is compiled, one line each.
        parent: the version to start from.
        given: the source as given, where the parent is another.
        other: a second version to show in full.
        versions: others that are known, the best first, one line each.
        earlier: requests before this one, the oldest first.
        listed: ideas of earlier lists that nobody was asked to write yet.
    """

    purpose: Purpose
    numerics: str
    kernel: Sequence[str]
    machine: Sequence[str]
    parent: Version
    idea: str = ""
    given: Program | None = None
    other: Version | None = None
    versions: Sequence[str] = ()
    earlier: Sequence[Earlier] = ()
    listed: Sequence[str] = ()


def first_messages(facts: Facts) -> list[Message]:
    """The messages of a request that begins a conversation; what matters least is left out where they get too long."""
    head = system(facts.numerics, facts.purpose)
    wanted = asked(facts.purpose, facts.idea)
    # By place in the text, and in the order in which there is room for them.
    parts = {
        1: _block("The kernel", facts.kernel),
        2: _block("The machine and the build", facts.machine),
        5: _version(facts.parent, "The version to start from", loops=facts.purpose is Purpose.REFINE),
        9: _history(facts),
        6: "" if facts.other is None else _version(facts.other, "A second version"),
        7: _given(facts),
        8: _block("Other versions that are known", facts.versions),
        3: _around(facts.parent.program),
        4: "\n\n".join(_headers(facts.parent.program)),
    }
    room = _MOST_BYTES - len(head.encode()) - len(wanted.encode())
    kept: dict[int, str] = {}
    for place, text in parts.items():
        size = len(text.encode())
        if text and (place in (1, 5) or size <= room):
            kept[place] = text
            room -= size
    return [
        {"role": "system", "content": head},
        {"role": "user", "content": "\n\n".join([*(kept[place] for place in sorted(kept)), wanted])},
    ]


def repair_messages(
    before: Sequence[Message], reply: str, problems: Sequence[str], *, tried: bool
) -> list[Message]:
    """The conversation so far with a reply that has to be corrected.

    Args:
        before: the messages that it answered.
        reply: the model's.
        problems: what is wrong, one line each.
        tried: whether the reply gave a version that was built and did not work.
    """
    lines = [_line(p) for p in problems]
    said = "; ".join(lines) if tried else "\n".join(f"- {line}" for line in lines)
    text = (REPAIR_VERSION if tried else REPAIR_REPLY).replace("{problems}", said)
    shown = reply if len(reply) <= _MOST_SHOWN else reply[:_MOST_SHOWN] + "\n[cut]"
    return [*before, {"role": "assistant", "content": shown or "(empty)"}, {"role": "user", "content": text}]


def without_guards(text: str, names: Collection[str]) -> str:
    """A text without the lines that give tunables of these names a value when the tuner does not."""

    def without(found: re.Match[str]) -> str:
        return "" if found[1] in names else found[0]

    return re.sub(r"#ifndef (\w+)\n#define \1 -?\d+\n#endif\n", without, text)


def _block(title: str, lines: Sequence[str]) -> str:
    return "\n".join([title, *(_line(line) for line in lines)]) if lines else ""


def _version(version: Version, title: str, *, loops: bool = False) -> str:
    """A version in full: its numbers, its text and, where it is to be refined, what the compiler made of it."""
    head = f"{title}: {version.name}"
    lines = [*version.times]
    if version.idea:
        lines.append(f"Its idea: {version.idea}")
    if version.tunables:
        lines.append("Its tunables, which the tuner defines: " + "; ".join(version.tunables))
    if version.constraints:
        lines.append("Of their values only those are tried that satisfy: " + ", ".join(version.constraints))
    lines += _code(version.features)
    if version.counters:
        shown = (f"{n.replace('_', ' ')} {v:.3g}" for n, v in sorted(version.counters.items()))
        lines.append("The processor counted while it ran: " + ", ".join(shown))
    lines += [f"The compiler's report, {name}: {text}" for name, text in sorted(version.remarks.items())]
    parts = [_block(head, lines), _regions(version.program, version.names)]
    if loops and version.loops:
        head = "Its innermost loops as compiled, most vector work first; which of them takes the time is not known"
        parts.append(f"{head}:\n```\n{version.loops}\n```")
    return "\n\n".join(parts)


def _regions(program: Program, names: Collection[str] = ()) -> str:
    texts = []
    for number, (file, part) in enumerate(program.regions, 1):
        text = without_guards(program.region_text(file, part), names).strip("\n")
        texts.append(f"Region {number}, in {program.files[file].name}:\n```\n{text}\n```")
    return "\n\n".join(texts)


def _given(facts: Facts) -> str:
    if facts.given is None:
        return ""
    text = _regions(facts.given)
    return f"The source as given:\n{text}" if len(text) <= _MOST_OTHER else ""


def _around(program: Program) -> str:
    """What stands around the regions, so that a model knows what is there."""
    texts = []
    for file in program.files:
        shown = "".join(
            part if number % 2 == 0 else f"[region of {file.name}]\n"
            for number, part in enumerate(file.parts)
        )
        around = "".join(file.parts[::2])
        if around.strip() and len(around) <= _MOST_FIXED:
            texts.append(f"{file.name} (cannot be changed):\n```\n{shown.strip(chr(10))}\n```")
    return "\n\n".join(texts)


def _headers(program: Program) -> list[str]:
    """Headers of other folders, whose functions and macros the regions may use."""
    return [
        f"{header.name} (included, cannot be changed):\n```\n{header.text.strip(chr(10))}\n```"
        for header in program.entry.headers
        if header.text.strip() and len(header.text) <= _MOST_FIXED
    ]


def _code(features: Mapping[str, float]) -> list[str]:
    """Sizes of the machine code; what there is none of is left out, and counts of the compiler's own code are."""
    names = [n for n, v in sorted(features.items()) if v and not n.startswith("ir_")][:_MOST_FEATURES]
    words = (f"{n.removesuffix('_count').replace('_', ' ')} {features[n]:.4g}" for n in names)
    return ["Its machine code: " + ", ".join(words)] if names else []


def _history(facts: Facts) -> str:
    lines = [
        f"{number}. {one.purpose}: {one.idea or '(no idea stated)'} -> {one.outcome}"
        for number, one in enumerate(facts.earlier, 1)
    ]
    text = _block("What was asked of you before, and what became of it", lines)
    if facts.purpose is Purpose.IDEAS and facts.listed:
        text += "\n\n" + _block("Ideas that are listed already and not written yet", facts.listed)
    return text.strip()


def _line(text: str) -> str:
    plain = " ".join(text.split())
    return plain if len(plain) <= _MOST_LINE else plain[: _MOST_LINE - 4] + " ..."
