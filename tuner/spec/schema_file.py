"""The schema as a file beside specs, and the line by which editors find it there: nothing is fetched from anywhere."""

from __future__ import annotations

import json

from tuner.spec.json_schema import schema

__all__ = ["SCHEMA_FILE", "SCHEMA_LINE", "schema_text"]

SCHEMA_FILE = "tuner.schema.json"

SCHEMA_LINE = f"# yaml-language-server: $schema={SCHEMA_FILE}\n"
"""The first line of a spec; the path is relative to the spec's own folder."""


def schema_text() -> str:
    """The JSON Schema of specs as the file holds it."""
    return json.dumps(schema(), indent=2) + "\n"
