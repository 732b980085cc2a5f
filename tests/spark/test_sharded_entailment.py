"""Entailment in the stateful step: random schemas in shards, with kills and restarts, against one process."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, event, given
from hypothesis import strategies as st

from tests.spark.fakes import job_of, pushed, run_frame, told
from tests.spark.test_sharded_algebra import ended, played
from thalweg.lang import parse
from thalweg.schema import schema_of
from thalweg.testing import entailment as judge
from thalweg.testing.snapshot import Event, Triple
from thalweg.testing.strategies import any_windows, questions, schemas, streams, typed_triples

S = "http://ex/s"
SCHEMA = """PREFIX rdfs: <http://www.w3.org/2000/01/rdf-schema#> PREFIX owl: <http://www.w3.org/2002/07/owl#>
PREFIX : <http://ex/>
:Student rdfs:subClassOf :Person .
:teaches rdfs:domain :Person ; owl:inverseOf :taughtBy . :likes a owl:SymmetricProperty ."""
QUERY = """PREFIX : <http://ex/> SELECT ?x ?y ?z FROM STREAM <http://ex/s> [RANGE 10s]
WHERE { ?x a :Person . ?x :likes ?y . ?z :taughtBy ?x }"""
DATA = """<http://ex/n1> <http://ex/teaches> <http://ex/n3> .
<http://ex/n2> <http://ex/likes> <http://ex/n1> .
<http://ex/n2> <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> <http://ex/Student> .
<http://ex/n2> <http://ex/teaches> <http://ex/n4> .
<http://ex/n5> <http://ex/likes> <http://ex/n5> .
"""


def rows_in_shards(
    data: st.DataObject,
    schema: Sequence[Triple],
    events: Sequence[Event],
    shards: Sequence[int],
    **asked: Any,
) -> None:
    closed = [
        Event(one.stream, one.time, tuple(sorted(judge.closed(schema, one.triples))), one.graph)
        for one in events
    ]
    question = data.draw(questions(closed, **asked))
    query = parse(question.text()).under(schema_of("".join(f"{s} {p} {o} .\n" for s, p, o in schema)))
    job = job_of(query, shards=data.draw(st.sampled_from(shards)))  # type: ignore[arg-type]
    spread = job.reading.router.shares.shards
    assume(spread > 1 or 1 in shards)
    whole = ended(events, sorted(question.streams))
    play = played(data, job, whole)
    assert told(play.rows) == told(pushed(job, whole)), question.text()
    event(f"{spread} shards, rows: {min(len(play.rows), 3)}")


@given(data=st.data())
def test_shards_give_the_rows_of_one_process_whatever_batches_retries_and_workers_do(
    data: st.DataObject,
) -> None:
    schema = data.draw(schemas())
    events = data.draw(streams(deletes=True, made=typed_triples()))
    rows_in_shards(data, schema, events, [1, 2, 3, 4], window=any_windows(), max_patterns=3)


@given(data=st.data())
def test_derived_triples_reach_the_shards_of_the_patterns_that_they_match(data: st.DataObject) -> None:
    schema = data.draw(schemas(about_types=False))
    events = data.draw(streams(deletes=True, max_events=16, few=10, made=typed_triples()))
    rows_in_shards(data, schema, events, [2, 3, 4], max_blocks=2, max_patterns=3)


def answers(tmp_path: Path, spark: Any, shards: int) -> list[tuple[Any, ...]]:
    import thalweg as tw

    (tmp_path / "in").mkdir(exist_ok=True)
    (tmp_path / "in" / "s.nt").write_text(DATA)
    events = tw.spark.read(spark, str(tmp_path / "in"), stream=S)
    frame = tw.spark.run(events, QUERY, schema=SCHEMA, shards=shards)
    rows, _ = run_frame(frame, str(tmp_path / f"checkpoint{shards}"))
    return told(rows)


@pytest.mark.spark
def test_a_schema_gives_the_same_rows_on_spark(tmp_path: Path, spark: Any) -> None:
    import thalweg as tw

    session = tw.Session()
    query = session.register(QUERY, schema=SCHEMA)
    for number, line in enumerate(DATA.splitlines()):
        session.push(S, at=number, graph=line)
    session.finish()
    expected = told(query.poll())
    assert len(expected) == 2
    assert answers(tmp_path, spark, 3) == expected
