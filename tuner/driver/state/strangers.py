"""Records that anyone may have written: what goes wrong over events that do not hold together is one line.

A chain of hashes says that events are those that were written, not that they are a run's. Who reads a record folds them
within :func:`holding_together`; a run that is under way has written its own and lets its faults show.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tuner.core.errors import RecordError, TunerError

__all__ = ["holding_together"]

_HINT = "it was changed, or written by something else: tuner replay says more"


@contextmanager
def holding_together(what: str = "the record") -> Iterator[None]:
    """Everything that only a record that is no run's can bring about becomes an error of that record.

    Args:
        what: is looked at, for the message.

    Raises:
        RecordError: it does not hold together.
    """
    try:
        yield
    except TunerError:
        raise
    except (
        ArithmeticError,
        AssertionError,
        AttributeError,
        LookupError,
        RecursionError,
        TypeError,
        ValueError,
    ) as e:
        reason = " ".join(f"{type(e).__name__}: {e}".split())[:200].rstrip(": ")
        raise RecordError(f"{what} does not hold together ({reason})", _HINT) from e
