"""Polynomials with whole coefficients over named quantities: subscripts, bounds of loops, shapes.

May not know where one comes from.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

__all__ = ["Monomial", "Polynomial", "constant", "variable"]

Monomial = tuple[str, ...]
"""A product of names, sorted, repeated for powers; empty for the number one. Quotients, as `n // 2`, are like names."""


class Polynomial(dict[Monomial, int]):
    """Coefficients by product, none of them zero; made by :meth:`of`, and changed by nobody."""

    __slots__ = ()

    @classmethod
    def of(cls, terms: Mapping[Monomial, int]) -> Polynomial:
        """From coefficients by product."""
        return cls({m: c for m, c in terms.items() if c})

    def __hash__(self) -> int:  # type: ignore[override]  # nobody changes one
        return hash(frozenset(self.items()))

    @property
    def names(self) -> frozenset[str]:
        """Everything that occurs, inside quotients too."""
        parts = {part for monomial in self for part in monomial}
        split = (re.findall(r"[A-Za-z_]\w*", part) if _is_quotient(part) else [part] for part in parts)
        return frozenset().union(*split)

    @property
    def value(self) -> int | None:
        """The number, where it is one."""
        return self.get((), 0) if set(self) <= {()} else None

    @property
    def degree(self) -> int:
        """Factors of the longest product."""
        return max((len(m) for m in self), default=0)

    def at(self, value: int) -> int:
        """What it comes to where every name has one value."""
        return sum(coefficient * value ** len(monomial) for monomial, coefficient in self.items())

    def __add__(self, other: Polynomial) -> Polynomial:
        total = dict(self)
        for monomial, coefficient in other.items():
            total[monomial] = total.get(monomial, 0) + coefficient
        return Polynomial.of(total)

    def __neg__(self) -> Polynomial:
        return Polynomial({m: -c for m, c in self.items()})

    def __sub__(self, other: Polynomial) -> Polynomial:
        return self + -other

    def __mul__(self, other: Polynomial) -> Polynomial:
        total: dict[Monomial, int] = {}
        for a, x in self.items():
            for b, y in other.items():
                monomial = tuple(sorted(a + b))
                total[monomial] = total.get(monomial, 0) + x * y
        return Polynomial.of(total)

    def factor_of(self, name: str) -> Polynomial | None:
        """What a name is multiplied by; ``None`` where it occurs in a power."""
        factor: dict[Monomial, int] = {}
        for monomial, coefficient in self.items():
            if monomial.count(name) > 1:
                return None
            if name in monomial:
                rest = list(monomial)
                rest.remove(name)
                factor[tuple(rest)] = coefficient
        return Polynomial.of(factor)

    def divided_by(self, other: Polynomial) -> Polynomial | None:
        """The quotient, where it comes out even."""
        if not other:
            return None
        divisor, by = other._leading()
        quotient, rest = constant(0), self
        while rest:
            monomial, coefficient = rest._leading()
            left = list(monomial)
            for name in divisor:
                if name not in left:
                    return None
                left.remove(name)
            if coefficient % by:
                return None
            part = Polynomial.of({tuple(left): coefficient // by})
            quotient, rest = quotient + part, rest - part * other
        return quotient

    def _leading(self) -> tuple[Monomial, int]:
        # The longest product, then by names: an order that multiplying by a product keeps, so division ends.
        return max(self.items(), key=lambda term: (len(term[0]), term[0]))

    def rounded_up(self) -> Polynomial:
        """Without subtractions: at least as large, and simpler."""
        return Polynomial.of({m: c for m, c in self.items() if c > 0})

    def text(self) -> str:
        """As an expression of the spec's language."""
        parts = []
        # The constant last, `rows + 1`, and what is taken away behind the rest.
        for monomial, coefficient in sorted(self.items(), key=lambda t: (-len(t[0]), t[1] < 0, t[0])):
            factors = [str(coefficient)] if coefficient != 1 or not monomial else []
            single = len(monomial) + len(factors) == 1
            factors += [f"({part})" if _is_quotient(part) and not single else part for part in monomial]
            parts.append(" * ".join(factors))
        return " + ".join(parts).replace("+ -1 * ", "- ").replace("+ -", "- ") or "0"


def _is_quotient(part: str) -> bool:
    # Identities, which begin with @, may have blanks too.
    return " " in part and part[0] != "@"


def constant(value: int) -> Polynomial:
    """A number."""
    return Polynomial.of({(): value})


def variable(name: str) -> Polynomial:
    """A named quantity."""
    return Polynomial.of({(name,): 1})
