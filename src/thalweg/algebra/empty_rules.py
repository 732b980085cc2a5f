"""Rules for what has no solution over any data."""

from __future__ import annotations

from dataclasses import replace

from thalweg.algebra.nodes import (
    Ask,
    Bgp,
    Closure,
    Construct,
    Distinct,
    Empty,
    Exists,
    Extend,
    Filter,
    Fixed,
    Group,
    Join,
    LeftJoin,
    Minus,
    Node,
    Project,
    Slice,
    Union,
    leaves,
    spine,
    transform,
)
from thalweg.algebra.scope import scope_of
from thalweg.algebra.terms import Const, Pattern


def find_impossible_patterns(root: Node) -> Node:
    """Find basic graph patterns with a pattern that no triple matches: they have no solution."""

    def change(node: Node) -> Node:
        if isinstance(node, Bgp):
            for pattern in node.patterns:
                if not pattern.possible:
                    reason = (
                        f"no triple matches {pattern}: a subject is no literal, and a predicate is an IRI"
                    )
                    return Empty(node, f"{reason} (line {pattern.line}:{pattern.column})")
        return node

    return transform(root, change)


def propagate_empty(root: Node) -> Node:
    """Let what has no solution empty what is joined with it, and vanish where it adds nothing."""

    def change(node: Node) -> Node:
        match node:
            case Join():
                for one in (node.left, node.right):
                    if isinstance(one, Empty):
                        return Empty(node, one.reason)
            case LeftJoin() | Minus() | Exists():
                if isinstance(node.left, Empty):
                    return Empty(node, node.left.reason)
                if isinstance(node.right, Empty) and not isinstance(node, LeftJoin):
                    if isinstance(node, Exists) and node.mark is None and not node.negated:
                        return Empty(node.left, node.right.reason)
                    if isinstance(node, Minus) or node.mark is None:
                        return node.left
            case Union():
                kept = tuple(one for one in node.inputs if not isinstance(one, Empty))
                if not kept:
                    (first, *_) = node.inputs
                    return Empty(node, first.reason if isinstance(first, Empty) else "")
                if len(kept) < len(node.inputs) and scope_of(Union(kept)).possible == scope_of(node).possible:
                    return kept[0] if len(kept) == 1 else Union(kept)
            case Closure():
                if isinstance(node.input, Empty):
                    return Empty(node, node.input.reason)
            case Group() if not node.keys:
                pass  # there is a group, of no solutions
            case Filter() | Extend() | Fixed() | Group():
                if isinstance(node.input, Empty):
                    return Empty(replace(node, input=node.input.input), node.input.reason)
        return node

    return transform(root, change)


NEVER = Pattern(Const.literal(""), Const.iri("urn:thalweg:never"), Const.literal(""))
"""A pattern that no triple matches: its subject is a literal."""


def replace_patterns_of_empty_queries(root: Node) -> Node:
    """Give an empty query one pattern for each source that no triple matches: readers then keep nothing for it.

    Its variables stay, as fixed ones: the answer has the same columns, and no rows.
    """
    above = list(spine(root))
    empty = next((node for node in above if isinstance(node, Empty)), None)
    if empty is None:
        return root
    sources = sorted({pattern.source for pattern in leaves(root)}) or [0]
    fixed = dict.fromkeys(scope_of(empty.input).possible, Const.literal(""))
    for node in above:
        if isinstance(node, Fixed):
            fixed |= dict(node.values)
    never: Node = Empty(Bgp(tuple(replace(NEVER, source=number) for number in sources)), empty.reason)
    result = Fixed(never, tuple(fixed.items())) if fixed else never
    for node in reversed(above[: above.index(empty)]):
        match node:
            case Construct():
                result = replace(node, input=result, template=())
            case Project() | Distinct() | Slice() | Ask():
                result = replace(node, input=result)
    return result
