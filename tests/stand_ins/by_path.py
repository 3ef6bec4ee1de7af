"""Modules of tests, which are no package, for other tests: by their path."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parents[1]


def load(path: str, name: str = "") -> Any:
    """The module at a path below the tests; by another name than its file's it is one of its own."""
    file = TESTS / path
    found = importlib.util.spec_from_file_location(name or file.stem, file)
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    sys.modules[found.name] = module
    found.loader.exec_module(module)
    return module
