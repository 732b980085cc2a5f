"""What Python workers compute for a store: expressions, sort keys and aggregates over N-Triples texts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from thalweg.algebra.expressions import Expression
from thalweg.algebra.terms import XSD
from thalweg.expressions import strings
from thalweg.expressions.evaluate import Evaluator
from thalweg.expressions.ordering import TermOrder
from thalweg.expressions.sums import ExactSum, average
from thalweg.expressions.values import NUMERIC, ExpressionError, Value, parse, string
from thalweg.kernels.ordered import BY_TEXT
from thalweg.rdf.arena import Arena

_MOST_TERMS = 128 << 20


class Evaluating:
    """An expression over columns of texts, in whichever process it is called; what it needs is made there."""

    def __init__(
        self, expression: Expression, names: Sequence[str], identity: Sequence[str], now: int | None
    ) -> None:
        """`identity` are the columns whose texts make a row what it is, for RAND and its like."""
        self.expression, self.names, self.now = expression, tuple(names), now
        self.identity = tuple(identity)
        self._evaluator: Evaluator | None = None

    def __reduce__(self) -> Any:
        return Evaluating, (self.expression, self.names, self.identity, self.now)

    def _rows(self, columns: Sequence[pd.Series]) -> tuple[Evaluator, NDArray[np.int64]]:
        if self._evaluator is None or self._evaluator.arena.used_bytes > _MOST_TERMS:
            self._evaluator = Evaluator(
                self.expression, self.names, Arena(), now=self.now, identity=self.identity
            )
        arena = self._evaluator.arena
        count = len(columns[0]) if columns else 1
        rows = np.zeros((count, len(columns)), np.int64)
        for k, column in enumerate(columns):
            rows[:, k] = interned(column, arena)
        return self._evaluator, rows

    def holds(self, columns: Sequence[pd.Series]) -> NDArray[np.bool_]:
        """For each row whether the condition is true."""
        evaluator, rows = self._rows(columns)
        return evaluator.holds(rows)

    def values(self, columns: Sequence[pd.Series]) -> list[str | None]:
        """For each row the text of the value; None where there is none."""
        evaluator, rows = self._rows(columns)
        return texts_of(evaluator.values(rows), evaluator.arena)


def interned(column: pd.Series, arena: Arena) -> NDArray[np.int64]:
    """The ids of texts; 0 where there is none."""
    codes, distinct = pd.factorize(column)
    ids = arena.intern_all([text.encode() for text in distinct]) if len(distinct) else np.empty(0, np.int64)
    return np.append(ids, 0)[codes]  # the code of nothing is -1


def texts_of(ids: NDArray[np.int64], arena: Arena) -> list[str | None]:
    """The texts of ids; None for 0."""
    found: list[str | None] = [None] * len(ids)
    places = np.flatnonzero(ids)
    for place, text in zip(places.tolist(), arena.texts(ids[places]), strict=True):
        found[place] = text
    return found


def sort_keys(column: pd.Series) -> pd.DataFrame:
    """For each term what decides its place in SPARQL's order: class, two numbers, and a text."""
    arena = Arena()
    ids = interned(column, arena)
    cells = np.zeros((len(ids), 3), np.int64)
    contents = [""] * len(ids)
    places = np.flatnonzero(ids)
    cells[places] = TermOrder(arena).keys(ids[places])[:, :3]
    for place, text in zip(places.tolist(), arena.texts(ids[places]), strict=True):
        if BY_TEXT >> int(cells[place, 0]) & 1:
            contents[place] = parse(text).content
    return pd.DataFrame({"c": cells[:, 0], "n": cells[:, 1], "r": cells[:, 2], "t": contents})


def aggregate_of(function: str, separator: str) -> Callable[[Sequence[str]], str | None]:
    """A set function over the texts of a group without errors; None where it has no value."""

    def call(texts: Sequence[str]) -> str | None:
        try:
            return _aggregate(function, separator, list(texts))
        except ExpressionError:
            return None

    return call


def number_aggregate_of(function: str) -> Callable[[Sequence[str], str | None, int], str | None]:
    """SUM, AVG, MIN or MAX over the texts of a group, of whose integers only their sum, least or largest is given.

    >>> number_aggregate_of("AVG")([], "7", 2)
    '"3.5"^^<http://www.w3.org/2001/XMLSchema#decimal>'
    """

    def call(texts: Sequence[str], integers: str | None, count: int) -> str | None:
        given = [*texts, *([] if integers is None else [f'"{integers}"^^<{XSD}integer>'])]
        try:
            if function == "AVG":
                return average(parse(_aggregate("SUM", "", given) or ""), count).text
            return _aggregate(function, "", given)
        except ExpressionError:
            return None

    return call


def _aggregate(function: str, separator: str, texts: list[str]) -> str | None:
    if function == "SAMPLE":
        return min(texts, default=None)
    if function in ("SUM", "AVG"):
        total, count = ExactSum(), 0
        for value in map(parse, texts):
            if value.kind not in NUMERIC:
                raise ExpressionError("a sum of what is no number")
            total.add(value, 1)
            count += 1
        return (average(total.value(), count) if function == "AVG" else total.value()).text
    if function == "GROUP_CONCAT":
        values: list[Value] = [parse(text) for text in sorted(texts)]
        return string(separator.join(strings.str_(value).content for value in values)).text
    if not texts:
        return None
    keys = sort_keys(pd.Series(texts))
    ranked = sorted(zip(keys["c"], keys["n"], keys["r"], keys["t"], texts, strict=True))
    return str(ranked[0 if function == "MIN" else -1][4])
