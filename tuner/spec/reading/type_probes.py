"""What declarations at the end of a CUDA source declare, as clang sees each by itself: one error hides no other.

A kernel's tunables are macros that nothing defines yet, so the source as a whole need not compile.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tuner.spec.reading.c_types import DTYPES, ENUMERATIONS, CType, c_type, stood_for
from tuner.spec.reading.nodes import Node
from tuner.spec.reading.record_layouts import Layout, record_layouts
from tuner.spec.reading.signature import SourceReader
from tuner.spec.reading.trees import inner_nodes

__all__ = ["TypeScope"]

_PROBE = "tuner_probe_"
_ATTRIBUTES = re.compile(r"^(?:\[\[.*?\]\]\s*)*")
_BITS = re.compile(r"__nv_(?:bfloat|fp\d)\w*|__half_raw")
"""Structures whose member is the bits of a number."""


@dataclass(frozen=True, slots=True)
class TypeScope:
    """Where names of types are looked up.

    Attributes:
        reader: of the source.
        namespaces: that are open, from the outermost.
        names: declarations of a template's parameters: ``using T = float;``.
    """

    reader: SourceReader
    namespaces: tuple[str, ...] = ()
    names: tuple[str, ...] = ()

    def kinds(self, declarations: Sequence[tuple[str, str]]) -> list[CType]:
        """The types of what is declared, arrays as the pointers that they are passed as, enumerations as numbers.

        Those of a wrong one have clang's message as ``odd``. What a pointer leads to has ``members`` where it is
        structures of numbers of one type, else ``structure``.

        Args:
            declarations: names with their declarations, as a parameter is declared.

        Raises:
            MachineError: there is no clang, or it does not answer.
        """
        probes = [_probe(i, name, text) for i, (name, text) in enumerate(declarations)]
        found, wrong = self.reader.probed(
            _PROBE, probes, before=ENUMERATIONS + self._before, after=self._after
        )
        kinds = []
        for i, (_, text) in enumerate(declarations):
            kind = _kind(found[i]) if i in found else None
            odd = wrong.get(i, "a type that clang does not know")
            kinds.append(replace(kind or CType(text=text, base="", odd=odd), text=text))
        layouts = self.layouts([kind.base for kind in kinds if _may_be_structures(kind)])
        return [
            layouts[kind.base].pointed(kind) if _may_be_structures(kind) and kind.base in layouts else kind
            for kind in kinds
        ]

    def layouts(self, types: Sequence[str]) -> dict[str, Layout]:
        """As :func:`~tuner.spec.reading.record_layouts.record_layouts`."""
        return record_layouts(self.reader, list(dict.fromkeys(types)), before=self._before, after=self._after)

    @property
    def _before(self) -> str:
        return (
            "".join(f"namespace {n} {{ " for n in self.namespaces)
            + "struct tuner_scope_ { "
            + "".join(self.names)
        )

    @property
    def _after(self) -> str:
        return "};" + "}" * len(self.namespaces)


def _probe(number: int, name: str, text: str) -> str:
    """One line with a class that has the variable, what it is passed as, and what that is made of or leads to."""
    element = f"__remove_cv(__remove_all_extents(__remove_pointer(__decay(decltype({name})))))"
    declared = _ATTRIBUTES.sub(r"\g<0>static ", text, count=1)
    return (
        f"struct {_PROBE}{number}_ {{ {declared}; static __decay(decltype({name})) tuner_passed; "
        f"static typename tuner_number_<{element}>::tuner_is tuner_element; }};"
    )


def _kind(tree: Node) -> CType | None:
    """What clang made of a probe."""
    types = {str(c["name"]): c["type"] for c in inner_nodes(tree) if c.get("kind") == "VarDecl"}
    if "tuner_element" not in types:
        return None
    kind, declared = c_type(types["tuner_passed"]), c_type(next(iter(types.values())))
    if kind.odd or declared.odd == "a reference":
        return replace(kind, odd=kind.odd or declared.odd)
    element = types["tuner_element"]
    base = str(element.get("desugaredQualType", element["qualType"]))
    number = stood_for(base).removeprefix("enum ")
    return replace(kind, base=number if number in DTYPES else base)


def _may_be_structures(kind: CType) -> bool:
    plain = kind.pointer and not (kind.odd or kind.dtypes or kind.base == "void")
    return plain and _BITS.fullmatch(kind.base) is None
