"""The values of variables of an outer group, for what is evaluated for each of them: EXISTS in a filter of OPTIONAL."""

from __future__ import annotations

from dataclasses import replace

from thalweg.algebra.expressions import variables_of
from thalweg.algebra.nodes import (
    Distinct,
    Exists,
    Extend,
    Filter,
    Join,
    LeftJoin,
    Minus,
    Node,
    Project,
    Union,
)
from thalweg.algebra.scope import scope_of


def values_of(node: Node, names: frozenset[str]) -> Node:
    """The set of the values that some variables, which a node always binds, have in its solutions, or a larger one.

    Joined with an optional group, it gives the solutions of the group for each value; a left join keeps those that
    agree with its left side. So more values do no harm, and parts of the left side that remove solutions are left out:
    conditions on variables from outside have no value here.
    """
    return Distinct(Project(_larger(node, names), tuple(sorted(names))))


def _larger(node: Node, names: frozenset[str]) -> Node:
    """A node with at least the solutions of another, as far as these variables go; it always binds them."""
    match node:
        case Filter():
            used = frozenset(variables_of(node.condition))
            if not used.issubset(scope_of(node.input).certain):
                return _larger(node.input, names)
            return replace(node, input=_larger(node.input, names | used))
        case Extend() if names.issubset(scope_of(node.input).certain):
            return _larger(node.input, names)
        case LeftJoin() | Minus() | Exists() if names.issubset(scope_of(node.left).certain):
            return _larger(node.left, names)
        case Join():
            left, right = (_larger(one, names & scope_of(one).certain) for one in (node.left, node.right))
            return Join(left, right)
        case Union():
            return Union(tuple(_larger(one, names) for one in node.inputs))
    return node
