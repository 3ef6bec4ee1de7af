"""What a watched build says of the compiler that a spec should name, or that a run should have been tuned under.

May not run a build.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import yaml

from tuner.core.compilers import CLANG
from tuner.core.errors import TunerError
from tuner.core.files import write_atomically
from tuner.evaluators.host.build_compiler import asked_compiler
from tuner.evaluators.host.flags import HEADERS, MEANING
from tuner.spec.first.compile_commands import Compiled, sorted_words
from tuner.spec.first.members import command_text
from tuner.spec.load import LoadedSpec, load_spec
from tuner.spec.tunables import flag_words

__all__ = ["command_of", "compiler_notes", "difference", "run_note", "with_compiler"]

_LEVEL = re.compile(r"default<(O\w)>")
_MACRO = re.compile(r"-[DU](\w+)")


def compiler_notes(spec: LoadedSpec, compiled: Compiled | None, file: str, output: Path | None) -> list[str]:
    """What a person should know of the compiler that the build was seen to use; puts it into a copy of the spec.

    Args:
        spec: that was recorded for.
        compiled: how the build compiles the kernel's file; ``None`` where that was not seen.
        file: its name.
        output: the copy of the spec, which is changed where the spec says no compiler and the build's is not clang.
    """
    if compiled is None:
        return []
    command = command_of(spec, compiled)
    seen = _seen(compiled, command, file)
    if spec.task.kernel.compiler is not None:
        found = difference(spec, compiled)
        return [f"{seen}, {spec.path} says compiler: {found}"] if found else []
    try:
        if asked_compiler(command).family == CLANG:
            return []
    except TunerError as error:
        return [f"{seen}, which cannot be named in a spec: {_line(error)}"]
    said = f"compiler: {command_text(command)}"
    if output is None:
        return [f"{seen}: write {said} into {spec.path} and leave out passes: to tune what it makes"]
    before, reason = output.read_bytes(), ""
    for words in dict.fromkeys((command, compiled.command)):
        write_atomically(output, with_compiler(before.decode("utf-8"), words).encode())
        try:
            load_spec(output)
        except TunerError as error:
            reason = reason or _line(error)
        else:
            return [
                f"{seen}: {output.name} has compiler: {shlex.join(words)}, and no orders of LLVM's passes"
            ]
    write_atomically(output, before)
    return [f"{seen}, which {output.name} does not have: {reason}"]


def command_of(spec: LoadedSpec, compiled: Compiled) -> tuple[str, ...]:
    """The compiler with flags that a spec would name: with macros and flags of meaning that it does not have yet."""
    words = [w for choices in spec.tunables.flags.values() for one in choices for w in flag_words(one)]
    names = {parameter.name for parameter in spec.tunables.parameters}
    names |= {match[1] for match in map(_MACRO.match, words) if match}
    dialect = any(word.startswith("-std=") for word in words)
    more = []
    rest = iter(compiled.flags)
    for flag in rest:
        macro = _MACRO.match(flag)
        if flag in HEADERS:
            # What has to be included the spec has, or it would not have been read.
            next(rest, "")
        elif flag not in words and not (macro and macro[1] in names):
            more += [] if flag.startswith("-std=") and dialect else [flag]
    return (*compiled.command, *more)


def difference(spec: LoadedSpec, compiled: Compiled) -> str:
    """The compiler with flags that a spec's candidates are made by where a build's is another; else empty."""
    built = {*compiled.command[1:], *MEANING.intersection(compiled.flags)}
    own = spec.task.kernel.compiler
    fixed = [
        w for choices in spec.tunables.flags.values() if len(choices) == 1 for w in flag_words(choices[0])
    ]
    if own is not None:
        _, flags, command = sorted_words([*own.command, *fixed], Path(spec.path).parent)
        same = _program(own.command[0]) == _program(compiled.command[0])
        alike = same and built == {*command[1:], *MEANING.intersection(flags)}
        more = [word for word in fixed if word in (*command, *MEANING) and word not in own.command]
        return "" if alike else shlex.join([*own.command, *more])
    level = _LEVEL.fullmatch((spec.tunables.passes or {}).get("base", "default<O3>"))
    target = spec.task.target
    words = [f"-{level[1]}"] if level else []
    _, flags, command = sorted_words(["clang", *words, f"-march={target}", *fixed], Path())
    meaning = sorted(MEANING.intersection(flags))
    alike = _is_clang(compiled.command) and built == {*command[1:], *meaning}
    return "" if alike else shlex.join([*command, *meaning])


def run_note(spec: LoadedSpec, compiled: Compiled | None, file: str) -> str:
    """What a person should know before a winner is judged in a build; empty where there is nothing.

    Args:
        spec: that was tuned.
        compiled: how the build compiles the winner's file; ``None`` where that was not seen.
        file: its name.
    """
    found = "" if compiled is None else difference(spec, compiled)
    if compiled is None or not found:
        return ""
    command = command_of(spec, compiled)
    said = f"{_seen(compiled, command, file)}, the run of {spec.name} was tuned under {found}"
    return f"{said}: set compiler: {command_text(command)} in the spec"


def with_compiler(text: str, command: Sequence[str]) -> str:
    """A spec's text with a compiler, and without orders of LLVM's passes."""
    line = f"compiler: {command_text(command)}\n"
    space = _value(yaml.compose(text), "space")
    passes = _value(space, "passes")
    if passes is None or getattr(passes, "value", "") == "off":
        return line + text
    assert isinstance(space, yaml.MappingNode)
    key = next(key for key, value in space.value if value is passes)
    end = max(leaf.end_mark.index for leaf in _leaves(passes))
    begin = text.rfind("\n", 0, key.start_mark.index) + 1
    alone = text[begin : key.start_mark.index].isspace() and not space.flow_style
    if not alone or len(space.value) == 1:
        return f"{line}{text[: key.end_mark.index]}: off{text[end:]}"
    after = text.find("\n", end)
    return line + text[:begin] + ("" if after < 0 else text[after + 1 :])


def _value(node: yaml.Node | None, name: str) -> yaml.Node | None:
    """The value of a mapping's key."""
    pairs = node.value if isinstance(node, yaml.MappingNode) else []
    return next((value for key, value in pairs if key.value == name), None)


def _leaves(node: yaml.Node) -> Iterator[yaml.Node]:
    """The parts of a value whose end is where their text ends."""
    if not isinstance(node, yaml.CollectionNode) or node.flow_style or not node.value:
        yield node
        return
    for part in node.value:
        for inner in part if isinstance(part, tuple) else (part,):
            yield from _leaves(inner)


def _seen(compiled: Compiled, command: Sequence[str], file: str) -> str:
    more = command[len(compiled.command) :]
    further = f" with {shlex.join(more)}" if more else ""
    ways = f" (one of {compiled.ways} ways)" if compiled.ways > 1 else ""
    return f"the build compiles {file} by {shlex.join(compiled.command)}{further}{ways}"


def _line(error: TunerError) -> str:
    return " ".join(error.message.split())


def _program(word: str) -> str:
    found = shutil.which(word)
    return word if found is None else os.path.realpath(found)


def _is_clang(command: Sequence[str]) -> bool:
    try:
        return asked_compiler(command).family == CLANG
    except TunerError:
        return False
