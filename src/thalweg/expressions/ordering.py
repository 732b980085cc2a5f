"""The order of terms (SPARQL 1.1, section 15.1) as sort keys of integers, which kernels compare.

Unbound, blank nodes, IRIs, literals; literals by class: numbers, strings, strings with a language, booleans, dateTimes,
dates, times, durations, all others. Numbers, booleans and times are in the order of their values, the rest in that of
their contents. A time without a zone is compared as if it were UTC; NaN comes before all numbers.
"""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from thalweg.expressions import values
from thalweg.expressions.memo import Terms
from thalweg.expressions.values import Value
from thalweg.kernels import values as kinds
from thalweg.kernels.ordered import CLASSES, CONDITION
from thalweg.rdf.arena import Arena

Ints = NDArray[np.int64]
_CLASS_OF_KIND = np.zeros(16, np.int64)
for _kind, _name in {
    kinds.IRI: "iri",
    kinds.BLANK: "blank",
    kinds.STRING: "string",
    kinds.LANG: "lang",
    kinds.INTEGER: "number",
    kinds.DECIMAL: "number",
    kinds.DOUBLE: "number",
    kinds.BOOLEAN: "boolean",
    kinds.ZONED: "dateTime",
    kinds.LOCAL: "dateTime",
}.items():
    _CLASS_OF_KIND[_kind] = CLASSES[_name]
_CLASS_OF_VALUE = {
    values.DATE_TIME: "dateTime",
    values.DATE: "date",
    values.TIME: "time",
    values.DURATION: "duration",
    values.BOOLEAN: "boolean",
    values.STRING: "string",
    values.LANG: "lang",
    values.IRI: "iri",
    values.BLANK: "blank",
}
_MONTH = Fraction(30_436_875, 10_000) * 864  # seconds of an average month
_LEAST = -(1 << 63)


class TermOrder:
    """Sort keys of the terms of an arena."""

    def __init__(self, arena: Arena) -> None:
        self._arena = arena
        self._terms = Terms(arena)

    def keys(self, ids: Ints) -> Ints:
        """For each id the cells of a condition: class, number, rest of the number, id."""
        found, numbers = self._arena.numbers(ids)
        cells = np.empty((len(ids), CONDITION), np.int64)
        cells[:, 0] = _CLASS_OF_KIND[found]
        cells[:, 1] = _ordered(numbers)
        cells[:, 2] = 0
        cells[:, 3] = ids
        rest = np.flatnonzero(found == kinds.OTHER)
        if len(rest):
            self._terms.refresh()
            for place, value in zip(rest.tolist(), self._terms.values(ids[rest].tolist()), strict=True):
                assert value is not None
                cells[place, :3] = _key(value)
        return cells

    @property
    def nbytes(self) -> int:
        """About how many bytes the remembered values take."""
        return self._terms.nbytes


def _ordered(numbers: NDArray[np.float64]) -> Ints:
    """Integers in the order of numbers; both zeros are one."""
    bits = (numbers + 0.0).view(np.int64)
    return np.where(bits < 0, bits ^ 0x7FFF_FFFF_FFFF_FFFF, bits)


def _one(number: float) -> int:
    return int(_ordered(np.array([number]))[0])


def _key(value: Value) -> tuple[int, int, int]:
    """The class and the two numbers of a value."""
    if value.kind in values.NUMERIC:
        return (CLASSES["number"], *_number(value))
    name = _CLASS_OF_VALUE.get(value.kind, "other")
    if name in ("dateTime", "date", "time"):
        return (CLASSES[name], *_split(Fraction(value.value.universal) * 1_000_000))
    if name == "duration":
        length = Fraction(value.value.seconds) + value.value.months * _MONTH
        return (CLASSES[name], *_split(length))
    return CLASSES[name], _one(float(value.value)) if name == "boolean" else 0, 0


def _number(value: Value) -> tuple[int, int]:
    if value.kind in (values.FLOAT, values.DOUBLE):
        return (_LEAST, 0) if math.isnan(value.value) else (_one(value.value), 0)
    return _split(Fraction(value.value))


def _split(exact: Fraction) -> tuple[int, int]:
    """The nearest double, and how far the number is from it.

    A number of at most 15 digits has the rest 0, as it has where the kernel reads it: the rest is counted from that
    number of so few digits which has the same nearest double, where there is one.
    """
    try:
        near = float(exact)
    except OverflowError:
        return _one(math.inf if exact > 0 else -math.inf), 0
    short = f"{near:.15g}"
    base = Fraction(Decimal(short)) if float(short) == near else Fraction(near)
    return _one(near), _one(float(exact - base))
