"""The pool of compile workers: jobs and deaths, with real workers."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path

import pytest

from tuner.core.errors import MachineError
from tuner.core.types import Status
from tuner.evaluators.host.compile_pool import CompilePool, Job
from tuner.evaluators.host.compile_worker import decode, encode
from tuner.evaluators.host.toolchain import find_toolchain


@pytest.fixture
def pool() -> Iterator[CompilePool]:
    with CompilePool(find_toolchain().library, workers=2, timeout_s=30) as made:
        yield made


def host_job(number: int = 0, **options: tuple[str, ...]) -> Job:
    return Job(header={"op": "host", "number": number}, **options)


def test_messages_survive_being_cut_anywhere() -> None:
    data = encode({"a": 1}, [b"xy", b"", b"z"]) + encode({"b": 2})
    buffer = bytearray()
    found = []
    for byte in data:
        buffer.append(byte)
        message = decode(buffer)
        if message is not None:
            found.append(message)
    assert [(h.get("a"), h.get("b"), b) for h, b in found] == [(1, None, [b"xy", b"", b"z"]), (None, 2, [])]


def test_every_job_is_answered(pool: CompilePool) -> None:
    outcomes = pool.run([host_job(n) for n in range(20)])
    assert [o.status for o in outcomes] == [Status.OK] * 20
    assert outcomes[0].header["version"] == find_toolchain().version
    assert pool.run([]) == []


def test_bad_bitcode_is_an_error_or_a_crash_and_the_pool_lives_on(pool: CompilePool) -> None:
    header = {"op": "link", "entry": "f", "alone": False, "variants": {}, "variables": {}}
    outcome = pool.run([Job(header=header, modules=(b"no bitcode at all",))])[0]
    assert outcome.status in (Status.BUILD_ERROR, Status.CRASHED)
    assert pool.run([host_job()])[0].status is Status.OK


def test_jobs_that_end_a_worker_are_not_retried(pool: CompilePool) -> None:
    killer = Job(header={"op": "list", "what": "options"}, log_bytes=1 << 20)
    first = pool.run([killer])[0]
    assert first.status is Status.CRASHED
    assert "--unroll-count" in first.log
    assert pool.run([killer])[0] is first


def test_a_timeout_kills_the_worker(pool: CompilePool) -> None:
    # Stopped by a signal of our own, a worker looks like one that LLVM blocks.
    pool.run([host_job()])
    for worker in _children(pool):
        os.kill(worker, signal.SIGSTOP)
    outcomes = pool.run([host_job(1)], timeout_s=0.2)
    assert outcomes[0].status is Status.TIMED_OUT
    assert "0.2 s" in outcomes[0].message
    assert pool.run([host_job(2)])[0].status is Status.OK


@pytest.mark.integration
def test_a_worker_that_is_given_no_processor_is_waited_for(pool: CompilePool) -> None:
    """For longer than its job may take; it has used no time of its own."""
    pool.run([host_job()])
    (worker,) = _children(pool)
    os.kill(worker, signal.SIGSTOP)
    threading.Timer(1.3, os.kill, (worker, signal.SIGCONT)).start()
    (late,) = pool.run([host_job(1)], timeout_s=1.0)
    assert late.status is Status.OK, late.message


def test_a_worker_killed_from_outside_blames_no_job(
    pool: CompilePool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tuner.evaluators.host.compile_pool.TRIES", 1)
    pool.run([host_job()])
    (worker,) = _children(pool)
    os.kill(worker, signal.SIGSTOP)
    threading.Timer(0.5, os.kill, (worker, signal.SIGKILL)).start()
    (lost,) = pool.run([host_job(1)])
    assert lost.status is Status.LOST
    assert "killed from outside" in lost.message
    assert pool.run([host_job(1)])[0].status is Status.OK


def test_closing_leaves_no_process() -> None:
    made = CompilePool(find_toolchain().library, workers=2)
    made.run([host_job(n) for n in range(4)])
    workers = _children(made)
    assert workers
    made.close()
    made.close()
    deadline = time.monotonic() + 120
    while any(map(_runs, workers)) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not any(map(_runs, workers))


def test_pools_share_one_clean_process_and_its_death_costs_none_of_them_a_job() -> None:
    # Another spelling of the path: what other tests of this process have open is not touched.
    folder, name = os.path.split(find_toolchain().library)
    own = f"{folder}/./{name}"

    def zygotes() -> list[int]:
        lines = {pid: Path(f"/proc/{pid}/cmdline").read_bytes() for pid in _children_of(os.getpid())}
        return [pid for pid, line in lines.items() if own.encode() in line]

    with CompilePool(own, workers=1) as first:
        with CompilePool(own, workers=1) as second:
            assert [p.run([host_job()])[0].status for p in (first, second)] == [Status.OK] * 2
            (only,) = zygotes()
            ended = [only, *_children_of(only)]
            assert len(ended) == 3
            os.kill(only, signal.SIGKILL)
            while any(map(_runs, ended)):
                time.sleep(0.01)
            assert [p.run([host_job(1)])[0].status for p in (first, second)] == [Status.OK] * 2
            assert len(zygotes()) == 1
            assert zygotes() != [only]
        assert first.run([host_job(2)])[0].status is Status.OK
    assert not zygotes()


def test_pools_of_several_threads_share_it_too() -> None:
    def work(seed: int) -> list[Status]:
        found = []
        for number in range(4):
            with CompilePool(find_toolchain().library, workers=2) as made:
                jobs = [host_job(n, options=(f"-unroll-count={1 + n % 2}",)) for n in range(seed, seed + 6)]
                found += [o.status for o in made.run(jobs)]
                assert made.run([host_job(number)])[0].header["version"] == find_toolchain().version
        return found

    with ThreadPoolExecutor(3) as threads:
        assert set(chain.from_iterable(threads.map(work, range(3)))) == {Status.OK}


def test_options_taken_in_turns_keep_their_processes_and_many_do_not_pile_up() -> None:
    """A process for each start with other options: a search over a group of flags takes its values in turns."""
    with CompilePool(find_toolchain().library, workers=1) as made:

        def run(number: int, count: int) -> set[int]:
            job = host_job(number, options=(f"-unroll-count={count}",))
            assert made.run([job])[0].status is Status.OK
            return {w for w in _children(made) if _runs(w)}

        for count in (1, 2, 3):
            first = run(count, count)
        for number in range(10, 22):
            assert run(number, 1 + number % 3) == first
        for number in range(30, 50):
            assert len(run(number, number)) <= 8
        # What was used last is still there.
        last = run(50, 49)
        assert run(51, 48) == last


def test_a_file_that_is_no_library_is_the_machines_fault(tmp_path: object) -> None:
    with pytest.raises(MachineError, match="cannot be used"):
        CompilePool(f"{tmp_path}/libLLVM.so", workers=1)


def _runs(pid: int) -> bool:
    """Not so one that has ended and waits for whoever inherited it, which is not the pool's to hurry."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def _children(pool: CompilePool) -> list[int]:
    """Workers by the kernel's own account: children of the pool's parent process."""
    mine = os.getpid()
    zygotes = _children_of(mine)
    return [w for z in zygotes for w in _children_of(z)]


def _children_of(pid: int) -> list[int]:
    found = []
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/children", encoding="ascii") as file:
            found += [int(n) for n in file.read().split()]
    return found
