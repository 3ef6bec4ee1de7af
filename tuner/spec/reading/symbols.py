"""What a compiled source defines and what that refers to, read from LLVM's text of it. May not compile."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tuner.core.reaching import reachable

__all__ = ["Symbols", "plain_name", "symbols_of"]

_NAME = r'@(?:"(?P<q>[^"\n]+)"|(?P<n>[\w.$-]+))'
_REFERENCE = re.compile(_NAME)
_FUNCTION = re.compile(rf"^define (?P<how>[^@\n]*?){_NAME}\(.*?^\}}", re.MULTILINE | re.DOTALL)
_DECLARED = re.compile(rf"^declare [^@\n]*{_NAME}\(", re.MULTILINE)
_VARIABLE = re.compile(rf"^{_NAME} = (?P<how>[^\n]*)$", re.MULTILINE)
_ALLOCATED = re.compile(
    r"^  (?P<v>%\d+) = call [^@\n]*@(?:malloc|_Znam|_Znwm|calloc|aligned_alloc)\((?P<g>[^()\n]*)\)[^\n]*\n"
    rf"  store ptr (?P=v), ptr {_NAME}",
    re.MULTILINE,
)
"""Memory whose address goes into a global pointer as it is."""
_NUMBERS = re.compile(r"i64 (?:\w+ )?(\d+)(?=,|$)")
_OWN = re.compile(r"\b(?:internal|private|available_externally)\b")
_MERGED = re.compile(r"\b(?:linkonce|linkonce_odr|weak|weak_odr|common|appending)\b")
_EXTERNAL = re.compile(r"(?:extern_weak|external) ")
_OF_LLVM = "llvm."


@dataclass(frozen=True, slots=True, kw_only=True)
class Symbols:
    """The symbols of one source.

    Attributes:
        defined: what each function and variable that it defines refers to.
        offered: those of them that other files may use.
        strong: those of which a program may have only one.
        functions: those that it declares or defines as functions; others are variables.
        allocated: bytes that global pointers are given, where they are a constant and the same in every place; by the
            names in the source.
    """

    defined: Mapping[str, frozenset[str]]
    offered: frozenset[str]
    strong: frozenset[str]
    functions: frozenset[str]
    allocated: Mapping[str, int]

    def missing(self, entries: Iterable[str]) -> set[str]:
        """What the entries need, directly or through others, that is not defined here."""
        return reachable(entries, lambda name: self.defined.get(name, ())) - self.defined.keys()


def symbols_of(text: str) -> Symbols:
    """The symbols of a module.

    >>> text = "define void @k() {\\n  call void @f()\\n}\\ndeclare void @f()\\n@n = external global i32\\n"
    >>> found = symbols_of(text)
    >>> found.missing(["k"]), sorted(found.functions)
    ({'f'}, ['f', 'k'])
    """
    defined: dict[str, frozenset[str]] = {}
    offered, strong = set[str](), set[str]()
    functions = {_named(m) for m in _DECLARED.finditer(text)}
    found = [(m, m[0][m.end("how") - m.start() :]) for m in _FUNCTION.finditer(text)]
    functions |= {_named(m) for m, _ in found}
    found += [(m, m["how"]) for m in _VARIABLE.finditer(text) if not _EXTERNAL.search(m["how"])]
    for match, body in found:
        name, how = _named(match), match["how"].partition("{")[0].partition(" @")[0]
        if name.startswith(_OF_LLVM):
            continue
        defined[name] = frozenset(_named(m) for m in _REFERENCE.finditer(body)) - {name}
        if not _OWN.search(how):
            offered.add(name)
            strong |= set() if _MERGED.search(how) else {name}
    defined = {
        name: frozenset(r for r in refers if not r.startswith(_OF_LLVM)) for name, refers in defined.items()
    }
    return Symbols(
        defined=defined,
        offered=frozenset(offered),
        strong=frozenset(strong),
        functions=frozenset(functions),
        allocated=_allocated(text),
    )


def _allocated(text: str) -> dict[str, int]:
    found: dict[str, set[int]] = {}
    for match in _ALLOCATED.finditer(text):
        given = match["g"].split(", ")
        numbers = [int(n[1]) for each in given if (n := _NUMBERS.match(each))]
        # An alignment comes before the size, which it divides.
        size = numbers[-1] if "aligned_alloc" in match[0] else math.prod(numbers)
        found.setdefault(plain_name(_named(match)), set()).add(size if len(numbers) == len(given) else 0)
    return {name: sizes.pop() for name, sizes in found.items() if len(sizes) == 1 and name and 0 not in sizes}


def plain_name(symbol: str) -> str:
    """The name of a symbol in its source, without namespaces; empty for what only a compiler or a library names.

    Source: Itanium C++ ABI, 5.1.3 (nested names).

    >>> plain_name("scale"), plain_name("_Z5scaled"), plain_name("_ZN2ns5scaleEd"), plain_name("_ZNSt3mapEv")
    ('scale', 'scale', 'scale', '')
    >>> plain_name("_ZL4grid"), plain_name("_ZN2nsL4gridE")
    ('grid', 'grid')
    """
    found = re.match(r"_ZN?K?L?(?=\d)", symbol)
    if found is None:
        return "" if symbol.startswith(("_Z", "__")) else symbol
    parts, rest = list[str](), symbol[found.end() :]
    while number := re.match(r"L?(\d+)", rest):
        end = number.end() + int(number[1])
        parts.append(rest[number.end() : end])
        rest = rest[end:] if found[0].startswith("_ZN") else ""
    return parts[-1]


def _named(match: re.Match[str]) -> str:
    return match["q"] or match["n"]
