"""Contradictions: conditions that cannot hold together, as far as comparisons with numbers show it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from fractions import Fraction

from thalweg.algebra.conditions import conjuncts
from thalweg.algebra.expressions import Call, Constant, Expression, Variable
from thalweg.algebra.terms import XSD

_NUMBER = re.compile(rf'"([+-]?[0-9]*\.?[0-9]+)"\^\^<{re.escape(XSD)}(?:integer|decimal)>')
_MIRRORED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "=": "=", "!=": "!="}
_FALSE = f'"false"^^<{XSD}boolean>'


def contradiction(conditions: Iterable[Expression]) -> str | None:
    """Why conditions never hold together; None: they may.

    A comparison of something that is no number with a number does not hold either, so that bounds are enough.

    >>> from thalweg.algebra.terms import Const
    >>> five, three = (Constant(Const(f'"{k}"^^<{XSD}integer>')) for k in (5, 3))
    >>> contradiction([Call(">", (Variable("a"), five)), Call("<", (Variable("a"), three))])
    '?a cannot be both > 5 and < 3'
    >>> contradiction([Call(">", (three, five))])
    '3 > 5 is false'
    """
    bounds: dict[str, list[tuple[str, Fraction, str]]] = {}
    for condition in (part for one in conditions for part in conjuncts(one)):
        if isinstance(condition, Constant) and condition.value.text == _FALSE:
            return "false never holds"
        if not isinstance(condition, Call) or condition.name not in _MIRRORED:
            continue
        left, right = condition.args
        one, two = _number(left), _number(right)
        if one is not None and two is not None:
            if not _holds(condition.name, one, two):
                return f"{condition} is false"
        elif isinstance(left, Variable) and two is not None:
            bounds.setdefault(left.name, []).append((condition.name, two, str(right)))
        elif isinstance(right, Variable) and one is not None:
            bounds.setdefault(right.name, []).append((_MIRRORED[condition.name], one, str(left)))
    for name, found in bounds.items():
        for op, value, shown in found:
            for other_op, other, other_shown in found:
                if _exclude(op, value, other_op, other):
                    return f"?{name} cannot be both {op} {shown} and {other_op} {other_shown}"
    return None


def _exclude(op: str, value: Fraction, other_op: str, other: Fraction) -> bool:
    """Whether no number fulfils both of two bounds; the first is a lower one, or a value."""
    if op == "=":
        return not _holds(other_op, value, other)
    if op not in (">", ">=") or other_op not in ("<", "<="):
        return False
    return value > other or (value == other and (op, other_op) != (">=", "<="))


def _number(expression: Expression) -> Fraction | None:
    found = _NUMBER.fullmatch(expression.value.text) if isinstance(expression, Constant) else None
    return None if found is None else Fraction(found[1])


def _holds(op: str, one: Fraction, two: Fraction) -> bool:
    match op:
        case "=":
            return one == two
        case "!=":
            return one != two
        case "<":
            return one < two
        case ">":
            return one > two
        case "<=":
            return one <= two
    return one >= two
