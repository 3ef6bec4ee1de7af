"""Feeds what reads bytes of strangers with bytes that coverage leads to (atheris) or that are made up (hypothesis).

    pip install atheris
    python benchmarks/fuzz.py [--seconds 60] [--targets spec,replies] [--engine atheris|hypothesis] [--json]

Every target runs in a process of its own. A fault is anything but a good end or a one-line error, and every case that
takes over two seconds of processor time; the bytes of each are kept in the folder that ``--keep`` names.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import json
import mmap
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any

from _common import emit, note, parser, table

_SLOW_S = 2.0
_MOST_FAULTS = 20
_MOST_BYTES = 1 << 13
_NAMES = (
    "expressions", "spec", "pipelines", "source", "replies", "bodies", "recordings", "record files", "record events",
)  # fmt: skip


class _Watched:
    """One target with a count of its cases and a note of every kind of fault, in a file that outlives the process."""

    def __init__(self, target: str, report: Path, keep: Path | None) -> None:
        from _fuzz_targets import TARGETS

        self._feed = TARGETS[target].feed
        self._name, self._report, self._keep = target.replace(" ", "-"), report, keep
        self._faults: dict[str, str] = {}
        (report / "cases").write_bytes(bytes(8))
        with (report / "cases").open("r+b") as file:
            self._cases = mmap.mmap(file.fileno(), 8)

    def __call__(self, data: bytes) -> None:
        started = time.process_time()
        try:
            self._feed(data)
        except Exception as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            self._note(
                f"{type(error).__name__} at {Path(place.filename).name}:{place.lineno}: {error}"[:300], data
            )
        seconds = time.process_time() - started
        if seconds > _SLOW_S:
            self._note(f"took over {_SLOW_S:.0f} s", data)
        self._cases[:8] = (int.from_bytes(self._cases[:8], "little") + 1).to_bytes(8, "little")

    def _note(self, what: str, data: bytes) -> None:
        kind = what.split(": ")[0]
        if kind in self._faults or len(self._faults) >= _MOST_FAULTS:
            return
        self._faults[kind] = what
        (self._report / "faults.json").write_text(json.dumps(self._faults))
        if self._keep is not None:
            name = f"{self._name}-{hashlib.sha256(kind.encode()).hexdigest()[:8]}"
            (self._keep / name).write_bytes(data)


def _by_atheris(target: str, seconds: int, report: Path, keep: Path | None) -> None:
    import atheris

    with atheris.instrument_imports(include=["tuner"], enable_loader_override=False):
        from _fuzz_targets import TARGETS
    watched = _Watched(target, report, keep)
    corpus = report / "corpus"
    corpus.mkdir()
    for number, seed in enumerate(TARGETS[target].seeds()):
        (corpus / str(number)).write_bytes(seed)
    options = [
        f"-max_total_time={seconds}",
        f"-max_len={_MOST_BYTES}",
        "-verbosity=0",
        "-print_final_stats=0",
    ]
    if TARGETS[target].words:
        words = report / "words"
        words.write_text("".join(f"{json.dumps(word)}\n" for word in TARGETS[target].words))
        options.append(f"-dict={words}")
    if target == "record files":
        options[1] = f"-max_len={1 << 18}"
    atheris.Setup([sys.argv[0], *options, f"-artifact_prefix={report}/", str(corpus)], watched)
    atheris.Fuzz()


def _by_hypothesis(target: str, seconds: int, report: Path, keep: Path | None) -> None:
    from _fuzz_targets import TARGETS
    from hypothesis import HealthCheck, Phase, given, settings
    from hypothesis import strategies as st

    watched = _Watched(target, report, keep)
    seeds = TARGETS[target].seeds()
    words = [w.encode() for w in TARGETS[target].words] or [b"0"]
    until = time.monotonic() + seconds
    pieces = st.one_of(st.binary(max_size=24), st.sampled_from(words), st.text(max_size=12).map(str.encode))

    @settings(
        deadline=None, max_examples=1 << 30, database=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(
        st.sampled_from(seeds), st.lists(st.tuples(st.floats(0, 1), st.integers(0, 30), pieces), max_size=4)
    )
    def feed(seed: bytes, changes: list[tuple[float, int, bytes]]) -> None:
        if time.monotonic() > until:
            raise KeyboardInterrupt
        data = bytearray(seed)
        for place, length, piece in changes:
            at = int(place * len(data))
            data[at : at + length] = piece
        watched(bytes(data))

    with contextlib.suppress(KeyboardInterrupt):
        feed()


def _run(target: str, engine: str, seconds: int, keep: Path | None) -> dict[str, Any]:
    """One target in a process of its own."""
    with tempfile.TemporaryDirectory() as name:
        command = [sys.executable, __file__, "--inside", name, "--targets", target, "--engine", engine]
        command += ["--seconds", str(seconds), *(["--keep", str(keep)] if keep else [])]
        log = Path(name, "log")
        with log.open("wb") as file:
            done = subprocess.run(command, check=False, stdout=file, stderr=file, timeout=seconds + 300)
        cases = Path(name, "cases")
        found = Path(name, "faults.json")
        faults = list(json.loads(found.read_text()).values()) if found.exists() else []
        if done.returncode:
            faults.append(
                f"the process ended with {done.returncode}: {log.read_text(errors='replace')[-300:]}"
            )
        count = int.from_bytes(cases.read_bytes(), "little") if cases.exists() else 0
        return {"cases": count, "faults": faults}


def main() -> None:
    """Runs all targets, or those that are named."""
    arguments = parser(__doc__)
    arguments.add_argument("--seconds", type=int, default=60, help="for each target")
    arguments.add_argument("--targets", default="", help="comma separated; all when left out")
    arguments.add_argument("--engine", choices=("atheris", "hypothesis"), default="atheris")
    arguments.add_argument("--keep", type=Path, help="a folder for the bytes of every fault")
    arguments.add_argument("--inside", type=Path, help="used by this program itself")
    given = arguments.parse_args()
    wanted = [name for name in given.targets.split(",") if name] or list(_NAMES)
    unknown = sorted(set(wanted) - set(_NAMES))
    if unknown:
        arguments.error(f"no target {', '.join(unknown)}; there are {', '.join(_NAMES)}")
    if given.inside:
        work = _by_atheris if given.engine == "atheris" else _by_hypothesis
        work(wanted[0], given.seconds, given.inside, given.keep)
        return
    if importlib.util.find_spec(given.engine) is None:
        arguments.error(f"{given.engine} is not installed: pip install {given.engine}")
    if given.keep:
        given.keep.mkdir(parents=True, exist_ok=True)
    results = {}
    for name in wanted:
        note(name)
        results[name] = _run(name, given.engine, given.seconds, given.keep)
        for fault in results[name]["faults"]:
            note(f"  {fault}")
    body = [[name, r["cases"], len(r["faults"])] for name, r in results.items()]
    figures = {"fuzz": {"engine": given.engine, "seconds": given.seconds, "targets": results}}
    emit(given.json, figures, table(["target", "cases", "faults"], body))
    sys.exit(1 if any(r["faults"] for r in results.values()) else 0)


if __name__ == "__main__":
    main()
