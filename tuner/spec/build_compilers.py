"""The compiler of a user's own build in a spec: asked on this machine, or that of a record.

May not compile the kernel.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence

from tuner.core.compilers import BuildCompiler
from tuner.evaluators.host.build_compiler import asked_compiler, makes_threads
from tuner.evaluators.host.flags import HEADERS, flag_words, meaning_of, sort_flags
from tuner.spec.models import PassesModel, SpecModel
from tuner.spec.yaml_places import View

__all__ = ["COMPILER", "check_choices", "compiler_of", "reading_flags", "without_passes"]

COMPILER = "compiler.json"
"""The file of a record that says which compiler it was."""
_PLACE = ("compiler",)


def compiler_of(
    model: SpecModel, language: str, backend: str, view: View, recorded: Mapping[str, str] | None
) -> BuildCompiler | None:
    """The compiler that a spec names; ``None`` where clang and LLVM make the code.

    Args:
        model: of the spec.
        language: of its kernel.
        backend: that runs it.
        view: for places.
        recorded: files of a record, which stand for this machine.

    Raises:
        SpecError: it is not installed or does not take its flags; the spec asks for what it cannot do.
    """
    if model.compiler is None:
        return None
    if recorded is not None:
        return BuildCompiler.from_json(json.loads(recorded[COMPILER]))
    if backend != "host" or language not in ("c", "c++"):
        raise view.error(
            _PLACE, "compiler is for functions of the processor in C and C++", "leave it out", key=True
        )
    if model.target != "native":
        raise view.error(
            ("target",), "the compiler's own flags say the processor", "write -march under compiler"
        )
    if model.space.passes is not None and not model.space.passes.off:
        message = "orders of passes are those of LLVM here, and compiler makes the code"
        raise view.error(("space", "passes"), message, "leave one of them out", key=True)
    words = _split(model.compiler, _PLACE, view)
    if not words:
        raise view.error(_PLACE, "the command is empty", "for example gcc -O3 -march=native")
    if model.kernel.openmp and not makes_threads(words):
        message = f"{words[0]} is not told to heed OpenMP's directives, and kernel.openmp is there"
        raise view.error(_PLACE, message, "write -fopenmp here, or leave openmp out")
    with view.at(_PLACE):
        return asked_compiler(words)


def without_passes(model: SpecModel) -> SpecModel:
    """The model of a spec whose compiler has no passes to order."""
    space = model.space.model_copy(update={"passes": PassesModel(off=True)})
    return model.model_copy(update={"space": space})


def check_choices(compiler: BuildCompiler, flags: Mapping[str, Sequence[str]], view: View) -> None:
    """Asks the compiler whether it takes every choice of flags.

    Raises:
        SpecError: it does not, with the place.
    """
    for group, choices in flags.items():
        for i, choice in enumerate(choices):
            if not choice:
                continue
            with view.at(("space", "flags", group, i)):
                # Whether a header is there, the source's own compilation says.
                asked = [word for word in flag_words(shlex.split(choice)) if word[0] not in HEADERS]
                asked_compiler([*compiler.command, *(word for pair in asked for word in pair if word)])


def reading_flags(choice: str, compiler: BuildCompiler | None, folder: str) -> tuple[str, ...]:
    """What clang is told of a choice of flags when it reads the source.

    Raises:
        SpecError: a flag that cannot be honoured.
    """
    words = shlex.split(choice)
    return sort_flags(words, folder=folder).frontend if compiler is None else meaning_of(words, folder)


def _split(command: str, place: tuple[str, ...], view: View) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(command))
    except ValueError as error:
        raise view.error(place, f"{command!r} cannot be split into words: {error}", "check quotes") from None
