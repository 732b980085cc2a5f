"""Deletes under the snapshot law, and the changes of a stream that must change nothing."""

from __future__ import annotations

from itertools import groupby

import pytest
from harness import Feed, arrivals, feed
from hypothesis import given
from hypothesis import strategies as st

from thalweg.testing.snapshot import Event, Oracle
from thalweg.testing.strategies import STREAMS, now_questions, questions, streams, windows


@given(st.data())
def test_emitted_deltas_sum_to_the_snapshot_with_deletes(data: st.DataObject) -> None:
    events = data.draw(streams(deletes=True, max_events=14))
    question = data.draw(questions(events))
    run = Feed([question])
    feed(run, data.draw(arrivals(events)), data.draw)
    run.emitted[0].check_sums(Oracle(question, events))


@given(st.data())
def test_a_dense_stream_of_inserts_and_deletes_under_one_window(data: st.DataObject) -> None:
    events = data.draw(streams(names=STREAMS[:1], max_events=30, deletes=True))
    question = data.draw(questions(events, max_blocks=1, max_patterns=3))
    run = Feed([question])
    feed(run, events, data.draw)
    run.emitted[0].check_sums(Oracle(question, events))


@pytest.mark.parametrize("steps", [True, False], ids=["with reports", "without reports"])
@given(data=st.data())
def test_streams_of_the_answer_are_netted_with_deletes_too(steps: bool, data: st.DataObject) -> None:
    events = data.draw(streams(deletes=True))
    asked = questions(events, window=windows(steps=steps), operators=("RSTREAM", "ISTREAM", "DSTREAM"))
    question = data.draw(asked)
    run = Feed([question])
    feed(run, data.draw(arrivals(events)), data.draw)
    run.emitted[0].check_stream(Oracle(question, events))


@given(st.data())
def test_a_delete_event_gives_no_rows_to_now(data: st.DataObject) -> None:
    events = data.draw(streams(deletes=True))
    question = data.draw(now_questions(events, operators=(None,)))
    run = Feed([question])
    feed(run, data.draw(arrivals(events)), data.draw)
    times = {(at, graph) for (at, *_), graph in zip(run.emitted[0].rows, run.emitted[0].graphs, strict=True)}
    inserts = {(event.time, f"<{event.graph}>") for event in events if event.op == "insert"}
    assert times <= inserts


@given(st.data())
def test_the_order_of_events_within_an_instant_changes_nothing(data: st.DataObject) -> None:
    events = data.draw(streams(names=STREAMS[:1], max_events=12, deletes=True))
    question = data.draw(questions(events, max_blocks=1, max_patterns=3))
    shuffled: list[Event] = []
    for _, instant in groupby(events, key=lambda event: event.time):
        shuffled += data.draw(st.permutations(list(instant)))
    run = Feed([question])
    feed(run, shuffled, data.draw)
    run.emitted[0].check_sums(Oracle(question, events))
