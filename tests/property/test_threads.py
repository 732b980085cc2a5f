"""With any number of threads, every query gives the same rows."""

from __future__ import annotations

import pytest
from harness import Feed, arrivals, feed
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from thalweg.engine import base
from thalweg.testing.snapshot import Oracle
from thalweg.testing.strategies import any_windows, questions, streams


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every batch is worth threads."""
    monkeypatch.setattr(base, "_MANY_ROWS", 0)


@pytest.mark.usefixtures("large")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_threads_change_nothing(data: st.DataObject) -> None:
    events = data.draw(streams(deletes=data.draw(st.booleans())))
    asked = data.draw(
        st.lists(questions(events, window=any_windows(), max_patterns=3), min_size=2, max_size=5)
    )
    order = data.draw(arrivals(events))
    end = events[-1].time + 60_007
    rows = []
    for threads in (1, 3):
        run = Feed(asked, threads=threads)
        for event in order:
            run.push(event)
        run.advance(end)
        run.poll()
        rows.append([(emitted.rows, emitted.graphs) for emitted in run.emitted])
    assert rows[0] == rows[1]


@pytest.mark.usefixtures("large")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_with_threads_deltas_sum_to_the_snapshot(data: st.DataObject) -> None:
    events = data.draw(streams())
    asked = data.draw(st.lists(questions(events, max_patterns=3), min_size=2, max_size=4))
    run = Feed(asked, threads=data.draw(st.integers(2, 4)))
    feed(run, data.draw(arrivals(events)), data.draw)
    for emitted in run.emitted:
        emitted.check_sums(Oracle(emitted.question, events))
