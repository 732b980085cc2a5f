"""Arithmetic of XPath on numbers: type promotion, exact decimals, IEEE doubles, rounding."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal, DecimalException
from typing import Any

import numpy as np

from thalweg.expressions import temporal
from thalweg.expressions.values import (
    DATE,
    DATE_TIME,
    DECIMAL,
    DOUBLE,
    DURATION,
    EXACT,
    FLOAT,
    INTEGER,
    MOST_DIGITS,
    NUMERIC,
    TIME,
    XSD,
    ExpressionError,
    Value,
    decimal,
    double,
    float_,
    integer,
    single,
    timed,
)

QUOTIENT_DIGITS = 34
"""Significant digits of a quotient of decimals (those of IEEE decimal128), or as many as its operands have."""

_FLOATING: dict[str, Callable[[float, float], float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
}
_EXACTLY = {"+": EXACT.add, "-": EXACT.subtract, "*": EXACT.multiply}
_INTEGRAL: dict[str, Callable[[int, int], int]] = {"+": operator.add, "-": operator.sub, "*": operator.mul}
_MOMENTS = {DATE_TIME: "dateTime", DATE: "date", TIME: "time"}


def to_double(value: Value) -> float:
    """A number as a double, rounded to the nearest; beyond the range it is infinite."""
    try:
        return float(value.value)
    except OverflowError:
        return math.copysign(math.inf, value.value)


def to_single(value: Value) -> float:
    """A number as a float, rounded once."""
    if value.kind in (INTEGER, DECIMAL):
        return _decimal_to_single(to_decimal(value))
    return single(value.value)


def _decimal_to_single(exact: Decimal) -> float:
    """The nearest float of a decimal. Rounding it to a double first can go to a neighbour of the nearest."""
    try:
        near = float(exact)
    except OverflowError:
        return math.copysign(math.inf, exact)
    rounded = np.float32(single(near))
    if not np.isfinite(rounded) or Decimal(near) == exact:
        return float(rounded)
    around = (
        rounded,
        np.nextafter(rounded, np.float32(-math.inf)),
        np.nextafter(rounded, np.float32(math.inf)),
    )
    return min(
        (float(candidate) for candidate in around if np.isfinite(candidate)),
        key=lambda candidate: EXACT.subtract(Decimal(candidate), exact).copy_abs(),
    )


def to_decimal(value: Value) -> Decimal:
    """An integer or decimal as a decimal."""
    return Decimal(value.value) if value.kind == INTEGER else value.value


def promoted(a: Value, b: Value) -> tuple[int, Any, Any]:
    """Two numbers in their common type: its kind and both values (XPath 2.0, appendix B.1)."""
    kind = max(a.kind, b.kind)
    if kind == INTEGER:
        return kind, a.value, b.value
    if kind == DECIMAL:
        return kind, to_decimal(a), to_decimal(b)
    if kind == FLOAT:
        return kind, to_single(a), to_single(b)
    return kind, to_double(a), to_double(b)


def arithmetic(name: str, a: Value, b: Value) -> Value:
    """`+`, `-`, `*` or `/` of two values."""
    if a.kind not in NUMERIC or b.kind not in NUMERIC:
        return _with_time(name, a, b)
    kind, x, y = promoted(a, b)
    if name == "/":
        return _quotient(kind, x, y)
    try:
        if kind == INTEGER:
            return integer(_INTEGRAL[name](x, y))
        if kind == DECIMAL:
            return decimal(_EXACTLY[name](x, y))
    except DecimalException:
        raise ExpressionError(f"a decimal of more than {MOST_DIGITS} digits") from None
    result = _FLOATING[name](x, y)
    return double(result) if kind == DOUBLE else float_(result)


def _quotient(kind: int, x: Any, y: Any) -> Value:
    if kind in (FLOAT, DOUBLE):
        if y == 0:
            signs = math.copysign(1, x) * math.copysign(1, y)
            result = math.nan if x == 0 or math.isnan(x) else math.copysign(math.inf, signs)
        else:
            result = x / y
        return double(result) if kind == DOUBLE else float_(result)
    if y == 0:
        raise ExpressionError("division by zero")
    x, y = Decimal(x), Decimal(y)
    digits = max(QUOTIENT_DIGITS, len(x.as_tuple().digits), len(y.as_tuple().digits))
    return decimal(Context(prec=digits, Emax=10**6, Emin=-(10**6)).divide(x, y))


def _with_time(name: str, a: Value, b: Value) -> Value:
    """XPath's arithmetic on dates, times and durations, beyond the operators that SPARQL requires."""
    result: Any = None
    try:
        if name in "+-" and a.kind == DURATION and b.kind == DURATION:
            return _sum(name, a, b)
        if name == "-" and a.kind == b.kind and a.kind in _MOMENTS:
            result = temporal.difference(a.value, b.value)
            if result is not None:
                return timed(DURATION, result, "dayTimeDuration")
        if name == "+" and a.kind == DURATION and b.kind in _MOMENTS:
            a, b = b, a
        if name in "+-" and a.kind in _MOMENTS and b.kind == DURATION:
            result = temporal.shifted(a.value, b.value, 1 if name == "+" else -1, _MOMENTS[a.kind])
            if result is not None:
                return timed(a.kind, result, _MOMENTS[a.kind])
    except DecimalException:
        raise ExpressionError("a time of too many digits") from None
    raise ExpressionError(f"no {name} for these values")


def _sum(name: str, a: Value, b: Value) -> Value:
    x, y = a.value, b.value
    sign = 1 if name == "+" else -1
    seconds = (EXACT.add if sign > 0 else EXACT.subtract)(x.seconds, y.seconds)
    total = temporal.Duration(x.months + sign * y.months, seconds)
    if total.months * total.seconds < 0:
        raise ExpressionError("a duration of two signs")
    same = a.datatype == b.datatype and a.datatype != XSD + "duration"
    return timed(DURATION, total, a.datatype[len(XSD) :] if same else "duration")


def negated(value: Value) -> Value:
    """The number with the other sign."""
    if value.kind == DECIMAL:
        return decimal(value.value.copy_negate())
    if value.kind not in NUMERIC:
        raise ExpressionError("only a number has a sign")
    return _of_kind(value.kind, -value.value)


def unchanged(value: Value) -> Value:
    """The number in the canonical form of its type."""
    if value.kind not in NUMERIC:
        raise ExpressionError("only a number has a sign")
    return _of_kind(value.kind, value.value)


def absolute(value: Value) -> Value:
    """`ABS`."""
    return _of_kind(value.kind, value.value.copy_abs() if value.kind == DECIMAL else abs(value.value))


def rounded(value: Value) -> Value:
    """`ROUND`: to the nearest integer, a tie towards positive infinity.

    >>> rounded(double(-2.5)).content, rounded(decimal(Decimal("2.5"))).content, rounded(double(-0.2)).content
    ('-2.0E0', '3', '-0.0E0')
    """
    if value.kind == DECIMAL:
        floor = value.value.to_integral_value(ROUND_FLOOR)
        tie = EXACT.subtract(value.value, floor) >= Decimal("0.5")
        return decimal(EXACT.add(floor, Decimal(1)) if tie else floor)
    return _whole(value, lambda x: math.floor(x) + (x - math.floor(x) >= 0.5))


def ceiling(value: Value) -> Value:
    """`CEIL`."""
    if value.kind == DECIMAL:
        return decimal(value.value.to_integral_value(ROUND_CEILING))
    return _whole(value, math.ceil)


def floor(value: Value) -> Value:
    """`FLOOR`."""
    if value.kind == DECIMAL:
        return decimal(value.value.to_integral_value(ROUND_FLOOR))
    return _whole(value, math.floor)


def _whole(value: Value, change: Callable[[float], int]) -> Value:
    number = value.value
    if value.kind == INTEGER or not math.isfinite(number):
        return _of_kind(value.kind, number)
    return _of_kind(value.kind, math.copysign(change(number), number))


def _of_kind(kind: int, number: Any) -> Value:
    if kind == INTEGER:
        return integer(number)
    if kind == DECIMAL:
        return decimal(number)
    return double(number) if kind == DOUBLE else float_(number)
