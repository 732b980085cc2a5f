"""The pool of runs against brute force: hardly any room, batches of many instants, values that are no numbers."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sequence_cases import accepted, answered, cases, events, expected, within_lateness

from thalweg.operators import sequence_buffer, sequence_pool, sequence_runs
from thalweg.testing.sequences import Event, SequenceCase

NUMBER_TWO = '"2"^^<http://www.w3.org/2001/XMLSchema#integer>'


@pytest.mark.filterwarnings("ignore::thalweg.errors.ThalwegWarning")
@settings(max_examples=4 * settings.default.max_examples)
@given(cases(4), events(12), st.sampled_from([0, 3, 100]), st.booleans())
def test_a_pool_without_room_has_the_same_matches(
    case: SequenceCase, arrived: list[Event], lateness: int, has_texts: bool
) -> None:
    assume(accepted(case))
    arrived = within_lateness(arrived, lateness)
    if has_texts:  # the pool gives its runs back, and takes them again in the next batch
        arrived = [
            replace(event, triples=tuple(one.replace(NUMBER_TWO, '"two"') for one in event.triples))
            for event in arrived
        ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sequence_pool, "_SMALL", 2)
        patch.setattr(sequence_buffer, "_SMALL", 2)
        patch.setattr(sequence_runs, "_PAUSE", 1)
        assert answered(case, arrived, lateness=lateness) == expected(case, arrived), case.text()
