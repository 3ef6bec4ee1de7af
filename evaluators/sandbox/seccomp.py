"""Two filters of system calls: for whatever starts processes, and for a process that runs a candidate.

The first takes away what neither a compiler nor a worker needs. The second allows a list and nothing else. Calls
that an honest library may try in passing fail with an error; any other ends the process by SIGSYS. x86-64 only.
"""

from __future__ import annotations

import ctypes
import errno as errors
import functools
import platform
import struct
import sys

from tuner.evaluators.sandbox.bpf import ALLOW, TRAP, Condition, Rule, assemble, errno
from tuner.evaluators.sandbox.libc import prctl, syscall
from tuner.evaluators.sandbox.syscalls import NUMBERS

__all__ = ["available", "install", "kernel_filter", "kernel_template", "starts_nothing", "worker_filter"]

_PR_GET_SECCOMP, _PR_SET_SECCOMP, _MODE_FILTER = 21, 22, 2
_SET_MODE_FILTER, _ALL_THREADS = 1, 1
_PROT_EXEC = 4
_CLONE_THREAD = 0x10000
_PID_MARK, _CHANNEL_MARK = 0x5EED0001, 0x5EED0002
_WRITING = 0o1 | 0o2 | 0o100 | 0o1000  # O_WRONLY, O_RDWR, O_CREAT, O_TRUNC

_NETWORK = "socket connect accept accept4 bind listen io_uring_setup io_uring_enter io_uring_register"
_OTHERS = (
    "ptrace process_vm_readv process_vm_writev process_madvise pidfd_getfd kcmp perf_event_open bpf "
    "userfaultfd keyctl add_key request_key mount umount2 pivot_root chroot move_mount open_tree fsopen fsmount "
    "fsconfig fspick mount_setattr setns reboot swapon swapoff init_module finit_module delete_module "
    "kexec_load kexec_file_load open_by_handle_at acct settimeofday clock_settime adjtimex clock_adjtime "
    "sethostname setdomainname iopl ioperm quotactl shmget shmat msgget semget mq_open vmsplice"
)
_FREE = (
    "close munmap mremap brk madvise futex clock_gettime clock_getres gettimeofday time nanosleep "
    "clock_nanosleep sched_yield sched_getaffinity getcpu getpid gettid getppid getuid geteuid getgid getegid "
    "uname sysinfo getrusage times getrandom rt_sigprocmask rt_sigreturn sigaltstack restart_syscall exit "
    "exit_group set_robust_list rseq membarrier fstat"
)
_QUIET_DENIED = (
    "stat lstat newfstatat statx access faccessat faccessat2 readlink readlinkat getdents getdents64 getcwd "
    "chdir openat2 statfs"
)
_QUIET_FORBIDDEN = (
    "ioctl fcntl lseek prctl arch_prctl sched_setaffinity sched_setscheduler sched_getscheduler sched_getparam "
    "sched_get_priority_max sched_get_priority_min setpriority getpriority set_mempolicy get_mempolicy mbind "
    "rt_sigaction getrlimit setrlimit dup dup2 dup3 poll ppoll setitimer getitimer alarm msync mincore mlock "
    "munlock pkey_alloc pkey_free"
)
_PLACE = "sched_setaffinity"


@functools.cache
def available() -> bool:
    """Whether filters can be installed and are written for this machine."""
    if platform.machine() != "x86_64" or sys.maxsize < 1 << 32:
        return False
    try:
        prctl(_PR_GET_SECCOMP)
    except OSError:
        return False
    try:
        # No filter at this address: EFAULT says that there would be filters.
        prctl(_PR_SET_SECCOMP, _MODE_FILTER, ctypes.c_void_p(0))
    except OSError as error:
        return error.errno in (errors.EFAULT, errors.EACCES)
    return False


def install(code: bytes, *, everywhere: bool = False) -> None:
    """Puts a filter on the calling thread and all that it starts; there is no way back.

    Args:
        code: of the filter.
        everywhere: also on the process's other threads.

    Raises:
        OSError: the kernel refuses, for example as new privileges were not given up.
    """
    buffer = ctypes.create_string_buffer(code, len(code))
    header = struct.pack("HxxxxxxQ", len(code) // 8, ctypes.addressof(buffer))
    if everywhere:
        left_out = syscall(NUMBERS["seccomp"], _SET_MODE_FILTER, _ALL_THREADS, ctypes.c_char_p(header))
        if left_out:
            # No error but the number of the first thread that has other filters; none has got this one then.
            raise OSError(errors.EBUSY, f"thread {left_out} cannot take the filter")
    else:
        prctl(_PR_SET_SECCOMP, _MODE_FILTER, ctypes.c_char_p(header))


@functools.cache
def worker_filter() -> bytes:
    """For compilers and for what forks candidates: no network, nothing of others' memory, nothing of the system."""
    denied = errno(errors.EPERM)
    names = f"{_NETWORK} {_OTHERS}".split()
    rules = [Rule(number=NUMBERS[name], action=denied) for name in names]
    return assemble(rules, default=ALLOW)


@functools.cache
def starts_nothing() -> bytes:
    """For a process whose threads are all there: no further thread, process or program."""
    denied = errno(errors.EPERM)
    rules = [
        Rule(number=NUMBERS[name], action=denied) for name in ("clone", "fork", "vfork", "execve", "execveat")
    ]
    # Its flags are in memory, out of a filter's sight; the C library then takes the older call.
    rules.append(Rule(number=NUMBERS["clone3"], action=errno(errors.ENOSYS)))
    return assemble(rules, default=ALLOW)


def kernel_filter(*, pid: int, channel: int, threads: int, team: bool = False) -> bytes:
    """For a process in which a candidate is loaded and about to run.

    It may compute, take and give back memory that cannot be executed, look at clocks, and talk on its one channel.

    Args:
        pid: of the process, which may send signals to itself.
        channel: the one descriptor that messages go over.
        threads: with more than one it may start threads (not processes).
        team: its threads are there already, and it may start none.

    Raises:
        ValueError: the channel is among the first descriptors, which mean something else.
    """
    if channel <= 3:
        raise ValueError("the channel's number has to be over 3")
    code = kernel_template(threads > 1 or team, not team)
    for mark, value in ((_PID_MARK, pid), (_CHANNEL_MARK, channel)):
        code = code.replace(struct.pack("<I", mark), struct.pack("<I", value))
    return code


@functools.cache
def kernel_template(threads: bool, starts: bool = True) -> bytes:
    """:func:`kernel_filter` with marks for what differs between processes; to be made before a fork.

    Args:
        threads: there may be several, for which the C library's memory has parts of their own.
        starts: they may be started.
    """

    def rule(name: str, *tests: Condition, action: int = ALLOW, otherwise: int = TRAP) -> Rule:
        return Rule(number=NUMBERS[name], action=action, tests=tests, otherwise=otherwise)

    no_code = Condition(argument=2, value=0, mask=_PROT_EXEC)
    on_channel, to_self = Condition(argument=0, value=_CHANNEL_MARK), Condition(argument=0, value=_PID_MARK)
    absent = errno(errors.EACCES)
    rules = [rule(name) for name in _FREE.split()]
    rules += [rule(name, on_channel) for name in ("sendto", "recvfrom", "recvmsg")]
    rules.append(rule("mmap", no_code))
    if threads:
        rules.append(rule("mprotect", no_code))
    if threads and starts:
        rules += [
            rule("clone", Condition(argument=0, value=_CLONE_THREAD, mask=_CLONE_THREAD)),
            # Its flags are in memory, out of a filter's sight; the C library then takes the older call.
            rule("clone3", action=errno(errors.ENOSYS)),
        ]
    rules += [rule(name, to_self) for name in ("tgkill", "kill")]
    # Descriptors 0 to 2 are /dev/null, 3 is closed: what a kernel prints goes nowhere. Any other is the channel.
    standard = Condition(argument=0, value=0, mask=0xFFFFFFFC)
    rules += [rule(name, standard) for name in ("write", "writev", "read", "readv")]
    rules += [
        rule("open", Condition(argument=1, value=0, mask=_WRITING), action=absent),
        rule("openat", Condition(argument=2, value=0, mask=_WRITING), action=absent),
        rule("prlimit64", Condition(argument=2, value=0), otherwise=errno(errors.EPERM)),
    ]
    rules += [rule(name, action=absent) for name in _QUIET_DENIED.split()]
    forbidden = _QUIET_FORBIDDEN.split()
    if threads and not starts:
        # OpenMP's library ends the process where it may not place a thread anew; they stay where they were placed.
        forbidden.remove(_PLACE)
        rules.append(rule(_PLACE, action=errno(0)))
    rules += [rule(name, action=errno(errors.EPERM)) for name in forbidden]
    return assemble(rules, default=TRAP)
