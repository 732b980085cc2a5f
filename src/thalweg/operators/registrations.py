"""When the queries of a streamset were registered: before the first row, or in mid-stream."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from thalweg.kernels.times import NO_TIME
from thalweg.operators.state import State
from thalweg.plan.shapes import Unit

Ints = NDArray[np.int64]
_NONE = np.empty(0, np.int64)


class Registrations:
    """The epochs and generations of queries, by their numbers in the streamset.

    Queries between which rows came have different epochs. Generations are the same thing, but begin with 0 again
    when all rows that live came after the last registration.
    """

    def __init__(self) -> None:
        self.epochs: list[int] = []
        self.generations: list[int] = []
        self.generation = 0
        """The latest one: that of the rows that come now."""
        self.overtaken = False
        """Whether rows have come since the last registration."""
        self.overlap_until = NO_TIME
        """The last instant from which rows may live that came before the last registration."""
        self._epoch = 0
        self._of_units = _NONE

    def add(self) -> bool:
        """Notes a registration; whether another generation begins with it."""
        begins, self.overtaken = self.overtaken, False
        self.generation += begins
        self._epoch += begins
        self.epochs.append(self._epoch)
        self.generations.append(self.generation)
        return begins

    def of_units(self, units: Sequence[Unit]) -> Ints:
        """The generations of the units of a program; more units than the last time follow those."""
        more = [self.generations[unit.query] for unit in units[len(self._of_units) :]]
        self._of_units = np.concatenate([self._of_units, np.array(more, np.int64)])
        return self._of_units

    def join(self) -> None:
        """Makes all generations one."""
        self.generation = 0
        self._of_units = _NONE
        self.generations = [0] * len(self.generations)

    def renumber(self, queries: Sequence[int]) -> None:
        """Numbers queries anew: the new number of each is its place among these."""
        self.epochs = [self.epochs[number] for number in queries]
        self.generations = [self.generations[number] for number in queries]
        self._of_units = _NONE

    def state(self) -> State:
        """Everything."""
        return {
            "epoch": self._epoch,
            "epochs": self.epochs,
            "generations": self.generations,
            "generation": self.generation,
            "overtaken": self.overtaken,
            "overlap_until": self.overlap_until,
        }

    def restore(self, state: State) -> None:
        """Goes on from what `state` gave."""
        self._epoch = state["epoch"]
        self.epochs, self.generations = state["epochs"], state["generations"]
        self.generation, self.overtaken = state["generation"], state["overtaken"]
        self.overlap_until = state["overlap_until"]
        self._of_units = _NONE
