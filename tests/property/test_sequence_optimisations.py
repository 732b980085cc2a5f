"""Optimisations of sequences against brute force: no answer depends on an index of runs, or on lazy conjunctions."""

from __future__ import annotations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sequence_cases import accepted, answered, cases, events, expected, within_lateness

from thalweg.algebra.sequences import Optimisations
from thalweg.testing.sequences import Event, SequenceCase

CONJUNCTIONS = ("tog", "tog3", "togplus", "tog", "ref", "neg", "opt", "alt")


@pytest.mark.filterwarnings("ignore::thalweg.errors.ThalwegWarning")
@settings(max_examples=2 * settings.default.max_examples)
@given(cases(4, CONJUNCTIONS), events(12), st.integers(0, 4), st.booleans(), st.booleans(), st.booleans())
def test_conjunctions_have_the_same_matches_with_and_without_them(
    case: SequenceCase, arrived: list[Event], lateness: int, indexed: bool, lazy: bool, saves: bool
) -> None:
    assume(accepted(case))
    arrived = within_lateness(arrived, lateness)
    found = answered(
        case, arrived, lateness=lateness, saves=saves and lazy, optimisations=Optimisations(indexed, lazy)
    )
    assert found == expected(case, arrived), case.text()


@pytest.mark.filterwarnings("ignore::thalweg.errors.ThalwegWarning")
@given(cases(), events(9), st.integers(0, 4))
def test_all_sequences_have_the_same_matches_without_an_index(
    case: SequenceCase, arrived: list[Event], lateness: int
) -> None:
    assume(accepted(case))
    arrived = within_lateness(arrived, lateness)
    found = answered(case, arrived, lateness=lateness, optimisations=Optimisations(index_by_values=False))
    assert found == expected(case, arrived), case.text()
