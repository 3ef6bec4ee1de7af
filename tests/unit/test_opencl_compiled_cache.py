"""Programs that were compiled before come from the user's folder of caches, unless anything about them is another."""

from __future__ import annotations

import os
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import needs
import pytest
from opencl_devices import device_with_il

from tuner.core.types import Source, Status
from tuner.evaluators.opencl.backend import OpenClBackend
from tuner.evaluators.opencl.compiler import CompiledCache, Compiler
from tuner.evaluators.opencl.process import OpenClZygote
from tuner.evaluators.opencl.program import Program

DEVICE = device_with_il("SPIR-V_1.2")
HEADER = {"status": "ok", "kernels": {"f": {"local_bytes": 4}}, "log": "a warning"}
KERNEL = "__kernel void f(__global float *x) { x[get_global_id(0)] *= FACTOR; }\n"


def job(text: str = KERNEL, *options: str) -> dict[str, Any]:
    return {"source": text, "headers": [], "included": [], "options": list(options or ("-DFACTOR=2",))}


def test_only_the_same_job_for_the_same_device_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = CompiledCache(DEVICE, folder=tmp_path / "kept")
    assert cache.get(job()) is None
    cache.put(job(), HEADER, b"binary")
    found = CompiledCache(DEVICE, folder=tmp_path / "kept").get(job())
    assert found is not None
    assert found[0].items() >= HEADER.items()
    assert found[1] == b"binary"
    for other in (job(KERNEL, "-DFACTOR=3"), job(KERNEL + "\n"), {**job(), "local": [True]}):
        assert cache.get(other) is None
    for device in (replace(DEVICE, driver="2"), replace(DEVICE, index=1)):
        assert CompiledCache(device, folder=tmp_path / "kept").get(job()) is None
    monkeypatch.setenv("POCL_DEVICES", "basic")
    assert CompiledCache(DEVICE, folder=tmp_path / "kept").get(job()) is None


@pytest.mark.parametrize(
    "asked",
    [
        job('#include "f.h"\n'),
        job("# inc\\\nlude HEADER\n"),
        job("%:include <f.h>\n"),
        job("int when = __TIME__[0];\n"),
        job(KERNEL, "-I", "include"),
        job(KERNEL, "-Iinclude"),
    ],
)
def test_programs_with_headers_or_dates_are_not_kept(tmp_path: Path, asked: dict[str, Any]) -> None:
    cache = CompiledCache(DEVICE, folder=tmp_path)
    cache.put(asked, HEADER, b"binary")
    assert cache.get(asked) is None
    assert not list(tmp_path.iterdir())


def test_failures_and_large_programs_are_not_kept(tmp_path: Path) -> None:
    cache = CompiledCache(DEVICE, folder=tmp_path)
    cache.put(job(), {"status": "build_error", "code": -11, "log": "no"}, b"")
    cache.put(job(), HEADER, bytes((1 << 20) + 1))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("text", [b"", b"\x05", b"\xff" * 40, b"\x02" + bytes(7) + b"{}binary"])
def test_a_spoilt_file_is_none(tmp_path: Path, text: bytes) -> None:
    cache = CompiledCache(DEVICE, folder=tmp_path)
    cache.put(job(), HEADER, b"binary")
    (file,) = tmp_path.iterdir()
    whole = file.read_bytes()
    for spoilt in (text, whole[:-1], whole + b"x"):
        file.write_bytes(spoilt)
        assert cache.get(job()) is None


def test_the_least_recently_used_goes(tmp_path: Path) -> None:
    cache = CompiledCache(DEVICE, folder=tmp_path, most=4)
    for number in range(4):
        cache.put(job(KERNEL, f"-DFACTOR={number}"), HEADER, b"binary")
        for at, file in enumerate(sorted(tmp_path.iterdir(), key=lambda f: f.stat().st_mtime_ns)):
            os.utime(file, (at, at))
    assert cache.get(job(KERNEL, "-DFACTOR=0")) is not None
    cache.put(job(KERNEL, "-DFACTOR=4"), HEADER, b"binary")
    there = [n for n in range(5) if cache.get(job(KERNEL, f"-DFACTOR={n}")) is not None]
    assert there == [0, 4]


def test_a_folder_that_cannot_be_written_costs_the_cache_only(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    cache = CompiledCache(DEVICE, folder=tmp_path / "file" / "kept")
    cache.put(job(), HEADER, b"binary")
    assert cache.get(job()) is None


@needs.pocl
def test_a_known_program_needs_no_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    device = OpenClBackend().device("pocl")
    program = Program(entry="f", files=(Source(name="f.cl", text=KERNEL),), options=("-DFACTOR=2",))
    broken = replace(program, options=())
    with closing(OpenClZygote()) as zygote:
        with closing(Compiler(zygote, device, workers=1)) as first:
            made, wrong = first.compile([program, broken])
        assert made.status is Status.OK
        assert wrong.status is Status.BUILD_ERROR
        monkeypatch.setattr(OpenClZygote, "worker", None)
        with closing(Compiler(zygote, device, workers=1)) as second:
            (again,) = second.compile([program])
        assert replace(again, seconds=made.seconds) == made
