"""What commands print for programs: one JSON object on stdout that says which version of its fields it has."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any

import typer

__all__ = ["Json", "print_json"]

Json = Annotated[bool, typer.Option("--json", help="One JSON object on stdout and nothing else.")]


def print_json(data: Mapping[str, Any]) -> None:
    """Prints an object; also lists of results say their version at the top."""
    from tuner.driver.outcome.result import SCHEMA_VERSION

    print(json.dumps({"schema_version": SCHEMA_VERSION, **data}))
