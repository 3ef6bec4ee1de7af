"""``tuner tune`` behind its options: kernels that share a budget, else one after the other."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

from tuner.api import Display, Result, tune_spec, tune_together
from tuner.cli import text
from tuner.cli.progress import progress
from tuner.driver.earlier import LEAST, with_earlier
from tuner.driver.imports import read_sources, write_t4
from tuner.driver.options import Further, Options
from tuner.driver.together import Member, find_together, share_of
from tuner.driver.work.engine import Interruption
from tuner.driver.work.fleets import fleets, several_at_once
from tuner.spec.load import LoadedSpec

__all__ = ["tune_all"]


def tune_all(
    specs: Sequence[LoadedSpec],
    options: Options,
    *,
    out: Path,
    interruption: Interruption,
    go_on: bool = False,
    further: Further | None = None,
    force: bool = False,
    warm_start: Sequence[Path] = (),
    baselines: bool = False,
    executor: str = "local",
    ray_address: str | None = None,
    share: bool = True,
    t4: Path | None = None,
    quiet: bool = False,
) -> list[Result]:
    """Tunes kernels, and says on stderr what a person should know; results go to stdout unless ``quiet``.

    Raises:
        TunerError: as the library says.
    """
    share = share and len(specs) > 1 and not baselines and several_at_once(specs, executor)
    if share and further is None:
        members = [
            _member(spec, options, fleet, warm_start, out, go_on)
            for spec in specs
            for fleet in fleets(spec, executor, ray_address)
        ]
        shared = _tune_shared(members, out=out, go_on=go_on, force=force, interruption=interruption)
        if shared is not None:
            for member, result in zip(members, shared, strict=True):
                _say(member.spec, result, quiet=quiet)
            return shared
    results = []
    for member in (
        _member(spec, options, fleet, warm_start, out, go_on, again=share)
        for spec in specs
        for fleet in fleets(spec, executor, ray_address)
    ):
        display, watch = _displays(member.spec)
        if baselines and not member.spec.evolves:
            print("note: --baselines: the source stays as it is, so no search is simpler", file=sys.stderr)
        result = tune_spec(
            member.spec,
            member.options,
            out=out,
            go_on=go_on,
            further=further,
            force=force,
            observers=[display],
            interruption=interruption,
            display=display,
            baselines=baselines,
            watch=watch,
            executor=member.executor,
            note=lambda text: print(f"note: {text}", file=sys.stderr),
        )
        results.append(result)
        if t4 is not None and not result.outcome.failed:
            write_t4(result.path, t4)
        _say(member.spec, result, quiet=quiet)
        if result.outcome.interrupted:
            break
    return results


def _member(
    spec: LoadedSpec,
    options: Options,
    fleet: Any,
    warm_start: Sequence[Path],
    out: Path,
    go_on: bool,
    *,
    again: bool = False,
) -> Member:
    """A kernel with all that it is tuned with; said aloud unless that was done before."""
    if not again:
        for notice in spec.notices:
            print(f"note: {notice}", file=sys.stderr)
    sources = [] if go_on else _sources(warm_start, spec, out, aloud=not again)
    return Member(spec=spec, options=replace(options, warm_start=tuple(sources)), executor=fleet)


def _sources(given: Sequence[Path], spec: LoadedSpec, out: Path, *, aloud: bool) -> list[str]:
    """What a warm start learns from, said aloud."""
    paths = with_earlier(given, spec, [out])
    if given and aloud:
        none = (
            f"nothing: no earlier run of {spec.name} in {out} has its tunables and {LEAST} trials that worked"
        )
        named = ", ".join(map(str, paths)) or none
        print(f"note: warm start from {named}", file=sys.stderr)
    return read_sources(paths)


def _displays(spec: LoadedSpec) -> tuple[Display, Callable[[str], Display]]:
    """What shows a run, and each simpler search before it."""
    limit_s = spec.task.measure.limit_s

    def watch(name: str) -> Display:
        return progress(limit_s, f"to compare with: {name}")

    return progress(limit_s), watch


def _say(spec: LoadedSpec, result: Result, *, quiet: bool) -> None:
    if result.outcome.failed:
        message = result.outcome.summary.message
        print(f"error: {spec.path}: {message}; tuner check {spec.path} says more", file=sys.stderr)
    elif not quiet:
        text.print_result(result, spec.path)


def _tune_shared(
    members: Sequence[Member], *, out: Path, go_on: bool, force: bool, interruption: Interruption
) -> list[Result] | None:
    """Tunes several kernels with one budget; ``None`` where they do not share one."""
    if go_on:
        found = find_together(out, [m.spec for m in members])
        if found is None:
            return None
        members = [replace(m, record=path) for m, (path, _) in zip(members, found, strict=True)]
        shares = [shared for _, shared in found]
    else:
        given = share_of(members)
        if given is None:
            return None
        shares = given
        listed = ", ".join(f"{m.spec.name} {s.weight:.0%}" for m, s in zip(members, shares, strict=True))
        print(f"note: one budget is shared by expected gain; parts of the time: {listed}", file=sys.stderr)
    displays = [progress(m.spec.task.measure.limit_s) for m in members]

    def turn(number: int) -> AbstractContextManager[Any]:
        return displays[number]

    watched = [replace(m, observers=(d,)) for m, d in zip(members, displays, strict=True)]
    return tune_together(watched, shares, out=out, interruption=interruption, force=force, turn=turn)
