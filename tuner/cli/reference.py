"""The commands' reference as Markdown, made from the commands: ``python -m tuner.cli.reference > docs/commands.md``.

Says what ``--help`` says and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer

from tuner.cli.main import app
from tuner.cli.recording import AFTER

__all__ = ["reference"]

_HEAD = """\
# Commands

Made from the commands by `python -m tuner.cli.reference`; do not edit. `tune` is short for `tuner tune`. What `--json`
prints, and what a record holds: [run record](run-record.md).

Exit status: 0 done, also when nothing better was found; 2 a mistake in a spec or on the command line, a machine that
cannot do it, or a third party's part that fails; 3 the baseline does not build or verify; 4 an audit found a
difference; 130 interrupted. `tuner --version` prints the version.
"""


def reference() -> str:
    """A section for each command with a table of what may be given."""
    group: Any = typer.main.get_command(app)
    context = group.make_context("tuner", [], resilient_parsing=True)
    sections = []
    for name, command in _commands(group, context):
        lines = [f"\n## tuner {name}\n", " ".join((command.help or "").split("\f")[0].split()), ""]
        rows = [_row(p) for p in command.params if not getattr(p, "hidden", False) and p.name != "help"]
        if AFTER in command.collect_usage_pieces(context):
            rows.insert(1, f"| `{AFTER}` | must be given | The application with its arguments. |")
        if rows:
            lines += ["| | when left out | meaning |", "|---|---|---|", *rows, ""]
        sections.append("\n".join(lines))
    return _HEAD + "".join(sections)


def _commands(group: Any, context: Any, before: str = "") -> Iterator[tuple[str, Any]]:
    """The commands with their names, those of groups by two words."""
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if hasattr(command, "list_commands"):
            yield from _commands(command, context, f"{before}{name} ")
        elif command is not None and not command.hidden:
            yield f"{before}{name}", command


def _row(parameter: Any) -> str:
    is_argument = parameter.param_type_name == "argument"
    names = [parameter.metavar or parameter.name.upper()] if is_argument else []
    names += [] if is_argument else [*parameter.opts, *parameter.secondary_opts]
    default = "must be given" if parameter.required else _default(parameter)
    meaning = " ".join((parameter.help or "").split())
    cells = (", ".join(f"`{n}`" for n in names), default, meaning)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _default(parameter: Any) -> str:
    value = parameter.default
    if isinstance(value, bool):
        if not parameter.secondary_opts:
            return ""
        return f"`{(parameter.opts if value else parameter.secondary_opts)[0]}`"
    return "" if value is None or value in ((), [], "") or callable(value) else f"`{value}`"


if __name__ == "__main__":
    print(reference(), end="")
