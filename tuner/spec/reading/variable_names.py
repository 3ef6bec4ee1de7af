"""The whole names of variables outside of functions, which clang's tree of a function leaves out: its code has them.

A name in a tree may be that of a namespace's variable, and the end of the file find another one by it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tuner.core.errors import BaselineError
from tuner.core.reaching import reachable
from tuner.evaluators.host.symbols import entry_symbol
from tuner.spec.reading.methods import scopes_of
from tuner.spec.reading.signature import SourceReader
from tuner.spec.reading.symbols import plain_name, symbols_of

__all__ = ["WholeName", "names_in_symbols"]

_NAMELESS = "_GLOBAL__N_1"


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
    parts = [part for part in scopes_of({"mangledName": symbol}) if part != _NAMELESS]
    return "::".join(parts) or plain_name(symbol)
