"""Rewrite rules of the algebra: pure functions from query to query; their order is data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from thalweg.algebra.nodes import Const, Pattern, Query, Term, Var


def fix_equal_variables(query: Query) -> Query:
    """Put the constant of `FILTER(?v = <iri>)` in the place of ?v, in patterns and template.

    A filter that leaves a variable one value is a constant in disguise, and constants are what readers prune
    by and alpha memories are made of. Sound, because terms are compared, and because every solution binds ?v.
    Two values for one variable leave no solution.
    """
    values: dict[str, Const] = {}
    for equality in query.equalities:
        name, value = equality.variable, equality.value
        if values.setdefault(name, value) != value:
            reason = f"?{name} cannot be {values[name]} and {value} at once"
            return _emptied(query, f"{reason} (line {equality.line}:{equality.column})")
        if name not in query.variables:
            raise ValueError(f"?{name} is in no pattern")
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


def find_impossible_patterns(query: Query) -> Query:
    """Find a pattern that no triple matches: then the query has no solution."""
    for pattern in query.patterns:
        if not pattern.possible:
            reason = f"no triple matches {pattern}: a subject is no literal, and a predicate is an IRI"
            return _emptied(query, f"{reason} (line {pattern.line}:{pattern.column})")
    return query


def _emptied(query: Query, reason: str) -> Query:
    return replace(query, equalities=(), empty=query.empty or reason)


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


NEVER = Pattern(Const.literal(""), Const.iri("urn:thalweg:never"), Const.literal(""))
"""A pattern that no triple matches: its subject is a literal."""


def replace_patterns_of_empty_queries(query: Query) -> Query:
    """Give an empty query one pattern for each source that no triple matches: readers then keep nothing for it.

    Its variables stay, as fixed ones: the answer has the same columns, and no rows.
    """
    if query.empty is None:
        return query
    fixed = dict(query.fixed) | {name: Const.literal("") for name in query.variables}
    return replace(
        query,
        patterns=tuple(replace(NEVER, source=number) for number in range(len(query.sources))),
        template=None if query.template is None else (),
        fixed=tuple(fixed.items()),
        equalities=(),
    )


RULES: tuple[Callable[[Query], Query], ...] = (
    fix_equal_variables,
    find_impossible_patterns,
    drop_repeated_patterns,
    drop_impossible_triples,
    replace_patterns_of_empty_queries,
)


def rewrite(query: Query) -> Query:
    """The query after all rules, in their order."""
    for rule in RULES:
        query = rule(query)
    return query
