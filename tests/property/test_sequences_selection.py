"""AFTER MATCH SKIP and CONSUME against brute force: which matches are left out because of others."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sequence_cases import accepted, answered, cases, events, expected, places, within_lateness

from thalweg.testing.sequences import Event, Neg, SequenceCase


@st.composite
def selecting(draw: st.DrawFn) -> SequenceCase:
    case = draw(cases(4))
    positive = [name for name, kind in places(case.tree) if kind is not Neg]
    atom = draw(st.sampled_from(positive))
    skip = draw(
        st.sampled_from([("PAST LAST EVENT",), ("TO NEXT",), ("TO FIRST", atom), ("TO LAST", atom), (), ()])
    )
    consume = None if skip else draw(st.sampled_from(["RECENT", "CHRONOLOGICAL"]))
    # The text of an average is not what is compared.
    select = tuple(one for one in case.select if not one.startswith("AVG"))
    return replace(case, skip=skip, consume=consume, select=select)


@pytest.mark.filterwarnings("ignore::thalweg.errors.ThalwegWarning")
@settings(max_examples=4 * settings.default.max_examples)
@given(selecting(), events(9), st.booleans())
def test_one_match_excludes_others(case: SequenceCase, arrived: list[Event], saves: bool) -> None:
    assume(accepted(case))
    arrived = within_lateness(arrived, 2)
    assert answered(case, arrived, lateness=2, saves=saves) == expected(case, arrived), case.text()
