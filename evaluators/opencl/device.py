"""OpenCL devices as plain data: what a worker found, and which one a spec's ``target`` means. Touches no device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from tuner.core.errors import MachineError, SpecError

__all__ = ["HOW_TO_GET_POCL", "POCL", "Device", "choose"]

HOW_TO_GET_POCL = "apt install pocl-opencl-icd"
"""The command that gives a machine without a GPU an OpenCL device."""

_SIMULATOR = "oclgrind"
POCL = "portable computing language"
"""PoCL's platform, in lower case."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """One device with the limits that a launch has to keep.

    Attributes:
        index: among all devices of all platforms, in the loader's order.
        platform, name, vendor, version, driver, c_version: as the driver says.
        cpu: whether it is the host's processor, so that it shares memory and the timing lane with the host.
        units: compute units.
        max_threads, max_block: work-items of a group, in all and along each dimension.
        local_bytes: local memory of a group.
        cache_bytes: of global memory's cache.
        doubles: whether it computes in double precision.
        il: intermediate languages that it takes; empty for none.
        address_bits: of a pointer to global memory.
        extensions: of OpenCL C that it offers.
    """

    index: int
    platform: str
    name: str
    vendor: str
    version: str
    driver: str
    c_version: str
    cpu: bool
    units: int
    max_threads: int
    max_block: tuple[int, ...]
    local_bytes: int
    cache_bytes: int
    doubles: bool
    il: str
    address_bits: int = 64
    extensions: tuple[str, ...] = ()

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Device:
        """The inverse of :meth:`to_json`."""
        values = {f.name: data[f.name] for f in fields(cls) if f.name in data}
        lists = {name: tuple(values.get(name, ())) for name in ("max_block", "extensions")}
        return cls(**{**values, **lists})

    def to_json(self) -> dict[str, Any]:
        """Plain JSON."""
        return {**asdict(self), "max_block": list(self.max_block), "extensions": list(self.extensions)}

    @property
    def simulated(self) -> bool:
        """Whether it is Oclgrind, whose times mean nothing."""
        return self.platform.lower() == _SIMULATOR

    @property
    def pocl(self) -> bool:
        """Whether PoCL drives it."""
        return self.platform.lower() == POCL

    @property
    def text(self) -> str:
        """For people."""
        return f"{self.name} ({self.platform}, {self.driver})"

    @property
    def lane(self) -> str:
        """The name of its timing lane: a CPU device has the host's."""
        return "cpu" if self.cpu else f"opencl:{self.platform}:{self.name}:{self.index}"


def choose(devices: Sequence[Device], target: str) -> Device:
    """The device that a target means.

    Args:
        devices: all that were found.
        target: ``native`` for the first device that is no simulator, GPUs first; ``pocl``; a number; or a name in
            either case, of a device or a platform, whole or a part of it.

    Raises:
        MachineError: there is no device at all.
        SpecError: none fits.
    """
    real = [d for d in devices if not d.simulated]
    if not devices or (target == "native" and not real):
        raise MachineError(
            "there is no OpenCL device on this machine", f"install a driver: {HOW_TO_GET_POCL}"
        )
    if target == "native":
        return min(real, key=lambda d: (d.cpu, d.index))
    wanted = target.lower()
    if wanted == "pocl":
        found = [d for d in devices if d.pocl]
    elif wanted.isdigit():
        found = [d for d in devices if d.index == int(wanted)]
    else:
        near = [(_distance(d, wanted), d) for d in devices]
        found = [d for far, d in sorted(near, key=lambda pair: pair[0]) if far < _NOWHERE]
    if not found:
        listed = "; ".join(f"{d.index}: {d.text}" for d in devices)
        raise SpecError(
            f"no OpenCL device fits target {target!r}",
            f"native, pocl, a number or a part of a name of {listed}",
        )
    return found[0]


_NOWHERE = 3


def _distance(device: Device, wanted: str) -> int:
    """How far a name is from a device's; PoCL's have in theirs the processor's, which its own driver gives it."""
    platform, name = device.platform.lower(), device.name.lower()
    if wanted in (platform, name):
        return 0
    if wanted in platform:
        return 1
    return 2 if wanted in name else _NOWHERE
