"""What a run came to, as its caller gets it: from its state alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tuner.core.types import Status
from tuner.driver.outcome.result import Summary, summarise
from tuner.driver.state.run import RunState

__all__ = ["Outcome", "outcome"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A run that has ended or was interrupted.

    ``path`` is ``None`` where its baseline failed; ``far`` is whether devices of a cluster timed it, which need not be
    like the driver's own, so that it has to be said which they were.
    """

    path: Path | None
    kernel: str
    backend: str
    device: str
    summary: Summary
    failed: bool
    interrupted: bool
    far: bool = False

    def to_json(self) -> dict[str, Any]:
        """The object behind ``--json``."""
        return self.summary.to_json(
            run=None if self.path is None else str(self.path),
            kernel=self.kernel,
            backend=self.backend,
            device=self.device,
        )


def outcome(path: Path, state: RunState) -> Outcome:
    """The outcome of a state."""
    start = state.start
    assert start is not None
    summary = summarise(state, variant=_original_digest(start))
    ended_by = state.end["stopped_by"] if state.end else ""
    return Outcome(
        path=path,
        kernel=start["name"],
        backend=start["backend"],
        device=state.device,
        summary=summary,
        failed=ended_by == "baseline" or state.trials[0].status not in (None, Status.OK),
        interrupted=state.end is None,
        far=state.settings.stocked,
    )


def _original_digest(start: Mapping[str, Any]) -> str:
    variant = start.get("variant")
    return str(start["spec_digest"] if variant is None else variant["digest"])
