"""Derived streams: a query over the output of a CONSTRUCT answers as over events that an oracle has made of it."""

from __future__ import annotations

import pytest
from harness import Feed, arrivals, feed, made, merged
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from thalweg import compaction
from thalweg.testing.snapshot import Event, Oracle
from thalweg.testing.strategies import any_questions, producers, streams

DERIVED = ("http://ex/d0", "http://ex/d1")


@given(st.data())
def test_a_query_over_a_derived_stream_sees_the_events_of_its_producer(data: st.DataObject) -> None:
    events = data.draw(streams(deletes=data.draw(st.booleans())))
    producer = data.draw(producers(events, DERIVED[0]))
    derived = made(producer, events)
    assume(derived)
    # Some readers join the derived stream with the streams that it is derived from.
    everything = merged(events, derived)
    read = derived if data.draw(st.booleans()) else everything
    readers = data.draw(st.lists(any_questions(read, max_patterns=3), min_size=1, max_size=2))
    asked = [producer, *readers]
    run = Feed(data.draw(st.permutations(asked)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compaction, "_FEW_BYTES", 0)
        restarts = data.draw(st.booleans())

        def between(rest: list[Event]) -> None:
            run.session._compaction.threshold = 0
            if restarts and data.draw(st.booleans()):
                run.restart()

        feed(run, data.draw(arrivals(events)), data.draw, between)
    for emitted in run.emitted:
        emitted.check(Oracle(emitted.question, everything))


@settings(max_examples=8)
@given(st.data())
def test_streams_are_derived_from_derived_streams(data: st.DataObject) -> None:
    events = data.draw(streams(max_events=6))
    first = data.draw(producers(events, DERIVED[0]))
    one = made(first, events)
    assume(one)
    second = data.draw(producers(merged(events, one), DERIVED[1]))
    everything = merged(events, one)
    two = made(second, everything)
    assume(two)
    everything = merged(everything, two)
    reader = data.draw(any_questions(two, max_patterns=2))
    run = Feed(data.draw(st.permutations([first, second, reader])))
    feed(run, data.draw(arrivals(events)), data.draw)
    for emitted in run.emitted:
        emitted.check(Oracle(emitted.question, everything))
