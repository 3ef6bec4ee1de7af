"""What every proposer of variants has to keep to, as checks that a third party can run on its own.

A check raises ``AssertionError`` with one line. The proposer is made with a kernel and a numerics policy, as the entry
point group ``tuner.proposers`` has it. May not build or run what is proposed.
"""

from __future__ import annotations

from collections.abc import Callable

from tuner.core.canonical import canonical_json, from_json
from tuner.core.streams import stream
from tuner.core.types import Kernel, Variant
from tuner.search.conformance import require
from tuner.search.remix import Offspring, Outcome, Proposer
from tuner.spaces.source.edits import apply_edits, permitted
from tuner.spaces.source.identity import structure_digest
from tuner.spaces.source.regions import outside_differs, read_program

__all__ = ["Factory", "check_all", "check_offspring", "check_repeatable", "check_series", "check_unchanged"]

Factory = Callable[[Kernel, str], Proposer]


def check_all(make: Factory, kernel: Kernel, *, count: int = 20) -> None:
    """Every check, under each numerics policy.

    Args:
        make: the proposer's factory.
        kernel: to propose variants of.
        count: proposals of each series.
    """
    for numerics in ("exact", "reassociate", "approximate"):
        check_series(make, kernel, numerics, count=count)
        check_repeatable(make, kernel, numerics, count=count)
    check_unchanged(make, kernel)


def check_series(make: Factory, kernel: Kernel, numerics: str, *, count: int) -> list[Offspring]:
    """Offspring of offspring: each one sound, none of a known structure, whatever became of those before."""
    proposer = make(kernel, numerics)
    require(isinstance(proposer, Proposer), "it lacks a method or its name")
    parents, made = [kernel.variant], list[Offspring]()
    known = {structure_digest(read_program(kernel))}
    for number in range(count):
        found = proposer.propose(parents[-2:][::-1], stream(1, "propose", number), known)
        if found is None:
            continue
        check_offspring(kernel, numerics, found)
        require(found.structure not in known, f"proposal {number} has a structure that was not wanted again")
        known.add(found.structure)
        made.append(found)
        parents.append(found.variant)
        gain = (None, 0.3, -0.1)[number % 3]
        proposer.tell([Outcome(origin=found.origin, gain=gain), Outcome(origin="another", gain=0.1)])
    proposer.tell([])
    return made


def check_offspring(kernel: Kernel, numerics: str, found: Offspring) -> None:
    """Edits that make the variant of the original, are plain JSON, stay within regions and within the policy."""
    original = read_program(kernel)
    edits = [dict(e) for e in found.variant.edits]
    require(from_json(canonical_json(edits)) == edits, "its edits are no plain JSON")
    again = apply_edits(original, edits)
    require(again.variant.files == found.variant.files, "its edits do not make its texts of the original")
    require(again.parameters == tuple(found.parameters), "its tunables are not those of its edits")
    require(permitted(edits, numerics), f"its edits are not allowed where numerics is {numerics}")
    differs = outside_differs(original, found.variant)
    require(not differs, differs)
    require(again.checked or not found.checked, "it claims to be checked and rests on an edit that is not")
    names = [p.name for p in found.parameters]
    require(len(set(names)) == len(names), "a tunable is there twice")


def check_repeatable(make: Factory, kernel: Kernel, numerics: str, *, count: int) -> None:
    """The same calls give the same proposals: a record is replayed by making them again."""
    one = check_series(make, kernel, numerics, count=count)
    other = check_series(make, kernel, numerics, count=count)
    require([o.variant for o in one] == [o.variant for o in other], "the same calls give other proposals")
    require([o.origin for o in one] == [o.origin for o in other], "the same calls give other origins")


def check_unchanged(make: Factory, kernel: Kernel) -> None:
    """Asking changes nothing: without a ``tell`` in between the same stream gives the same answer."""
    proposer = make(kernel, "exact")
    parents: list[Variant] = [kernel.variant]
    one = proposer.propose(parents, stream(2, "propose", 0))
    other = proposer.propose(parents, stream(2, "propose", 0))
    same = (one is None) == (other is None) and (one is None or other is None or one.variant == other.variant)
    require(same, "asking changed what is proposed")
