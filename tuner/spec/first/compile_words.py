"""Sorts the words of a build's compile command: what a source means, what code is made of it, and what neither says.

May not run a compiler.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from tuner.evaluators.host.flags import HEADERS, MEANING

__all__ = ["CACHES", "is_compiler", "makes_code", "sorted_words", "without_launchers"]

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
