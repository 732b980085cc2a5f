"""Evaluation of an expression over rows of term ids, in the fastest way that gives the right answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from thalweg.algebra.expressions import Call, Constant, Expression, Variable, variables_of, walk
from thalweg.expressions.compiling import Clock, Compiler
from thalweg.expressions.memo import Memo, Terms, truth_codes
from thalweg.expressions.programs import Condition
from thalweg.expressions.values import FALSE, TRUE, Value
from thalweg.rdf.arena import Arena

Ids = NDArray[np.int64]

_CONDITIONS = frozenset(
    {"AND", "OR", "NOT", "=", "!=", "<", ">", "<=", ">=", "IN", "NOT IN", "BOUND", "SAMETERM"}
    | {
        "ISIRI",
        "ISBLANK",
        "ISLITERAL",
        "ISNUMERIC",
        "REGEX",
        "CONTAINS",
        "STRSTARTS",
        "STRENDS",
        "LANGMATCHES",
    }
)
"""Operators and functions whose values are booleans."""
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
    (array([ True, False]), 'vectorised')
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
        self._identifying = identifying
        self._salt = salt
        self._clock = Clock(now)
        self._terms = Terms(arena)
        self._memos: list[Memo] = []
        self._condition = Condition(expression, self.names, arena, lambda part: self._memo(part, truth_codes))
        is_condition = isinstance(expression, Call) and expression.name in _CONDITIONS
        self._ids = None if is_condition else self._memo(expression, self._interned)
        texts = (
            FALSE.text,
            TRUE.text,
            *(found.value.text for found in walk(expression) if isinstance(found, Constant)),
        )
        self._constants = np.array([arena.intern(text.encode()) for text in texts], dtype=np.int64)
        if self._row_by_row:
            self.tier = "rows"
        elif self._condition.leaves or not (is_condition or isinstance(expression, Variable | Constant)):
            self.tier = "memo"
        else:
            self.tier = "vectorised"
        """How rows are evaluated: `vectorised`, `memo` (by distinct terms, wholly or in part) or `rows` (each one)."""

    def _memo(self, expression: Expression, outcome: Callable[[list[Value | None]], Sequence[int]]) -> Memo:
        called = {found.name for found in walk(expression) if isinstance(found, Call)}
        identity = [self.names.index(name) for name in self._identifying] if called & _IDENTIFIED else None
        used = [name for name in variables_of(expression) if name in self.names]
        memo = Memo(
            Compiler(used, self._clock).compile(expression),
            [self.names.index(name) for name in used],
            self._terms,
            outcome,
            identity=identity,
            salt=self._salt,
        )
        self._memos.append(memo)
        return memo

    @property
    def leaves(self) -> tuple[Expression, ...]:
        """The parts that the kernel has no operation for: they are evaluated by distinct terms, or row by row."""
        return self._condition.leaves

    @property
    def nbytes(self) -> int:
        """About how many bytes the evaluator keeps."""
        kept = self._constants.nbytes + self._condition.program.nbytes + self._terms.nbytes
        return kept + sum(memo.nbytes for memo in self._memos)

    def live_ids(self) -> Ids:
        """The ids that must keep their texts: those of the constants. What is remembered goes with the terms."""
        return np.concatenate((self._constants, self._condition.program.constant_ids))

    def set_now(self, now: int | None) -> None:
        """Set the instant of NOW() for the calls that follow."""
        self._clock.set(now)
        self._forget()

    def values(self, rows: Ids) -> Ids:
        """For each row the id of the value; 0 where the expression is an error."""
        self._refresh()
        if isinstance(self.expression, Variable):
            if self.expression.name not in self.names:
                return np.zeros(len(rows), dtype=np.int64)
            return np.ascontiguousarray(rows[:, self.names.index(self.expression.name)])
        if self._ids is not None:
            return self._ids.results(rows)
        truths = self._condition.truths(rows)
        return np.where(truths < 0, 0, self._constants[truths])

    def holds(self, rows: Ids) -> NDArray[np.bool_]:
        """For each row whether the effective boolean value is true; an error is not."""
        self._refresh()
        return self._condition.truths(rows) == 1

    def _refresh(self) -> None:
        if self._terms.refresh():
            self._forget()

    def _forget(self) -> None:
        for memo in self._memos:
            memo.clear()

    def _interned(self, values: list[Value | None]) -> list[int]:
        texts = [value.text.encode() for value in values if value is not None]
        ids = iter(self.arena.intern_all(texts).tolist())
        return [0 if value is None else next(ids) for value in values]
