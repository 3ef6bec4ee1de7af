"""What a model's reply becomes: edits that match but for white space, tunables, and what is wrong said in full."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tuner.core.types import Kernel, Source, Variant
from tuner.search.llm.exchange import Purpose
from tuner.search.llm.offspring import Unusable, variant_of
from tuner.search.llm.prompt import Earlier, Facts, Version, first_messages, repair_messages
from tuner.search.llm.reply import read_ideas, read_reply
from tuner.search.remix import Offspring
from tuner.spaces.source.edits import Applied, apply_edits, crossover, without
from tuner.spaces.source.regions import outside_differs, read_program
from tuner.spec.load import load_spec

TEXT = """\
#include <stddef.h>
#define LIMIT 7
static int helper(int x) { return x + LIMIT; }
// EVOLVE-BLOCK-START
void add(const float *a, float *b, int n)
{
    for (int i = 0; i < n; i++)
        b[i] = a[i] + 1.0f;
}
// EVOLVE-BLOCK-END
int after(void) { return helper(1); }
"""


def kernel(text: str = TEXT) -> Kernel:
    files = (Source(name="add.c", text=text),)
    return Kernel(name="add", entry="add", language="c", variant=Variant(files=files), folder="")


def parent() -> Applied:
    return apply_edits(read_program(kernel()), ())


def block(search: str, replace: str) -> str:
    return f"<<<<<<< SEARCH\n{search}\n=======\n{replace}\n>>>>>>> REPLACE\n"


def take(text: str, base: Applied | None = None, known: frozenset[str] = frozenset()) -> Offspring | Unusable:
    base = base or parent()
    read = read_reply(text, regions=len(base.program.regions))
    return variant_of(read, base, original=parent().program, model="m", taken={"n"}, known=known, note={})


def good(text: str, base: Applied | None = None) -> Offspring:
    found = take(text, base)
    assert isinstance(found, Offspring), found
    return found


def problems(text: str) -> str:
    found = take(text)
    assert isinstance(found, Unusable), found
    return "\n".join(found.problems)


def test_an_edit_applies_with_other_white_space() -> None:
    found = good(
        "Idea.\n"
        + block("for(int i=0;i<n;i++)\n  b[i]=a[i]+1.0f ;", "    for (int i = n; i--;)\n  b[i] = a[i] + 1;")
    )
    assert "i--" in found.variant.files[0].text
    assert found.origin == "llm/m"
    assert not found.checked
    assert outside_differs(read_program(kernel()), found.variant) == ""


def test_a_tunable_gets_a_default_and_a_space() -> None:
    reply = block("    for (int i = 0; i < n; i++)", "    for (int i = 0; i < n + 0 * STEP; i++)")
    found = good(reply + "```tunables\nSTEP: [4, 1, 2] = 2\n```\n")
    assert [(p.name, tuple(p.values), p.default) for p in found.parameters] == [("STEP", (1, 2, 4), 2)]
    assert "#ifndef STEP\n#define STEP 2\n#endif\n" in found.variant.files[0].text
    again = apply_edits(read_program(kernel()), found.variant.edits)
    assert again.variant == found.variant
    assert again.parameters == found.parameters


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("STEP: 1, 2", "not in the form"),
        ("step: [1, 2]", "no name for a tunable"),
        ("STEP: [1, x]", "not whole numbers"),
        ("STEP: [1, 2] = 3", "STEP"),
        ("STEP: [-1, 2]", "from 0 to"),
        ("STEP: []", "not whole numbers"),
        ("OTHER: [1, 2]", "OTHER is declared and not used"),
        ("STEP: [1]\nSTEP: [2]", "declared twice"),
        ("LIMIT: [1, 2]", "the name LIMIT is taken"),
        ("\n".join(f"S{i}: [1, 2]" for i in range(9)), "9 tunables"),
    ],
)
def test_wrong_tunables_are_said(line: str, said: str) -> None:
    reply = block("    for (int i = 0; i < n; i++)", "    for (int i = STEP * 0 + LIMIT * 0; i < n; i++)")
    assert said in problems(f"{reply}```tunables\n{line}\n```\n")


def test_every_edit_that_does_not_match_is_named_with_the_nearest_line() -> None:
    reply = block("b[i] = a[i] + 2.0f;", "b[i] = 0;") + block("nothing of it", "x")
    said = problems(reply)
    assert "edit 1: its search text is not in a region; the nearest line is: b[i] = a[i] + 1.0f;" in said
    assert "edit 2: its search text is not in a region" in said


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        ("", "no SEARCH/REPLACE block"),
        ("I cannot help with that.", "no SEARCH/REPLACE block"),
        ("<<<<<<< SEARCH\nx\n=======\ny\n", "edit 1 has no line >>>>>>> REPLACE"),
        ("<<<<<<< SEARCH\nx\n", "edit 1 has no line ======="),
        (block("", "x"), "empty SEARCH part"),
        (block("b[i]", "b[i]"), "change nothing"),
        (block("i", "j"), "is there 8 times"),
        (block("int after(void) { return helper(1); }", "int after(void) { return 0; }"), "not in a region"),
        (block("b[i] = a[i] + 1.0f;", "b[i] = 1; /* open"), "a comment is not closed"),
        (block("b[i] = a[i] + 1.0f;", "{ b[i] = 1;"), "'}' is missing"),
        (block("b[i] = a[i] + 1.0f;", "\n#if 0\nb[i] = 1;"), "an #if has no #endif"),
        (block("b[i] = a[i] + 1.0f;", "// EVOLVE-BLOCK-END"), "region's mark"),
        (block("b[i] = a[i] + 1.0f;", '\n#include "/etc/passwd"\n'), "#include"),
        (block("b[i] = a[i] + 1.0f;", "\n#inc\\\nlude </etc/passwd>\n"), "#include"),
        (block("b[i] = a[i] + 1.0f;", "\n%:include </etc/passwd>\n"), "#include"),
        (block("b[i] = a[i] + 1.0f;", "\n#embed </etc/passwd>\n"), "#embed"),
        (block("b[i] = a[i] + 1.0f;", 'asm(".incbin \\"/etc/passwd\\"");'), ".incbin"),
        ("```region 2\nint x;\n```", "no region 2"),
        ("```region 1\nint x;\n", "does not end"),
        ("x" * (1 << 19), "characters"),
    ],
)
def test_wrong_replies_are_answered_with_the_reason(reply: str, said: str) -> None:
    assert said in problems(reply)


def test_a_whole_region_may_be_written_anew() -> None:
    body = "void add(const float *a, float *b, int n)\n{\n    for (int i = n; i--;)\n        b[i] = a[i] + 1.0f;\n}"
    found = good(f"<think>hm\n<<<<<<< SEARCH</think>\n```c region 1\n{body}\n```\n")
    assert found.variant.edits[0]["op"] == "rewrite"
    assert found.variant.files[0].text.endswith(
        f"{body}\n// EVOLVE-BLOCK-END\nint after(void) {{ return helper(1); }}\n"
    )
    assert outside_differs(read_program(kernel()), found.variant) == ""


def test_headers_of_the_compiler_are_allowed() -> None:
    found = good("```region 1\n#include <immintrin.h>\nvoid add(const float *a, float *b, int n)\n{\n}\n```")
    assert "#include <immintrin.h>" in found.variant.files[0].text


def test_a_known_program_is_no_use() -> None:
    reply = block("b[i] = a[i] + 1.0f;", "b[i] = 1.0f + a[i];")
    found = take(reply, known=frozenset({good(reply).structure}))
    assert isinstance(found, Unusable)
    assert found.final


def test_texts_beside_functions_count_as_another_program() -> None:
    one = block("void add", "#define TWO 2\nvoid add")
    other = block("void add", "#define TWO 3\nvoid add")
    assert good(one).structure != good(other).structure


def test_edits_cross_over_with_their_tunables_renamed() -> None:
    """A tunable of the same name stays two, and the texts that name it go with it."""
    original = read_program(kernel())
    first = block("    for (int i = 0; i < n; i++)", "    for (int i = STEP * 0; i < n; i++)")
    second = block("b[i] = a[i] + 1.0f;", "b[i] = a[i] + STEP * 1.0f;")
    declared = "```tunables\nSTEP: [1, 2]\n```\n"
    one, other = good(first + declared), good(second + declared)
    child = crossover(original, one.variant.edits, other.variant.edits, (1, 0))
    assert [p.name for p in child.parameters] == ["STEP", "STEP_2"]
    assert "STEP_2 * 1.0f" in child.variant.files[0].text
    assert "#define STEP_2 1" in child.variant.files[0].text


def test_an_edit_can_be_left_out_again() -> None:
    original = read_program(kernel())
    found = good(block("1.0f;", "2.0f;") + block("a[i] + 2.0f;", "a[i] + 3.0f;"))
    shorter = without(original, found.variant.edits, {1})
    assert "a[i] + 2.0f;" in shorter.variant.files[0].text
    assert len(without(original, found.variant.edits, {0}).variant.edits) == 0


def known(purpose: Purpose = Purpose.REFINE, **more: Any) -> Facts:
    base = good(block("1.0f;", "STEP * 1.0f;") + "```tunables\nSTEP: [1, 2]\n```\n")
    version = Version(
        program=apply_edits(read_program(kernel()), base.variant.edits).program,
        name="version 3",
        times=["Time of a call, size 1: 2 us; the source as given 4 us"],
        idea="steps",
        tunables=["STEP in [1, 2], best 2"],
        names={"STEP"},
        constraints=["STEP * n < 9"],
        features={"ir_d1_loads_count": 3.0, "text_bytes": 96.0, "stack_accesses_count": 0.0},
        counters={"instructions_per_cycle": 2.5},
        remarks={"loops": "line 7: loop not vectorized"},
        loops="add ymm0, ymm1",
    )
    facts = {"numerics": "exact", "kernel": ["Function: add"], "machine": ["device: a processor"]}
    return Facts(**{**facts, "parent": version, "purpose": purpose, **more})


def test_a_prompt_has_what_is_known() -> None:
    earlier = [Earlier(purpose="write", idea="lanes", outcome="wrong result: b[3] is 2, expected 1")]
    system, user = (m["content"] for m in first_messages(known(earlier=earlier, versions=["version 2: 0.9"])))
    assert "no sum may be added up in another order" in system
    assert "any way of getting them" in first_messages(known(numerics="integers"))[0]["content"]
    told = [
        "device: a processor",
        "The version to start from: version 3\nTime of a call, size 1: 2 us; the source as given 4 us",
        "Its tunables, which the tuner defines: STEP in [1, 2], best 2\nOf their values only those are tried that "
        "satisfy: STEP * n < 9\n",
        "Its machine code: text bytes 96\n",
        "The processor counted while it ran: instructions per cycle 2.5",
        "The compiler's report, loops: line 7: loop not vectorized",
        "b[i] = a[i] + STEP * 1.0f;",
        "add ymm0, ymm1",
        "version 2: 0.9",
        "1. write: lanes -> wrong result: b[3] is 2, expected 1",
        "Now make this version faster.",
    ]
    places = [user.find(text) for text in told]
    assert -1 not in places
    assert places == sorted(places)
    assert "#ifndef" not in user


def test_each_kind_of_request_asks_for_its_own() -> None:
    """Ideas come without code, one of them is written, and two versions are both shown in full."""
    system, user = (m["content"] for m in first_messages(known(Purpose.IDEAS, listed=["strips"])))
    assert "SEARCH" not in system
    assert "numbered list" in system
    assert "not written yet\nstrips" in user
    written = first_messages(known(Purpose.WRITE, idea="use lanes"))[1]["content"]
    assert written.endswith("\n\nuse lanes")
    assert "add ymm0" not in written
    both = first_messages(known(Purpose.COMBINE, other=replace(known().parent, name="version 7")))[1][
        "content"
    ]
    assert both.count("STEP * 1.0f") == 2
    assert "A second version: version 7" in both


def test_what_matters_least_is_left_out_of_a_long_prompt() -> None:
    kept = first_messages(known(earlier=[Earlier(purpose="write", idea="x" * 99_000, outcome="no")] * 400))
    assert len(kept[1]["content"]) < 100_000
    assert "b[i] = a[i] + STEP * 1.0f;" in kept[1]["content"]


def test_a_reply_that_is_to_be_corrected_goes_on_with_its_conversation() -> None:
    asked = first_messages(known())
    unusable = repair_messages(asked, "nonsense", ["edit 1: no"], tried=False)
    assert [m["role"] for m in unusable] == ["system", "user", "assistant", "user"]
    assert "could not be used" in unusable[-1]["content"]
    assert "- edit 1: no" in unusable[-1]["content"]
    tried = repair_messages(asked, "text", ["wrong result: b[3] is 2"], tried=True)[-1]["content"]
    assert "does not work: wrong result: b[3] is 2\n" in tried


@pytest.mark.parametrize(
    ("text", "ideas"),
    [
        ("1. One.\n2) Two\n   goes on.\n3. Three.", ["One.", "Two goes on.", "Three."]),
        (
            "Ideas:\n\n**1. Lanes.** Many.\n\n   More of it.\n\n2. Tiles.\n\nGood luck!",
            ["Lanes. Many. More of it.", "Tiles."],
        ),
        ("### 1. A\ntext\n```c\n2. no\n```\n### 2. B", ["A text", "B"]),
        ("1. A:\n   1. first\n   2. second", ["A: 1. first 2. second"]),
        ("<think>1. no</think>nothing", []),
        ("- [3x] A\n  - detail\n- **[2x]** B\n- no gain", ["A - detail", "B - no gain"]),
        ("### Idea 1: A\n### Idea 2: [4x] B", ["A", "B"]),
    ],
)
def test_ideas_are_read_from_any_numbered_list(text: str, ideas: list[str]) -> None:
    assert [one.text for one in read_ideas(text)] == ideas


@pytest.mark.parametrize(
    ("text", "gain"),
    [
        ("[30x] Lanes.", 30.0),
        ("**[~2.5 x]** Lanes.", 2.5),
        ("[4 times] Lanes.", 4.0),
        ("Lanes. [30x]", None),
        ("[0x] Lanes.", None),
        ("[30x]", None),
    ],
)
def test_an_idea_says_what_it_should_gain(text: str, gain: float | None) -> None:
    (found,) = read_ideas(f"1. {text}")
    assert found.gain == gain
    assert found.text == ("Lanes." if gain is not None else text)


def test_a_model_may_decline_what_gains_nothing() -> None:
    """It is not asked to correct that."""
    found = take("DECLINED: the bound is\nreached.")
    assert isinstance(found, Unusable)
    assert found.final
    assert found.problems == ("declined: the bound is reached.",)
    assert take("As I see it:\n\n**DECLINED:** no.").problems == ("declined: no.",)
    assert isinstance(take("DECLINED, but:\n" + block("1.0f;", "2.0f;")), Offspring)


def test_a_version_written_anew_leaves_no_tunable_of_the_last_one_behind() -> None:
    """Only those that it names stay, and its edits are on the source as given."""
    first = good(block("1.0f;", "STEP * ROW * 1.0f;") + "```tunables\nSTEP: [1, 2]\nROW: [3, 4] = 4\n```\n")
    base = apply_edits(read_program(kernel()), first.variant.edits)
    body = "void add(const float *a, float *b, int n)\n{\n    for (int i = n; i--;) b[i] = a[i] + ROW;\n}"
    found = good(f"```region 1\n{body}\n```", base)
    assert [e["op"] for e in found.variant.edits] == ["rewrite"]
    assert [(p.name, list(p.values), p.default) for p in found.parameters] == [("ROW", [3, 4], 4)]
    assert "#define ROW 4" in found.variant.files[0].text


TWO_REGIONS = """\
// EVOLVE-BLOCK-START
#ifndef OWN
#define OWN 8
#endif
static float f(float x) { return x * OWN; }
// EVOLVE-BLOCK-END
// EVOLVE-BLOCK-START
void add(const float *a, float *b, int n)
{
    for (int i = 0; i < n; i++)
        b[i] = f(a[i]);
}
// EVOLVE-BLOCK-END
"""


def test_regions_written_anew_share_the_tunables_of_the_last_version() -> None:
    """Each is declared once, and constraints on those that stay stay too."""
    original = read_program(kernel(TWO_REGIONS))

    def anew(base: Applied, number: int, declared: str = "") -> Offspring:
        texts = (
            f"static float f(float x) {{ return x * BY * {number}; }}",
            "void add(const float *a, float *b, int n)\n{\n    for (int i = n; i--;) b[i] = f(a[i]) * ROW / BY;\n}",
        )
        read = read_reply(
            "".join(f"```region {n}\n{t}\n```\n" for n, t in enumerate(texts, 1)) + declared, regions=2
        )
        found = variant_of(read, base, original=original, model="m", taken={"n"}, known=(), note={})
        assert isinstance(found, Offspring), found
        return found

    first = anew(apply_edits(original, ()), 8, "```tunables\nBY: [1, 2]\nROW: [2, 4]\n```\n").variant.edits
    given = [{**first[0], "constraints": ["BY <= ROW", "BY < 3 + ROW"]}, *first[1:]]
    found = anew(apply_edits(original, given), 9)
    assert [p.name for p in found.parameters] == ["BY", "ROW"]
    assert found.constraints == ("BY <= ROW", "BY < 3 + ROW")
    again = apply_edits(original, found.variant.edits)
    assert (again.variant, again.constraints) == (found.variant, found.constraints)
    # One that is declared with other values is another.
    other = anew(apply_edits(original, given), 9, "```tunables\nBY: [4, 8]\n```\n")
    assert [(p.name, p.default) for p in other.parameters] == [("BY", 4), ("ROW", 2)]
    assert other.constraints == ()


def test_lines_of_the_source_that_give_a_name_a_value_are_shown_and_count() -> None:
    """Only those that the tuner wrote are left out."""
    original = read_program(kernel(TWO_REGIONS))
    base = apply_edits(original, ())
    shown = first_messages(replace(known(), parent=replace(known().parent, program=base.program)))[1][
        "content"
    ]
    assert "#ifndef OWN\n#define OWN 8\n#endif\nstatic float f" in shown
    read = read_reply(block("#define OWN 8", "#define OWN 16"), regions=2)
    assert isinstance(
        variant_of(read, base, original=original, model="m", taken={"n"}, known=(), note={}), Offspring
    )


def test_headers_of_other_folders_are_told(tmp_path: Path) -> None:
    """What stands beside the source is one of its files."""
    texts = {
        "k.c": '#include "near.h"\n#include "far.h"\nvoid k(float *y, int n)\n{\n'
        "    for (int i = 0; i < n; i++)\n        y[i] = near(i) + far(i);\n}\n",
        "near.h": "static inline float near(int i) { return i * 0.5f; }\n",
        "inc/far.h": "static inline float far(int i) { return i * 0.25f; }\n",
        "k.yaml": "kernel: {source: k.c, entry: k, include: [inc]}\nproblem: {n: 64}\narguments:\n"
        "  - {name: y, dtype: float32, shape: [n], role: output}\n  - {name: n, dtype: int32, value: n}\n"
        "space: {source: {evolve: true}}\n",
    }
    (tmp_path / "inc").mkdir()
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    (spec,) = load_spec(tmp_path / "k.yaml")
    facts = known()
    facts = replace(facts, parent=replace(facts.parent, program=read_program(spec.task.kernel)))
    now = first_messages(facts)[1]["content"]
    assert "near.h (cannot be changed):" in now
    assert "inc/far.h (included, cannot be changed):\n```\nstatic inline float far(int i)" in now
