"""Ends: of streams, of windows that outlive them, of time, and of what counts as in time."""

from __future__ import annotations

from collections import Counter

import pytest
from harness import GENERATED_AT, NEVER, Feed, arrivals, feed
from hypothesis import assume, event, given
from hypothesis import strategies as st

import thalweg as tw
from thalweg.instants import FIRST, LAST
from thalweg.rdf.framing import StatementFramer
from thalweg.rdf.ntriples import LineReader
from thalweg.testing.snapshot import Event, Oracle, Question, Range
from thalweg.testing.strategies import (
    MS,
    STREAMS,
    any_windows,
    long_windows,
    now_questions,
    questions,
    streams,
    time_texts,
    wanted,
    windows,
)


@st.composite
def beside_each_other(draw: st.DrawFn, events: list[Event]) -> list[Question]:
    """Questions over the same streams, some with windows that end and some with windows that never do."""
    window = st.one_of(windows(), any_windows())
    asked = questions(
        wanted(events),
        window=window,
        max_patterns=2,
        max_blocks=2,
        operators=(None, None, "ISTREAM", "DSTREAM"),
    )
    return draw(
        st.lists(st.one_of(asked, asked, now_questions(wanted(events), (None,))), min_size=1, max_size=4)
    )


def check_to_the_end(run: Feed, events: list[Event]) -> None:
    """Whatever the windows still did after the last event is there."""
    for emitted in run.emitted:
        oracle = Oracle(emitted.question, events)
        if emitted.question.operator is None:
            emitted.check(oracle)
        else:
            assert emitted.per_instant() == oracle.stream(), emitted.question.text()


@given(st.data())
def test_a_drain_empties_windows_beside_windows_that_never_end(data: st.DataObject) -> None:
    events = data.draw(streams(unwanted=True))
    run = Feed(data.draw(beside_each_other(events)))
    for event_ in data.draw(arrivals(events)):
        run.push(event_)
    run.finish(drain=True)
    run.poll()
    check_to_the_end(run, events)


@pytest.mark.parametrize("drain", [True, False])
@given(data=st.data())
def test_a_stream_that_ends_early_holds_nothing_back(drain: bool, data: st.DataObject) -> None:
    events = data.draw(streams(unwanted=True, deletes=data.draw(st.booleans())))
    run = Feed(data.draw(beside_each_other(events)))
    rest = Counter(event_.stream for event_ in events)
    for name in set(run.watermarks) - set(rest):
        run.finish(name)
    for event_ in data.draw(arrivals(events)):
        run.push(event_)
        rest[event_.stream] -= 1
        if not rest[event_.stream] and data.draw(st.booleans()):
            run.finish(event_.stream, drain=drain)
            event("a stream ended")
        if data.draw(st.booleans()):
            run.poll()
    run.finish(drain=drain)
    run.poll()
    if drain:
        check_to_the_end(run, events)
        return
    for emitted in run.emitted:
        emitted.check(Oracle(emitted.question, events))


@given(st.data())
def test_an_event_is_late_whether_or_not_a_query_wants_its_triples(data: st.DataObject) -> None:
    events = data.draw(streams(unwanted=True))
    question = data.draw(questions(wanted(events), max_patterns=2))
    latest: dict[str, int] = {}
    lateness = data.draw(st.sampled_from([0, 0, 2 * MS]))
    came = data.draw(st.permutations(events))
    late = []
    for event_ in came:
        if event_.time < latest.get(event_.stream, NEVER) - lateness:
            late.append(event_)
        latest[event_.stream] = max(latest.get(event_.stream, NEVER), event_.time)
    assume(late)
    run = Feed([question], lateness=lateness // MS)
    rest = list(came)
    while rest:
        batch = [rest.pop(0)]
        if data.draw(st.booleans()):
            run.push(batch[0])
            continue
        while rest and rest[0].stream == batch[0].stream:
            batch.append(rest.pop(0))
        run.push_batch(batch)
    assert run.session.stats.late == len(late)
    assert [(one.stream, one.at) for one in run.session.late()] == [(e.stream, e.time) for e in late]
    run.finish(drain=True)
    run.poll()
    taken = [event_ for event_ in came if event_ not in late]
    run.emitted[0].check_sums(Oracle(question, sorted(taken, key=lambda event_: event_.time)))


@given(st.data())
def test_answers_hold_at_the_first_and_the_last_times(data: st.DataObject) -> None:
    events = data.draw(streams(extreme=True))
    question = data.draw(questions(events, window=windows() | long_windows(), max_patterns=2))
    run = Feed([question])
    feed(run, data.draw(arrivals(events)), data.draw)
    run.emitted[0].check_sums(Oracle(question, events))


@given(times=st.lists(time_texts(), min_size=1, max_size=5))
def test_a_time_beyond_the_ends_is_refused_or_quarantined_and_no_other(times: list[tuple[str, int]]) -> None:
    times = sorted(times, key=lambda time: time[1])
    good = [us for _, us in times if FIRST <= us <= LAST]
    session = tw.Session()
    question = f"SELECT ?x FROM STREAM <{STREAMS[0]}> {Range(7 * MS)} {{ ?x <http://ex/p> ?y }}"
    query = session.register(question)
    for number, (text, us) in enumerate(times):
        graph = f"<http://ex/{number}> <http://ex/p> <http://ex/a> ."
        if us in good:
            session.push(STREAMS[0], at=text, graph=graph)
        else:
            with pytest.raises(tw.UsageError, match="range of time"):
                session.push(STREAMS[0], at=text, graph=graph)
    session.finish()
    assert [row.at for row in query.poll() if row.op == "+"] == good

    session = tw.Session()
    query = session.register(question)
    reader = LineReader(session.arena, session.prune(), syntax="nq", source="doc")
    framer = StatementFramer(STREAMS[0], mode="graphs", arena=session.arena)
    lines = "".join(
        f'<http://ex/g{k}> {GENERATED_AT} "{text}" .\n<http://ex/{k}> <http://ex/p> <http://ex/a> <http://ex/g{k}> .\n'
        for k, (text, _) in enumerate(times)
    )
    session.push_events(framer.frame(reader.read(lines.encode())))
    session.push_events(framer.close())
    session.finish()
    assert [row.at for row in query.poll() if row.op == "+"] == good
    refused = [reject for reject in session.quarantine() if reject.line]
    assert [reject.line for reject in refused] == [
        2 * k + 1 for k, (_, us) in enumerate(times) if us not in good
    ]
