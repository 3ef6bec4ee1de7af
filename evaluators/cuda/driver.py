"""The CUDA driver through its C interface: the few calls that loading, running and timing a kernel take.

Runs in the device worker only. Standard library only: no runtime, no memory pool, nothing between the call and the
driver. Every failed call raises :class:`DriverError`.

Source: CUDA driver API reference, CUDA 13 (names with ``_v2`` are those that ``cuda.h`` maps to).
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["LIBRARY", "Driver", "DriverError", "Function"]

_PINNED, _ON_DEVICE, _READ_WRITE = 1, 1, 3

LIBRARY = "libcuda.so.1"

_ATTRIBUTES: Mapping[str, int] = {
    "shared_block_default_bytes": 8,
    "warp": 10,
    "multiprocessors": 16,
    "clock_khz": 13,
    "ecc": 32,
    "memory_clock_khz": 36,
    "memory_bus_bits": 37,
    "l2_bytes": 38,
    "threads_per_multiprocessor": 39,
    "major": 75,
    "minor": 76,
    "shared_multiprocessor_bytes": 81,
    "shared_block_bytes": 97,
    "blocks_per_multiprocessor": 106,
    "shared_reserved_bytes": 111,
}
_MAX_DYNAMIC_SHARED = 8
_ADDRESS_TAKEN = -1
_SPIN = 0x01


class DriverError(Exception):
    """A call failed.

    Attributes:
        code: the driver's number (``CUDA_ERROR_…``).
        name: the driver's name for it.
        call: which call said so; an error of a kernel is said by whatever call comes next.
    """

    def __init__(self, code: int, name: str, call: str) -> None:
        super().__init__(f"{name} in {call}")
        self.code = code
        self.name = name
        self.call = call


class Function:
    """A kernel of a loaded module."""

    def __init__(self, handle: ctypes.c_void_p, module: ctypes.c_void_p) -> None:
        self.handle = handle
        self.module = module
        self.variables: dict[str, tuple[int, int]] = {}
        """Address and bytes of the module's variables that were asked for."""


class Driver:
    """One device with its primary context, current in the calling thread.

    Args:
        library: of the driver.
        index: which device.

    Raises:
        OSError: there is no such library.
        DriverError: no device, or none with this number.
    """

    def __init__(self, library: str = LIBRARY, index: int = 0) -> None:
        self._lib = ctypes.CDLL(library)
        self._call("cuInit", 0)
        device = ctypes.c_int()
        self._call("cuDeviceGet", ctypes.byref(device), index)
        self._device = device
        self._context = ctypes.c_void_p()
        self._stream = ctypes.c_void_p()

    def open(self) -> None:
        """Makes the context and a stream of our own, which waits for no other."""
        self._call("cuDevicePrimaryCtxSetFlags_v2", self._device, _SPIN, allowed=(708,))
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(self._context), self._device)
        self._call("cuCtxSetCurrent", self._context)
        self._call("cuStreamCreate", ctypes.byref(self._stream), 1)

    def describe(self) -> dict[str, Any]:
        """Name, UUID, memory, driver version and the attributes that matter, plain JSON; needs no context."""
        name = ctypes.create_string_buffer(256)
        self._call("cuDeviceGetName", name, 256, self._device)
        uuid = ctypes.create_string_buffer(16)
        self._call("cuDeviceGetUuid_v2", uuid, self._device)
        size = ctypes.c_size_t()
        self._call("cuDeviceTotalMem_v2", ctypes.byref(size), self._device)
        version = ctypes.c_int()
        self._call("cuDriverGetVersion", ctypes.byref(version))
        hexed = uuid.raw.hex()
        parts = (hexed[:8], hexed[8:12], hexed[12:16], hexed[16:20], hexed[20:])
        return {
            "name": name.value.decode(),
            "uuid": "GPU-" + "-".join(parts),
            "memory_bytes": size.value,
            "cuda": f"{version.value // 1000}.{version.value % 1000 // 10}",
            **{key: self._attribute(number) for key, number in _ATTRIBUTES.items()},
        }

    def load(
        self, cubin: bytes, symbol: str, dynamic_shared_bytes: int, variables: Sequence[str] = ()
    ) -> Function:
        """Loads a cubin; finds its kernel, with the right to that much dynamic shared memory, and variables."""
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self._call("cuModuleLoadData", ctypes.byref(module), cubin)
        try:
            self._call("cuModuleGetFunction", ctypes.byref(function), module, symbol.encode())
            if dynamic_shared_bytes:
                self._call(
                    "cuFuncSetAttribute", function, _MAX_DYNAMIC_SHARED, ctypes.c_int(dynamic_shared_bytes)
                )
            found = Function(function, module)
            for name in variables:
                found.variables[name] = self._variable(module, name)
        except DriverError:
            self._call("cuModuleUnload", module)
            raise
        return found

    def _variable(self, module: ctypes.c_void_p, name: str) -> tuple[int, int]:
        at, size = ctypes.c_uint64(), ctypes.c_size_t()
        self._call("cuModuleGetGlobal_v2", ctypes.byref(at), ctypes.byref(size), module, name.encode())
        return at.value, size.value

    def unload(self, function: Function) -> None:
        """Unloads the module of a kernel."""
        self._call("cuModuleUnload", function.module)

    def allocate(self, size: int) -> int:
        """Device memory; its address, aligned to 256 bytes at least."""
        at = ctypes.c_uint64()
        self._call("cuMemAlloc_v2", ctypes.byref(at), ctypes.c_size_t(size))
        return at.value

    def free(self, at: int) -> None:
        """Gives device memory back."""
        self._call("cuMemFree_v2", ctypes.c_uint64(at))

    def variable(self, function: Function, name: str) -> tuple[int, int]:
        """Address and bytes of a variable of the kernel's module."""
        at, size = ctypes.c_uint64(), ctypes.c_size_t()
        self._call(
            "cuModuleGetGlobal_v2", ctypes.byref(at), ctypes.byref(size), function.module, name.encode()
        )
        return at.value, size.value

    def map_at(self, address: int, size: int) -> int:
        """Device memory at an address that was chosen elsewhere, in whole megabytes; a handle for :meth:`unmap`.

        Raises:
            DriverError: something lies there already.
        """
        at = ctypes.c_uint64()
        wide = ctypes.c_size_t(size)
        self._call(
            "cuMemAddressReserve",
            ctypes.byref(at),
            wide,
            ctypes.c_size_t(0),
            ctypes.c_uint64(address),
            ctypes.c_uint64(0),
        )
        if at.value != address:
            self._call("cuMemAddressFree", at, wide)
            raise DriverError(_ADDRESS_TAKEN, "the recorded address is taken", "cuMemAddressReserve")
        properties = (ctypes.c_int * 8)(_PINNED, 0, _ON_DEVICE, self._device.value)
        access = (ctypes.c_int * 3)(_ON_DEVICE, self._device.value, _READ_WRITE)
        handle = ctypes.c_uint64()
        nothing = ctypes.c_uint64(0)
        self._call("cuMemCreate", ctypes.byref(handle), wide, properties, nothing)
        self._call("cuMemMap", at, wide, ctypes.c_size_t(0), handle, nothing)
        self._call("cuMemSetAccess", at, wide, access, ctypes.c_size_t(1))
        return handle.value

    def unmap(self, address: int, size: int, handle: int) -> None:
        """Gives back what :meth:`map_at` made."""
        at, wide = ctypes.c_uint64(address), ctypes.c_size_t(size)
        self._call("cuMemUnmap", at, wide)
        self._call("cuMemRelease", ctypes.c_uint64(handle))
        self._call("cuMemAddressFree", at, wide)

    def upload(self, at: int, host: int, size: int) -> None:
        """Host memory to the device, finished on return."""
        self._call("cuMemcpyHtoD_v2", ctypes.c_uint64(at), ctypes.c_void_p(host), ctypes.c_size_t(size))

    def download(self, host: int, at: int, size: int) -> None:
        """Device memory to the host, finished on return."""
        self._call("cuMemcpyDtoH_v2", ctypes.c_void_p(host), ctypes.c_uint64(at), ctypes.c_size_t(size))

    def copy(self, to: int, source: int, size: int) -> None:
        """Device to device, in the stream."""
        self._call(
            "cuMemcpyDtoDAsync_v2",
            ctypes.c_uint64(to),
            ctypes.c_uint64(source),
            ctypes.c_size_t(size),
            self._stream,
        )

    def fill(self, at: int, byte: int, size: int) -> None:
        """Bytes to device memory, in the stream."""
        self._call(
            "cuMemsetD8Async", ctypes.c_uint64(at), ctypes.c_ubyte(byte), ctypes.c_size_t(size), self._stream
        )

    def launch(
        self,
        function: Function,
        grid: Sequence[int],
        block: Sequence[int],
        shared_bytes: int,
        arguments: ctypes.Array[ctypes.c_void_p],
    ) -> None:
        """Starts a kernel in the stream.

        Args:
            function: loaded.
            grid: blocks along x, y, z; ``block`` threads likewise.
            block: as said.
            shared_bytes: dynamic shared memory of a block.
            arguments: addresses of the arguments' values.
        """
        code = self._lib.cuLaunchKernel(
            function.handle, *grid, *block, shared_bytes, self._stream, arguments, None
        )
        self._check(code, "cuLaunchKernel")

    def event(self) -> ctypes.c_void_p:
        """A new event that keeps time."""
        event = ctypes.c_void_p()
        self._call("cuEventCreate", ctypes.byref(event), 0)
        return event

    def record(self, event: ctypes.c_void_p) -> None:
        """Marks the event's place in the stream."""
        self._check(self._lib.cuEventRecord(event, self._stream), "cuEventRecord")

    def elapsed_s(self, start: ctypes.c_void_p, end: ctypes.c_void_p) -> float:
        """Seconds between two events that have passed; the driver resolves half a microsecond."""
        ms = ctypes.c_float()
        self._call("cuEventElapsedTime", ctypes.byref(ms), start, end)
        return ms.value * 1e-3

    def wait(self) -> None:
        """Waits for everything on the device's context, whatever stream it is in."""
        self._check(self._lib.cuCtxSynchronize(), "cuCtxSynchronize")

    def reset_persisting_cache(self) -> None:
        """Makes lines of the second-level cache that were set aside ordinary again, where the device has such."""
        self._call("cuCtxResetPersistingL2Cache", allowed=(801,))

    def _attribute(self, number: int) -> int:
        value = ctypes.c_int()
        self._call("cuDeviceGetAttribute", ctypes.byref(value), number, self._device, allowed=(1,))
        return value.value

    def _call(self, name: str, *arguments: Any, allowed: tuple[int, ...] = ()) -> None:
        code = getattr(self._lib, name)(*arguments)
        if code not in allowed:
            self._check(code, name)

    def _check(self, code: int, name: str) -> None:
        if code:
            text = ctypes.c_char_p()
            self._lib.cuGetErrorName(code, ctypes.byref(text))
            raise DriverError(code, (text.value or b"unknown error").decode(), name)
