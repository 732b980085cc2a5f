"""WITH TIMED OUT against brute force: partial matches that nothing continued in their windows."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sequence_cases import accepted, answered, by_value, cases, events, within_lateness

from thalweg.testing.sequence_timeouts import timed_out
from thalweg.testing.sequences import Event, Neg, Opt, SequenceCase, evaluate

TRUE, FALSE = (f'"{text}"^^<http://www.w3.org/2001/XMLSchema#boolean>' for text in ("true", "false"))


def has_optional_negation(tree: object, inside: bool = False) -> bool:
    """Whether two alternatives may differ in a negation alone."""
    if isinstance(tree, Neg):
        return inside
    inner = getattr(tree, "items", None) or getattr(tree, "refs", None) or (getattr(tree, "item", None),)
    return any(
        has_optional_negation(one, inside or isinstance(tree, Opt)) for one in inner if one is not None
    )


@pytest.mark.filterwarnings("ignore::thalweg.errors.ThalwegWarning")
@settings(max_examples=3 * settings.default.max_examples)
@given(cases(3), events(6), st.booleans())
def test_partial_matches_that_time_out(case: SequenceCase, arrived: list[Event], saves: bool) -> None:
    case = replace(case, timed_out="late")
    assume(accepted(case))
    assume(not has_optional_negation(case.tree))
    arrived = within_lateness(arrived, 2)
    rows = [(at, (*row, FALSE)) for at, row in evaluate(case, arrived)]
    rows += [(at, (*row, TRUE)) for at, row in timed_out(case, arrived)]
    if case.distinct:
        rows = list(set(rows))
    expected = sorted(map(by_value, rows), key=repr)
    assert answered(case, arrived, lateness=2, saves=saves) == expected, case.text()
