"""Casts: SPARQL 1.1, section 17.5, by the rules of XPath and XQuery Functions, section 17."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal

from thalweg.expressions import numeric, temporal
from thalweg.expressions.values import (
    BOOLEAN,
    DATE,
    DATE_TIME,
    DECIMAL,
    DOUBLE,
    DURATION,
    FLOAT,
    INTEGER,
    IRI,
    NUMERIC,
    STRING,
    TIME,
    XSD,
    ExpressionError,
    Value,
    boolean,
    decimal,
    double,
    float_,
    integer,
    literal,
    string,
    timed,
)

_FAILED = "this cast is not possible"


def _parsed(value: Value, name: str) -> Value:
    """A string as a literal of a datatype, in its canonical form."""
    made = literal(value.content, XSD + name)
    if made.value is None:
        raise ExpressionError(f"not the text of an xsd:{name}")
    return made


def to_string(value: Value) -> Value:
    """`xsd:string`: an IRI's characters, a string, or the canonical text of a value."""
    if value.kind in (IRI, STRING):
        return string(value.content)
    if value.kind in (FLOAT, DOUBLE):
        return string(_show_floating(value))
    if value.kind in (INTEGER, DECIMAL):
        return string(numeric.unchanged(value).content)
    if value.kind == BOOLEAN:
        return string("true" if value.value else "false")
    if value.kind in (DATE_TIME, DATE, TIME, DURATION):
        return string(temporal.show(value.value, value.datatype[len(XSD) :]))
    raise ExpressionError(_FAILED)


def _show_floating(value: Value) -> str:
    """A float or double as XPath writes it: without exponent where it is between 10^-6 and 10^6."""
    number, canonical = value.value, numeric.unchanged(value).content
    if number == 0:
        return "-0" if math.copysign(1, number) < 0 else "0"
    if 1e-6 <= abs(number) < 1e6:
        return decimal(Decimal(canonical)).content
    return canonical


def to_boolean(value: Value) -> Value:
    """`xsd:boolean`."""
    if value.kind == BOOLEAN:
        return boolean(value.value)
    if value.kind in NUMERIC:
        return boolean(value.value != 0 and value.value == value.value)
    if value.kind == STRING:
        return boolean(_parsed(value, "boolean").value)
    raise ExpressionError(_FAILED)


def to_double(value: Value) -> Value:
    """`xsd:double`."""
    if value.kind == STRING:
        return double(_parsed(value, "double").value)
    return double(numeric.to_double(_number(value)))


def to_float(value: Value) -> Value:
    """`xsd:float`."""
    if value.kind == STRING:
        return float_(_parsed(value, "float").value)
    return float_(numeric.to_single(_number(value)))


def to_decimal(value: Value) -> Value:
    """`xsd:decimal`."""
    if value.kind == STRING:
        return decimal(_parsed(value, "decimal").value)
    number = _number(value)
    if number.kind in (FLOAT, DOUBLE):
        return decimal(Decimal(_finite(number)))
    return decimal(numeric.to_decimal(number))


def to_integer(value: Value) -> Value:
    """`xsd:integer`: a number is cut towards zero."""
    if value.kind == STRING:
        return integer(_parsed(value, "integer").value)
    number = _number(value)
    return integer(int(_finite(number)) if number.kind in (FLOAT, DOUBLE) else int(number.value))


def _number(value: Value) -> Value:
    """A number, or a boolean as 1 or 0."""
    if value.kind == BOOLEAN:
        return integer(int(value.value))
    if value.kind not in NUMERIC:
        raise ExpressionError(_FAILED)
    return value


def _finite(value: Value) -> float:
    number: float = value.value
    if not math.isfinite(number):
        raise ExpressionError("an infinite number, or none, is no decimal")
    return number


def to_date_time(value: Value) -> Value:
    """`xsd:dateTime`: a date is its first instant."""
    if value.kind == STRING:
        return timed(DATE_TIME, _parsed(value, "dateTime").value, "dateTime")
    if value.kind in (DATE_TIME, DATE):
        return timed(DATE_TIME, value.value, "dateTime")
    raise ExpressionError(_FAILED)


def to_date(value: Value) -> Value:
    """`xsd:date`."""
    if value.kind == STRING:
        return timed(DATE, _parsed(value, "date").value, "date")
    if value.kind in (DATE_TIME, DATE):
        return timed(DATE, temporal.shifted(value.value, temporal.Duration(), 1, "date"), "date")
    raise ExpressionError(_FAILED)


def to_time(value: Value) -> Value:
    """`xsd:time`."""
    if value.kind == STRING:
        return timed(TIME, _parsed(value, "time").value, "time")
    if value.kind in (DATE_TIME, TIME):
        return timed(TIME, temporal.shifted(value.value, temporal.Duration(), 1, "time"), "time")
    raise ExpressionError(_FAILED)


def to_duration(name: str) -> Callable[[Value], Value]:
    """The cast to a type of duration: what it does not have is left out."""

    def apply(value: Value) -> Value:
        if value.kind == STRING:
            return timed(DURATION, _parsed(value, name).value, name)
        if value.kind != DURATION:
            raise ExpressionError(_FAILED)
        found = value.value
        months = 0 if name == "dayTimeDuration" else found.months
        seconds = Decimal(0) if name == "yearMonthDuration" else found.seconds
        return timed(DURATION, temporal.Duration(months, seconds), name)

    return apply


CASTS: dict[str, Callable[[Value], Value]] = {
    XSD + name: cast
    for name, cast in {
        "string": to_string,
        "boolean": to_boolean,
        "double": to_double,
        "float": to_float,
        "decimal": to_decimal,
        "integer": to_integer,
        "dateTime": to_date_time,
        "date": to_date,
        "time": to_time,
        "duration": to_duration("duration"),
        "dayTimeDuration": to_duration("dayTimeDuration"),
        "yearMonthDuration": to_duration("yearMonthDuration"),
    }.items()
}
