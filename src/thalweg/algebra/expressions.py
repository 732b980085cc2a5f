"""Expressions of SPARQL 1.1 as frozen trees: variables, constants, calls, and EXISTS over a logical tree.

An operator is a call too. `OR`, `AND`, `+`, `-`, `*` and `/` take two operands or more and associate to the left, so
that a chain of thousands is one flat call. Built-in functions have their names in capitals; casts and extension
functions are named by their IRI.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from thalweg.algebra.terms import XSD, Const
from thalweg.algebra.windows import Range

INTERNAL = "\x1f"
"""With this begin the names of variables that no query can write."""
EVENT_TIME, EVENT_GRAPH = f"{INTERNAL}time", f"{INTERNAL}graph"
"""Under [NOW], variables that every solution of an event binds: its time, and the name of its graph if it has one."""

VOLATILE = frozenset({"RAND", "UUID", "STRUUID", "BNODE", "NOW"})
"""Functions whose value depends on more than their arguments: on the row, the place in the text, or the instant."""

_BARE = re.compile(
    rf'"(?:([+-]?[0-9]+)"\^\^<{XSD}integer>|([+-]?[0-9]*\.[0-9]+)"\^\^<{XSD}decimal>'
    rf'|([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)[eE][+-]?[0-9]+)"\^\^<{XSD}double>|(true|false)"\^\^<{XSD}boolean>)'
)
_PRECEDENCE = (
    dict.fromkeys(("OR",), 1)
    | dict.fromkeys(("AND",), 2)
    | dict.fromkeys(("=", "!=", "<", ">", "<=", ">=", "IN", "NOT IN"), 3)
    | dict.fromkeys(("+", "-"), 4)
    | dict.fromkeys(("*", "/"), 5)
    | dict.fromkeys(("NOT", "UMINUS", "UPLUS"), 6)
)
_PRIMARY = 7
_SIGNS = {"OR": "||", "AND": "&&", "NOT": "!", "UMINUS": "-", "UPLUS": "+"}
_SPELLINGS = {
    "SAMETERM": "sameTerm",
    "ISIRI": "isIRI",
    "ISBLANK": "isBlank",
    "ISLITERAL": "isLiteral",
    "ISNUMERIC": "isNumeric",
    "LANGMATCHES": "langMatches",
}


@dataclass(frozen=True, slots=True)
class Variable:
    """The value of a variable in a solution; it is an error where the variable is unbound."""

    name: str

    def __post_init__(self) -> None:
        if not self.name or self.name[0] in "?$":
            raise ValueError(f"a variable's name is written without its mark, not {self.name!r}")

    def __str__(self) -> str:
        return self.name if self.name.startswith("_:") else f"?{self.name}"


@dataclass(frozen=True, slots=True)
class Constant:
    """A term that is written in the expression."""

    value: Const

    def __str__(self) -> str:
        bare = _BARE.fullmatch(self.value.text)
        return next(filter(None, bare.groups())) if bare else self.value.text


@dataclass(frozen=True, slots=True)
class Call:
    """An operator or a function with its arguments; line and column are where it is written, 0 if nowhere.

    >>> x = Variable("x")
    >>> print(Call("AND", (Call("BOUND", (x,)), Call("NOT", (Call("OR", (x, x)),)))))
    BOUND(?x) && !(?x || ?x)
    """

    name: str
    args: tuple[Expression, ...]
    line: int = field(default=0, compare=False)
    column: int = field(default=0, compare=False)

    def __str__(self) -> str:
        own = _PRECEDENCE.get(self.name, _PRIMARY)
        if own == _PRIMARY:
            shown = f"<{self.name}>" if ":" in self.name else _SPELLINGS.get(self.name, self.name)
            # The second argument of IRI is the base of the query, which is written elsewhere.
            args = self.args[:1] if self.name == "IRI" else self.args
            return f"{shown}({', '.join(map(str, args))})"
        sign = _SIGNS.get(self.name, self.name)
        if own == 6:
            operand = _bracketed(self.args[0], _PRIMARY)
            # A sign right before a number would be part of it.
            return f"{sign}({operand})" if operand[0] in "+-.0123456789" else f"{sign}{operand}"
        if self.name in ("IN", "NOT IN"):
            return f"{_bracketed(self.args[0], own + 1)} {sign} ({', '.join(map(str, self.args[1:]))})"
        # A comparison takes no comparison as operand; the others associate to the left.
        first = _bracketed(self.args[0], own + (own == 3))
        return f" {sign} ".join([first, *(_bracketed(arg, own + 1) for arg in self.args[1:])])


@dataclass(frozen=True, slots=True)
class Exists:
    """Whether the logical tree below has a solution that is compatible with the current one; or has none."""

    node: Any
    """The logical tree of the group: a `Node`; its module imports this one."""
    negated: bool = False
    line: int = field(default=0, compare=False)
    column: int = field(default=0, compare=False)

    def __str__(self) -> str:
        return "NOT EXISTS { ... }" if self.negated else "EXISTS { ... }"


@dataclass(frozen=True, slots=True)
class WindowEnd:
    """The end of the window that is seen at the present instant; only `Extend` has it as its expression."""

    window: Range

    def __str__(self) -> str:
        return f"end of {self.window}"


Expression = Variable | Constant | Call | Exists | WindowEnd


def walk(expression: Expression) -> Iterator[Expression]:
    """An expression and all expressions below it, from the top down, in the order in which they are written."""
    pending = [expression]
    while pending:
        found = pending.pop()
        yield found
        if isinstance(found, Call):
            pending.extend(reversed(found.args))


def variables_of(expression: Expression) -> tuple[str, ...]:
    """Names of the variables in order, each one once; not those inside EXISTS.

    >>> variables_of(Call("+", (Variable("b"), Variable("a"), Variable("b"))))
    ('b', 'a')
    """
    return tuple(dict.fromkeys(found.name for found in walk(expression) if isinstance(found, Variable)))


def exists_in(expression: Expression) -> tuple[Exists, ...]:
    """Every EXISTS and NOT EXISTS of an expression, in order."""
    return tuple(found for found in walk(expression) if isinstance(found, Exists))


def is_volatile(expression: Expression) -> bool:
    """Whether the value depends on more than the terms of its variables: then equal calls are not one call."""
    return any(isinstance(found, Call) and found.name in VOLATILE for found in walk(expression))


def substitute(expression: Expression, values: Mapping[str, Expression]) -> Expression:
    """The expression with variables replaced, all at once; EXISTS stays as it is.

    `BOUND` of an expression holds where the expression has a value, so it can be substituted too.

    >>> print(substitute(Call("+", (Variable("a"), Variable("b"))), {"a": Variable("b"), "b": Variable("a")}))
    ?b + ?a
    """
    if isinstance(expression, Variable):
        return values.get(expression.name, expression)
    if not isinstance(expression, Call):
        return expression
    args = tuple(substitute(arg, values) for arg in expression.args)
    unchanged = all(new is old for new, old in zip(args, expression.args, strict=True))
    return expression if unchanged else replace(expression, args=args)


def depth_of(expression: Expression) -> int:
    """How many calls are nested at most."""
    deepest, pending = 0, [(expression, 0)]
    while pending:
        found, depth = pending.pop()
        deepest = max(deepest, depth)
        if isinstance(found, Call):
            pending.extend((arg, depth + 1) for arg in found.args)
    return deepest


def _bracketed(expression: Expression, least: int) -> str:
    own = _PRECEDENCE.get(expression.name, _PRIMARY) if isinstance(expression, Call) else _PRIMARY
    return str(expression) if own >= least else f"({expression})"
