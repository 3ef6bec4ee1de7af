"""Where buffers lie: guard pages, placements, staggering, and the words of a call."""

from __future__ import annotations

import itertools

import pytest

from tuner.core.dtypes import C_TYPES
from tuner.core.errors import SpecError
from tuner.core.types import Status
from tuner.evaluators.host.clocks import Clocks
from tuner.evaluators.host.compiler import HostCompiler
from tuner.evaluators.host.harness import Signature, harness_text
from tuner.evaluators.host.layout import PAGE, Buffer, BundleLayout, lay_out
from tuner.evaluators.host.toolchain import find_toolchain


def buffers(*sizes: int) -> list[Buffer]:
    roles = itertools.cycle(["input", "output", "inout", "scratch"])
    return [
        Buffer(name=f"b{i}", role=role, size_bytes=size)
        for i, (size, role) in enumerate(zip(sizes, roles, strict=False))
    ]


def mapped(layout: BundleLayout) -> set[int]:
    return {s.at // PAGE + i for s in layout.spans for i in range(s.size_bytes // PAGE)}


@pytest.mark.parametrize("placement", ["end", "start", "stagger"])
@pytest.mark.parametrize("size", [4, 4092, 4096, 4100, 12288])
def test_every_span_has_a_guard_page_on_both_sides(placement: str, size: int) -> None:
    layout = lay_out([buffers(size, size, size, size)] * 3, [placement] * 3)
    pages = mapped(layout)
    for span in layout.spans:
        assert span.at // PAGE - 1 not in pages
        assert (span.at + span.size_bytes) // PAGE not in pages
    assert max(pages) * PAGE + PAGE < layout.space_bytes


@pytest.mark.parametrize("size", [4, 4096, 5000])
def test_placements_touch_the_guard_page_they_name(size: int) -> None:
    ends, starts = lay_out([buffers(size)] * 2, ["end", "start"]).entries
    region = ends.regions[0]
    assert region.at + size == region.span.at + region.span.size_bytes
    assert starts.regions[0].at == starts.regions[0].span.at


def test_staggered_buffers_keep_to_cache_lines_and_differ() -> None:
    layout = lay_out([buffers(8192, 8192, 8192)] * 4, ["stagger"] * 4, shift=5)
    skips = [r.skip for e in layout.entries for r in e.regions]
    assert all(s % 64 == 0 and s < PAGE for s in skips)
    assert len(set(skips)) > len(skips) // 2
    assert skips != [
        r.skip for e in lay_out([buffers(8192) * 3] * 4, ["stagger"] * 4).entries for r in e.regions
    ]


def test_copies_share_inputs_and_goldens_but_no_outputs() -> None:
    layout = lay_out([buffers(64, 64, 64, 64)] * 2, ["stagger"] * 2, copies=3)
    assert [e.inputs for e in layout.entries] == [0, 1, 0, 1, 0, 1]
    first, again = layout.entries[0], layout.entries[2]
    assert first.region("b0").span is again.region("b0").span
    assert first.region("b2").golden is again.region("b2").golden
    for name in ("b1", "b2", "b3"):
        assert first.region(name).at != again.region(name).at


def test_addresses_are_named_by_the_nearest_buffer() -> None:
    layout = lay_out([buffers(100)], ["end"])
    region = layout.entries[0].regions[0]
    for offset, away in ((region.at, 0), (region.at + 99, 0), (region.at + 100, 1), (region.at - 8, -8)):
        found = layout.find(offset)
        assert found is not None
        assert found[1:] == (region, away)
    assert layout.find(-1) is None
    assert layout.find(layout.space_bytes) is None


@pytest.mark.integration
def test_thunks_of_every_type_compile() -> None:
    arguments = tuple((f"{d}_{a}", d, a) for d in C_TYPES for a in (True, False))
    with HostCompiler(find_toolchain()) as compiler:
        for returns in (None, "float32", "complex128", "bool"):
            text = harness_text(Signature(arguments=arguments, returns=returns))
            build = compiler.build_text(text, entry="tuner_window")
            assert build.status is Status.OK, build.message


def test_words_count_wide_scalars_twice() -> None:
    signature = Signature(
        arguments=(("x", "complex128", False), ("y", "float32", False), ("z", "complex64", True)),
        returns="int8",
    )
    assert signature.words == 5
    assert signature.widened().arguments[1:] == (("y", "float64", False), ("z", "complex128", True))
    assert signature.widens


def test_unknown_dtype_is_the_users_mistake() -> None:
    with pytest.raises(SpecError, match="bfloat16"):
        Signature.of(_task_with("bfloat16"))


def _task_with(dtype: str):  # type: ignore[no-untyped-def]
    from tuner.core.expressions import parse
    from tuner.core.types import Argument, Kernel, MeasurePolicy, Task, Variant, VerifyPolicy

    return Task(
        kernel=Kernel(name="f", entry="f", language="c", variant=Variant(files=()), folder="."),
        backend="host",
        target="native",
        arguments=(Argument(name="x", dtype=dtype, shape=(parse(4),)),),
        problems=(),
        verify=VerifyPolicy(),
        measure=MeasurePolicy(),
    )


def test_clocks_are_judged_once_enough_has_passed() -> None:
    clocks = Clocks()
    assert clocks.add(0.001, 0.005) == ""
    assert "clock" in clocks.add(0.016, 0.020)
    assert clocks.add(0.030, 0.0305) == ""
    assert clocks.add(0.030, 0.0200) != ""
