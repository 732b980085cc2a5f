"""Conditions between atoms of a sequence that are comparisons of numbers, and why a sequence has others."""

from __future__ import annotations

from dataclasses import dataclass

from thalweg.algebra.expressions import Call, Constant, Expression, Variable, variables_of
from thalweg.algebra.sequences import PREVIOUS, Sequence, negated_uses, uses_of

_COMPARISONS = frozenset({"=", "!=", "<", ">", "<=", ">="})


@dataclass(frozen=True)
class Comparison:
    """A comparison of variables and constants, whose values have to be numbers."""

    op: str
    sides: tuple[Variable | Constant, Variable | Constant]


def comparisons_of(expression: Expression) -> list[Comparison] | None:
    """The comparisons that all have to hold if a condition is to hold; None: it is not of that kind."""
    if isinstance(expression, Call) and expression.name == "AND":
        parts = [comparisons_of(part) for part in expression.args]
        return None if None in parts else [one for part in parts if part is not None for one in part]
    if not isinstance(expression, Call) or expression.name not in _COMPARISONS:
        return None
    one, two = expression.args
    if not isinstance(one, Variable | Constant) or not isinstance(two, Variable | Constant):
        return None
    return [Comparison(expression.name, (one, two))]


def not_by_instants(sequence: Sequence) -> str | None:
    """Why the runs of a sequence are not taken instant by instant; None: they are."""
    if sequence.traced:
        return "it matters which events a run consists of"
    conditions = [condition.expression for atom in sequence.atoms for condition in atom.conditions]
    for expression in (*conditions, *(shown for _, shown in sequence.columns)):
        for name in variables_of(expression):
            if "(" in name and not name.startswith(f"{PREVIOUS}("):
                return f"{name.replace('(', '(?')} is an aggregate of a repetition"
    negated = set(map(id, negated_uses(sequence.pattern)))
    positive = {use.atom for use in uses_of(sequence.pattern) if id(use) not in negated}
    asked = [atom for atom in sequence.atoms if atom.name in positive]
    for expression in (condition.expression for atom in asked for condition in atom.conditions):
        if comparisons_of(expression) is None:
            return f"{expression} is not a conjunction of comparisons"
    return None
