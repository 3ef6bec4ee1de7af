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

_HINDRANCES = frozenset(_REASONS[bit] for bit in (0x8, 0x20, 0x40, 0x80))
"""What a kernel does not bring about by itself. A power cap is met by a kernel that works the device hard, whenever it
runs; clocks of applications are set by the user."""

_SLOWED: Mapping[int, str] = {1: "heat", 3: "the board's limits", 5: "the voltage's limits"}
"""``NVML_PERF_POLICY_…``: for how long clocks were held down, which also counts what has ended again."""

_HELD = 0.01
"""Share of its time that a batch may be held down."""

_SLOWER = 0.93
"""Share of the clock at the start below which it counts as throttled."""
_POWER = _REASONS[0x4]


class _Violation(ctypes.Structure):
    """``nvmlViolationTime_t``: microseconds and nanoseconds since the driver was loaded."""

    _fields_ = (("reference_us", ctypes.c_ulonglong), ("held_ns", ctypes.c_ulonglong))


class Spell:
    """Two looks at a device, before and after: a :class:`tuner.evaluators.disturbance.Watcher`.

    What other processes do on the device is not told: their numbers and this one's are those of the host, which a
    container does not know.
    """

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._before, self._held_s = watch.sample(), watch.held_s()

    def disturbances(self, wall_s: float) -> list[str]:
        """What has slowed the device down meanwhile, one line each."""
        after = self._watch.sample()
        found = []
        reasons = {*self._before.get("throttled", ()), *after.get("throttled", ())}
        for reason in sorted(reasons & _HINDRANCES):
            found.append(f"the device throttles ({reason})")
        for name, held_s in self._watch.held_s().items():
            held_s -= self._held_s.get(name, held_s)
            if held_s > _HELD * wall_s:
                found.append(f"the device was held down by {name} for {held_s:.3f} s of {wall_s:.3f} s")
        before_mhz, after_mhz = self._before.get("sm_mhz"), after.get("sm_mhz")
        if before_mhz and after_mhz and after_mhz < _SLOWER * before_mhz and _POWER not in reasons:
            found.append(f"the device went from {before_mhz} to {after_mhz} MHz")
        return found


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

    def begin(self) -> Spell:
        """Begins to watch for what slows the device down."""
        return Spell(self)

    def held_s(self) -> dict[str, float]:
        """Seconds so far for which clocks were held down, by cause."""
        found: dict[str, float] = {}
        lib = self._lib
        if lib is None:
            return found
        for policy, name in _SLOWED.items():
            value = _Violation()
            if not lib.nvmlDeviceGetViolationStatus(self._device, policy, ctypes.byref(value)):
                found[name] = value.held_ns * 1e-9
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
