"""What declarations at the end of a CUDA source declare, as clang sees each by itself: one error hides no other.

A kernel's tunables are macros that nothing defines yet, so the source as a whole need not compile.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tuner.spec.reading.c_types import CType, c_type
from tuner.spec.reading.element_members import dtype_of_layout
from tuner.spec.reading.record_layouts import Layout, record_layouts
from tuner.spec.reading.signature import SourceReader

__all__ = ["TypeScope"]

_FILE = "tuner_probes"
_NUMBER = """template <class T, bool = __is_enum(T)> struct tuner_number_ { typedef T type; };
template <class T> struct tuner_number_<T, true> { typedef __underlying_type(T) type; };
"""
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
        if not declarations:
            return []
        lines = [
            f"struct tuner_probe_{i}_ {{ static {text}; static __decay(decltype({name})) tuner_passed; static "
            "typename tuner_number_<__remove_cv(__remove_all_extents(__remove_pointer(__decay(decltype("
            f"{name})))))>::type tuner_element; }};"
            for i, (name, text) in enumerate(declarations)
        ]
        extra = f'\n\n{_NUMBER}{self._before}\n#line 1 "{_FILE}"\n' + "\n".join(lines) + f"\n{self._after}\n"
        trees, errors = self.reader.answered("tuner_probe_", extra)
        wrong = {
            int(line): message
            for line, message in reversed(re.findall(rf"^{_FILE}:(\d+):\d+: error: (.*)$", errors, re.M))
        }
        found: dict[str, CType] = {}
        for tree in trees:
            inner = {str(c["name"]): c["type"] for c in tree.get("inner", []) if c.get("kind") == "VarDecl"}
            if "tuner_element" in inner:
                element, kind = inner["tuner_element"], c_type(inner["tuner_passed"])
                declared = c_type(next(iter(inner.values())))
                odd = kind.odd or (declared.odd if "&" in declared.text else "")
                found[str(tree["name"])] = replace(
                    kind, base=element.get("desugaredQualType", element["qualType"]), odd=odd
                )
        kinds = [
            CType(text=text, base="", odd=wrong.get(i + 1, "a type that clang does not know"))
            if i + 1 in wrong or f"tuner_probe_{i}_" not in found
            else replace(found[f"tuner_probe_{i}_"], text=text)
            for i, (_, text) in enumerate(declarations)
        ]
        layouts = self.layouts([kind.base for kind in kinds if _may_be_structures(kind)])
        return [_pointed(kind, layouts[kind.base]) if kind.base in layouts else kind for kind in kinds]

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


def _may_be_structures(kind: CType) -> bool:
    plain = kind.pointer and not (kind.odd or kind.dtypes or kind.base == "void")
    return plain and _BITS.fullmatch(kind.base) is None


def _pointed(kind: CType, layout: Layout) -> CType:
    numbers = layout.uniform()
    if numbers is None:
        return replace(kind, structure=dtype_of_layout(layout) or "")
    return replace(kind, base=numbers[0], members=numbers[1])
