"""Candidates that crash, cheat or attack: each costs one trial, with the right status and a message that says why."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from two_arrays import prepared, task_of
from virtual_clock import VirtualReadings

from tuner.core.types import (
    Build,
    BuildRequest,
    Measurement,
    Resolved,
    Source,
    Status,
    Task,
    Variant,
    Verdict,
)
from tuner.evaluators.host.backend import HostBackend
from tuner.evaluators.host.compiler import HostCompiler
from tuner.evaluators.host.evaluation import HostEvaluation
from tuner.evaluators.host.readings import Readings
from tuner.evaluators.host.toolchain import find_toolchain

HONEST = "for (int i = 0; i < n; i++) dst[i] = 2.0f * src[i] + 1.0f;"
RESOLVED = Resolved(macros={}, scalars={}, flags=(), pipeline="default<O2>")


def variant(body: str, before: str = "") -> Variant:
    text = f"{before}\nvoid f(const float *src, float *dst, int n) {{ {body} }}\n"
    return Variant(files=(Source(name="f.c", text=text),))


def make_task(*, threads: int = 1, n: int = 2000) -> Task:
    return task_of(variant(HONEST), n=n, threads=threads)


@pytest.fixture(scope="module")
def compiler() -> Iterator[HostCompiler]:
    with HostCompiler(find_toolchain()) as made:
        yield made


@pytest.fixture(scope="module")
def evaluation() -> Iterator[HostEvaluation]:
    made, _ = prepared(HostBackend(), make_task(), RESOLVED)
    yield made
    made.close()


@pytest.fixture(scope="module")
def compiled(compiler: HostCompiler) -> Callable[..., Build]:
    """Builds without the rules on imports: what stops these candidates has to be the run side."""

    def compile_it(body: str, before: str = "") -> Build:
        kernel = make_task().kernel
        request = BuildRequest(trial=1, variant=variant(body, before), resolved=RESOLVED)
        build = compiler.build(kernel, [request], allowed_imports=None)[0]
        assert build.status is Status.OK, build.message
        return build

    return compile_it


def verdict_of(evaluation: HostEvaluation, build: Build, readings: Readings | None = None) -> Verdict:
    session = evaluation.open(build, RESOLVED, purpose="search", number=1)
    if readings is not None:
        session.inputs = replace(session.inputs, readings=readings)
    try:
        return session.verify()
    finally:
        session.close()


def timed(evaluation: HostEvaluation, build: Build, calls: int = 40) -> tuple[Verdict, Measurement]:
    session = evaluation.open(build, RESOLVED, purpose="search", number=1)
    try:
        verdict = session.verify()
        return verdict, session.measure(problem=0, calls=calls)
    finally:
        session.close()


@pytest.mark.parametrize(
    ("body", "before", "status", "words"),
    [
        ("*(volatile int *)0 = n;", "", Status.CRASHED, "SIGSEGV: writes through a null pointer"),
        ("exit(0);", "void exit(int);", Status.CRASHED, "exit status 0"),
        ("_exit(7);", "void _exit(int);", Status.CRASHED, "exit status 7"),
        ("abort();", "void abort(void);", Status.CRASHED, "SIGABRT"),
        ("__builtin_trap();", "", Status.CRASHED, "SIGILL"),
        ("volatile int zero = 0; dst[0] = n / zero;", "", Status.CRASHED, "SIGFPE"),
        ("dst[0] = deep(n);", "int deep(volatile int n) { volatile int b[64]; b[n & 63] = n; "
         "return n == -7 ? b[3] : deep(n + 1) + b[n & 63]; }", Status.CRASHED, "stack overflow"),
        ("for (;;) __asm__ volatile(\"\");", "", Status.TIMED_OUT, "no end within"),
        ("for (;;) { volatile char *p = malloc(1 << 20); p[n] = 1; }",
         "void *malloc(unsigned long);", Status.OUT_OF_RESOURCES, "memory"),
        pytest.param("raise(19); " + HONEST, "int raise(int);", Status.TIMED_OUT, "no end within",
                     marks=pytest.mark.integration),
        (HONEST + "((float *)src)[3] = 0;", "", Status.WRONG_RESULT, "SIGSEGV: writes to input src"),
        (HONEST + "dst[n] = 1;", "", Status.CRASHED, "out of bounds: writes byte 1 past the end of dst"),
        (HONEST + "dst[-1] = 1;", "", None, "before the start of dst"),
        (HONEST + "dst[0] += 0 * ((volatile float *)src)[n];", "", Status.CRASHED,
         "out of bounds: reads byte 1 past the end of src"),
        (HONEST + "dst[0] += 0 * ((volatile float *)src)[-1];", "", Status.CRASHED,
         "out of bounds: reads byte 4 before the start of src"),
        ("for (int i = 0; i < n; i++) dst[i] = 2.0f * src[i] + 1.001f;", "", Status.WRONG_RESULT, "dst[0] is"),
        ("for (int i = 0; i < n - 1; i++) dst[i] = 2.0f * src[i] + 1.0f;", "", Status.WRONG_RESULT, "nan"),
        ("static int calls; if (calls++) return; " + HONEST, "", Status.WRONG_RESULT, "nan"),
        ("static float kept[2000]; static int m; if (!m) { " + HONEST + " for (; m < n; m++) kept[m] = dst[m]; }"
         " else for (int i = 0; i < n; i++) dst[i] = kept[i];", "", Status.WRONG_RESULT, "dst[0] is"),
    ],
)  # fmt: skip
def test_failure_is_one_trial_with_its_reason(
    evaluation: HostEvaluation,
    compiled: Callable[..., Build],
    body: str,
    before: str,
    status: Status | None,
    words: str,
) -> None:
    # What is waited for in vain ends sooner.
    readings = VirtualReadings(least_limit_s=0.5) if status is Status.TIMED_OUT else None
    verdict = verdict_of(evaluation, compiled(body, before), readings)
    assert words in verdict.message
    # A byte before the first one on the same page does not fault: then the poison beside the buffer tells.
    assert verdict.status is status if status is not None else verdict.status is not Status.OK


def test_honest_one_still_passes_after_all_that(
    evaluation: HostEvaluation, compiled: Callable[..., Build]
) -> None:
    verdict, measurement = timed(evaluation, compiled(HONEST))
    assert verdict.status is Status.OK
    assert verdict.detail["worst"] <= 1
    assert measurement.status is Status.OK
    assert len(measurement.times_s) == 40


def test_failed_session_stays_failed(evaluation: HostEvaluation, compiled: Callable[..., Build]) -> None:
    verdict, measurement = timed(evaluation, compiled("__builtin_trap();"))
    assert measurement.status is verdict.status is Status.CRASHED
    assert measurement.times_s == ()


@pytest.mark.parametrize(
    "body",
    [
        # Right for as long as the verification lasts.
        "static int calls; if (calls++ > 8) return; " + HONEST,
        # Remembers which buffers it has filled.
        "static float *seen[64]; static int m; for (int i = 0; i < m; i++) if (seen[i] == dst) return;"
        "if (m < 64) seen[m++] = dst; " + HONEST,
        # Repeats the last answer from memory of its own.
        "static float kept[2000]; static int calls; if (calls++ < 12) { " + HONEST + " if (n == 2000)"
        " for (int i = 0; i < n; i++) kept[i] = dst[i]; } else for (int i = 0; i < n; i++) dst[i] = kept[i];",
    ],
)
def test_outputs_of_timed_calls_count(
    evaluation: HostEvaluation, compiled: Callable[..., Build], body: str
) -> None:
    verdict, measurement = timed(evaluation, compiled(body))
    assert verdict.status is Status.OK, verdict.message
    assert measurement.status is Status.WRONG_RESULT
    assert "while it was timed" in measurement.message
    assert measurement.times_s == ()


def test_forks_fail_and_nothing_is_left(evaluation: HostEvaluation, compiled: Callable[..., Build]) -> None:
    before = descendants(os.getpid())
    bomb = "for (int i = 0; i < 200; i++) if (fork() == 0) for (;;) pause();"
    verdict = verdict_of(evaluation, compiled(bomb + HONEST, "int fork(void); int pause(void);"))
    assert verdict.status is Status.REFUSED
    assert "starts a process" in verdict.message
    assert [p for p in descendants(os.getpid()) - before if _is_zygote(str(p))] == []


def descendants(pid: int) -> set[int]:
    try:
        children = {int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()}
    except OSError:
        return set()
    return children.union(*(descendants(child) for child in children))


def _is_zygote(pid: str) -> bool:
    try:
        words = Path("/proc", pid, "cmdline").read_bytes()
    except OSError:
        return False
    return b"zygote" in words


THREAD = "int pthread_create(unsigned long *, void *, void *(*)(void *), void *); int usleep(unsigned);"


def test_thread_cannot_be_started_where_one_is_allowed(
    evaluation: HostEvaluation, compiled: Callable[..., Build]
) -> None:
    later = THREAD + "float *d; const float *s; int m; void *work(void *x) {"
    later += " for (int i = 0; i < m; i++) d[i] = 2 * s[i] + 1; return x; }"
    body = "unsigned long t; d = dst; s = src; m = n; pthread_create(&t, 0, work, 0);"
    verdict = verdict_of(evaluation, compiled(body, later))
    # The first thing that a new thread needs is a protected page at the end of its stack.
    assert verdict.status is Status.REFUSED
    assert "mprotect" in verdict.message


def test_threads_beyond_the_policy_are_refused(compiled: Callable[..., Build]) -> None:
    """As many as are allowed can be started, one more cannot."""
    if os.geteuid() != 0:
        pytest.skip("without root the limit on processes counts the whole user")
    idle = THREAD + "void *work(void *x) { for (;;) usleep(1000); return x; }"
    start = "static int m; unsigned long t;"
    start += " if (m < %d) { m++; if (pthread_create(&t, 0, work, 0)) __builtin_trap(); }" + HONEST
    evaluation, _ = prepared(HostBackend(), make_task(threads=3), RESOLVED)
    try:
        assert verdict_of(evaluation, compiled(start % 9, idle)).status is Status.CRASHED
        verdict, measurement = timed(evaluation, compiled(start % 2, idle), calls=4)
        assert verdict.status is Status.OK, verdict.message
        assert measurement.status is Status.OK, measurement.message
        assert 0 < measurement.observed_s <= measurement.wall_s
    finally:
        evaluation.close()


def test_patched_clock_is_refused(evaluation: HostEvaluation, compiled: Callable[..., Build]) -> None:
    # clock_gettime becomes "return 0": no time passes by the child's clock.
    patch = (
        "static int done; if (!done && n == 2000) { done = 1; unsigned char *p = (unsigned char *)clock_gettime;"
        " mprotect((void *)((unsigned long)p & ~4095ul), 8192, 7); p[0] = 0x31; p[1] = 0xc0; p[2] = 0xc3; }"
    )
    before = "int clock_gettime(int, void *); int mprotect(void *, unsigned long, int);"
    verdict = verdict_of(evaluation, compiled(patch + HONEST, before))
    assert verdict.status is Status.REFUSED
    assert "changes code or the protection of memory (system call mprotect)" in verdict.message


def test_own_clock_function_changes_nothing(
    evaluation: HostEvaluation, compiled: Callable[..., Build]
) -> None:
    _, measurement = timed(evaluation, compiled(HONEST, "int clock_gettime(int c, long *t) { return 0; }"))
    assert measurement.status is Status.OK
    assert min(measurement.times_s) > 1e-9


def test_forged_answers_are_refused(evaluation: HostEvaluation, compiled: Callable[..., Build]) -> None:
    forge = "long m[3] = {3, 0, 5}; for (int fd = 0; fd < 64; fd++) write(fd, m, sizeof m);"
    verdict = verdict_of(
        evaluation, compiled(forge + HONEST, "long write(int, const void *, unsigned long);")
    )
    assert verdict.status is Status.REFUSED
    assert "writes to the result channel (system call write)" in verdict.message


def test_forged_answers_by_the_harness_own_call_are_refused(
    evaluation: HostEvaluation, compiled: Callable[..., Build]
) -> None:
    forge = "long m[3] = {3, 0, 5}; for (int fd = 4; fd < 64; fd++) if (send(fd, m, sizeof m, 0) > 0) break;"
    verdict = verdict_of(
        evaluation, compiled(forge + HONEST, "long send(int, const void *, unsigned long, int);")
    )
    assert verdict.status is Status.REFUSED
    # On another descriptor than the channel the call is forbidden; on the channel the parent sees one too many.
    assert "result channel" in verdict.message or "tampered" in verdict.message


def test_zygote_cannot_be_taken_along(evaluation: HostEvaluation, compiled: Callable[..., Build]) -> None:
    verdict = verdict_of(
        evaluation, compiled("kill(getppid(), 9);" + HONEST, "int kill(int, int); int getppid(void);")
    )
    assert verdict.status is Status.REFUSED
    assert "signals another process" in verdict.message
    assert verdict_of(evaluation, compiled(HONEST)).status is Status.OK


def test_user_environment_and_output_are_out_of_reach(
    evaluation: HostEvaluation, compiled: Callable[..., Build], capfd: pytest.CaptureFixture[str]
) -> None:
    body = 'puts("42 times faster"); if (getenv("PATH") || getenv("HOME") || getenv("PYTHONPATH")) return;'
    verdict = verdict_of(
        evaluation, compiled(body + HONEST, "int puts(const char *); char *getenv(const char *);")
    )
    assert verdict.status is Status.OK
    assert capfd.readouterr().out == ""


def test_files_cannot_be_opened_in_number(evaluation: HostEvaluation, compiled: Callable[..., Build]) -> None:
    body = 'for (int i = 0; i < 8; i++) if (open("/dev/null", 0) >= 0 && i > 4) return;' + HONEST
    verdict = verdict_of(evaluation, compiled(body, "int open(const char *, int);"))
    assert verdict.status is Status.OK


def test_undefined_symbol_is_refused(evaluation: HostEvaluation, compiled: Callable[..., Build]) -> None:
    verdict = verdict_of(evaluation, compiled("nowhere();" + HONEST, "void nowhere(void);"))
    assert verdict.status is Status.REFUSED
    assert verdict.message.startswith(
        "calls what neither kernel.sources nor C's and the mathematical library define: nowhere in "
    )


def test_object_that_is_none_is_refused(evaluation: HostEvaluation) -> None:
    build = Build(status=Status.OK, code=b"not an object", digest="0", key="0")
    assert verdict_of(evaluation, build).status is Status.REFUSED


@pytest.mark.integration
def test_zygote_knows_no_numpy_and_ends_with_its_tuner() -> None:
    program = (
        "import os, sys; from tuner.evaluators.host.process import Zygote\n"
        "from tuner.evaluators.host.harness import Signature, harness_text\n"
        "from tuner.evaluators.host.compiler import HostCompiler\n"
        "from tuner.evaluators.host.toolchain import find_toolchain\n"
        "tools = find_toolchain()\n"
        "with HostCompiler(tools) as c:\n"
        "    h = c.build_text(harness_text(Signature(arguments=())), entry='tuner_window')\n"
        "z = Zygote(llvm=tools.library, libraries=[], harness=h.code)\n"
        "print(z.pid, 'numpy' in open(f'/proc/{z.pid}/maps').read())\n"
        "sys.stdout.flush(); os.kill(os.getpid(), 9)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    pid, numpy = done.stdout.split()
    assert numpy == "False"
    for _ in range(200):
        if not _is_zygote(pid):
            break
        subprocess.run(["sleep", "0.05"], check=True)
    assert not _is_zygote(pid)
