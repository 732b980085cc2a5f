"""Delta plans: what is probed, and in which order, when a triple fits a pattern.

Which variables are bound is decided by which patterns have been matched. A plan is therefore a graph: a node is
a set of matched patterns, a step from it probes one more pattern by the index that fits. A node lists its
steps best first; the kernel takes the first, and looks at the others where the first has many candidates.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from thalweg.algebra.query import Query
from thalweg.algebra.terms import Const, Pattern, Var
from thalweg.kernels.store import ALL, PO, SP, SPO, O, P, S

INDEX_NAMES = {SPO: "spo", SP: "sp", PO: "po", P: "p", S: "s", O: "o", ALL: "scan"}

# By which index a pattern is probed, given which of (s, p, o) are known. A known pair (s, o) is found
# through s.
_INDEX = {
    (True, True, True): SPO,
    (True, True, False): SP,
    (True, False, True): S,
    (False, True, True): PO,
    (True, False, False): S,
    (False, False, True): O,
    (False, True, False): P,
    (False, False, False): ALL,
}
_KEY = {
    SPO: (0, 1, 2),
    SP: (0, 1),
    PO: (1, 2),
    P: (1,),
    S: (0,),
    O: (2,),
    ALL: (),
}  # the places of an index's key
# Rows that a probe is expected to find where nothing has been measured: fewer through a subject than through an
# object, and fewest where everything is known.
_GUESS = {SPO: 0.5, SP: 2.0, PO: 8.0, S: 16.0, O: 32.0, P: 1e4, ALL: 1e6}

_FILTER = 0.25  # of the rows that bind a parameter, those whose value is wanted

# Up to so many patterns all orders can be laid out (2^n nodes); above, one order for each start.
_FREE_PATTERNS = 7

Patterns = Mapping[int, Pattern] | Sequence[Pattern]
Fanout = Mapping[tuple[int, int], float]  # (pattern, index) -> rows that a probe has found


@dataclass(frozen=True, slots=True)
class PlanStep:
    """One more pattern: the index by which its candidate rows are found, and the node it leads to."""

    pattern: int
    index: int
    node: frozenset[int]


@dataclass(frozen=True)
class PlanGraph:
    """The plans of one connected component: the steps of each set of matched patterns, best first."""

    patterns: tuple[int, ...]
    nodes: dict[frozenset[int], tuple[PlanStep, ...]] = field(default_factory=dict)

    def order(self, start: int) -> list[PlanStep]:
        """The steps that are taken first, from a start on."""
        at = frozenset((start,))
        steps = []
        while self.nodes[at]:
            steps.append(self.nodes[at][0])
            at = steps[-1].node
        return steps


def components(query: Query, numbers: Sequence[int]) -> list[tuple[int, ...]]:
    """Some patterns of a query in connected parts: two patterns belong together if they share a variable.

    A pattern without variables is a part of its own. Parts are matched apart and combined by a product.
    """
    parts: list[tuple[set[str], list[int]]] = []
    for number in numbers:
        variables = set(query.patterns[number].variables)
        members = [number]
        for part in [part for part in parts if part[0] & variables]:
            parts.remove(part)
            variables |= part[0]
            members = part[1] + members
        parts.append((variables, members))
    return sorted(tuple(sorted(members)) for _, members in parts)


def plan_component(
    patterns: Patterns,
    part: Sequence[int],
    fanout: Fanout | None = None,
    *,
    free: bool = False,
    parameters: Collection[str] = (),
) -> PlanGraph:
    """Lays out the plans of one component; `fanout` has the measured rows of probes.

    A `free` plan has every order in it, for data with hubs; it needs more indexes than one order for each start.
    `parameters` are variables that take certain values only: to bind one is to filter.
    """
    graph = PlanGraph(tuple(part))
    free = free and len(part) <= _FREE_PATTERNS
    waiting = [frozenset((start,)) for start in part]
    while waiting:
        node = waiting.pop()
        if node in graph.nodes:
            continue
        bound = {name for number in node for name in patterns[number].variables}
        left = [number for number in part if number not in node]
        # A pattern that shares nothing with the bound ones yet is the best next one only beside a hub: where few rows
        # fit it at all, and each can be checked against the hub.
        filters = set(parameters) - bound
        ranked = sorted(left, key=lambda k: _rank(patterns[k], k, bound, fanout or {}, filters))
        steps = [
            PlanStep(number, index_for(patterns[number], bound), node | {number})
            for number in (ranked if free else ranked[:1])
        ]
        steps = [step for step in steps if not any(_within(patterns, other, step) for other in steps)]
        graph.nodes[node] = tuple(steps)
        waiting += [step.node for step in steps]
    return graph


def _within(patterns: Patterns, step: PlanStep, other: PlanStep) -> bool:
    """Whether the rows that a step finds are some of those that another finds, which therefore never has fewer.

    To count the rows of such another way cost more, next to a hub, than walking the better one.
    """
    own, wider = patterns[step.pattern], patterns[other.pattern]
    return (
        own.source == wider.source
        and set(_KEY[other.index]) < set(_KEY[step.index])
        and all(own.terms[place] == wider.terms[place] for place in _KEY[other.index])
    )


def index_for(pattern: Pattern, bound: set[str]) -> int:
    """The index by which a pattern is probed when these variables are bound."""
    s, p, o = (isinstance(term, Const) or term.name in bound for term in pattern.terms)
    return _INDEX[s, p, o]


def _rank(
    pattern: Pattern, number: int, bound: set[str], fanout: Fanout, filters: set[str]
) -> tuple[bool, float, int, int]:
    index = index_for(pattern, bound)
    constants = sum(not isinstance(term, Var) for term in pattern.terms)
    apart = not bound.intersection(pattern.variables)
    found = fanout.get((number, index), _GUESS[index])
    if filters.intersection(pattern.variables):
        found *= _FILTER
    return (apart, found, -constants, number)
