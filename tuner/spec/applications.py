"""The file that describes an application: how it is built, run and judged, and the regions of it that are tuned.

Written by ``tuner app init`` and edited by people. May not build or run anything.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tuner.core.errors import SpecError
from tuner.spec.messages import to_spec_error
from tuner.spec.yaml_places import View, read_yaml

__all__ = ["ApplicationFile", "Region", "application_text", "load_application"]

_HEAD = """\
# How an application is built, run and judged, and its regions that are tuned; written by `tuner app init`.
# Paths are relative to this file.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """A part of an application that is tuned: loops in one another, or a function.

    Attributes:
        source: path of the file.
        loops: lines at which loops begin, the outermost first; of these one is tuned. Empty for a function.
        function: its name, where it is no loop.
        share: of the application's processor time.
        within: the function that its loops lie in, for people; empty where that is not known.
        digest: of the outermost loop's text when it was found; empty for a region that a person wrote.
    """

    source: Path
    loops: tuple[int, ...] = ()
    function: str = ""
    share: float = 1.0
    within: str = field(default="", compare=False)
    digest: str = ""

    @property
    def name(self) -> str:
        """For messages, such as ``heat.c:12`` or ``heat.c:step``."""
        return f"{self.source.name}:{self.loops[0] if self.loops else self.function}"

    @property
    def most(self) -> float | None:
        """How many times as fast the application is if this takes no time at all; ``None`` for any.

        Source: Amdahl, "Validity of the single processor approach to achieving large scale computing capabilities",
        1967.
        """
        return 1 / (1 - self.share) if self.share < 1 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplicationFile:
    """What the file says; paths are absolute.

    Attributes:
        path: of the file.
        tree: the folder that holds the sources.
        build: the command that builds it there, for a shell.
        command: the application with its arguments.
        folder: that it runs in.
        check: a command for a shell that judges what a run prints; empty for none.
        rtol: by how much numbers in what it prints may differ.
        varies: lines that it prints otherwise each time, with ``*`` for what is not compared.
        regions: that are tuned.
    """

    path: Path
    tree: Path
    build: str
    command: tuple[str, ...]
    folder: Path
    check: str = ""
    rtol: float = 0.0
    varies: tuple[str, ...] = ()
    regions: tuple[Region, ...] = ()


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class _RegionModel(_Model):
    source: Annotated[str, Field(min_length=1)]
    loops: list[Annotated[int, Field(ge=1)]] = []
    function: str = ""
    share: Annotated[float, Field(gt=0, le=1, strict=False)] = 1.0
    digest: str = ""


class _FileModel(_Model):
    tree: Annotated[str, Field(min_length=1)] = "."
    build: Annotated[str, Field(min_length=1)]
    run: Annotated[str, Field(min_length=1)]
    folder: Annotated[str, Field(min_length=1)] = "."
    check: str = ""
    rtol: Annotated[float, Field(ge=0, strict=False)] = 0.0
    varies: list[str] = []
    regions: list[_RegionModel] = []


def load_application(path: Path) -> ApplicationFile:
    """Reads an application's file.

    Raises:
        SpecError: it cannot be read, or says something that cannot be, with its place.
    """
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise SpecError(f"there is no file {path}", "tuner app init writes one") from None
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise SpecError(f"{path} cannot be read: {reason}", "name the file of tuner app init") from None
    document = read_yaml(text, str(path))
    view = View(document=document, data=document.data)
    try:
        model = _FileModel.model_validate(document.data)
    except ValidationError as error:
        raise to_spec_error(error, view, _FileModel) from None
    try:
        command = tuple(shlex.split(model.run))
    except ValueError as error:
        raise SpecError(
            f"run cannot be split into words: {error}", "check quotes", place=view.place(("run",))
        ) from None
    beside = path.resolve().parent
    for number, region in enumerate(model.regions):
        if bool(region.loops) == bool(region.function):
            place = view.place(("regions", number))
            raise SpecError(f"regions[{number}] needs loops or a function", "give one of them", place=place)
    for number, line in enumerate(model.varies):
        if not line.strip("* \t"):
            place = view.place(("varies", number))
            raise SpecError(
                f"varies[{number}] is like any line", "write the line, with * for its numbers", place=place
            )
    return ApplicationFile(
        path=path,
        tree=(beside / model.tree).resolve(),
        build=model.build,
        command=command,
        folder=(beside / model.folder).resolve(),
        check=model.check,
        rtol=model.rtol,
        varies=tuple(model.varies),
        regions=tuple(
            Region(
                source=(beside / one.source).resolve(),
                loops=tuple(one.loops),
                function=one.function,
                share=one.share,
                digest=one.digest,
            )
            for one in model.regions
        ),
    )


def application_text(application: ApplicationFile) -> str:
    """The text of the file, to be written to its path."""
    beside = application.path.resolve().parent
    lines = [f"build: {_quoted(application.build)}", f"run: {_quoted(shlex.join(application.command))}"]
    for key, folder in (("tree", application.tree), ("folder", application.folder)):
        if folder != beside:
            lines.append(f"{key}: {_quoted(_from(beside, folder))}")
    if application.check:
        lines.append(f"check: {_quoted(application.check)}")
    if application.rtol:
        lines.append(f"rtol: {application.rtol!r}")
    if application.varies:
        lines += [
            "",
            "# Lines that differ from run to run by themselves; what stands for * is not compared.",
            "varies:",
        ]
        lines += [f"  - {_quoted(line)}" for line in application.varies]
    if application.regions:
        lines += ["", "# Of loops in one another the outermost is tuned that can be recorded.", "regions:"]
        lines += _region_lines(beside, application.regions)
    return _HEAD + "\n".join(lines) + "\n"


def _region_lines(beside: Path, regions: Sequence[Region]) -> list[str]:
    made = []
    for one in regions:
        what = f"loops: {list(one.loops)}" if one.loops else f"function: {_quoted(one.function)}"
        digest = f", digest: {_quoted(one.digest)}" if one.digest else ""
        made.append(
            f"  - {{source: {_quoted(_from(beside, one.source))}, {what}, share: {one.share:.3f}{digest}}}"
        )
    return made


def _from(folder: Path, path: Path) -> str:
    return os.path.relpath(path, folder)


def _quoted(text: str) -> str:
    """As YAML takes it, whatever is in it."""
    return json.dumps(text, ensure_ascii=False)
