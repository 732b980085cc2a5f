"""Trails: which events the runs of a sequence consist of, as nodes that runs share.

A node has one event and the node before it. So a run needs one number to have all its events, and the runs that go on
from one share what came before.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from thalweg.operators.state import State

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
ROOT = 0
"""The node of a run without an event."""
_PARENT, _EVENT, _TIME, _STATE, _MARK = range(5)
_FEW = 1 << 10


@dataclass(frozen=True, slots=True)
class Trail:
    """The events of a run, in order: times, ordinals, and the states of the automaton that they led into."""

    times: tuple[int, ...]
    events: tuple[int, ...]
    states: tuple[int, ...]


class Trails:
    """The nodes. Those that no run leads to any more are forgotten now and then."""

    def __init__(self) -> None:
        self._nodes = np.zeros((_FEW, 5), np.int64)
        self._nodes[ROOT, _STATE] = -1
        self._count = 1
        self._kept = 1  # after the last time that some were forgotten

    def __len__(self) -> int:
        return self._count

    def add(self, parents: Ints, events: Ints, times: Ints, state: int) -> Ints:
        """New nodes behind some others; answers their numbers."""
        first, self._count = self._count, self._count + len(parents)
        if self._count > len(self._nodes):
            more = np.zeros((max(self._count, 2 * len(self._nodes)) - len(self._nodes), 5), np.int64)
            self._nodes = np.concatenate([self._nodes, more])
        new = self._nodes[first : self._count]
        new[:, _PARENT], new[:, _EVENT], new[:, _TIME], new[:, _STATE] = parents, events, times, state
        return np.arange(first, self._count)

    def of(self, ends: Ints) -> list[Trail]:
        """The trails that end in some nodes."""
        nodes = self._nodes
        steps: list[Ints] = []
        at = ends
        while len(at) and at.any():
            steps.append(nodes[at])
            at = nodes[at, _PARENT]
        found = []
        for k in range(len(ends)):
            found.append(_trail([step[k] for step in reversed(steps) if step[k, _STATE] >= 0]))
        return found

    def passes(self, ends: Ints, events: Ints) -> Bools:
        """Which of the trails that end in some nodes have one of some events."""
        found = np.zeros(len(ends), np.bool_)
        at = ends
        while len(at) and at.any():
            found |= np.isin(self._nodes[at, _EVENT], events) & (at != ROOT)
            at = self._nodes[at, _PARENT]
        return found

    def parents(self, nodes: Ints) -> Ints:
        """The nodes before some others."""
        return self._nodes[nodes, _PARENT]

    def states(self, nodes: Ints) -> Ints:
        """The states that the events of some nodes led into."""
        return self._nodes[nodes, _STATE]

    def mark(self, nodes: Ints) -> None:
        """Marks some nodes."""
        self._nodes[nodes, _MARK] = 1

    def marked(self, nodes: Ints) -> Bools:
        """Which of some nodes are marked."""
        return self._nodes[nodes, _MARK] != 0

    @property
    def is_full(self) -> bool:
        """Whether it is worth its cost to forget nodes."""
        return self._count > 2 * self._kept + _FEW

    def forget_others(self, ends: list[Ints]) -> Ints:
        """Forgets the nodes that lead to none of some; answers the new number of each node."""
        needed = np.zeros(self._count, np.bool_)
        needed[ROOT] = True
        for at in ends:
            while len(at) and not needed[at].all():
                at = np.unique(at[~needed[at]])
                needed[at] = True
                at = self._nodes[at, _PARENT]
        numbers = np.cumsum(needed) - 1
        kept = self._nodes[: self._count][needed].copy()
        kept[:, _PARENT] = numbers[kept[:, _PARENT]]
        self._nodes, self._count = kept, len(kept)
        self._kept = self._count
        return numbers

    @property
    def nbytes(self) -> int:
        """The memory of the nodes."""
        return self._nodes.nbytes

    def state(self) -> State:
        """All nodes."""
        return {"nodes": self._nodes[: self._count].copy()}

    def restore(self, state: State) -> None:
        """Has the nodes of saved trails."""
        self._nodes = np.array(state["nodes"])
        self._count = self._kept = len(self._nodes)


def _trail(cells: list[Ints]) -> Trail:
    rows = [cell.tolist() for cell in cells]
    return Trail(
        tuple(row[_TIME] for row in rows),
        tuple(row[_EVENT] for row in rows),
        tuple(row[_STATE] for row in rows),
    )
