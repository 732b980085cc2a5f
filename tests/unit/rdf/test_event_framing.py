"""Chunks that state whole events, framed in the order of a file."""

from __future__ import annotations

import numpy as np
import pytest

from thalweg.errors import DataError
from thalweg.rdf.arena import Arena
from thalweg.rdf.arrivals import Pace
from thalweg.rdf.chunk import NO_TIME, SAME_TIME, Chunk, Reject
from thalweg.rdf.events import EventBatch
from thalweg.rdf.framing import framer_of
from thalweg.rdf.timestamped import EventFramer, TimestampedFramer

S = "http://ex/s"


def chunk_of(arena: Arena, *rows: tuple[int, int, int, str | None], **more: object) -> Chunk:
    """A chunk of rows (event, time, op, subject); None stands for an event without a kept triple."""
    columns = [np.array([row[k] for row in rows], np.int64) for k in range(3)]
    ids = np.array([0 if row[3] is None else arena.intern(row[3].encode()) for row in rows], np.int64)
    none = np.zeros(len(rows), np.int64)
    number, time, op = columns
    return Chunk(len(rows), 0, number, none, ids, ids, ids, time, op=op, **more)  # type: ignore[arg-type]


def told(batch: EventBatch) -> list[tuple[int, int, int]]:
    return list(zip(batch.rows.event.tolist(), batch.rows.time.tolist(), batch.rows.op.tolist(), strict=True))


def test_events_of_a_file_stay_in_their_order_and_those_of_messages_are_sorted() -> None:
    arena = Arena()
    chunk = chunk_of(arena, (0, 30, 1, "<a:x>"), (1, 10, -1, "<a:y>"), (1, 10, -1, "<a:z>"), (2, 20, 1, None))
    batch = EventFramer(S, arena).frame(chunk)
    assert told(batch) == [(0, 30, 1), (1, 10, -1), (1, 10, -1)]
    assert batch.times.tolist() == [30, 10, 20]
    assert batch.inserts is not None
    assert batch.inserts.tolist() == [True, False, True]
    assert batch.clock == 30
    sorted_batch = TimestampedFramer(S, arena).frame(chunk)
    assert sorted_batch.times.tolist() == [10, 20, 30]
    assert told(sorted_batch) == [(0, 10, -1), (0, 10, -1), (2, 30, 1)]


def test_an_event_without_a_time_has_the_number_of_its_arrival() -> None:
    arena = Arena()
    framer = EventFramer(S, arena, Pace.of(rate=2))
    rows = [(0, NO_TIME, -1, "<a:x>"), (1, SAME_TIME, 1, "<a:x>"), (2, NO_TIME, 0, None), (3, 7, 1, "<a:x>")]
    assert framer.frame(chunk_of(arena, *rows)).times.tolist() == [0, 0, 500_000, 7]
    assert framer.frame(chunk_of(arena, (0, NO_TIME, 1, "<a:x>"))).times.tolist() == [1_500_000]


def test_an_update_is_one_scope_of_blank_nodes_and_another_event_is_another() -> None:
    arena = Arena()
    rows = [(0, 1, -1, "_:b"), (1, SAME_TIME, 1, "_:b"), (2, 2, 1, "_:b")]
    first, second, third = EventFramer(S, arena).frame(chunk_of(arena, *rows, bnodes=6)).rows.s.tolist()
    assert first == second != third


def test_rejects_are_placed_in_their_source_and_a_restored_framer_goes_on() -> None:
    arena = Arena()
    framer = framer_of(S, "events", arena)
    framer.frame(chunk_of(arena, (0, NO_TIME, 1, "<a:x>"), source="f"))
    bad = chunk_of(
        arena, (0, NO_TIME, 1, "_:b"), source="f", rejects=(Reject("f", 2, 3, "bad", "x"),), bnodes=1
    )
    bad.lines = 5
    framer.frame(bad)
    other = framer_of(S, "events", arena)
    other.restore(framer.state())
    assert other.clock == framer.clock == 1000
    batches = [each.frame(bad) for each in (framer, other)]
    for batch in batches:
        assert [reject.line for reject in batch.rejects] == [7]
        assert batch.times.tolist() == [2000]
        assert told(batch) == [(2, 2000, 1)]
    assert batches[0].rows.s.tolist() == batches[1].rows.s.tolist()
    assert not len(other.close())


def test_an_arrival_beyond_the_year_9999_is_refused() -> None:
    arena = Arena()
    framer = EventFramer(S, arena, Pace.of(rate=1e-6))
    framer._arrivals = 10**12
    with pytest.raises(DataError, match="beyond the year 9999"):
        framer.frame(chunk_of(arena, (0, NO_TIME, 1, "<a:x>")))
