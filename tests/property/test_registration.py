"""Queries that come and go in mid-stream: each sees what arrives while it is there, and nothing else.

The law of docs/semantics.md: the answer of a query is that over the events that arrived after its registration. What
came before is not in its windows and was not counted by them, and a delete of it deletes nothing; the watermarks of
its streams are those that they already had.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from harness import NEVER, Emitted, Feed, arrivals, feed
from hypothesis import given
from hypothesis import strategies as st

import thalweg as tw
from thalweg.engine import base
from thalweg.testing.snapshot import Event, Oracle, blur
from thalweg.testing.strategies import any_questions, streams
from thalweg.testing.windows import Now, Range

OPTIONS: dict[str, dict[str, Any]] = {
    "incremental": {},
    "re-evaluating": {"strategy": "reevaluate"},
    "three threads": {"threads": 3},
}


@pytest.fixture(autouse=True, scope="module")
def always_threads() -> Iterator[None]:
    """Every batch is worth threads, where there are some."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(base, "_MANY_ROWS", 0)
        yield


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS.keys())
@given(data=st.data())
def test_each_query_answers_over_what_arrives_while_it_is_registered(
    options: dict[str, Any], data: st.DataObject
) -> None:
    events = data.draw(streams(max_events=12, deletes=data.draw(st.booleans())))
    some = any_questions(events, max_patterns=3, graphs=True)
    kept = [data.draw(some)]  # the same question again is another query
    run = Feed(data.draw(st.lists(some, max_size=2)), **options)
    arrived = data.draw(arrivals(events))
    begun = {id(emitted): 0 for emitted in run.emitted}
    gone: list[tuple[Emitted, int]] = []

    def between(rest: list[Event]) -> None:
        place = len(arrived) - len(rest)
        while run.emitted and data.draw(st.integers(0, 3)) == 0:
            emitted = data.draw(st.sampled_from(run.emitted))
            run.unregister(emitted)
            gone.append((emitted, place))
        while len(run.emitted) < 4 and data.draw(st.integers(0, 2)) == 0:
            kept.append(data.draw(st.one_of(some, st.sampled_from(kept))))
            begun[id(run.register(kept[-1]))] = place
        if "strategy" not in options and data.draw(st.integers(0, 4)) == 0:
            run.restart()

    feed(run, arrived, data.draw, between=between)
    for emitted, end in [*gone, *((emitted, len(arrived)) for emitted in run.emitted)]:
        emitted.check(Oracle(emitted.question, arrived[begun[id(emitted)] : end]))
    for emitted, _ in gone:
        assert emitted.query.poll() == [], "a query that has left is silent"


def check_content(emitted: Emitted, oracle: Oracle, low: int) -> None:
    """The law of start="content": the answer at the instant of registration as `+` rows, then changes."""
    question = emitted.question
    windows = [block.window for block in question.blocks]
    if isinstance(windows[0], Now):
        assert all(at >= low for at, _, _ in emitted.rows)
        return
    early = all(isinstance(window, Range) and window.half_open for window in windows)
    start = low if early or not question.operator else low - 1  # the last instant that was complete
    assert all(at >= start for at, _, _ in emitted.rows), "what came before is not shown"
    first = Counter(row for at, op, row in emitted.rows if at == start and op == "+")
    settled = emitted.settled
    if not question.operator:
        instants = [low, *(t for t in oracle.instants() if low < t)]
        for t in (t for t in instants if t < settled):
            total: Counter[Any] = Counter()
            for at, op, row in emitted.rows:
                if at <= t:
                    total[blur(row)] += 1 if op == "+" else -1
            want: Counter[Any] = Counter()
            for row, n in oracle.answer(t).items():
                want[blur(row)] += n
            assert {row: n for row, n in total.items() if n} == dict(want), f"at {t}: {question.text()}"
        return
    if start < settled:
        assert first == (Counter() if question.operator == "DSTREAM" else oracle.answer(start)), (
            question.text()
        )
    have = {t: rows for t, rows in emitted.per_instant().items() if start < t < settled}
    want_rows = {t: rows for t, rows in oracle.stream(settled).items() if start < t < settled}
    assert have == want_rows, question.text()


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS.keys())
@given(data=st.data())
def test_a_query_may_begin_with_what_its_streams_retain(options: dict[str, Any], data: st.DataObject) -> None:
    events = data.draw(streams(max_events=12, deletes=data.draw(st.booleans())))
    some = any_questions(events, max_patterns=3)
    run = Feed(data.draw(st.lists(some, max_size=1)), **options)
    keep = data.draw(st.sampled_from([None, None, 2_000, 11_000]))
    for name in {event.stream for event in events}:
        run.session.retain(name, None if keep is None else keep // 1000)
    arrived = data.draw(arrivals(events))
    begun: dict[int, tuple[int, list[Event]]] = {}

    def between(rest: list[Event]) -> None:
        while len(run.emitted) < 4 and data.draw(st.integers(0, 2)) == 0:
            marks = dict(run.watermarks)
            emitted = run.register(data.draw(some), start="content")
            seen = [
                event
                for event in arrived[: len(arrived) - len(rest)]
                if keep is None or event.time > marks.get(event.stream, NEVER) - keep
            ]
            low = min(marks.get(name, NEVER) for name in emitted.question.streams)
            begun[id(emitted)] = low, [*seen, *rest]
        if "strategy" not in options and data.draw(st.integers(0, 4)) == 0:
            run.restart()

    feed(run, arrived, data.draw, between=between)
    for emitted in run.emitted:
        if id(emitted) in begun:
            low, known = begun[id(emitted)]
            check_content(emitted, Oracle(emitted.question, known), low)
        else:
            emitted.check(Oracle(emitted.question, arrived))


ONE = "SELECT ?y FROM STREAM <http://ex/s> [RANGE 10] WHERE {{ ?x <http://ex/{}> ?y }}"


def push(session: tw.Session, at: int, *triples: str) -> None:
    lines = (f"<http://ex/a> <http://ex/{p}> <http://ex/{o}> .\n" for p, o in triples)
    session.push("http://ex/s", at=at, graph="".join(lines))


def told(query: Any) -> list[tuple[int, str, str]]:
    return [(row.at // 1000, row.op, row["y"]) for row in query.poll()]


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS.keys())
def test_a_query_may_come_when_nothing_that_was_wanted_has_come_yet(options: dict[str, Any]) -> None:
    session = tw.Session(**options)
    first = session.register(ONE.format("p"))
    push(session, 1, "qx")
    session.advance(2)
    second = session.register(ONE.format("q"))
    push(session, 3, "py", "qz")
    assert told(first) == [(3, "+", "<http://ex/y>")]
    assert told(second) == [(3, "+", "<http://ex/z>")], "what came before it is not in its window"


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS.keys())
def test_what_a_query_had_found_does_not_leave_after_it(options: dict[str, Any]) -> None:
    session = tw.Session(**options)
    first, second = session.register(ONE.format("p")), session.register(ONE.format("q"))
    push(session, 1, "px", "qx")
    first.poll()
    session.unregister(first)
    push(session, 2, "py", "qy")
    session.advance(30)
    assert told(first) == []
    assert told(second) == [
        (1, "+", "<http://ex/x>"),
        (2, "+", "<http://ex/y>"),
        (11, "-", "<http://ex/x>"),
        (12, "-", "<http://ex/y>"),
    ]


def test_queries_that_begin_with_content_share_a_streamset_until_rows_come() -> None:
    session = tw.Session()
    session.retain("http://ex/s")
    push(session, 1, "px", "qy")
    first, second = (session.register(ONE.format(p), start="content") for p in "pq")
    assert first.streamset is second.streamset
    assert told(first) == [(1, "+", "<http://ex/x>")]
    assert told(second) == [(1, "+", "<http://ex/y>")]
    push(session, 2, "qz")
    third = session.register(ONE.format("q"), start="content")
    assert third.streamset is not second.streamset
    assert told(second) == [(2, "+", "<http://ex/z>")]
    assert told(third) == [(2, "+", "<http://ex/y>"), (2, "+", "<http://ex/z>")]


def test_content_needs_a_retained_stream() -> None:
    session = tw.Session()
    with pytest.raises(tw.UsageError, match=r"<http://ex/s> is not: call session.retain"):
        session.register(ONE.format("p"), start="content")
    with pytest.raises(tw.UsageError, match='"now" or "content"'):
        session.register(ONE.format("p"), start="later")
    assert session.queries == []


def test_what_no_query_wants_yet_is_retained_and_goes_with_time() -> None:
    session = tw.Session()
    session.retain("http://ex/s", "5ms")
    push(session, 1, "px")
    assert session.stats.unread == 0
    assert tw.Session.restore(session.save()).register(ONE.format("p"), start="content").poll()
    push(session, 7, "qx")
    query = session.register("SELECT ?y FROM STREAM <http://ex/s> WHERE { ?x ?p ?y }", start="content")
    assert told(query) == [(7, "+", "<http://ex/x>")]
    session.unregister(query)
    assert session.prune() == tw.rdf.prune.Prune.everything()
    session.advance(100)
    assert not any(map(len, session._retained["http://ex/s"].rows()))
