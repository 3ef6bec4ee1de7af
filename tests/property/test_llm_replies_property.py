"""Any reply and any body of a server: no traceback, no hang, and either a whole variant or a reason."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tuner.core.canonical import canonical_json, from_json
from tuner.core.types import Kernel, Source, Variant
from tuner.search.llm.decode import Malformed, decode
from tuner.search.llm.offspring import Unusable, variant_of
from tuner.search.llm.reply import read_reply
from tuner.spaces.source.descriptors import describe
from tuner.spaces.source.edits import apply_edits
from tuner.spaces.source.regions import outside_differs, read_program

TEXT = """\
static int before(void) { return 1; }
// EVOLVE-BLOCK-START
void add(const float *a, float *b, int n)
{
    for (int i = 0; i < n; i++)
        b[i] = a[i] + 1.0f;
}
// EVOLVE-BLOCK-END
int after(void) { return before(); }
"""
KERNEL = Kernel(
    name="add",
    entry="add",
    language="c",
    variant=Variant(files=(Source(name="add.c", text=TEXT),)),
    folder="",
)
ORIGINAL = read_program(KERNEL)
BASE = apply_edits(ORIGINAL, ())

LINES = """\
<<<<<<< SEARCH
=======
>>>>>>> REPLACE
```region 1
```
```tunables
```c
STEP: [1, 2] = 2
    for (int i = 0; i < n; i++)
        b[i] = a[i] + 1.0f;
}
{
#if 0
#endif
\\
EVOLVE-BLOCK-END
void add(const float *a, float *b, int n)
for (;;)
#include <a.h>
"""
MARKS = ("(" * 300, "/*", "*/", '"', "STEP", "\0", "b[i]", "<think>", "</think>", 'R"(', "'", "@", "\r\n")
PIECES = st.sampled_from([*LINES.splitlines(keepends=True), *MARKS])
REPLIES = st.one_of(
    st.text(max_size=400),
    st.lists(st.one_of(PIECES, st.text(max_size=12)), max_size=40).map("".join),
)


@settings(deadline=None, max_examples=50)
@given(REPLIES)
@pytest.mark.integration
def test_any_reply_gives_a_whole_variant_or_a_reason(text: str) -> None:
    read = read_reply(text, regions=1)
    made = variant_of(read, BASE, original=ORIGINAL, model="m", taken={"n"}, known=(), note={})
    if isinstance(made, Unusable):
        assert made.problems
        assert all(p and "\n" not in p for p in made.problems)
        return
    edits = [dict(e) for e in made.variant.edits]
    assert from_json(canonical_json(edits)) == edits
    again = apply_edits(ORIGINAL, edits)
    assert again.variant.files == made.variant.files
    assert outside_differs(ORIGINAL, made.variant) == ""
    assert made.variant.files[0].text.startswith(
        "static int before(void) { return 1; }\n// EVOLVE-BLOCK-START\n"
    )
    assert made.variant.files[0].text.endswith("// EVOLVE-BLOCK-END\nint after(void) { return before(); }\n")
    describe(again.program)


@settings(deadline=None, max_examples=40)
@given(st.text(max_size=300), st.text(max_size=200))
@pytest.mark.integration
def test_any_replacement_within_the_form(search: str, replace: str) -> None:
    for text in (
        f"<<<<<<< SEARCH\n{search}\n=======\n{replace}\n>>>>>>> REPLACE\n",
        f"<<<<<<< SEARCH\n        b[i] = a[i] + 1.0f;\n=======\n{replace}\n>>>>>>> REPLACE\n",
        f"```region 1\n{replace}\n```\n",
    ):
        made = variant_of(
            read_reply(text, regions=1), BASE, original=ORIGINAL, model="m", taken=(), known=(), note={}
        )
        if isinstance(made, Unusable):
            assert made.problems
        else:
            assert outside_differs(ORIGINAL, made.variant) == ""


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                [
                    "choices",
                    "message",
                    "delta",
                    "content",
                    "usage",
                    "prompt_tokens",
                    "error",
                    "finish_reason",
                    "tool_calls",
                    "function",
                    "arguments",
                    "refusal",
                    "reasoning",
                    "text",
                    "x",
                ]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=20,
)


@pytest.mark.integration
@settings(deadline=None, max_examples=50)
@given(st.one_of(st.binary(max_size=300), JSON.map(lambda v: json.dumps(v).encode())))
def test_any_body_is_read_or_malformed(body: bytes) -> None:
    _decoded(body)


@pytest.mark.integration
@settings(deadline=None, max_examples=50)
@given(st.lists(JSON, max_size=5), st.integers(0, 400))
def test_any_stream_is_read_or_malformed(values: list[Any], cut: int) -> None:
    body = "".join(f"data: {json.dumps(v)}\n\n" for v in values).encode() + b"data: [DONE]\n\n"
    _decoded(body)
    _decoded(body[:cut])


def _decoded(body: bytes) -> None:
    try:
        found = decode(body)
    except Malformed:
        return
    found.text.encode()
    assert found.prompt_tokens is None or found.prompt_tokens >= 0
