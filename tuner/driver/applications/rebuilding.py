"""``tuner ab --build``: an application built from its sources as they are and with runs' winners in them, interleaved.

For kernels that nothing can stand before: loops, static functions, those that use global variables. May not tune, and
may not change the application's own folder.
"""

from __future__ import annotations

import difflib
import random
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from tuner.core import claims, statistics
from tuner.core.errors import UsageError
from tuner.core.source_text import lines_of_text, source_bytes, source_text, with_changes
from tuner.driver.applications.builds import PLAIN, Rebuilt, build_in, source_below, tree_with
from tuner.driver.applications.seen_compilers import run_note
from tuner.driver.applications.trees import Tree, TreeRun
from tuner.driver.applications.watched_builds import build_watched
from tuner.driver.applications.whole_runs import compares, doubts_of, require_alike, run_once, with_varying
from tuner.driver.outcome.export import WinnerSources, sources_of
from tuner.evaluators.lane import TimingLane
from tuner.spec.first.compile_commands import Compiled

__all__ = ["BuiltComparison", "Rebuilt", "compare_built", "compare_sound", "patched"]

_FURTHER = 2
_WINNERS = "with the winners"
_DEFINES = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+(\S+)", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltComparison:
    """Both builds of an application.

    Attributes:
        plain_s, winner_s: wall time of each run, in pairs.
        speedup: of the application, plain over winner, with its 95% interval.
        kernels: of the winners, each with what its run claims.
        files: that the winners change, below the folder.
        compared: whether results could be compared.
    """

    plain_s: tuple[float, ...]
    winner_s: tuple[float, ...]
    speedup: tuple[float, float, float]
    kernels: tuple[tuple[str, float], ...]
    files: tuple[str, ...]
    compared: bool

    def to_json(self) -> dict[str, Any]:
        """The object behind ``--json``."""
        value, low, high = self.speedup
        return {
            "schema_version": 1,
            "plain_s": list(self.plain_s),
            "applied_s": list(self.winner_s),
            "speedup": {"value": value, "ci95": [low, high]},
            "faster": low > 1.0,
            "kernels": [{"kernel": kernel, "claim": claim} for kernel, claim in self.kernels],
            "files": list(self.files),
            "results_compared": self.compared,
        }


def patched(runs: Sequence[Path], folder: Path) -> tuple[dict[str, str], tuple[tuple[str, float], ...]]:
    """The folder's files with the winners of runs in them.

    Args:
        runs: records.
        folder: of the application's sources.

    Returns:
        Texts by path below the folder, and each kernel with what its run claims.

    Raises:
        UsageError: a source lies elsewhere or has changed since, a winner changes none, or two change the same lines.
    """
    texts, found = _put_in(runs, folder)
    return texts, tuple((one.spec.name, one.result.summary.speedup[0]) for one, _ in found)


def _put_in(
    runs: Sequence[Path], folder: Path
) -> tuple[dict[str, str], tuple[tuple[WinnerSources, tuple[str, ...]], ...]]:
    """Texts by path below the folder, and what each run makes of which of these."""
    texts: dict[str, list[str]] = {}
    winners = []
    for run in runs:
        found = sources_of(run)
        names = {PurePosixPath(name).name: name for name in found.spec.files}
        pairs = zip(found.given.files, found.winner.files, strict=True)
        changed = [(before, after) for before, after in pairs if before.text != after.text]
        if not changed:
            raise UsageError(
                f"{run} has nothing for the source: its winner is flags and passes alone",
                "build with those of tuner show, or name another run",
            )
        own = []
        for before, after in changed:
            place = Path(found.spec.task.kernel.folder, names[before.name])
            path = source_below(folder.resolve(), before, place, str(run))
            name, there = path.relative_to(folder.resolve()).as_posix(), source_text(path.read_bytes())
            texts.setdefault(name, [there]).append(with_changes(there, after.text))
            own.append(name)
        winners.append((found, tuple(own)))
    return {name: _merged(name, *versions) for name, versions in texts.items()}, tuple(winners)


def _merged(name: str, given: str, *versions: str) -> str:
    """A file with the changes of several versions of it."""
    before = lines_of_text(given)
    values: dict[str, str] = {}
    found: set[tuple[int, int, str]] = set()
    for version in versions:
        changes = list(_changes(before, version))
        own = {macro: value for *_, text in changes for macro, value in _DEFINES.findall(text)}
        for macro in [macro for macro, value in own.items() if values.get(macro, value) != value]:
            if re.search(rf"\b{macro}\b", given):
                raise UsageError(
                    f"two winners have values of their own for {macro} in {name}",
                    "put one in, then tune the other",
                )
            # Each winner's own, which edits of the source have made.
            free = next(f"{macro}_{i}" for i in range(2, len(versions) + 2) if f"{macro}_{i}" not in values)
            changes = [(i, j, re.sub(rf"\b{macro}\b", free, text)) for i, j, text in changes]
            own[free] = own.pop(macro)
        values |= own
        found.update((first, last, text) for first, last, text in changes)
    end, made = 0, list[str]()
    for first, last, text in sorted(found):
        if first < end:
            raise UsageError(
                f"two winners change line {first + 1} of {name}", "put one in, then tune the other"
            )
        made += [*before[end:first], text]
        end = last
    return "".join([*made, *before[end:]])


def _changes(before: Sequence[str], version: str) -> Iterator[tuple[int, int, str]]:
    after = lines_of_text(version)
    for kind, first, last, begin, end in difflib.SequenceMatcher(None, before, after, False).get_opcodes():
        if kind != "equal":
            yield first, last, "".join(after[begin:end])


def compare_built(
    runs: Sequence[Path],
    application: Rebuilt,
    *,
    pairs: int,
    note: Callable[[str], None] = lambda _: None,
) -> BuiltComparison:
    """Builds an application both ways in copies of its folder, and runs them in pairs in random order.

    Args:
        runs: records whose winners are put in, all at once.
        application: how it is built, run and judged.
        pairs: how many runs of each, after some that do not count.
        note: told of the progress.

    Raises:
        UsageError: see :func:`patched`; a build fails; a run ends in another way, or prints something else.
        MachineError: commands cannot be run in copies here.
    """
    if pairs < claims.MIN_PROCESSES:
        raise UsageError(f"{pairs} pairs of runs say nothing", f"at least {claims.MIN_PROCESSES}")
    texts, winners = _put_in(runs, application.folder)
    with _built(texts, winners, application, note) as (plain, winner):
        first, application = _alike(plain, winner, application, note)
        for doubt in doubts_of(first, application):
            note(doubt)
        times, application = _timed(plain, winner, application, first, pairs=pairs, note=note)
    ratios = [a / b for a, b in zip(*times, strict=True)]
    interval = statistics.mean_interval(ratios)
    return BuiltComparison(
        plain_s=times[0],
        winner_s=times[1],
        speedup=(interval.value, interval.low, interval.high),
        kernels=tuple((one.spec.name, one.result.summary.speedup[0]) for one, _ in winners),
        files=tuple(texts),
        compared=compares(first, application),
    )


def compare_sound(
    runs: Sequence[Path],
    application: Rebuilt,
    *,
    pairs: int,
    note: Callable[[str], None] = lambda _: None,
) -> tuple[BuiltComparison, dict[Path, str]]:
    """As :func:`compare_built`, without the winners that by themselves do not build or change what it prints.

    Returns:
        The comparison, and for each winner that is left out why.

    Raises:
        UsageError: as there, also where each winner by itself is sound.
    """
    try:
        return compare_built(runs, application, pairs=pairs, note=note), {}
    except UsageError as error:
        if len(runs) == 1:
            raise
        together = error
    note(f"all winners together: {together}; so each is tried by itself")
    refused: dict[Path, str] = {}
    for run in runs:
        try:
            texts, winners = _put_in([run], application.folder)
            with _built(texts, winners, application, lambda _: None) as (plain, winner):
                _alike(plain, winner, application, lambda _: None)
        except UsageError as error:
            refused[run] = str(error)
            note(f"left out, {run.name}: {error}")
    sound = [run for run in runs if run not in refused]
    if not sound or not refused:
        raise together
    return compare_built(sound, application, pairs=pairs, note=note), refused


@contextmanager
def _built(
    texts: Mapping[str, str],
    winners: Sequence[tuple[WinnerSources, tuple[str, ...]]],
    application: Rebuilt,
    note: Callable[[str], None],
) -> Iterator[tuple[Tree, Tree]]:
    """Copies of the application's folder in which it is built as it is, and with winners."""
    files = {name: application.folder.resolve() / name for name in texts}
    with tempfile.TemporaryDirectory(prefix="tuner-ab-") as name:
        # Its files are as new as the winners', so that both builds compile them.
        as_they_are = {below: file.read_bytes() for below, file in files.items()}
        plain = tree_with(application, Path(name, "plain"), as_they_are)
        with_winners = {below: source_bytes(text) for below, text in texts.items()}
        with plain, tree_with(application, Path(name, "winner"), with_winners) as winner:
            note(f"building it {PLAIN}")
            seen = build_watched(plain, application, PLAIN, tuple(files.values()), Path(name))
            note("building it with the winners")
            build_in(winner, application, _WINNERS)
            for line in _compiler_lines(winners, {below: seen.get(file) for below, file in files.items()}):
                note(line)
            yield plain, winner


def _compiler_lines(
    winners: Sequence[tuple[WinnerSources, tuple[str, ...]]], seen: Mapping[str, Compiled | None]
) -> Iterator[str]:
    """A line for each run that was tuned under another compiler or other flags than those that build its files."""
    for one, changed in winners:
        built = {word for below in changed if (how := seen[below]) is not None for word in how.command}
        lacking = [flag for flag in one.flags if flag not in built]
        if lacking:
            cure = "add it there, or leave it out of space.flags"
            yield f"the winner of {one.spec.name} has {' '.join(lacking)}, which the build has not: {cure}"
        lines = (run_note(one.spec, seen[below], PurePosixPath(below).name) for below in changed)
        yield from dict.fromkeys(filter(None, lines))


def _alike(
    plain: Tree, winner: Tree, application: Rebuilt, note: Callable[[str], None]
) -> tuple[TreeRun, Rebuilt]:
    """A run as it is, which one with the winners is like, and how further ones are judged."""
    first = run_once(plain, application)
    application = with_varying(run_once(plain, application), first, application, note)
    return first, _judged(run_once(winner, application), first, plain, application, note)


def _judged(
    done: TreeRun, first: TreeRun, plain: Tree, application: Rebuilt, note: Callable[[str], None]
) -> Rebuilt:
    """How runs are judged after one with the winners, which is like the first one as it is.

    A time that two runs printed alike by chance differs by itself in a further one.

    Raises:
        UsageError: it is not.
    """
    for _ in range(_FURTHER):
        try:
            require_alike(done, first, application, _WINNERS)
        except UsageError:
            application = with_varying(run_once(plain, application), first, application, note)
    require_alike(done, first, application, _WINNERS)
    return application


def _timed(
    plain: Tree,
    winner: Tree,
    application: Rebuilt,
    first: TreeRun,
    *,
    pairs: int,
    note: Callable[[str], None],
) -> tuple[tuple[tuple[float, ...], tuple[float, ...]], Rebuilt]:
    """Times of each way in pairs, and how the runs were judged in the end."""
    times: dict[bool, list[float]] = {False: [], True: []}
    order = random.Random(0)
    with TimingLane("cpu", note=note):
        for number in range(pairs):
            for changed in order.sample((False, True), 2):
                done = run_once(winner if changed else plain, application)
                if changed:
                    application = _judged(done, first, plain, application, note)
                else:
                    application = with_varying(done, first, application, note)
                times[changed].append(done.wall_s)
            note(
                f"pair {number + 1} of {pairs}: {times[False][-1]:.3f} s, {times[True][-1]:.3f} s with the winners"
            )
    return (tuple(times[False]), tuple(times[True])), application
