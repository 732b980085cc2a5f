"""A session that is saved and restored at any point goes on as if nothing had happened."""

from __future__ import annotations

import pytest
from harness import Feed
from hypothesis import given
from hypothesis import strategies as st

import thalweg as tw
from thalweg.rdf.arena import Arena
from thalweg.testing.snapshot import Oracle
from thalweg.testing.strategies import now_questions, questions, streams


@given(st.data())
def test_saving_and_restoring_anywhere_changes_nothing(data: st.DataObject) -> None:
    events = data.draw(streams(max_events=12, deletes=data.draw(st.booleans())))
    operators = (None, None, "RSTREAM", "ISTREAM", "DSTREAM")
    one = st.one_of(questions(events, max_patterns=4, operators=operators), now_questions(events, (None,)))
    asked = data.draw(st.lists(one, min_size=1, max_size=3))
    runs = [Feed(asked), Feed(asked)]
    saves = data.draw(st.sets(st.integers(0, len(events) - 1), max_size=3))
    for place, event in enumerate(events):
        for run in runs:
            run.push(event)
            if data.draw(st.booleans()):
                run.poll()
        if place in saves:
            runs[1].restart()
    for run in runs:
        run.advance(events[-1].time + 30_001)
        run.poll()
    for plain, saved in zip(runs[0].emitted, runs[1].emitted, strict=True):
        if plain.question.operator or plain.question.blocks[0].window.__class__.__name__ == "Now":
            assert plain.per_instant() == saved.per_instant()
        else:
            saved.check_sums(Oracle(saved.question, events))


def test_a_session_can_be_saved_after_a_query_has_left():
    session = tw.Session()
    texts = [f"SELECT * FROM STREAM <http://ex/s> [RANGE 10] WHERE {{ ?x <http://ex/{p}> ?y }}" for p in "pq"]
    first, second = (session.register(text) for text in texts)
    session.push("http://ex/s", at=1, graph='<http://ex/a> <http://ex/q> "1" .')
    session.unregister(first)
    again = tw.Session.restore(session.save())
    (query,) = again.queries
    assert [row["y"] for row in query.poll()] == ['"1"']
    assert [row["y"] for row in second.poll()] == ['"1"']
    again.advance(20)
    assert [row.op for row in query.poll()] == ["-"]


def test_colliding_terms_keep_their_ids_over_a_restart():
    session = tw.Session(arena=Arena(hash_mask=3))
    query = session.register(
        "SELECT * FROM STREAM <http://ex/s> WHERE { ?x <http://ex/p> ?y . ?y <http://ex/q> ?z }"
    )
    for k in range(30):
        session.push("http://ex/s", at=k, graph=f"<http://ex/a{k}> <http://ex/p> <http://ex/b{k}> .")
    session = tw.Session.restore(session.save())
    (query,) = session.queries
    for k in range(30):
        session.push("http://ex/s", at=30, graph=f"<http://ex/b{k}> <http://ex/q> <http://ex/c{k}> .")
    found = {(row["x"], row["y"], row["z"]) for row in query.poll()}
    assert found == {(f"<http://ex/a{k}>", f"<http://ex/b{k}>", f"<http://ex/c{k}>") for k in range(30)}


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda data: b"", "not the bytes of a saved session"),
        (lambda data: b"{}" + data, "not the bytes of a saved session"),
        (lambda data: data[:-1], "damaged or cut short"),
        (lambda data: data[:8] + b"\x63" + data[9:], "format 99"),
    ],
)
def test_bytes_that_are_no_saved_session_are_refused_in_a_sentence(spoil, message):
    session = tw.Session()
    session.register("SELECT * FROM STREAM <http://ex/s> WHERE { ?x <http://ex/p> ?y }")
    with pytest.raises(tw.UsageError, match=message):
        tw.Session.restore(spoil(session.save()))
