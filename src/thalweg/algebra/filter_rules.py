"""Rules for filters: where a condition is asked, and what it says about the inputs below it."""

from __future__ import annotations

from dataclasses import replace

from thalweg.algebra.conditions import conjuncts, needed_for_truth
from thalweg.algebra.expressions import is_volatile, variables_of
from thalweg.algebra.nodes import (
    Bgp,
    Distinct,
    Empty,
    Exists,
    Extend,
    Filter,
    Group,
    Join,
    LeftJoin,
    Minus,
    Node,
    OrderBy,
    Project,
    Union,
    transform,
)
from thalweg.algebra.scope import scope_of, transform_groups


def split_conditions(root: Node) -> Node:
    """Make a filter of each part of a conjunction: each goes its own way down."""

    def change(node: Node) -> Node:
        if not isinstance(node, Filter) or len(parts := conjuncts(node.condition)) == 1:
            return node
        below = node.input
        for part in parts:
            below = replace(node, input=below, condition=part)
        return below

    return transform(root, change)


def merge_basic_patterns(root: Node) -> Node:
    """Make one basic graph pattern of several that are joined; conditions on them are asked of all of it.

    A condition sees no more than before: its variables are bound by its own patterns.
    """

    def change(node: Node) -> Node:
        if not isinstance(node, Join):
            return node
        left, asked = conditions_above(node.left)
        right, asked_too = conditions_above(node.right)
        if not isinstance(left, Bgp) or not isinstance(right, Bgp):
            return node
        for one in (*asked, *asked_too):
            inner = left if one in asked else right
            if not scope_of(inner).certain.issuperset(variables_of(one.condition)):
                return node
        merged: Node = Bgp(left.patterns + right.patterns)
        for one in (*reversed(asked), *reversed(asked_too)):
            merged = replace(one, input=merged)
        return merged

    return transform(root, change)


def conditions_above(node: Node) -> tuple[Node, list[Filter]]:
    """A node without the filters above it, and these from the top down."""
    filters: list[Filter] = []
    while isinstance(node, Filter):
        filters.append(node)
        node = node.input
    return node, filters


def find_unbound_conditions(root: Node) -> Node:
    """Find filters that need a variable which nothing binds: to compare it is an error, so that none of them holds."""

    def change(node: Node, outer: frozenset[str]) -> Node:
        if not isinstance(node, Filter):
            return node
        unbound = needed_for_truth(node.condition).difference(scope_of(node.input).possible, outer)
        if not unbound:
            return node
        reason = f"?{min(unbound)} is bound by no pattern of the group of this filter"
        return Empty(node.input, f"{reason} (line {node.line}:{node.column})")

    return transform_groups(root, change)


def join_what_must_be_bound(root: Node) -> Node:
    """Make an OPTIONAL a join where a filter above needs one of its variables: a left solution alone never passes."""

    def change(node: Node, outer: frozenset[str]) -> Node:
        if not isinstance(node, Filter):
            return node
        below = _forced(node.input, needed_for_truth(node.condition) - outer, node)
        return node if below is node.input else replace(node, input=below)

    return transform_groups(root, change)


def _forced(node: Node, needed: frozenset[str], filter: Filter) -> Node:
    """A node of which only the solutions matter that bind some variables."""
    match node:
        case Filter():
            below = _forced(node.input, needed, filter)
            return node if below is node.input else replace(node, input=below)
        case LeftJoin():
            left = _forced(node.left, needed - set(scope_of(node.right).possible), filter)
            if needed.isdisjoint(set(scope_of(node.right).possible).difference(scope_of(node.left).possible)):
                return node if left is node.left else replace(node, left=left)
            joined: Node = Join(left, node.right)
            if node.condition is None:
                return joined
            return Filter(joined, node.condition, filter.line, filter.column)
        case Minus() | Exists():
            left = _forced(node.left, needed, filter)
            return node if left is node.left else replace(node, left=left)
    return node


def push_filters(root: Node) -> Node:
    """Ask a condition as early as all of its variables are bound for good."""

    def change(node: Node) -> Node:
        return _pushed(node) if isinstance(node, Filter) and not is_volatile(node.condition) else node

    return transform(root, change)


def _pushed(node: Filter) -> Node:
    used = set(variables_of(node.condition))
    below = node.input

    def over(input: Node) -> Node:
        return _pushed(replace(node, input=input))

    match below:
        case Filter():
            moved = over(below.input)
            stuck = isinstance(moved, Filter) and moved.condition is node.condition
            return node if stuck else replace(below, input=moved)
        case Union():
            return Union(tuple(over(one) for one in below.inputs))
        case LeftJoin() | Minus() | Exists():
            if used.issubset(scope_of(below.left).certain):
                return replace(below, left=over(below.left))
        case Join():
            if used.issubset(scope_of(below.left).certain):
                return replace(below, left=over(below.left))
            if used.issubset(scope_of(below.right).certain):
                return replace(below, right=over(below.right))
        case Extend():
            if below.name not in used:
                return replace(below, input=over(below.input))
        case Group():
            # All solutions of a group have the same keys.
            if used and used.issubset(below.keys):
                return replace(below, input=over(below.input))
        case Project() | Distinct() | OrderBy():
            # Inside EXISTS the condition may use variables of the outer group, which a sub-SELECT does not see.
            if used.issubset(scope_of(below).possible):
                return replace(below, input=over(below.input))
    return node
