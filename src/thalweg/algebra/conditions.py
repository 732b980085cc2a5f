"""Conditions: what an expression needs in order to hold."""

from __future__ import annotations

from thalweg.algebra.expressions import INTERNAL, Call, Expression, Variable


def conjuncts(condition: Expression) -> list[Expression]:
    """The parts of a conjunction.

    >>> [str(part) for part in conjuncts(Call("AND", (Variable("a"), Call("AND", (Variable("b"), Variable("c"))))))]
    ['?a', '?b', '?c']
    """
    if isinstance(condition, Call) and condition.name == "AND":
        return [part for arg in condition.args for part in conjuncts(arg)]
    return [condition]


def needed_for_truth(condition: Expression) -> frozenset[str]:
    """The variables without which a condition cannot hold.

    >>> smaller = Call("<", (Variable("b"), Variable("c")))
    >>> sorted(needed_for_truth(Call("AND", (Call("BOUND", (Variable("a"),)), smaller))))
    ['a', 'b', 'c']
    >>> needed_for_truth(Call("OR", (Call("BOUND", (Variable("a"),)), Call("BOUND", (Variable("b"),)))))
    frozenset()
    """
    if isinstance(condition, Call):
        parts = [needed_for_truth(arg) for arg in condition.args]
        if condition.name == "AND":
            return frozenset().union(*parts)
        if condition.name == "OR":
            return frozenset.intersection(*parts)
        if condition.name == "BOUND":
            return _needed(condition.args[0])
    return _needed(condition)


def _needed(expression: Expression) -> frozenset[str]:
    """The variables without which an expression has no value."""
    if isinstance(expression, Variable):
        # What an event is known by is bound without any pattern.
        return frozenset() if expression.name.startswith(INTERNAL) else frozenset((expression.name,))
    if not isinstance(expression, Call):
        return frozenset()
    parts = [_needed(arg) for arg in expression.args]
    match expression.name:
        case "COALESCE" | "BOUND":
            return frozenset()
        case "IN" | "NOT IN" if len(parts) == 1:
            return frozenset()
        case "IF" | "IN" | "NOT IN":
            return parts[0]
        case "AND" | "OR":
            return frozenset.intersection(*parts)
    return frozenset().union(*parts)
