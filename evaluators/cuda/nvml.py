"""Clocks, temperature, power and throttling of a device through NVML, which comes with the driver.

Reads only: it changes no clock, limit or mode. What cannot be read is left out.

Source: NVML API reference.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Any

__all__ = ["Watch"]

_LIBRARY = "libnvidia-ml.so.1"
_SM, _MEMORY = 1, 2
_TEMPERATURE_GPU = 0
_REASONS: Mapping[int, str] = {
    0x2: "application clocks",
    0x4: "software power cap",
    0x8: "hardware slowdown",
    0x10: "sync boost",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "hardware power brake",
}
"""``nvmlClocksThrottleReasons…``; 1 is an idle device, which is no throttling."""


class Watch:
    """Watches one device.

    Args:
        uuid: ``GPU-…``.
        library: of NVML.
    """

    def __init__(self, uuid: str, *, library: str = _LIBRARY) -> None:
        self._device = ctypes.c_void_p()
        self._lib: ctypes.CDLL | None = None
        try:
            lib = ctypes.CDLL(library)
        except OSError:
            return
        if lib.nvmlInit_v2():
            return
        if lib.nvmlDeviceGetHandleByUUID(uuid.encode(), ctypes.byref(self._device)):
            lib.nvmlShutdown()
            return
        self._lib = lib

    def sample(self) -> dict[str, Any]:
        """``sm_mhz``, ``memory_mhz``, ``temperature_c``, ``power_w`` and ``throttled`` (a list of reasons) now."""
        found: dict[str, Any] = {}
        lib = self._lib
        if lib is None:
            return found
        for key, which in (("sm_mhz", _SM), ("memory_mhz", _MEMORY)):
            self._put(found, key, lib.nvmlDeviceGetClockInfo, which)
        self._put(found, "temperature_c", lib.nvmlDeviceGetTemperature, _TEMPERATURE_GPU)
        self._put(found, "power_w", lib.nvmlDeviceGetPowerUsage, scale=1e-3)
        reasons = ctypes.c_ulonglong()
        if not lib.nvmlDeviceGetCurrentClocksThrottleReasons(self._device, ctypes.byref(reasons)):
            found["throttled"] = [text for bit, text in _REASONS.items() if reasons.value & bit]
        return found

    def describe(self) -> dict[str, Any]:
        """What stays: ``driver`` version and ``most_sm_mhz``, the highest clock."""
        found: dict[str, Any] = {}
        lib = self._lib
        if lib is None:
            return found
        text = ctypes.create_string_buffer(96)
        if not lib.nvmlSystemGetDriverVersion(text, 96):
            found["driver"] = text.value.decode()
        self._put(found, "most_sm_mhz", lib.nvmlDeviceGetMaxClockInfo, _SM)
        return found

    def close(self) -> None:
        """Lets go of NVML; safe to call twice."""
        if self._lib is not None:
            self._lib.nvmlShutdown()
            self._lib = None

    def _put(self, found: dict[str, Any], key: str, call: Any, *arguments: int, scale: float = 1) -> None:
        value = ctypes.c_uint()
        if not call(self._device, *arguments, ctypes.byref(value)):
            found[key] = value.value if scale == 1 else round(value.value * scale, 3)
