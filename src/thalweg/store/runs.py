"""Sorted triples of one graph: found by binary search, switched off by a mask, and merged as runs grow."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from thalweg.kernels import triples as kernel
from thalweg.rdf.arena import Ids
from thalweg.store.facts import Mask

Places = NDArray[np.int64]
Order = NDArray[np.int32]
Want = int | Ids | None
"""What a place of a triple may be: one id, one of some ascending ids, or anything."""

S, P, O = range(3)  # noqa: E741


class Run:
    """Triples as columns of ids, each triple once, in the order of predicate, subject and object.

    Columns never change; `alive` says which triples are there. The orders by subject and by object are made when they
    are first needed, unless they are given.
    """

    __slots__ = ("_by_o", "_by_s", "alive", "columns")

    def __init__(self, s: Ids, p: Ids, o: Ids, by_s: Order | None = None, by_o: Order | None = None) -> None:
        self.columns = s, p, o
        self._by_s, self._by_o = by_s, by_o
        self.alive: Mask | None = None
        """None: all of them."""

    @classmethod
    def of(cls, s: Ids, p: Ids, o: Ids) -> Run:
        """The run of triples in any order, which may repeat."""
        order = np.lexsort((o, s, p))
        return cls.distinct(s[order], p[order], o[order])

    @classmethod
    def distinct(cls, s: Ids, p: Ids, o: Ids) -> Run:
        """The run of sorted triples, which may repeat."""
        new = np.ones(len(s), np.bool_)
        new[1:] = (s[1:] != s[:-1]) | (o[1:] != o[:-1]) | (p[1:] != p[:-1])
        return cls(s, p, o) if new.all() else cls(s[new], p[new], o[new])

    @classmethod
    def merged(cls, runs: Sequence[Run]) -> Run:
        """One run of what is there in several."""
        made = runs[0].there()
        for run in runs[1:]:
            other = run.there()
            size = len(made[P]) + len(other[P])
            s, p, o = (np.empty(size, np.int64) for _ in range(3))
            count = kernel.merge(*made, *other, s, p, o)
            made = s[:count], p[:count], o[:count]
        return cls(*made)

    def __len__(self) -> int:
        return len(self.columns[P])

    @property
    def size(self) -> int:
        """How many of its triples are there."""
        return len(self) if self.alive is None else int(np.count_nonzero(self.alive))

    @property
    def by_s(self) -> Order:
        """The places in the order of subjects."""
        if self._by_s is None:
            self._by_s = np.argsort(self.columns[S], kind="stable").astype(np.int32)
        return self._by_s

    @property
    def by_o(self) -> Order:
        """The places in the order of objects."""
        if self._by_o is None:
            self._by_o = np.argsort(self.columns[O], kind="stable").astype(np.int32)
        return self._by_o

    def there(self) -> tuple[Ids, Ids, Ids]:
        """The columns of the triples that are there."""
        if self.alive is None:
            return self.columns
        s, p, o = (column[self.alive] for column in self.columns)
        return s, p, o

    def locate(self, s: Ids, p: Ids, o: Ids) -> Places:
        """The place of each of some triples, whether it is there or off; -1 where the run does not have it.

        Triples in the order of the run are found quickest.
        """
        places = np.empty(len(p), np.int64)
        kernel.locate(*self.columns, *map(np.ascontiguousarray, (s, p, o)), places)
        return places

    def switch(self, places: Places, on: Mask) -> None:
        """Say of triples whether they are there."""
        if self.alive is None:
            if on.all():
                return
            self.alive = np.ones(len(self), np.bool_)
        self.alive[places] = on

    def select(self, want: Sequence[Want]) -> Places | slice:
        """The places of the triples that are there and are as wanted; a slice where that is all of a range."""
        ranges = self._ranges(want)
        if ranges is None:
            found: Places | slice = slice(0, len(self))
            checked: tuple[int, ...] = ()
        else:
            found, checked = ranges
        for place, one in enumerate(want):
            if one is None or place in checked:
                continue
            column = self.columns[place][found]
            fits = column == one if isinstance(one, int) else _among(column, one)
            found = _places(found)[fits]
        if self.alive is not None:
            fits = self.alive[found]
            if not fits.all():
                found = _places(found)[fits]
        return found

    def count(self, want: Sequence[Want]) -> int:
        """How many triples there are at most that are as wanted."""
        return min((size for size, _, _ in self._options(want)), default=len(self))

    def _options(self, want: Sequence[Want]) -> list[tuple[int, tuple[int, ...], tuple[Ids, Ids]]]:
        """Ways to find triples by binary search: how many are found, which places are checked then, and the ranges.

        Checked places are (P,), (P, S), (S,) or (O,).
        """
        s, p, o = want
        found: list[tuple[int, tuple[int, ...], tuple[Ids, Ids]]] = []
        if p is not None:
            low, high = _bounds(self.columns[P], p)
            checked: tuple[int, ...] = (P,)
            if s is not None and isinstance(p, int):
                start, end = int(low[0]), int(high[0])
                low, high = (side + start for side in _bounds(self.columns[S][start:end], s))
                checked = (P, S)
            found.append((_total(low, high), checked, (low, high)))
        if s is not None and not isinstance(p, int):
            ranges = _bounds(self.columns[S], s, self.by_s)
            found.append((_total(*ranges), (S,), ranges))
        if o is not None and not (found and found[-1][0] <= _FEW):
            ranges = _bounds(self.columns[O], o, self.by_o)
            found.append((_total(*ranges), (O,), ranges))
        return found

    def _ranges(self, want: Sequence[Want]) -> tuple[Places | slice, tuple[int, ...]] | None:
        options = self._options(want)
        if not options:
            return None
        _, checked, (low, high) = min(options, key=lambda option: option[0])
        if P in checked and len(low) == 1:
            return slice(int(low[0]), int(high[0])), checked
        places = _expanded(low, high)
        if checked == (S,):
            return self.by_s[places].astype(np.int64), checked
        if checked == (O,):
            return self.by_o[places].astype(np.int64), checked
        return places, checked


_FEW = 16
"""So many triples are looked through rather than found by another order."""


def _places(found: Places | slice) -> Places:
    return np.arange(found.start, found.stop) if isinstance(found, slice) else found


def _bounds(column: Ids, want: int | Ids, order: Order | None = None) -> tuple[Ids, Ids]:
    """Where the range of each wanted id begins and ends in an ascending column, or in the given order of it."""
    wanted = np.array([want]) if isinstance(want, int) else want
    return (
        np.searchsorted(column, wanted, "left", sorter=order),
        np.searchsorted(column, wanted, "right", sorter=order),
    )


def _total(low: Ids, high: Ids) -> int:
    return int((high - low).sum())


def _expanded(low: Ids, high: Ids) -> Places:
    """All numbers of some ranges.

    >>> _expanded(np.array([0, 5, 9]), np.array([2, 5, 11])).tolist()
    [0, 1, 9, 10]
    """
    sizes = high - low
    starts = np.repeat(low - (np.cumsum(sizes) - sizes), sizes)
    return starts + np.arange(len(starts))


def _among(column: Ids, wanted: Ids) -> Mask:
    """Which cells are among ascending ids."""
    if not len(wanted):
        return np.zeros(len(column), np.bool_)
    place = np.minimum(np.searchsorted(wanted, column), len(wanted) - 1)
    return wanted[place] == column
