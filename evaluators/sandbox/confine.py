"""Takes from the calling process or thread what generated code has no use for. One call for each kind of process.

What the kernel lacks is left out; what it has but refuses is an error, as the process would run open otherwise.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import resource
import site
import sys
from collections.abc import Iterable, Mapping

from tuner.evaluators.sandbox import landlock, seccomp
from tuner.evaluators.sandbox.libc import libc, prctl, unshare

__all__ = [
    "SYSTEM",
    "become",
    "confine_builder",
    "confine_kernel",
    "isolate_network",
    "mapped_bytes",
    "prepare",
    "program_folders",
    "set_limits",
    "shed_privileges",
]

_PR_SET_PDEATHSIG, _PR_SET_NO_NEW_PRIVS, _PR_SET_DUMPABLE = 1, 38, 4
_SIGKILL = 9
_NEWIPC, _NEWUSER, _NEWNET = 0x08000000, 0x10000000, 0x40000000
_NOBODY = 65534

SYSTEM = (
    "/usr",
    "/lib",
    "/lib64",
    "/bin",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/alternatives",
)
"""Where programs and libraries of the system are. Of /etc only what the loader reads."""


def program_folders() -> tuple[str, ...]:
    """The system's folders and this interpreter's. Not all of ``sys.path``: that may hold the user's own folders."""
    own = {sys.prefix, sys.base_prefix, *site.getsitepackages()}
    return (*SYSTEM, *sorted(own | {os.path.realpath(path) for path in own}))


def isolate_network() -> str:
    """Moves this process, which must have one thread only, into a network without any interface.

    Returns:
        ``network`` or ``user and network`` for the namespaces that were made; empty where none is allowed.
    """
    try:
        unshare(_NEWNET | _NEWIPC)
        return "network"
    except OSError:
        pass
    user, group = os.geteuid(), os.getegid()
    try:
        unshare(_NEWUSER | _NEWNET | _NEWIPC)
    except OSError:
        return ""
    # The same numbers inside as outside; a namespace without them would work too, under "nobody".
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{user} {user} 1"),
        ("gid_map", f"{group} {group} 1"),
    ):
        try:
            with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
                file.write(text)
        except OSError:
            continue
    return "user and network"


def confine_builder(*, read: Iterable[str] = (), write: Iterable[str] = ()) -> None:
    """For the calling thread, and all that it starts: a compiler or a process that forks candidates.

    It cannot gain privileges, open a network connection, look into other processes, or write anywhere but to
    ``write`` and ``/dev/null``. It reads programs, libraries, and ``read``.

    Raises:
        OSError: the kernel has a part and refuses it.
    """
    prctl(_PR_SET_NO_NEW_PRIVS, 1)
    access = landlock.Access(
        read=(*program_folders(), *read, "/dev/urandom", "/dev/zero"), write=(*write, "/dev/null")
    )
    landlock.restrict(access)
    if seccomp.available():
        seccomp.install(seccomp.worker_filter())


def prepare(*, threads: int, team: bool = False) -> None:
    """Does before a fork what every child would do again."""
    landlock.version()
    if seccomp.available():
        seccomp.kernel_template(threads > 1 or team, not team)


def shed_privileges(uid: int | None) -> None:
    """Before a candidate is loaded: another user where allowed, no privileges, no files, dies with its parent.

    Raises:
        OSError: the kernel has a part and refuses it.
    """
    libc.clearenv()
    if uid is not None:
        become(uid)
    # After the change of user, which clears it.
    prctl(_PR_SET_PDEATHSIG, _SIGKILL)
    prctl(_PR_SET_DUMPABLE, 0)
    prctl(_PR_SET_NO_NEW_PRIVS, 1)
    landlock.restrict(landlock.Access())


def confine_kernel(*, channel: int, threads: int, team: bool = False) -> None:
    """After a candidate is loaded and before it runs: only the system calls that computing needs.

    Args:
        channel: the one descriptor that messages go over.
        threads: that the process may have.
        team: they are all there already: none can be made, and the filter holds for each of them.

    Raises:
        OSError: the kernel has filters and refuses this one.
    """
    if seccomp.available():
        code = seccomp.kernel_filter(pid=os.getpid(), channel=channel, threads=threads, team=team)
        seccomp.install(code, everywhere=team)


def set_limits(limits: Mapping[int, int], *, process: int = 0) -> None:
    """Sets resource limits, soft and hard, never above the hard limit that there is: only root may raise one.

    Args:
        limits: by resource.
        process: number of a child; this process when left out. One that has ended already is let be.
    """
    for which, value in limits.items():
        _, hard = resource.getrlimit(which)
        limit = value if hard == resource.RLIM_INFINITY else min(value, hard)
        with contextlib.suppress(ProcessLookupError):
            resource.prlimit(process, which, (limit, limit))


def become(uid: int) -> None:
    """Another user where that is allowed: then limits on processes hold for root too."""
    with contextlib.suppress(OSError):
        os.setgroups([])
    for candidate in (uid, _NOBODY):
        try:
            os.setresgid(candidate, candidate, candidate)
            os.setresuid(candidate, candidate, candidate)
        except OSError:
            continue
        return


def mapped_bytes() -> int:
    """Address space of this process."""
    with open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[0]) * mmap.PAGESIZE
