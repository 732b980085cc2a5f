"""Conditions as programs of the kernel, and the exact evaluation of the rows that the kernel leaves undecided."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from thalweg.algebra.expressions import Call, Constant, Expression, Variable
from thalweg.expressions.memo import Ids, Memo
from thalweg.kernels import conditions as kernel
from thalweg.kernels.values import (
    BLANK,
    BOOLEAN,
    DECIMAL,
    DOUBLE,
    INTEGER,
    IRI,
    LANG,
    LOCAL,
    OTHER,
    STRING,
    ZONED,
)
from thalweg.rdf.arena import Arena

Truths = NDArray[np.int8]
"""1 for true, 0 for false, -1 for an error."""

_COMPARISONS = {
    "=": kernel.EQUAL,
    "!=": kernel.UNEQUAL,
    "<": kernel.LESS,
    ">": kernel.GREATER,
    "<=": kernel.AT_MOST,
    ">=": kernel.AT_LEAST,
}
_ARITHMETIC = {"+": kernel.ADD, "-": kernel.SUBTRACT, "*": kernel.MULTIPLY, "/": kernel.DIVIDE}
_SIGNS = {"UPLUS": kernel.PLUS, "UMINUS": kernel.MINUS}
_LOGIC = {"AND": (kernel.AND, kernel.SKIP_IF_FALSE), "OR": (kernel.OR, kernel.SKIP_IF_TRUE)}


def _mask(*kinds: int) -> int:
    return sum(1 << kind for kind in kinds)


_TESTS = {
    "ISIRI": _mask(IRI),
    "ISBLANK": _mask(BLANK),
    "ISLITERAL": _mask(STRING, LANG, INTEGER, DECIMAL, DOUBLE, BOOLEAN, ZONED, LOCAL, OTHER),
    "ISNUMERIC": _mask(INTEGER, DECIMAL, DOUBLE) | _mask(OTHER) << 16,
}


class Program(NamedTuple):
    """What the kernel runs: steps, constants (kind and number, id), and the sets of IN."""

    steps: NDArray[np.int64]
    constants: NDArray[np.float64]
    constant_ids: NDArray[np.int64]
    sets: NDArray[np.int64]
    set_numbers: NDArray[np.float64]
    set_ids: NDArray[np.int64]

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return sum(array.nbytes for array in self)


class Builder:
    """Builds the program of a condition; sub-expressions that the kernel has no operation for become `leaves`."""

    def __init__(self, names: Sequence[str], arena: Arena) -> None:
        self._places = {name: place for place, name in enumerate(names)}
        self._arena = arena
        self._steps: list[tuple[int, int]] = []
        self._constants: dict[str, int] = {}
        self._sets: list[list[int]] = []
        self._set_numbers: list[float] = []
        self._set_ids: list[int] = []
        self.leaves: list[Expression] = []

    def build(self, expression: Expression) -> Program:
        """The program of an expression."""
        self._condition(expression)
        texts = list(self._constants)
        ids = np.array([self._arena.intern(text.encode()) for text in texts], dtype=np.int64)
        constants = np.empty((len(texts), 2))
        constants[:, 0], constants[:, 1] = self._arena.numbers(ids)
        return Program(
            np.array(self._steps, dtype=np.int64).reshape(-1, 2),
            constants,
            ids,
            np.array(self._sets, dtype=np.int64).reshape(-1, kernel.SET_WIDTH),
            np.array(self._set_numbers, dtype=np.float64),
            np.array(self._set_ids, dtype=np.int64),
        )

    def _step(self, operation: int, argument: int = 0) -> None:
        self._steps.append((operation, argument))

    def _constant(self, text: str) -> int:
        return self._constants.setdefault(text, len(self._constants))

    def _condition(self, expression: Expression) -> None:
        """Emit the steps that leave the truth of an expression on the stack."""
        if not self._call(expression):
            if not self._is_term(expression):
                self._leaf(expression)
            else:
                self._term(expression)
                self._step(kernel.TRUTH, self._constant('""'))

    def _leaf(self, expression: Expression) -> None:
        self._step(kernel.LEAF, len(self.leaves))
        self.leaves.append(expression)

    def _call(self, call: Expression) -> bool:
        """Emit the steps of an operator that makes a truth; False if the kernel has none for it."""
        if not isinstance(call, Call):
            return False
        name, args = call.name, call.args
        if name in _LOGIC:
            self._chain(call)
        elif name == "NOT":
            self._condition(args[0])
            self._step(kernel.NOT)
        elif name in _COMPARISONS and all(map(self._is_term, args)):
            for arg in args:
                self._term(arg)
            self._step(_COMPARISONS[name])
        elif (
            name == "SAMETERM"
            and not any(isinstance(arg, Call) for arg in args)
            and all(map(self._is_term, args))
        ):
            for arg in args:
                self._term(arg)
            self._step(kernel.SAME)
        elif name == "BOUND" and isinstance(args[0], Variable) and args[0].name in self._places:
            self._step(kernel.BOUND, self._places[args[0].name])
        elif name in _TESTS and isinstance(args[0], Variable) and args[0].name in self._places:
            self._term(args[0])
            self._step(kernel.TEST, _TESTS[name])
        elif name in ("IN", "NOT IN") and self._is_term(args[0]) and self._set(args[1:]):
            self._term(args[0])
            self._step(kernel.MEMBER, len(self._sets) - 1)
            if name == "NOT IN":
                self._step(kernel.NOT)
        else:
            return False
        return True

    def _chain(self, call: Call) -> None:
        """A chain of && or ||: as soon as an operand decides, the rest is skipped."""
        combine, skip = _LOGIC[call.name]
        skips: list[int] = []
        for number, arg in enumerate(call.args):
            if number:
                skips.append(len(self._steps))
                self._step(skip)
            self._condition(arg)
            if number:
                self._step(combine)
        for place in skips:
            self._steps[place] = (skip, len(self._steps))

    def _is_term(self, expression: Expression) -> bool:
        """Whether the kernel can compute the kind and number of an expression."""
        pending = [expression]
        while pending:
            found = pending.pop()
            if isinstance(found, Variable) and found.name not in self._places:
                return False
            if isinstance(found, Call) and (found.name in _ARITHMETIC or found.name in _SIGNS):
                pending.extend(found.args)
            elif not isinstance(found, Variable | Constant):
                return False
        return True

    def _term(self, expression: Expression) -> None:
        if isinstance(expression, Variable):
            self._step(kernel.COLUMN, self._places[expression.name])
        elif isinstance(expression, Constant):
            self._step(kernel.CONSTANT, self._constant(expression.value.text))
        elif isinstance(expression, Call):
            self._term(expression.args[0])
            if expression.name in _SIGNS:
                self._step(_SIGNS[expression.name])
            for arg in expression.args[1:]:
                self._term(arg)
                self._step(_ARITHMETIC[expression.name])

    def _set(self, members: Sequence[Expression]) -> bool:
        """Add the set of an IN; False if a member is no constant, or one that the kernel cannot compare."""
        if not all(isinstance(member, Constant) for member in members):
            return False
        texts = [member.value.text for member in members if isinstance(member, Constant)]
        ids = np.array([self._arena.intern(text.encode()) for text in texts], dtype=np.int64)
        kinds, numbers = self._arena.numbers(ids)
        if (kinds == OTHER).any():
            return False
        groups = kernel.GROUPS[kinds]
        described: list[int] = []
        for group in range(1, kernel.TERM):
            found = np.unique(numbers[groups == group])
            described += (len(self._set_numbers), len(self._set_numbers) + found.size)
            self._set_numbers += found.tolist()
        terms = np.unique(ids[groups >= kernel.TERM])
        described += (len(self._set_ids), len(self._set_ids) + terms.size)
        self._set_ids += terms.tolist()
        # A time with a zone can be equal to no time without one, but that is for the exact evaluation to find.
        self._sets.append([*described, int((kinds == ZONED).any() or (kinds == LOCAL).any())])
        return True


class Condition:
    """A program, its leaves, and the exact evaluation of the whole."""

    def __init__(
        self,
        expression: Expression,
        names: Sequence[str],
        arena: Arena,
        exactly: Callable[[Expression], Memo],
    ) -> None:
        builder = Builder(names, arena)
        self._arena = arena
        self.program = builder.build(expression)
        self.whole_leaf = builder.leaves == [expression]
        """Whether the kernel has no operation for the expression at all."""
        self.leaves = tuple(builder.leaves)
        self._memos = [exactly(leaf) for leaf in builder.leaves]
        self._exact = self._memos[0] if self.whole_leaf else exactly(expression)

    def truths(self, rows: Ids) -> Truths:
        """The truth of each row."""
        if self.whole_leaf:
            return self._exact.results(rows).astype(np.int8)
        truths = self._run(rows, np.empty((0, 0), dtype=np.int8))
        rest = np.flatnonzero(truths == kernel.UNDECIDED)
        if rest.size and self._memos:
            # Only now is it known for which rows the leaves matter.
            chosen = rows[rest]
            found = np.empty((rest.size, len(self._memos)), dtype=np.int8)
            for place, memo in enumerate(self._memos):
                found[:, place] = memo.results(chosen)
            truths[rest] = self._run(chosen, found)
            rest = np.flatnonzero(truths == kernel.UNDECIDED)
        if rest.size:
            truths[rest] = self._exact.results(rows[rest])
        return truths

    def _run(self, rows: Ids, leaves: Truths) -> Truths:
        truths = np.empty(len(rows), dtype=np.int8)
        self._arena.decide(self.program, np.ascontiguousarray(rows), leaves, truths)
        return truths
