"""Sequences against brute force: equal matches for every query, every order of arrival, every batching."""

from __future__ import annotations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sequence_cases import accepted, answered, cases, events, expected, within_lateness

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
