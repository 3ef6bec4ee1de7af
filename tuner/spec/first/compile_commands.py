"""How a project's own build compiles a file: its macros, folders of headers, dialect, and its compiler.

Reads the list that build systems write for clang's tools, and asks the compiler what it is. May not run a build.

Source: https://clang.llvm.org/docs/JSONCompilationDatabase.html.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tuner.core.compilers import CLANG
from tuner.core.errors import SpecError, TunerError, UsageError
from tuner.evaluators.host.build_compiler import asked_compiler, makes_threads
from tuner.evaluators.host.flags import HEADERS, MEANING

__all__ = [
    "CACHES",
    "LIST_FILE",
    "Compiled",
    "build_compiler",
    "compiled_as",
    "compiled_by",
    "doubts_of",
    "is_compiler",
    "library_flags",
    "macro_flags",
    "makes_code",
    "path_from",
    "sorted_words",
    "with_responses",
    "without_launchers",
]

_LEVEL = re.compile(r"-O\w*|-fast")
_SLOW_BY_DEFAULT = re.compile(r"(?:.*-)?(?:gcc|g\+\+|cc|c\+\+|clang|clang\+\+)(?:-[\d.]+)?")
"""Others, such as Intel's, optimise where nothing is said."""
LIST_FILE = "compile_commands.json"
CACHES = frozenset({"ccache", "sccache", "distcc", "icecc", "buildcache", "gomacc"})
"""Programs that stand before a compiler in a command, and call it with the words as they are."""
_LAUNCHERS = CACHES | {"env", "nice", "time", "sh", "bash", "libtool"}
_COMPILER = re.compile(
    r"(?:.+-)?(?:gcc|g\+\+|cc|c\+\+|clang|clang\+\+|icx|icpx|icc|icpc|nvc|nvc\+\+|tcc|c89|c99)(?:-\d[\w.]*)?"
)
_FOLDERS = ("-I", "-isystem", "-iquote", "-idirafter")
_TAKEN = ("-D", "-U")
_PRECOMPILED = "-include-pch"
_KEPT_PAIRS = ("--param", "-mllvm", "-Xassembler")
_JOINED = {"-target": "--target=", "-isysroot": "--sysroot=", "--sysroot": "--sysroot="}
_LEFT_PAIRS = frozenset(
    {
        *("-o", "-x", "-l", "-L", "-T", "-u", "-z", "-B", "-MF", "-MT", "-MQ", "-MJ", "-Xlinker"),
        *("-Xpreprocessor", "-framework", "-aux-info", "-dumpbase", "-dumpbase-ext", "-dumpdir", "-dumpfile"),
        *("--serialize-diagnostics", _PRECOMPILED),
    }
)
"""Options with a word of their own that say nothing about code."""
_LEFT = re.compile(
    r"-(?:[cSEsrwvHCP]|###|M(?:M|D|MD|P|G|[FTQJ].*)?|[WgolLB].*|x(?:c|c\+\+|none)|pedantic.*|pipe|save-temps.*|d[A-Z]\w*|time"
    r"|static.*|shared.*|rdynamic|pthread|pie|no-pie|nostdlib.*|nodefaultlibs|nostartfiles|nolibc"
    r"|f(?:no-)?diagnostics-.*|f(?:no-)?color-diagnostics|fmessage-length=.*|f\w+-prefix-map=.*|fuse-ld=.*"
    r"|fverbose-asm|Qunused-arguments)"
)
_NO_CODE = frozenset({"-E", "-M", "-MM", "-fsyntax-only", "-###"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled:
    """How a file is compiled.

    Attributes:
        list: the file that says so; ``None`` where the build was watched.
        include: folders of headers.
        flags: macros, dialect and what changes a source's meaning.
        command: the compiler, and the flags that say what code is made.
        ways: in how many that differ; this is the first.
        part_of: the source that includes a file which is not compiled by itself.
        language: of such a file; empty where its name says it.
    """

    list: Path | None
    include: tuple[Path, ...]
    flags: tuple[str, ...]
    command: tuple[str, ...] = ()
    ways: int = 1
    part_of: Path | None = None
    language: str = ""

    @property
    def openmp(self) -> bool:
        """Whether directives of OpenMP have threads in it."""
        return makes_threads(self.command)

    @property
    def optimised(self) -> bool:
        """Whether the compiler is told to make fast code, or nothing is known of what it is told."""
        levels = [word for word in self.command if _LEVEL.fullmatch(word)]
        if not levels:
            return not self.command or not _SLOW_BY_DEFAULT.fullmatch(Path(self.command[0]).name)
        return levels[-1] not in ("-O0", "-Og")


def compiled_by(commands: Sequence[tuple[Sequence[str], Path]], listed: Path | None) -> Compiled | None:
    """How a file is compiled by the first of several commands; ``None`` where there is none.

    Args:
        commands: words, with the compiler first, and the folder that each runs in.
        listed: the file that says so.
    """
    made = list(dict.fromkeys(sorted_words(words, folder) for words, folder in commands))
    if not made:
        return None
    include, flags, command = made[0]
    return Compiled(list=listed, include=include, flags=flags, command=command, ways=len(made))


def compiled_as(source: Path, given: Path | None = None) -> Compiled | None:
    """How a source is compiled by what a build wrote down; ``None`` where nothing was found that has it.

    Args:
        source: the file.
        given: the list or its folder; else it is looked for in the folders around the source, and in ``build`` there.

    Raises:
        UsageError: the list that is named cannot be read, or does not have the file.
    """
    source = source.resolve()
    if given is not None and given.is_dir():
        given /= LIST_FILE
    for path in [given] if given is not None else _around(source):
        entries = _entries(path)
        found = [_words(e) for e in entries if Path(e["directory"], e["file"]).resolve() == source]
        if found:
            return compiled_by(found, path)
        if given is not None:
            raise UsageError(f"{path} does not have {source.name}", "build the target that compiles it")
    return None


def _around(source: Path) -> Iterator[Path]:
    for folder in source.parents:
        yield from (path for path in (folder / LIST_FILE, folder / "build" / LIST_FILE) if path.is_file())


def _entries(path: Path) -> list[Mapping[str, Any]]:
    try:
        entries = json.loads(path.read_bytes())
        if not isinstance(entries, list) or not all(
            isinstance(e, dict) and isinstance(e.get("file"), str) and isinstance(e.get("directory"), str)
            for e in entries
        ):
            raise ValueError("no list of entries with file and directory")
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}", "name it, or its folder") from None
    except ValueError as error:
        raise UsageError(f"{path} is no list of compile commands: {error}", "write it anew") from None
    return entries


def _words(entry: Mapping[str, Any]) -> tuple[list[str], Path]:
    """The command's words, those of response files in their place, and the folder that it runs in."""
    folder = Path(entry["directory"])
    try:
        words = [str(word) for word in entry.get("arguments") or shlex.split(entry.get("command", ""))]
        made = with_responses(words, (Path(folder, w[1:]).read_text() for w in words if w.startswith("@")))
    except (OSError, ValueError) as error:
        raise UsageError(
            f"the command for {entry['file']} cannot be read: {error}", "build it first"
        ) from None
    return without_launchers(made), folder


def with_responses(words: Sequence[str], texts: Iterable[str]) -> list[str]:
    """Words with those of response files in the place of the files.

    Args:
        words: of a command.
        texts: of its response files, in order.

    Raises:
        ValueError: a text that is none of words.
    """
    made: list[str] = []
    rest = iter(texts)
    for word in words:
        made += shlex.split(next(rest, "")) if word.startswith("@") else [word]
    return made


def build_compiler(
    given: str | None, compiled: Compiled | None, *, openmp: bool
) -> tuple[tuple[str, ...], list[str]]:
    """The compiler that a first spec names, and what is said of one that it does not name.

    None is named where a list of commands has clang, whose passes can be tuned then, or a compiler that cannot be asked
    here, unless a person gives one. A build that was watched is to have the winner's source, so that its clang is named
    too.

    Args:
        given: the command line's, with flags.
        compiled: how the build compiles the file.
        openmp: whether the kernel has threads of its own.

    Raises:
        UsageError: what is given is no compiler with flags.
    """
    if given is not None:
        words = _given(given)
        return words if makes_threads(words) or not openmp else (*words, "-fopenmp"), []
    if compiled is None or not compiled.command:
        return (), []
    command = compiled.command
    try:
        listed_clang = asked_compiler(command).family == CLANG and compiled.list is not None
        return (() if listed_clang else command), []
    except TunerError as error:
        return (), [
            f"the build's compiler is left out, {shlex.join(command)}: {' '.join(error.message.split())}"
        ]


def library_flags(command: Sequence[str], language: str) -> tuple[str, ...]:
    """Clang's flags for the standard library of C++ that a build's compiler has; none where it cannot be asked.

    Args:
        command: the compiler with its flags; empty for none.
        language: of the source.
    """
    if not command or language != "c++":
        return ()
    try:
        return asked_compiler(command).library
    except TunerError:
        return ()


def _given(text: str) -> tuple[str, ...]:
    example = "for example --compiler 'gcc -O3 -march=native'"
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise UsageError(f"--compiler {text!r} cannot be split into words: {error}", "check quotes") from None
    if not words:
        raise UsageError("--compiler is empty", example)
    try:
        asked_compiler(words)
    except SpecError as error:
        raise UsageError(f"--compiler {text!r}: {error.message}", error.hint or example) from None
    return words


def doubts_of(compiled: Compiled | None, folder: Path) -> list[str]:
    """What is said of flags that a project's build has."""
    if compiled is None or compiled.list is None:
        return []
    ways = f", of {compiled.ways} ways there the first" if compiled.ways > 1 else ""
    return [f"macros, folders and dialect are those of {path_from(folder, compiled.list)}{ways}"]


def macro_flags(define: Sequence[str], language: str | None) -> tuple[str, ...]:
    """Macros of the command line as the compiler's flags.

    Raises:
        UsageError: one is no macro, or the language has none.
    """
    if define and language not in ("c", "c++"):
        raise UsageError("-D is for C and C++", "write the macros into the spec: flags under space")
    for each in define:
        if not re.fullmatch(r"[A-Za-z_]\w*(\([\w,.]*\))?(=\S*)?", each):
            hint = "give NAME, NAME=value or 'NAME(x)=value', without blanks"
            raise UsageError(f"-D {each} is no macro", hint)
    return tuple(f"-D{each}" for each in define)


def path_from(folder: Path, path: Path) -> str:
    """The path as a spec in the folder names it."""
    return os.path.relpath(path.resolve(), folder.resolve())


def is_compiler(word: str) -> bool:
    """Whether a word is a compiler's name or path, by its last part: gcc, clang, cc and the like."""
    return bool(_COMPILER.fullmatch(os.path.basename(word)))


def without_launchers(words: Sequence[str]) -> list[str]:
    """A command from its compiler on: without ``ccache``, ``libtool`` and the like in front."""
    if words and os.path.basename(words[0]) in _LAUNCHERS:
        for at, word in enumerate(words):
            if is_compiler(word):
                return list(words[at:])
    return list(words)


def makes_code(words: Sequence[str]) -> bool:
    """Whether a compiler's command makes code of its sources: neither text, nor lists of headers, nor messages."""
    return not _NO_CODE & set(words) and not any(word.startswith("-cc1") for word in words)


def sorted_words(
    words: Sequence[str], folder: Path
) -> tuple[tuple[Path, ...], tuple[str, ...], tuple[str, ...]]:
    """Folders of headers; flags that say what the source means; the compiler with those that say how it is compiled.

    Args:
        words: of a command, with the compiler first.
        folder: that it runs in.
    """
    include: list[Path] = []
    flags: list[str] = []
    command = [os.path.normpath(folder / word) if os.sep in word else word for word in words[:1]]
    rest = iter(words[1:])
    for word in rest:
        option = next((o for o in (*_FOLDERS, *HEADERS, *_TAKEN) if word.startswith(o)), None)
        if word.startswith(("-std=", "--std=")) or word in MEANING:
            flags.append(word.replace("--", "-", 1))
        elif option is not None and not word.startswith(_PRECOMPILED):
            value = word[len(option) :] or next(rest, "")
            if option in _TAKEN:
                flags.append(option + value)
            elif option in _FOLDERS:
                include.append(Path(os.path.normpath(folder / value)))
            else:
                header = Path(os.path.normpath(folder / value))
                include.append(header.parent)
                flags += [option, header.name]
        else:
            command += _of_code(word, rest, folder)
    levels = [word for word in command if word.startswith("-O")]
    command = [word for word in command if word not in levels[:-1] or word == levels[-1]]
    return tuple(dict.fromkeys(include)), tuple(flags), tuple(command)


def _of_code(word: str, rest: Iterator[str], folder: Path) -> list[str]:
    """What of a word, and of the one behind it that belongs to it, is kept in a compiler's command."""
    if word in _LEFT_PAIRS:
        next(rest, "")
        return []
    if word in _KEPT_PAIRS:
        return [word, next(rest, "")]
    if word in _JOINED:
        value = next(rest, "")
        return [_JOINED[word] + (value if word == "-target" else str(folder / value))]
    if word == "-Xclang":
        value = next(rest, "")
        if value in (*HEADERS, _PRECOMPILED):
            # What CMake writes of a header that is compiled before; -include follows, or has come before.
            next(rest, "")
            next(rest, "")
            return []
        return [word, value]
    return [word] if word.startswith("-") and word != "-" and not _LEFT.fullmatch(word) else []
