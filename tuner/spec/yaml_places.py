"""YAML as plain data together with the place of every key and value, so that a mistake can be pointed at.

Scalars follow YAML 1.2 where 1.1 has traps: ``off``, ``on``, ``yes`` and ``no`` are text, ``1e-5`` is a number, dates
and ``1:30`` are text. Knows nothing of specs.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import yaml

from tuner.core.errors import BaselineError, Place, SpecError

__all__ = ["MAX_BYTES", "Document", "Path", "View", "closest", "read_yaml", "suggestion"]

MAX_BYTES = 256 * 1024
MAX_VALUES = 50_000
MAX_DEPTH = 40

Path = tuple[str | int, ...]
"""Keys and list positions from the root to a value."""

_NULL = {"", "~", "null", "Null", "NULL"}
_TRUE = {"true", "True", "TRUE"}
_FALSE = {"false", "False", "FALSE"}
_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9_]*)$")
_BASED = re.compile(r"[-+]?0(x[0-9a-fA-F_]+|o[0-7_]+|b[01_]+)$")
_OCTAL_OR_NOT = re.compile(r"[-+]?0[0-9_]+$")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9][0-9_]*(\.[0-9_]*)?)([eE][-+]?[0-9]+)?$")
_SPECIAL = re.compile(r"([-+]?)\.(inf|Inf|INF)$|\.(nan|NaN|NAN)$")
_MAX_DIGITS = 400

_TAG = "tag:yaml.org,2002:"
_SCALAR_TAGS = {_TAG + t for t in ("str", "int", "float", "bool", "null", "timestamp", "value", "merge")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A file's content.

    Attributes:
        data: mappings, lists, text, numbers, truth values and ``None``.
        file: its name for messages.
        values: where each value begins; ``keys``: where each key stands.
    """

    data: Any
    file: str
    values: Mapping[Path, Place]
    keys: Mapping[Path, Place]

    def place(self, path: Sequence[str | int], *, key: bool = False) -> Place:
        """Where a value (or its key) stands; the nearest thing around it that is in the file.

        Parts of the path that the file does not have are skipped: a short form in the file may stand for a longer
        one in the model.
        """
        known: Path = ()
        for part in path:
            if (*known, part) in self.values:
                known = (*known, part)
        table = self.keys if key and known in self.keys else self.values
        return table.get(known, Place(file=self.file, line=1))


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """One kernel's part of a document: its own keys over those that all kernels of the file share.

    Attributes:
        document: the whole file.
        data: the keys, merged.
        own: path of the kernel's own mapping; its keys are looked up there, the others at the root.
    """

    document: Document
    data: Mapping[str, Any]
    own: Path = ()

    def place(self, path: Sequence[str | int], *, key: bool = False) -> Place:
        """As :meth:`Document.place`, for a path in :attr:`data`."""
        at_root = bool(path) and (*self.own, path[0]) not in self.document.values
        return self.document.place(path if at_root else (*self.own, *path), key=key)

    def error(
        self, path: Sequence[str | int], message: str, hint: str = "", *, key: bool = False
    ) -> SpecError:
        """A mistake at a path."""
        return SpecError(message, hint, place=self.place(path, key=key))

    @contextmanager
    def at(self, path: Sequence[str | int], *, key: bool = False) -> Iterator[None]:
        """What is wrong in here stands at a path, unless it says itself where it stands."""
        try:
            yield
        except (SpecError, BaselineError) as error:
            raise error.at(self.place(path, key=key)) from None


def closest(word: str, known: Collection[str]) -> str:
    """The known word that a wrong one most resembles; empty when none does."""
    folded = {k.lower(): k for k in known}
    if word.lower() in folded:
        return folded[word.lower()]
    return next(iter(difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)), "")


def suggestion(word: str, known: Collection[str], otherwise: str) -> str:
    """A hint: the known word that a wrong one most resembles, or something else where none does."""
    near = closest(word, known)
    return f"did you mean {near!r}?" if near else otherwise


def read_yaml(text: str, file: str) -> Document:
    """Reads one YAML document.

    Args:
        text: the file's content.
        file: its name for messages.

    Raises:
        SpecError: not YAML, empty, too large, nested too deeply, a key given twice, tags or merge keys.
    """
    if len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        raise SpecError(
            "the file is too large for a spec", f"at most {MAX_BYTES // 1024} KiB", place=Place(file=file)
        )
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        raise _syntax_error(error, file) from None
    except yaml.YAMLError as error:
        raise SpecError(
            f"not YAML: {_one_line(error)}", "save it as UTF-8 text", place=Place(file=file)
        ) from None
    except RecursionError:
        raise SpecError("nested too deeply", f"at most {MAX_DEPTH} levels", place=Place(file=file)) from None
    if node is None:
        raise SpecError("the file is empty", "begin with `kernel:`", place=Place(file=file, line=1))
    reader = _Reader(file)
    data = reader.read(node, ())
    return Document(data=data, file=file, values=reader.values, keys=reader.keys)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]


def _syntax_error(error: yaml.MarkedYAMLError, file: str) -> SpecError:
    mark = error.problem_mark or error.context_mark
    place = Place(file=file) if mark is None else Place(file=file, line=mark.line + 1, column=mark.column + 1)
    problem = " ".join((error.problem or "it cannot be read").split())
    context = f" {error.context}" if error.context else ""
    hint = "check indentation, quotes and brackets"
    if r"'\t'" in problem:
        hint = "indent with spaces, not tabs"
    elif "undefined alias" in problem:
        hint = "put text that begins with * in quotes"
    elif "mapping values are not allowed" in problem:
        hint = "put text with a colon in quotes, and check the indentation"
    elif "single document" in (error.context or ""):
        hint = "one spec for a file: remove the line ---"
    return SpecError(f"not YAML: {problem}{context}", hint, place=place)


class _Reader:
    """Turns nodes into data once, counting what aliases expand to."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.values: dict[Path, Place] = {}
        self.keys: dict[Path, Place] = {}
        self._open: list[yaml.Node] = []

    def read(self, node: yaml.Node, path: Path) -> Any:
        place = self._place(node)
        self.values[path] = place
        if len(self.values) > MAX_VALUES:
            raise SpecError("too many values, aliases counted", f"at most {MAX_VALUES}", place=place)
        if len(path) > MAX_DEPTH:
            raise SpecError("nested too deeply", f"at most {MAX_DEPTH} levels", place=place)
        if any(node is outer for outer in self._open):
            raise SpecError("an alias contains itself", "write the value out", place=place)
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, place)
        self._open.append(node)
        try:
            if isinstance(node, yaml.SequenceNode):
                self._plain(node, _TAG + "seq", place)
                return [self.read(child, (*path, i)) for i, child in enumerate(node.value)]
            self._plain(node, _TAG + "map", place)
            return self._mapping(node, path)
        finally:
            self._open.pop()

    def _place(self, node: yaml.Node) -> Place:
        return Place(file=self.file, line=node.start_mark.line + 1, column=node.start_mark.column + 1)

    def _plain(self, node: yaml.Node, tag: str, place: Place) -> None:
        if node.tag != tag:
            raise SpecError(
                f"the tag {node.tag.replace(_TAG, '!!')!r} is not allowed", "remove it", place=place
            )

    def _mapping(self, node: yaml.Node, path: Path) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key_node, value_node in node.value:
            place = self._place(key_node)
            if not isinstance(key_node, yaml.ScalarNode):
                raise SpecError("a key is a list or a mapping", "keys are words", place=place)
            # Keys are names: `on: 1` and `1: 2` are the texts "on" and "1".
            key = key_node.value
            if key_node.tag == _TAG + "merge":
                raise SpecError("merge keys (<<) are not supported", "write the keys out", place=place)
            if key in result:
                first = self.keys[(*path, key)].line
                raise SpecError(
                    f"the key {key!r} stands here twice", f"it is in line {first} too", place=place
                )
            self.keys[(*path, key)] = place
            result[key] = self.read(value_node, (*path, key))
        return result

    def _scalar(self, node: yaml.ScalarNode, place: Place) -> Any:
        text: str = node.value
        tag = node.tag
        if tag not in _SCALAR_TAGS:
            raise SpecError(f"the tag {tag.replace(_TAG, '!!')!r} is not allowed", "remove it", place=place)
        if node.style in ("'", '"', "|", ">"):
            return text
        try:
            return _resolve(text)
        except SpecError as error:
            raise error.at(place) from None


def _resolve(text: str) -> Any:
    """A plain scalar by YAML 1.2's core rules, and ``_`` between digits."""
    if text in _NULL:
        return None
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    if len(text) > _MAX_DIGITS:
        return text
    digits = text.replace("_", "")
    if _INTEGER.match(text):
        return int(digits)
    if _BASED.match(text):
        return int(digits, 0)
    if _OCTAL_OR_NOT.match(text):
        plain = digits.lstrip("+-").lstrip("0") or "0"
        raise SpecError(f"{text} could be octal or decimal", f"write {plain}, or 0o{plain} for octal")
    if _FLOAT.match(text):
        return float(digits)
    special = _SPECIAL.match(text)
    if special:
        return float("nan") if special[3] else float(f"{special[1]}inf")
    return text
