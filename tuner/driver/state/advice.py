"""Variants that earlier runs advise, as a ``recall`` event holds them. Knows no program: edits are plain JSON here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tuner.core.types import Proposal
from tuner.driver.state.trials import proposal_from_json, proposal_to_json

__all__ = ["Advice"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """What won in an earlier run, carried over to this kernel.

    Attributes:
        edits: of this kernel's source.
        proposal: the configuration that it begins with, as far as the space has it.
        source: the number of the earlier run among those recalled.
        same: whether that run was of the same source.
    """

    edits: tuple[Mapping[str, Any], ...]
    proposal: Proposal
    source: int
    same: bool = False

    def to_json(self, blobs: dict[str, bytes], digest: Any) -> dict[str, Any]:
        """Plain JSON; long texts go to ``blobs``."""
        edits = [dict(edit) for edit in self.edits]
        return {
            "edits": edits,
            "proposal": proposal_to_json(self.proposal, blobs, digest),
            "source": self.source,
            "same": self.same,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any], blob: Any) -> Advice:
        """The inverse of :meth:`to_json`; ``blob`` reads a blob by its digest."""
        return cls(
            edits=tuple(value["edits"]),
            proposal=proposal_from_json(value["proposal"], blob),
            source=value["source"],
            same=value["same"],
        )
