"""Rows that nobody polls: bounded, and never without a sign."""

from __future__ import annotations

import warnings

import pytest

import thalweg as tw

S = "http://ex/s"
ASK = f"SELECT ?x FROM STREAM <{S}> WHERE {{ ?x <http://ex/p> ?y }}"


def push(session: tw.Session, at: int, count: int = 1) -> None:
    graph = "".join(f"<http://ex/a{at}-{k}> <http://ex/p> <http://ex/b> .\n" for k in range(count))
    session.push(S, at=at, graph=graph)


def test_the_oldest_rows_are_dropped_and_a_gap_marks_their_place() -> None:
    session = tw.Session(max_pending=3)
    query = session.register(ASK)
    for at in range(4):
        push(session, at)
    with pytest.warns(tw.ThalwegWarning, match="nobody polls"):
        push(session, 4)
    push(session, 5)
    assert query.pending == 4  # the last event is bounded when the next one comes
    rows = query.poll()
    assert [(row.at // 1000, row.op, dict(row.bindings)) for row in rows] == [
        (1, "gap", {}),
        *((at, "+", {"x": f"<http://ex/a{at}-0>"}) for at in (2, 3, 4, 5)),
    ]
    assert query.dropped == 2
    assert query.poll() == []


def test_what_one_event_gives_is_there_for_the_next_poll_however_much_it_is() -> None:
    session = tw.Session(max_pending=3)
    query = session.register(ASK)
    push(session, 0, count=100)
    assert [row.op for row in query.poll()] == ["+"] * 100
    assert query.dropped == 0


def test_a_part_of_an_event_can_be_dropped() -> None:
    session = tw.Session(max_pending=3)
    query = session.register(ASK)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        push(session, 0, count=10)
        push(session, 1)
    assert [row.op for row in query.poll()] == ["gap", "+", "+", "+", "+"]
    assert query.dropped == 7


def test_an_event_is_refused_where_that_is_wanted_and_nothing_is_lost() -> None:
    session = tw.Session(max_pending=2, on_pending="fail")
    query = session.register(ASK)
    for at in range(3):
        push(session, at)
    for refused in (lambda: push(session, 3), lambda: session.advance(9), lambda: session.finish()):
        with pytest.raises(tw.UsageError, match="3 rows of a query wait"):
            refused()
    assert len(query.poll()) == 3
    push(session, 3)
    assert [row.at for row in query.poll()] == [3000]


def test_other_queries_and_derived_streams_miss_nothing() -> None:
    session = tw.Session(max_pending=2)
    session.register(
        f"REGISTER ISTREAM <http://ex/d> AS CONSTRUCT {{ ?x <http://ex/q> ?y }} FROM STREAM <{S}> "
        "WHERE { ?x <http://ex/p> ?y }"
    )
    reader = session.register("SELECT ?x FROM STREAM <http://ex/d> WHERE { ?x <http://ex/q> ?y }")
    seen = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for at in range(9):
            push(session, at)
            seen += reader.poll()
        session.advance(20)
    assert [row.op for row in [*seen, *reader.poll()]] == ["+"] * 9


def test_a_saved_session_keeps_its_bound_and_its_gap() -> None:
    session = tw.Session(max_pending=2)
    session.register(ASK)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for at in range(5):
            push(session, at)
        other = tw.Session.restore(session.save())
        push(other, 5)
        (query,) = other.queries
        assert [row.op for row in query.poll()] == ["gap", "+", "+", "+"]
    assert query.dropped == 3


def test_a_producer_that_is_not_asked_keeps_no_rows() -> None:
    session = tw.Session(max_pending=None)
    query = session.register(ASK)
    push(session, 0)
    query.discard()
    push(session, 1)
    assert query.poll() == []
    assert query.pending == 0


@pytest.mark.parametrize("options", [{"max_pending": -1}, {"on_pending": "wait"}])
def test_a_bound_that_makes_no_sense_is_refused(options: dict[str, object]) -> None:
    with pytest.raises(tw.UsageError, match="pending"):
        tw.Session(**options)  # type: ignore[arg-type]
