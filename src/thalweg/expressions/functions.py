"""The table of functions that need nothing but the values of their arguments: SPARQL 1.1, sections 17.3 to 17.5."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

from thalweg.expressions import comparing, numeric, strings, temporal
from thalweg.expressions.casts import CASTS
from thalweg.expressions.values import (
    BLANK,
    DATE_TIME,
    DURATION,
    IRI,
    NUMERIC,
    ExpressionError,
    Value,
    boolean,
    decimal,
    integer,
    string,
    timed,
)


def _chain(name: str) -> Callable[..., Value]:
    """An arithmetic operator over two operands or more, from left to right."""

    def apply(first: Value, *others: Value) -> Value:
        for other in others:
            first = numeric.arithmetic(name, first, other)
        return first

    return apply


def _comparison(*wanted: int) -> Callable[[Value, Value], Value]:
    """An operator that holds for these orders of its operands; none of them for NaN."""

    def apply(a: Value, b: Value) -> Value:
        return boolean(comparing.order(a, b) in wanted)

    return apply


def _number(change: Callable[[Value], Value]) -> Callable[[Value], Value]:
    def apply(value: Value) -> Value:
        if value.kind not in NUMERIC:
            raise ExpressionError("not a number")
        return change(value)

    return apply


def _moment(part: Callable[[Any], Value]) -> Callable[[Value], Value]:
    """A function of the value of an xsd:dateTime."""

    def apply(value: Value) -> Value:
        if value.kind != DATE_TIME:
            raise ExpressionError("not an xsd:dateTime")
        return part(value.value)

    return apply


def _timezone(moment: temporal.Moment) -> Value:
    if moment.zone is None:
        raise ExpressionError("no time zone")
    return timed(DURATION, temporal.Duration(0, Decimal(moment.zone * 60)), "dayTimeDuration")


FUNCTIONS: dict[str, Callable[..., Value]] = {
    **{name: _chain(name) for name in "+-*/"},
    "UMINUS": numeric.negated,
    "UPLUS": numeric.unchanged,
    "=": lambda a, b: boolean(comparing.equal(a, b)),
    "!=": lambda a, b: boolean(not comparing.equal(a, b)),
    "<": _comparison(-1),
    ">": _comparison(1),
    "<=": _comparison(-1, 0),
    ">=": _comparison(1, 0),
    "NOT": lambda value: boolean(not comparing.truth(value)),
    "SAMETERM": lambda a, b: boolean(comparing.same_term(a, b)),
    "ISIRI": lambda value: boolean(value.kind == IRI),
    "ISBLANK": lambda value: boolean(value.kind == BLANK),
    "ISLITERAL": lambda value: boolean(value.is_literal),
    "ISNUMERIC": lambda value: boolean(value.kind in NUMERIC),
    "STR": strings.str_,
    "LANG": strings.lang,
    "DATATYPE": strings.datatype,
    "IRI": strings.iri_,
    "STRDT": strings.strdt,
    "STRLANG": strings.strlang,
    "STRLEN": strings.strlen,
    "SUBSTR": strings.substr,
    "UCASE": strings.ucase,
    "LCASE": strings.lcase,
    "STRSTARTS": strings.strstarts,
    "STRENDS": strings.strends,
    "CONTAINS": strings.contains,
    "STRBEFORE": strings.strbefore,
    "STRAFTER": strings.strafter,
    "ENCODE_FOR_URI": strings.encode_for_uri,
    "CONCAT": strings.concat,
    "LANGMATCHES": strings.langmatches,
    "REGEX": strings.regex,
    "REPLACE": strings.replace,
    "ABS": _number(numeric.absolute),
    "ROUND": _number(numeric.rounded),
    "CEIL": _number(numeric.ceiling),
    "FLOOR": _number(numeric.floor),
    "YEAR": _moment(lambda moment: integer(moment.day[0])),
    "MONTH": _moment(lambda moment: integer(moment.day[1])),
    "DAY": _moment(lambda moment: integer(moment.day[2])),
    "HOURS": _moment(lambda moment: integer(moment.clock[0])),
    "MINUTES": _moment(lambda moment: integer(moment.clock[1])),
    "SECONDS": _moment(lambda moment: decimal(moment.clock[2])),
    "TIMEZONE": _moment(_timezone),
    "TZ": _moment(lambda moment: string(moment.shown_zone)),
    **{name.upper(): strings.hashing(name) for name in ("md5", "sha1", "sha256", "sha384", "sha512")},
    **CASTS,
}
