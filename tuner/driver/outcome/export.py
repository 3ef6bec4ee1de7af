"""Puts a run's best candidate where a build can use it."""

from __future__ import annotations

import contextlib
import difflib
import json
import math
import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

from tuner.core.compilers import BuildCompiler
from tuner.core.errors import RecordError, UsageError
from tuner.core.files import write_atomically
from tuner.core.source_text import lines_of_text, source_bytes, source_text, with_changes
from tuner.core.types import BASELINE, Resolved, Value, Variant
from tuner.driver.opening import open_lineup
from tuner.driver.outcome.outcome import Outcome, outcome
from tuner.driver.outcome.result import SCHEMA_VERSION
from tuner.driver.outcome.wise import merged_file, wisdom_of
from tuner.driver.state.run import RunState
from tuner.evaluators.host.flags import absolute_words
from tuner.evaluators.opencl.module import SPIRV, module_bytes
from tuner.recorders.record import RunRecord
from tuner.spaces.launch import geometry
from tuner.spaces.source.edits import apply_edits
from tuner.spaces.source.presenting import without_leftovers
from tuner.spaces.source.regions import read_program
from tuner.spec.load import LoadedSpec
from tuner.spec.preprocessed import build_requirement

__all__ = [
    "Exported",
    "ExportedFile",
    "WinnerSources",
    "best_object",
    "export",
    "export_run",
    "sources_of",
    "unified_patch",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedFile:
    """A file that was written.

    Attributes:
        kind: what it holds: ``object`` (host), ``code`` (devices), ``source``, ``patch``, ``wisdom``, ``result``,
            ``launch``, ``pipeline`` or ``script``.
        path: where.
    """

    kind: str
    path: Path

    def to_json(self) -> dict[str, Any]:
        """Plain JSON."""
        return {"kind": self.kind, "path": str(self.path)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """What of a run was written for a build.

    Attributes:
        result: of the run.
        trial: that was written.
        files: in the order in which they were written.
    """

    result: Outcome
    trial: int
    files: tuple[ExportedFile, ...]

    def to_json(self) -> dict[str, Any]:
        """The object behind ``tuner export --json``."""
        summary = self.result.summary
        value, low, high = summary.speedup
        return {
            "schema_version": SCHEMA_VERSION,
            "run": str(self.result.path),
            "kernel": self.result.kernel,
            "backend": self.result.backend,
            "device": self.result.device,
            "improved": summary.improved,
            "claim": summary.claim,
            "speedup": {"value": value, "ci95": [low, high]},
            "trial": self.trial,
            "files": [file.to_json() for file in self.files],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class WinnerSources:
    """What a run makes of its kernel's sources.

    Attributes:
        spec: that was tuned.
        result: of the run.
        given: the sources as they were.
        winner: with the best candidate's edits, and its tunables' values as defaults.
        flags: that the best candidate was made with and the source as given was not.
    """

    spec: LoadedSpec
    result: Outcome
    given: Variant
    winner: Variant
    flags: tuple[str, ...] = ()

    @property
    def changed(self) -> bool:
        """Whether the winner's sources are others."""
        return self.given.files != self.winner.files


def check_writable(path: Path) -> None:
    """Says before the work whether a file can be written after it.

    Raises:
        UsageError: it cannot.
    """
    folder = path.parent
    if not folder.is_dir():
        raise UsageError(f"{path} cannot be written: there is no folder {folder}", "make it, or name another")
    if path.is_dir() or not os.access(folder, os.W_OK):
        raise UsageError(f"{path} cannot be written", "name a file in a folder that you may write to")


def best_object(record: RunRecord, state: RunState, number: int) -> bytes:
    """A trial's object code: of the best, or of what looks best.

    Raises:
        RecordError: the record does not hold it.
    """
    build = state.trials[number].build
    if build is None or build["code"] is None:
        raise RecordError(f"{record.path} holds no object code of trial {number}", "tune again")
    return record.blob(build["code"].removeprefix("blob:"))


def export(path: Path, folder: Path) -> list[Path]:
    """What :func:`export_run` does; the files written."""
    return [file.path for file in export_run(path, folder).files]


def _exported(path: Path, result: Outcome, *, unconfirmed: bool) -> int:
    """The trial that is exported: the best one, or what looks best and is not confirmed, where that is asked for."""
    summary = result.summary
    candidate = summary.candidate
    if summary.claim != "not_confirmed" or candidate is None:
        return summary.best.number
    if not unconfirmed:
        looked = f"{math.exp(-(candidate.score or 0.0)):.2f} times as fast in the search, not confirmed"
        raise UsageError(
            f"{path}: {looked}", f"tuner confirm {path} confirms it; --unconfirmed writes it as it is"
        )
    return candidate.number


def export_run(path: Path, folder: Path, *, unconfirmed: bool = False) -> Exported:
    """Writes source, object code and the result of a run's best candidate; where LLVM made it, pipeline and script.

    For a kernel with a launch: source, code, build options with the geometry (``launch.json``), and the result.

    ``NAME.wisdom.json`` says what is best by device and problem size; what other runs wrote there stays in it.

    Where the best one is a variant of the source, its source is written, with the best values of its own tunables as
    defaults, and a patch against the source as given. A loop is put back where it was, and there is no object of it.

    Args:
        path: of the record.
        folder: made where it is missing; files in it are replaced.
        unconfirmed: also what looks faster and is not confirmed; without it such a run is refused.

    Returns:
        What was written, with the run's result.

    Raises:
        UsageError: the run has a candidate that is not confirmed, and it was not asked for.
        RecordError: the record does not hold together.
    """
    with RunRecord.read(path) as record:
        state, spec, lineup = open_lineup(record)
        result = outcome(path, state)
        number = _exported(path, result, unconfirmed=unconfirmed)
        code = best_object(record, state, number)
        wisdom = wisdom_of(state, spec, lineup, result)
    variant, resolved = lineup.of_trial(number)
    variant = _with_values(spec, variant, resolved.macros)
    folder.mkdir(parents=True, exist_ok=True)
    written = []

    def put(kind: str, name: str, data: bytes, mode: int = 0o644) -> None:
        write_atomically(folder / name, data, mode=mode)
        written.append(ExportedFile(kind=kind, path=folder / name))

    if spec.task.launch is not None:
        put("code", f"{spec.name}.code", code)
    elif spec.loop is None:
        # A loop's object has nothing else of its file.
        put("object", f"{spec.name}.o", code)
    kernel = spec.task.kernel
    # Whoever uses an instance of a template calls its wrapper; that of structures is the tuner's own.
    shown = variant if kernel.flattened else kernel.compiled(variant)
    given = _put_back(spec, kernel.variant)
    for source in _with_endings(spec, given, _put_back(spec, shown)).files:
        is_module = kernel.language == SPIRV
        put("source", source.name, module_bytes(source.text) if is_module else source.data)
    patch = unified_patch(*(_with_endings(spec, given, each) for each in (given, _put_back(spec, variant))))
    if patch:
        put("patch", f"{spec.name}.patch", source_bytes(patch))
    known = folder / f"{spec.name}.wisdom.json"
    merged_file(known, wisdom).save(known)
    written.append(ExportedFile(kind="wisdom", path=known))
    put("result", "result.json", (json.dumps(result.to_json(), indent=2) + "\n").encode())
    if spec.task.launch is not None:
        put("launch", "launch.json", (json.dumps(_launch(spec, resolved), indent=2) + "\n").encode())
    # What was not made by a build's compiler, or clang and its tools, has no such script.
    if state.start is not None and "llvm" in state.start["environment"]["backend"]:
        if kernel.compiler is None:
            put("pipeline", "pipeline.txt", ((resolved.pipeline or "default<O3>") + "\n").encode())
        script = _script(spec, state, resolved, result, number, record_name=path.name)
        put("script", "build.sh", script.encode(), 0o755)
    return Exported(result=result, trial=number, files=tuple(written))


def sources_of(path: Path) -> WinnerSources:
    """The sources of a run's kernel as given and with its best candidate's edits.

    Raises:
        RecordError: the record does not hold together.
    """
    with RunRecord.read(path) as record:
        state, spec, lineup = open_lineup(record)
        result = outcome(path, state)
    variant, resolved = lineup.of_trial(result.summary.best.number)
    _, baseline = lineup.of_trial(BASELINE)
    return WinnerSources(
        spec=spec,
        result=result,
        given=_put_back(spec, spec.task.kernel.variant),
        winner=_put_back(spec, _with_values(spec, variant, resolved.macros)),
        flags=tuple(flag for flag in resolved.flags if flag not in baseline.flags),
    )


def _launch(spec: LoadedSpec, resolved: Resolved) -> dict[str, Any]:
    """What an application hands to the driver: build options, and the geometry for each problem size."""
    geometries = []
    launch = resolved.launch_of(spec.task)
    for problem in spec.task.problems:
        made = geometry(launch, {**resolved.macros, **resolved.scalars}, problem.sizes)
        geometries.append(
            {
                "problem": dict(problem.sizes),
                "grid": list(made.grid),
                "block": list(made.block),
                "shared_bytes": made.shared_bytes,
            }
        )
    return {
        "entry": spec.task.kernel.entry,
        "options": [*(f"-D{n}={_macro(v)}" for n, v in sorted(resolved.macros.items())), *resolved.flags],
        "scalars": dict(resolved.scalars),
        "expressions": launch.to_json(),
        "launches": geometries,
    }


def _with_values(spec: LoadedSpec, variant: Variant, macros: Mapping[str, Value]) -> Variant:
    """The variant to be read, with the values of its own tunables as defaults, so that its source stands by itself.

    Of edited functions the preprocessor's choices are fixed: a build that makes others is stopped there.
    """
    if not variant.edits:
        return variant
    task = spec.task
    edits = [
        {**e, "parameters": [{**p, "default": macros[p["name"]]} for p in e["parameters"]]}
        if "parameters" in e
        else e
        for e in variant.edits
    ]
    made = apply_edits(read_program(task.kernel, launch=task.launch), edits)
    chosen = next((e["values"] for e in variant.edits if e["op"] == "configure"), None)
    shown = made.program.sources(presentable=True, above=build_requirement(task, spec.tunables, chosen))
    kernel = task.kernel
    return replace(made.variant, files=without_leftovers(shown, kernel.variant.files, kernel.language))


def _put_back(spec: LoadedSpec, variant: Variant) -> Variant:
    """The variant with a loop that is the kernel where it was."""
    if spec.loop is None:
        return variant
    first, *others = variant.files
    return replace(variant, files=(replace(first, text=spec.loop.put_back(first.text)), *others))


def _with_endings(spec: LoadedSpec, given: Variant, variant: Variant) -> Variant:
    """The variant with the line ends that its files have, where these are still what the run was made of."""
    names = {PurePosixPath(name).name: name for name in spec.files}
    ends: dict[str, str] = {}
    for source in given.files:
        with contextlib.suppress(OSError):
            there = source_text(Path(spec.task.kernel.folder, names[source.name]).read_bytes())
            ends |= {source.name: there} if there.replace("\r\n", "\n") == source.text else {}
    files = (
        replace(file, text=with_changes(ends[file.name], file.text)) if file.name in ends else file
        for file in variant.files
    )
    return replace(variant, files=tuple(files))


def unified_patch(original: Variant, variant: Variant) -> str:
    """A unified diff that makes the variant of the original; empty where they are equal."""
    before = {f.name: f.text for f in original.files}
    lines: list[str] = []
    for file in variant.files:
        made = difflib.unified_diff(
            lines_of_text(before[file.name]),
            lines_of_text(file.text),
            f"a/{file.name}",
            f"b/{file.name}",
        )
        for line in made:
            lines.append(line)
            if not line.endswith("\n"):
                lines.append("\n\\ No newline at end of file\n")
    return "".join(lines)


def _script(
    spec: LoadedSpec, state: RunState, resolved: Resolved, result: Outcome, number: int, *, record_name: str
) -> str:
    """How the object was made, as commands for a person: the object beside it is what was verified and timed."""
    if spec.task.kernel.compiler is None:
        made, lines = _by_llvm(spec, state, resolved)
    else:
        made, lines = _by_compiler(spec, spec.task.kernel.compiler, resolved)
    nothing = "# nothing better than the source as given was found: this is the baseline"
    unconfirmed = "# what looked best to the search; it is not confirmed"
    return "\n".join(
        [
            "#!/bin/sh",
            f"# {spec.name}: trial {number} of {record_name}; device {result.device}",
            *([nothing] if number == BASELINE else []),
            *([unconfirmed] if number != result.summary.best.number else []),
            f"# made with {made}",
            *lines,
            "",
        ]
    )


def _by_compiler(spec: LoadedSpec, compiler: BuildCompiler, resolved: Resolved) -> tuple[str, list[str]]:
    """With what, and the commands, where the compiler of a build makes the code."""
    kernel = spec.task.kernel
    defines = [f"-D{name}={_macro(value)}" for name, value in sorted(resolved.macros.items())]
    words = absolute_words([*compiler.command[1:], *resolved.flags], kernel.folder)
    folders = [f"-I{Path(kernel.folder, folder).resolve()}" for folder in kernel.include]
    source, made = kernel.variant.files[0].name, f"rebuilt-{spec.name}.o"
    command = shlex.join([compiler.command[0], *words, *defines, *folders, "-c", source, "-o", made])
    return compiler.version, ["set -e", 'cd "$(dirname "$0")"', command]


def _by_llvm(spec: LoadedSpec, state: RunState, resolved: Resolved) -> tuple[str, list[str]]:
    """With what, and the commands, where clang and LLVM make the code."""
    kernel = spec.task.kernel
    defines = [f"-D{name}={_macro(value)}" for name, value in sorted(resolved.macros.items())]
    march = "native" if spec.task.target == "native" else spec.task.target
    folders = [f"-I{Path(kernel.folder, folder).resolve()}" for folder in kernel.include]
    openmp = ["-fopenmp"] if kernel.openmp else []
    front = ["-O3", f"-march={march}", *openmp, *resolved.flags, *defines, *folders]
    front += [
        "-Xclang",
        "-disable-llvm-passes",
        "-emit-llvm",
        "-c",
        kernel.variant.files[0].name,
        "-o",
        "kernel.bc",
    ]
    environment: Mapping[str, Any] = state.start["environment"]["backend"] if state.start else {}
    llvm = environment.get("llvm")
    version = llvm["version"] if isinstance(llvm, dict) else llvm or "of the run"
    return f"LLVM {version}", [
        "# other names of its programs: CLANG=clang-23 OPT=opt-23 LLC=llc-23 sh build.sh",
        *(["# link it with -fopenmp, or with libomp"] if openmp else []),
        "set -e",
        'cd "$(dirname "$0")"',
        f'"${{CLANG:-clang}}" {shlex.join(front)}',
        '"${OPT:-opt}" -passes="$(cat pipeline.txt)" kernel.bc -o optimised.bc',
        '"${LLC:-llc}" -O3 -relocation-model=pic -filetype=obj optimised.bc '
        f"-o {shlex.quote(f'rebuilt-{spec.name}.o')}",
    ]


def _macro(value: Any) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)
