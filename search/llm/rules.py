"""What every request tells a model: its task, what it may write, what it is asked for this time, and how to answer."""

from __future__ import annotations

from collections.abc import Mapping

from tuner.core.canonical import digest
from tuner.search.llm.exchange import Purpose

__all__ = ["REPAIR_REPLY", "REPAIR_VERSION", "TEMPLATE", "asked", "system"]

_TASK = """\
You make one function, the kernel, faster by rewriting its source. What you write is compiled as stated below, its \
outputs are compared with those of the source as given on inputs that you do not see and on further problem sizes, and \
it is timed against the source as given, one call at a time. What the user lets be chosen of compiler flags, pass \
orders and tunables is searched automatically afterwards, so work on the algorithm, the data layout, vectorisation, \
parallelism within a core and the use of the memory hierarchy. A version that computes something else is worth nothing.
"""

_RULES = """\
Rules
- Change only text inside the numbered regions. The kernel's name and parameters stay as they are.
- A region may hold anything that the language allows: further static functions, structures, constant tables, local \
arrays (less than 1 MB in all), attributes and builtins of the compiler, and `#include <...>` of system headers \
(intrinsics, <string.h>) at its beginning. Write pragmas as `#pragma` lines: `_Pragma`, `__has_include`, `.incbin` and \
`#include "..."` are refused.
- No calls of library functions but those of <math.h>, memcpy, memset, memmove and memcmp, and what the source \
calls already: no allocation, no threads, no files, no static state that lives from one call to the next. Each \
call writes all that the source as given writes, and reads nothing past the end of an array.
- It has to be right for every problem size that satisfies the constraints below, also for sizes that no block size \
divides.
- {numerics}
- For a size that could be chosen otherwise (a tile, an unroll factor) write a name in capitals and declare it as a \
tunable; the tuner defines it with each of the values and keeps the best. Do not #define it yourself. Whole numbers \
only. Tunables that the version to start from has are there as long as you name them, and need not be declared again.
"""

_NUMERICS = {
    "integers": "Outputs are integers and have to be the same; any way of getting them is allowed.",
    "exact": "Numerics: exact. Integer outputs have to be the same. Every floating-point operation has to be done on "
    "the same operands in the same order for each output element; no sum may be added up in another order, no "
    "approximations. Vector lanes may hold different output elements.",
    "reassociate": "Numerics: reassociate. Sums and products may be computed in another order (several partial sums, "
    "vector sums); nothing may be less precise than that makes it.",
    "approximate": "Numerics: approximate. Order and precision of floating-point operations may change within the "
    "tolerance below.",
}

_ANSWER = """\
Answer
First one or two sentences on the idea. Then either the whole new text of each region that you change:
```region 1
the complete new text of region 1, nothing left out
```
or edits, as many as needed, in exactly this form:
<<<<<<< SEARCH
lines of a region as they stand there
=======
the lines that take their place
>>>>>>> REPLACE
SEARCH has to be found in one place only: quote enough lines. Edits apply in order, each to what the ones before made. \
Whole regions are the better choice where most of the text changes.
Declare new tunables, if there are any, in one block; the value after = is the default:
```tunables
NAME: [8, 16, 32] = 16
```
"""

_ANSWER_IDEAS = """\
Answer
A numbered list of three to six ideas, two or three sentences each, no code. Before each stands by how much you expect \
it to be faster than the source as given; ideas are written in that order, and not at all once a version is known that \
is clearly faster than that:
1. [30x] ...
2. [12x] ...
"""

_ASKED = {
    Purpose.IDEAS: "Now list ideas that differ in kind: another algorithm with less work, another data layout, another "
    "way to use the vector units. Each is written by a request of its own that sees no other idea's code, so each has "
    "to stand by itself. Say how it maps to this machine, and reckon what it should gain. Leave out what was tried.",
    Purpose.WRITE: "Now write the fastest version that you can by the idea below; it may be wrong in details, and may "
    "be improved on. If it cannot be faster than the version above, {decline}\n\n{idea}",
    Purpose.REFINE: "Now make this version faster. Find what bounds it, and remove that; say in your first sentence "
    "what you take it to be. If it is as fast as it can be, {decline}",
    Purpose.COMBINE: "Now write one version that has the best of both versions above, as a change of the first one's "
    "regions. If nothing of the second would help, {decline}",
}
_DECLINE = "answer with one line and no code: DECLINED: and the reason."
_FREE = "Now write the fastest version that you can, by the idea that promises most."

REPAIR_REPLY = """\
Your reply could not be used, and nothing of it was taken:
{problems}
The regions are still as in the first message. Give the corrected version in full: the whole text of each region that \
you change (```region N blocks), and all tunables again."""

REPAIR_VERSION = """\
Your version was tried and does not work: {problems}
Nothing of it was kept, and the regions are still as in the first message. Find the mistake, say what it was, and give \
the corrected version in full: the whole text of each region that you change (```region N blocks), and all tunables \
again."""

TEMPLATE = digest(
    "".join(
        [
            *(_TASK, _RULES, _ANSWER, _ANSWER_IDEAS, _DECLINE, _FREE, REPAIR_REPLY, REPAIR_VERSION),
            *_NUMERICS.values(),
            *_ASKED.values(),
        ]
    ).encode()
)[:12]
"""What a cassette knows the prompts by: changes with their text."""


def system(numerics: str, purpose: Purpose) -> str:
    """The first message of a conversation.

    Args:
        numerics: of the spec, or ``integers`` where no output is a floating-point number.
        purpose: of the request.
    """
    answer = _ANSWER_IDEAS if purpose is Purpose.IDEAS else _ANSWER
    numbers: Mapping[str, str] = _NUMERICS
    return "\n".join([_TASK, _RULES.format(numerics=numbers[numerics]), answer])


def asked(purpose: Purpose, idea: str) -> str:
    """The last words of a request: what is wanted this time.

    Args:
        purpose: of the request; not a repair, which goes on with a conversation.
        idea: to be written; empty for one of the model's own.
    """
    if purpose is Purpose.WRITE and not idea:
        return _FREE
    return _ASKED[purpose].replace("{decline}", _DECLINE).replace("{idea}", idea)
