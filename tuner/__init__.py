"""Tunes kernels over source, passes, flags and launch parameters, with results that can be audited.

Names are imported when first used, so that ``import tuner`` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    __version__: str
    from tuner.api import Result, confirm, ensure, load, replay, tune
    from tuner.core.errors import TunerError
    from tuner.driver.applications.live import record
    from tuner.recorders.wisdom import Wisdom, wisdom

__all__ = [
    "Result",
    "TunerError",
    "Wisdom",
    "__version__",
    "confirm",
    "ensure",
    "load",
    "record",
    "replay",
    "tune",
    "wisdom",
]

_WHERE = {
    "Result": "tuner.api",
    "TunerError": "tuner.core.errors",
    "Wisdom": "tuner.recorders.wisdom",
    "confirm": "tuner.api",
    "ensure": "tuner.api",
    "load": "tuner.api",
    "record": "tuner.driver.applications.live",
    "replay": "tuner.api",
    "tune": "tuner.api",
    "wisdom": "tuner.recorders.wisdom",
}


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        return getattr(import_module(_WHERE[name]), name)
    if name == "__version__":
        return import_module("importlib.metadata").version("remix-tuner")
    raise AttributeError(f"module 'tuner' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
