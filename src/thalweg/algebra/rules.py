"""Rewrite rules of the algebra: pure functions from query to query; their order is data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from thalweg.algebra.nodes import Const, Pattern, Query, Term, Var


def fix_equal_variables(query: Query) -> Query:
    """Put the constant of `FILTER(?v = <iri>)` in the place of ?v.

    A filter that leaves a variable one value is a constant in disguise, and constants are what readers prune
    by and alpha memories are made of. Sound, because terms are compared, and because every solution binds ?v.
    """
    values: dict[str, Const] = {}
    for equality in query.equalities:
        if values.setdefault(equality.variable, equality.value) != equality.value:
            raise ValueError(f"?{equality.variable} has two values")
        if equality.variable not in query.variables:
            raise ValueError(f"?{equality.variable} is in no pattern")
    if not values:
        return query

    def put(term: Term) -> Term:
        return values.get(term.name, term) if isinstance(term, Var) else term

    return replace(
        query,
        patterns=tuple(replace(p, s=put(p.s), p=put(p.p), o=put(p.o)) for p in query.patterns),
        fixed=(*query.fixed, *values.items()),
        equalities=(),
    )


def drop_repeated_patterns(query: Query) -> Query:
    """Keep one of several equal patterns of a source: all of them match the same triple, always."""
    kept: dict[tuple[object, int], Pattern] = {}
    for pattern in query.patterns:
        kept.setdefault((pattern.terms, pattern.source), pattern)
    return query if len(kept) == len(query.patterns) else replace(query, patterns=tuple(kept.values()))


RULES: tuple[Callable[[Query], Query], ...] = (fix_equal_variables, drop_repeated_patterns)


def rewrite(query: Query) -> Query:
    """The query after all rules, in their order."""
    for rule in RULES:
        query = rule(query)
    return query
