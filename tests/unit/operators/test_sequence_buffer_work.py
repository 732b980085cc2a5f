"""The shared buffer of a sequence: its work and its memory by counts, and which sequences have it."""

from __future__ import annotations

import numpy as np
import pytest

from thalweg import Session, explain
from thalweg.bench import stock
from thalweg.operators.sequence_buffer import Buffer
from thalweg.operators.sequences import SequenceView

S = "http://ex/s"


def query(sequence: str, *, within: int = 1000, b: str = "", c: str = "", select: str = "?a ?b ?c") -> str:
    return f"""PREFIX : <http://ex/> SELECT {select} WITHIN {within} MILLISECONDS FROM STREAM S <{S}> WHERE {{
SEQ ({sequence}) DEFINE GPM A ON S {{ ?x :p ?a }} DEFINE GPM B ON S {{ ?x :q ?b {b} }}
DEFINE GPM C ON S {{ ?x :r ?c {c} }} DEFINE GPM D ON S {{ ?x :q ?d }} DEFINE GPM N ON S {{ ?x :n ?n }} }}"""


def buffer_of(session: Session) -> Buffer:
    (view,) = (view for streamset in session._streamsets for _, view in streamset.registered)
    assert isinstance(view, SequenceView)
    pool = view.runs._pool
    assert isinstance(pool, Buffer)
    return pool


def push(session: Session, at: int, triple: str) -> None:
    session.push(S, at=at, graph=f"@prefix : <http://ex/> . {triple} .", format="turtle")


def test_an_event_costs_the_same_however_many_partial_matches_there_are() -> None:
    costs, partial = [], []
    for many in (10, 100):
        session = Session()
        asked = session.register(query("A ; B ; D ; C", within=10_000))
        for time in range(many):
            push(session, 2 * time, f":i :p {time}")
            push(session, 2 * time + 1, f":i :q {time}")
        session.advance(2 * many)
        buffer = buffer_of(session)
        partial.append(asked.view.held)
        before, count = buffer.steps, buffer.count
        push(session, 2 * many, ":i :q 1")
        session.advance(2 * many + 1)
        costs.append((buffer.steps - before, buffer.count - count))
        assert session.save()  # nothing is written out run by run
    assert partial[1] > 500 * partial[0]
    assert partial[1] == 100 + 5050 + sum(k * (k + 1) // 2 for k in range(100))
    assert costs[0] == costs[1]
    assert costs[0][0] == 0


def test_enumeration_visits_little_more_than_it_reports() -> None:
    session = Session()
    asked = session.register(query("A ; B ; C", within=10_000))
    for time in range(30):
        push(session, 2 * time, f":i :p {time}")
        push(session, 2 * time + 1, f":i :q {time}")
    session.advance(60)
    before = buffer_of(session).steps
    push(session, 60, ":i :r 1")
    session.finish()
    rows = asked.poll()
    assert len(rows) == 30 * 31 // 2
    assert buffer_of(session).steps - before <= 2 * len(rows)


@pytest.mark.parametrize("step", [None, 1, -1], ids=["walk", "rising", "falling"])
def test_a_repetition_costs_the_same_per_event_in_every_window(
    step: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A , B+ , C: what B or C ends is a prefix of a list that is in the order of the compared price."""
    if step is not None:
        monkeypatch.setattr(
            stock, "prices_of", lambda setting, events, chosen: step * np.arange(events) % 1000
        )
    for width in (10, 100, 1000):
        session = Session(max_pending=None)
        asked = session.register(stock.query_of("A, B+, C", width))
        sizes = stock.Sizes(events=3000, batch=500)
        matches = 0
        for batch in stock.events_of(session.arena, sizes, 1):
            session.push_events(batch)
            matches += len(asked.drain())
        session.finish()
        matches += len(asked.drain())
        # Where each event met all partial matches, it would be hundreds.
        assert buffer_of(session).steps - 3 * matches < 6 * sizes.events


def test_what_has_left_the_window_leaves_the_buffer() -> None:
    session = Session(max_pending=None)
    asked = session.register(stock.query_of("A; B; C", 50))
    sizes = stock.Sizes(events=20_000, batch=1000)
    counts = []
    for batch in stock.events_of(session.arena, sizes, 10):
        session.push_events(batch)
        asked.drain()
        counts.append(buffer_of(session).nbytes)
    assert max(counts[10:]) <= max(counts[:10])
    assert asked.view.held < 2000


@pytest.mark.parametrize(
    ("sequence", "conditions", "reason"),
    [
        ("A ; B ; C", {}, None),
        ("A , B+ , C", {"b": "FILTER(?b < ?a && ?b > PREV(?b))", "c": "FILTER(?c > ?a)"}, None),
        ("A , B , (C <> D)", {}, "only those of the last instant"),
        ("A ; N! ; B ; (C | A)", {}, "not every atom binds ?a"),
        ("A ; B ; C", {"c": "FILTER(?a < ?b)"}, "?a < ?b compares two values"),
        ("A ; N! ; B+ ; C", {}, "a negation stands before a repetition"),
        ("A ; (B <> C)+", {}, "an iteration is more than one event"),
    ],
)
def test_explain_shows_where_runs_are(sequence: str, conditions: dict[str, str], reason: str | None) -> None:
    page = explain(query(sequence, **conditions))
    if reason is None:
        assert "runs       in a shared buffer" in page
    else:
        assert f"one row each: {reason}" in page
