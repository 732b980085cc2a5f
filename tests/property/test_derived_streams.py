"""Derived streams: a query over the output of a CONSTRUCT answers as over events that an oracle has made of it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from harness import Feed, arrivals, feed
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from thalweg import engine
from thalweg.testing.snapshot import Event, Oracle, Question
from thalweg.testing.strategies import (
    OPERATORS,
    any_questions,
    any_windows,
    constructs,
    now_questions,
    questions,
    streams,
)

DERIVED = ("http://ex/d0", "http://ex/d1")
END = 2 * 60_007


@st.composite
def producers(draw: st.DrawFn, events: list[Event], output: str) -> Question:
    """CONSTRUCT queries with an output stream, without new nodes: these have other names at the oracle."""
    operator = draw(st.sampled_from([None, None, *OPERATORS]))
    asked = questions(events, window=any_windows(), max_patterns=2, max_blocks=2, operators=(operator,))
    if draw(st.integers(0, 3)) == 0:
        asked = now_questions(events, (None, "ISTREAM"))
    question = draw(constructs(asked))
    made = {f"?{name}" for name in question.variables}
    template = tuple(
        triple for triple in question.template or () if all(t[0] in '<"' or t in made for t in triple)
    )
    assume(template)
    return replace(question, template=template, output=output)


def made(question: Question, events: list[Event]) -> list[Event]:
    return Oracle(question, events).derived(max(event.time for event in events) + END)


def merged(events: list[Event], more: list[Event]) -> list[Event]:
    return sorted([*events, *more], key=lambda event: event.time)


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
        patch.setattr(engine, "_FEW_BYTES", 0)
        restarts = data.draw(st.booleans())

        def between(rest: list[Event]) -> None:
            run.session._compact_at = 0
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
