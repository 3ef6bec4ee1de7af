"""Reading of objects, on bytes that are none."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tuner.evaluators.host.objects import Object


@pytest.mark.parametrize("data", [b"", b"\x7fELF", b"\0" * 64, b"MZ" + b"\0" * 200])
def test_non_objects_are_value_errors(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"object|relocatable"):
        Object(data)


@settings(deadline=None, max_examples=200)
@given(st.binary(max_size=300))
def test_garbage_behind_a_right_start_is_a_value_error(tail: bytes) -> None:
    head = b"\x7fELF\x02\x01\x01" + b"\0" * 9 + b"\x01\0\x3e\0"
    try:
        Object(head + tail)
    except ValueError:
        return
