"""The re-evaluating strategy keeps the same law as the incremental one."""

from __future__ import annotations

import pytest
from harness import Feed, arrivals, feed
from hypothesis import given
from hypothesis import strategies as st

import thalweg as tw
from thalweg.testing.snapshot import Oracle
from thalweg.testing.strategies import any_windows, questions, streams


@given(st.data())
def test_re_evaluation_sums_to_the_snapshot_too(data: st.DataObject) -> None:
    events = data.draw(streams(deletes=data.draw(st.booleans())))
    question = data.draw(questions(events, window=any_windows(), max_patterns=4))
    run = Feed([question], strategy="reevaluate")
    feed(run, data.draw(arrivals(events)), data.draw)
    run.emitted[0].check_sums(Oracle(question, events))


@given(st.data())
def test_both_strategies_give_the_same_streams(data: st.DataObject) -> None:
    events = data.draw(streams(deletes=True))
    asked = questions(
        events, window=any_windows(), max_patterns=3, operators=("RSTREAM", "ISTREAM", "DSTREAM")
    )
    question = data.draw(asked)
    streams_of = []
    for strategy in ("incremental", "reevaluate"):
        run = Feed([question], strategy=strategy)
        for event in events:
            run.push(event)
        run.advance(events[-1].time + 50_001)
        run.poll()
        streams_of.append(run.emitted[0].per_instant())
    assert streams_of[0] == streams_of[1]


def test_a_re_evaluating_session_is_for_comparison_only():
    session = tw.Session(strategy="reevaluate")
    session.register("SELECT * FROM STREAM <http://ex/s> WHERE { ?x <http://ex/p> ?y }")
    with pytest.raises(tw.UsageError, match="cannot be saved"):
        session.save()
    with pytest.raises(tw.UsageError, match="strategy is"):
        tw.Session(strategy="guess")
