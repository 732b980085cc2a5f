"""The law holds beyond the easy case: disorder, late registration, colliding ids, texts that come and go."""

from __future__ import annotations

import pytest
from harness import Feed, arrivals, at_argument, feed
from hypothesis import given
from hypothesis import strategies as st

from thalweg import compaction, engine
from thalweg.rdf.arena import Arena
from thalweg.testing.snapshot import Event, Oracle, Range, Unbounded
from thalweg.testing.strategies import MS, STREAMS, questions, streams, windows


@given(st.data())
def test_what_comes_within_the_lateness_counts_and_what_comes_later_is_reported(data: st.DataObject) -> None:
    ordered = data.draw(streams(names=STREAMS[:1]))
    question = data.draw(questions(ordered, max_patterns=3))
    lateness = data.draw(st.sampled_from([1, 2, 5, 50])) * MS
    arrived = data.draw(st.permutations(ordered)) if data.draw(st.booleans()) else ordered
    run = Feed([question], lateness=lateness // MS)
    accepted: list[Event] = []
    refused = []
    latest = None
    for event in arrived:
        late = latest is not None and event.time < latest - lateness
        (refused if late else accepted).append(event)
        latest = event.time if latest is None else max(latest, event.time)
        run.push(event)
    assert latest is not None
    run.advance(latest + 60_007)
    run.poll()
    run.emitted[0].check_sums(Oracle(question, accepted))
    told = run.session.late()
    kept = [event for event in refused if any(_may_match(event, question.blocks))]
    assert {late.at for late in told} <= {event.time for event in refused}
    assert len(told) == run.session.stats.late <= len(refused)
    assert {event.time for event in kept} <= {late.at for late in told}


def _may_match(event: Event, blocks: object) -> list[bool]:
    return [
        all(want[0] in "?_" or want == have for want, have in zip(pattern, triple, strict=True))
        for block in blocks  # type: ignore[attr-defined]
        for pattern in block.patterns
        for triple in event.triples
    ]


@given(st.data())
def test_a_query_sees_the_events_that_come_after_its_registration(data: st.DataObject) -> None:
    events = data.draw(streams())
    first, second = data.draw(questions(events, max_patterns=2)), data.draw(questions(events, max_patterns=2))
    cut = data.draw(st.integers(0, len(events)))
    run = Feed([first])
    for event in events[:cut]:
        run.push(event)
    run.register(second)
    for event in events[cut:]:
        run.push(event)
    run.advance(events[-1].time + 60_007)
    run.poll()
    run.emitted[0].check_sums(Oracle(first, events))
    run.emitted[1].check_sums(Oracle(second, events[cut:]))


@given(st.data())
def test_stable_blank_nodes_join_across_events(data: st.DataObject) -> None:
    events = data.draw(streams(blanks=True))
    question = data.draw(questions(events, max_patterns=3))
    run = Feed([question], blank_nodes="stable")
    feed(run, data.draw(arrivals(events)), data.draw)
    run.emitted[0].check_sums(Oracle(question, events, stable=True))


@given(st.data())
def test_ids_that_collide_change_no_answer(data: st.DataObject) -> None:
    events = data.draw(streams())
    question = data.draw(questions(events))
    run = Feed([question], arena=Arena(hash_mask=data.draw(st.sampled_from([0, 1, 7]))))
    feed(run, data.draw(arrivals(events)), data.draw)
    run.emitted[0].check_sums(Oracle(question, events))


@given(st.data())
def test_letting_go_of_texts_after_every_event_changes_no_answer(data: st.DataObject) -> None:
    events = data.draw(streams())
    asked = data.draw(st.lists(questions(events, max_patterns=3), min_size=1, max_size=2))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compaction, "_FEW_BYTES", 0)
        run = Feed(asked)
        for event in events:
            run.session._compaction.threshold = 0
            run.push(event)
            if data.draw(st.booleans()):
                run.poll()
        run.advance(events[-1].time + 60_007)
        run.poll()
    assert run.session.stats.compactions
    for emitted in run.emitted:
        emitted.check_sums(Oracle(emitted.question, events))


@given(st.data())
def test_when_all_has_ended_and_drained_a_bounded_window_is_empty(data: st.DataObject) -> None:
    events = data.draw(streams())
    question = data.draw(questions(events, max_patterns=3, window=windows()))
    run = Feed([question])
    for event in events:
        run.push(event)
    run.session.finish(drain=True)
    for name in run.watermarks:
        run.watermarks[name] = 2**62
    run.poll()
    run.emitted[0].check_sums(Oracle(question, events))
    if not any(isinstance(block.window, Unbounded) for block in question.blocks):
        rows = run.emitted[0].rows
        assert sum(op == "+" for _, op, _ in rows) == sum(op == "-" for _, op, _ in rows)


@given(st.data())
def test_times_may_lie_far_from_today(data: st.DataObject) -> None:
    base = data.draw(
        st.sampled_from([-(10**17), 10**17, 253_402_300_000_000_000])
    )  # around years -1200, 5100, 9999
    events = [
        Event(event.stream, base + event.time % 100_000, event.triples, event.graph)
        for event in data.draw(streams(names=STREAMS[:1]))
    ]
    events.sort(key=lambda event: event.time)
    question = data.draw(questions(events, max_blocks=1, max_patterns=2, window=st.just(Range(7 * MS))))
    run = Feed([question])
    for event in events:
        run.session.push(event.stream, at=event.time // 1000, graph=event.text)
    run.session.advance(events[-1].time // 1000 + 60)
    run.watermarks[STREAMS[0]] = (events[-1].time // 1000 + 60) * 1000
    run.poll()
    cut = [Event(e.stream, e.time // 1000 * 1000, e.triples) for e in events]
    run.emitted[0].check_sums(Oracle(question, cut))


def test_an_event_before_the_watermark_is_reported_with_its_reason() -> None:
    session = engine.Session()
    session.register("SELECT * FROM STREAM <http://ex/s> [RANGE 10] WHERE { ?x <http://ex/p> ?y }")
    session.push("http://ex/s", at=at_argument(5_000), graph="<http://ex/a> <http://ex/p> <http://ex/b> .")
    session.push("http://ex/s", at=at_argument(3_000), graph="<http://ex/a> <http://ex/p> <http://ex/c> .")
    [late] = session.late()
    assert (late.stream, late.at, late.watermark) == ("http://ex/s", 3_000, 5_000)
    assert "before the watermark" in late.reason
