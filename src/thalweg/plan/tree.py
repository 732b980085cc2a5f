"""What the compiler asks of nodes of the logical tree: places, rules of co-groups, variables that are used."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from thalweg.algebra import nodes
from thalweg.algebra.expressions import EVENT_GRAPH, EVENT_TIME, variables_of
from thalweg.algebra.nodes import Exists, Extend, Filter, LeftJoin, Minus, Node
from thalweg.algebra.scope import mentioned, scope_of


@dataclass(frozen=True)
class Place:
    """A node of the tree, and the number of the first pattern below it."""

    node: Node
    first: int

    def inputs(self) -> list[Place]:
        """The places of its inputs."""
        found, first = [], self.first
        for below in nodes.children(self.node):
            found.append(Place(below, first))
            first += len(nodes.leaves(below))
        return found


def rule_of(node: Exists) -> str:
    """The rule of a co-group for an EXISTS."""
    if node.mark is not None:
        return "mark not" if node.negated else "mark"
    return "anti" if node.negated else "semi"


def mark_of(node: Node) -> str:
    """The variable that has the answer of an EXISTS."""
    assert isinstance(node, Exists)
    assert node.mark is not None
    return node.mark


def hidden(node: Node) -> set[str]:
    """The variables that a node uses and must not see a value of from outside: they are unbound there, or its own."""
    match node:
        case Filter():
            return set(variables_of(node.condition)) - scope_of(node.input).certain
        case Extend():
            return {node.name, *variables_of(node.expression)} - scope_of(node.input).certain
        case LeftJoin() | Minus() | Exists():
            used: set[str] = set()
            while isinstance(node, LeftJoin | Minus | Exists):
                used |= mentioned(node.right)
                if isinstance(node, LeftJoin) and node.condition is not None:
                    used.update(variables_of(node.condition))
                node = node.left
            return used - scope_of(node).certain
    return set()


def leaks(group: Node, outer: Collection[str]) -> bool:
    """Whether an expression in a group of EXISTS names a variable that only groups beside its own bind.

    Such a variable is unbound there, and would not be where the groups are matched together.
    """
    own = mentioned(group).difference(outer)
    for node in nodes.walk(group):
        match node:
            case Filter():
                used, seen = variables_of(node.condition), scope_of(node.input).possible
            case Extend():
                used, seen = variables_of(node.expression), scope_of(node.input).possible
            case LeftJoin() if node.condition is not None:
                used = variables_of(node.condition)
                seen = (*scope_of(node.left).possible, *scope_of(node.right).possible)
            case _:
                continue
        if own.intersection(used).difference(seen):
            return True
    return False


def used_of_event(root: Node) -> tuple[str, ...]:
    """Which variables of the event the conditions and expressions of a tree use."""
    used: set[str] = set()
    for node in nodes.walk(root):
        match node:
            case Filter():
                used.update(variables_of(node.condition))
            case Extend():
                used.update(variables_of(node.expression))
            case LeftJoin() if node.condition is not None:
                used.update(variables_of(node.condition))
    return tuple(name for name in (EVENT_TIME, EVENT_GRAPH) if name in used)
