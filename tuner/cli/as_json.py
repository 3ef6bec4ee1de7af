"""What commands print for programs: one JSON object on stdout that says which version of its fields it has."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from tuner.core.errors import BaselineError

__all__ = ["Json", "baseline_told", "print_json"]

Json = Annotated[bool, typer.Option("--json", help="One JSON object on stdout and nothing else.")]


def print_json(data: Mapping[str, Any]) -> None:
    """Prints an object; also lists of results say their version at the top."""
    from tuner.driver.outcome.result import SCHEMA_VERSION

    print(json.dumps({"schema_version": SCHEMA_VERSION, **data}))


@contextmanager
def baseline_told(as_json: bool, **told: Any) -> Iterator[None]:
    """Prints the object also where the kernel as given fails before there is a result to print; the error goes on.

    Args:
        as_json: whether there is one to print.
        told: what the object holds beside the error's message.
    """
    try:
        yield
    except BaselineError as error:
        if as_json:
            print_json({**told, "message": str(error)})
        raise
