"""Compaction of a session's terms: when the texts go that no row uses any more."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from thalweg.answers import Stats
from thalweg.operators.streamset import Streamset
from thalweg.rdf.arena import Arena

Ints = NDArray[np.int64]
_FEW_BYTES = 1 << 20
_FEW_RUNS = 8  # between two counts of the rows that are held, and one more for each query
_MANY_ROWS = 1 << 12
_BYTES_A_ROW = 16
"""Bytes of new terms for each row that is held, before the next compaction: it has to look at all of these rows. A row
takes several times as much itself."""


class Compaction:
    """Compacts an arena when its terms have doubled and exceed a share of what rows take, or when far fewer rows
    are held than before.

    So memory follows the windows, not the stream.
    """

    def __init__(
        self,
        arena: Arena,
        stats: Stats,
        streamsets: list[Streamset],
        live_ids: Callable[[], Iterable[Ints]],
    ) -> None:
        """`streamsets` is the session's own list; `live_ids` gives all ids that are in use."""
        self.threshold = _FEW_BYTES
        """How many bytes of terms make the next compaction."""
        self._arena = arena
        self._stats = stats
        self._streamsets = streamsets
        self._live_ids = live_ids
        self._most_held = 0  # rows, since the last compaction
        self._live_before = 0  # rows of windows, the most since all rows were last counted
        self._uncounted = 0  # runs since then

    def after_run(self, rows: int) -> None:
        """Compacts if it is worth it, after a run over so many new rows."""
        used = self._arena.used_bytes
        if used > self.threshold:
            self.compact()
        elif used > _FEW_BYTES and self._counts_now(rows):
            self.compact_if_shrunk()

    def _counts_now(self, rows: int) -> bool:
        """Whether it is time to count the rows that are held, which takes a look at each query.

        It is when windows have lost half of their rows, and now and then. While few rows come at a time, the windows
        are looked at now and then, too.
        """
        self._uncounted += 1
        if 0 < rows < _MANY_ROWS and self._uncounted % _FEW_RUNS:
            return False
        live = sum(streamset.live for streamset in self._streamsets)
        queries = sum(map(len, self._streamsets))
        if 2 * live > self._live_before and self._uncounted < _FEW_RUNS + queries:
            self._live_before = max(live, self._live_before)
            return False
        self._live_before, self._uncounted = live, 0
        return True

    def compact_if_shrunk(self) -> None:
        """Compacts if less than half of the rows are held that were held since the last compaction."""
        held = self._held()
        self._most_held = max(held, self._most_held)
        if 2 * held < self._most_held and self._arena.used_bytes > _FEW_BYTES:
            self.compact()

    def compact(self) -> None:
        """Removes the texts of all terms that nothing uses."""
        self._arena.compact(np.concatenate([np.empty(0, np.int64), *self._live_ids()]))
        self._stats.compactions += 1
        self._most_held = self._held()
        used = self._arena.used_bytes
        self.threshold = max(_FEW_BYTES, 2 * used, used + _BYTES_A_ROW * self._most_held)

    def _held(self) -> int:
        return sum(streamset.held for streamset in self._streamsets)
