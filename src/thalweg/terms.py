"""Terms and Python values: what `row.value` gives, and what a triple of `push` may be made of.

Everything that comes out can go in again: `IRI`, `BlankNode` and `Literal` are texts that know which kind of term they
are; numbers, truth values and times are literals.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import Any

from thalweg.algebra.terms import XSD, XSD_STRING, quoted
from thalweg.errors import UsageError
from thalweg.instants import Instant

_LITERAL = re.compile(r'"((?:[^"\\]|\\.)*)"(?:@([A-Za-z0-9-]+)|\^\^<([^<>]*)>)?', re.DOTALL)
# Loose on purpose: it divides terms, and the reader judges them.
_TERM = re.compile(
    r'<[^<>"\s]*>|_:[^\s<>"]+|"(?:[^"\\\r\n]|\\.)*+"(?:@[A-Za-z0-9-]+|\^\^<[^<>"\s]*>)?', re.ASCII
)
_ABSOLUTE = re.compile(r'[A-Za-z][A-Za-z0-9+.\-]*:[^\s<>"]*')
_UNESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))", re.DOTALL)
_NAMED = {"t": "\t", "b": "\b", "n": "\n", "r": "\r", "f": "\f"}
_NOT_IN_IRIS = {ord(c): f"\\u{ord(c):04X}" for c in [*map(chr, range(0x21)), *'<>"{}|^`\\']}
# What needs no escape: to look is quicker than to translate.
_PLAIN_IRI = re.compile(r'[^\x00-\x20<>"{}|^`\\]*')
_PLAIN_TEXT = re.compile(r'[^\x00-\x1f\x7f"\\]*')
_KNOWN_TERMS = 1 << 16


class IRI(str):
    """An IRI, without angle brackets.

    >>> IRI("http://ex/a").n3
    '<http://ex/a>'
    """

    __slots__ = ()

    @property
    def n3(self) -> str:
        """The term in N-Triples form. A character that no IRI may have is escaped, and refused by readers."""
        return _text_of_iri(self)

    def __repr__(self) -> str:
        return f"IRI({str(self)!r})"


class BlankNode(str):
    """A blank node, by its label without `_:`.

    >>> BlankNode("b1").n3
    '_:b1'
    """

    __slots__ = ()

    @property
    def n3(self) -> str:
        """The term in N-Triples form."""
        return _text_of_node(self)

    def __repr__(self) -> str:
        return f"BlankNode({str(self)!r})"


class Literal(str):
    """A literal by its lexical form: a string, one with a language, or one of a datatype that Python does not have.

    >>> Literal("Haus", language="de").n3, Literal("Haus") == "Haus"
    ('"Haus"@de', True)
    """

    language: str | None
    datatype: str

    def __new__(cls, value: str, *, language: str | None = None, datatype: str | None = None) -> Literal:
        """`language` and `datatype` exclude each other; without both it is a string."""
        if not isinstance(value, str):
            raise UsageError(
                f"a Literal is made of its text, not of {type(value).__name__}: give numbers as they are"
            )
        if language is not None and datatype is not None:
            raise UsageError("a literal has a language or a datatype, not both")
        made = super().__new__(cls, value)
        made.language = language
        made.datatype = _LANG_STRING if language is not None else str(datatype or XSD_STRING)
        return made

    @property
    def n3(self) -> str:
        """The term in N-Triples form."""
        return _literal_text(str(self), self.language, self.datatype)

    def __repr__(self) -> str:
        if self.language is not None:
            return f"Literal({str(self)!r}, language={self.language!r})"
        of = "" if self.datatype == XSD_STRING else f", datatype={self.datatype!r}"
        return f"Literal({str(self)!r}{of})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _literal, (str(self), self.language, self.datatype)


def _text_of_iri(iri: str) -> str:
    return f"<{iri}>" if _PLAIN_IRI.fullmatch(iri) else f"<{iri.translate(_NOT_IN_IRIS)}>"


def _text_of_node(label: str) -> str:
    return f"_:{label}"


def _literal_text(text: str, language: str | None, datatype: str) -> str:
    form = f'"{text}"' if _PLAIN_TEXT.fullmatch(text) else quoted(text)
    if language is not None:
        return f"{form}@{language}"
    return form if datatype == XSD_STRING else f"{form}^^{_text_of_iri(datatype)}"


def _literal(text: str, language: str | None, datatype: str) -> Literal:
    return Literal(text, language=language) if language is not None else Literal(text, datatype=datatype)


_LANG_STRING = "http://www.w3.org/1999/02/22-rdf-syntax-ns#langString"
Value = IRI | BlankNode | Literal | int | Decimal | float | bool | datetime | date | time | timedelta
"""What a term is in Python."""


def value_of(text: str) -> Value:
    """The Python value of a term in N-Triples form; a literal that has none is a `Literal`.

    >>> value_of('"5"^^<http://www.w3.org/2001/XMLSchema#integer>'), value_of("<http://ex/a>"), value_of('"x"@en')
    (5, IRI('http://ex/a'), Literal('x', language='en'))
    """
    if text.startswith("<"):
        return IRI(text[1:-1])
    if text.startswith("_:"):
        return BlankNode(text[2:])
    literal = literal_of(text)
    convert = _VALUES.get(literal.datatype.removeprefix(XSD)) if literal.datatype.startswith(XSD) else None
    if convert is not None:
        try:
            return convert(literal.strip(" \t\r\n"))
        except (ValueError, ArithmeticError):
            pass  # ill-typed, or beyond what Python has
    return literal


def literal_of(text: str) -> Literal:
    """The literal of its N-Triples form."""
    match = _LITERAL.fullmatch(text)
    if match is None:
        raise UsageError(f"{text[:60]!r} is not a term in N-Triples form")
    lexical = _UNESCAPE.sub(_character, match[1]) if "\\" in match[1] else match[1]
    return Literal(lexical, language=match[2], datatype=match[3])


def text_of(value: object, place: str = "object") -> str:
    """The N-Triples form of what a user gives as a term: a Python value, one of ours, of rdflib or of pyoxigraph, or a
    text in N-Triples form.

    >>> text_of(5), text_of("http://ex/p", "predicate"), text_of(True)
    ('"5"^^<http://www.w3.org/2001/XMLSchema#integer>', '<http://ex/p>', '"true"^^<http://www.w3.org/2001/XMLSchema#boolean>')
    """
    kind = type(value)
    if kind is str:
        return _text_of_text(value, place)  # type: ignore[arg-type]
    if kind not in _WRITERS:
        _WRITERS[kind] = _writer(kind)
    write = _WRITERS[kind]
    if write is not None:
        return write(value)
    raise UsageError(
        f"the {place} {value!r:.60} ({kind.__name__}) is no term: give a number, a truth value, a date or a time, "
        "tw.IRI(...), tw.Literal(...), tw.BlankNode(...), a term of rdflib or pyoxigraph, or a text in N-Triples form"
    )


@lru_cache(maxsize=_KNOWN_TERMS)
def _text_of_text(text: str, place: str) -> str:
    if _TERM.fullmatch(text):
        return text
    if place != "object" and _ABSOLUTE.fullmatch(text):
        return _text_of_iri(text)
    shown = repr(text if len(text) <= 60 else text[:60] + "...")
    if place != "object":
        raise UsageError(
            f"the {place} {shown} is neither an absolute IRI nor a term in N-Triples form: "
            f'write "http://..." or tw.IRI("http://...")'
        )
    raise UsageError(
        f"the object {shown} may be a string or an IRI: write tw.Literal(...) or tw.IRI(...), "
        "or a term in N-Triples form"
    )


def _writer(kind: type) -> Callable[[Any], str] | None:
    """What writes the terms of a type; None if they are no terms. Types of rdflib, pyoxigraph and NumPy are known by
    their modules: none of these is loaded for this.
    """
    if issubclass(kind, IRI | BlankNode | Literal):
        return _n3
    found = next((_TEXTS[one] for one in kind.__mro__ if one in _TEXTS), None)
    if found is not None:
        return found
    module = kind.__module__.partition(".")[0]
    if module == "rdflib" and issubclass(kind, str):
        return {"BNode": _text_of_node, "Literal": _text_of_rdflib}.get(kind.__name__, _text_of_iri)
    if module == "pyoxigraph" and kind.__name__ in ("NamedNode", "BlankNode", "Literal"):
        return str
    if module == "numpy" and hasattr(kind, "item"):
        return lambda value: text_of(value.item())
    return None


def _text_of_rdflib(literal: Any) -> str:
    datatype = None if literal.datatype is None else str(literal.datatype)
    return _literal_text(str(literal), literal.language, datatype or XSD_STRING)


def _character(match: re.Match[str]) -> str:
    code = match[1] or match[2]
    return chr(int(code, 16)) if code else _NAMED.get(match[3], match[3])


def _boolean(text: str) -> bool:
    if text not in ("true", "false", "1", "0"):
        raise ValueError(text)
    return text in ("true", "1")


def _number(text: str) -> float:
    special = {"INF": math.inf, "+INF": math.inf, "-INF": -math.inf, "NaN": math.nan}
    if text in special:
        return special[text]
    if not re.fullmatch(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?", text):
        raise ValueError(text)
    return float(text)


def _whole(text: str) -> int:
    if not re.fullmatch(r"[+-]?[0-9]+", text):
        raise ValueError(text)
    return int(text)


def _decimal(text: str) -> Decimal:
    if not re.fullmatch(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)", text):
        raise ValueError(text)
    return Decimal(text)


def _date_time(text: str) -> datetime:
    if not re.fullmatch(
        r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}(?:\.[0-9]+)?(?:Z|[+-][0-9]{2}:[0-9]{2})?", text
    ):
        raise ValueError(text)
    return datetime.fromisoformat(text)


def _date(text: str) -> date:
    if not re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text):  # Python's has no zone
        raise ValueError(text)
    return date.fromisoformat(text)


def _time(text: str) -> time:
    if not re.fullmatch(r"[0-9:]{8}(?:\.[0-9]+)?(?:Z|[+-][0-9]{2}:[0-9]{2})?", text):
        raise ValueError(text)
    return time.fromisoformat(text)


def _duration(text: str) -> timedelta:
    match = re.fullmatch(
        r"(-?)P(?=.)(?:([0-9]+)D)?(?:T(?=.)(?:([0-9]+)H)?(?:([0-9]+)M)?(?:([0-9]+(?:\.[0-9]{1,6})?)S)?)?",
        text,
    )
    if match is None:
        raise ValueError(text)
    days, hours, minutes = (int(part or 0) for part in match.groups()[1:4])
    seconds = Decimal(match[5] or 0)
    length = timedelta(days=days, hours=hours, minutes=minutes, microseconds=int(seconds * 1_000_000))
    return -length if match[1] else length


_INTEGERS = (
    *("integer", "long", "int", "short", "byte", "nonNegativeInteger", "positiveInteger"),
    *(
        "nonPositiveInteger",
        "negativeInteger",
        "unsignedLong",
        "unsignedInt",
        "unsignedShort",
        "unsignedByte",
    ),
)
_VALUES: dict[str, Callable[[str], Value]] = {
    **dict.fromkeys(_INTEGERS, _whole),
    "decimal": _decimal,
    "double": _number,
    "float": _number,
    "boolean": _boolean,
    "dateTime": _date_time,
    "dateTimeStamp": _date_time,
    "date": _date,
    "time": _time,
    "dayTimeDuration": _duration,
}


def _typed(lexical: str, datatype: str) -> str:
    return f'"{lexical}"^^<{XSD}{datatype}>'


def _text_of_float(value: float) -> str:
    if math.isnan(value):
        return _typed("NaN", "double")
    if math.isinf(value):
        return _typed("INF" if value > 0 else "-INF", "double")
    mantissa, _, exponent = repr(value).partition("e")
    return _typed(f"{mantissa}E{int(exponent or 0)}", "double")


def _text_of_decimal(value: Decimal) -> str:
    if not value.is_finite():
        raise UsageError(f"{value} is no xsd:decimal: give it as a float")
    return _typed(f"{value:f}", "decimal")


def _text_of_datetime(value: datetime) -> str:
    offset = value.utcoffset()
    if offset is not None and offset % timedelta(minutes=1):  # of a time before there were zones
        value = value.astimezone(UTC)
    return _typed(_zoned(value.isoformat(), value.tzinfo is not None), "dateTime")


def _zoned(text: str, zoned: bool) -> str:
    return text.removesuffix("+00:00") + "Z" if zoned and text.endswith("+00:00") else text


def _text_of_duration(value: timedelta) -> str:
    microseconds = abs(value) // timedelta(microseconds=1)
    seconds, rest = divmod(microseconds, 1_000_000)
    fraction = f".{rest:06d}".rstrip("0") if rest else ""
    return _typed(f"{'-' if value < timedelta(0) else ''}PT{seconds}{fraction}S", "dayTimeDuration")


def _n3(term: IRI | BlankNode | Literal) -> str:
    return term.n3


_WRITERS: dict[type, Callable[[Any], str] | None] = {}
"""What writes the terms of the types that have been seen."""
_TEXTS: dict[type, Callable[[Any], str]] = {
    bool: lambda value: _typed("true" if value else "false", "boolean"),
    int: lambda value: _typed(str(int(value)), "integer"),
    Instant: lambda value: _typed(str(value), "dateTime"),
    float: _text_of_float,
    Decimal: _text_of_decimal,
    datetime: _text_of_datetime,
    date: lambda value: _typed(value.isoformat(), "date"),
    time: lambda value: _typed(_zoned(value.isoformat(), value.tzinfo is not None), "time"),
    timedelta: _text_of_duration,
}
