"""What is fed with bytes of a stranger: each target takes any bytes and may only end well or with a one-line error.

Imported in the process that is fuzzed. A target that raises anything but the errors that it names has a fault.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from _common import EXAMPLES

import tuner
from tuner.core.errors import RecordError, SpecError, TunerError, UsageError
from tuner.core.expressions import parse
from tuner.core.types import Kernel, Source, Variant
from tuner.driver.audit import audit
from tuner.driver.options import Options
from tuner.driver.outcome.frames import read_rows
from tuner.driver.runs import begin
from tuner.recorders.audit import audit_file
from tuner.recorders.record import Event, RunRecord
from tuner.recorders.recordings.format import (
    Captured,
    RecordedArgument,
    Recording,
    RecordingFile,
    write_recording,
)
from tuner.report.page import report_page
from tuner.search.llm.decode import Malformed, decode
from tuner.search.llm.offspring import variant_of
from tuner.search.llm.reply import read_reply
from tuner.spaces.pipeline import Pipeline
from tuner.spaces.source.edits import apply_edits
from tuner.spaces.source.regions import read_program
from tuner.spec.load import load_recorded, load_spec
from tuner.testing import SimulatedBackend

__all__ = ["TARGETS", "Target"]


@dataclass(frozen=True, slots=True)
class Target:
    """One thing to feed.

    Attributes:
        feed: takes the bytes.
        seeds: good inputs to start from.
        words: that the format knows.
    """

    feed: Callable[[bytes], None]
    seeds: Callable[[], list[bytes]]
    words: tuple[str, ...] = ()


KERNEL = """\
// EVOLVE-BLOCK-START
void k(const float *a, float *b, int n)
{
    for (int i = 0; i < n; i++)
        b[i] = a[i] + 1.0f;
}
// EVOLVE-BLOCK-END
"""
SPEC = """\
kernel: {source: k.c, entry: k}
problems: [{n: 64, weight: 2.0}, {n: 128}]
arguments:
  - {name: a, dtype: float32, shape: [n], init: {uniform: [-1, 1]}}
  - {name: b, dtype: float32, shape: [n], role: output}
  - {name: n, dtype: int32, value: n}
space:
  parameters: {TILE: [1, 2, 4], UNROLL: {low: 1, high: 8, log: true}}
  constraints: ["TILE <= UNROLL"]
  flags: {math: ["", "-ffast-math"]}
  passes: off
verify: {rtol: 1.0e-5, problems: [{n: 3}], assume: ["n >= 1"]}
measure: {cache: warm, threads: 1}
search: {strategy: random, seed: 1, budget: {evaluations: 12}}
"""
_NAMES = {"n": 64, "TILE": 4, "x": 0.5, "s": "fast"}
_VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 1 << 70, 1e300, -0.5, "", "x", "ok", "blob:" + "0" * 64, [], {}, [[]],
    [None], {"a": 1}, "n", [1e-3, "x"], 3, 5, "improved", ["a", 1],
)  # fmt: skip


def _folder() -> Path:
    base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    return Path(tempfile.mkdtemp(prefix="tuner-fuzz-", dir=base))


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _one_line(error: TunerError) -> None:
    if "\n" in str(error):
        raise AssertionError(f"an error of several lines: {error}")


def _expressions(data: bytes) -> None:
    try:
        made = parse(_text(data))
        made.evaluate(_NAMES)
        made.integer(_NAMES)
    except SpecError as error:
        _one_line(error)


def _spec(data: bytes) -> None:
    try:
        loaded = load_recorded(_text(data), {"k.c": KERNEL}, folder="/nowhere")
        if not loaded.wants_passes:
            loaded.space(None)
    except SpecError as error:
        _one_line(error)
        return
    again = load_recorded(_text(data), loaded.files, folder="/nowhere")
    if again.task != loaded.task:
        raise AssertionError("the same spec is another task when it is read again")


def _pipelines(data: bytes) -> None:
    try:
        made = Pipeline.parse(_text(data))
    except SpecError as error:
        _one_line(error)
        return
    if Pipeline.parse(made.text) != made:
        raise AssertionError("a pipeline is not what its text says")


def _kernel(text: str) -> Kernel:
    variant = Variant(files=(Source(name="k.c", text=text),))
    return Kernel(name="k", entry="k", language="c", variant=variant, folder="")


def _source(data: bytes) -> None:
    try:
        apply_edits(read_program(_kernel(_text(data))), ())
    except SpecError as error:
        _one_line(error)


def _replies(data: bytes) -> None:
    base = apply_edits(read_program(_kernel(KERNEL)), ())
    variant_of(read_reply(_text(data), regions=1), base, model="m", taken={"n"}, known=(), note={})


def _bodies(data: bytes) -> None:
    try:
        decode(data)
    except Malformed:
        pass


class _Recordings:
    """Files with a good hash around anything."""

    def __init__(self) -> None:
        self._path = _folder() / "a.rec"

    def seeds(self) -> list[bytes]:
        content = memoryview(bytes(range(64)))
        recording = Recording(
            api="opencl",
            entry="k",
            form="source",
            text="__kernel void k(__global char *x, int n) {}",
            arguments=(
                RecordedArgument(kind="buffer", size_bytes=len(content), root=0),
                RecordedArgument(kind="scalar", value=b"\1\0\0\0", size_bytes=4),
            ),
            global_size=(64,),
            local_size=(8,),
            offset=(0,),
        )
        write_recording(self._path, recording, {0: Captured(before=content, after=memoryview(bytes(64)))})
        return [self._path.read_bytes()[:-32]]

    def feed(self, data: bytes) -> None:
        import hashlib

        self._path.write_bytes(data + hashlib.sha256(data).digest())
        try:
            with RecordingFile(self._path) as file:
                for number, argument in enumerate(file.recording.arguments):
                    if argument.kind == "buffer":
                        file.changed(number)
        except UsageError as error:
            _one_line(error)


class _Records:
    """Run records: as files with any byte changed, and made anew with a good chain around changed events."""

    def __init__(self) -> None:
        self._folder = _folder()
        self._blobs: dict[str, bytes] = {}
        self._events: list[Event] = []
        self._places: list[tuple[int, tuple[Any, ...]]] = []

    def _run(self) -> Path:
        path = self._folder / "good.run"
        if not path.exists():
            (self._folder / "k.c").write_text(KERNEL)
            (self._folder / "k.yaml").write_text(SPEC)
            (spec,) = load_spec(self._folder / "k.yaml")
            backend = SimulatedBackend(seconds=lambda r: 1e-3 / int(r.macros["TILE"]))
            begin(spec, path, Options(seed=1, workers=1), backend=backend)
        return path

    def file_seeds(self) -> list[bytes]:
        return [self._run().read_bytes()]

    def file(self, data: bytes) -> None:
        path = self._folder / "changed.run"
        path.write_bytes(data)
        try:
            audit_file(path)
            with RunRecord.read(path) as record:
                for _ in record.events():
                    pass
        except TunerError as error:
            _one_line(error)

    def event_seeds(self) -> list[bytes]:
        self._run()
        return [bytes([0, 0, 0, 0]), bytes([1, 4, 2, 1, 9, 3])]

    def events(self, data: bytes) -> None:
        """Each five bytes change one thing: which place (2), how (1), to what (2)."""
        if not self._events:
            self._read()
        events = list(self._events)
        for at in range(0, min(len(data), 15) - 4, 5):
            self._change(events, data[at : at + 5])
        path = self._folder / "forged.run"
        for left in self._folder.glob("forged.run*"):
            left.unlink()
        try:
            with RunRecord.create(path) as record:
                record.append(events, self._blobs)
        except RecordError as error:
            # Such a record cannot be written by this project's own means.
            _one_line(error)
            return
        try:
            audit(path)
            read_rows(path)
            tuner.load(path).to_json()
            report_page(path, audit=False)
        except TunerError as error:
            _one_line(error)

    def _read(self) -> None:
        with RunRecord.read(self._run()) as record:
            for number, event in enumerate(record.events()):
                self._events.append(Event(event.kind, event.body, event.trial))
                self._places += [(number, path) for path in _paths(event.body)]
                for name in _references(event.body):
                    self._blobs[name] = record.blob(name)

    def _change(self, events: list[Event], code: bytes) -> None:
        number, path = self._places[int.from_bytes(code[:2], "little") % len(self._places)]
        how, value = code[2] % 8, _VALUES[code[3] % len(_VALUES)]
        number = min(number, len(events) - 1)
        if how == 0 and len(events) > 1:
            del events[number]
        elif how == 1:
            events.insert(number, events[code[4] % len(events)])
        elif how == 2:
            other = code[4] % len(events)
            events[number] = Event(events[other].kind, events[number].body, events[number].trial)
        elif how == 3:
            events[number] = Event(
                events[number].kind, events[number].body, code[4] if code[4] < 200 else None
            )
        else:
            body = json.loads(json.dumps(events[number].body))
            _set(body, path, value, delete=how == 4)
            events[number] = Event(events[number].kind, body, events[number].trial)


def _paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path] if path else []
    items: Any = (
        value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
    )
    for key, item in items:
        found += _paths(item, (*path, key))
    return found


def _set(body: Any, path: tuple[Any, ...], value: Any, *, delete: bool) -> None:
    try:
        for part in path[:-1]:
            body = body[part]
        if delete:
            del body[path[-1]]
        else:
            body[path[-1]] = value
    except (LookupError, TypeError):
        # An earlier change has taken the place away.
        pass


def _references(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value.removeprefix("blob:")] if value.startswith("blob:") else []
    inner: Any = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return [name for item in inner for name in _references(item)]


def _examples() -> list[bytes]:
    return [SPEC.encode(), *(p.read_bytes() for p in sorted(EXAMPLES.glob("*/*.yaml"))[:12])]


_RECORDINGS, _RECORDS = _Recordings(), _Records()
_REPLY = (
    b"<<<<<<< SEARCH\n        b[i] = a[i] + 1.0f;\n=======\n        b[i] = 1.0f + a[i];\n>>>>>>> REPLACE\n"
)
_WHOLE = b"```region 1\nvoid k(const float *a, float *b, int n)\n{\n}\n```\n"
_BODY = (
    b'{"choices": [{"message": {"content": "x"}, "finish_reason": "stop"}], "usage": {"prompt_tokens": 3}}'
)

TARGETS: dict[str, Target] = {
    "expressions": Target(
        _expressions,
        lambda: [b"ceil(n / (TILE * 4)) + min(n, 3) if n > 1 else log2(8)", b"s == 'fast' and not n % 3 ** 2"],
        ("ceil", "floor", "min", "max", "log2", "abs", "**", "//", "and", "or", "not", "TILE", "==", "<="),
    ),
    "spec": Target(_spec, _examples, ("kernel", "arguments", "problem", "space", "parameters", "verify", "&a", "*a")),
    "pipelines": Target(_pipelines, lambda: [b"default<O3>,function(loop-mssa(licm<a;b>),gvn<no-pre>)"]),
    "source": Target(_source, lambda: [KERNEL.encode()], ("for", "EVOLVE-BLOCK-START", "#if", "#endif", "/*", "*/")),
    "replies": Target(
        _replies,
        lambda: [_REPLY, _WHOLE, b"```tunables\nS: [1, 2] = 2\n```"],
        ("<<<<<<< SEARCH", "=======", ">>>>>>> REPLACE", "```region 1", "```tunables", "```"),
    ),
    "bodies": Target(_bodies, lambda: [_BODY, b"data: " + _BODY.replace(b"message", b"delta") + b"\n\ndata: [DONE]\n"]),
    "recordings": Target(_RECORDINGS.feed, _RECORDINGS.seeds, ("arguments", "chunks", "buffers", "size_bytes")),
    "record files": Target(_RECORDS.file, _RECORDS.file_seeds),
    "record events": Target(_RECORDS.events, _RECORDS.event_seeds),
}  # fmt: skip

if not sys.flags.dev_mode:
    # A warning of a parser about a stranger's text is no business of who runs this.
    import warnings

    warnings.simplefilter("ignore")
