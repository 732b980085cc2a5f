"""The engine of a shard of the second stage: the plan above the cut, fed with changes, rebuilt from a log of them.

Shards of the first stage report how far they have come with the changes up to there, so that an instant is complete
once all of them have passed it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from time import perf_counter_ns

import numpy as np

from thalweg.answers import ContinuousQuery
from thalweg.kernels.times import NO_TIME
from thalweg.operators.state import pack, unpack
from thalweg.operators.streamset import Streamset
from thalweg.operators.views import Delta, second_view_of
from thalweg.plan.stages import stages_of
from thalweg.rdf.arena import Arena
from thalweg.rdf.timestamped import split_blobs
from thalweg.spark import shard_engine
from thalweg.spark.changes import Parcel, spans_of
from thalweg.spark.results import pack_results
from thalweg.spark.shard_engine import SAVED, Arrival, BatchResult, LogEntry, Logged, Positions
from thalweg.spark.shard_plan import SecondPlan

CHANGES = "changes"
"""The mode of entries that hold changes."""
_FORMAT = 1
_FEW_BYTES = 1 << 20


class SecondEngine:
    """The view of a query over the changes of the rows at its cut."""

    def __init__(self, plan: SecondPlan, shard: int = 0) -> None:
        self.plan = plan
        self.shard = shard
        self.positions = Positions()
        self.result = BatchResult()
        self._query = plan.query
        self._inputs = stages_of(self._query).second.leaves
        self._shards = plan.first.shares.shards
        self._logged: list[int] = []  # places of the log
        self._rows = 0  # in the log
        self._parts: list[bytes] = []
        self._begin(Arena())

    def _begin(self, arena: Arena) -> None:
        self.arena = arena
        self._most_bytes = _FEW_BYTES  # of terms, before those that nothing uses go
        self.view = second_view_of(self._query, arena, self.plan.first.job.options.limits)
        self.view.has_static = not set(self._query.graphs).isdisjoint(self.plan.first.static_names)
        self.query = ContinuousQuery(
            arena, self._query, self.view, Streamset(self._query.streams), lambda: None
        )

    @property
    def bound(self) -> int:
        """How far all shards of the first stage have come."""
        reached = self.positions.clocks.values()
        return min(reached) if len(reached) == self._shards else NO_TIME

    def batch(self, arrivals: Sequence[Arrival], now: int, place: int) -> Iterator[tuple[int, bytes]]:
        """Apply the changes of a batch: packed results, and then `result` has the rest.

        `place` is that of the next entry of the log.
        """
        self.result = result = BatchResult()
        begun = perf_counter_ns()
        parcels = [Parcel.unpack(arrival.chunk, self.arena) for arrival in arrivals]
        clocks = self.positions.clocks
        for arrival, parcel in zip(arrivals, parcels, strict=True):
            shard = str(arrival.seq)
            clocks[shard] = max(clocks.get(shard, NO_TIME), parcel.bound)
        self._apply(parcels, self.bound)
        delta = self.query.drain()
        result.answers = len(delta)
        for packed in pack_results(self.query, self.arena, delta):
            yield 0, packed
        filled = tuple(k for k, parcel in enumerate(parcels) if len(parcel.delta))
        rows = sum(len(parcel.delta) for parcel in parcels)
        if filled:
            entry = LogEntry("", CHANGES, self.bound, self.bound, NO_TIME, False, b"")
            result.entries.append(Logged(place, entry, filled))
            self._note(place, rows)
            place += 1
        self._settle(rows)
        result.held = self.view.held
        if self._rows > max(shard_engine._FULL, shard_engine._SPARSE * result.held):
            self._compact(place)
        self.positions.opened = [self.view.first_instant]
        result.positions = self.positions
        result.micros = (perf_counter_ns() - begun) // 1000

    def _apply(self, parcels: Sequence[Parcel], bound: int) -> None:
        """Take changes of several shards, and go on to an instant."""
        width = max(len(leaf.shown) for leaf in self._inputs)
        delta = Delta.concat([parcel.delta for parcel in parcels if len(parcel.delta)], width)
        for number, leaf in enumerate(self._inputs):
            spans = spans_of(delta, number, len(leaf.shown))
            if len(spans):
                self.view.step(spans, number)
        if self.view.awaits_start:
            for parcel in parcels:
                if parcel.opened is not None:
                    self.view.open(parcel.opened)
        if bound != NO_TIME:
            self.view.start(bound)
            self.view.advance(bound)

    def _settle(self, rows: int) -> None:
        """Give back memory of what is gone."""
        self.view.give_back(rows)
        if self.arena.used_bytes > self._most_bytes:
            self.arena.compact(np.concatenate(self.view.live_ids()))
            self._most_bytes = max(_FEW_BYTES, 2 * self.arena.used_bytes)

    def open(self, positions: Positions) -> None:
        """Take the first instant of the query from the positions of an earlier engine, before its log."""
        for instant in positions.opened:
            if instant is not None:
                self.view.open(instant)

    def replay(self, place: int, entry: LogEntry) -> None:
        """Apply an entry of the log again; its results were written before."""
        if entry.mode == SAVED:
            self._restore(place, entry)
            return
        parcels = [Parcel.unpack(chunk, self.arena) for chunk in split_blobs(entry.chunks)]
        self._apply(parcels, entry.clock)
        self.query.drain()
        rows = sum(len(parcel.delta) for parcel in parcels)
        self._note(place, rows)
        self._settle(rows)

    def resume(self, positions: Positions) -> None:
        """Go on from the positions of an earlier engine, after its log has been replayed."""
        self.positions = positions
        self._apply([], self.bound)
        self.query.drain()

    def _note(self, place: int, rows: int) -> None:
        self._logged.append(place)
        self._rows += rows

    def _compact(self, place: int) -> None:
        """Put the state in the place of a log most of whose changes have no effect any more."""
        self.result.expired += self._logged
        self.arena.compact(np.concatenate(self.view.live_ids()))
        terms = np.frombuffer(self.arena.records(), np.uint8)
        state = {"view": self.view.state(), "terms": terms, "hash_mask": self.arena.hash_mask}
        saved = pack(state, _FORMAT)
        starts = range(0, len(saved), shard_engine._PART)
        self._logged, self._rows = [], 0
        for start in starts:
            part = saved[start : start + shard_engine._PART]
            last = start == starts[-1]
            entry = LogEntry("", SAVED, self.bound, NO_TIME, NO_TIME, last, b"", part)
            self.result.entries.append(Logged(place, entry, ()))
            self._note(place, 0)
            place += 1

    def _restore(self, place: int, entry: LogEntry) -> None:
        self._note(place, 0)
        self._parts.append(bytes(entry.chunks))
        if entry.last:
            state = unpack(b"".join(self._parts), _FORMAT)
            arena = Arena(state["hash_mask"])
            arena.merge(state["terms"])
            opened = self.view.first_instant
            self._begin(arena)
            self.view.restore(state["view"])
            if opened is not None:
                self.view.open(opened)
            self._parts = []
