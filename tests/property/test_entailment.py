"""Entailment under the snapshot law: random schemas, cyclic too, over streams with deletes and every kind of window."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from harness import Feed, arrivals, feed
from hypothesis import given, reject
from hypothesis import strategies as st

import thalweg as tw
from thalweg.testing import entailment as judge
from thalweg.testing.entailment import ClosedOracle
from thalweg.testing.snapshot import Event, Oracle, Question, Triple
from thalweg.testing.strategies import (
    PREDICATES,
    STREAMS,
    any_questions,
    any_windows,
    now_questions,
    questions,
    schemas,
    streams,
    typed_triples,
    windows,
)


def text_of(schema: Sequence[Triple]) -> str:
    return "".join(f"{s} {p} {o} .\n" for s, p, o in schema)


def closed_events(schema: Sequence[Triple], events: Sequence[Event]) -> list[Event]:
    """The events with what follows from each: for questions that these can answer."""
    return [replace(event, triples=tuple(sorted(judge.closed(schema, event.triples)))) for event in events]


def run_of(question: Question, schema: Sequence[Triple], **options: object) -> Feed:
    run = Feed([], **options)
    run.register(question, schema=text_of(schema))
    return run


@given(st.data())
def test_emitted_deltas_sum_to_the_closed_snapshot(data: st.DataObject) -> None:
    schema = data.draw(schemas())
    events = data.draw(streams(deletes=True, max_events=14, made=typed_triples(blanks=True)))
    question = data.draw(questions(closed_events(schema, events)))
    run = run_of(question, schema)
    feed(run, data.draw(arrivals(events)), data.draw)
    run.emitted[0].check_sums(ClosedOracle(question, events, schema))


@given(st.data())
def test_a_dense_stream_with_several_supports_of_each_triple(data: st.DataObject) -> None:
    schema = data.draw(schemas(about_types=False))
    events = data.draw(streams(names=STREAMS[:1], max_events=30, deletes=True, few=6, made=typed_triples()))
    asked = questions(closed_events(schema, events), max_blocks=1, max_patterns=2, window=windows())
    question = data.draw(asked)
    run = run_of(question, schema)
    feed(run, events, data.draw)
    run.emitted[0].check_sums(ClosedOracle(question, events, schema))


@given(st.data())
def test_every_kind_of_window_and_operator_sees_closed_contents(data: st.DataObject) -> None:
    schema = data.draw(schemas())
    events = data.draw(streams(deletes=data.draw(st.booleans()), made=typed_triples()))
    question = data.draw(any_questions(closed_events(schema, events), max_patterns=3, graphs=True))
    run = run_of(question, schema)
    feed(run, data.draw(arrivals(events)), data.draw)
    run.emitted[0].check(ClosedOracle(question, events, schema))


@given(st.data())
def test_windows_by_count_count_asserted_triples_only(data: st.DataObject) -> None:
    schema = data.draw(schemas(about_types=False))
    events = data.draw(streams(deletes=True, few=8, made=typed_triples()))
    asked = questions(closed_events(schema, events), window=any_windows(), max_patterns=2, max_blocks=2)
    question = data.draw(asked)
    run = run_of(question, schema)
    feed(run, data.draw(arrivals(events)), data.draw)
    run.emitted[0].check_sums(ClosedOracle(question, events, schema))


@given(st.data())
def test_now_closes_one_event(data: st.DataObject) -> None:
    schema = data.draw(schemas())
    events = data.draw(streams(deletes=True, made=typed_triples()))
    question = data.draw(now_questions(closed_events(schema, events), (None,)))
    run = run_of(question, schema)
    feed(run, data.draw(arrivals(events)), data.draw)
    run.emitted[0].check_events(ClosedOracle(question, events, schema))


@given(st.data())
def test_each_query_of_a_session_sees_its_own_closure_also_after_a_restart(data: st.DataObject) -> None:
    one, other = data.draw(schemas()), data.draw(schemas())
    events = data.draw(streams(deletes=True, max_events=14, made=typed_triples()))
    asked = questions(closed_events(one + other, events), max_blocks=2, max_patterns=3)
    run = Feed([])
    oracles: list[Oracle] = []
    for schema in (one, other, None):
        question = data.draw(asked)
        if schema is None:
            run.register(question)
            oracles.append(Oracle(question, events))
        else:
            run.register(question, schema=text_of(schema))
            oracles.append(ClosedOracle(question, events, schema))
    restarts = data.draw(st.booleans())

    def between(rest: list[Event]) -> None:
        if restarts and data.draw(st.integers(0, 2)) == 0:
            run.poll()
            run.restart()

    feed(run, data.draw(arrivals(events)), data.draw, between)
    for emitted, oracle in zip(run.emitted, oracles, strict=True):
        emitted.check_sums(oracle)


@given(st.data())
def test_re_evaluation_sees_the_same_closed_contents(data: st.DataObject) -> None:
    schema = data.draw(schemas())
    events = data.draw(streams(deletes=True, made=typed_triples()))
    question = data.draw(questions(closed_events(schema, events), max_patterns=3, window=any_windows()))
    run = run_of(question, schema, strategy="reevaluate")
    feed(run, data.draw(arrivals(events)), data.draw)
    run.emitted[0].check_sums(ClosedOracle(question, events, schema))


@given(st.data())
def test_a_query_that_comes_in_mid_stream_sees_the_closure_of_what_comes_from_then_on(
    data: st.DataObject,
) -> None:
    schema = data.draw(schemas())
    events = data.draw(streams(names=STREAMS[:1], deletes=True, max_events=16, made=typed_triples()))
    asked = questions(closed_events(schema, events), max_blocks=1, max_patterns=3)
    early, late = data.draw(asked), data.draw(asked)
    at = data.draw(st.integers(1, len(events)))
    run = run_of(early, schema)

    def between(rest: list[Event]) -> None:
        if len(rest) <= len(events) - at and len(run.emitted) == 1:
            run.register(late, schema=text_of(schema))
            oracles.append(ClosedOracle(late, rest.copy(), schema))

    oracles = [ClosedOracle(early, events, schema)]
    feed(run, events, data.draw, between)
    for emitted, oracle in zip(run.emitted, oracles, strict=False):
        emitted.check_sums(oracle)


@given(st.data())
def test_chains_of_transitive_properties_are_triples(data: st.DataObject) -> None:
    rules = [*judge.ALL_RULES, "transitive"]
    schema = data.draw(schemas(transitive=True, about_types=False))
    transitive = [PREDICATES[0], judge.A, judge.TRANSITIVE]
    schema = [*schema, (transitive[0], transitive[1], transitive[2])]
    events = data.draw(streams(deletes=True, max_events=12, made=typed_triples()))
    asked = questions(closed_events(schema, events), max_patterns=3, max_blocks=2)
    question = data.draw(asked.filter(lambda one: "?p " not in one.text()))
    run = Feed([])
    try:
        run.register(question, schema=text_of(schema), rules=rules)
    except tw.UnsupportedError:
        reject()
    feed(run, data.draw(arrivals(events)), data.draw)
    run.emitted[0].check_sums(ClosedOracle(question, events, schema, rules))
