"""Polynomials with whole coefficients over named quantities: what an index into an array looks like.

Only what guessing shapes needs; may not know where an index comes from.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["Polynomial", "constant", "variable"]

Monomial = tuple[str, ...]
"""Sorted names, repeated for powers; quotients, as `n // 2`, are like names."""


@dataclass(frozen=True, slots=True)
class Polynomial:
    """A sum of products; terms with coefficient 0 are left out."""

    terms: tuple[tuple[Monomial, int], ...]

    @classmethod
    def of(cls, terms: Mapping[Monomial, int]) -> Polynomial:
        """From coefficients by product."""
        return cls(tuple(sorted((m, c) for m, c in terms.items() if c)))

    @property
    def names(self) -> frozenset[str]:
        """Everything that occurs, inside quotients too."""
        parts = {part for monomial, _ in self.terms for part in monomial}
        split = (re.findall(r"[A-Za-z_]\w*", part) if _is_quotient(part) else [part] for part in parts)
        return frozenset().union(*split)

    @property
    def value(self) -> int | None:
        """The number, where it is one."""
        if not self.terms:
            return 0
        return self.terms[0][1] if self.terms[0][0] == () and len(self.terms) == 1 else None

    @property
    def degree(self) -> int:
        """Factors of the longest product."""
        return max((len(m) for m, _ in self.terms), default=0)

    def at(self, value: int) -> int:
        """What it comes to where every name has one value."""
        return sum(coefficient * value ** len(monomial) for monomial, coefficient in self.terms)

    def __add__(self, other: Polynomial) -> Polynomial:
        total = dict(self.terms)
        for monomial, coefficient in other.terms:
            total[monomial] = total.get(monomial, 0) + coefficient
        return Polynomial.of(total)

    def __sub__(self, other: Polynomial) -> Polynomial:
        return self + other * constant(-1)

    def __mul__(self, other: Polynomial) -> Polynomial:
        total: dict[Monomial, int] = {}
        for a, x in self.terms:
            for b, y in other.terms:
                monomial = tuple(sorted(a + b))
                total[monomial] = total.get(monomial, 0) + x * y
        return Polynomial.of(total)

    def factor_of(self, name: str) -> Polynomial | None:
        """What a name is multiplied by; ``None`` where it occurs in a power."""
        factor: dict[Monomial, int] = {}
        for monomial, coefficient in self.terms:
            if monomial.count(name) > 1:
                return None
            if name in monomial:
                rest = list(monomial)
                rest.remove(name)
                factor[tuple(rest)] = coefficient
        return Polynomial.of(factor)

    def divided_by(self, other: Polynomial) -> Polynomial | None:
        """The quotient, where it comes out even."""
        if not other.terms:
            return None
        divisor, by = other._leading()
        quotient, rest = constant(0), self
        while rest.terms:
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
        return max(self.terms, key=lambda term: (len(term[0]), term[0]))

    def rounded_up(self) -> Polynomial:
        """Without subtractions: at least as large, and simpler."""
        return Polynomial.of({m: c for m, c in self.terms if c > 0})

    def text(self) -> str:
        """As an expression of the spec's language."""
        parts = []
        # The constant last, `rows + 1`, and what is taken away behind the rest.
        for monomial, coefficient in sorted(self.terms, key=lambda t: (-len(t[0]), t[1] < 0, t[0])):
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
