"""Windows of every kind under the snapshot law: by time and by count, any bounds, origins and reports."""

from __future__ import annotations

import pytest
from harness import Feed, arrivals, feed, feed_quads, quads
from hypothesis import given
from hypothesis import strategies as st

from thalweg.testing.snapshot import Block, Oracle, Question
from thalweg.testing.strategies import STREAMS, any_windows, counts, questions, streams, wanted

OPERATORS = ("RSTREAM", "ISTREAM", "DSTREAM")


@given(st.data())
def test_deltas_sum_to_the_snapshot_under_every_window(data: st.DataObject) -> None:
    events = data.draw(streams(max_events=14, deletes=data.draw(st.booleans())))
    question = data.draw(questions(events, window=any_windows(), max_patterns=4))
    run = Feed([question])
    feed(run, data.draw(arrivals(events)), data.draw)
    run.emitted[0].check_sums(Oracle(question, events))


@given(st.data())
def test_deltas_sum_to_the_snapshot_under_windows_by_count(data: st.DataObject) -> None:
    events = data.draw(streams(max_events=24, deletes=data.draw(st.booleans()), unwanted=True))
    question = data.draw(questions(wanted(events), window=counts(), max_patterns=3))
    run = Feed([question])
    feed(run, data.draw(arrivals(events)), data.draw)
    run.emitted[0].check_sums(Oracle(question, events))


@given(st.data())
def test_events_of_which_a_reader_keeps_nothing_count(data: st.DataObject) -> None:
    events = data.draw(streams(names=STREAMS[:1], max_events=24, unwanted=True))
    windows = counts(units=("ELEMENTS",))
    asked = questions(wanted(events), window=windows, max_patterns=3, operators=(None, "RSTREAM"))
    run = Feed([data.draw(asked)])
    text = quads(events, stamp=data.draw(st.sampled_from(["before", "inside", "after"])))
    feed_quads(run, STREAMS[0], text, data.draw(st.lists(st.integers(0, 80), max_size=4)))
    run.advance(events[-1].time + 12_000)
    run.poll()
    run.emitted[0].check(Oracle(run.emitted[0].question, events))


@given(st.data())
def test_one_stream_is_seen_through_two_windows_at_once(data: st.DataObject) -> None:
    events = data.draw(streams(names=STREAMS[:1], max_events=16, deletes=True))
    bodies = data.draw(questions(events, max_blocks=1, max_patterns=3)).blocks[0].patterns
    windows = [data.draw(counts()), data.draw(any_windows())]
    blocks = tuple(Block(STREAMS[:1], window, bodies[:2]) for window in windows)
    names = sorted({term[1:] for pattern in bodies[:2] for term in pattern if term[0] == "?"})
    question = Question(blocks, tuple(names) or ("none",))
    if any(term.startswith("_:") for pattern in bodies for term in pattern):
        return  # a blank node is a variable of one block
    run = Feed([question])
    feed(run, events, data.draw)
    run.emitted[0].check_sums(Oracle(question, events))


@given(st.data())
def test_queries_with_other_windows_do_not_disturb_each_other(data: st.DataObject) -> None:
    events = data.draw(streams(max_events=12, deletes=data.draw(st.booleans())))
    one = questions(events, window=any_windows(), max_patterns=2)
    run = Feed(data.draw(st.lists(one, min_size=2, max_size=4)))
    feed(run, data.draw(arrivals(events)), data.draw)
    for emitted in run.emitted:
        emitted.check_sums(Oracle(emitted.question, events))


@pytest.mark.parametrize("operator", OPERATORS)
@given(data=st.data())
def test_each_operator_speaks_at_the_reports_that_were_asked_for(operator: str, data: st.DataObject) -> None:
    events = data.draw(streams(max_events=12, deletes=data.draw(st.booleans())))
    windows = any_windows(empty=operator == "RSTREAM")
    question = data.draw(questions(events, window=windows, max_patterns=3, operators=(operator,)))
    run = Feed([question])
    feed(run, data.draw(arrivals(events)), data.draw)
    run.emitted[0].check_stream(Oracle(run.emitted[0].question, events))


@given(data=st.data())
def test_rstream_repeats_the_answer_after_each_step_of_elements(data: st.DataObject) -> None:
    events = data.draw(streams(max_events=16, deletes=data.draw(st.booleans()), unwanted=True))
    asked = questions(wanted(events), window=counts(empty=True), max_patterns=2, operators=("RSTREAM",))
    run = Feed([data.draw(asked)])
    feed(run, data.draw(arrivals(events)), data.draw)
    run.emitted[0].check_stream(Oracle(run.emitted[0].question, events))


@given(st.data())
def test_a_window_by_count_is_saved_and_restored(data: st.DataObject) -> None:
    events = data.draw(streams(max_events=14, deletes=data.draw(st.booleans()), unwanted=True))
    operator = data.draw(st.sampled_from(OPERATORS))
    windows = st.one_of(counts(empty=operator == "RSTREAM"), any_windows())
    run = Feed([data.draw(questions(wanted(events), window=windows, max_patterns=2, operators=(operator,)))])
    for event in data.draw(arrivals(events)):
        run.push(event)
        if data.draw(st.integers(0, 3)) == 0:
            run.restart()
        if data.draw(st.booleans()):
            run.poll()
    run.advance(events[-1].time + 30_001)
    run.poll()
    run.emitted[0].check_stream(Oracle(run.emitted[0].question, events))
