"""``tuner record --list`` of applications without kernels of devices: which of their functions can be recorded."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from applications import compiled, with_library
from commands import run_tuner

from tuner.driver.applications.listing import Listing, list_launches
from tuner.driver.applications.recording import record_spec
from tuner.recorders.recordings.executables import object_file
from tuner.spec.load import load_spec

LIBRARY = """
namespace far {
void scale(int n, float *x) { for (int i = 0; i < n; i++) x[i] *= 2; }
void unused(float *x) { *x = 1; }
}
"""
MAIN = """
namespace far { void scale(int, float *); }
extern "C" __attribute__((noinline)) float total(int n, const float *x) {
    float sum = 0;
    for (int i = 0; i < n; i++) sum += x[i];
    return sum;
}
extern "C" __attribute__((naked)) void two(void) { __asm__("xorl %eax, %eax; ret"); }
static __attribute__((noinline)) int hidden(int x) { return x * 3; }
template <class T> __attribute__((noinline)) T twice(T x) { return x + x; }
int main(int count, char **) {
    float x[16] = {1};
    far::scale(16, x);
    two();
    return total(16, x) + hidden(count) + twice(count) > 1000;
}
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """An application with functions in a library and in itself."""
    (tmp_path / "far.cc").write_text(LIBRARY)
    (tmp_path / "main.cc").write_text(MAIN)
    (program,) = with_library(tmp_path, "far.cc", main="main.cc", flags=["-w", "-O1", "-nostdlib++"])
    return Path(program)


def refusals(listing: Listing) -> dict[str, str]:
    return {function.name.partition("(")[0]: function.refused for function in listing.own.listed}


def test_functions_of_the_executable_and_of_what_it_calls(program: Path) -> None:
    listing = list_launches([str(program)])
    found = refusals(listing)
    assert found.keys() == {"far::scale", "total", "two"}
    assert (found["far::scale"], found["total"]) == ("", "")
    assert "too short" in found["two"]
    sizes = [function.size_bytes for function in listing.own.listed]
    assert sizes == sorted(sizes, reverse=True)
    assert listing.own.further == 0


def test_listed_functions_can_be_recorded(program: Path, tmp_path: Path) -> None:
    (tmp_path / "total.c").write_text(
        "float total(int n, const float *x) { float s = 0; for (int i = 0; i < n; i++) s += x[i]; return s; }\n"
    )
    (tmp_path / "total.yaml").write_text(
        "kernel: {source: total.c, entry: total, returns: float32}\nproblem: {n: 16}\narguments:\n"
        "  - {name: n, dtype: int32, value: n}\n  - {name: x, dtype: float32, shape: [n]}\n"
        'space: {flags: {vector: ["", "-fno-vectorize"]}, passes: off}\n'
    )
    (spec,) = load_spec(tmp_path / "total.yaml")
    assert len(record_spec([str(program)], spec, instances=1).recordings) == 1


def test_a_library_that_is_loaded_at_run_time_has_all_that_it_exports(program: Path, tmp_path: Path) -> None:
    script = f"import ctypes; ctypes.CDLL({str(tmp_path / 'libfar.so')!r})"
    found = refusals(list_launches([sys.executable, "-c", script]))
    assert {"far::scale", "far::unused"} <= found.keys()


def test_an_executable_that_another_program_starts_has_to_be_named(program: Path) -> None:
    found = refusals(list_launches(["sh", "-c", f"{program}; true"]))
    assert found["far::scale"] == ""
    assert found["total"] == "the command has to name this program first"


BUSY = """
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
static volatile double sink;
static __attribute__((noinline)) double hidden(long n) {
    double s = 0;
    for (long i = 0; i < n; i++) s += i * 1e-9;
    return s;
}
__attribute__((noinline)) void work(long n) { for (long i = 0; i < n; i++) sink = sink * 0.5 + i; }
static void *thread(void *n) { work((long)n); return NULL; }
int main(int count, char **words) {
    long n = atol(words[1]);
    pthread_t one;
    pthread_create(&one, NULL, thread, (void *)n);
    pthread_join(one, NULL);
    if (!fork()) { work(n); _exit(0); }
    wait(NULL);
    if (count > 2) execl("/bin/sh", "sh", "-c", "exit 3", NULL);
    sink = hidden(n);
    return 0;
}
"""


@pytest.fixture
def busy(tmp_path: Path) -> Path:
    """An application of which two of three parts of the time pass in a thread and in a child, in one function."""
    (tmp_path / "busy.c").write_text(BUSY)
    compiled("-o", tmp_path / "busy", tmp_path / "busy.c", flags=["-w", "-O1", "-pthread"])
    return tmp_path / "busy"


@pytest.mark.integration
def test_where_the_time_goes(busy: Path) -> None:
    """In threads and children too, and in functions that cannot be recorded."""
    listing = list_launches([str(busy), "100000000"])
    first, second, *_ = listing.own.listed
    assert (first.symbol, first.refused) == ("work", "")
    assert second.symbol == "hidden"
    assert "static" in second.refused
    assert listing.samples > 20
    assert first.samples + second.samples > 0.9 * listing.samples
    data = listing.to_json()
    assert data["functions"][0]["share"] == first.samples / listing.samples > 0.4
    assert data["functions"][0]["seconds"] == pytest.approx(
        data["functions"][0]["share"] * data["processor_s"]
    )
    assert data["functions"][0]["at_most"] == pytest.approx(1 / (1 - data["functions"][0]["share"]))
    assert data["processor_s"] > 0


def test_a_program_that_becomes_another_ends_as_that_does(busy: Path) -> None:
    """Timers of the process outlive that, and their signal ends whoever has not asked for it."""
    listing = list_launches([str(busy), "30000000", "then"])
    assert listing.ran.status == 3


def test_threads_of_openmp_wait_asleep_unless_the_user_says_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What they do while they wait is no time of the program's."""
    seen, program = tmp_path / "seen", tmp_path / "app"
    (tmp_path / "app.c").write_text(
        "#include <stdio.h>\n#include <stdlib.h>\nvoid work(int n, int *x) { while (n--) x[n]++; }\n"
        f'int main(void) {{ fputs(getenv("OMP_WAIT_POLICY"), fopen("{seen}", "w")); return 0; }}\n'
    )
    compiled("-o", program, tmp_path / "app.c")
    for given, expected in ((None, "passive"), ("active", "active")):
        monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
        if given:
            monkeypatch.setenv("OMP_WAIT_POLICY", given)
        list_launches([str(program)])
        assert seen.read_text() == expected


def test_a_program_keeps_its_own_use_of_the_signal(tmp_path: Path) -> None:
    script = (
        "import math, signal, time\ncounts = []\nsignal.signal(signal.SIGPROF, lambda *_: counts.append(1))\n"
        "signal.setitimer(signal.ITIMER_PROF, 0.01, 0.01)\nend = time.process_time() + 0.3\n"
        "while time.process_time() < end: pass\n"
        "signal.setitimer(signal.ITIMER_PROF, 0)\nassert len(counts) > 5\n"
    )
    assert list_launches([sys.executable, "-c", script]).ran.status == 0


@pytest.mark.integration
@pytest.mark.parametrize("as_json", [True, False])
def test_the_list_as_it_is_printed(program: Path, as_json: bool) -> None:
    words = ["record", "--list", *(["--json"] if as_json else []), "--", str(program)]
    result = run_tuner(*words)
    assert result.returncode == 0, result.stderr
    if as_json:
        data = json.loads(result.stdout)
        assert data["kernels"] == []
        assert {f["symbol"] for f in data["functions"]} == {"_ZN3far5scaleEiPf", "total", "two"}
        return
    assert "total" in result.stdout
    assert "no: its first bytes cannot be moved: it is too short" in result.stdout
    assert "next: tuner init SOURCE --entry NAME, then tuner record SPEC -- COMMAND" in result.stdout


@pytest.mark.parametrize(
    "change",
    [
        lambda data: b"",
        lambda data: data[:100],
        lambda data: data[:40] + b"\xff" * 24 + data[64:],
        lambda data: b"#!/bin/sh\n" + data,
    ],
    ids=["empty", "cut off", "sections elsewhere", "script"],
)
def test_files_that_are_no_programs_have_no_functions(
    program: Path, tmp_path: Path, change: Callable[[bytes], bytes]
) -> None:
    whole = object_file(program)
    assert whole is not None
    assert "_ZN3far5scaleEiPf" in whole.imported
    damaged = tmp_path / "damaged"
    damaged.write_bytes(change(program.read_bytes()))
    found = object_file(damaged)
    assert found is None or not found.defined
