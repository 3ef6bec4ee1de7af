"""What a forked OpenCL worker does before any candidate runs in it: confined, it asks drivers and compiles programs.

Imported by the zygote, where nothing may touch a platform. Running a candidate is :mod:`tuner.evaluators.opencl.child`.
It is confined before it loads a driver, so that the threads which that starts are confined as well. A driver has to
read its libraries and to write what it compiles, and it starts threads and a linker: system calls are denied by a list.
"""

from __future__ import annotations

import base64
import contextlib
import ctypes
import json
import mmap
import os
import resource
import signal
import socket
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pyopencl as cl
import pytools

from tuner.evaluators.opencl import front_end
from tuner.evaluators.opencl.faults import Guard
from tuner.evaluators.sandbox import landlock, seccomp
from tuner.evaluators.sandbox.confine import become, mapped_bytes, program_folders, set_limits

__all__ = ["MESSAGE_BYTES", "find_device", "run_worker"]

MESSAGE_BYTES = 1 << 17
_BUILD_FAILURES = (
    cl.status_code.BUILD_PROGRAM_FAILURE,
    cl.status_code.COMPILE_PROGRAM_FAILURE,
    cl.status_code.LINK_PROGRAM_FAILURE,
)
_PR_SET_PDEATHSIG, _PR_SET_NO_NEW_PRIVS = 1, 38
_FILE_BYTES = 1 << 30
_DRIVERS = ("/etc", "/proc", "/sys", "/opt", "/run", "/var/lib")
"""Where drivers read their settings, beside the folders of programs: nothing of any user's."""
_DEVICES = ("/dev",)


def run_worker(channel: socket.socket, page: int, code: int, request: Mapping[str, Any]) -> NoReturn:
    """Never returns; ends the process when the parent hangs up.

    Args:
        channel: to the parent.
        page: descriptor of the fault page.
        code: descriptor of the program's binary, sealed.
        request: limits, and ``job`` with its ``role``: ``describe``, ``compile`` or ``run``.
    """
    status = 1
    try:
        with mmap.mmap(code, 0, prot=mmap.PROT_READ) as view:
            binary = bytes(view)
        guard = Guard(page)
        os.close(page)
        os.close(code)
        job = request["job"]
        confine(request, {channel.fileno()}, folder=job["cache"], packages=_packages())
        warnings.simplefilter("ignore")
        os.environ["POCL_CACHE_DIR"] = job["cache"]
        os.environ["OCLGRIND_LOG"] = str(Path(job["cache"], "oclgrind.log"))
        tempfile.tempdir = job["cache"]
        if job["role"] == "run":
            from tuner.evaluators.opencl.child import serve_candidate

            serve_candidate(channel, binary, job, guard)
        elif job["role"] == "compile":
            _serve_compile(channel, job)
        else:
            _serve_describe(channel)
        status = 0
    except (OSError, ValueError, MemoryError, cl.Error):
        status = 3
    finally:
        os._exit(status)


def _packages() -> list[str]:
    """Where pyopencl and what it imports are: ``PYTHONPATH`` may name another folder than the interpreter's."""
    files = (cl.__file__, np.__file__, pytools.__file__)
    return sorted({os.path.dirname(os.path.dirname(os.path.realpath(str(file)))) for file in files})


def find_device(job: Mapping[str, Any]) -> Any:
    """The device of a job, which names it by its place and its name.

    Raises:
        ValueError: another device is in that place now.
    """
    devices = [d for p in cl.get_platforms() for d in _devices(p)]
    device = devices[job["device"]["index"]]
    if device.name.strip() != job["device"]["name"]:
        raise ValueError("the device is gone")
    return device


def _devices(platform: Any) -> list[Any]:
    try:
        return list(platform.get_devices())
    except cl.Error:
        # A platform without a device says so by an error.
        return []


def _serve_describe(channel: socket.socket) -> None:
    _, files, _, _ = socket.recv_fds(channel, MESSAGE_BYTES, 1)
    try:
        devices = [(p, d) for p in cl.get_platforms() for d in _devices(p)]
        answer: dict[str, Any] = {"devices": [_describe(i, p, d) for i, (p, d) in enumerate(devices)]}
    except cl.Error as error:
        answer = {"error": " ".join(str(error).split())[:200]}
    _write(files[0], json.dumps(answer).encode())
    channel.send(b"done")


def _describe(index: int, platform: Any, device: Any) -> dict[str, Any]:
    def ask(name: str, default: Any) -> Any:
        try:
            return device.get_info(getattr(cl.device_info, name))
        except (cl.Error, AttributeError):
            return default

    return {
        "index": index,
        "platform": platform.name.strip(),
        "name": device.name.strip(),
        "vendor": device.vendor.strip(),
        "version": device.version.strip(),
        "driver": device.driver_version.strip(),
        "c_version": str(ask("OPENCL_C_VERSION", "")).strip(),
        "cpu": bool(device.type & cl.device_type.CPU) and not device.type & cl.device_type.GPU,
        "units": int(device.max_compute_units),
        "max_threads": int(device.max_work_group_size),
        "max_block": [int(n) for n in device.max_work_item_sizes],
        "local_bytes": int(device.local_mem_size),
        "cache_bytes": int(ask("GLOBAL_MEM_CACHE_SIZE", 0)),
        "doubles": "cl_khr_fp64" in device.extensions or bool(ask("DOUBLE_FP_CONFIG", 0)),
        "il": str(ask("IL_VERSION", "")).strip(" \0"),
        "address_bits": int(device.address_bits),
        "extensions": sorted(device.extensions.split()),
    }


def _serve_compile(channel: socket.socket, job: Mapping[str, Any]) -> None:
    """Each request brings a memory file with the job and one for the result; neither is ever executed here."""
    context: Any = None
    device: Any = None
    os.chdir(job["cache"])
    while True:
        message, files, _, _ = socket.recv_fds(channel, MESSAGE_BYTES, 2)
        if not message:
            return
        if context is None:
            device = find_device(job)
            context = cl.Context([device])
        with mmap.mmap(files[0], 0, prot=mmap.PROT_READ) as view:
            work = json.loads(bytes(view))
        header, binary = _compile(context, device, work, Path(job["cache"]))
        head = json.dumps(header).encode()
        _write(files[1], len(head).to_bytes(8, "little") + head + binary)
        for file in files:
            os.close(file)
        channel.send(b"done")


def _compile(context: Any, device: Any, work: Mapping[str, Any], cache: Path) -> tuple[dict[str, Any], bytes]:
    try:
        with tempfile.TemporaryDirectory(dir=cache) as folder:
            before = front_end.known(cache)
            program = _built(context, device, work, folder)
            binary = _kept(work, cache, before) or bytes(program.get_info(cl.program_info.BINARIES)[0])
            log = program.get_build_info(device, cl.program_build_info.LOG)
            kernels = {
                k.function_name: _kernel(k, device, work.get("local", ())) for k in program.all_kernels()
            }
    except cl.Error as error:
        return _failure(error), b""
    return {"status": "ok", "kernels": kernels, "log": str(log)[:8000]}, binary


def _built(context: Any, device: Any, work: Mapping[str, Any], folder: str) -> Any:
    """A program of SPIR-V or of source; raises ``cl.Error``."""
    if "il" in work:
        return cl.Program(context, base64.b64decode(work["il"])).build(
            options=list(work["options"]), devices=[device]
        )
    options = [*_headers(work, folder), *_options(work)]
    return cl.Program(context, work["source"]).build(options=options, devices=[device])


def _headers(work: Mapping[str, Any], folder: str) -> list[str]:
    """Writes a program's headers below a folder; the options that name where they are.

    By their place below the working folder, in which the folder lies: not every driver can read a path with blanks in
    it, and how the user's folders are called is not known beforehand.
    """
    places = {str(Path(folder, Path(name).name)): text for name, text in work["headers"]}
    below = {n: Path(folder, f"include-{n}") for n, _, _ in work["included"]}
    places |= {str(below[n] / name): text for n, name, text in work["included"]}
    for path, text in places.items():
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(text, encoding="utf-8")
    named = [folder] if work["headers"] else []
    named += [str(below[n]) for n in sorted(below)]
    return [word for path in named for word in ("-I", os.path.relpath(path, Path(folder).parent))]


def _quoted(options: Sequence[str]) -> list[str]:
    """The options as drivers read them: one string, split at blanks that are not between quotation marks."""
    return [
        f'"{option}"' if before == "-I" and any(map(str.isspace, option)) else option
        for before, option in zip(["", *options], options, strict=False)
    ]


def _options(work: Mapping[str, Any]) -> list[str]:
    return _quoted([*work["options"], "-cl-kernel-arg-info"])


def _kept(work: Mapping[str, Any], cache: Path, before: frozenset[Path]) -> bytes:
    """What PoCL's front end made, where that is all there is to a program; empty elsewhere.

    Where it reads further files it would read them once more, and a candidate's process need not reach them.
    """
    if "il" in work or work["headers"] or "#include" in work["source"]:
        return b""
    if any(option.startswith(("-I", '"-I')) for option in work["options"]):
        return b""
    return front_end.take(cache, before, work["source"], _options(work))


def _failure(error: Any) -> dict[str, Any]:
    """What became of a build, by the code of the error."""
    code = int(error.code)
    status = "build_error" if code in _BUILD_FAILURES else _status(code)
    return {"status": status, "code": code, "log": str(error)[:20_000]}


def _status(code: int) -> str:
    exhausted = (
        cl.status_code.OUT_OF_RESOURCES,
        cl.status_code.OUT_OF_HOST_MEMORY,
        cl.status_code.MEM_OBJECT_ALLOCATION_FAILURE,
    )
    return "out_of_resources" if code in exhausted else "build_error"


def _kernel(kernel: Any, device: Any, local: Sequence[bool]) -> dict[str, Any]:
    """What the driver says; which parameters are in local memory is known beforehand where it may not say so."""
    information = cl.kernel_work_group_info
    arguments = []
    for number in range(kernel.num_args):
        try:
            space = int(kernel.get_arg_info(number, cl.kernel_arg_info.ADDRESS_QUALIFIER))
            kind = str(kernel.get_arg_info(number, cl.kernel_arg_info.TYPE_NAME))
        except cl.Error:
            space, kind = 0, ""
        known = local[number] if number < len(local) else False
        found = space == int(cl.kernel_arg_address_qualifier.LOCAL)
        arguments.append({"local": found or known, "type": kind})

    def ask(which: Any) -> Any:
        try:
            return kernel.get_work_group_info(which, device)
        except cl.Error:
            return None

    return {
        "arguments": arguments,
        "max_threads": ask(information.WORK_GROUP_SIZE),
        "block": [int(n) for n in ask(information.COMPILE_WORK_GROUP_SIZE) or (0, 0, 0)],
        "local_bytes": ask(information.LOCAL_MEM_SIZE),
        "private_bytes": ask(information.PRIVATE_MEM_SIZE),
        "preferred_multiple": ask(information.PREFERRED_WORK_GROUP_SIZE_MULTIPLE),
    }


def _write(descriptor: int, data: bytes) -> None:
    at = 0
    while at < len(data):
        at += os.pwrite(descriptor, data[at:], at)


def confine(request: Mapping[str, Any], keep: set[int], *, folder: str, packages: Sequence[str]) -> None:
    """Confines this process.

    Args:
        request: ``uid`` to become (``None``: stay), limits ``cpu_s``, ``memory_bytes`` (beyond what is mapped now)
            and ``processes`` (``None``: as they are).
        keep: file descriptors that stay open.
        folder: the only one that it may write to.
        packages: folders that Python still imports from.
    """
    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(null, standard)
    at = 3
    for descriptor in sorted(keep):
        os.closerange(at, descriptor)
        at = descriptor + 1
    os.closerange(at, 1 << 16)
    if request["uid"] is not None:
        become(int(request["uid"]))
    libc = ctypes.CDLL(None, use_errno=True)
    # After the change of user, which clears it.
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    read = (*program_folders(), *packages, *_DRIVERS, *_named_drivers())
    landlock.restrict(landlock.Access(read=read, write=(folder, *_DEVICES)))
    if seccomp.available():
        seccomp.install(seccomp.worker_filter())
    limits = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_FSIZE: _FILE_BYTES,
        resource.RLIMIT_CPU: request["cpu_s"],
    }
    if request["memory_bytes"] is not None:
        limits[resource.RLIMIT_AS] = mapped_bytes() + request["memory_bytes"]
    if request["processes"] is not None:
        limits[resource.RLIMIT_NPROC] = request["processes"]
    set_limits(limits)


def _named_drivers() -> list[str]:
    """What the user's variables name: lists of drivers, the folders of the libraries in them, further folders."""
    vendors = os.environ.get("OCL_ICD_VENDORS", "")
    libraries = os.environ.get("OCL_ICD_FILENAMES", "").split(":")
    for path in (
        [Path(vendors)] if vendors.endswith(".icd") else sorted(Path(vendors or "/nonexistent").glob("*.icd"))
    ):
        with contextlib.suppress(OSError, UnicodeDecodeError):
            libraries.append(path.read_text(encoding="utf-8").strip())
    folders = [os.path.dirname(library) for library in libraries]
    folders += os.environ.get("LD_LIBRARY_PATH", "").split(":")
    return [path for path in dict.fromkeys([vendors, *folders]) if path.startswith("/") and path != "/"]
