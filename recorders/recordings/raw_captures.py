"""Reads launches as a library in an application has captured them.

These are bytes from a process that may have crashed at any point: what is not whole is refused.
"""

from __future__ import annotations

import math
import mmap
import os
import struct
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from tuner.core.errors import MachineError, UsageError
from tuner.recorders.recordings.capture import KernelUse
from tuner.recorders.recordings.format import (
    Captured,
    RecordedArgument,
    Recording,
    parse_header,
    write_recording,
)

__all__ = ["RawCapture", "allocations", "read_raw", "representatives"]

_HEAD = struct.Struct("<QQ")
_NAME_BYTES = 256
_WITHOUT_VALUE = {0: "empty", 0x119C: "local"}
_ENVIRONMENT = ("OCL_ICD_VENDORS", "OCL_ICD_FILENAMES", "POCL_DEVICES", "CUDA_VISIBLE_DEVICES")


@dataclass(frozen=True, slots=True, kw_only=True)
class RawCapture:
    """A launch as the library wrote it, open for reading.

    Attributes:
        recording: what it says.
        contents: of its buffers by argument.
        wanted: which of the kernels that were asked for it is of; those may be given by other names than its own.
    """

    recording: Recording
    contents: Mapping[int, Captured]
    wanted: int = 0

    @property
    def changes_nothing(self) -> bool:
        """Whether all of its buffers hold afterwards what they held before."""
        pairs = (
            (np.frombuffer(c.before, "u1"), np.frombuffer(c.after, "u1")) for c in self.contents.values()
        )
        return all(np.array_equal(before, after) for before, after in pairs)

    def write(self, folder: Path, *, name: str, use: KernelUse | None = None) -> Path:
        """Writes the recording; its name tells what it is, so equal launches give one file.

        Raises:
            MachineError: it cannot be written.
        """
        recording = self.recording
        if use is not None and recording.signature in use.signatures:
            count, seconds = use.signatures[recording.signature]
            recording = replace(recording, count=count, seconds=seconds / count)
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix=".recording-") as scratch:
            draft = Path(scratch, "draft.rec")
            digest = write_recording(draft, recording, self.contents)
            path = folder / f"{name}-{digest[:12]}.rec"
            os.replace(draft, path)
        return path


def representatives(
    captures: Sequence[RawCapture], processes: Sequence[str], spent_s: Mapping[str, float], instances: int
) -> list[int]:
    """Which captures of one kernel stand for its launches: one of each kind, then repetitions.

    Kinds that took longest come first; of a kind those that changed something, of them the first process's, of these
    the last: what a program begins with may be data that it never has again, and what it ends with may change nothing.

    Args:
        captures: in the order of their launches.
        processes: that made them.
        spent_s: seconds that launches took, by signature.
        instances: how many are wanted.

    Returns:
        Their places, in order.
    """
    kinds: dict[str, list[int]] = {}
    for place, capture in enumerate(captures):
        kinds.setdefault(capture.recording.signature, []).append(place)
    order = {name: number for number, name in enumerate(dict.fromkeys(processes))}

    def late(place: int) -> tuple[bool, int, int]:
        return captures[place].changes_nothing, order[processes[place]], -place

    ranked = [sorted(kinds[kind], key=late) for kind in sorted(kinds, key=lambda k: -spent_s.get(k, 0.0))]
    return sorted([*(own[0] for own in ranked), *(place for own in ranked for place in own[1:])][:instances])


def read_raw(path: Path) -> RawCapture:
    """A launch as the library wrote it; its bytes stay in the file, which is closed with what looks at them last.

    Raises:
        MachineError: the file is not whole.
    """
    with path.open("rb") as file:
        view = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    return _capture_of(_fields(memoryview(view), path), path)


def _capture_of(fields: Mapping[str, memoryview], path: Path) -> RawCapture:
    """Raises ``MachineError`` for bytes that the library does not write."""
    try:
        recording = _recording(fields)
        contents = {
            number: Captured(before=fields[f"{number}/before"], after=fields[f"{number}/after"])
            for number, argument in enumerate(recording.arguments)
            if argument.kind == "buffer"
        }
        sizes = {n: recording.arguments[n].size_bytes for n in contents}
        whole = all(len(c.before) == len(c.after) == sizes[n] for n, c in contents.items())
        parse_header(recording.to_json(), path.name)
        wanted = int(fields["wanted"].cast("Q")[0]) if "wanted" in fields else 0
    except KeyError as missing:
        raise MachineError(f"{path.name} has no {missing}", "record it again") from None
    except (ValueError, TypeError, IndexError, OverflowError, UsageError):
        whole = False
    if not whole:
        raise MachineError(f"{path.name} is damaged", "record it again")
    return RawCapture(recording=recording, contents=contents, wanted=wanted)


def _fields(data: memoryview, path: Path) -> dict[str, memoryview]:
    fields: dict[str, memoryview] = {}
    at = 0
    while at + _HEAD.size <= len(data):
        name_size, size = _HEAD.unpack(data[at : at + _HEAD.size])
        start = at + _HEAD.size + name_size
        if name_size > _NAME_BYTES or start + size > len(data):
            break
        fields[bytes(data[at + _HEAD.size : start]).decode("ascii", "replace")] = data[start : start + size]
        at = start + size
    if "end" not in fields:
        raise MachineError(f"{path.name} is not whole", "record it again")
    return fields


def _recording(fields: Mapping[str, memoryview]) -> Recording:
    def shown(name: str) -> str:
        return bytes(fields.get(name, b"")).split(b"\0", 1)[0].decode("utf-8", "replace").strip()

    def text(name: str) -> str:
        return bytes(fields[name]).split(b"\0", 1)[0].decode("utf-8")

    def sizes(name: str) -> tuple[int, ...]:
        return tuple(int(n) for n in fields[name].cast("Q")) if name in fields else ()

    form = text("form")
    try:
        coded = form in ("il", "image")
        program = bytes(fields["text"]).hex() if coded else bytes(fields["text"]).decode("utf-8")
        entry, options = text("kernel"), text("options")
    except UnicodeDecodeError:
        raise MachineError("the program's source or options are not UTF-8", "it cannot be recorded") from None
    roots: dict[int, int] = {}
    count = int(fields["arguments"].cast("Q")[0])
    if count > len(fields):
        raise ValueError(count)
    arguments = tuple(_argument(fields, number, roots) for number in range(count))
    api = text("api") if "api" in fields else "opencl"
    if api == "c":
        arguments = allocations(arguments, {place: address for address, place in roots.items()})
    seconds = float(fields["seconds"].cast("d")[0])
    return Recording(
        api=api,
        entry=entry,
        form=form,
        text=program,
        options=options,
        arguments=arguments,
        global_size=sizes("global"),
        local_size=sizes("local"),
        offset=sizes("offset") or (0,) * len(sizes("global")),
        suggested=sizes("suggested"),
        shared_bytes=int(fields["shared"].cast("Q")[0]) if "shared" in fields else 0,
        inner=bool(fields["inner"].cast("Q")[0]) if "inner" in fields else False,
        device=shown("device"),
        platform=shown("platform"),
        driver=shown("driver"),
        signature=f"{int(fields['signature'].cast('Q')[0]):016x}",
        seconds=seconds if math.isfinite(seconds) else 0.0,
        environment={name: os.environ[name] for name in _ENVIRONMENT if name in os.environ},
    )


def _argument(fields: Mapping[str, memoryview], number: int, roots: dict[int, int]) -> RecordedArgument:
    if f"{number}/memory" in fields:
        place, size = fields[f"{number}/memory"].cast("Q")
        name = bytes(fields.get(f"{number}/name", b"")).decode("utf-8", "replace")
        return RecordedArgument(kind="buffer", size_bytes=size, root=number, place=place, name=name)
    if f"{number}/points" in fields:
        memory, offset = fields[f"{number}/points"].cast("Q")
        value = bytes(fields[f"{number}/value"])
        return RecordedArgument(
            kind="pointer", value=value, size_bytes=len(value), root=memory, offset=offset
        )
    address = int(fields[f"{number}/address"].cast("Q")[0]) if f"{number}/address" in fields else 0
    if f"{number}/buffer" in fields:
        root, offset, size, flags = fields[f"{number}/buffer"].cast("Q")
        return RecordedArgument(
            kind="buffer",
            size_bytes=size,
            root=roots.setdefault(root, len(roots)),
            offset=offset,
            flags=flags,
            address=address,
        )
    if f"{number}/value" in fields:
        value = bytes(fields[f"{number}/value"])
        return RecordedArgument(kind="scalar", value=value, size_bytes=len(value), address=address)
    size = int(fields[f"{number}/local"].cast("Q")[0])
    return RecordedArgument(kind=_WITHOUT_VALUE.get(address, "null"), size_bytes=size, address=address)


def allocations(
    arguments: Sequence[RecordedArgument], addresses: Mapping[int, int]
) -> tuple[RecordedArgument, ...]:
    """Arrays whose bytes overlap get one root: of addresses alone nothing else can be told.

    Args:
        arguments: of a function; a buffer's offset is what of it lies before the address that is passed.
        addresses: where the buffers begin, by their roots.
    """
    found = [i for i, a in enumerate(arguments) if a.kind == "buffer" and not a.place]
    buffers = sorted(found, key=lambda i: addresses[arguments[i].root])
    made = list(arguments)
    root, start, end = -1, 0, -1
    for i in buffers:
        address = addresses[arguments[i].root]
        if address >= end:
            root, start, end = root + 1, address, address
        made[i] = replace(arguments[i], root=root, offset=address - start, before=arguments[i].offset)
        end = max(end, address + arguments[i].size_bytes)
    return tuple(made)
