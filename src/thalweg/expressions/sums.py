"""Exact sums of numbers of all types: what is added can be taken away again, in any order, without a trace."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction

from thalweg.expressions import numeric
from thalweg.expressions.values import (
    DECIMAL,
    DOUBLE,
    EXACT,
    FLOAT,
    INTEGER,
    ExpressionError,
    Value,
    decimal,
    double,
    float_,
    integer,
)

_BITS = 1074
"""Binary places of the least double."""
_KINDS = (INTEGER, DECIMAL, FLOAT, DOUBLE)


class ExactSum:
    """The sum of a multiset of numbers: counts by type, and the exact total.

    `SUM` adds with the types of XPath, but rounds once, at the end: the result is the total, rounded to the widest type
    among the numbers.

    >>> total = ExactSum()
    >>> for number in (double(1e100), double(1.0), double(-1e100)):
    ...     total.add(number, 1)
    >>> total.value().content
    '1.0E0'
    """

    __slots__ = ("_binary", "_counts", "_decimal", "_infinite", "_scale")

    def __init__(self, state: Sequence[Sequence[int]] | None = None) -> None:
        counts, infinite, (decimals, self._scale, self._binary) = state or ([0] * 4, [0] * 3, (0, 0, 0))
        self._counts, self._infinite, self._decimal = list(counts), list(infinite), decimals

    def state(self) -> list[list[int]]:
        """Everything, as integers of any size."""
        return [self._counts, self._infinite, [self._decimal, self._scale, self._binary]]

    def __bool__(self) -> bool:
        return any(self._counts)

    def add(self, number: Value, weight: int) -> None:
        """Adds a number as often as a weight says."""
        self._counts[_KINDS.index(number.kind)] += weight
        if number.kind in (FLOAT, DOUBLE):
            if not math.isfinite(number.value):
                self._infinite[0 if math.isnan(number.value) else 1 if number.value > 0 else 2] += weight
                return
            top, bottom = number.value.as_integer_ratio()
            self._binary += weight * (top << _BITS) // bottom
        elif number.kind == INTEGER:
            self._decimal += weight * number.value * 10**self._scale
        else:
            sign, digits, exponent = number.value.as_tuple()
            scale = max(0, -int(exponent))
            if scale > self._scale:
                self._decimal *= 10 ** (scale - self._scale)
                self._scale = scale
            whole = int("".join(map(str, digits)) or "0") * 10 ** (self._scale + int(exponent))
            self._decimal += weight * (-whole if sign else whole)

    def value(self, units: int = 0, billionths: int = 0, decimals: int = 0) -> Value:
        """The sum, together with so many units and billionths, among which are so many decimals."""
        _, with_point, floats, doubles = self._counts
        if floats or doubles:
            return self._rounded(units, billionths)
        whole = self._decimal + units * 10**self._scale
        if not (with_point or decimals):
            return integer(whole // 10**self._scale)
        scale = max(self._scale, 9)
        whole = whole * 10 ** (scale - self._scale) + billionths * 10 ** (scale - 9)
        return decimal(_decimal(whole, scale))

    def _rounded(self, units: int, billionths: int) -> Value:
        nans, positive, negative = self._infinite
        if nans or (positive and negative):
            total = math.nan
        elif positive or negative:
            total = math.inf if positive else -math.inf
        else:
            exact = Fraction(self._binary, 1 << _BITS) + Fraction(self._decimal, 10**self._scale)
            exact += units + Fraction(billionths, 10**9)
            if not self._counts[3]:
                return float_(_single(exact))
            total = _double(exact)
        return double(total) if self._counts[3] else float_(total)


def _decimal(whole: int, scale: int) -> Decimal:
    """A scaled integer as a decimal, without trailing zeros; an error if it has too many digits."""
    while scale > 0 and whole % 10 == 0:
        whole //= 10
        scale -= 1
    if whole.bit_length() * 0.30102 > EXACT.prec:
        raise ExpressionError("a decimal of too many digits")
    return Decimal(whole).scaleb(-scale, EXACT)


def _double(exact: Fraction) -> float:
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def _single(exact: Fraction) -> float:
    """The nearest number of single precision, rounded once."""
    if exact == 0:
        return 0.0
    # A double with a sticky last bit rounds to the same float as the exact number does.
    near = _double(exact)
    if math.isinf(near) or Fraction(near) == exact:
        return near
    low = near if Fraction(near) < exact else math.nextafter(near, -math.inf)
    mantissa, exponent = math.frexp(low)
    scaled = int(math.ldexp(mantissa, 53))
    return math.ldexp(scaled | 1, exponent - 53) if exponent > -1000 else near


def average(total: Value, count: int) -> Value:
    """A sum divided by the number of its values; 0 where there is none."""
    return integer(0) if count == 0 else numeric.arithmetic("/", total, integer(count))
