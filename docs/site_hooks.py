"""Hooks of the site's build: decisions into the navigation, the JSON Schema beside the pages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

from tuner.spec.json_schema import schema


def on_config(config: Any) -> Any:
    """Lists the decisions, which are a page each."""
    folder = Path(config.docs_dir) / "decisions"
    pages = [f"decisions/{page.name}" for page in sorted(folder.glob("*.md"))]
    if pages and not any("Decisions" in item for item in config.nav):
        config.nav.append({"Decisions": pages})
    return config


def on_files(files: Any, config: Any) -> Any:
    """Publishes the schema as ``spec.schema.json``."""
    text = json.dumps(schema(), indent=2) + "\n"
    files.append(File.generated(config, "spec.schema.json", content=text))
    return files
