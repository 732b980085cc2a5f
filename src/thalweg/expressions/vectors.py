"""Conditions on columns: truth in three values for all rows at once, from the kinds and numbers of their terms.

Whatever the kinds and numbers cannot decide (long numbers, order of strings, unknown datatypes) goes to the exact
evaluation, for those rows only: a `Memo` of the same expression. So both ways have the same results.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thalweg.algebra.expressions import Call, Constant, Expression, Variable
from thalweg.expressions.memo import Ids, Memo
from thalweg.kernels.values import (
    BLANK,
    BOOLEAN,
    DECIMAL,
    DOUBLE,
    INTEGER,
    IRI,
    LANG,
    LOCAL,
    NONE,
    OTHER,
    STRING,
    ZONED,
)
from thalweg.rdf.arena import Arena

Truths = NDArray[np.int8]
"""1 for true, 0 for false, -1 for an error."""

_MOST_EXACT = 10.0**15
"""Below this, sums and products of integers are exact doubles, and different from all others."""

_KINDS = 12
# Groups of kinds. Within one of the first four, numbers are compared; in the next, terms.
_NUMBER, _BOOLEAN, _ZONED, _LOCAL, _TERM, _STRING, _LANG = range(1, 8)
_UNDECIDED, _FAILED = 8, 0
_GROUP = np.zeros(_KINDS, dtype=np.int8)
for _group, _kinds in (
    (_NUMBER, (INTEGER, DECIMAL, DOUBLE)),
    (_BOOLEAN, (BOOLEAN,)),
    (_ZONED, (ZONED,)),
    (_LOCAL, (LOCAL,)),
    (_TERM, (IRI, BLANK)),
    (_STRING, (STRING,)),
    (_LANG, (LANG,)),
    (_UNDECIDED, (OTHER,)),
):
    _GROUP[list(_kinds)] = _group

# Times have an arithmetic with durations, which are undecided.
_WITHOUT_ARITHMETIC = np.isin(np.arange(9), (_FAILED, _BOOLEAN, _TERM, _STRING, _LANG))

_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
}
_ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.divide,
}
_TESTS = ("ISIRI", "ISBLANK", "ISLITERAL", "ISNUMERIC")


class Column(NamedTuple):
    """What is known of the terms of a column: kinds, numbers, and ids where they are terms of rows or constants."""

    kinds: Any
    numbers: Any
    ids: Any


class Batch:
    """Rows that are evaluated together; kinds and numbers of a column are read once."""

    def __init__(self, rows: Ids, arena: Arena) -> None:
        self.rows = rows
        self.arena = arena
        self._columns: dict[int, Column] = {}

    def __len__(self) -> int:
        return len(self.rows)

    def column(self, place: int) -> Column:
        """A column of the rows."""
        if place not in self._columns:
            ids = np.ascontiguousarray(self.rows[:, place])
            self._columns[place] = Column(*self.arena.numbers(ids), ids)
        return self._columns[place]


Condition = Callable[[Batch, NDArray[np.bool_] | None], Truths]
"""The truth of a condition; only the rows of the mask count, and an expensive condition looks at no others."""
Operand = Callable[[Batch], Column]


class Vectoriser:
    """Compiles conditions. `exactly` makes the exact evaluation of a sub-expression, for the rest of the rows."""

    def __init__(self, names: Sequence[str], arena: Arena, exactly: Callable[[Expression], Memo]) -> None:
        self._places = {name: place for place, name in enumerate(names)}
        self._arena = arena
        self._exactly = exactly
        self._empty = arena.intern(b'""')
        self.kept: list[int] = [self._empty]
        """Ids of constants."""
        self.leaves: list[Expression] = []
        """Sub-expressions that are not vectorised at all."""

    def condition(self, expression: Expression) -> Condition:
        """The function of an expression as a condition."""
        if isinstance(expression, Call):
            name = expression.name
            if name in ("AND", "OR"):
                return _logic([self.condition(arg) for arg in expression.args], int(name == "OR"))
            if name == "NOT":
                return _negated(self.condition(expression.args[0]))
            made = None
            if name in _COMPARISONS:
                made = self._comparison(expression)
            elif name in ("IN", "NOT IN"):
                made = self._membership(expression)
            elif name == "SAMETERM":
                made = self._same_term(expression)
            elif name == "BOUND" or name in _TESTS:
                made = self._test(expression)
            if made is not None:
                return made
        elif isinstance(expression, Variable):
            return self._truth(expression)
        self.leaves.append(expression)
        memo = self._exactly(expression)
        return lambda batch, where: _evaluate(memo, batch, where)

    def _operand(self, expression: Expression) -> Operand | None:
        """The function of a variable, a constant or arithmetic on them; None for anything else."""
        if isinstance(expression, Variable):
            if expression.name not in self._places:
                return lambda batch: Column(np.int8(NONE), np.float64(0), np.int64(0))
            place = self._places[expression.name]
            return lambda batch: batch.column(place)
        if isinstance(expression, Constant):
            constant = self._constant(expression)
            return lambda batch: constant
        if isinstance(expression, Call) and expression.name in _ARITHMETIC:
            operands = [self._operand(arg) for arg in expression.args]
            return None if None in operands else _arithmetic(expression.name, operands)  # type: ignore[arg-type]
        if isinstance(expression, Call) and expression.name in ("UMINUS", "UPLUS"):
            operand = self._operand(expression.args[0])
            return None if operand is None else _signed(operand, -1.0 if expression.name == "UMINUS" else 1.0)
        return None

    def _constant(self, constant: Constant) -> Column:
        id_ = self._arena.intern(constant.value.text.encode())
        self.kept.append(id_)
        kinds, numbers = self._arena.numbers(np.array([id_], dtype=np.int64))
        return Column(kinds[0], numbers[0], np.int64(id_))

    def _comparison(self, call: Call) -> Condition | None:
        first, second = (self._operand(arg) for arg in call.args)
        if first is None or second is None:
            return None
        left, right = first, second
        compare, equality = _COMPARISONS[call.name], call.name in ("=", "!=")
        memo = self._exactly(call)

        def condition(batch: Batch, where: NDArray[np.bool_] | None) -> Truths:
            a, b = left(batch), right(batch)
            one, two = _GROUP[a.kinds], _GROUP[b.kinds]
            truths = np.broadcast_to(compare(a.numbers, b.numbers), len(batch)).astype(np.int8)
            numbers = (one == two) & (one >= _NUMBER) & (one <= _LOCAL)
            if np.all(numbers):
                return truths
            failed = (one == _FAILED) | (two == _FAILED)
            undecided = (one == _UNDECIDED) | (two == _UNDECIDED)
            # A time with a zone and one without: only the exact evaluation looks at how far apart they are.
            undecided |= ((one == _ZONED) & (two == _LOCAL)) | ((one == _LOCAL) & (two == _ZONED))
            if equality:
                same = compare(a.ids, b.ids)
                truths = np.where(numbers, truths, same).astype(np.int8)
            else:
                undecided |= (one == _STRING) & (two == _STRING)
                truths = np.where(numbers, truths, np.int8(-1)).astype(np.int8)
            return _completed(batch, where, truths, failed, undecided, memo)

        return condition

    def _membership(self, call: Call) -> Condition | None:
        tested = self._operand(call.args[0])
        members = [arg for arg in call.args[1:] if isinstance(arg, Constant)]
        if tested is None or not members or len(members) < len(call.args) - 1:
            return None
        columns = [self._constant(member) for member in members]
        groups = np.array([_GROUP[column.kinds] for column in columns])
        if (groups == _UNDECIDED).any():
            return None
        ids = np.array([column.ids for column in columns], dtype=np.int64)
        numbers = np.array([column.numbers for column in columns])
        operand, yes = tested, np.int8(call.name == "IN")
        memo = self._exactly(call)
        other_zone = {_ZONED: (groups == _LOCAL).any(), _LOCAL: (groups == _ZONED).any()}

        def condition(batch: Batch, where: NDArray[np.bool_] | None) -> Truths:
            found = operand(batch)
            group = np.broadcast_to(_GROUP[found.kinds], len(batch))
            present = np.zeros(len(batch), dtype=np.bool_)
            for kind in (_NUMBER, _BOOLEAN, _ZONED, _LOCAL):
                if (groups == kind).any() and (group == kind).any():
                    present |= (group == kind) & np.isin(found.numbers, numbers[groups == kind])
            if (group >= _TERM).any():
                present |= (group >= _TERM) & np.isin(found.ids, ids)
            truths = np.where(present, yes, np.int8(1) - yes).astype(np.int8)
            undecided = group == _UNDECIDED
            for kind, other in other_zone.items():
                if other:
                    undecided |= (group == kind) & ~present
            return _completed(batch, where, truths, group == _FAILED, undecided, memo)

        return condition

    def _same_term(self, call: Call) -> Condition | None:
        if not all(isinstance(arg, Variable | Constant) for arg in call.args):
            return None
        first, second = (self._operand(arg) for arg in call.args)
        assert first is not None
        assert second is not None
        left, right = first, second

        def condition(batch: Batch, where: NDArray[np.bool_] | None) -> Truths:
            a, b = left(batch), right(batch)
            truths = np.broadcast_to(a.ids == b.ids, len(batch)).astype(np.int8)
            truths[np.broadcast_to((a.ids == 0) | (b.ids == 0), len(batch))] = -1
            return truths

        return condition

    def _test(self, call: Call) -> Condition | None:
        """`BOUND` and the tests of a term's kind."""
        (arg,) = call.args
        if not isinstance(arg, Variable):
            return None
        place = self._places.get(arg.name)
        if place is None:
            return _always(0 if call.name == "BOUND" else -1)
        if call.name == "BOUND":
            return lambda batch, where: (batch.rows[:, place] != 0).astype(np.int8)
        wanted = {
            "ISIRI": (IRI,),
            "ISBLANK": (BLANK,),
            "ISLITERAL": (STRING, LANG, INTEGER, DECIMAL, DOUBLE, BOOLEAN, ZONED, LOCAL, OTHER),
            "ISNUMERIC": (INTEGER, DECIMAL, DOUBLE),
        }[call.name]
        table = np.zeros(_KINDS, dtype=np.int8)
        table[list(wanted)] = 1
        table[NONE] = -1
        memo = self._exactly(call) if call.name == "ISNUMERIC" else None

        def condition(batch: Batch, where: NDArray[np.bool_] | None) -> Truths:
            kinds = batch.column(place).kinds
            truths = table[kinds]
            if memo is None:
                return truths
            return _completed(batch, where, truths, kinds == NONE, kinds == OTHER, memo)

        return condition

    def _truth(self, variable: Variable) -> Condition:
        """The effective boolean value of a variable."""
        place = self._places.get(variable.name)
        if place is None:
            return _always(-1)
        memo, empty = self._exactly(variable), self._empty

        def condition(batch: Batch, where: NDArray[np.bool_] | None) -> Truths:
            column = batch.column(place)
            group = _GROUP[column.kinds]
            plain = (group == _NUMBER) | (group == _BOOLEAN)
            string = group == _STRING
            truths = np.where(plain, (column.numbers != 0), string & (column.ids != empty)).astype(np.int8)
            failed = (group == _FAILED) | (group == _TERM) | (group == _ZONED) | (group == _LOCAL)
            return _completed(batch, where, truths, failed, (group == _UNDECIDED) | (group == _LANG), memo)

        return condition


def _always(truth: int) -> Condition:
    return lambda batch, where: np.full(len(batch), truth, dtype=np.int8)


def _evaluate(memo: Memo, batch: Batch, where: NDArray[np.bool_] | None) -> Truths:
    if where is None:
        return memo.results(batch.rows).astype(np.int8)
    truths = np.full(len(batch), -1, dtype=np.int8)
    if where.any():
        truths[where] = memo.results(batch.rows[where])
    return truths


def _completed(
    batch: Batch, where: NDArray[np.bool_] | None, truths: Truths, failed: Any, undecided: Any, memo: Memo
) -> Truths:
    """Truths with errors filled in, and with the exact evaluation of the rows that are undecided and count."""
    truths[np.broadcast_to(failed, len(batch))] = -1
    rest = np.broadcast_to(undecided & ~np.asarray(failed), len(batch))
    if where is not None:
        rest = rest & where
    if rest.any():
        truths[rest] = memo.results(batch.rows[rest])
    return truths


def _negated(inner: Condition) -> Condition:
    def condition(batch: Batch, where: NDArray[np.bool_] | None) -> Truths:
        truths = inner(batch, where)
        return np.where(truths < 0, truths, 1 - truths).astype(np.int8)

    return condition


def _logic(operands: list[Condition], decisive: int) -> Condition:
    """`||` (1 decides) and `&&` (0 decides): an error only where no operand decides."""

    def condition(batch: Batch, where: NDArray[np.bool_] | None) -> Truths:
        result = operands[0](batch, where)
        for operand in operands[1:]:
            open_ = result != decisive
            if not open_.any():
                break
            truths = operand(batch, open_ if where is None else open_ & where)
            # An error stays unless the operand decides; otherwise the operand's truth counts.
            result = np.where(open_ & ((result >= 0) | (truths == decisive)), truths, result)
        return result

    return condition


def _arithmetic(name: str, operands: list[Operand]) -> Operand:
    """A chain of one operator: exact for short integers, IEEE where there is a double; the rest is undecided."""
    apply = _ARITHMETIC[name]

    def pair(a: Column, b: Column) -> Column:
        with np.errstate(all="ignore"):
            numbers = apply(a.numbers, b.numbers)
        one, two = _GROUP[a.kinds], _GROUP[b.kinds]
        integers = (a.kinds == INTEGER) & (b.kinds == INTEGER) & (np.abs(numbers) < _MOST_EXACT)
        if name == "/":
            integers = np.zeros_like(integers)
        doubles = (one == _NUMBER) & (two == _NUMBER) & ((a.kinds == DOUBLE) | (b.kinds == DOUBLE))
        failed = _WITHOUT_ARITHMETIC[one] | _WITHOUT_ARITHMETIC[two]
        kinds = np.where(integers, INTEGER, np.where(doubles, DOUBLE, OTHER))
        # An integer has no negative zero.
        numbers = np.where(integers, numbers + 0.0, numbers)
        return Column(np.where(failed, NONE, kinds).astype(np.int8), numbers, np.int64(0))

    def operand(batch: Batch) -> Column:
        result = operands[0](batch)
        for other in operands[1:]:
            result = pair(result, other(batch))
        return result

    return operand


def _signed(inner: Operand, sign: float) -> Operand:
    def operand(batch: Batch) -> Column:
        found = inner(batch)
        group = _GROUP[found.kinds]
        numbers = np.where(found.kinds == DOUBLE, found.numbers * sign, found.numbers * sign + 0.0)
        kinds = np.where(group == _NUMBER, found.kinds, np.where(group == _UNDECIDED, OTHER, NONE))
        return Column(kinds.astype(np.int8), numbers, np.int64(0))

    return operand
