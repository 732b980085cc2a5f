"""Partial matches that time out: nothing continued them up to the end of the window, and something still could have."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from thalweg.algebra.sequences import AT_ONCE, FOLLOWED, IMMEDIATELY
from thalweg.operators.sequence_events import Instants
from thalweg.operators.sequence_trails import ROOT, Trails
from thalweg.plan.automaton import BEGIN, Automaton

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


class Timeouts:
    """Which runs nothing has continued. Atoms at one instant are one step: all of them continue a run, or none."""

    def __init__(self, automaton: Automaton, trails: Trails, within: int) -> None:
        self._trails, self._within = trails, within
        accepting = {one.state for one in automaton.acceptances}
        self._ways: list[set[str]] = [set() for _ in automaton.states]
        for state in automaton.states:
            for edge in state.edges:
                if edge.parent != BEGIN and edge.op != AT_ONCE:
                    self._ways[edge.parent].add(edge.op)
        self._is_step = np.array([bool(ways) or k in accepting for k, ways in enumerate(self._ways)])
        for number in accepting:
            self._ways[number] = set()  # it is whole

    def note(self, state: int, parents: Ints) -> None:
        """Takes note that runs go on into a state."""
        at = parents
        while self._is_step[state] and len(at := at[at != ROOT]):
            self._trails.mark(at)
            inside = ~self._is_step[self._trails.states(at)]
            at = self._trails.parents(at[inside])

    def ends(
        self, state: int, firsts: Ints, lasts: Ints, nodes: Ints, values: Ints, instants: Instants
    ) -> Bools:
        """Which runs in a state, whose windows have passed, timed out."""
        ways = self._ways[state]
        if not ways:
            return np.zeros(len(firsts), np.bool_)
        found = ~self._trails.marked(nodes)
        if FOLLOWED not in ways:
            # By `,` the next instant had to continue it; around a negation, that one or the one after.
            many = 1 if ways == {IMMEDIATELY} else 2
            found &= instants.before(values, firsts + self._within + 1, many) <= lasts
        return found
