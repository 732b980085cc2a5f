"""Entailment against owlrl, a public reasoner: its closures and ours are equal; queries see them at all instants."""

from __future__ import annotations

import pytest
from harness import Feed, arrivals, feed
from hypothesis import given, reject
from hypothesis import strategies as st
from test_entailment import closed_events, run_of, text_of

import thalweg as tw
from thalweg.schema import Schema, close_triples
from thalweg.testing import entailment as judge
from thalweg.testing.reasoner import ReasonedOracle, reasoned
from thalweg.testing.snapshot import Triple
from thalweg.testing.strategies import PREDICATES, any_windows, questions, schemas, streams, typed_triples

pytestmark = pytest.mark.slow


def by_engine(schema: list[Triple], data: list[Triple], rules: list[str]) -> set[Triple]:
    """The closure of a graph as the engine makes it of static data and files."""
    return set(close_triples(Schema.of(schema, rules), data))


@given(schemas(about_types=False, transitive=True), st.lists(typed_triples(blanks=True), max_size=12))
def test_three_closures_of_a_graph_are_equal(schema: list[Triple], data: list[Triple]) -> None:
    rules = [*judge.ALL_RULES, "transitive"]
    expected = reasoned(schema, data)
    assert judge.closed(schema, data, rules) == expected
    assert by_engine(schema, data, rules) == expected


@given(schemas(), st.lists(typed_triples(), max_size=12))
def test_under_axioms_about_types_a_reasoner_that_reads_the_schema_as_data_finds_more(
    schema: list[Triple], data: list[Triple]
) -> None:
    assert judge.closed(schema, data) <= reasoned(schema, data)


@given(st.data())
def test_deltas_sum_to_the_snapshot_that_the_reasoner_closes(data: st.DataObject) -> None:
    schema = data.draw(schemas(about_types=False))
    events = data.draw(streams(deletes=True, max_events=10, made=typed_triples(blanks=True)))
    asked = questions(closed_events(schema, events), max_patterns=3, max_blocks=2, window=any_windows())
    question = data.draw(asked)
    run = run_of(question, schema)
    feed(run, data.draw(arrivals(events)), data.draw)
    run.emitted[0].check_sums(ReasonedOracle(question, events, schema))


@pytest.mark.soak
@given(st.data())
def test_chains_are_those_of_the_reasoner(data: st.DataObject) -> None:
    schema = data.draw(schemas(about_types=False, transitive=True))
    schema = [*schema, (PREDICATES[0], judge.A, judge.TRANSITIVE)]
    events = data.draw(streams(deletes=True, max_events=10, made=typed_triples()))
    asked = questions(closed_events(schema, events), max_patterns=2, max_blocks=1)
    question = data.draw(asked.filter(lambda one: "?p " not in one.text()))
    run = Feed([])
    try:
        run.register(question, schema=text_of(schema), rules="default,transitive")
    except tw.UnsupportedError:
        reject()
    feed(run, data.draw(arrivals(events)), data.draw)
    run.emitted[0].check_sums(ReasonedOracle(question, events, schema))
