"""WITH RETRACTIONS against brute force: at every instant, deltas sum to the matches over the events that are left."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sequence_cases import accepted, by_value, cases, events, within_lateness

from thalweg import Session
from thalweg.testing.sequence_retraction import Change, answer_at
from thalweg.testing.sequences import Event, SequenceCase


@st.composite
def changes(draw: st.DrawFn, most: int) -> list[Change]:
    """Events, of which some are taken back; some deletes name nothing."""
    arrived = within_lateness(draw(events(most)), 2)
    found: list[Change] = []
    for event in arrived:
        found.append(Change(event))
        if draw(st.integers(0, 2)) == 0:
            named = draw(st.sampled_from(found)).event
            later = Event(named.stream, event.time + draw(st.integers(0, 1)), named.triples)
            found.append(Change(later, deletes=True))
    kept = within_lateness([one.event for one in found], 2)
    return [one for one in found if any(one.event is other for other in kept)]


def rounded(rows: Counter[tuple[str | None, ...]]) -> Counter[object]:
    """Rows whose averages have one spelling."""
    return Counter({by_value((0, row)): many for row, many in rows.items()})


@pytest.mark.filterwarnings("ignore::thalweg.errors.ThalwegWarning")
@settings(max_examples=4 * settings.default.max_examples)
@given(cases(4), changes(8), st.booleans())
def test_deltas_sum_to_the_matches_over_what_is_left(
    case: SequenceCase, arrived: list[Change], saves: bool
) -> None:
    case = replace(case, retracts=True)
    assume(accepted(case))
    session = Session(lateness=2)
    query = session.register(case.text())
    rows = []
    for one in arrived:
        op = "delete" if one.deletes else "insert"
        session.push(one.event.stream, at=one.event.time, graph="\n".join(one.event.triples), op=op)
        rows += query.poll()
        if saves:
            session = Session.restore(session.save())
            (query,) = session.queries
    session.finish(drain=True)
    rows += query.poll()
    assert not session.late()
    last = max(one.event.time for one in arrived) + case.within
    for until in range(last + 1):
        total: Counter[tuple[str | None, ...]] = Counter()
        for row in rows:
            if int(row.at) <= 1000 * until:
                total[tuple(row.get(name) for name in case.names)] += 1 if row.op == "+" else -1
        assert all(many >= 0 for many in total.values()), (case.text(), arrived)
        assert rounded(+total) == rounded(answer_at(case, arrived, until)), (until, case.text(), arrived)
