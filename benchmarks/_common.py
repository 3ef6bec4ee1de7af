"""What the benchmarks share: arguments, the machine's description, tables, JSON."""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import sys
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples"


def parser(doc: str | None) -> argparse.ArgumentParser:
    """An argument parser with ``--json``."""
    made = argparse.ArgumentParser(description=(doc or "").splitlines()[0])
    made.add_argument("--json", action="store_true", help="one JSON object on stdout and nothing else")
    return made


def machine() -> dict[str, Any]:
    """What the figures depend on."""
    model = "unknown"
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    return {
        "date": date.today().isoformat(),
        "cpu": model,
        "cores": len(os.sched_getaffinity(0)),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release().split('-')[0]}",
    }


def host_specs(folder: Path | None) -> list[Path]:
    """The example specs of the host backend, or all specs of another folder."""
    found = sorted((folder or EXAMPLES).glob("**/*.yaml"))
    # Specs of applications need sources that are fetched.
    found = [path for path in found if "applications" not in path.parts]
    return [path for path in found if "backend" not in path.stem and _is_host(path)]


def _is_host(path: Path) -> bool:
    text = path.read_text()
    return "kernel" in text and not any(word in text for word in ("opencl", "cuda", ".cl", ".cu"))


def altered(path: Path, folder: Path, changes: Mapping[str, Mapping[str, Any]]) -> Path:
    """A copy of a spec with its folder in which some keys of some sections are set otherwise."""
    shutil.copytree(path.parent, folder / "spec")
    data = yaml.safe_load(path.read_text())
    for section, values in changes.items():
        data.setdefault(section, {}).update(values)
    copy = folder / "spec" / path.name
    copy.write_text(yaml.safe_dump(data))
    return copy


def table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Columns aligned for a terminal; also valid Markdown."""
    cells = [[str(c) for c in row] for row in (header, *rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    lines = ["| " + " | ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) + " |" for row in cells]
    lines.insert(1, "|" + "|".join("-" * (w + 2) for w in widths) + "|")
    return "\n".join(lines)


def note(text: str) -> None:
    """A word to the person who waits."""
    print(text, file=sys.stderr, flush=True)


def emit(as_json: bool, figures: dict[str, Any], text: str) -> None:
    """Prints the figures as one object, or as text."""
    print(json.dumps({"machine": machine(), **figures}) if as_json else text)
