"""Compilers that work on a hostile source beside the front end: emulation's, and those that look at OpenCL text."""

from __future__ import annotations

import os
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tuner.core.types import Kernel, Resolved, Source, Status, Task, Variant
from tuner.evaluators.emulation import compiler as emulation
from tuner.evaluators.emulation.compiler import Emulated, EmulationCompiler
from tuner.evaluators.host.toolchain import find_toolchain
from tuner.evaluators.opencl.builds import declared_local_bytes
from tuner.evaluators.opencl.program import Program, canonical_text
from tuner.evaluators.sandbox.compiling import run_compiler
from tuner.evaluators.sandbox.support import probe
from tuner.spec.load import load_spec

EXAMPLE = Path(__file__).parents[2] / "examples" / "cuda" / "matmul.yaml"
SECRET = "SECRET_4711"

pytestmark = pytest.mark.skipif(not probe().landlock, reason="the kernel has no Landlock")


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """A header that any process of this user may read, in a folder that is no kernel's."""
    path = tmp_path / "home" / "secret.h"
    path.parent.mkdir()
    path.write_text(f"int {SECRET};\n")
    return path


@pytest.fixture
def clang() -> str:
    """The project's own."""
    return find_toolchain().clang


def program(text: str) -> Program:
    """A program of one file."""
    variant = Variant(files=(Source(name="k.cl", text=text),))
    kernel = Kernel(name="k", entry="k", language="opencl", variant=variant, folder=".")
    return Program.of(kernel, variant, Resolved(macros={}, scalars={}, flags=(), pipeline=None))


KERNEL = "__kernel void k(__global int *x) { __local int y[8]; y[0] = x[0]; x[1] = y[0]; }\n"
READING = ('#include "{0}"\n', "#include </../../../../../../../../../..{0}>\n")


@pytest.mark.parametrize("reading", READING)
def test_the_text_that_programs_are_told_apart_by_holds_no_other_file(
    reading: str, secret: Path, clang: str
) -> None:
    """That text is in every record."""
    hostile = program(reading.format(secret) + KERNEL)
    assert SECRET not in canonical_text(hostile, clang)
    # Which file it asks for is not told apart from one that is not there.
    missing = program(reading.format(f"{secret}.not") + KERNEL)
    assert canonical_text(missing, clang).replace(".not", "") == canonical_text(hostile, clang)
    # What the compiler can read to the end is told apart by its words.
    assert '"text"' in canonical_text(program(KERNEL), clang)


@pytest.mark.parametrize("reading", READING)
def test_local_memory_is_not_counted_with_another_file(reading: str, secret: Path, clang: str) -> None:
    assert declared_local_bytes(program(KERNEL), clang) == 32
    assert declared_local_bytes(program(reading.format(secret) + KERNEL), clang) is None


def test_text_that_grows_without_end_meets_a_limit(clang: str, monkeypatch: pytest.MonkeyPatch) -> None:
    doubling = "#define A0 x;x;x;x;x;x;x;x\n"
    doubling += "".join(f"#define A{n + 1} A{n} A{n} A{n} A{n}\n" for n in range(14))
    hostile = program(doubling + "A14\n" + KERNEL)
    from tuner.evaluators.opencl import program as opencl

    monkeypatch.setattr(opencl, "_MOST_BYTES", 1 << 20)
    started = time.monotonic()
    assert '"job"' in canonical_text(hostile, clang)
    assert time.monotonic() - started < opencl._CLANG_S


def build(text: str, task: Task | None = None) -> Emulated:
    """What emulation makes of the example with a text before its source."""
    (spec,) = load_spec(EXAMPLE)
    task = task or spec.task
    first, *others = task.kernel.variant.files
    variant = Variant(files=(replace(first, text=text + first.text), *others))
    return EmulationCompiler(find_toolchain()).build(
        task, variant, spec.space(None).resolve(spec.space(None).default())
    )


HOSTILE = {
    "include": '#include "{0}"\n',
    "include the password file": "#include </etc/passwd>\n",
    "include the environment": '#include "/proc/self/environ"\n',
    "embed": '__device__ const char text[] = {{\n#embed "{0}"\n}};\n',
    "incbin": 'asm(".globl text\\ntext: .incbin \\"{0}\\"");\n',
    "assembler include": 'asm(".include \\"{0}\\"");\n',
    "in a function": '__device__ void f() {{ asm volatile(".incbin \\"{0}\\""); }}\n'
    "__device__ void (*volatile kept)() = f;\n",
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.integration
def test_an_emulated_candidate_takes_no_other_file_along(name: str, secret: Path) -> None:
    built = build(HOSTILE[name].format(secret))
    # Assembly outside of a function is the host's, and left out of device code.
    assert (built.status is Status.OK) is HOSTILE[name].startswith("asm"), built.message
    assert SECRET not in built.message
    assert SECRET.encode() not in built.code
    assert "root:" not in built.message


def test_files_beside_an_emulated_kernel_are_found(tmp_path: Path) -> None:
    """In the folders of its source, of `include`, and of its flags."""
    (spec,) = load_spec(EXAMPLE)
    for name in ("own", "named", "flagged", "given"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}.h").write_text(f"#define FROM_{name.upper()} 1\n")
    (tmp_path / "own" / "matmul.cu").write_text(spec.task.kernel.variant.files[0].text)
    kernel = replace(spec.task.kernel, folder=str(tmp_path / "own"), include=("../named",))
    space = spec.space(None)
    resolved = space.resolve(space.default())
    flags = ("-I../flagged", "-include", str(tmp_path / "given" / "given.h"))
    text = '#include "own.h"\n#include "named.h"\n#include "flagged.h"\n'
    text += 'static_assert(FROM_OWN + FROM_NAMED + FROM_FLAGGED + FROM_GIVEN == 4, "");\n'
    first = kernel.variant.files[0]
    variant = Variant(files=(replace(first, text=text + first.text),))
    built = EmulationCompiler(find_toolchain()).build(
        replace(spec.task, kernel=kernel), variant, replace(resolved, flags=(*resolved.flags, *flags))
    )
    assert built.status is Status.OK, built.message


@pytest.mark.integration
def test_templates_without_end_cost_one_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(emulation, "_TIMEOUT_S", 2.0)
    deep = "template <int N, int M> struct T {{ static const long v = T<N - 1, M>::v + T<N - 1, M + {0}>::v; }};\n"
    deep = (
        deep.format("(1 << N % 30)")
        + "template <int M> struct T<0, M> {{ static const long v = M; }};\n".format()
    )
    started = time.monotonic()
    built = build(deep + "__device__ long much = T<200, 0>::v;\n")
    assert built.status is not Status.OK
    assert time.monotonic() - started < 30


@pytest.fixture
def shell(tmp_path: Path) -> Path:
    """A folder for what stands in for a compiler."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    return folder


def test_a_run_ends_with_all_that_it_started(shell: Path) -> None:
    """A compiler's driver may start others that its own end does not end."""
    script = "sleep 300 & echo $! > number; wait"
    started = time.monotonic()
    ended = run_compiler(["/bin/sh", "-c", script], str(shell), timeout_s=0.5)
    assert ended.status is None
    assert time.monotonic() - started < 10
    number = int((shell / "number").read_text())
    for _ in range(100):
        state = Path(f"/proc/{number}/stat")
        if not state.exists() or state.read_text().split()[2] == "Z":
            break
        time.sleep(0.05)
    else:
        pytest.fail("what it started goes on")


def test_a_run_has_limits_and_no_way_out(shell: Path, secret: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TUNER_KEY", SECRET)
    script = (
        f"cat {secret}; echo x > {secret.parent}/new; env; ulimit -v; ulimit -c; "
        "yes error >&2; head -c 4000000 /dev/zero > large"
    )
    ended = run_compiler(["/bin/sh", "-c", script], str(shell), timeout_s=20, most_bytes=1 << 20)
    assert SECRET not in ended.errors
    assert "Permission denied" in ended.errors
    assert not (secret.parent / "new").exists()
    assert len(ended.errors) <= 1 << 16
    assert not (shell / "large").exists() or (shell / "large").stat().st_size <= 1 << 20


def test_a_run_that_cannot_be_confined_is_none(
    shell: Path, monkeypatch: pytest.MonkeyPatch, clang: str
) -> None:
    """The kernel has a protection and refuses it: then nothing runs open."""

    def refused(**folders: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("tuner.evaluators.sandbox.compiling.confine_builder", refused)
    with pytest.raises(PermissionError):
        run_compiler(["/bin/true"], str(shell), timeout_s=5)
    assert '"job"' in canonical_text(program(KERNEL), clang)
    assert declared_local_bytes(program(KERNEL), clang) is None


def test_the_thread_that_asks_stays_free(shell: Path, secret: Path) -> None:
    run_compiler(["/bin/true"], str(shell), timeout_s=5)
    assert SECRET in secret.read_text()
    assert subprocess.run(["cat", str(secret)], capture_output=True, check=True, env=dict(os.environ)).stdout
