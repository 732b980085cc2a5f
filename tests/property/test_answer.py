"""The present answer: `query.answer()` is the snapshot at every instant, and the sum of the deltas."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from harness import Feed, date_time
from hypothesis import given
from hypothesis import strategies as st

import thalweg as tw
from thalweg.testing.algebra import FEATURES, FORMS, algebra_questions, algebra_streams
from thalweg.testing.snapshot import Oracle, Question, blur
from thalweg.testing.strategies import any_windows, constructs, questions, streams

OPERATORS = (None, "RSTREAM", "ISTREAM", "DSTREAM")


def answer_of(query: Any) -> Counter[object]:
    rows = query.answer()
    assert {row.op for row in rows} <= {"+"}
    assert len({row.at for row in rows}) <= 1
    return Counter(blur(row.bindings.items()) for row in rows)


def sum_of(rows: list[Any]) -> Counter[object]:
    total: Counter[object] = Counter()
    for row in rows:
        total[blur(row.bindings.items())] += 1 if row.op == "+" else -1
    assert min(total.values(), default=0) >= 0
    return +total


@given(st.data())
def test_the_answer_is_the_snapshot_and_the_sum_of_the_deltas_at_every_instant(data: st.DataObject) -> None:
    events = data.draw(streams(max_events=10, deletes=data.draw(st.booleans())))
    one = questions(events, window=any_windows(), max_patterns=4, operators=OPERATORS)
    one = st.one_of(one, one, one, constructs(one))
    first, second = data.draw(one), data.draw(one)
    feed = Feed([first])
    asked: list[tuple[Question, int, list[Any], Any]] = []

    def register(question: Question, place: int) -> None:
        twin = feed.session.register(replace(question, operator=None).text())
        asked.append((question, place, [], twin))

    register(first, 0)
    comes = data.draw(st.integers(0, len(events)))
    saves = data.draw(st.sets(st.integers(0, len(events)), max_size=2))
    for place, event in enumerate([*events, None]):
        if place == comes:
            feed.register(second)
            register(second, place)
        if event is not None:
            feed.push(event)
        else:
            feed.advance(events[-1].time + data.draw(st.integers(0, 30_000)))
        if place in saves:
            numbers = [(feed.session.queries.index(e.query)) for e in feed.emitted]
            twins = [feed.session.queries.index(twin) for *_, twin in asked]
            feed.session = tw.Session.restore(feed.session.save())
            for emitted, number in zip(feed.emitted, numbers, strict=True):
                emitted.query = feed.session.queries[number]
            asked = [(*rest, feed.session.queries[n]) for (*rest, _), n in zip(asked, twins, strict=True)]
        for emitted, (question, since, rows, twin) in zip(feed.emitted, asked, strict=True):
            rows += twin.poll()
            found = answer_of(emitted.query)
            assert found == sum_of(rows), question.text()
            assert found == answer_of(twin)
            bound = min(feed.watermarks[stream] for stream in question.streams)
            if question.template is None:
                wanted = Oracle(replace(question, operator=None), events[since : place + 1]).answer(bound)
                assert found == Counter({blur(row): n for row, n in wanted.items()}), question.text()


@given(st.data())
def test_the_answer_of_any_algebra_is_the_sum_of_the_deltas_down_to_its_new_nodes(
    data: st.DataObject,
) -> None:
    events = data.draw(algebra_streams(max_events=8))
    sources = data.draw(st.sampled_from(["default", "named"]))
    session = tw.Session()
    question = data.draw(algebra_questions(events, features=FEATURES, forms=FORMS, sources=sources))
    query = session.register(question.text())
    total: Counter[object] = Counter()
    restored = data.draw(st.integers(0, len(events)))
    for place, event in enumerate(events):
        session.push(
            event.stream,
            at=tw.Instant(date_time(event.time)),
            graph=event.text,
            op=event.op,
            name=event.graph,
        )
        if place == restored:
            session = tw.Session.restore(session.save())
            (query,) = session.queries
        for row in query.poll():
            total[frozenset(row.bindings.items())] += 1 if row.op == "+" else -1
        found = Counter(frozenset(row.bindings.items()) for row in query.answer())
        assert found == +total, question.text()


TEXT = "SELECT ?x FROM STREAM <http://ex/s> [RANGE 10] WHERE { ?x <http://ex/p> ?y }"


def test_the_answer_takes_nothing_from_poll_and_has_equal_rows_as_often_as_they_are_in_it() -> None:
    session = tw.Session()
    query = session.register(TEXT)
    assert query.answer() == []
    session.push("http://ex/s", at=1, graph=[("http://ex/a", "http://ex/p", n) for n in range(3)])
    assert [row["x"] for row in query.answer()] == ["<http://ex/a>"] * 3
    assert query.answer()[0].at == query.answer()[0].at == tw.Instant(1)
    assert len(query.poll()) == 3
    session.advance(11)
    assert query.answer() == []
    assert [row.op for row in query.poll()] == ["-"] * 3


@pytest.mark.parametrize(("operator", "ranks"), [("", [None] * 3), ("REGISTER RSTREAM <o> AS ", [1, 2, 3])])
def test_an_answer_with_an_order_is_in_it_and_has_the_ranks_of_rstream(
    operator: str, ranks: list[int | None]
) -> None:
    session = tw.Session()
    query = session.register(operator + TEXT.replace("?x FROM", "?x ?y FROM") + " ORDER BY DESC(?y) LIMIT 3")
    session.push("http://ex/s", at=1, graph=[(f"http://ex/a{n}", "http://ex/p", n) for n in (2, 10, 1, 3)])
    session.advance(5)
    rows = query.answer()
    assert [row.value("y") for row in rows] == [10, 3, 2]
    assert [row.values.get("rank") for row in rows] == ranks
    assert len(query.poll()) == 3


def test_now_has_no_answer_at_an_instant() -> None:
    query = tw.Session().register(TEXT.replace("RANGE 10", "NOW"))
    with pytest.raises(tw.UsageError, match=r"\[NOW\] has an answer for each event"):
        query.answer()


def test_an_answer_over_empty_content_begins_with_the_first_instant() -> None:
    session = tw.Session()
    query = session.register(
        "SELECT ?v ?x FROM STREAM <http://ex/s> [RANGE 10] WHERE { VALUES ?v { 1 } OPTIONAL { ?x <http://ex/p> ?v } }"
    )
    assert query.answer() == []
    session.advance(5)
    assert [row.values for row in query.answer()] == [{"v": 1}]
    session.push("http://ex/s", at=5, graph=[("http://ex/a", "http://ex/p", 1)])
    assert [row.values for row in query.answer()] == [{"v": 1, "x": tw.IRI("http://ex/a")}]
    session.advance(20)
    assert [row.values for row in query.answer()] == [{"v": 1}]


def test_a_session_that_re_evaluates_has_no_content_to_show() -> None:
    session = tw.Session(strategy="reevaluate")
    query = session.register(TEXT)
    session.push("http://ex/s", at=1, graph=[("http://ex/a", "http://ex/p", 1)])
    with pytest.raises(tw.UsageError, match="re-evaluates"):
        query.answer()
