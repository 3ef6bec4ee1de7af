"""Files that hold initial values: what each is by its content, and whether it fits the argument.

Reads headers and digests, never makes values.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from tuner.core.dtypes import numpy_dtype
from tuner.core.errors import SpecError
from tuner.core.types import Argument, Problem
from tuner.evaluators.file_values import check_file
from tuner.spec.initial_values import with_sizes
from tuner.spec.yaml_places import Path as KeyPath
from tuner.spec.yaml_places import View

__all__ = ["check_data_files", "file_digest"]


def check_data_files(
    arguments: Sequence[Argument],
    paths: Sequence[KeyPath],
    problems: Sequence[Problem],
    folder: Path,
    view: View,
) -> None:
    """Every file holds what its argument takes at each of the problems' sizes.

    ``paths`` say where the spec gives those arguments that the kernel gets, in their order.

    Raises:
        SpecError: one is missing, or holds something else.
    """
    # A wrapper's own arguments stand nowhere, and what recordings give has no files.
    given = [a for a in arguments if a.passing not in ("wrapper", "memory")]
    for argument, path in zip(given, paths, strict=False):
        if argument.initial.kind != "file" or argument.shape is None:
            continue
        file = folder / str(argument.initial.options["path"])
        for number, problem in enumerate(problems):
            shape = tuple(extent.integer(problem.sizes) for extent in argument.shape)
            try:
                check_file(argument.name, numpy_dtype(argument.dtype), file, shape)
            except SpecError as error:
                # What is wrong at the first size is wrong at each; later on it is that size.
                message = error.message + (with_sizes(problem) if number else "")
                place = view.place((*path, "init", "file"))
                raise SpecError(message, error.hint, place=place) from None


def file_digest(path: Path, view: View, where: KeyPath) -> str:
    """The SHA-256 of a file's content.

    Raises:
        SpecError: it cannot be read.
    """
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        hint = "paths are relative to the spec"
        raise view.error(where, f"{path.name!r} cannot be read: {error.strerror}", hint) from None
