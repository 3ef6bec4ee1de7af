"""What is kept of pure functions of trees: the same answers as without, refusals included, and bounded."""

from __future__ import annotations

import pytest

from tuner.core.types import Kernel, Source, Variant
from tuner.spaces.source.edits import apply_edit
from tuner.spaces.source.memo import Kept, kept_by_identity, kept_or_raised
from tuner.spaces.source.operators import Refused
from tuner.spaces.source.regions import read_program
from tuner.spaces.source.walks import names_in, subtrees, written_names

TEXT = """void f(float *a, const float *b, int n)
{
    for (int i = 0; i < n; i++) {
        float t = b[i];
        if (t > 0.0f)
            a[i] = sqrtf(t);
        else
            a[i] = t;
    }
}
"""


def kernel(text: str = TEXT) -> Kernel:
    """With entry f."""
    variant = Variant(files=(Source(name="f.c", text=text),))
    return Kernel(name="f", entry="f", language="c", variant=variant, folder=".")


def test_a_refusal_is_kept_as_well() -> None:
    """It is raised each time, and found out once."""
    kept: Kept[tuple[object, int | Refused]] = Kept(8)
    asked: list[int] = []

    def refused() -> int:
        asked.append(1)
        raise Refused("why")

    for _ in range(2):
        with pytest.raises(Refused, match="why"):
            kept_or_raised(kept, 1, None, refused, Refused)
    assert len(asked) == 1
    assert kept_or_raised(kept, 2, None, lambda: 5, Refused) == 5


def test_the_oldest_are_let_go() -> None:
    """What was asked for lately stays."""
    kept: Kept[str] = Kept(2)
    kept.put(1, "a")
    kept.put(2, "b")
    for number in range(3, 20):
        assert kept.get(1) == "a"
        kept.put(number, "x")
    assert kept.get(2) is None


def test_equal_objects_are_told_apart() -> None:
    """Equality is never asked for: a number and a truth value stay what they are."""
    seen: list[object] = []

    @kept_by_identity(8)
    def look(node: object) -> str:
        seen.append(node)
        return repr(node)

    assert [look(v) for v in (1, True, 1.0, 1, True)] == ["1", "True", "1.0", "1", "True"]
    assert len(seen) == 3


def test_one_edit_of_one_program_is_applied_once() -> None:
    """Another reading of the same texts is the same program; a refusal is given again with its reason."""
    edit = {"op": "restrict", "function": "f", "assumes": ["separate buffers"]}
    made = apply_edit(read_program(kernel()), edit)
    assert apply_edit(read_program(kernel()), dict(edit)) is made
    assert read_program(kernel(TEXT.replace("sqrtf", "fabsf"))) is not read_program(kernel())
    reasons = []
    for _ in range(2):
        with pytest.raises(Refused) as refusal:
            apply_edit(read_program(kernel()), {**edit, "function": "g"})
        reasons.append(str(refusal.value))
    assert reasons == ["there is no function 'g' in a region"] * 2


def test_names_of_statements_are_those_of_their_parts() -> None:
    """Read, called, declared, counted; a caller may change the set that it was given."""
    body = read_program(kernel()).functions["f"].body
    for _ in range(2):
        names = names_in(body)
        assert names == {"i", "n", "a", "b", "t", "sqrtf"}
        written = written_names(body)
        assert written == {"i", "t", "a"}
        names.clear()
        written.clear()
    assert names_in(None) == set()
    assert len(list(subtrees(body))) > 20
