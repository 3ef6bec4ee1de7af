"""What a passage of a source owes to macros that a command line may set otherwise: asked of the preprocessor.

A name in a conditional is given another value, and the passage is another one or it is not. Must not read C but for the
words of conditionals, among which the names are.

Source: https://clang.llvm.org/docs/ClangCommandLineReference.html (``-D``, ``-dD``).
"""

from __future__ import annotations

import ast
import operator
import re
import textwrap
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from tuner.core.types import Preprocessed, Source, Value
from tuner.spaces.source.kinds import Refused
from tuner.spec.reading.device_programs import joined
from tuner.spec.reading.preprocessing import Asking, Placed, each
from tuner.spec.reading.signature import SourceReader

__all__ = ["macros_that_count", "requirement"]

_CONDITIONAL = re.compile(r"^[ \t]*#[ \t]*(?:if|ifdef|ifndef|elif)\b((?:[^\n\\]|\\.|\\\n)*)", re.MULTILINE)
_NO_CODE = re.compile(r"//[^\n]*|/\*.*?\*/|<[^<>\s]*>|\"[^\"\n]*\"", re.DOTALL)
_WORD = re.compile(r"(?<![\w.])[A-Za-z_]\w*")
_RESERVED = re.compile(r"_[_A-Z]")
_NUMBER = re.compile(r"(?<![\w.])(\d{1,9})[uUlL]*(?![\w.])")
_DEFINITION = re.compile(r"^#(?:(define)|undef) (\w+)(\(?) ?(.*)", re.MULTILINE)
_MARK = "#pragma tuner_region"
_SUFFIX = re.compile(r"(?<=[0-9a-fA-FxX])[uUlL]+\b")
_CHARACTER = re.compile(r"'([^'\\])'")
_DEEPEST = 16
_MOST = 1 << 31
_OPERATIONS: Mapping[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.LShift: lambda a, b: a << min(b, 64),
    ast.RShift: lambda a, b: a >> min(b, 64),
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
}
"""Those that are in Python what they are in C; none divides."""
WIDTH = 100


def macros_that_count(
    reader: SourceReader,
    tunables: Mapping[str, Sequence[Value]],
    found: Preprocessed,
    placed: Placed,
    headers: Sequence[Source] = (),
) -> dict[str, int | None]:
    """Macros with whose other values the regions would be others, with the values that they have above them.

    Asked about is one macro at a time: what only two together decide is not found.

    Args:
        reader: of the sources, with the flags of the build.
        tunables: of the spec, which are none of them.
        found: the preprocessed sources.
        placed: gives the files with preprocessed regions in them.
        headers: of the project, in other folders.

    Returns:
        By name; ``None`` for what is not defined. What is no whole number cannot be asked about, and is left out.

    Raises:
        MachineError: there is no clang, or it does not answer.
    """
    asking = Asking(reader, tunables, frozenset())
    defined = _definitions(replace(reader, files=tuple(placed(found, f"\n{_MARK}\n"))))
    asked = _asked([file.text for file in (*reader.files, *headers)])
    values: dict[str, int | None] = {}
    tried: list[tuple[str, int]] = []
    for name in sorted(asked.keys() - tunables.keys()):
        value = None if name not in defined else _integer(name, defined)
        if name not in defined or value is not None:
            values[name] = value
            known = asked[name] | {1 if value is None else value + 1, 0}
            others = (known | {value ^ bits for bits in known if value is not None}) - {value}
            tried += [(name, other) for other in sorted(others)]
    usual = _regions(asking, found, placed)
    made = each(lambda one: _regions(asking, found, placed, f"-D{one[0]}={one[1]}"), tried)
    count = {
        name for (name, _), other in zip(tried, made, strict=True) if other is not None and other != usual
    }
    return {name: value for name, value in values.items() if name in count}


def requirement(entry: str, counted: Mapping[str, int | None]) -> str:
    """Lines that stop a build in which a function would have been another one; empty where nothing counts."""
    if not counted:
        return ""
    wrong = [f"defined({name})" if value is None else f"{name} != {value}" for name, value in counted.items()]
    having = [f"with {name} == {value}" for name, value in counted.items() if value is not None]
    lacking = [f"without {name}" for name, value in counted.items() if value is None]
    said = ", ".join([*having, *lacking])
    lines = (f"#if {' || '.join(wrong)}", f'#error "this {entry} was tuned {said}"', "#endif")
    return "".join(f"{_in_lines(line)}\n" for line in lines)


def _in_lines(directive: str) -> str:
    return " \\\n    ".join(textwrap.wrap(directive, WIDTH, break_long_words=False, break_on_hyphens=False))


def _asked(texts: Collection[str]) -> dict[str, set[int]]:
    """Words of conditionals, each with the numbers beside it and the next ones.

    Names that are reserved for compilers are left out: another one has other values (``__clang__``, ``_OPENMP``).
    """
    found: dict[str, set[int]] = {}
    for line in (line for text in texts for line in _CONDITIONAL.findall(_NO_CODE.sub(" ", text))):
        numbers = {n + more for n in map(int, _NUMBER.findall(line)) for more in (0, 1)}
        for word in _WORD.findall(line):
            if not _RESERVED.match(word) and word != "defined":
                found.setdefault(word, set()).update(numbers)
    return found


def _definitions(reader: SourceReader) -> dict[str, str]:
    """What each macro stands for where the first mark is."""
    for unit in filter(None, map(reader.at, range(len(reader.files)))):
        above, found, _ = joined(unit).preprocessed("-dD")[0].partition(f"{_MARK}\n")
        if found:
            defined: dict[str, str] = {}
            for define, name, call, body in _DEFINITION.findall(above):
                defined.pop(name, "")
                if define:
                    # One with arguments has no value by itself.
                    defined[name] = "()" if call else _CHARACTER.sub(lambda found: str(ord(found[1])), body)
            return defined
    return {}


def _integer(name: str, defined: Mapping[str, str]) -> int | None:
    """What a macro is in a conditional; ``None`` where that is not told here.

    >>> _integer("MODE", {"MODE": "FAST", "FAST": "(1 << 2)"}), _integer("H", {"H": "0x5U"})
    (4, 5)
    """
    text = name
    for _ in range(_DEEPEST):
        made = _WORD.sub(lambda word: f"({defined[word[0]]})" if word[0] in defined else word[0], text)
        if made == text or len(made) > WIDTH:
            break
        text = made
    # Names that are no macros are 0 there.
    text = re.sub(r"\b0+(?=\d)", "0o", _WORD.sub("0", _SUFFIX.sub("", text)))
    try:
        value = _evaluated(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError):
        return None
    return value if abs(value) < _MOST else None


def _evaluated(node: ast.expr) -> int:
    match node:
        case ast.Constant(value=int(value)) if type(value) is int:
            return value
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_evaluated(operand)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATIONS:
            return _OPERATIONS[type(op)](_evaluated(left), _evaluated(right))
    raise ValueError


def _regions(asking: Asking, found: Preprocessed, placed: Placed, *flags: str) -> list[str] | None:
    """The files with their regions by further flags; ``None`` where the source refuses those itself."""
    texts = replace(asking, reader=asking.reader.with_flags(flags)).texts(dict(found.values))
    if texts.broken is not None:
        return None
    try:
        return [file.text for file in placed(replace(found, files=texts.files, origins=texts.origins))]
    except Refused:
        return []
