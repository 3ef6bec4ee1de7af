"""The filter assembler against the plain meaning of its rules, by running its code in a small interpreter."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tuner.evaluators.sandbox.bpf import ALLOW, TRAP, Condition, Rule, assemble, errno
from tuner.evaluators.sandbox.seccomp import kernel_filter, worker_filter

X86_64, KILL = 0xC000003E, 0x80000000

numbers = st.integers(0, 470)
words = st.integers(0, 2**32 - 1)
tests = st.builds(
    Condition,
    argument=st.integers(0, 5),
    value=st.sampled_from([0, 1, 5, 4096]),
    mask=st.sampled_from([0xFFFFFFFF, 4, 0x10000]),
)
actions = st.sampled_from([ALLOW, TRAP, errno(1), errno(38)])
rules = st.lists(
    st.builds(
        Rule,
        number=numbers,
        action=actions,
        tests=st.lists(tests, max_size=3).map(tuple),
        otherwise=actions,
    ),
    unique_by=lambda rule: rule.number,
    max_size=200,
)


def run(code: bytes, number: int, arguments: list[int], architecture: int = X86_64) -> int:
    data = struct.pack("<IIQ6Q", number, architecture, 0, *arguments)
    program = list(struct.iter_unpack("<HBBI", code))
    at = accumulator = 0
    for _ in range(len(program)):
        operation, if_true, if_false, value = program[at]
        at += 1
        if operation == 0x20:
            (accumulator,) = struct.unpack_from("<I", data, value)
        elif operation == 0x54:
            accumulator &= value
        elif operation == 0x05:
            at += value
        elif operation == 0x15:
            at += if_true if accumulator == value else if_false
        elif operation == 0x35:
            at += if_true if accumulator >= value else if_false
        else:
            assert operation == 0x06
            return int(value)
    raise AssertionError("the filter does not end")


def meaning(found: list[Rule], number: int, arguments: list[int], default: int) -> int:
    for rule in found:
        if rule.number == number:
            holds = all((arguments[t.argument] & 0xFFFFFFFF & t.mask) == t.value for t in rule.tests)
            return rule.action if holds else rule.otherwise
    return default


@pytest.mark.integration
@given(found=rules, number=numbers, arguments=st.lists(words, min_size=6, max_size=6), default=actions)
@settings(deadline=None, max_examples=150)
def test_filter_means_what_its_rules_say(
    found: list[Rule], number: int, arguments: list[int], default: int
) -> None:
    number = found[0].number if found and number % 2 else number
    assert run(assemble(found, default=default), number, arguments) == meaning(
        found, number, arguments, default
    )


@given(number=words, architecture=words)
@settings(deadline=None)
def test_other_tables_of_numbers_end_the_process(number: int, architecture: int) -> None:
    code = kernel_filter(pid=77, channel=5, threads=1)
    if architecture != X86_64:
        assert run(code, number, [0] * 6, architecture) == KILL
    assert run(code, 0x40000000 | number, [0] * 6) == KILL
    assert run(worker_filter(), 0x40000000 | number, [0] * 6) == KILL


def test_two_rules_for_one_call_are_a_mistake() -> None:
    with pytest.raises(ValueError, match="two rules"):
        assemble([Rule(number=3), Rule(number=3, action=TRAP)], default=TRAP)


@pytest.mark.parametrize(
    ("number", "arguments", "action"),
    [
        (44, [5, 0, 0, 0, 0, 0], ALLOW),  # sendto on the channel
        (44, [6, 0, 0, 0, 0, 0], TRAP),
        (1, [2, 0, 0, 0, 0, 0], ALLOW),  # write to /dev/null
        (1, [5, 0, 0, 0, 0, 0], TRAP),
        (1, [5 + 2**32, 0, 0, 0, 0, 0], TRAP),
        (234, [77, 77, 6, 0, 0, 0], ALLOW),  # tgkill, to itself and to another
        (234, [78, 78, 6, 0, 0, 0], TRAP),
        (9, [0, 4096, 3, 0, 0, 0], ALLOW),  # mmap without and with leave to execute
        (9, [0, 4096, 7, 0, 0, 0], TRAP),
        (10, [0, 4096, 3, 0, 0, 0], TRAP),  # mprotect
        (56, [0x3D0F00, 0, 0, 0, 0, 0], TRAP),  # clone of a thread
        (257, [0, 0, 0, 0, 0, 0], errno(13)),  # openat to read, to write
        (257, [0, 0, 1, 0, 0, 0], TRAP),
        (302, [0, 0, 0, 0, 0, 0], ALLOW),  # prlimit64 to ask
        (302, [0, 0, 1, 0, 0, 0], errno(1)),
        (999, [0, 0, 0, 0, 0, 0], TRAP),
    ],
)
def test_kernel_filter_by_example(number: int, arguments: list[int], action: int) -> None:
    assert run(kernel_filter(pid=77, channel=5, threads=1), number, arguments) == action


@pytest.mark.parametrize(
    ("number", "first", "action"), [(56, 0x3D0F00, ALLOW), (56, 17, TRAP), (435, 0, errno(38)), (57, 0, TRAP)]
)
def test_threads_but_no_processes_where_threads_are_asked_for(number: int, first: int, action: int) -> None:
    assert run(kernel_filter(pid=77, channel=5, threads=4), number, [first] + [0] * 5) == action


def test_channel_must_not_be_a_standard_descriptor() -> None:
    with pytest.raises(ValueError, match="over 3"):
        kernel_filter(pid=1, channel=2, threads=1)


@pytest.mark.parametrize(
    ("number", "arguments", "action"),
    [
        (56, [0x3D0F00, 0, 0, 0, 0, 0], TRAP),  # clone of a thread: the team is all there
        (435, [0, 0, 0, 0, 0, 0], TRAP),
        (10, [0, 4096, 3, 0, 0, 0], ALLOW),  # mprotect, for memory that a thread has for itself
        (10, [0, 4096, 7, 0, 0, 0], TRAP),
        (203, [0, 8, 0, 0, 0, 0], errno(0)),  # sched_setaffinity: said to be done
        (157, [0, 0, 0, 0, 0, 0], errno(1)),  # prctl
    ],
)
def test_a_team_that_is_there_grows_no_more(number: int, arguments: list[int], action: int) -> None:
    assert run(kernel_filter(pid=77, channel=5, threads=4, team=True), number, arguments) == action
