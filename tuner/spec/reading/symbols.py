"""What a compiled source defines and what that refers to, read from LLVM's text of it; whole names of variables.

Clang's tree of a function leaves out the namespaces of variables. A name in it may be that of a namespace's variable,
and the end of the file find another one by it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tuner.core.errors import BaselineError
from tuner.core.reaching import reachable
from tuner.evaluators.host.symbols import entry_symbol
from tuner.spec.reading.methods import name_parts
from tuner.spec.reading.signature import SourceReader

__all__ = ["Symbols", "WholeName", "names_in_symbols", "plain_name", "symbols_of"]

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
_NAMELESS = "_GLOBAL__N_1"


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

    >>> plain_name("scale"), plain_name("_Z5scaled"), plain_name("_ZN2ns5scaleEd"), plain_name("_ZNSt3mapEv")
    ('scale', 'scale', 'scale', '')
    """
    *_, last = ["", *name_parts(symbol)]
    return last if symbol.startswith(("_Z", "__")) else symbol


def _named(match: re.Match[str]) -> str:
    return match["q"] or match["n"]


@dataclass(frozen=True, slots=True)
class WholeName:
    """A variable's name with the namespaces and classes that it is in, and whether other files may use it.

    Empty where several variables have the name.
    """

    name: str
    offered: bool = False


def names_in_symbols(reader: SourceReader, function: str, names: Iterable[str]) -> dict[str, WholeName]:
    """The whole names of variables.

    What the code does not refer to is left out: the compiler knows its value, or another file uses it. All have
    their own names where the source does not compile.

    Args:
        reader: of the source.
        function: that uses them, or calls what does; with its namespaces.
        names: of the variables, without.

    Raises:
        MachineError: there is no clang, or it does not answer.
    """
    try:
        symbols = symbols_of(reader.llvm())
    except BaselineError:
        return {name: WholeName(name) for name in names}
    entry = entry_symbol(symbols.functions, function)
    reached = (
        symbols.defined.keys() if entry is None else reachable([entry], lambda n: symbols.defined.get(n, ()))
    )
    referred = frozenset().union(*(symbols.defined.get(each, frozenset()) for each in reached))
    found: dict[str, WholeName] = {}
    for name in names:
        own = [each for each in referred - symbols.functions if plain_name(each) == name]
        if len(own) == 1:
            found[name] = WholeName(
                _whole(own[0]), own[0] not in symbols.defined or own[0] in symbols.offered
            )
        elif own:
            found[name] = WholeName("")
    return found


def _whole(symbol: str) -> str:
    parts = [part for part in name_parts(symbol) if part != _NAMELESS]
    return "::".join(parts) or plain_name(symbol)
