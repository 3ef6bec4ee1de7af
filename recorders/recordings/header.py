"""What a recording says of its launch, and its form as JSON, read again from bytes of unknown origin.

Knows neither files nor the contents of buffers: :mod:`tuner.recorders.recordings.format` holds those.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from tuner.core.errors import UsageError

__all__ = ["RecordedArgument", "Recording", "parse_header"]

_MOST_BYTES = 1 << 40
_MOST_ARGUMENTS = 4096
_LARGEST_SCALAR = 1 << 16
_MOST_SHARED = 1 << 32
_KINDS = ("scalar", "pointer", "buffer", "local", "null", "empty")
_FORMS = ("source", "il", "image", "none")
_APIS = ("opencl", "cuda", "c")
_HINT = "record it again"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedArgument:
    """One argument of the launch, in call order.

    Attributes:
        kind: ``scalar`` (passed by value), ``buffer``, ``local`` (memory of a work-group, without content),
            ``null``, or ``empty``: one of these two, and only the program tells which. CUDA has ``pointer``: the
            address of something in memory; its buffers follow the kernel's parameters and are no parameters.
        value: a scalar's or a pointer's bytes.
        size_bytes: of the value, or of what the argument reaches.
        root: equal for arguments that lie in one allocation; of a pointer, and of CUDA's buffers, the number of the
            buffer that holds it; -1 for no buffer.
        offset: where a buffer's first byte, or what a pointer points to, lies in its allocation.
        before: bytes of a buffer that lie before the address that a function gets.
        flags: of the allocation, as the API counts them.
        address: the parameter's address space, as the API counts it; 0 where it does not say.
        place: where a buffer began in the device's memory; 0 where the API does not say.
        name: of the module's variable that a buffer is; empty for any other.
    """

    kind: str
    value: bytes = b""
    size_bytes: int = 0
    root: int = -1
    offset: int = 0
    before: int = 0
    flags: int = 0
    address: int = 0
    place: int = 0
    name: str = ""

    def overlaps(self, other: RecordedArgument) -> bool:
        """Whether two buffers share bytes."""
        if self.root != other.root or self.root < 0:
            return False
        return self.offset < other.offset + other.size_bytes and other.offset < self.offset + self.size_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """What a recording says, without the contents of its buffers.

    Attributes:
        api: ``opencl``, ``cuda``, or ``c`` for a function of a library or an executable.
        entry: the kernel.
        form: what ``text`` is: ``source``, ``il`` or ``image`` (a cubin, fat binary or PTX), both hexadecimal, or
            ``none``.
        text: the program.
        options: it was built with.
        arguments: in call order.
        global_size, local_size, offset: of the launch; empty where there is none. ``local_size`` is empty where the
            application left it to the driver; ``suggested`` is then what the driver says that it takes.
        shared_bytes: of dynamic shared memory that the launch gives a block; OpenCL's stands in the arguments.
        inner: whether something in memory, or inside a structure, points to memory: it has to lie where it lay.
        device, platform, driver: where it ran.
        signature: equal for launches of one program with one geometry and equal scalars and sizes.
        count: launches with this signature that the application made.
        seconds: of one of them, the mean over all, with everything before and after it finished.
        environment: of the application, what is known of it by name.
    """

    api: str
    entry: str
    form: str = "none"
    text: str = ""
    options: str = ""
    arguments: tuple[RecordedArgument, ...]
    global_size: tuple[int, ...] = ()
    local_size: tuple[int, ...] = ()
    offset: tuple[int, ...] = ()
    suggested: tuple[int, ...] = ()
    shared_bytes: int = 0
    inner: bool = False
    device: str = ""
    platform: str = ""
    driver: str = ""
    signature: str = ""
    count: int = 1
    seconds: float = 0.0
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def block(self) -> tuple[int, ...]:
        """Work-items of a group along each axis: as launched, as the driver suggests, or empty for neither."""
        return self.local_size or self.suggested

    def to_json(self) -> dict[str, Any]:
        """Plain JSON."""
        data: dict[str, Any] = {name: getattr(self, name) for name in _TEXTS}
        data |= {name: list(getattr(self, name)) for name in _SIZES}
        arguments = [{**asdict(a), "value": a.value.hex()} for a in self.arguments]
        return data | {
            "arguments": arguments,
            "shared_bytes": self.shared_bytes,
            "inner": self.inner,
            "count": self.count,
            "seconds": self.seconds,
            "environment": dict(self.environment),
        }


_TEXTS = ("api", "entry", "form", "text", "options", "device", "platform", "driver", "signature")
_SIZES = ("global_size", "local_size", "offset", "suggested")


def parse_header(data: Any, origin: str) -> Recording:
    """A recording from :meth:`Recording.to_json`.

    Args:
        data: plain JSON of unknown origin.
        origin: for messages.

    Raises:
        UsageError: anything that :func:`write_recording` would not write.
    """

    def need(holds: bool, what: str) -> None:
        if not holds:
            raise UsageError(f"{origin}: {what}", _HINT)

    need(isinstance(data, dict), "its header holds no launch")
    for name in _TEXTS:
        need(_is_text(data.get(name)), f"{name} is no text")
    need(data["api"] in _APIS and data["form"] in _FORMS, "its API or the form of its program is not known")
    need(bool(data["entry"]), "the kernel has no name")
    for name in _SIZES:
        sizes = data.get(name)
        need(isinstance(sizes, list) and len(sizes) <= 3, f"{name} is no list of at most three numbers")
        least = 0 if name == "offset" else 1
        need(
            all(type(n) is int and least <= n < 1 << 63 for n in sizes), f"{name} holds what no launch takes"
        )
        need(not sizes or len(sizes) == len(data["global_size"]), f"{name} has another number of axes")
    arguments = data.get("arguments")
    need(isinstance(arguments, list) and len(arguments) <= _MOST_ARGUMENTS, "arguments is no list")
    count, seconds = data.get("count"), data.get("seconds")
    need(type(count) is int and count >= 1, "count is no number of launches")
    need(type(seconds) in (int, float) and math.isfinite(seconds) and seconds >= 0, "seconds is no time")
    shared_bytes, inner = data.get("shared_bytes", 0), data.get("inner", False)
    need(type(shared_bytes) is int and 0 <= shared_bytes <= _MOST_SHARED, "shared_bytes is no size")
    need(type(inner) is bool, "inner is neither true nor false")
    environment = data.get("environment")
    need(
        isinstance(environment, dict) and all(_is_text(v) for pair in environment.items() for v in pair),
        "environment is no mapping of texts",
    )
    plain: dict[str, Any] = {name: data[name] for name in _TEXTS}
    plain |= {name: tuple(data[name]) for name in _SIZES}
    made = tuple(_argument(a, i, need) for i, a in enumerate(arguments))
    for i, one in enumerate(made):
        if one.kind == "pointer":
            held = one.root < len(made) and made[one.root].kind == "buffer"
            need(held and one.offset < made[one.root].size_bytes, f"argument {i} points to nothing")
    return Recording(
        **plain,
        arguments=made,
        shared_bytes=shared_bytes,
        inner=inner,
        count=count,
        seconds=float(seconds),
        environment=environment,
    )


def _is_text(value: Any) -> bool:
    """Text that can be written to a file again: JSON may hold halves of characters."""
    try:
        return isinstance(value, str) and bool(value.encode() or True)
    except UnicodeEncodeError:
        return False


def _argument(data: Any, number: int, need: Any) -> RecordedArgument:
    what = f"argument {number} is damaged"
    need(isinstance(data, dict) and data.get("kind") in _KINDS and isinstance(data.get("value"), str), what)
    numbers = ("size_bytes", "root", "offset", "flags", "address")
    need(all(type(data.get(n)) is int and -1 <= data[n] < 1 << 64 for n in numbers), what)
    need(0 <= data["size_bytes"] <= _MOST_BYTES and data["offset"] >= 0, what)
    try:
        value = bytes.fromhex(data["value"])
    except ValueError:
        value = b"?" * (_LARGEST_SCALAR + 1)
    scalar = data["kind"] in ("scalar", "pointer")
    place, name, before = data.get("place", 0), data.get("name", ""), data.get("before", 0)
    need(type(place) is int and 0 <= place < 1 << 64 and _is_text(name), what)
    need(type(before) is int and 0 <= before <= data["size_bytes"], what)
    need(len(value) == (data["size_bytes"] if scalar else 0) and len(value) <= _LARGEST_SCALAR, what)
    need((data["root"] >= 0) == (data["kind"] in ("buffer", "pointer")), what)
    return RecordedArgument(
        kind=data["kind"],
        value=value,
        place=place,
        name=name,
        before=before,
        **{n: data[n] for n in numbers},
    )
