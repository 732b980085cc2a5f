"""Triples that come again and again: the law holds, and a window keeps a triple once however often it came."""

from __future__ import annotations

from harness import Feed, arrivals, feed
from hypothesis import given
from hypothesis import strategies as st

from thalweg.testing.snapshot import Event, Oracle
from thalweg.testing.strategies import STREAMS, any_questions, any_windows, questions, streams


def check_rows(run: Feed, events: list[Event]) -> None:
    """At most two rows of a triple in a window: the second only where two roundings of time leave a gap."""
    triples = len({triple for event in events for triple in event.triples})
    for home in run.session._streamsets:
        matcher = home._matcher
        if matcher is not None:
            assert home.live <= 2 * triples * len(matcher.stores)


@given(st.data())
def test_deltas_sum_to_the_snapshot_where_triples_come_again(data: st.DataObject) -> None:
    events = data.draw(streams(max_events=24, deletes=data.draw(st.booleans()), few=4))
    question = data.draw(questions(events, window=any_windows(), max_patterns=4))
    run = Feed([question])
    feed(run, data.draw(arrivals(events)), data.draw, lambda rest: check_rows(run, events))
    run.emitted[0].check_sums(Oracle(question, events))
    check_rows(run, events)


@given(st.data())
def test_one_window_whose_triples_are_prolonged_at_every_instant(data: st.DataObject) -> None:
    events = data.draw(streams(names=STREAMS[:1], max_events=40, deletes=data.draw(st.booleans()), few=3))
    question = data.draw(questions(events, max_blocks=1, max_patterns=3))
    run = Feed([question])
    feed(run, events, data.draw, lambda rest: check_rows(run, events))
    run.emitted[0].check_sums(Oracle(question, events))


@given(st.data())
def test_queries_over_repeated_triples_are_saved_restored_and_compacted_anywhere(data: st.DataObject) -> None:
    events = data.draw(streams(max_events=20, deletes=data.draw(st.booleans()), few=4))
    run = Feed(data.draw(st.lists(any_questions(events, max_patterns=3), min_size=1, max_size=3)))

    def between(rest: list[Event]) -> None:
        if data.draw(st.integers(0, 3)) == 0:
            run.restart()
        if data.draw(st.integers(0, 3)) == 0:  # as a store does when it has far more room than rows
            for home in run.session._streamsets:
                for number in range(len(home._matcher.stores) if home._matcher is not None else 0):
                    home._matcher.stores._cleared(number, home.bound)
                    home._matcher.stores._fit(number)

    feed(run, data.draw(arrivals(events)), data.draw, between)
    for emitted in run.emitted:
        emitted.check(Oracle(emitted.question, events))
    check_rows(run, events)
