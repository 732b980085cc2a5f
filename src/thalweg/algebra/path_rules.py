"""Rules for paths of length zero: a node that a pattern binds needs no list of all nodes."""

from __future__ import annotations

from thalweg.algebra.expressions import Call, Variable
from thalweg.algebra.nodes import (
    Bgp,
    Closure,
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
    ZeroLength,
    leaves,
)
from thalweg.algebra.scope import scope_of, transform_groups
from thalweg.algebra.terms import Var

_MOST_PATTERNS = 8
"""Patterns beside a path that are matched twice: with the path, and for its length zero."""


def start_at_known_nodes(root: Node) -> Node:
    """Let a path that may have length zero, where a pattern of the same graph binds an end, begin at what is bound.

    `{ ?x a :Person . ?x :knows* ?y }` is the union of `{ ?x a :Person . ?x :knows+ ?y }` with different ends, and of
    `{ ?x a :Person }` with ?x for ?y. Readers then keep the predicates of the pattern and of the path alone.
    """

    def change(node: Node, outer: frozenset[str]) -> Node:
        if not isinstance(node, Join):
            return node
        for known, path in ((node.left, node.right), (node.right, node.left)):
            # A variable of an outer group is a term inside EXISTS, which may be no node of the graph.
            if len(leaves(known)) > _MOST_PATTERNS or not outer.isdisjoint(scope_of(path).possible):
                continue
            made = _begun(known, path)
            if made is not None:
                return made
        return node

    return transform_groups(root, change)


def _begun(known: Node, path: Node) -> Node | None:
    """The join of a node with a path that may have length zero; None where the path needs all nodes."""
    zero = _zero_length(path)
    if zero is None:
        return None
    assert isinstance(path, Union)
    source = leaves(zero)[0].source
    bound = scope_of(known)
    nodes = _nodes_of(known, source)
    first, second = zero.subject, zero.object
    if first not in nodes:
        first, second = second, first
    if first not in nodes or (second in bound.possible and second not in bound.certain):
        return None
    if second in bound.certain:
        line, column = leaves(zero)[0].line, leaves(zero)[0].column
        same: Node = Filter(known, Call("SAMETERM", (Variable(first), Variable(second))), line, column)
    else:
        same = Extend(known, second, Variable(first))
    others = tuple(one for one in path.inputs if one is not zero)
    return Union((*(Join(known, one) for one in others), same))


def _zero_length(node: Node) -> ZeroLength | None:
    """The part of a path with `*` that has length zero."""
    if isinstance(node, Union) and len(node.inputs) == 2:
        closure, zero = node.inputs
        if isinstance(closure, Closure) and closure.proper and isinstance(zero, ZeroLength):
            return zero if zero.subject != zero.object else None
    return None


def _nodes_of(node: Node, source: int) -> set[str]:
    """The variables that every solution of a node binds to a subject or object of a source."""
    match node:
        case Bgp():
            ends = (term for p in node.patterns if p.source == source for term in (p.s, p.o))
            return {term.name for term in ends if isinstance(term, Var)}
        case Closure():
            return set(node.variables) if {p.source for p in leaves(node)} == {source} else set()
        case Join():
            return _nodes_of(node.left, source) | _nodes_of(node.right, source)
        case LeftJoin() | Minus() | Exists():
            return _nodes_of(node.left, source)
        case Filter() | Distinct() | Extend():
            return _nodes_of(node.input, source)
        case Project():
            return _nodes_of(node.input, source).intersection(node.names)
        case Union():
            return set.intersection(*(_nodes_of(one, source) for one in node.inputs))
    return set()
