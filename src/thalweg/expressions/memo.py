"""Evaluation by distinct rows: each combination of terms is evaluated once, and remembered within bounds."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from thalweg.expressions import comparing
from thalweg.expressions.compiling import Evaluation, Row, row_digest
from thalweg.expressions.values import ExpressionError, Value, parse
from thalweg.rdf.arena import Arena

MOST_ENTRIES = 1 << 16
"""Entries that a memo keeps between calls."""

_ENTRY_BYTES = 120
"""About what an entry takes: a key, a result and their place in the table."""

Ids = NDArray[np.int64]


class Terms:
    """The values of terms by id, shared by the memos of one evaluator; dropped when the arena drops terms."""

    def __init__(self, arena: Arena) -> None:
        self.arena = arena
        self._generation = arena.generation
        self._values: dict[int, Value] = {}

    def refresh(self) -> bool:
        """Forget everything if ids may have lost or changed their texts; whether that was so."""
        if self._generation == self.arena.generation:
            return False
        self._generation = self.arena.generation
        self._values.clear()
        return True

    def values(self, ids: Sequence[int]) -> list[Value | None]:
        """The values of ids; None for an unbound variable."""
        known = self._values
        if missing := list({id_ for id_ in ids if id_ and id_ not in known}):
            if len(known) > MOST_ENTRIES:
                known.clear()
                missing = list({id_ for id_ in ids if id_})
            known.update(zip(missing, map(parse, self.arena.texts_among_threads(missing)), strict=True))
        return [known.get(id_) for id_ in ids]

    @property
    def nbytes(self) -> int:
        """About how many bytes the values take."""
        return 3 * _ENTRY_BYTES * len(self._values)


class Memo:
    """One expression, evaluated for the distinct rows of the variables that it uses.

    `columns` are the places of these variables in a row, in the order in which `evaluate` takes their values. `outcome`
    turns values, None for an error, into the numbers that are the results. `identity` are the columns whose texts make
    the row what it is, for functions such as RAND; then nothing is remembered.
    """

    def __init__(
        self,
        evaluate: Evaluation,
        columns: Sequence[int],
        terms: Terms,
        outcome: Callable[[list[Value | None]], Sequence[int]],
        *,
        identity: Sequence[int] | None = None,
        salt: bytes = b"",
    ) -> None:
        self._evaluate = evaluate
        self._columns = list(columns)
        self._terms = terms
        self._outcome = outcome
        self._identity = None if identity is None else list(identity)
        self._salt = salt
        self._known: dict[Hashable, int] = {}

    @property
    def nbytes(self) -> int:
        """About how many bytes the remembered results take."""
        return (_ENTRY_BYTES + 36 * len(self._columns)) * len(self._known)

    def clear(self) -> None:
        """Forget all results."""
        self._known.clear()

    def results(self, rows: Ids) -> Ids:
        """The result of each row."""
        if self._identity is not None:
            return self._row_by_row(rows)
        if not self._columns:
            (only,) = self._outcome([self._one(())])
            return np.full(len(rows), only, dtype=np.int64)
        columns = [rows[:, column].tolist() for column in self._columns]
        keys: list[Hashable] = columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))
        known = self._known
        new = [key for key in dict.fromkeys(keys) if key not in known]
        if new:
            if len(known) + len(new) > MOST_ENTRIES:
                # Some results of this call may be among those that go.
                known.clear()
                new = list(dict.fromkeys(keys))
            known.update(zip(new, self._evaluated(new), strict=True))
        found = np.fromiter(map(known.__getitem__, keys), dtype=np.int64, count=len(keys))
        if len(known) > MOST_ENTRIES:
            known.clear()
        return found

    def _evaluated(self, keys: list[Hashable]) -> Sequence[int]:
        columns: list[Any] = [keys] if len(self._columns) == 1 else list(zip(*cast(Any, keys), strict=True))
        values = [self._terms.values(column) for column in columns]
        return self._outcome([self._one(row) for row in zip(*values, strict=True)])

    def _one(self, values: Sequence[Value | None], digest: bytes = b"") -> Value | None:
        try:
            return self._evaluate(Row(values, digest))
        except ExpressionError:
            return None

    def _row_by_row(self, rows: Ids) -> Ids:
        assert self._identity is not None
        values: list[Value | None] = []
        for row in rows.tolist():
            bound = iter(self._terms.arena.texts_among_threads([row[c] for c in self._identity if row[c]]))
            texts = [next(bound) if row[c] else "" for c in self._identity]
            given = self._terms.values([row[c] for c in self._columns])
            values.append(self._one(given, row_digest(self._salt, texts)))
        return np.array(self._outcome(values), dtype=np.int64)


def truth_codes(values: list[Value | None]) -> list[int]:
    """For each value 1 for true, 0 for false, -1 for an error."""
    return [_truth_code(value) for value in values]


def _truth_code(value: Value | None) -> int:
    try:
        return -1 if value is None else int(comparing.truth(value))
    except ExpressionError:
        return -1
