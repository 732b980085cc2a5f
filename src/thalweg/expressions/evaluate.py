"""Evaluation of an expression over rows of term ids, in the fastest way that gives the right answer."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from thalweg.algebra.expressions import Call, Constant, Expression, Variable, variables_of, walk
from thalweg.expressions.compiling import Compiler
from thalweg.expressions.memo import Memo, Terms, truth_code
from thalweg.expressions.values import FALSE, TRUE, Value
from thalweg.rdf.arena import Arena

Ids = NDArray[np.int64]

_IDENTIFIED = frozenset({"RAND", "UUID", "STRUUID", "BNODE"})


class Evaluator:
    """An expression over rows with the columns `names`, whose terms are in the arena.

    `salt` and the texts of the columns `identity` (all, unless given) make the values of RAND, UUID, STRUUID and BNODE:
    the same row gives the same values in every run. `now` is the instant of NOW() in microseconds.

    >>> from thalweg.algebra.terms import Const
    >>> arena = Arena()
    >>> five = Constant(Const.literal("5", datatype="http://www.w3.org/2001/XMLSchema#integer"))
    >>> larger = Evaluator(Call(">", (Variable("v"), five)), ["v"], arena)
    >>> rows = np.array([[arena.intern(b'"7.5"^^<http://www.w3.org/2001/XMLSchema#decimal>')], [arena.intern(b'"7"')]])
    >>> larger.holds(rows), larger.tier
    (array([ True, False]), 'memo')
    """

    def __init__(
        self,
        expression: Expression,
        names: Sequence[str],
        arena: Arena,
        *,
        salt: bytes = b"",
        now: int | None = None,
        identity: Sequence[str] | None = None,
    ) -> None:
        self.expression = expression
        self.names = tuple(names)
        self.arena = arena
        called = {found.name for found in walk(expression) if isinstance(found, Call)}
        self._row_by_row = bool(called & _IDENTIFIED)
        identifying = self.names if identity is None else tuple(identity)
        used = set(variables_of(expression)) | (set(identifying) if self._row_by_row else set())
        self.variables = tuple(name for name in self.names if name in used)
        """Names of the columns that the result depends on."""
        self._compiler = Compiler(self.names, now)
        self._terms = Terms(arena)
        columns = [self.names.index(name) for name in variables_of(expression) if name in self.names]
        self._identity = [self.names.index(name) for name in identifying] if self._row_by_row else None
        self._salt = salt
        self._truths = Memo(
            expression,
            self._compiler,
            columns,
            self._terms,
            truth_code,
            identity=self._identity,
            salt=salt,
        )
        self._ids = Memo(
            expression,
            self._compiler,
            columns,
            self._terms,
            self._interned,
            identity=self._identity,
            salt=salt,
        )
        self._constants = np.array(
            [
                arena.intern(text.encode())
                for text in (
                    TRUE.text,
                    FALSE.text,
                    *(found.value.text for found in walk(expression) if isinstance(found, Constant)),
                )
            ],
            dtype=np.int64,
        )

    @property
    def tier(self) -> str:
        """How rows are evaluated: `vectorised`, `memo` (by distinct terms) or `rows` (each on its own)."""
        return "rows" if self._row_by_row else "memo"

    @property
    def nbytes(self) -> int:
        """About how many bytes the evaluator keeps."""
        return self._constants.nbytes + self._truths.nbytes + self._ids.nbytes + self._terms.nbytes

    def live_ids(self) -> Ids:
        """The ids that must keep their texts: those of the constants. What is remembered goes with the terms."""
        return self._constants

    def set_now(self, now: int | None) -> None:
        """Set the instant of NOW() for the calls that follow."""
        self._compiler.set_now(now)
        self._forget()

    def values(self, rows: Ids) -> Ids:
        """For each row the id of the value; 0 where the expression is an error."""
        self._refresh()
        if isinstance(self.expression, Variable):
            if self.expression.name not in self.names:
                return np.zeros(len(rows), dtype=np.int64)
            return np.ascontiguousarray(rows[:, self.names.index(self.expression.name)])
        return self._ids.results(rows)

    def holds(self, rows: Ids) -> NDArray[np.bool_]:
        """For each row whether the effective boolean value is true; an error is not."""
        self._refresh()
        return self._truths.results(rows) == 1

    def _refresh(self) -> None:
        if self._terms.refresh():
            self._forget()

    def _forget(self) -> None:
        self._truths.clear()
        self._ids.clear()

    def _interned(self, value: Value | None) -> int:
        return 0 if value is None else self.arena.intern(value.text.encode())
