"""How the command's process ends: exit statuses, one line for what a user can cause, and Ctrl-C."""

from __future__ import annotations

import errno
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, NoReturn

import typer

from tuner.core.errors import TunerError
from tuner.core.files import NO_ROOM
from tuner.core.plugins import TRACEBACK

__all__ = ["EXIT_INTERRUPTED", "end_when_told", "ended_at_once", "run_and_exit", "stop_cleanly"]

EXIT_INTERRUPTED = 130
_AGAIN_S = 0.05


def stop_cleanly(interruption: Any) -> None:
    """The first Ctrl-C ends the run at the next event; a second one ends the process at once."""

    def stop(number: int, frame: FrameType | None) -> None:
        interruption.set()
        print("\nending; press Ctrl-C again to end at once (both can be resumed)", file=sys.stderr)
        signal.signal(signal.SIGINT, _end_at_once)

    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop)


@contextmanager
def ended_at_once() -> Iterator[None]:
    """Where no run goes on: Ctrl-C raises KeyboardInterrupt, whatever it does elsewhere."""
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, signal.default_int_handler) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def end_when_told() -> None:
    """SIGTERM ends a command as Ctrl-C does: what it has started ends, and its scratch folders go."""

    def stop(number: int, frame: FrameType | None) -> NoReturn:
        print("interrupted", file=sys.stderr)
        raise KeyboardInterrupt

    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, stop)


def _end_at_once(number: int, frame: FrameType | None) -> None:
    # Every process that was started dies with this one, and what is committed is on disk.
    if sys.stderr.isatty():
        print("\x1b[?25h", end="", file=sys.stderr, flush=True)
    os._exit(EXIT_INTERRUPTED)


def run_and_exit(app: typer.Typer, arguments: Sequence[str] | None, *, name: str) -> NoReturn:
    """Runs a command line, the process's own where none is given, and ends the process with its status.

    What a user can cause is one line on stderr; what is our own fault keeps its traceback.
    """
    interrupted = _noted_interrupts()
    try:
        given = None if arguments is None else list(arguments)
        status = app(args=given, prog_name=name, standalone_mode=False)
        if sys.stdout is not None:
            # What cannot be written is said here; at the interpreter's end it would be a traceback.
            sys.stdout.flush()
    except TunerError as error:
        if os.environ.get(TRACEBACK):
            traceback.print_exception(error)
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_status)
    except typer.Exit as ended:
        sys.exit(ended.exit_code)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(EXIT_INTERRUPTED)
    except BrokenPipeError:
        with suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except OSError as error:
        if error.errno == errno.ENOMEM and not os.environ.get(TRACEBACK):
            # Of a mapping, where Python's own objects raise the other kind.
            _no_memory()
        # What the layers below expect they name themselves; this is a path of the command line that cannot be used.
        if error.filename is None:
            _unwritable(error)
        cure = "make room there, or name" if error.errno in NO_ROOM else "name"
        print(f"error: {error.filename}: {error.strerror}; {cure} another place", file=sys.stderr)
        sys.exit(2)
    except UnicodeEncodeError as error:
        if "surrogates" not in error.reason:
            raise
        print(
            "error: a path has a name that is not UTF-8 in this locale; rename it, or set LC_ALL=C.UTF-8",
            file=sys.stderr,
        )
        sys.exit(2)
    except MemoryError:
        if os.environ.get(TRACEBACK):
            raise
        _no_memory()
    except Exception as error:
        _usage(error)
        raise
    if status == EXIT_INTERRUPTED and interrupted:
        # typer says nothing of it. A run that has begun ends by itself (`stop_cleanly`) and says how to go on.
        print("interrupted", file=sys.stderr)
    sys.exit(status if isinstance(status, int) else 0)


def _no_memory() -> NoReturn:
    print("error: this machine's memory does not suffice; make the problem smaller", file=sys.stderr)
    sys.exit(2)


def _noted_interrupts() -> list[int]:
    """The signals by which Ctrl-C ends what has no way of its own to end; filled when one comes."""
    noted: list[int] = []

    def stop(number: int, frame: FrameType | None) -> NoReturn:
        noted.append(number)
        raise KeyboardInterrupt

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, stop)
        sys.unraisablehook = _heard_again(sys.unraisablehook)
    return noted


def _heard_again(otherwise: Callable[[Any], object]) -> Callable[[Any], object]:
    """Hears of exceptions that end nothing: a Ctrl-C that came while Python cleaned up behind an object comes again."""

    def hear(lost: Any) -> None:
        if not issubclass(lost.exc_type, KeyboardInterrupt):
            otherwise(lost)
            return
        main = threading.main_thread().ident
        assert main is not None
        again = threading.Timer(_AGAIN_S, signal.pthread_kill, (main, signal.SIGINT))
        again.daemon = True
        with suppress(RuntimeError):
            # At the interpreter's end no thread begins any more, and nothing is left to interrupt.
            again.start()

    return hear


def _unwritable(error: OSError) -> None:
    """What is printed went to a full disk: said once, and not again when the interpreter empties its buffers."""
    if error.errno not in (*NO_ROOM, errno.EIO):
        raise error
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    print(
        f"error: the output, or a file, cannot be written: {error.strerror}; free some space or raise the limit",
        file=sys.stderr,
    )
    sys.exit(2)


def _usage(error: Exception) -> None:
    """Mistakes on the command line come as click's own exceptions, whose class depends on typer's version."""
    show_error = getattr(error, "show", None)
    if callable(show_error) and hasattr(error, "exit_code"):
        show_error()
        sys.exit(2)
