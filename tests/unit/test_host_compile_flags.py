"""Flags reach who honours them, and one that nobody honours is an error."""

import pytest

from tuner.core.errors import SpecError
from tuner.evaluators.host.flags import VALUE_CHANGING, sort_flags


def test_macros_and_arithmetic_go_to_the_front_end() -> None:
    flags = sort_flags(["-DN=3", "-ffast-math", "-mprefer-vector-width=512", "-std=c11"])
    assert flags.frontend == ("-DN=3", "-ffast-math", "-mprefer-vector-width=512", "-std=c11")
    assert flags.options == ()


def test_vectorisers_are_switched_by_global_options_and_the_last_word_counts() -> None:
    assert sort_flags(["-fno-vectorize"]).options == ("-vectorize-loops=false",)
    assert sort_flags(["-fno-slp-vectorize"]).options == ("-vectorize-slp=false",)
    assert sort_flags(["-fno-vectorize", "-fvectorize"]).options == ()


def test_unrolling_is_for_the_pass_builder_and_the_front_end() -> None:
    flags = sort_flags(["-fno-unroll-loops"])
    assert not flags.passes.loop_unrolling
    assert not flags.passes.loop_interleaving
    assert flags.frontend == ("-fno-unroll-loops",)


def test_code_model_and_cpu_reach_the_target_machine() -> None:
    flags = sort_flags(["-mcmodel=large", "-march=x86-64-v3"])
    assert flags.machine.code_model == "large"
    assert flags.machine.cpu == "x86-64-v3"
    assert sort_flags(["-march=native"]).machine.cpu == ""


def test_llvm_options_keep_their_order() -> None:
    assert sort_flags(["-mllvm", "-unroll-count=4", "-mllvm", "-b"]).options == ("-unroll-count=4", "-b")


def test_relative_folders_are_those_of_the_kernel() -> None:
    flags = sort_flags(["-Iinc", "-I", "/abs", "-isystem", "sys", "-D", "X"], folder="/k")
    assert flags.frontend == ("-I", "/k/inc", "-I", "/abs", "-isystem", "/k/sys", "-D", "X")


@pytest.mark.parametrize(
    ("flag", "reason"),
    [
        ("-O2", "pass pipeline decides"),
        ("-Ofast", "pass pipeline decides"),
        ("-lm", "links nothing"),
        ("-flto", "no link step"),
        ("-fopenmp", "alike with OpenMP or without"),
        ("-fPIC", "loader decides"),
        ("-m32", "how a function is called"),
        ("-fveclib=SVML", "no such library"),
        ("-falign-loops=32", "not known to change"),
        ("-o", "what clang does"),
        ("-mcmodel=kernel", "cannot be loaded"),
        ("kernel.c", "no compiler flag"),
        ("-mllvm", "lacks its argument"),
        ("-I", "lacks its argument"),
    ],
)
def test_unusable_flags_are_errors_with_reason_and_hint(flag: str, reason: str) -> None:
    with pytest.raises(SpecError, match=reason) as caught:
        sort_flags([flag])
    assert caught.value.hint
    assert flag in caught.value.message


@pytest.mark.parametrize("flag", ["-ffast-math", "-fno-signed-zeros", "-ffp-contract=fast", "-mrecip"])
def test_flags_that_change_values_are_known(flag: str) -> None:
    assert VALUE_CHANGING.match(flag)


@pytest.mark.parametrize("flag", ["-fwrapv", "-DX=1", "-march=native", "-funroll-loops"])
def test_flags_that_keep_values_are_known(flag: str) -> None:
    assert not VALUE_CHANGING.match(flag)
