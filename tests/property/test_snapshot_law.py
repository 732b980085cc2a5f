"""The one property: what a query has emitted sums, at every instant, to the answer over the snapshot."""

from __future__ import annotations

import pytest
from harness import Feed, arrivals, feed, feed_quads, quads
from hypothesis import given
from hypothesis import strategies as st

from thalweg.testing.snapshot import Oracle
from thalweg.testing.strategies import LINE_ENDS, STREAMS, now_questions, questions, streams, windows


@given(st.data())
def test_emitted_deltas_sum_to_the_snapshot_at_every_instant(data: st.DataObject) -> None:
    events = data.draw(streams())
    question = data.draw(questions(events))
    run = Feed([question])
    feed(run, data.draw(arrivals(events)), data.draw)
    run.emitted[0].check_sums(Oracle(question, events))


@given(st.data())
def test_several_queries_in_one_session_do_not_disturb_each_other(data: st.DataObject) -> None:
    events = data.draw(streams())
    asked = data.draw(st.lists(questions(events, max_patterns=3), min_size=2, max_size=4))
    run = Feed(asked)
    feed(run, data.draw(arrivals(events)), data.draw)
    for emitted in run.emitted:
        emitted.check_sums(Oracle(emitted.question, events))


@given(st.data())
def test_blank_nodes_join_within_their_event_only(data: st.DataObject) -> None:
    events = data.draw(streams(blanks=True))
    question = data.draw(questions(events, max_patterns=3))
    run = Feed([question])
    feed(run, data.draw(arrivals(events)), data.draw)
    run.emitted[0].check_sums(Oracle(question, events))


@given(st.data())
def test_one_dense_stream_of_single_triples_with_one_window(data: st.DataObject) -> None:
    events = data.draw(streams(names=STREAMS[:1], max_events=25))
    question = data.draw(questions(events, max_blocks=1, max_patterns=4))
    run = Feed([question])
    feed(run, events, data.draw)
    run.emitted[0].check_sums(Oracle(question, events))


@pytest.mark.parametrize("steps", [True, False, None], ids=["with reports", "without reports", "mixed"])
@given(data=st.data())
def test_rstream_istream_and_dstream_give_each_instant_once_and_netted(
    steps: bool | None, data: st.DataObject
) -> None:
    events = data.draw(streams())
    asked = questions(events, window=windows(steps=steps), operators=("RSTREAM", "ISTREAM", "DSTREAM"))
    question = data.draw(asked)
    run = Feed([question])
    feed(run, data.draw(arrivals(events)), data.draw)
    run.emitted[0].check_stream(Oracle(question, events))


@given(st.data())
def test_now_answers_each_event_alone_and_takes_nothing_back(data: st.DataObject) -> None:
    events = data.draw(streams(blanks=data.draw(st.booleans())))
    question = data.draw(now_questions(events, operators=(None, "RSTREAM", "ISTREAM")))
    run = Feed([question])
    feed(run, data.draw(arrivals(events)), data.draw)
    run.emitted[0].check_events(Oracle(question, events))


@given(st.data())
def test_reading_timestamped_graphs_gives_the_same_as_pushing_them(data: st.DataObject) -> None:
    events = data.draw(streams(names=STREAMS[:1]))
    question = data.draw(questions(events, max_patterns=3))
    run = Feed([question])
    stamp, end = (
        data.draw(st.sampled_from(["before", "after", "inside"])),
        data.draw(st.sampled_from(LINE_ENDS)),
    )
    text = quads(events, stamp=stamp, end=end)
    feed_quads(run, STREAMS[0], text, data.draw(st.lists(st.integers(0, 60), max_size=4)))
    run.advance(max(event.time for event in events) + 30_001)
    run.poll()
    run.emitted[0].check_sums(Oracle(question, events))


@given(st.data())
def test_an_unregistered_query_is_silent_and_the_others_go_on(data: st.DataObject) -> None:
    events = data.draw(streams(max_events=8))
    asked = data.draw(st.lists(questions(events, max_patterns=2), min_size=2, max_size=3))
    run = Feed(asked)
    half = len(events) // 2
    for event in events[:half]:
        run.push(event)
    gone = run.emitted.pop(data.draw(st.integers(0, len(run.emitted) - 1)))
    gone.query.poll()
    run.session.unregister(gone.query)
    for event in events[half:]:
        run.push(event)
    run.advance(events[-1].time + 30_001)
    run.poll()
    assert gone.query.poll() == []
    for emitted in run.emitted:
        emitted.check_sums(Oracle(emitted.question, events))
