"""Flags that NVRTC honours, and reasons for those that it does not."""

from __future__ import annotations

import shlex

import pytest

from tuner.core.errors import SpecError
from tuner.evaluators.cuda.flags import check_flags, nvrtc_options, short_names


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("", ()),
        ("--use_fast_math", ("--use_fast_math",)),
        ("-use_fast_math", ("-use_fast_math",)),
        ("-maxrregcount=32", ("-maxrregcount=32",)),
        ("-maxrregcount 32", ("-maxrregcount=32",)),
        ("--fmad=false -ftz true", ("--fmad=false", "--ftz=true")),
        ("-Xptxas -dlcm=cg", ("--ptxas-options=-dlcm=cg",)),
        ("--ptxas-options=-O1,-dscm=wt", ("--ptxas-options=-O1,-dscm=wt",)),
        ("-DN=4 -D M -UX", ("-DN=4", "-DM", "-UX")),
        ("-I sub -I/abs", ("-I/spec/sub", "-I/abs")),
        ("-std=c++20", ("-std=c++20",)),
    ],
)
def test_honoured(text: str, options: tuple[str, ...]) -> None:
    assert nvrtc_options(shlex.split(text), folder="/spec") == options


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("-O3", "always optimises"),
        ("-arch=sm_80", "`target`"),
        ("-G", "debug"),
        ("-rdc=true", "compiled whole"),
        ("-ffast-math", "--use_fast_math"),
        ("-funroll-loops", "#pragma unroll"),
        ("--use_fastmath", "did you mean --use_fast_math"),
        ("-maxrregcount=7", "16 to 255"),
        ("-maxrregcount=x", "16 to 255"),
        ("-maxrregcount", "lacks its argument"),
        ("--fmad=maybe", "neither true nor false"),
        ("-std=c99", "no such standard"),
        ("-Xptxas -dlcm=xx", "ptxas has no such option"),
        ("-Xptxas -unroll", "ptxas has no such option"),
        ("fast", "start with a dash"),
        ("--made-up", "NVRTC has no such option"),
    ],
)
def test_refused(text: str, says: str) -> None:
    with pytest.raises(SpecError) as raised:
        check_flags(shlex.split(text))
    assert says in str(raised.value)
    assert "\n" not in str(raised.value)


def test_short_macros() -> None:
    assert short_names(("T", "TX", "TILE")) == ("T", "TX")
