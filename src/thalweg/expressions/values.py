"""Typed values of RDF terms: from canonical N-Triples text to a value, and back to the canonical spelling."""

from __future__ import annotations

import math
import re
import struct
from dataclasses import dataclass
from decimal import Context, Decimal, Inexact, InvalidOperation, Overflow
from typing import Any, Final

import numpy as np

from thalweg.algebra.terms import XSD, quoted
from thalweg.expressions import temporal

LANG_STRING = "http://www.w3.org/1999/02/22-rdf-syntax-ns#langString"
MOST_DIGITS = 1000
"""Digits of a decimal or an integer, before and after the point together. What has more has no value."""

LONGEST_STRING = 1 << 24
"""Characters of a computed string. A longer one is an error: a chain of CONCATs could fill the memory."""

EXACT = Context(
    prec=2 * MOST_DIGITS + 2, Emax=10**6, Emin=-(10**6), traps=[Inexact, InvalidOperation, Overflow]
)
"""Sums, differences and products of decimals are exact, or an error."""

IRI: Final = 1
BLANK: Final = 2
STRING: Final = 3
LANG: Final = 4
INTEGER: Final = 5
DECIMAL: Final = 6
FLOAT: Final = 7
DOUBLE: Final = 8
BOOLEAN: Final = 9
DATE_TIME: Final = 10
DATE: Final = 11
TIME: Final = 12
DURATION: Final = 13
ILL_TYPED: Final = 14
"""A literal of a supported datatype whose lexical form is not one of the datatype's."""
UNKNOWN: Final = 15
"""A literal of a datatype that SPARQL's operators do not cover."""

NUMERIC = frozenset({INTEGER, DECIMAL, FLOAT, DOUBLE})

_UNBOUNDED = (None, None)
_RANGES: dict[str, tuple[int | None, int | None]] = {
    XSD + name: bounds
    for name, bounds in {
        "integer": _UNBOUNDED,
        "nonPositiveInteger": (None, 0),
        "negativeInteger": (None, -1),
        "long": (-(2**63), 2**63 - 1),
        "int": (-(2**31), 2**31 - 1),
        "short": (-(2**15), 2**15 - 1),
        "byte": (-(2**7), 2**7 - 1),
        "nonNegativeInteger": (0, None),
        "unsignedLong": (0, 2**64 - 1),
        "unsignedInt": (0, 2**32 - 1),
        "unsignedShort": (0, 2**16 - 1),
        "unsignedByte": (0, 2**8 - 1),
        "positiveInteger": (1, None),
    }.items()
}
_KINDS = dict.fromkeys(_RANGES, INTEGER) | {
    XSD + name: kind
    for name, kind in {
        "decimal": DECIMAL,
        "float": FLOAT,
        "double": DOUBLE,
        "boolean": BOOLEAN,
        "dateTime": DATE_TIME,
        "dateTimeStamp": DATE_TIME,
        "date": DATE,
        "time": TIME,
        "duration": DURATION,
        "dayTimeDuration": DURATION,
        "yearMonthDuration": DURATION,
    }.items()
}
_PARTS = re.compile(r'"((?:[^"\\]|\\.)*+)"(?:@([a-zA-Z0-9-]+)|\^\^<([^>]*)>)?', re.DOTALL)
_UNESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))", re.DOTALL)
_NAMED = {"t": "\t", "b": "\b", "n": "\n", "r": "\r", "f": "\f"}
_INTEGER = re.compile(r"[+-]?[0-9]+")
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)")
_DOUBLE = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[+-]?INF|NaN")
_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}
_SPACE = " \t\n\r"


class ExpressionError(Exception):
    """An expression has no value for a solution: SPARQL's type error, never an error of the program."""


@dataclass(slots=True, eq=False)
class Value:
    """A term with its value. `content` is the IRI, the label, or the lexical form."""

    kind: int
    content: str
    value: Any = None
    datatype: str = ""
    language: str = ""

    @property
    def is_literal(self) -> bool:
        """Whether the term is a literal."""
        return self.kind > BLANK

    @property
    def text(self) -> str:
        """The canonical N-Triples text.

        >>> double(1).text
        '"1.0E0"^^<http://www.w3.org/2001/XMLSchema#double>'
        """
        if self.kind == IRI:
            return f"<{self.content}>"
        if self.kind == BLANK:
            return f"_:{self.content}"
        if self.language:
            return f"{quoted(self.content)}@{self.language}"
        return f"{quoted(self.content)}^^<{self.datatype}>" if self.datatype else quoted(self.content)

    def __str__(self) -> str:
        return self.text


def parse(text: str) -> Value:
    """The value of a term's canonical text.

    >>> one = parse('"01"^^<http://www.w3.org/2001/XMLSchema#int>')
    >>> one.value, one.content, one.kind == INTEGER
    (1, '01', True)
    """
    if text[0] == "<":
        return Value(IRI, text[1:-1])
    if text[0] == "_":
        return Value(BLANK, text[2:])
    match = _PARTS.fullmatch(text)
    if match is None:
        raise ValueError(f"not a term: {text[:80]!r}")
    lexical, language, datatype = match.groups()
    if "\\" in lexical:
        lexical = _UNESCAPE.sub(_unescaped, lexical)
    if language:
        return Value(LANG, lexical, lexical, LANG_STRING, language.lower())
    if datatype is None:
        return Value(STRING, lexical, lexical)
    return literal(lexical, datatype)


def literal(lexical: str, datatype: str) -> Value:
    """The literal of a lexical form and a datatype."""
    if datatype == XSD + "string":
        return Value(STRING, lexical, lexical)
    kind = _KINDS.get(datatype)
    if kind is None:
        return Value(UNKNOWN, lexical, None, datatype)
    value = _value(kind, lexical.strip(_SPACE), datatype)
    return Value(ILL_TYPED if value is None else kind, lexical, value, datatype)


def _value(kind: int, lexical: str, datatype: str) -> Any:
    """The value of a lexical form without space around it; None if there is none."""
    if kind == INTEGER:
        if not _INTEGER.fullmatch(lexical) or len(lexical.lstrip("+-")) > MOST_DIGITS:
            return None
        number = int(lexical)
        low, high = _RANGES[datatype]
        return None if (low is not None and number < low) or (high is not None and number > high) else number
    if kind == DECIMAL:
        short = len(lexical.lstrip("+-").replace(".", "", 1)) <= MOST_DIGITS
        return Decimal(lexical) if short and _DECIMAL.fullmatch(lexical) else None
    if kind in (FLOAT, DOUBLE):
        if not _DOUBLE.fullmatch(lexical):
            return None
        number64 = float(lexical.replace("INF", "inf"))
        return single(number64) if kind == FLOAT else number64
    if kind == BOOLEAN:
        return _BOOLEANS.get(lexical)
    return temporal.parse(lexical, datatype[len(XSD) :])


def _unescaped(match: re.Match[str]) -> str:
    if code := match[1] or match[2]:
        return chr(int(code, 16))
    return _NAMED.get(match[3], match[3])


def single(number: float) -> float:
    """The nearest number of single precision."""
    try:
        return float(struct.unpack("f", struct.pack("f", number))[0])
    except OverflowError:
        return math.copysign(math.inf, number)


def iri(content: str) -> Value:
    """An IRI."""
    return Value(IRI, content)


def string(content: str, language: str = "") -> Value:
    """A string, with a language tag or without; an error if it is too long."""
    if len(content) > LONGEST_STRING:
        raise ExpressionError(f"a string of more than {LONGEST_STRING} characters")
    return Value(LANG if language else STRING, content, content, LANG_STRING if language else "", language)


def boolean(value: bool) -> Value:
    """One of the two booleans."""
    return TRUE if value else FALSE


def integer(value: int) -> Value:
    """An xsd:integer; an error if it has too many digits."""
    # log10(2) is about 0.30103: only numbers near the bound are written out to count their digits.
    if value.bit_length() * 0.30102 > MOST_DIGITS - 1 and abs(value) >= 10**MOST_DIGITS:
        raise ExpressionError(f"an integer of more than {MOST_DIGITS} digits")
    return Value(INTEGER, str(value), value, XSD + "integer")


def decimal(value: Decimal) -> Value:
    """An xsd:decimal; an error if it has too many digits.

    >>> decimal(Decimal("1.50")).content, decimal(Decimal("2E+1")).content, decimal(Decimal("-0.0")).content
    ('1.5', '20', '0')
    """
    if value and (abs(value.adjusted()) >= MOST_DIGITS or len(value.as_tuple().digits) > 2 * MOST_DIGITS):
        raise ExpressionError(f"a decimal of more than {MOST_DIGITS} digits")
    text = f"{value:f}"
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    if len(text.lstrip("-").replace(".", "", 1)) > MOST_DIGITS:
        raise ExpressionError(f"a decimal of more than {MOST_DIGITS} digits")
    return Value(DECIMAL, "0" if text in ("-0", "") else text, value, XSD + "decimal")


def double(value: float) -> Value:
    """An xsd:double in its canonical form."""
    return Value(DOUBLE, _scientific(value, repr(float(value))), float(value), XSD + "double")


def float_(value: float) -> Value:
    """An xsd:float in its canonical form; the number is rounded to single precision."""
    rounded = single(value)
    shortest = np.format_float_scientific(np.float32(rounded), unique=True)
    return Value(FLOAT, _scientific(rounded, shortest), rounded, XSD + "float")


def _scientific(value: float, shortest: str) -> str:
    """The canonical form of XML Schema: one digit before the point, at least one after it, an exponent.

    >>> _scientific(1500.0, "1500.0"), _scientific(1e-7, "1e-07"), _scientific(-0.0, "-0.0")
    ('1.5E3', '1.0E-7', '-0.0E0')
    """
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "INF" if value > 0 else "-INF"
    sign, digits, exponent = Decimal(shortest).as_tuple()
    written = "".join(map(str, digits)).lstrip("0")
    if not written:
        return "-0.0E0" if sign else "0.0E0"
    power = int(exponent) + len(written) - 1
    written = written.rstrip("0")
    return f"{'-' if sign else ''}{written[0]}.{written[1:] or '0'}E{power}"


def timed(kind: int, value: Any, datatype: str) -> Value:
    """A date, a time or a duration in its canonical form."""
    return Value(kind, temporal.show(value, datatype), value, XSD + datatype)


TRUE = Value(BOOLEAN, "true", True, XSD + "boolean")
FALSE = Value(BOOLEAN, "false", False, XSD + "boolean")
