"""Sequences against brute force: equal matches for every query, every order of arrival, every batching."""

from __future__ import annotations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sequence_cases import STREAMS, accepted, answered, cases, events, expected, within_lateness

from thalweg.testing.sequences import Event, SequenceCase


@pytest.mark.filterwarnings("ignore::thalweg.errors.ThalwegWarning")
@settings(max_examples=8 * settings.default.max_examples)  # an example takes a tenth of a second
@given(cases(), events(9), st.integers(0, 4))
def test_matches_are_those_of_the_definitions(
    case: SequenceCase, arrived: list[Event], lateness: int
) -> None:
    assume(accepted(case))
    arrived = within_lateness(arrived, lateness)
    assert answered(case, arrived, lateness=lateness) == expected(case, arrived), case.text()


@pytest.mark.filterwarnings("ignore::thalweg.errors.ThalwegWarning")
@given(cases(3), events(7))
def test_a_session_that_is_saved_after_each_event_has_the_same_matches(
    case: SequenceCase, arrived: list[Event]
) -> None:
    assume(accepted(case))
    arrived = within_lateness(arrived, 2)
    assert answered(case, arrived, lateness=2, saves=True) == expected(case, arrived), case.text()


@st.composite
def interleaved(draw: st.DrawFn, lateness: int) -> list[Event]:
    """Streams that come in any order among each other, each of them within the lateness of its own clock."""
    waiting = [
        within_lateness(
            draw(st.permutations([one for one in draw(events(7)) if one.stream == stream])), lateness
        )
        for stream in STREAMS
    ]
    found: list[Event] = []
    while any(waiting):
        stream = draw(st.sampled_from([one for one in waiting if one]))
        found.append(stream.pop(0))
    return found


@pytest.mark.filterwarnings("ignore::thalweg.errors.ThalwegWarning")
@settings(max_examples=2 * settings.default.max_examples)
@given(cases(4), st.data())
def test_streams_that_are_out_of_order_among_each_other_have_the_same_matches(
    case: SequenceCase, data: st.DataObject
) -> None:
    assume(accepted(case))
    lateness = data.draw(st.integers(0, 6))
    arrived = data.draw(interleaved(lateness))
    assert answered(case, arrived, lateness=lateness) == expected(case, arrived), case.text()
