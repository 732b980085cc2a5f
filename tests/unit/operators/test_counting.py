"""Windows by count make a feed of their own: its rows, and what it costs."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

import thalweg as tw
from thalweg.algebra.windows import Count
from thalweg.io.files import read_events
from thalweg.operators.counting import Counting, RowQueue
from thalweg.rdf.chunk import NO_TIME
from thalweg.rdf.events import EventBatch, Rows
from thalweg.rdf.prune import Prune

S = "http://ex/s"
NAMES = {1: "+", -1: "delete", -2: "-", -3: "retract"}


def columns(*rows: tuple[int, int, int, int]) -> Rows:
    """Rows of (time, event, o, op) with one subject and one predicate."""
    at, event, o, op = np.array(rows, np.int64).reshape(-1, 4).T.copy()
    one = np.ones(len(at), np.int64)
    return Rows(at, event, one * 0, one, one, o, op)


def fed(counting: Counting, *rows: tuple[int, int, int, int]) -> list[tuple[int, str, int, int]]:
    given = columns(*rows)
    feed, _ = counting.step(np.zeros(len(rows), np.int64), given, 10**9)
    return [
        (int(a), NAMES[int(op)], int(n), int(o)) for a, n, _, _, _, o, op in zip(*feed.columns, strict=True)
    ]


def test_elements_enter_when_their_step_closes_and_leave_when_they_are_no_longer_the_last() -> None:
    # |1 a |2 b |3 c |4 d      the last 3, after each 2
    counting = Counting(Count("ELEMENTS", 3, 2), [0], None)
    assert fed(counting, (1, 1, 11, 1)) == []
    assert fed(counting, (2, 2, 12, 1)) == [(2, "+", 0, 11), (2, "+", 1, 12)]
    assert fed(counting, (3, 3, 13, 1), (4, 4, 14, 1)) == [(4, "+", 2, 13), (4, "+", 3, 14), (4, "-", 0, 11)]


def test_a_step_wider_than_the_window_leaves_elements_out() -> None:
    counting = Counting(Count("ELEMENTS", 1, 3), [0], None)
    rows = [(k, k, 10 + k, 1) for k in range(1, 7)]
    assert fed(counting, *rows) == [(3, "+", 2, 13), (6, "+", 5, 16), (6, "-", 2, 13)]


def test_an_event_is_one_element_and_its_triples_are_several() -> None:
    graph = [(1, 1, 11, 1), (1, 1, 12, 1), (2, 2, 13, 1)]
    assert fed(Counting(Count("ELEMENTS", 1), [0], None), *graph) == [
        *((1, "+", 0, 11), (1, "+", 0, 12)),
        *((2, "+", 1, 13), (2, "-", 0, 11), (2, "-", 0, 12)),
    ]
    assert fed(Counting(Count("TRIPLES", 2), [0], None), *graph)[-1] == (2, "-", 0, 11)


def test_a_delete_takes_effect_at_once_and_again_when_the_open_step_closes() -> None:
    counting = Counting(Count("ELEMENTS", 4, 2), [0], None)
    assert fed(counting, (1, 1, 11, 1), (2, 2, 11, -1)) == [(2, "delete", 1, 11)]
    assert fed(counting, (3, 3, 12, 1)) == [(3, "+", 0, 11), (3, "+", 1, 12), (3, "retract", 1, 11)]
    assert fed(counting, (4, 4, 12, -1), (5, 5, 13, 1)) == [(4, "delete", 2, 12)]


def test_what_no_pattern_wants_is_counted_and_not_kept() -> None:
    counting = Counting(Count("ELEMENTS", 1), [0], np.array([99]))
    assert fed(counting, (1, 1, 11, 1)) == []
    assert counting.count == 1
    assert all(not len(ids) for ids in counting.live_ids())


@pytest.mark.parametrize("wanted", [None, np.array([1])])
def test_a_marker_is_an_element_that_never_enters(wanted: np.ndarray | None) -> None:
    counting = Counting(Count("ELEMENTS", 2), [0], wanted)
    assert fed(counting, (1, 1, 11, 1)) == [(1, "+", 0, 11)]
    zero = np.zeros(1, np.int64)
    for event in (2, 3):
        feed, reports = counting.step(zero, Rows.marker(5, event), 10**9)
        assert reports.tolist() == [5]
    assert [NAMES[op] for op in feed.op.tolist()] == ["-"]
    assert counting.held == 0


def test_an_instant_of_several_streams_waits_until_it_is_complete() -> None:
    counting = Counting(Count("ELEMENTS", 2), [0, 1], None)
    feed, _ = counting.step(np.array([1]), columns((5, 1, 12, 1)), 5)
    assert len(feed) == 0
    feed, reports = counting.step(np.array([0]), columns((5, 2, 11, 1)), 6)
    assert feed.o.tolist() == [11, 12]  # by stream, not by arrival
    assert reports.tolist() == [5]


def test_a_queue_gives_back_what_went_in_however_it_grows() -> None:
    queue = RowQueue()
    seen: list[int] = []
    for start in range(0, 3000, 30):
        queue.add(np.tile(np.arange(start, start + 30), (4, 1)))
        seen += queue.take(start - 100)[0].tolist()
    assert seen == list(range(2870))
    assert len(queue) == 130
    assert queue.nbytes < 4 * 8 * 1024


def test_only_triples_count_and_an_event_without_any_does_not() -> None:
    session = tw.Session()
    query = session.register(f"SELECT ?x FROM STREAM <{S}> [ELEMENTS 2] WHERE {{ ?x <http://ex/p> ?y }}")
    for at, graph in enumerate(["<http://ex/a> <http://ex/p> 'x' .".replace("'", '"'), "", ""]):
        session.push(S, at=at, graph=graph)
    session.push(S, at=5, graph='<http://ex/b> <http://ex/q> "irrelevant" .')
    assert [(row.op, row["x"]) for row in query.poll()] == [("+", "<http://ex/a>")]
    session.push(S, at=6, graph='<http://ex/b> <http://ex/q> "irrelevant" .')
    assert [(row.op, row["x"]) for row in query.poll()] == [("-", "<http://ex/a>")]


def test_an_event_counts_whose_triples_the_readers_of_a_session_prune(tmp_path: Path) -> None:
    path = tmp_path / "stream.nt"
    path.write_text("".join(f"<a:{k}> <a:{'p' if k % 4 == 0 else 'other'}> <a:o> .\n" for k in range(10)))
    session = tw.Session()
    query = session.register(f"SELECT ?x FROM STREAM <{S}> [ELEMENTS 3] WHERE {{ ?x <a:p> ?y }}")
    for batch in read_events([path], S, session.arena, session.prune):
        assert session.arena.texts(batch.rows.p) == ["<a:p>"] * len(batch)  # pruning is on
        session.push_events(batch)
    session.finish()
    assert [(row.at // 1000, row.op, row["x"]) for row in query.poll()] == [
        *((0, "+", "<a:0>"), (3, "-", "<a:0>"), (4, "+", "<a:4>")),
        *((7, "-", "<a:4>"), (8, "+", "<a:8>")),
    ]
    assert (session.stats.events, session.stats.triples) == (10, 3)


def test_a_window_of_triples_keeps_readers_from_pruning() -> None:
    session = tw.Session()
    session.register(f"SELECT ?x FROM STREAM <{S}> [TRIPLES 3] WHERE {{ ?x <a:p> ?y }}")
    assert session.prune() == Prune.everything()


def test_markers_of_late_events_deletes_and_events_without_triples_do_not_count() -> None:
    session = tw.Session()
    query = session.register(f"SELECT ?x FROM STREAM <{S}> [ELEMENTS 2] WHERE {{ ?x <a:p> ?y }}")
    s, p, o = (np.array([session.arena.intern(text)]) for text in (b"<a:x>", b"<a:p>", b"<a:o>"))
    rows = Rows.inserts(np.array([10]), np.array([0]), 0 * s, s, p, o)
    times = np.array([10, 3, 11, 12, NO_TIME, 13])  # late, a delete, none at all, refused
    inserts = np.array([True, True, False, False, True, True])
    session.push_events(EventBatch(S, rows, 13, (), times, 0, inserts))
    assert [row.op for row in query.poll()] == ["+"]
    session.push_events(EventBatch(S, Rows.empty(), 14, (), np.array([14]), 6))
    assert [(row.at, row.op) for row in query.poll()] == [(14, "-")]


@pytest.mark.parametrize("unit", ["ELEMENTS", "TRIPLES"])
def test_late_events_do_not_count(unit: str) -> None:
    session = tw.Session()
    query = session.register(f"SELECT ?x FROM STREAM <{S}> [{unit} 1] WHERE {{ ?x <http://ex/p> ?y }}")
    for at, name in [(10, "a"), (5, "late")]:
        session.push(S, at=at, graph=f"<http://ex/{name}> <http://ex/p> <http://ex/o> .")
    assert [(row.at, row.op, row["x"]) for row in query.poll()] == [(10_000, "+", "<http://ex/a>")]
    assert session.stats.late == 1


def test_the_work_of_a_window_by_count_does_not_follow_its_size() -> None:
    def seconds(size: int) -> float:
        counting = Counting(Count("TRIPLES", size), [0], None)
        at = np.arange(size)
        one = np.ones(size, np.int64)
        counting.step(one * 0, Rows(at, at, one * 0, one, one, at, one), 10**9)
        best = 1.0
        for k in range(5):
            now = np.arange(size + 100 * k, size + 100 * (k + 1))
            ones = np.ones(100, np.int64)
            begin = time.perf_counter()
            feed, _ = counting.step(ones * 0, Rows(now, now, ones * 0, ones, ones, now, ones), 10**9)
            best = min(best, time.perf_counter() - begin)
            assert len(feed) == 200
        return best

    assert seconds(1 << 18) < 20 * seconds(1 << 8)
