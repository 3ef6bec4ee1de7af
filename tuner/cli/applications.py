"""``tuner app``: an application from its build to a patch for it. Parse, call, print."""

from __future__ import annotations

import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from tuner.cli.as_json import Json, print_json
from tuner.cli.process import EXIT_INTERRUPTED, end_when_told
from tuner.cli.recording import BeforeCommand, command_of, print_built
from tuner.core.errors import UsageError

__all__ = ["app"]

app = typer.Typer(
    name="app",
    help="Tune an application: find its hot loops, record, tune, compare the whole, write a patch.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
File = Annotated[Path, typer.Argument(help="The application's file, of `tuner app init`.", metavar="FILE")]
Minutes = Annotated[
    float,
    typer.Option(
        min=0.1, help="For all of it; what building and recording leave, half at least, is tuned in."
    ),
]

DEFAULT_FILE = Path("app.yaml")


@app.command(cls=BeforeCommand)
def init(
    ctx: typer.Context,
    build: Annotated[
        str, typer.Option(help="The command that builds it in its folder, with -g.", show_default=False)
    ],
    tree: Annotated[Path, typer.Option(help="The folder of its sources.", show_default=False)] = Path(),
    check: Annotated[
        str, typer.Option(help="A command that gets what a run prints and judges it by its status.")
    ] = "",
    rtol: Annotated[
        float,
        typer.Option(
            min=0.0,
            help="By how much numbers may differ in what it prints; then sums may be in another order, too.",
        ),
    ] = 0.0,
    varies: Annotated[
        list[str] | None,
        typer.Option(
            help="A line that differs from run to run, * for what is not compared; may be repeated.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[Path, typer.Option("-o", "--output", help="Where to write.")] = DEFAULT_FILE,
    as_json: Json = False,
) -> None:
    """Build and run an application in a copy of its folder; write a file with how, and with its hot regions."""
    from tuner.cli.region_table import print_regions
    from tuner.core.files import write_atomically
    from tuner.driver.applications.app_regions import examine_application
    from tuner.spec.applications import ApplicationFile, application_text

    command = command_of(ctx)
    if not command:
        raise UsageError("no command is given", "write it after --, for example -- ./app --size 10")
    if output.exists():
        raise UsageError(f"{output} exists already", "name another file with -o, or remove it")
    for line in varies or ():
        if not line.strip("* \t"):
            raise UsageError(f"--varies {line!r} is like any line", "write the line, with * for its numbers")
    end_when_told()
    given = ApplicationFile(
        path=output,
        tree=tree.resolve(),
        build=build,
        command=tuple(command),
        folder=Path.cwd(),
        check=check,
        rtol=rtol,
        varies=tuple(varies or ()),
    )
    with tempfile.TemporaryDirectory(prefix="tuner-app-") as headers:
        found = examine_application(given, Path(headers), note=_say)
    text = application_text(replace(given, regions=found.hot.regions, varies=found.varies))
    write_atomically(output, text.encode())
    if as_json:
        print_json(found.to_json())
        return
    print_regions(found)
    print(f"wrote {output}; look through it, then: tuner app tune {output}")


@app.command(name="list")
def list_regions(file: File = DEFAULT_FILE, as_json: Json = False) -> None:
    """Build and run it again, list its hot regions, and record each to say whether it can be; changes nothing."""
    from tuner.cli.region_table import print_regions
    from tuner.driver.applications.app_regions import built_by, examine_application
    from tuner.driver.applications.region_specs import region_specs
    from tuner.spec.applications import load_application

    application = load_application(file)
    end_when_told()
    with tempfile.TemporaryDirectory(prefix="tuner-app-") as name:
        found = examine_application(application, Path(name, "headers"), note=_say)
        rebuilt, run_s = built_by(application), found.run_s
        recorded = [
            next(
                region_specs(one, rebuilt, Path(name), found.compiled.get(one.source), run_s=run_s, note=_say)
            )
            for one in found.hot.regions
        ]
    if not as_json:
        print_regions(found, recorded)
        return
    data = found.to_json()
    regions = zip(data["regions"], recorded, strict=True)
    print_json({**data, "regions": [{**region, **one.to_json()} for region, one in regions]})


@app.command()
def tune(
    file: File = DEFAULT_FILE,
    minutes: Minutes = 10.0,
    seed: Annotated[int, typer.Option(help="Of every random stream.")] = 0,
    as_json: Json = False,
) -> None:
    """Record the regions in the application, check that their replay is what it got, and tune them."""
    import time

    from tuner.cli.app_tuning import RegionTuning, print_tuned, too_few_to_record
    from tuner.driver.applications.app_regions import as_it_is, built_by
    from tuner.driver.applications.region_specs import region_specs
    from tuner.driver.applications.tuned_regions import headers_folder, work_folder
    from tuner.driver.work.engine import Interruption
    from tuner.spec.applications import load_application

    begin_s = time.monotonic()
    application = load_application(file)
    if not application.regions:
        raise UsageError(f"{file} names no regions", "write some: - {source: FILE, loops: [LINE]}")
    rebuilt = built_by(application)
    sources = list(dict.fromkeys(region.source for region in application.regions))
    for source in sources:
        if not source.is_file() or not source.is_relative_to(rebuilt.folder):
            raise UsageError(f"{source} is no file below {rebuilt.folder}", f"correct regions in {file}")
    end_when_told()
    _say(f"building it in a copy of {rebuilt.folder}, and running it once")
    compiled, run_s = as_it_is(rebuilt, sources, headers_folder(application))
    few = too_few_to_record(minutes, time.monotonic() - begin_s, len(application.regions))
    if few:
        _say(f"note: {few}")
    specs = [
        region_specs(
            region, rebuilt, work_folder(application), compiled.get(region.source), run_s=run_s, note=_say
        )
        for region in application.regions
    ]
    interruption = Interruption()
    tuning = RegionTuning(
        application=application, interruption=interruption, begin_s=begin_s, seed=seed, quiet=as_json
    )
    found = tuning.all(specs, minutes=minutes)
    if as_json:
        print_json(found.to_json())
    else:
        print_tuned(found, tuning.runs, file)
    if interruption.wanted:
        raise typer.Exit(EXIT_INTERRUPTED)


@app.command()
def ab(
    file: File = DEFAULT_FILE,
    pairs: Annotated[int, typer.Option(min=4, help="How often it runs each way, 4 at least.")] = 10,
    as_json: Json = False,
) -> None:
    """Build it as it is and with the winners, run both in turn, and say what it gains as a whole."""
    from tuner.driver.applications.app_regions import built_by
    from tuner.driver.applications.rebuilding import compare_sound
    from tuner.driver.applications.tuned_regions import read_tuned, winning_runs
    from tuner.spec.applications import load_application

    application = load_application(file)
    tuned = read_tuned(application)
    runs = winning_runs(application, tuned)
    end_when_told()
    found, left_out = compare_sound(runs, built_by(application), pairs=pairs, note=_say)
    tuned = tuned.after(found, left_out)
    tuned.write(application)
    if as_json:
        print_json({**found.to_json(), "predicted": tuned.predicted})
        return
    print_built(found)
    print(
        f"  predicted         {tuned.predicted:.3f} times, by the regions' shares and what they gained alone"
    )
    if found.speedup[1] > 1.0 and found.compared:
        print(f"next: tuner app patch {file} -o winners.patch, or --apply")


@app.command()
def patch(
    file: File = DEFAULT_FILE,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Where to write it; to stdout when left out.")
    ] = None,
    apply: Annotated[bool, typer.Option("--apply", help="Change the application's own sources.")] = False,
    anyway: Annotated[
        bool, typer.Option("--anyway", help="Also where no gain of the whole has been shown.")
    ] = False,
) -> None:
    """Write the winners as a patch for the application's sources, or put them in."""
    from tuner.core.files import write_atomically
    from tuner.core.source_text import source_bytes
    from tuner.driver.applications.tuned_regions import apply_patch, patch_of, read_tuned
    from tuner.spec.applications import load_application

    application = load_application(file)
    text, files = patch_of(application, read_tuned(application), anyway=anyway)
    if apply:
        apply_patch(files)
        for path in files:
            print(f"changed {path}")
    if output is not None:
        write_atomically(output, source_bytes(text))
        print(f"wrote {output}; in {application.tree}: patch -p1 < {output}")
    elif not apply:
        sys.stdout.flush()
        sys.stdout.buffer.write(source_bytes(text))


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
