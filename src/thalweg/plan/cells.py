"""The triples of a cell: which of some columns belong to a shard, by the terms that spread them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from thalweg.algebra.windows import Part
from thalweg.rdf.arena import Arena

Ints = NDArray[np.int64]
Known = tuple[Sequence[Sequence[int | None]], Sequence[tuple[int, int, int]]]
"""A part whose constants are ids of an arena; 0 is a term that it does not have."""


@dataclass(frozen=True)
class Cell:
    """The triples of a shard, as texts say them: good for every arena."""

    parts: tuple[Part, ...]

    def __call__(self, arena: Arena, s: Ints, p: Ints, o: Ints) -> NDArray[np.bool_]:
        """Which triples of an arena are of the shard."""
        known = [
            (
                [
                    [None if term is None else arena.find(term.encode()) for term in pattern]
                    for pattern in part.patterns
                ],
                part.coordinates,
            )
            for part in self.parts
        ]
        return in_parts(known, arena, s, p, o)


def in_parts(parts: Iterable[Known], arena: Arena, s: Ints, p: Ints, o: Ints) -> NDArray[np.bool_]:
    """Which triples have the constants of one of some parts, and terms that are of it."""
    columns = (s, p, o)
    found = np.zeros(len(s), np.bool_)
    for patterns, coordinates in parts:
        wanted = np.zeros(len(s), np.bool_)
        for pattern in patterns:
            fits = np.ones(len(s), np.bool_)
            for term, column in zip(pattern, columns, strict=True):
                if term is not None:
                    fits &= column == term
            wanted |= fits
        for place, share, coordinate in coordinates:
            wanted &= spread(arena.keys(columns[place])) % share == coordinate
        found |= wanted
    return found


def spread(keys: Ints) -> Ints:
    """Numbers by which terms are spread over the coordinates of a dimension, of what `Arena.keys` gives."""
    # High bits: the low ones choose places in hash tables, which would be left empty by a shard that has only some.
    return (keys >> 33) & 0x3FFFFFFF
