"""``tuner`` and ``tune``: parse, call, print."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from tuner.cli import applications, building, looking, recorded, recording
from tuner.cli.amounts import Amount, amount, further_of, whole_amount
from tuner.cli.as_json import Json, baseline_told, print_json
from tuner.cli.process import EXIT_INTERRUPTED, run_and_exit, stop_cleanly
from tuner.cli.recorded import Out
from tuner.cli.run_names import RUNS
from tuner.core.errors import UsageError
from tuner.core.thread_counts import limit_own_threads

__all__ = ["main", "main_tune"]

EXIT_BASELINE = 3

FAILED_RUN = {
    "run": None,
    "kernel": None,
    "improved": False,
    "claim": "none",
    "baseline": {"time_s": None, "ci95": [None, None]},
    "stopped_by": "baseline",
}
"""What ``tune --json`` says of a kernel that does not compile, beside the message."""

app = typer.Typer(
    name="tuner",
    help="Tunes kernels over source, parameters, flags and compiler passes, with results that can be audited.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

Specs = Annotated[list[Path], typer.Argument(help="YAML specs.", show_default=False)]
Spec = Annotated[Path, typer.Argument(help="The YAML spec.", show_default=False)]


@app.command()
def tune(
    specs: Specs,
    evaluations: Annotated[
        Amount | None,
        typer.Option(
            parser=whole_amount,
            metavar="N",
            help="Builds or runs that may be started, in place of the spec's; with --resume +N so many more.",
        ),
    ] = None,
    minutes: Annotated[
        Amount | None,
        typer.Option(
            parser=amount,
            metavar="M",
            help="Active time, confirmation included, in place of the spec's; with --resume +M so many more.",
        ),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Of every random stream, in place of the spec's.")] = None,
    strategy: Annotated[
        str | None,
        typer.Option(
            help="A searcher by name, in place of the spec's: auto, surrogate, evolution, random, ..."
        ),
    ] = None,
    llm: Annotated[
        str | None,
        typer.Option("--llm", help="A model to ask for variants, off, or cassette:FILE of another run."),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Compile workers; else one for each core.")
    ] = None,
    require_sandbox: Annotated[
        bool, typer.Option("--require-sandbox", help="Refuse to run where a protection is missing.")
    ] = False,
    out: Out = RUNS,
    go_on: Annotated[
        bool,
        typer.Option(
            "--resume",
            help="Go on with the newest unfinished run of the spec in --out; with --minutes +M or --evaluations +N "
            "with the newest, ended or not.",
        ),
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="With --resume: in another environment too.")
    ] = False,
    warm_start: Annotated[
        list[Path] | None,
        typer.Option(
            "--warm-start",
            help="A run elsewhere to learn from, or auto: runs of the kernel in --out (strategy surrogate).",
        ),
    ] = None,
    library: Annotated[
        bool,
        typer.Option(
            help="Try first what earlier runs of similar kernels found, and keep this one for later runs."
        ),
    ] = True,
    baselines: Annotated[
        bool,
        typer.Option(
            "--baselines",
            help="First run simpler searches with the same budget each, to compare an evolving run with.",
        ),
    ] = False,
    executor: Annotated[
        str, typer.Option(help="Where builds and timings happen: local, or ray (a cluster).")
    ] = "local",
    ray_address: Annotated[
        str | None, typer.Option(help="Of the Ray cluster; without it one of this machine alone.")
    ] = None,
    share: Annotated[
        bool,
        typer.Option(help="Let several kernels share their budgets by expected gain, or keep each its own."),
    ] = True,
    t4: Annotated[Path | None, typer.Option("--t4", help="Also write the run in the T4 format.")] = None,
    as_json: Json = False,
) -> None:
    """Tune the kernels of SPECS; progress goes to stderr."""
    from tuner.cli.tuning import tune_all
    from tuner.cost_models.library import library_folder
    from tuner.driver.options import Options
    from tuner.driver.outcome.export import check_writable
    from tuner.driver.work.engine import Interruption
    from tuner.spec.load import load_spec

    options = Options(
        evaluations=None if evaluations is None else evaluations.whole,
        minutes=None if minutes is None else minutes.value,
        seed=seed,
        strategy=strategy,
        workers=workers,
        require_sandbox=require_sandbox,
        library=library_folder() if library else None,
        llm=llm,
    )
    with baseline_told(as_json, **FAILED_RUN):
        loaded = [spec for path in specs for spec in load_spec(path)]
        if t4 is not None and len(loaded) != 1:
            raise UsageError(f"--t4 names one file for {len(loaded)} kernels", "tune them one by one")
        if t4 is not None:
            check_writable(t4)
        further = further_of(evaluations, minutes, go_on=go_on)
        left_out = [seed, strategy, llm] if further else [evaluations, minutes, seed, strategy, llm]
        if go_on and any(one is not None for one in left_out):
            budget = "" if further else "budget, "
            cure = "" if further else "; --minutes +5 gives it 5 more from now"
            print(
                f"note: --resume goes on with the {budget}seed, strategy and models of the record{cure}",
                file=sys.stderr,
            )
        if force and not go_on:
            raise UsageError("--force is given without --resume", "add --resume, or leave it out")
        interruption = Interruption()
        stop_cleanly(interruption)
        results = tune_all(
            loaded,
            options,
            out=out,
            go_on=go_on,
            further=further,
            force=force,
            interruption=interruption,
            warm_start=warm_start or (),
            baselines=baselines,
            executor=executor,
            ray_address=ray_address,
            share=share,
            t4=t4,
            quiet=as_json,
        )
    if as_json:
        objects = [r.to_json() for r in results]
        print_json(objects[0] if len(objects) == 1 == len(loaded) else {"runs": objects})
    if any(r.outcome.interrupted for r in results):
        raise typer.Exit(EXIT_INTERRUPTED)
    if any(r.outcome.failed for r in results):
        raise typer.Exit(EXIT_BASELINE)


@app.command()
def check(
    spec: Spec,
    faults: Annotated[
        bool, typer.Option(help="Plant faults in the baseline and count what the verification catches.")
    ] = True,
    as_json: Json = False,
) -> None:
    """Validate a spec, count its space, build and verify its baseline, test the verification; changes nothing."""
    from tuner.cli import text
    from tuner.cli.waiting import Stages, baseline_runs
    from tuner.driver.check import check_spec
    from tuner.driver.faults import MOST_FAULTS
    from tuner.spec.load import load_spec

    reports = []
    with baseline_told(as_json, kernel=None, ok=False):
        for loaded in load_spec(spec):
            said = {
                "build": "building",
                "baseline": baseline_runs(loaded.task.measure.limit_s),
                "time": "timing the kernel as given",
                "light": "measuring what this machine can do at best, once for each target",
                "faults": "planting faults (--no-faults leaves them out)",
            }
            with Stages(loaded.name, said) as stages:
                planted = MOST_FAULTS if faults else 0
                reports.append(check_spec(loaded, faults=planted, stage=stages.begin, step=stages.say))
    if as_json:
        objects = [r.to_json() for r in reports]
        print_json(objects[0] if len(objects) == 1 else {"checks": objects})
    else:
        for report in reports:
            text.print_check(report)
    if any(not r.ok for r in reports):
        raise typer.Exit(EXIT_BASELINE)


@app.command()
def init(
    kernel_file: Annotated[Path, typer.Argument(help="A C, C++, OpenCL or CUDA file.", show_default=False)],
    entry: Annotated[str | None, typer.Option(help="The function, where the file has several.")] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Where to write; - for stdout.")
    ] = None,
    include: Annotated[
        list[Path] | None, typer.Option("-I", "--include", help="A folder of headers that the source needs.")
    ] = None,
    define: Annotated[
        list[str] | None, typer.Option("-D", "--define", help="A macro, NAME or NAME=value, for C and C++.")
    ] = None,
    loop: Annotated[
        int | None,
        typer.Option(help="Line of a loop that is the kernel, not the whole function; for C and C++."),
    ] = None,
    compile_commands: Annotated[
        Path | None,
        typer.Option(
            help="compile_commands.json of a project's build, or its folder; else looked for around the file."
        ),
    ] = None,
    std: Annotated[str | None, typer.Option(help="The dialect, such as c++17.")] = None,
    compiler: Annotated[
        str | None,
        typer.Option(
            help="The compiler of your own build with its flags, such as 'gcc -O3 -march=native', for C and C++; else "
            "that of compile_commands.json where it is not clang."
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Write over files that exist.")] = False,
) -> None:
    """Write a first spec from a kernel's signature, with its schema beside it for editors."""
    from tuner.core.files import write_atomically
    from tuner.driver.first_sizes import call_seconds, with_timed_sizes
    from tuner.driver.overflow import with_values_in_range
    from tuner.spec.first.init import first_spec
    from tuner.spec.schema_file import SCHEMA_FILE, SCHEMA_LINE, schema_text

    shown = output == Path("-")
    target = kernel_file.with_suffix(".yaml") if output is None or shown else output
    first = first_spec(
        kernel_file,
        entry=entry,
        folder=target.parent,
        include=include or (),
        define=define or (),
        loop=loop,
        commands=compile_commands,
        standard=std,
        compiler=compiler,
    )
    if shown:
        print(first.text, end="")
        return
    further = {target.with_name(name): text for name, text in first.beside.items()}
    for path in (target, *further):
        if path.exists() and path.samefile(kernel_file):
            raise UsageError(f"{path} is the kernel's own source", "name another file with -o")
        if path.exists() and not force:
            hint = "name another file with -o, write over it with --force, or see it with -o -"
            raise UsageError(f"{path} exists already", hint)
    for path, text_of_it in further.items():
        write_atomically(path, text_of_it.encode())
        print(f"wrote {path}, which calls the template")
    write_atomically(target, (SCHEMA_LINE + first.text).encode())
    ran = with_values_in_range(with_timed_sizes(first, target, call_seconds), target)
    if ran.text != first.text:
        write_atomically(target, (SCHEMA_LINE + ran.text).encode())
    # Made anew each time, so that it is this version's.
    write_atomically(target.with_name(SCHEMA_FILE), schema_text().encode())
    print(f"wrote {target} (and {SCHEMA_FILE} for editors); look through it, then: tuner check {target}")


@app.command(name="import")
def import_(
    file: Annotated[
        Path, typer.Argument(help="T1, T4, a Kernel Tuner cache, or a run record.", show_default=False)
    ],
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder to write to.")] = Path("."),
) -> None:
    """Write a spec from a T1 description; or a recorded space with its spec from results."""
    from tuner.driver.imports import import_file

    done = import_file(file, output)
    for note in done.notes:
        print(f"note: {note}", file=sys.stderr)
    for path in done.files:
        print(f"wrote {path}")


recorded.add_commands(app)
building.add_commands(app)
recording.add_commands(app)
app.add_typer(applications.app)
looking.add_commands(app)


@app.command()
def doctor(as_json: Json = False) -> None:
    """Say what this machine offers."""
    from tuner.cli import text
    from tuner.driver.doctor import examine

    findings = examine()
    if as_json:
        print_json({"findings": [f.to_json() for f in findings]})
    else:
        text.print_doctor(findings)


@app.command()
def schema() -> None:
    """Print the JSON Schema of specs, for editors."""
    from tuner.spec.schema_file import schema_text

    print(schema_text(), end="")


def main(arguments: Sequence[str] | None = None) -> None:
    """The command ``tuner``."""
    _run(app, arguments, "tuner")


def main_tune() -> None:
    """The command ``tune``: short for ``tuner tune``, and called so where it says how it is used."""
    alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    alone.command()(tune)
    _run(alone, None, "tune")


def _run(program: typer.Typer, arguments: Sequence[str] | None, called: str) -> None:
    limit_own_threads()
    run_and_exit(program, arguments, name=called)
