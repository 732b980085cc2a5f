"""Rewrite rules of the algebra: pure functions from query to query; their order is data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from thalweg.algebra.nodes import Const, Pattern, Query, Term, Var


def fix_equal_variables(query: Query) -> Query:
    """Put the constant of `FILTER(?v = <iri>)` in the place of ?v, in patterns and template.

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

    def put_all(patterns: tuple[Pattern, ...]) -> tuple[Pattern, ...]:
        return tuple(replace(p, s=put(p.s), p=put(p.p), o=put(p.o)) for p in patterns)

    return replace(
        query,
        patterns=put_all(query.patterns),
        template=None if query.template is None else put_all(query.template),
        fixed=(*query.fixed, *values.items()),
        equalities=(),
    )


def drop_repeated_patterns(query: Query) -> Query:
    """Keep one of several equal patterns of a source: all of them match the same triple, always."""
    kept: dict[tuple[object, int], Pattern] = {}
    for pattern in query.patterns:
        kept.setdefault((pattern.terms, pattern.source), pattern)
    return query if len(kept) == len(query.patterns) else replace(query, patterns=tuple(kept.values()))


def drop_impossible_triples(query: Query) -> Query:
    """Keep, once, each triple of a template that some solution can give.

    None gives a triple whose variable no pattern binds, whose subject is a literal or whose predicate is no IRI.
    """
    if query.template is None:
        return query
    bound = {*query.variables, *(name for name, _ in query.fixed)}

    def possible(triple: Pattern) -> bool:
        shown = (term for term in triple.terms if isinstance(term, Var) and not term.anonymous)
        return (
            all(term.name in bound for term in shown)
            and (isinstance(triple.s, Var) or triple.s.is_iri)
            and (not triple.p.anonymous if isinstance(triple.p, Var) else triple.p.is_iri)
        )

    kept: dict[object, Pattern] = {}
    for triple in filter(possible, query.template):
        kept.setdefault(triple.terms, triple)
    made = (Var(name) for triple in query.template for name in triple.variables)
    loose = dict.fromkeys(term.name for term in made if not term.anonymous and term.name not in bound)
    return replace(query, template=tuple(kept.values()), loose=(*query.loose, *loose))


RULES: tuple[Callable[[Query], Query], ...] = (
    fix_equal_variables,
    drop_repeated_patterns,
    drop_impossible_triples,
)


def rewrite(query: Query) -> Query:
    """The query after all rules, in their order."""
    for rule in RULES:
        query = rule(query)
    return query
