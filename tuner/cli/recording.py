"""``tuner record``, ``tuner apply`` and ``tuner ab``: parse, call, print. What the application prints stays its own."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer.core import TyperCommand

from tuner.cli.as_json import Json, print_json
from tuner.cli.process import end_when_told
from tuner.core.errors import UsageError

if TYPE_CHECKING:
    from tuner.driver.applications.applying import Applied, Comparison
    from tuner.driver.applications.listing import Listing
    from tuner.driver.applications.rebuilding import BuiltComparison
    from tuner.driver.applications.recording import RecordReport

__all__ = ["AFTER", "BeforeCommand", "add_commands", "command_of", "print_built"]

Runs = Annotated[
    list[Path],
    typer.Argument(
        help="Run records, folders of them, the folder of an application's recorded kernels, or wisdom files.",
        metavar="RUN",
        show_default=False,
    ),
]

Tree = Annotated[
    Path, typer.Option(help="With --build: the folder of the application's sources.", show_default=False)
]

_FEW_SAMPLES = 50
_NAME_SHOWN = 64
_HOT_LINE = 0.03
"""The least share of the time for which a line is shown."""
_COMMAND = "tuner.command"
AFTER = "-- COMMAND..."
"""What follows the arguments of commands that run an application."""


def add_commands(app: typer.Typer) -> None:
    """Adds the commands to the program's."""
    app.command()(record)
    app.command(cls=BeforeCommand)(apply)
    app.command(cls=BeforeCommand)(ab)


class BeforeCommand(TyperCommand):
    """Its own words end at ``--``; those after it are an application's, kept in the context's ``meta``."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        """Takes the application's words off."""
        if "--" in args:
            cut = args.index("--")
            ctx.meta[_COMMAND] = args[cut + 1 :]
            args = args[:cut]
        return super().parse_args(ctx, args)

    def collect_usage_pieces(self, ctx: typer.Context) -> list[str]:  # type: ignore[override]
        """Shows where the application's words go."""
        return [*super().collect_usage_pieces(ctx), AFTER]


def command_of(ctx: typer.Context) -> list[str]:
    """The application's words; none where no ``--`` is given."""
    return list(ctx.meta.get(_COMMAND, ()))


def _parted(ctx: typer.Context, runs: list[Path]) -> tuple[list[Path], list[str]]:
    """Runs and command; without ``--`` the first word alone is a run."""
    if _COMMAND in ctx.meta:
        return runs, ctx.meta[_COMMAND]
    return runs[:1], [str(word) for word in runs[1:]]


def record(
    words: Annotated[
        list[str],
        typer.Argument(
            help="The application with its arguments; before it a spec of one kernel, without --list and --kernel.",
            metavar="[SPEC] -- COMMAND…",
            show_default=False,
        ),
    ],
    only_list: Annotated[bool, typer.Option("--list", help="List what the command launches.")] = False,
    kernel: Annotated[
        list[str] | None,
        typer.Option(
            "--kernel", help="Record this kernel, and write a spec for it; may be given several times."
        ),
    ] = None,
    instances: Annotated[
        int, typer.Option(min=1, max=1000, help="The most launches of a kernel to keep.")
    ] = 2,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            help="With --kernel: folder to write to; else the kernel's name. With a spec: file for a copy of it that "
            "takes the recordings.",
        ),
    ] = None,
    build: Annotated[
        str,
        typer.Option(
            help="With a spec: a command that builds the application in its folder; it is built in a copy, with the "
            "loop or function kept apart."
        ),
    ] = "",
    tree: Tree = Path(),
    as_json: Json = False,
) -> None:
    """Record launches of an unmodified application."""
    from tuner.driver.applications.listing import list_launches
    from tuner.driver.applications.recording import record_kernels, record_spec
    from tuner.spec.load import load_spec

    if only_list and (kernel or output):
        raise UsageError("--list records nothing", "leave out --kernel and -o")
    if (build or tree != Path()) and (only_list or kernel):
        raise UsageError("--build and --tree go with a spec", "tuner init FILE --loop LINE writes one")
    if (only_list or kernel) and len(words) > 1 and Path(words[0]).suffix in (".yaml", ".yml"):
        option = "--list" if only_list else "--kernel"
        raise UsageError(f"{option} takes no spec", f"leave out {words[0]}, or {option}")
    if only_list:
        _print_listing(list_launches(words, aside=as_json), as_json)
        return
    if kernel:
        if output is None and len(kernel) > 1:
            raise UsageError("several kernels need one folder", "name it with -o")
        folder = output or Path(kernel[0])
        _print_report(record_kernels(words, kernel, folder, instances=instances, aside=as_json), as_json)
        return
    specs = load_spec(words[0])
    if len(specs) != 1:
        raise UsageError(f"{words[0]} has {len(specs)} kernels", "record them one by one with --kernel")
    if build:
        from tuner.driver.applications.builds import Rebuilt
        from tuner.driver.applications.rebuilt_recording import record_rebuilt

        end_when_told()
        application = Rebuilt(folder=tree, build=build, command=tuple(words[1:]), here=Path.cwd())
        report = record_rebuilt(specs[0], application, instances=instances, aside=as_json, output=output)
    else:
        report = record_spec(words[1:], specs[0], instances=instances, aside=as_json, output=output)
    _print_report(report, as_json)


def apply(ctx: typer.Context, runs: Runs, as_json: Json = False) -> None:
    """Run an unmodified application with runs' winners in place."""
    from tuner.driver.applications.applying import applied_json, check_applied, run_with
    from tuner.driver.applications.chosen_runs import chosen_runs
    from tuner.driver.applications.winners import winners_of

    named, command = _parted(ctx, runs)
    winners = winners_of(chosen_runs(named, note=_note), note=_note)
    ran, placed = run_with(winners, command, aside=as_json)
    if as_json:
        # Before anything is refused: the application has run, and a script has to know how that ended.
        print_json(applied_json(ran, placed))
    check_applied(placed)
    for kernel, problem in ran.problems:
        _note(f"{kernel}: {problem}")
    if not as_json:
        _print_placed(placed)
    raise typer.Exit(ran.status if ran.status >= 0 else 128 - ran.status)


def ab(
    ctx: typer.Context,
    runs: Runs,
    pairs: Annotated[
        int, typer.Option(min=4, help="How often the application runs each way, 4 at least.")
    ] = 10,
    build: Annotated[
        str,
        typer.Option(
            help="A command that builds the application in its folder: the winners are put into copies of the sources."
        ),
    ] = "",
    tree: Tree = Path(),
    rtol: Annotated[
        float,
        typer.Option(
            min=0.0, help="With --build: by how much numbers may differ in what the application prints."
        ),
    ] = 0.0,
    check: Annotated[
        str,
        typer.Option(help="With --build: a command that gets what a run prints and judges it by its status."),
    ] = "",
    as_json: Json = False,
) -> None:
    """Run an application as it is and with runs' winners, interleaved; say what it gains as a whole."""
    from tuner.driver.applications.applying import compare
    from tuner.driver.applications.chosen_runs import chosen_runs
    from tuner.driver.applications.rebuilding import Rebuilt, compare_built
    from tuner.driver.applications.winners import winners_of

    named, command = _parted(ctx, runs)
    if build:
        end_when_told()
        application = Rebuilt(
            folder=tree, build=build, command=tuple(command), here=Path.cwd(), check=check, rtol=rtol
        )
        built = compare_built(
            chosen_runs(named, note=_note),
            application,
            pairs=pairs,
            note=lambda line: print(line, file=sys.stderr),
        )
        if as_json:
            print_json(built.to_json())
        else:
            print_built(built)
        return
    if tree != Path() or rtol or check:
        raise UsageError("--tree, --rtol and --check go with --build", "name the command that builds it")
    winners = winners_of(chosen_runs(named, note=_note), note=_note)
    found = compare(winners, command, pairs=pairs, note=lambda line: print(line, file=sys.stderr))
    if as_json:
        print_json(found.to_json())
    else:
        _print_comparison(found)


def _note(text: str) -> None:
    print(f"note: {text}", file=sys.stderr)


def _print_placed(placed: Sequence[Applied]) -> None:
    for one in placed:
        if not one.replaced:
            _note(f"{one.name} was not put in place: {one.why}")
            continue
        name = f" of {one.name}" if len(placed) > 1 else ""
        left = f", {one.left} left as they were" if one.left else ""
        print(f"tuner: {one.replaced} calls{name} with the winner in place{left}", file=sys.stderr)


def _print_listing(listing: Listing, as_json: bool) -> None:
    if as_json:
        print_json(listing.to_json())
        return
    if listing.ran.kernels:
        _print_kernels(listing)
    else:
        _print_functions(listing)
    if listing.ran.ended_badly:
        print(f"note: it {listing.ran.ended_badly}", file=sys.stderr)


def _print_functions(listing: Listing) -> None:
    """Of an application without kernels of devices: its own functions, with where its processor time went."""
    own = listing.own.listed
    names = [_shown(function.name) if function.refused else function.name for function in own]
    width = min(_NAME_SHOWN, max(map(len, names)))
    files = max(len(function.file.name) for function in own)
    print(
        f"{'function':<{width}} {'share':>6} {'time':>9} {'at most':>8} {'bytes':>7}  {'in':<{files}}  can be recorded"
    )
    for name, function in zip(names, own, strict=True):
        able = f"no: {function.refused}" if function.refused else "yes"
        time = _time_of(listing, function.samples)
        size = function.size_bytes or ""
        print(f"{name:<{width}} {time} {size:>7}  {function.file.name:<{files}}  {able}")
        hot = [(file, line, n) for file, line, n in function.lines if n >= _HOT_LINE * listing.samples]
        if hot:
            shown = (f"{Path(file).name}:{line} {100 * listing.share(n):.0f}%" for file, line, n in hot)
            print(f"  lines {', '.join(shown)}")
    if listing.own.further:
        print(f"and {listing.own.further} more with less code")
    outside = [
        (path, count) for path, count in listing.own.libraries.items() if 50 * count >= listing.samples
    ]
    if outside:
        shares = (f"{path.name} {100 * listing.share(count):.1f}%" for path, count in outside)
        print(f"in the code of other libraries: {', '.join(shares)}")
    print("no kernel of OpenCL or CUDA was launched; these are functions of its own")
    if listing.samples:
        print("at most: what the whole gains if that takes no time at all")
    if listing.samples < _FEW_SAMPLES:
        print(
            f"it was looked at {listing.samples} times only: a longer run tells more of where its time goes"
        )
    print("next: tuner init SOURCE --entry NAME, then tuner record SPEC -- COMMAND")
    print(
        "of a loop: tuner init SOURCE --loop LINE, tuner tune, then tuner ab RUN --build COMMAND -- COMMAND"
    )


def _shown(name: str) -> str:
    """Names of templates fill pages; one that can be recorded is needed whole."""
    return name if len(name) <= _NAME_SHOWN else f"{name[: _NAME_SHOWN - 1]}…"


def _time_of(listing: Listing, samples: int) -> str:
    if not samples:
        return f"{'':>6} {'':>9} {'':>8}"
    share, most = listing.share(samples), listing.most(samples)
    faster = "any" if most is None else f"{most:.2f}x"
    return f"{100 * share:>5.1f}% {share * listing.ran.processor_s:>7.3f} s {faster:>8}"


def _print_kernels(listing: Listing) -> None:
    data = listing.to_json()
    names = [f"{entry['name']} ({entry['program'][:8]})" for entry in data["kernels"]]
    width = min(_NAME_SHOWN, max(map(len, names), default=0))
    print(f"{'kernel':<{width}} {'launches':>9} {'time':>11} {'share':>6}  can be recorded")
    for name, entry in zip(names, data["kernels"], strict=True):
        refused = "; ".join(f"{count} not: {why}" for why, count in entry["refused"].items())
        able = f"{entry['recordable']} of {entry['launches']}" if refused else "all"
        print(
            f"{name:<{width}} {entry['launches']:>9} {1e3 * entry['seconds']:>8.3f} ms "
            f"{100 * entry['share']:>5.1f}%  {able}" + (f" ({refused})" if refused else "")
        )
    print(f"the application took {listing.ran.wall_s:.3f} s, every launch waited for")


def _print_report(report: RecordReport, as_json: bool) -> None:
    if as_json:
        print_json(report.to_json())
        return
    for note in (*report.notes, *([report.saving] if report.saving else [])):
        print(f"note: {note}", file=sys.stderr)
    for path in (*report.recordings, *report.specs):
        print(f"wrote {path}")
    if report.index is not None:
        print(f"wrote {report.index}: each kernel's share of their time, by which the budgets are divided")
    if report.specs:
        print(f"next: tune {' '.join(map(str, report.specs))}")


def print_built(found: BuiltComparison) -> None:
    """Prints both builds of an application."""
    plain, winner = sorted(found.plain_s), sorted(found.winner_s)
    middle = len(plain) // 2
    _print_gain(found.speedup)
    print(f"  as it is          {plain[middle]:.3f} s (median of {len(plain)} runs)")
    same = "and the same results" if found.compared else "and no results that could be compared"
    print(f"  with the winners  {winner[middle]:.3f} s, {same}")
    for kernel, claim in found.kernels:
        print(f"    {kernel}: {claim:.2f} times faster in its own run")
    print(f"  changed           {', '.join(found.files)}")


def _print_gain(speedup: tuple[float, float, float]) -> None:
    value, low, high = speedup
    if low > 1.0:
        answer = f"{value:.3f} times faster as a whole"
    elif high < 1.0:
        answer = f"{1 / value:.3f} times slower as a whole"
    else:
        answer = f"no difference can be told: {value:.3f} times"
    print(f"{answer}, 95% interval {low:.3f} to {high:.3f}")


def _print_comparison(found: Comparison) -> None:
    plain, applied = sorted(found.plain_s), sorted(found.applied_s)
    _print_gain(found.speedup)
    middle = len(plain) // 2
    print(f"  as it is         {plain[middle]:.3f} s (median of {len(plain)} runs)")
    several = len(found.winners) > 1
    way = "with the winners" if several else "with the winner "
    print(f"  {way} {applied[middle]:.3f} s ({found.replaced} calls replaced, {found.left} left)")
    for one in found.winners if several else ():
        why = f" ({one.why})" if one.why else ""
        print(f"    {one.name}: {one.replaced} calls replaced, {one.left} left{why}")
