"""Winners in the place of a C or C++ function that an unmodified application calls."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from applications import AXPY as KERNEL
from applications import AXPY_SPEC, compiled, with_library

from tuner.core.errors import MachineError, UsageError
from tuner.core.expressions import parse
from tuner.core.types import BuildRequest, Problem, Status, Task
from tuner.driver.applications.applying import check_applied, compare, run_with
from tuner.driver.applications.in_place import FunctionWinner
from tuner.driver.applications.recording import record_spec
from tuner.driver.applications.winners import function_winner
from tuner.evaluators.host.backend import HostBackend
from tuner.recorders.recordings.format import RecordingFile
from tuner.recorders.recordings.substitute import Verified
from tuner.spec.load import LoadedSpec, load_spec

WINNER = KERNEL.replace("+ y[i]", "+ y[i] + 100")

SPEC = AXPY_SPEC.replace("source: axpy.c, entry: axpy", "source: SOURCE, entry: ENTRY").replace(
    "n: 16", "n: 64"
)

MAIN = """
#ifdef __cplusplus
namespace far {{ void axpy(int, float, const float *, float *); }}
using far::axpy;
extern "C" int printf(const char *, ...);
#else
void axpy(int, float, const float *, float *);
int printf(const char *, ...);
#endif
float x[256], y[256];
int main(void) {{
    for (int i = 0; i < 256; i++) x[i] = i;
    {body}
    printf("%g %g\\n", (double)y[0], (double)y[10]);
    return 0;
}}
"""


@dataclass
class Shop:
    """Makes applications, libraries and winners in one folder."""

    folder: Path

    def application(self, body: str, *, language: str = "c", kernel: str = KERNEL) -> list[str]:
        """An application whose kernel is in a library."""
        suffix = {"c": "c", "c++": "cc"}[language]
        if language == "c++":
            kernel = f"namespace far {{ {kernel} }}"
        (self.folder / f"axpy.{suffix}").write_text(kernel)
        (self.folder / f"main.{suffix}").write_text(MAIN.format(body=body))
        return with_library(self.folder, f"axpy.{suffix}", main=f"main.{suffix}")

    def spec(self, language: str = "c", text: str = SPEC) -> LoadedSpec:
        """The spec of the kernel in the folder."""
        source, entry = {"c": ("axpy.c", "axpy"), "c++": ("axpy.cc", "far::axpy")}[language]
        (self.folder / "axpy.yaml").write_text(text.replace("SOURCE", source).replace("ENTRY", entry))
        (loaded,) = load_spec(self.folder / "axpy.yaml")
        return loaded

    def winner(
        self, spec: LoadedSpec, source: str = WINNER, verified: Verified | None = None
    ) -> FunctionWinner:
        """A winner that can be told from the application's own function."""
        task = spec.task
        backend = HostBackend()
        space = spec.space(None)
        resolved = space.resolve(space.default())
        if task.kernel.language == "c++":
            source = f"namespace far {{ {source} }}"
        code = self.build(task, source)
        found = backend.replacement(task, code, resolved)
        return FunctionWinner(task=task, verified=verified or Verified(sizes=task.problems), found=found)

    def build(self, task: Task, source: str) -> bytes:
        """Object code as the backend makes it."""
        from dataclasses import replace

        variant = replace(task.kernel.variant, files=(replace(task.kernel.variant.files[0], text=source),))
        evaluation = HostBackend().prepare(task, workers=1)
        try:
            from tuner.core.types import Resolved

            resolved = Resolved(macros={}, scalars={}, flags=(), pipeline=None)
            (build,) = evaluation.build([BuildRequest(trial=0, variant=variant, resolved=resolved)])
        finally:
            evaluation.close()
        assert build.status is Status.OK, build.message
        return build.code


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    """Where applications are made."""
    return Shop(tmp_path)


def printed(capfd: pytest.CaptureFixture[str]) -> str:
    """What the application printed."""
    return capfd.readouterr().out.strip()


@pytest.mark.parametrize("language", ["c", "c++"])
def test_calls_that_the_winner_was_verified_on_go_to_it(
    shop: Shop, capfd: pytest.CaptureFixture[str], language: str
) -> None:
    command = shop.application("axpy(64, 2, x, y); axpy(11, 2, x, y);", language=language)
    winner = shop.winner(shop.spec(language))
    subprocess.run(command, check=True)
    assert printed(capfd) == "0 40"
    ran, placed = run_with([winner], command)
    assert (ran.status, ran.replaced, ran.left) == (0, 1, 1)
    assert printed(capfd) == "100 140"
    check_applied(placed)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("axpy(63, 2, x, y);", "such as it was not verified on"),
        ("axpy(64, 2, x, x + 32);", "such as it was not verified on"),
        ("", "never called axpy"),
    ],
    ids=["another size", "shared memory", "no call"],
)
def test_other_calls_stay_with_the_application(shop: Shop, body: str, why: str) -> None:
    command = shop.application(body)
    winner = shop.winner(shop.spec())
    ran, placed = run_with([winner], command)
    assert (ran.status, ran.replaced) == (0, 0)
    with pytest.raises(MachineError, match=why):
        check_applied(placed)


def test_sizes_within_what_is_assumed_and_verified(shop: Shop, capfd: pytest.CaptureFixture[str]) -> None:
    command = shop.application(
        "axpy(64, 1, x, y); axpy(12, 1, x, y); axpy(13, 1, x, y); axpy(128, 1, x, y); axpy(2, 1, x, y);"
    )
    spec = shop.spec()
    verified = Verified(
        sizes=spec.task.problems,
        assumed=(parse("n >= 3"), parse("n % 4 == 0")),
        slower=(Problem(sizes={"n": 12}),),
    )
    ran, _ = run_with([shop.winner(spec, verified=verified)], command)
    # 64 alone: 12 is slower, 13 against the bounds, 128 larger than anything verified, 2 too small.
    assert (ran.replaced, ran.left) == (1, 4)
    assert printed(capfd) == "100 140"


def test_sizes_that_no_argument_tells_are_refused_where_they_differ(shop: Shop) -> None:
    application = shop.application("")
    spec = shop.spec(text=SPEC.replace("{n: 64}", "{n: 64, m: 1}"))
    sizes = (Problem(sizes={"n": 64, "m": 1}), Problem(sizes={"n": 64, "m": 2}))
    winner = shop.winner(spec, verified=Verified(sizes=sizes))
    with pytest.raises(UsageError, match="no argument of axpy tells the size 'm'"):
        run_with([winner], application)


def test_a_winner_that_cannot_be_loaded_leaves_the_application_as_it_is(
    shop: Shop, capfd: pytest.CaptureFixture[str]
) -> None:
    command = shop.application("axpy(64, 2, x, y);")
    spec = shop.spec()
    source = "void nowhere(void);" + WINNER.replace("{\n", "{ nowhere();\n", 1)
    winner = shop.winner(spec, source=source)
    ran, placed = run_with([winner], command)
    assert (ran.status, ran.replaced, ran.left) == (0, 0, 1)
    assert printed(capfd) == "0 20"
    with pytest.raises(MachineError, match=r"cannot be loaded.*nowhere"):
        check_applied(placed)


def test_both_ways_are_run_in_pairs(free_lane: None, shop: Shop) -> None:
    command = shop.application("for (int i = 0; i < 1000; i++) axpy(64, 2, x, y);")
    found = compare([shop.winner(shop.spec())], command, pairs=4)
    assert len(found.plain_s) == len(found.applied_s) == 4
    assert (found.replaced, found.left) == (1000, 0)


LOADS = """
import ctypes, sys
import numpy as np
lib = ctypes.CDLL(sys.argv[1])
x, y = np.arange(64, dtype="f4"), np.zeros(64, "f4")
p = ctypes.c_void_p
lib.axpy(64, ctypes.c_float(2), p(x.ctypes.data), p(y.ctypes.data))
print(y[0], y[10])
"""


def test_a_library_that_the_application_loads_for_itself(
    shop: Shop, capfd: pytest.CaptureFixture[str]
) -> None:
    shop.application("")
    (shop.folder / "loads.py").write_text(LOADS)
    command = [sys.executable, str(shop.folder / "loads.py"), str(shop.folder / "libaxpy.so")]
    spec = shop.spec()
    report = record_spec(command, spec, instances=2)
    assert printed(capfd) == "0.0 20.0"
    with RecordingFile(report.recordings[0]) as file:
        assert file.recording.entry == "axpy"
    ran, _ = run_with([shop.winner(spec)], command)
    assert (ran.status, ran.replaced, ran.left) == (0, 1, 0)
    assert printed(capfd) == "100.0 120.0"


PLUGINS = """
#include <stddef.h>
void *dlopen(const char *, int); void *dlsym(void *, const char *); int printf(const char *, ...);
int main(int count, char **words) {
    for (int i = 1; i < count; i++) {
        int (*go)(void) = (int (*)(void))dlsym(dlopen(words[i], 1), "go");
        printf("%d ", go());
    }
    return 0;
}
"""


def test_plugins_with_a_function_of_the_same_name_keep_their_own(
    shop: Shop, capfd: pytest.CaptureFixture[str]
) -> None:
    shop.application("")
    (shop.folder / "plugins.c").write_text(PLUGINS)
    compiled("-o", str(shop.folder / "plugins"), str(shop.folder / "plugins.c"), "-ldl")
    names = []
    for number in (1, 2):
        text = f"""void axpy(int n, float a, const float *x, float *y) {{ y[0] = {number}; }}
        int go(void) {{ static float x[64], y[64]; axpy(64, 2, x, y); return (int)y[0]; }}"""
        (shop.folder / f"plugin{number}.c").write_text(text)
        names.append(str(shop.folder / f"plugin{number}.so"))
        compiled("-shared", "-fPIC", "-O0", "-o", names[-1], str(shop.folder / f"plugin{number}.c"))
    command = [str(shop.folder / "plugins"), *names]
    subprocess.run(command, check=True)
    assert printed(capfd) == "1 2"
    record_spec(command, shop.spec(), instances=2)
    assert printed(capfd) == "1 2"
    ran, _ = run_with([shop.winner(shop.spec())], command)
    # The winner stands for the first one's function only.
    assert printed(capfd) == "100 2"
    assert (ran.replaced, ran.left) == (1, 1)


def test_a_function_of_cxx_is_recorded_under_its_name(shop: Shop) -> None:
    command = shop.application("axpy(64, 2, x, y);", language="c++")
    spec = shop.spec("c++")
    report = record_spec(command, spec, instances=2)
    assert len(report.recordings) == 1
    text = SPEC + "workload: recordings/*.rec\nverify: {reference: recording}\n"
    recorded = shop.spec("c++", text=text)
    assert [dict(p.sizes) for p in recorded.task.problems] == [{"recording": 1, "n": 64}]
    assert recorded.task.arguments[0].value == parse("n")


def own_application(shop: Shop, kernel: str, *words: str, body: str = "axpy(64, 2, x, y);") -> list[str]:
    """An application that defines the kernel itself."""
    (shop.folder / "axpy.c").write_text(kernel)
    (shop.folder / "main.c").write_text(MAIN.format(body=body))
    program = shop.folder / "own"
    sources = [str(shop.folder / "main.c"), str(shop.folder / "axpy.c")]
    compiled("-o", str(program), *words, *sources)
    return [str(program)]


@pytest.mark.parametrize(
    "words",
    [[], ["-no-pie"], ["-O2", "-fcf-protection=full"]],
    ids=" ".join,
)
@pytest.mark.integration
def test_a_function_of_the_executable_itself(
    shop: Shop, capfd: pytest.CaptureFixture[str], words: list[str]
) -> None:
    # The first bytes of this one are a comparison and a jump.
    command = own_application(
        shop, KERNEL, *words, body="axpy(64, 2, x, y); axpy(11, 2, x, y); axpy(0, 2, x, y);"
    )
    spec = shop.spec()
    report = record_spec(command, spec, instances=3)
    assert printed(capfd) == "0 40"
    sizes = set()
    for path in report.recordings:
        with RecordingFile(path) as file:
            sizes.add(int.from_bytes(file.recording.arguments[0].value, "little"))
    assert sizes == {64, 11}
    ran, _ = run_with([shop.winner(spec)], command)
    assert (ran.status, ran.replaced, ran.left) == (0, 1, 2)
    assert printed(capfd) == "100 140"


RELATIVE = """
static int calls; int threads = 3;
void axpy(int n, float a, const float *x, float *y) {
    calls++;
    for (int i = 0; i < n; i++) y[i] = a * x[i] + y[i] + (calls + threads - 4);
}
"""


def test_first_bytes_that_reach_variables_are_moved(shop: Shop, capfd: pytest.CaptureFixture[str]) -> None:
    command = own_application(shop, RELATIVE, "-O2")
    subprocess.run(command, check=True)
    expected = printed(capfd)
    spec = shop.spec()
    record_spec(command, spec, instances=1)
    assert printed(capfd) == expected == "0 20"


@pytest.mark.parametrize(
    ("kernel", "why"),
    [
        ("void axpy(int n, float a, const float *x, float *y) { }", "too short"),
        (
            '__asm__(".globl axpy\\n.type axpy,@function\\naxpy: decl %edi\\nleaq 4(%rsi),%rsi\\n'
            'jnz axpy\\nret\\nnop\\n.size axpy,.-axpy");',
            "jumps to its own start",
        ),
        (
            '__asm__(".globl axpy\\n.type axpy,@function\\naxpy: jmp *%rax\\nnop\\nnop\\nnop\\n'
            '.size axpy,.-axpy");',
            "through a table",
        ),
    ],
    ids=["short", "loop", "table"],
)
def test_immovable_functions_are_refused_with_the_cure(shop: Shop, kernel: str, why: str) -> None:
    command = own_application(shop, kernel, body="")
    (shop.folder / "axpy.c").write_text(KERNEL)
    with pytest.raises(UsageError, match=f"axpy is in the executable itself.*{why}") as caught:
        record_spec(command, shop.spec(), instances=1)
    assert "shared library" in caught.value.hint


def test_a_winner_whose_value_was_not_verified_is_not_put_in_place(shop: Shop) -> None:
    (shop.folder / "axpy.c").write_text(
        KERNEL.replace("void axpy", "int axpy").replace("y[i];\n", "y[i];\n    return n;\n")
    )
    made = shop.winner(shop.spec(), source=(shop.folder / "axpy.c").read_text())
    with pytest.raises(UsageError, match="axpy returns `int`, which the run did not verify"):
        function_winner(made.found, shop.spec())
    said = shop.spec(text=SPEC.replace("entry: ENTRY}", "entry: ENTRY, returns: int32}"))
    assert function_winner(made.found, said).kernel == "axpy"
