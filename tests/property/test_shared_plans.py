"""Queries that differ in constants share plans, and each has its own answers."""

from __future__ import annotations

from dataclasses import replace

import pytest
from harness import Feed, arrivals, feed
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from thalweg.operators import statistics
from thalweg.plan import program, shapes
from thalweg.testing.snapshot import Event, Oracle, Question
from thalweg.testing.strategies import LITERALS, NODES, questions, streams


@pytest.fixture
def sharing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two queries are many, and one alone has a shape."""
    monkeypatch.setattr(program, "FEW_QUERIES", 1)
    monkeypatch.setattr(shapes, "_FEW_ALIKE", 1)


@st.composite
def alike(draw: st.DrawFn, events: list[Event], **options: object) -> list[Question]:
    """Some questions of one shape, and perhaps one of another."""
    first = draw(questions(events, **options))
    variables = sorted({t for b in first.blocks for p in b.patterns for t in (p[0], p[2]) if t[0] == "?"})
    fixed = draw(st.lists(st.sampled_from(variables), max_size=2, unique=True)) if variables else []
    if len(fixed) == len(variables):
        fixed = fixed[:-1]
    result = []
    for _ in range(draw(st.integers(2, 5))):
        result.append(_varied(draw, first, fixed))
    if draw(st.booleans()):
        result.append(draw(questions(events, **options)))
    return draw(st.permutations(result))


def _varied(draw: st.DrawFn, question: Question, fixed: list[str]) -> Question:
    """The question with other constants; some of its variables become constants."""
    nodes, objects = st.sampled_from(NODES), st.sampled_from(NODES + LITERALS[:2])
    chosen = {name: draw(nodes) for name in fixed}

    def varied(pattern: tuple[str, str, str]) -> tuple[str, str, str]:
        s, p, o = pattern
        s = chosen.get(s) or (s if s[0] in "?_" else draw(nodes))
        o = chosen.get(o) or (o if o[0] in "?_" else draw(objects))
        return s, chosen.get(p, p), o

    blocks = tuple(replace(b, patterns=tuple(map(varied, b.patterns))) for b in question.blocks)
    left = {t[1:] for b in blocks for p in b.patterns for t in p if t[0] == "?"}
    select = tuple(name for name in question.select if name in left)
    return replace(question, blocks=blocks, select=select if left else ("none",))


@pytest.mark.usefixtures("sharing")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_queries_that_share_a_plan_have_their_own_answers(data: st.DataObject) -> None:
    events = data.draw(streams(max_events=16, deletes=data.draw(st.booleans())))
    run = Feed(data.draw(alike(events, max_patterns=4)))
    feed(run, data.draw(arrivals(events)), data.draw)
    for emitted in run.emitted:
        emitted.check_sums(Oracle(emitted.question, events))


@pytest.mark.usefixtures("sharing")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_a_query_that_leaves_a_shared_plan_takes_nothing_with_it(data: st.DataObject) -> None:
    events = data.draw(streams(max_events=12))
    run = Feed(data.draw(alike(events, max_patterns=3)))
    for event in events[: len(events) // 2]:
        run.push(event)
    gone = run.emitted.pop(data.draw(st.integers(0, len(run.emitted) - 1)))
    gone.query.poll()
    run.session.unregister(gone.query)
    for event in events[len(events) // 2 :]:
        run.push(event)
    run.advance(events[-1].time + 30_001)
    run.poll()
    assert gone.query.poll() == []
    for emitted in run.emitted:
        emitted.check_sums(Oracle(emitted.question, events))


@pytest.mark.usefixtures("sharing")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_plans_that_are_no_longer_shared_go_on_where_they_were(data: st.DataObject) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(statistics, "_FIRST_PERIOD", 0)
        patch.setattr(statistics, "_EXCESS_WORK", data.draw(st.integers(-1, 1)))
        events = data.draw(streams(max_events=16))
        run = Feed(data.draw(alike(events, max_patterns=4)))
        feed(run, data.draw(arrivals(events)), data.draw)
    for emitted in run.emitted:
        emitted.check_sums(Oracle(emitted.question, events))
