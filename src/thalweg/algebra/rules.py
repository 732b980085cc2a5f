"""Rewrite rules of the algebra: pure functions from tree to tree; their order is data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from thalweg.algebra.constant_rules import (
    fix_equal_variables,
    fix_single_values,
    make_values_of_constants,
    split_disjunctions,
    spread_fixed_values,
)
from thalweg.algebra.empty_rules import (
    find_impossible_patterns,
    propagate_empty,
    replace_patterns_of_empty_queries,
)
from thalweg.algebra.filter_rules import (
    find_unbound_conditions,
    join_what_must_be_bound,
    merge_basic_patterns,
    push_filters,
    split_conditions,
)
from thalweg.algebra.nodes import (
    Bgp,
    Construct,
    Fixed,
    Node,
    spine,
    transform,
)
from thalweg.algebra.path_rules import start_at_known_nodes
from thalweg.algebra.query import Query
from thalweg.algebra.scope import scope_of
from thalweg.algebra.terms import Pattern, Var


def drop_repeated_patterns(root: Node) -> Node:
    """Keep one of several equal patterns of a source: all of them match the same triple, always."""

    def change(node: Node) -> Node:
        if not isinstance(node, Bgp):
            return node
        kept: dict[tuple[object, int], Pattern] = {}
        for pattern in node.patterns:
            kept.setdefault((pattern.terms, pattern.source), pattern)
        return node if len(kept) == len(node.patterns) else Bgp(tuple(kept.values()))

    return transform(root, change)


def drop_impossible_triples(root: Node) -> Node:
    """Keep, once, each triple of a template that some solution can give.

    None gives a triple whose variable nothing binds, whose subject is a literal or whose predicate is no IRI.
    """
    if not isinstance(root, Construct):
        return root
    bound = set(scope_of(root.input).possible)
    fixed = next((node for node in spine(root) if isinstance(node, Fixed)), None)
    bound.update(name for name, _ in (fixed.values if fixed is not None else ()))

    def possible(triple: Pattern) -> bool:
        shown = (term for term in triple.terms if isinstance(term, Var) and not term.anonymous)
        return (
            all(term.name in bound for term in shown)
            and (isinstance(triple.s, Var) or triple.s.is_iri)
            and (not triple.p.anonymous if isinstance(triple.p, Var) else triple.p.is_iri)
        )

    kept: dict[object, Pattern] = {}
    for triple in filter(possible, root.template):
        kept.setdefault(triple.terms, triple)
    made = (Var(name) for triple in root.template for name in triple.variables)
    unbound = dict.fromkeys(term.name for term in made if not term.anonymous and term.name not in bound)
    return replace(root, template=tuple(kept.values()), unbound=(*root.unbound, *unbound))


RULES: tuple[Callable[[Node], Node], ...] = (
    split_conditions,
    find_unbound_conditions,
    join_what_must_be_bound,
    merge_basic_patterns,
    start_at_known_nodes,
    push_filters,
    make_values_of_constants,
    fix_single_values,
    split_disjunctions,
    fix_equal_variables,
    spread_fixed_values,
    find_impossible_patterns,
    propagate_empty,
    drop_repeated_patterns,
    drop_impossible_triples,
    replace_patterns_of_empty_queries,
)


def rewrite(query: Query) -> Query:
    """The query after all rules, in their order."""
    root = query.root
    for rule in RULES:
        root = rule(root)
    return query if root is query.root else replace(query, root=root)
