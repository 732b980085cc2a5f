"""Rewrite rules of the algebra: pure functions from tree to tree; their order is data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from thalweg.algebra.nodes import (
    Bgp,
    Construct,
    Empty,
    Extend,
    Filter,
    Node,
    find,
    leaves,
    transform,
)
from thalweg.algebra.query import Query
from thalweg.algebra.scope import scope_of
from thalweg.algebra.terms import Const, Pattern, Term, Var


def fix_equal_variables(root: Node) -> Node:
    """Put the constant of `FILTER(?v = <iri>)` in the place of ?v, in patterns and template.

    A filter that leaves a variable one value is a constant in disguise, and constants are what readers prune
    by and alpha memories are made of. Sound, because terms are compared, and because every solution binds ?v.
    Two values for one variable leave no solution.
    """
    condition = find(root, Filter)
    if condition is None:
        return root
    bound = scope_of(condition.input).certain
    values: dict[str, Const] = {}
    for equality in condition.conditions:
        name, value = equality.variable, equality.value
        if values.setdefault(name, value) != value:
            reason = f"?{name} cannot be {values[name]} and {value} at once"
            return _emptied(root, f"{reason} (line {equality.line}:{equality.column})")
        if name not in bound:
            raise ValueError(f"?{name} is in no pattern")

    def put(term: Term) -> Term:
        return values.get(term.name, term) if isinstance(term, Var) else term

    def put_all(patterns: tuple[Pattern, ...]) -> tuple[Pattern, ...]:
        return tuple(replace(p, s=put(p.s), p=put(p.p), o=put(p.o)) for p in patterns)

    def change(node: Node) -> Node:
        match node:
            case Bgp():
                return Bgp(put_all(node.patterns))
            case Filter():
                return Extend(node.input, tuple(values.items()))
            case Construct():
                return replace(node, template=put_all(node.template))
        return node

    return transform(root, change)


def find_impossible_patterns(root: Node) -> Node:
    """Find a pattern that no triple matches: then the query has no solution."""
    for pattern in leaves(root):
        if not pattern.possible:
            reason = f"no triple matches {pattern}: a subject is no literal, and a predicate is an IRI"
            return _emptied(root, f"{reason} (line {pattern.line}:{pattern.column})")
    return root


def _emptied(root: Node, reason: str) -> Node:
    """The tree over a basic graph pattern without solutions; its conditions decide nothing any more."""
    known = find(root, Empty)

    def change(node: Node) -> Node:
        match node:
            case Bgp():
                return Empty(node, reason if known is None else known.reason)
            case Filter() | Empty():
                return node.input
        return node

    return transform(root, change)


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

    None gives a triple whose variable no pattern binds, whose subject is a literal or whose predicate is no IRI.
    """
    if not isinstance(root, Construct):
        return root
    extend = find(root, Extend)
    fixed = [name for name, _ in extend.values] if extend is not None else []
    bound = {*fixed, *(name for pattern in leaves(root) for name in pattern.variables)}

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


NEVER = Pattern(Const.literal(""), Const.iri("urn:thalweg:never"), Const.literal(""))
"""A pattern that no triple matches: its subject is a literal."""


def replace_patterns_of_empty_queries(root: Node) -> Node:
    """Give an empty query one pattern for each source that no triple matches: readers then keep nothing for it.

    Its variables stay, as fixed ones: the answer has the same columns, and no rows.
    """
    empty = find(root, Empty)
    if empty is None:
        return root
    extend = find(root, Extend)
    fixed = dict(extend.values if extend is not None else ())
    fixed |= {name: Const.literal("") for pattern in leaves(root) for name in pattern.variables}
    sources = sorted({pattern.source for pattern in leaves(root)})

    def change(node: Node) -> Node:
        match node:
            case Bgp():
                return Bgp(tuple(replace(NEVER, source=number) for number in sources))
            case Extend():
                return node.input
            case Empty():
                return Extend(node, tuple(fixed.items())) if fixed else node
            case Construct():
                return replace(node, template=())
        return node

    return transform(root, change)


RULES: tuple[Callable[[Node], Node], ...] = (
    fix_equal_variables,
    find_impossible_patterns,
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
