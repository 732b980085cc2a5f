"""Equality, order and truth of values: SPARQL 1.1, sections 17.2.2, 17.3 and 17.4.1.7."""

from __future__ import annotations

import math
from typing import Any

from thalweg.expressions import numeric, temporal
from thalweg.expressions.values import (
    BOOLEAN,
    DATE,
    DATE_TIME,
    DECIMAL,
    DOUBLE,
    DURATION,
    FLOAT,
    ILL_TYPED,
    INTEGER,
    LANG,
    NUMERIC,
    STRING,
    TIME,
    XSD,
    ExpressionError,
    Value,
)

_MOMENTS = frozenset({DATE_TIME, DATE, TIME})


def truth(value: Value) -> bool:
    """The effective boolean value (17.2.2); an error where there is none."""
    kind = value.kind
    if kind == BOOLEAN:
        return bool(value.value)
    if kind in (STRING, LANG):
        return value.content != ""
    if kind in (INTEGER, DECIMAL):
        return value.value != 0
    if kind in (FLOAT, DOUBLE):
        return value.value != 0 and not math.isnan(value.value)
    if kind == ILL_TYPED and _is_boolean_or_number(value.datatype):
        return False
    raise ExpressionError("this value is neither true nor false")


def _is_boolean_or_number(datatype: str) -> bool:
    # The types of time have no effective boolean value; all other supported ones are booleans or numbers.
    name = datatype[len(XSD) :]
    return not name.startswith(("date", "time")) and not name.lower().endswith("duration")


def same_term(a: Value, b: Value) -> bool:
    """Whether two values are the same RDF term."""
    return (
        a.content == b.content
        and a.datatype == b.datatype
        and a.language == b.language
        and (a.kind == b.kind or (a.is_literal and b.is_literal))
    )


def equal(a: Value, b: Value) -> bool:
    """`=`: by value where the operators define it, else RDFterm-equal.

    Literals of supported datatypes whose value spaces do not meet are unequal. Where one has an unsupported
    datatype or is ill-typed, and they are not the same term, whether they are equal is unknown: an error.
    """
    ka, kb = a.kind, b.kind
    if ka in NUMERIC and kb in NUMERIC:
        _, x, y = numeric.promoted(a, b)
        return bool(x == y)
    if ka == kb:
        if ka in (STRING, BOOLEAN):
            return bool(a.value == b.value)
        if ka in _MOMENTS:
            order = temporal.compare(a.value, b.value)
            if order is None:
                raise ExpressionError("only a time zone could decide")
            return order == 0
        if ka == DURATION:
            return bool(a.value == b.value)
    if same_term(a, b):
        return True
    if a.is_literal and b.is_literal and (ka >= ILL_TYPED or kb >= ILL_TYPED):
        raise ExpressionError("whether these literals are equal is unknown")
    return False


def order(a: Value, b: Value) -> int | None:
    """-1, 0 or 1 for `<`, `=` or `>`; None for NaN; an error where the operators define no order."""
    ka, kb = a.kind, b.kind
    x: Any
    y: Any
    if ka in NUMERIC and kb in NUMERIC:
        _, x, y = numeric.promoted(a, b)
        return None if x != x or y != y else (x > y) - (x < y)
    if ka == kb:
        if ka in (STRING, BOOLEAN):
            return (a.value > b.value) - (a.value < b.value)
        found: int | None = None
        if ka in _MOMENTS:
            found = temporal.compare(a.value, b.value)
        elif ka == DURATION and a.datatype == b.datatype != XSD + "duration":
            found = temporal.compare_durations(a.value, b.value)
        if found is not None:
            return found
    raise ExpressionError("these values have no order")
