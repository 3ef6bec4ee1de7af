"""Commands over recorded runs, ``tuner confirm``, ``replay``, ``show``, ``list``, ``export``: parse, call, print."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tuner.cli import looking
from tuner.cli.as_json import Json, print_json
from tuner.cli.process import EXIT_INTERRUPTED, stop_cleanly
from tuner.cli.run_names import RUNS, Run
from tuner.core.errors import TunerError, UsageError

if TYPE_CHECKING:
    from tuner.api import Result

__all__ = ["Out", "add_commands"]

EXIT_DIFFERENCE = 4

Out = Annotated[Path, typer.Option("--out", help="Folder for run records.")]


def add_commands(app: typer.Typer) -> None:
    """Adds the commands to the program's."""
    app.command()(confirm)
    app.command()(replay)
    app.command()(show)
    app.command(name="list")(list_runs)
    app.command()(export)


def confirm(
    run: Run,
    minutes: Annotated[
        float | None, typer.Option(help="That it may take; without, it takes what it needs.")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Compile workers; else one for each core.")
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="In another environment than the run's too.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Confirm the best of a run that ended, or was interrupted, before that was done; searches no further."""
    from tuner.api import confirm as confirm_run
    from tuner.cli import text
    from tuner.cli.progress import progress
    from tuner.driver.work.engine import Interruption

    interruption = Interruption()
    stop_cleanly(interruption)
    display = progress()
    result = confirm_run(
        run,
        minutes=minutes,
        force=force,
        workers=workers,
        observers=[display],
        interruption=interruption,
        display=display,
    )
    if as_json:
        print_json(result.to_json())
    else:
        text.print_result(result)
    if result.outcome.interrupted:
        raise typer.Exit(EXIT_INTERRUPTED)


def replay(
    run: Run,
    rebuild: Annotated[bool, typer.Option("--rebuild", help="Compile again, compare object code.")] = False,
    remeasure: Annotated[bool, typer.Option("--remeasure", help="Time baseline and best again.")] = False,
    sign: Annotated[
        Path | None,
        typer.Option("--sign", metavar="KEY", help="Sign with a private Ed25519 key if it passes."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Audit a run: hash chain and every decision, then object code and times where asked."""
    from tuner.api import load
    from tuner.api import replay as audit
    from tuner.cli import text

    report = audit(run, rebuild=rebuild, remeasure=remeasure, sign=sign)
    if as_json:
        print_json(report.to_json())
    elif report.of_another_version and not report.differences:
        text.print_result(load(run))
    else:
        text.print_audit(report)
    if report.differences:
        raise typer.Exit(EXIT_DIFFERENCE)
    if report.of_another_version:
        raise UsageError(f"{run}: {report.of_another_version}", "audit it with the version that wrote it")


def show(
    run: Run,
    optuna: Annotated[
        Path | None, typer.Option("--optuna", metavar="JOURNAL", help="Write it for optuna-dashboard.")
    ] = None,
    parquet: Annotated[
        Path | None, typer.Option("--parquet", metavar="FILE", help="Write its trials as Parquet.")
    ] = None,
    csv: Annotated[
        Path | None, typer.Option("--csv", metavar="FILE", help="Write its trials as CSV.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Print the result of a run; or write its trials for other tools."""
    from tuner.api import load
    from tuner.cli import text

    result = load(run)
    if (optuna, parquet, csv) != (None, None, None):
        looking.write_trials(result, optuna=optuna, parquet=parquet, csv=csv)
        if not as_json:
            return
    if as_json:
        print_json(result.to_json())
    else:
        text.print_result(result)


def list_runs(out: Out = RUNS, as_json: Json = False) -> None:
    """List the run records of a folder."""
    from tuner.api import load
    from tuner.cli import text

    if not out.is_dir() and out != RUNS:
        raise UsageError(f"there is no folder {out}", "name the folder of the run records with --out")

    def loaded() -> Iterator[Result]:
        for path in sorted(out.glob("*.run"), key=_by_number):
            try:
                yield load(path)
            except TunerError as error:
                print(f"note: {path} is left out: {error}", file=sys.stderr)

    if as_json:
        print_json({"runs": [r.to_json() for r in loaded()]})
    else:
        # Line by line: of a folder with thousands of runs the first ones are seen at once.
        text.print_list(loaded(), out)


def _by_number(path: Path) -> list[int | str]:
    """Run 10 after run 2: texts and numbers of the name by turns."""
    return [int(part) if i % 2 else part for i, part in enumerate(re.split(r"(\d+)", path.name))]


def export(
    run: Run,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Folder to write to.", show_default=False)
    ] = None,
    unconfirmed: Annotated[
        bool, typer.Option("--unconfirmed", help="Also a candidate whose gain is not confirmed.")
    ] = False,
    cassette: Annotated[
        Path | None,
        typer.Option("--cassette", metavar="FILE", help="Write its exchanges with models instead."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Write a run's best candidate for a build: source, object, pipeline, result; or its exchanges with models."""
    if (output is None) == (cassette is None) or (cassette is not None and unconfirmed):
        raise UsageError(
            "tuner export writes the best candidate to a folder, or exchanges to a file",
            "give -o FOLDER, or --cassette FILE and nothing else",
        )
    if cassette is not None:
        _export_cassette(run, cassette, as_json=as_json)
        return
    assert output is not None
    from tuner.driver.outcome.export import export_run

    exported = export_run(run, output, unconfirmed=unconfirmed)
    if exported.trial == 0:
        print("note: no gain was found: what is written is the kernel as given", file=sys.stderr)
    if as_json:
        print_json(exported.to_json())
        return
    for file in exported.files:
        print(file.path)


def _export_cassette(run: Path, path: Path, *, as_json: bool) -> None:
    from tuner.driver.work.cassettes import write_cassette

    exchanges = write_cassette(run, path)
    if as_json:
        answered = sum(e["answer"] is not None for e in exchanges)
        print_json(
            {"run": str(run), "cassette": str(path), "exchanges": len(exchanges), "answered": answered}
        )
    else:
        print(path)
