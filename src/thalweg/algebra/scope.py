"""Scopes: which variables a node of the tree binds in every solution, and which in some."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from thalweg.algebra.expressions import Variable, WindowEnd, variables_of
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
    OrderBy,
    Project,
    Slice,
    Union,
    Values,
    ZeroLength,
    children,
    with_children,
)

TRIPLE = ("subject", "predicate", "object")
"""The columns of an answer that is a graph."""


@dataclass(frozen=True, slots=True)
class Scope:
    """The variables of a node, in the order in which they appear: bound in some solution, and in every one."""

    possible: tuple[str, ...]
    certain: frozenset[str]

    def __post_init__(self) -> None:
        if not self.certain.issubset(self.possible):
            raise ValueError("what is bound in every solution is bound in some")


def scope_of(node: Node) -> Scope:
    """The scope of a node.

    >>> from thalweg.algebra.terms import Const, Pattern, Var
    >>> bgp = Bgp((Pattern(Var("x"), Const.iri("http://ex/p"), Var("y")),))
    >>> scope_of(Project(bgp, ("y", "nowhere"))).possible
    ('y',)
    >>> scope_of(LeftJoin(Bgp(), bgp)).certain
    frozenset()
    """
    match node:
        case Bgp():
            names = tuple(dict.fromkeys(name for pattern in node.patterns for name in pattern.variables))
            return Scope(names, frozenset(names))
        case Values():
            columns = list(zip(*node.rows, strict=True)) if node.rows else [()] * len(node.names)
            listed = list(zip(node.names, columns, strict=True))
            possible = tuple(name for name, values in listed if any(value is not None for value in values))
            certain = {name for name, values in listed if all(value is not None for value in values)}
            return Scope(possible, frozenset(certain.intersection(possible)))
        case Filter() | Distinct() | Empty() | OrderBy() | Slice():
            return scope_of(node.input)
        case Minus() | Exists():
            left = scope_of(node.left)
            if isinstance(node, Exists) and node.mark is not None:
                return Scope((*left.possible, node.mark), left.certain | {node.mark})
            return left
        case Join() | LeftJoin():
            left, right = scope_of(node.left), scope_of(node.right)
            both = left.certain | right.certain if isinstance(node, Join) else left.certain
            return Scope(tuple(dict.fromkeys(left.possible + right.possible)), both)
        case Union():
            scopes = [scope_of(one) for one in node.inputs]
            possible = tuple(dict.fromkeys(name for scope in scopes for name in scope.possible))
            return Scope(possible, frozenset.intersection(*(scope.certain for scope in scopes)))
        case Extend():
            inner = scope_of(node.input)
            # The value of another expression may be an error, which leaves the variable unbound.
            copied = isinstance(node.expression, Variable) and node.expression.name in inner.certain
            certain_too = {node.name} if copied or isinstance(node.expression, WindowEnd) else set()
            return Scope((*inner.possible, node.name), inner.certain.union(certain_too))
        case Fixed():
            inner = scope_of(node.input)
            added = tuple(name for name, _ in node.values)
            return Scope((*inner.possible, *added), inner.certain.union(added))
        case Closure():
            return Scope(node.variables, frozenset(node.variables))
        case ZeroLength():
            ends = tuple(dict.fromkeys((node.subject, node.object)))
            return Scope(ends, frozenset(ends))
        case Project():
            inner = scope_of(node.input)
            names = tuple(name for name in node.names if name in inner.possible)
            return Scope(names, inner.certain.intersection(names))
        case Group():
            inner = scope_of(node.input)
            keys = tuple(name for name in node.keys if name in inner.possible)
            counts = {name for name, one in node.aggregates if one.function == "COUNT"}
            possible = (*keys, *(name for name, _ in node.aggregates))
            return Scope(possible, inner.certain.intersection(keys).union(counts))
        case Ask():
            return Scope((), frozenset())
        case Construct():
            return Scope(TRIPLE, frozenset(TRIPLE))


def mentioned(node: Node) -> set[str]:
    """All variables that a node uses anywhere, apart from those that a sub-SELECT hides."""
    match node:
        case Project() | Closure() | ZeroLength():
            return set(scope_of(node).possible)
        case Values():
            return set(node.names)
        case Bgp():
            return set(scope_of(node).possible)
    found = {name for below in children(node) for name in mentioned(below)}
    match node:
        case Filter():
            found.update(variables_of(node.condition))
        case Extend():
            found.update((node.name, *variables_of(node.expression)))
        case LeftJoin() if node.condition is not None:
            found.update(variables_of(node.condition))
        case Fixed():
            found.update(name for name, _ in node.values)
    return found


def transform_groups(
    node: Node, change: Callable[[Node, frozenset[str]], Node], outer: frozenset[str] = frozenset()
) -> Node:
    """The tree with each node changed, from the bottom up.

    `change` also takes the variables of outer groups that are visible at the node because it is inside EXISTS.
    """
    inputs = [transform_groups(below, change, outer) for below in children(node)[:1]]
    if isinstance(node, Exists):
        inputs.append(transform_groups(node.right, change, outer.union(scope_of(node.left).possible)))
    else:
        inputs += [transform_groups(below, change, outer) for below in children(node)[1:]]
    return change(with_children(node, tuple(inputs)), outer)
