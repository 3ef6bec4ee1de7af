"""What a model is told: the parent with what is known of it, better and different variants, failed tries, the rules.

A prompt is a pure function of its facts. May not hold anything of the user's machine but what is handed in.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tuner.core.canonical import digest
from tuner.core.types import Source
from tuner.search.llm.exchange import Message
from tuner.spaces.source.regions import Program

__all__ = ["TEMPLATE", "Facts", "Failure", "Relative", "first_messages", "next_messages"]

_MOST_BYTES = 64_000
_MOST_FIXED = 8_000
_MOST_DIFF = 5_000
_MOST_LINE = 400
_MOST_FEATURES = 40
_A_LINE = 12

_RULES = """\
You make one kernel faster by changing its source. A compiler at its best optimisation level builds what you write, \
its outputs are verified on inputs that you do not see and on further problem sizes, and it is timed against the \
source as given. A wrong result is worth nothing.

Rules
- Change only text inside the numbered regions; everything else stays as it is, names and types of arguments too.
- No calls of libraries, no threads, no files, no static state that lives from one call to the next, no assembly that \
reads files. `#include <...>` of the compiler's own headers (intrinsics) is allowed.
- {numerics}
- Sizes that could be chosen otherwise (tile sizes, unroll factors) are better left to the tuner: write a name in \
capitals in the code and declare it as a tunable. Do not #define it: the tuner does. Whole numbers only.
- One idea at a time, and code that is right for every problem size.

Answer with a sentence on the idea, then edits in exactly this form, as many as needed:
<<<<<<< SEARCH
lines of a region as they stand there
=======
the lines that take their place
>>>>>>> REPLACE
SEARCH has to be found in one place only: quote enough lines. Edits apply in order, each to what the ones before made.
Declare new tunables, if there are any, in one block:
```tunables
NAME: [8, 16, 32] = 16
```
The value after = is the default.
"""

_NUMERICS = {
    "exact": "Numerics: exact. Every floating-point operation has to be done on the same operands in the same order "
    "for each output element; no sum may be added up in another order, no approximations.",
    "reassociate": "Numerics: reassociate. Sums and products may be computed in another order (several partial sums, "
    "vector sums); nothing may be less precise than that makes it.",
    "approximate": "Numerics: approximate. Order and precision of floating-point operations may change within the "
    "tolerance below.",
}

_REPAIR = """\
Your reply could not be used, and nothing of it was taken:
{problems}
The regions are still as in the first message. Give all edits again, corrected, in the same form. Quote SEARCH lines \
exactly as they stand in the region."""

_REWRITE = """\
That could not be used either:
{problems}
Now write the whole text of each region that you change, in a block of this form and with nothing left out:
```region 1
the complete new text of region 1
```
Tunables are declared as before."""

TEMPLATE = digest((_RULES + "".join(_NUMERICS.values()) + _REPAIR + _REWRITE).encode())[:12]
"""What a cassette knows the prompts by: changes with their text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Relative:
    """Another variant of the archive.

    Attributes:
        files: its texts.
        ratio: its time over the baseline's.
        kind: what kind of variant it is, in words.
    """

    files: tuple[Source, ...]
    ratio: float
    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A try from the same parent that failed: its texts and what was wrong, a compile error or a wrong element."""

    files: tuple[Source, ...]
    status: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """All that a prompt is made of.

    Attributes:
        program: the parent.
        numerics: of the spec.
        ratio: the parent's time over the baseline's.
        kind: of variant.
        task: what the kernel is called with and the tolerance, one line each.
        tunables: the parent's with the best values known.
        machine: facts about the hardware.
        features: of the parent's best build.
        counters: of the processor while the parent's best was timed; empty where it counts nothing.
        remarks: of the compiler.
        relatives: better ones first.
        failures: the latest first.
    """

    program: Program
    numerics: str
    ratio: float
    kind: str
    task: Sequence[str]
    tunables: Mapping[str, object] = field(default_factory=dict)
    machine: Mapping[str, object] = field(default_factory=dict)
    features: Mapping[str, float] = field(default_factory=dict)
    counters: Mapping[str, float] = field(default_factory=dict)
    remarks: Mapping[str, str] = field(default_factory=dict)
    relatives: Sequence[Relative] = ()
    failures: Sequence[Failure] = ()


def first_messages(facts: Facts) -> list[Message]:
    """The messages of a proposal's first request; what matters least is left out where they get too long."""
    system = _RULES.format(numerics=_NUMERICS[facts.numerics])
    parts = [_task(facts), _regions(facts)]
    room = _MOST_BYTES - len(system.encode()) - sum(len(p.encode()) for p in parts)
    for part in (_numbers(facts), *_failures(facts), *_relatives(facts), _fixed(facts), *_headers(facts)):
        room -= len(part.encode())
        if room < 0:
            break
        parts.append(part)
    return [
        {"role": "system", "content": system},
        {"role": "user", "content": "\n\n".join(p for p in parts if p)},
    ]


def next_messages(
    before: Sequence[Message], reply: str, problems: Sequence[str], *, rewrite: bool
) -> list[Message]:
    """The conversation with a reply that could not be used and what to do about it."""
    text = (_REWRITE if rewrite else _REPAIR).format(problems="\n".join(f"- {_line(p)}" for p in problems))
    shown = reply if len(reply) <= _MOST_DIFF * 4 else reply[: _MOST_DIFF * 4] + "\n[cut]"
    return [*before, {"role": "assistant", "content": shown or "(empty)"}, {"role": "user", "content": text}]


def _task(facts: Facts) -> str:
    lines = [f"Language: {facts.program.language}", *facts.task]
    lines += [f"{name}: {value}" for name, value in facts.machine.items()]
    return "\n".join(_line(line) for line in lines)


def _regions(facts: Facts) -> str:
    program, texts = facts.program, []
    for number, (file, part) in enumerate(program.regions, 1):
        text = program.region_text(file, part).strip("\n")
        texts.append(f"Region {number}, in {program.files[file].name}:\n```\n{text}\n```")
    return "\n\n".join(texts)


def _fixed(facts: Facts) -> str:
    """What stands around the regions, so that a model knows what is there."""
    texts = []
    for file in facts.program.files:
        shown = "".join(
            part if number % 2 == 0 else f"[region of {file.name}]\n"
            for number, part in enumerate(file.parts)
        )
        around = "".join(file.parts[::2])
        if around.strip() and len(around) <= _MOST_FIXED:
            texts.append(f"{file.name} (cannot change):\n```\n{shown.strip(chr(10))}\n```")
    return "\n\n".join(texts)


def _headers(facts: Facts) -> list[str]:
    """Headers of other folders, whose functions and macros the regions may use."""
    return [
        f"{header.name} (included, cannot change):\n```\n{header.text.strip(chr(10))}\n```"
        for header in facts.program.entry.headers
        if header.text.strip() and len(header.text) <= _MOST_FIXED
    ]


def _numbers(facts: Facts) -> str:
    lines = [f"This version takes {_ratio(facts.ratio)} of the time of the source as given ({facts.kind})."]
    if facts.tunables:
        values = ", ".join(f"{name} = {value}" for name, value in sorted(facts.tunables.items()))
        lines.append(_line(f"Best values found: {values}"))
    lines += _features(facts)
    if facts.counters:
        shown = sorted(facts.counters.items())
        lines.append(_line("While it ran: " + ", ".join(f"{n.replace('_', ' ')} {v:.3g}" for n, v in shown)))
    lines += [_line(f"Compiler, {name}: {text}") for name, text in sorted(facts.remarks.items())]
    return "\n".join(lines)


def _features(facts: Facts) -> list[str]:
    """Of the machine code first, then of the innermost loops; what there is none of is left out."""
    deepest = max((n[:5] for n in facts.features if re.match(r"ir_d\d", n) and facts.features[n]), default="")

    def rank(name: str) -> tuple[int, str]:
        return (0 if not name.startswith("ir_") else 1 if deepest and name.startswith(deepest) else 2, name)

    names = sorted((n for n, v in facts.features.items() if v), key=rank)[:_MOST_FEATURES]
    words = [f"{n} {facts.features[n]:.4g}" for n in names]
    rows = [words[at : at + _A_LINE] for at in range(0, len(words), _A_LINE)]
    return [_line(f"Of its compiled code: {', '.join(row)}") for row in rows]


def _failures(facts: Facts) -> list[str]:
    parent = facts.program.sources()
    return [
        f"This change was tried and failed ({f.status}: {_line(f.message)}):\n```\n{_diff(parent, f.files)}\n```"
        for f in facts.failures
    ]


def _relatives(facts: Facts) -> list[str]:
    parent = facts.program.sources()
    return [
        f"Another version takes {_ratio(r.ratio)} of the time of the source as given ({r.kind}). "
        f"It differs from the one above by:\n```\n{_diff(parent, r.files)}\n```"
        for r in facts.relatives
    ]


def _diff(parent: Sequence[Source], other: Sequence[Source]) -> str:
    lines: list[str] = []
    for mine, its in zip(parent, other, strict=True):
        made = difflib.unified_diff(mine.text.splitlines(), its.text.splitlines(), lineterm="", n=2)
        lines += [line for line in made if not line.startswith(("---", "+++"))]
    text = "\n".join(lines)
    return text if len(text) <= _MOST_DIFF else text[:_MOST_DIFF] + "\n[cut]"


def _ratio(value: float) -> str:
    return f"{value:.3g}"


def _line(text: str) -> str:
    plain = " ".join(text.split())
    return plain if len(plain) <= _MOST_LINE else plain[: _MOST_LINE - 4] + " ..."
