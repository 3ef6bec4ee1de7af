"""Calls of a C function through ctypes in this process: arguments, arrays before and after, by the extents of a spec.

Stands in the function's place on its library object, passes every call on as it came, and writes nothing until asked.
"""

from __future__ import annotations

import ctypes
import hashlib
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tuner.core.dtypes import numpy_dtype
from tuner.core.errors import MachineError, SpecError
from tuner.core.passing import Layout, Passed
from tuner.core.types import Argument, ArgumentRole
from tuner.recorders.recordings.c_text import bound_sizes
from tuner.recorders.recordings.capture import KernelUse
from tuner.recorders.recordings.format import Captured, RecordedArgument, Recording
from tuner.recorders.recordings.memory import in_a_row, pointer_at, read
from tuner.recorders.recordings.raw_captures import RawCapture, allocations, representatives
from tuner.recorders.recordings.views import plainly_passed

__all__ = ["CallRecorder"]

_MOST_BYTES = 1 << 40
_TOGETHER = "calls of several threads at once"
_RENEWED_BYTES = 1 << 30
"""That are copied for later calls of kinds that are kept already."""


class CallRecorder:
    """Called in the place of a function; its ``argtypes``, ``restype`` and all else are the function's own.

    Args:
        function: of a ``ctypes.CDLL``.
        entry: its name.
        arguments: of the spec, in call order, members in the place of structures; ``value: n`` binds the size ``n``.
        sizes: the values of sizes that no argument carries.
        instances: the most calls to keep; those that differ in scalars or sizes come first, and later ones that
            change something before earlier ones.
        passed: the function's parameters; empty where they are the arguments.
        layout: of the structures among them.
    """

    _thread: int

    def __init__(
        self,
        function: Any,
        entry: str,
        arguments: Sequence[Argument],
        *,
        sizes: Mapping[str, int],
        instances: int,
        passed: Sequence[Passed] = (),
        layout: Layout | None = None,
    ) -> None:
        own = vars(self)
        own["_function"] = function
        own["_arguments"] = tuple(arguments)
        own["_passed"] = tuple(passed) or plainly_passed(arguments)
        own["_layout"] = layout or Layout()
        own["_rows"] = frozenset(_rows(passed))
        own["_bound"] = bound_sizes(arguments)
        own["_sizes"] = dict(sizes)
        own["_instances"] = instances
        own["_room"] = instances + 1
        own["_lock"] = threading.Lock()
        own["_others"] = False
        own["_thread"] = 0
        own["_kept"] = []
        own["_launches"], own["_due"], own["_renewed_bytes"] = Counter(), Counter(), 0
        own["use"] = KernelUse(name=entry, program="0")

    def __getattr__(self, name: str) -> Any:
        return getattr(vars(self)["_function"], name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in vars(self):
            vars(self)[name] = value
        else:
            setattr(self._function, name, value)

    def __call__(self, *given: Any) -> Any:
        """The function's result; the call is captured where it can be."""
        if self._thread == threading.get_ident():
            # Called from within itself: the outermost call is recorded.
            return self._function(*given)
        if not self._lock.acquire(blocking=False):
            # What either changes would be taken for the other's.
            self._others = True
            self.use.count("", 0.0, _TOGETHER)
            return self._function(*given)
        try:
            self._others = False
            self._thread = threading.get_ident()
            return self._captured(given)
        finally:
            self._thread = 0
            self._lock.release()

    def write(self, folder: Path, name: str) -> tuple[Path, ...]:
        """Writes what was kept, each with the number and the mean time of its kind.

        Raises:
            MachineError: it cannot be written.
        """
        spent_s = {signature: self._spent_s(signature) for signature in self.use.signatures}
        places = representatives(self._kept, [""] * len(self._kept), spent_s, self._instances)
        kept = [self._kept[place] for place in places]
        return tuple(dict.fromkeys(one.write(folder, name=name, use=self.use) for one in kept))

    def _captured(self, given: Sequence[Any]) -> Any:
        reason, recording, places = "", None, dict[int, tuple[int, int]]()
        before: dict[int, memoryview] = {}
        try:
            recording, places = self._described(given)
            wanted = self._place_for(recording.signature)
            if wanted is not None:
                before = self._contents(places)
        except (SpecError, MachineError) as error:
            reason, wanted = error.message, None
        begin = time.perf_counter()
        result = self._function(*given)
        seconds = time.perf_counter() - begin
        if recording is not None and wanted is not None and self._others:
            reason = _TOGETHER
        if recording is not None and wanted is not None and not reason:
            try:
                after = self._contents(places)
                held = {n: Captured(before=before[n], after=after[n]) for n in before}
                self._keep(wanted, RawCapture(recording=recording, contents=held))
            except MachineError as error:
                reason = error.message
        self.use.count(recording.signature if recording else "", seconds, reason)
        return result

    def _contents(self, places: Mapping[int, tuple[int, int]]) -> dict[int, memoryview]:
        return {n: memoryview(read(*place, self._arguments[n].name)) for n, place in places.items()}

    def _place_for(self, signature: str) -> int | None:
        """Where a call goes: behind those that are kept, in the place of one of them, or nowhere.

        As ``captures.c`` has it for libraries that stand before an application's own.
        """
        self._launches[signature] += 1
        signatures = [kept.recording.signature for kept in self._kept]
        if len(signatures) < self._room:
            return len(signatures)
        # The first one stays.
        behind = range(1, len(signatures))
        if signature not in signatures:
            repeated = next((i for i in behind if signatures.count(signatures[i]) > 1), None)
            least = min(behind, key=lambda i: self._spent_s(signatures[i]), default=None)
            longer = least is not None and self._spent_s(signature) > 2 * self._spent_s(signatures[least])
            return least if repeated is None and longer else repeated
        oldest = next((i for i in behind if signatures[i] == signature), None)
        launches = self._launches[signature]
        if (
            oldest is None
            or launches < self._due[signature]
            or self._renewed_bytes + _size(self._kept[oldest]) > _RENEWED_BYTES
        ):
            return None
        # One that fails is tried again after some more.
        self._due[signature] = launches + launches // 8 + 1
        return oldest

    def _spent_s(self, signature: str) -> float:
        return float(self.use.signatures.get(signature, (0, 0.0))[1])

    def _keep(self, place: int, capture: RawCapture) -> None:
        signature = capture.recording.signature
        if place < len(self._kept) and self._kept.pop(place).recording.signature == signature:
            vars(self)["_renewed_bytes"] += _size(capture)
        self._kept.append(capture)
        self._due[signature] = 2 * self._launches[signature]

    def _described(self, given: Sequence[Any]) -> tuple[Recording, dict[int, tuple[int, int]]]:
        if len(given) != len(self._passed):
            raise SpecError(f"it is called with {len(given)} arguments, the spec lists {len(self._passed)}")
        values: dict[int, bytes] = {}
        addresses: dict[int, int] = {}
        kinds = [*(self._function.argtypes or ()), *([None] * len(given))]
        for value, kind, one in zip(given, kinds, self._passed, strict=False):
            value = _passed_as(value, kind)
            if one.members:
                base = (
                    ctypes.addressof(value)
                    if isinstance(value, ctypes.Structure)
                    else _address(value, one.name)
                )
                self._members(one, base, values, addresses)
                continue
            assert one.argument is not None
            argument = self._arguments[one.argument]
            if argument.value is not None:
                values[one.argument] = (_pointed if argument.by_pointer else _scalar)(value, argument)
            else:
                addresses[one.argument] = _address(value, argument.name)
        places = self._extents(values, addresses)
        made = [
            RecordedArgument(kind="buffer", size_bytes=places[number][1], root=number)
            if number in places
            else RecordedArgument(kind="scalar", value=values[number], size_bytes=len(values[number]))
            for number in range(len(self._arguments))
        ]
        sign = hashlib.sha256(b"".join(values.values()) + repr([s for _, s in places.values()]).encode())
        arguments = allocations(made, {n: address for n, (address, _) in places.items()})
        recording = Recording(
            api="c", entry=self.use.name, arguments=arguments, signature=sign.hexdigest()[:16]
        )
        return recording, places

    def _members(
        self, structure: Passed, base: int, values: dict[int, bytes], addresses: dict[int, int]
    ) -> None:
        """What a structure at an address holds, and what its pointers lead to."""
        try:
            read(base, self._layout.sizes[structure.name])
        except MachineError:
            raise SpecError(f"{structure.name} leads to no memory") from None
        for member in structure.reached:
            at = base + self._layout.offsets[member.name]
            if member.members:
                self._members(member, pointer_at(at, member.name), values, addresses)
                continue
            assert member.argument is not None
            argument = self._arguments[member.argument]
            if not member.by_value:
                at = pointer_at(at, member.name)
            # A number that the function only reads is recorded by its value.
            only_read = argument.value is not None and argument.role is ArgumentRole.INPUT
            if argument.is_array and not only_read:
                addresses[member.argument] = at
            else:
                values[member.argument] = read(at, np.dtype(argument.dtype).itemsize)

    def _extents(
        self, values: Mapping[int, bytes], addresses: Mapping[int, int]
    ) -> dict[int, tuple[int, int]]:
        """Address and bytes of every array, by the sizes that the numbers carry."""
        env = dict(self._sizes)
        for name, number in self._bound.items():
            dtype = np.dtype(self._arguments[number].dtype)
            # A number that the function writes is there by its address.
            held = values[number] if number in values else read(addresses[number], dtype.itemsize)
            number_held = np.frombuffer(held, dtype)[0]
            if not np.isfinite(number_held):
                raise SpecError(f"the size {name} is {number_held}")
            env[name] = int(number_held)
        places = {}
        for number, address in sorted(addresses.items()):
            argument = self._arguments[number]
            size = int(numpy_dtype(argument.dtype).itemsize)
            extents = [extent.integer(env) for extent in argument.shape or ()]
            for extent in extents:
                size *= extent
            if not 0 < size <= _MOST_BYTES or min(extents) < 1:
                raise SpecError(f"an extent of the spec is no size here: of {argument.name}")
            if number in self._rows:
                address = in_a_row(address, extents[0], size // extents[0], argument.name)
            places[number] = address, size
        return places


def _rows(passed: Sequence[Passed]) -> Iterator[int]:
    """The arrays that are passed by the addresses of their rows."""
    for one in passed:
        if one.rows and one.argument is not None:
            yield one.argument
        yield from _rows(one.members)


def _scalar(value: Any, argument: Argument) -> bytes:
    plain = getattr(value, "value", value)
    try:
        return np.array(plain, np.dtype(argument.dtype)).tobytes()
    except (TypeError, ValueError, OverflowError):
        raise SpecError(
            f"{argument.name} is passed as {type(value).__name__}, not as {argument.dtype}"
        ) from None


def _size(capture: RawCapture) -> int:
    return sum(c.before.nbytes + c.after.nbytes for c in capture.contents.values())


def _passed_as(value: Any, kind: Any) -> Any:
    """What ctypes passes: the address where the function is declared with a pointer and gets what it points to."""
    pointed: Any = getattr(kind, "_type_", None)
    if isinstance(pointed, type) and isinstance(kind, type) and issubclass(kind, ctypes._Pointer):
        given: Any = value
        return ctypes.byref(given) if isinstance(value, pointed) else value
    return value


def _pointed(value: Any, argument: Argument) -> bytes:
    try:
        return read(_address(value, argument.name), np.dtype(argument.dtype).itemsize)
    except MachineError:
        raise SpecError(f"{argument.name} points to no {argument.dtype}") from None


def _address(value: Any, name: str) -> int:
    """Where an array argument begins: of NumPy arrays, ctypes pointers and arrays, ``byref`` and plain addresses."""
    if hasattr(value, "__array_interface__"):
        return int(value.__array_interface__["data"][0])
    value = getattr(value, "_as_parameter_", value)
    if isinstance(value, int):
        return value
    try:
        found = ctypes.cast(value, ctypes.c_void_p).value
    except ctypes.ArgumentError:
        raise SpecError(f"{name} is passed as {type(value).__name__}, which is no pointer") from None
    if not found:
        raise SpecError(f"{name} is a null pointer")
    return found
