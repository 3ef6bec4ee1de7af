"""``tuner report``, ``tuner serve`` and ``tuner --version``: parse, call, print."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import tuner
from tuner.cli.run_names import RUNS, Run

if TYPE_CHECKING:
    from tuner.api import Result

__all__ = ["add_commands", "write_trials"]

NICE = 10
"""Drawing gives way to the runs that it draws."""


def add_commands(app: typer.Typer) -> None:
    """Adds the commands to the program's, and what it says of itself."""
    app.callback()(_itself)
    app.command()(report)
    app.command()(serve)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"remix-tuner {tuner.__version__}")
        raise typer.Exit


def _itself(
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True),
    ] = False,
) -> None:
    pass


def write_trials(result: Result, *, optuna: Path | None, parquet: Path | None, csv: Path | None) -> None:
    """Writes the trials of a run in the formats of other tools; what was written is said on stderr."""
    if optuna is not None:
        from tuner.driver.outcome.journal import write_journal

        count = write_journal(result.path, optuna, name=result.outcome.kernel)
        print(f"wrote {count} trials to {optuna}; optuna-dashboard {optuna} shows them", file=sys.stderr)
    if parquet is not None:
        from tuner.driver.outcome.frames import write_parquet

        print(f"wrote {write_parquet(result.path, parquet)} trials to {parquet}", file=sys.stderr)
    if csv is not None:
        from tuner.driver.outcome.frames import write_csv

        print(f"wrote {write_csv(result.path, csv)} trials to {csv}", file=sys.stderr)


def report(
    run: Run,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="The HTML file; beside the record if left out.")
    ] = None,
    audit: Annotated[bool, typer.Option(help="Replay the record first and say what that found.")] = True,
) -> None:
    """Write a run as one HTML file that needs no network."""
    from tuner.report import write_report

    target = output or run.with_suffix(".html")
    size = write_report(run, target, audit=audit)
    print(f"wrote {target} ({size / 1e3:.0f} kB); open it in a browser")


def serve(
    place: Annotated[
        Path,
        typer.Argument(metavar="RUN|DIR", help="A run record, or a folder of them.", show_default=False),
    ] = RUNS,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="On 127.0.0.1; 0 takes any that is free.")
    ] = 8765,
) -> None:
    """Show runs live in a browser: on this machine only, for reading only."""
    from tuner.report.server import serve as serve_place

    def begun(url: str) -> None:
        print(f"{place} is shown at {url} until Ctrl-C", file=sys.stderr, flush=True)

    os.nice(NICE)
    # Also where a shell that started it in the background has Ctrl-C ignored.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    serve_place(place, port=port, begun=begun)
