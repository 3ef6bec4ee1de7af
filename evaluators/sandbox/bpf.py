"""A small assembler for seccomp filters: classic BPF over a system call's number and arguments.

Source: the kernel's documentation, userspace-api/seccomp_filter, and ``struct seccomp_data``. Makes bytes, installs
nothing. Little-endian 64-bit machines only.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

__all__ = ["ALLOW", "TRAP", "Condition", "Rule", "assemble", "errno"]

ALLOW = 0x7FFF0000
TRAP = 0x00030000
"""The process gets SIGSYS, and the call is not made."""
_KILL = 0x80000000

_ARCH_X86_64 = 0xC000003E
_X32_BIT = 0x40000000
_NUMBER, _ARCH, _ARGUMENTS = 0, 4, 16
_LOAD, _AND, _RETURN = 0x20, 0x54, 0x06
_JUMP, _JUMP_EQUAL, _JUMP_GREATER_EQUAL = 0x05, 0x15, 0x35
_LONGEST_JUMP = 255
_INSTRUCTION = struct.Struct("<HBBI")


def errno(number: int) -> int:
    """The action that fails the call with an error number."""
    return 0x00050000 | number


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """Whether the low 32 bits of an argument, masked, equal a value.

    Kernel and C library read descriptors, signals, process numbers and flags as ``int``, so that the high half of
    the register does not count for them.
    """

    argument: int
    value: int
    mask: int = 0xFFFFFFFF


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What becomes of one system call: ``action`` when all tests hold, else ``otherwise``."""

    number: int
    action: int = ALLOW
    tests: tuple[Condition, ...] = ()
    otherwise: int = field(default=TRAP)


def assemble(rules: Iterable[Rule], *, default: int) -> bytes:
    """The filter as bytes: the rule with a call's number decides, else ``default``.

    The number is looked up by halving: the kernel tries every number when a filter is installed, which with a plain
    list costs more than the rest of a process's start. A call by another instruction set's table (32-bit, x32) ends
    the process: its numbers mean other calls.

    Raises:
        ValueError: two rules for one number.
    """
    ordered = sorted(rules, key=lambda rule: rule.number)
    if len({rule.number for rule in ordered}) != len(ordered):
        raise ValueError("two rules for one system call")
    code = [
        _pack(_LOAD, _ARCH),
        _pack(_JUMP_EQUAL, _ARCH_X86_64, 1, 0),
        _pack(_RETURN, _KILL),
        _pack(_LOAD, _NUMBER),
        _pack(_JUMP_GREATER_EQUAL, _X32_BIT, 0, 1),
        _pack(_RETURN, _KILL),
        *_search(ordered, default),
    ]
    return b"".join(code)


def _search(rules: Sequence[Rule], default: int) -> list[bytes]:
    if len(rules) <= 1:
        code: list[bytes] = []
        for rule in rules:
            body = _body(rule)
            code += [_pack(_JUMP_EQUAL, rule.number, 0, len(body)), *body]
        return [*code, _pack(_RETURN, default)]
    middle = len(rules) // 2
    low, high = _search(rules[:middle], default), _search(rules[middle:], default)
    pivot = rules[middle].number
    if len(low) <= _LONGEST_JUMP:
        return [_pack(_JUMP_GREATER_EQUAL, pivot, len(low), 0), *low, *high]
    return [_pack(_JUMP_GREATER_EQUAL, pivot, 0, 1), _pack(_JUMP, len(low)), *low, *high]


def _body(rule: Rule) -> Sequence[bytes]:
    """Ends in a return whatever the tests say, so that nothing has to load the number again."""
    body: list[bytes] = []
    for position, test in enumerate(rule.tests):
        # Instructions of the tests that follow, and the return after them.
        rest = sum(2 + (t.mask != 0xFFFFFFFF) for t in rule.tests[position + 1 :]) + 1
        body.append(_pack(_LOAD, _ARGUMENTS + 8 * test.argument))
        if test.mask != 0xFFFFFFFF:
            body.append(_pack(_AND, test.mask))
        body.append(_pack(_JUMP_EQUAL, test.value & 0xFFFFFFFF, 0, rest))
    body.append(_pack(_RETURN, rule.action))
    if rule.tests:
        body.append(_pack(_RETURN, rule.otherwise))
    return body


def _pack(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return _INSTRUCTION.pack(code, if_true, if_false, value)
