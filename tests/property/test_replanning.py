"""Plans that change while the stream flows change no answer."""

from __future__ import annotations

import pytest
from harness import Feed, arrivals, feed
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from thalweg.operators import statistics
from thalweg.testing.snapshot import Oracle
from thalweg.testing.strategies import STREAMS, questions, streams


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look at the data after every batch, and take every key for a hub."""
    monkeypatch.setattr(statistics, "_FIRST_PERIOD", 0)
    monkeypatch.setattr(statistics, "_LONGEST_PERIOD", 1)
    monkeypatch.setattr(statistics, "_HUB", 1.5)


@pytest.mark.usefixtures("eager")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_statistics_after_every_batch_change_no_answer(data: st.DataObject) -> None:
    events = data.draw(streams(max_events=16, deletes=data.draw(st.booleans())))
    question = data.draw(questions(events))
    run = Feed([question])
    feed(run, data.draw(arrivals(events)), data.draw)
    run.emitted[0].check_sums(Oracle(question, events))


@pytest.mark.usefixtures("eager")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_statistics_disturb_no_neighbour(data: st.DataObject) -> None:
    events = data.draw(streams(names=STREAMS[:1], max_events=16))
    asked = data.draw(st.lists(questions(events, max_patterns=4), min_size=2, max_size=3))
    run = Feed(asked)
    feed(run, data.draw(arrivals(events)), data.draw)
    for emitted in run.emitted:
        emitted.check_sums(Oracle(emitted.question, events))
