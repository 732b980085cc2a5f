"""Aggregates and the order of terms over N-Triples texts, by SPARQL 1.1, sections 15.1 and 18.5.1, from scratch.

Where the specification leaves a choice, the choice of docs/semantics.md is taken, and pyoxigraph may have another.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any

from thalweg.testing.judge_expressions import XSD, ExpressionError, parts, plain

INTEGER, DECIMAL, DOUBLE = (f"{XSD}{name}" for name in ("integer", "decimal", "double"))
_PROMOTION = (INTEGER, DECIMAL, DOUBLE)
_QUOTIENT = Context(prec=34)


def aggregate(
    name: str,
    values: Sequence[str | None],
    notes: set[str],
    *,
    distinct: bool = False,
    separator: str = " ",
) -> str:
    """The value of an aggregate over the values of a group; None is an error among them."""
    known = [value for value in values if value is not None]
    if distinct:
        known = list(dict.fromkeys(known))
    faulty = len(known) < len(values) if not distinct else None in values
    if name == "COUNT":
        if faulty:
            notes.add("COUNT of errors")
        return _typed(str(len(known)), INTEGER)
    if name == "SAMPLE":
        if len(set(known)) > 1:
            notes.add("choice")
        if not known:
            raise ExpressionError("SAMPLE of nothing")
        return min(known)
    if faulty:
        raise ExpressionError("an error in a group")
    if name in ("SUM", "AVG"):
        return _sum(known, notes, averaged=name == "AVG")
    if name == "GROUP_CONCAT":
        return _concatenated(known, separator, notes)
    if not known:
        raise ExpressionError(f"{name} of nothing")
    if len({term_key(term)[0] for term in known}) > 1:
        notes.add("order of kinds")
    by_key = sorted(known, key=lambda term: (term_key(term), term), reverse=name == "MAX")
    if any(term_key(term) == term_key(by_key[0]) and term != by_key[0] for term in known):
        notes.add("choice")
    return by_key[0]


def term_key(term: str | None) -> tuple[Any, ...]:
    """What comes first in the order of terms has the smaller key; terms that are equal in it have one key."""
    if term is None:
        return (0,)
    if term[0] in "_<":
        return (1, term) if term[0] == "_" else (2, term[1:-1])
    text, kind, language = parts(term)
    if kind in _PROMOTION:
        return (3, _exact(text, kind))
    if language:
        return (5, text, language)
    if kind == f"{XSD}string":
        return (4, text)
    return (6, text == "true") if kind == f"{XSD}boolean" else (11, text, kind)


def _exact(text: str, kind: str) -> Fraction:
    return Fraction(float(text)) if kind == DOUBLE else Fraction(Decimal(text))


def _sum(terms: Sequence[str], notes: set[str], *, averaged: bool) -> str:
    found = [parts(term) for term in terms]
    if any(kind not in _PROMOTION for _, kind, _ in found):
        raise ExpressionError("a sum of what is no number")
    total = sum((_exact(text, kind) for text, kind, _ in found), Fraction(0))
    kind = max((kind for _, kind, _ in found), key=_PROMOTION.index, default=INTEGER)
    if kind == DOUBLE:
        notes.add("sum of doubles")
        return _typed(_scientific(float(total) / (len(terms) if averaged else 1)), DOUBLE)
    if not averaged or not terms:
        return _typed(_plain_number(total), kind)
    exact = total / len(terms)
    if (exact * 10**18).denominator != 1:
        notes.add("digits of an average")
    # The sum has a finite number of digits, so that one division rounds once.
    scale = 10**9
    quotient = _QUOTIENT.divide(Decimal(int(total * scale)), Decimal(len(terms) * scale))
    return _typed(_plain_number(Fraction(quotient)), DECIMAL)


def _plain_number(number: Fraction) -> str:
    """A finite decimal fraction without an exponent and without needless digits."""
    scale = 0
    while number.denominator != 1:
        number *= 10
        scale += 1
    digits = str(abs(number.numerator)).rjust(scale + 1, "0")
    text = f"{digits[: len(digits) - scale]}.{digits[len(digits) - scale :]}" if scale else digits
    return f"-{text}" if number < 0 else text


def _scientific(number: float) -> str:
    sign, digits, exponent = Decimal(repr(number)).as_tuple()
    assert isinstance(exponent, int)
    shown = "".join(map(str, digits)).rstrip("0") or "0"
    power = exponent + len(digits) - 1 if number else 0
    return f"{'-' if sign else ''}{shown[0]}.{shown[1:] or '0'}E{power}"


def _typed(text: str, kind: str) -> str:
    return f'"{text}"^^<{kind}>'


def _concatenated(terms: Sequence[str], separator: str, notes: set[str]) -> str:
    if len(set(terms)) > 1:
        notes.add("choice")
    texts = []
    for term in sorted(terms):
        if term[0] == "_":
            raise ExpressionError("STR of a blank node")
        if term[0] == "<" or parts(term)[1] != f"{XSD}string":
            notes.add("GROUP_CONCAT of other terms")
        texts.append(term[1:-1] if term[0] == "<" else parts(term)[0])
    return plain(separator.join(texts))
