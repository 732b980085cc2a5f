"""The store on Spark: written once, asked now and as of an instant, with the answers of other engines."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyoxigraph as ox
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import thalweg as tw
from thalweg.instants import as_instant
from thalweg.rdf.arena import Arena
from thalweg.rdf.events import EventBatch, Rows
from thalweg.testing.algebra import FEATURES, algebra_questions, algebra_streams
from thalweg.testing.algebra_oracle import AlgebraOracle
from thalweg.testing.answers import answer_of, by_value, equal_bags, term_of
from thalweg.testing.judge import TooLargeError
from thalweg.testing.judge_expressions import UndecidedError
from thalweg.testing.snapshot import Unbounded

pytestmark = pytest.mark.spark
S, T = "http://ex/s", "http://ex/t"
INTEGER = "http://www.w3.org/2001/XMLSchema#integer"


def batch_of(stream: str, at: int, op: int, triples: Any, arena: Arena) -> EventBatch:
    ids = np.array([[arena.intern(text.encode()) for text in triple] for triple in triples], np.int64)
    s, p, o = ids.reshape(-1, 3).T
    none = np.zeros(len(ids), np.int64)
    return EventBatch(stream, Rows(none + at, none, none, s, p, o, none + op))


def append(
    store: Any, stream: str, at: int, op: int, *triples: tuple[str, str, str], **numbered: Any
) -> bool:
    """An event at so many microseconds."""
    arena = Arena()
    return bool(store.append(batch_of(stream, at, op, triples, arena), arena, **numbered))


def bag(df: Any) -> Counter[Any]:
    rows = df.collect()
    if df.columns == ["answer"]:
        return Counter([frozenset()] if rows[0][0] else [])
    return Counter(
        frozenset((name, term_of(text)) for name, text in row.asDict().items() if text is not None)
        for row in rows
    )


def people() -> list[tuple[str, str, str]]:
    def number(k: int) -> str:
        return f'"{k}"^^<{INTEGER}>'

    return [
        *((f"<http://ex/n{k}>", "<http://ex/knows>", f"<http://ex/n{(k * 3 + 1) % 8}>") for k in range(8)),
        *((f"<http://ex/n{k}>", "<http://ex/age>", number(k * 7 % 5)) for k in range(6)),
        *((f"<http://ex/n{k}>", "<http://ex/name>", f'"n{k % 3}"') for k in range(0, 8, 2)),
        ("_:b", "<http://ex/knows>", "<http://ex/n1>"),
    ]


QUERIES = (
    "SELECT * { ?a ex:knows ?b . ?b ex:knows ?c . ?c ex:age ?n OPTIONAL { ?c ex:name ?m FILTER(?n > 1) } }",
    """SELECT ?n (COUNT(*) AS ?k) (SUM(?n) AS ?s) (MAX(?m) AS ?l) { ?a ex:age ?n OPTIONAL { ?a ex:name ?m } }
       GROUP BY ?n HAVING (COUNT(*) > 0)""",
    """SELECT ?a ?x { { ?a ex:name ?x } UNION { ?a ex:age ?x } MINUS { ?a ex:knows ex:n1 }
       FILTER NOT EXISTS { ?a ex:age ?y FILTER(?y = 4) } }""",
    "SELECT DISTINCT ?b (?n * 2 AS ?m) { ?a ex:knows ?b . ?a ex:age ?n } ORDER BY DESC(?n) ?b LIMIT 4",
    "CONSTRUCT { ?b ex:known [ ex:by ?a ] } { ?a ex:knows ?b FILTER isIRI(?a) }",
)


def judge_of(rows: list[tuple[str, str, str]]) -> ox.Store:
    judge = ox.Store()
    judge.extend(ox.parse("".join(f"{' '.join(row)} .\n" for row in rows), format=ox.RdfFormat.N_TRIPLES))
    return judge


@pytest.mark.parametrize(
    "place", [0, 1, *(pytest.param(k, marks=pytest.mark.soak) for k in range(2, len(QUERIES)))]
)
def test_an_answer_is_that_of_pyoxigraph(spark: Any, tmp_path: Path, place: int) -> None:
    store = tw.spark.store(tmp_path, spark=spark)
    triples = people()
    append(store, S, 0, 1, *triples)
    append(store, S, 5000, -1, *triples[::4])
    if place % 3 == 2:
        store.compact()
    text = f"PREFIX ex: <http://ex/> {QUERIES[place]}"
    now = [row for k, row in enumerate(triples) if k % 4]
    for as_of, rows in ((None, now),) if place % 2 else ((0, triples),):
        expected = answer_of(judge_of(rows).query(text))
        assert expected
        assert equal_bags(by_value(bag(store.ask(text, as_of=as_of))), by_value(expected))


def test_aggregates_of_integers_beside_other_terms_are_those_of_pyoxigraph(
    spark: Any, tmp_path: Path
) -> None:
    """SQL adds canonical integers, and the engine's evaluator the rest."""
    xsd = INTEGER.removesuffix("integer")

    def number(text: str, kind: str = "integer") -> str:
        return f'"{text}"^^<{xsd}{kind}>'

    groups = (
        [number("3"), number("-12"), number("7"), number("7")],
        [number("0")],
        [number("05"), number("5"), number("+6"), number("2.25", "decimal")],
        [number("99999999999999999999999"), number("1"), number("4", "int")],
        [number("1"), number("2.5E0", "double")],
        [number("1"), '"text"'],
        ['"a"', '"b"'],
    )
    rows = [
        (f"<http://ex/n{k}-{j}>", f"<http://ex/{p}>", o)
        for k, group in enumerate(groups)
        for j, value in enumerate(group)
        for p, o in (("in", f"<http://ex/g{k}>"), ("value", value))
    ]
    store = tw.spark.store(tmp_path, spark=spark)
    append(store, S, 0, 1, *rows)
    text = """PREFIX ex: <http://ex/> SELECT ?g (COUNT(?v) AS ?n) (SUM(?v) AS ?sum) (AVG(?v) AS ?mean)
              (MIN(?v) AS ?least) (MAX(?v) AS ?most) { ?x ex:in ?g . ?x ex:value ?v } GROUP BY ?g"""
    have = {row["g"]: row.asDict() for row in store.ask(text).collect()}
    with tw.Store.create(tmp_path / "embedded") as local:
        append(local, S, 0, 1, *rows)
        answer = local.ask(text).texts
    assert len(have) == len(groups)
    for row in answer.rows:
        assert have[row[0]] == dict(zip(answer.names, row, strict=True))
    integers = ("<http://ex/g0>", "<http://ex/g1>")
    expected = answer_of(judge_of([row for row in rows if row[0][12:14] in ("0-", "1-")]).query(text))
    found = Counter(
        frozenset((name, term_of(cell)) for name, cell in have[group].items()) for group in integers
    )
    assert equal_bags(by_value(found), by_value(expected))


def test_a_stream_is_written_once_although_its_last_batch_is_run_again(spark: Any, tmp_path: Path) -> None:
    folder, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    folder.mkdir()
    store = tw.spark.store(tmp_path / "store", spark=spark)

    def run() -> None:
        lines = spark.readStream.schema("at long, op string, value string").json(str(folder))
        events = tw.spark.events(lines, stream=S, time="at", op="op")
        store.write(events, checkpoint=str(checkpoint), availableNow=True).awaitTermination()

    def put(name: str, at: int, op: str, text: str) -> None:
        (folder / name).write_text(json.dumps({"at": at, "op": op, "value": text}) + "\n")

    put("1.json", 1, "insert", "<a:a> <a:p> <a:b> .\n<a:a> <a:p> <a:c> .")
    run()
    put("2.json", 2, "delete", "<a:a> <a:p> <a:b> .")
    put("3.json", 2, "insert", "nonsense")
    run()
    assert (store.stats().rows, store.stats().deletes) == (3, 1)
    last = max((checkpoint / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    last.unlink()  # as if the driver had stopped between the commit of the store and that of Spark
    for crc in (checkpoint / "commits").glob(f".{last.name}*"):
        crc.unlink()
    run()
    assert (store.stats().rows, store.stats().deletes) == (3, 1)
    assert [row.o for row in store.ask("SELECT ?o { ?s ?p ?o }").collect()] == ["<a:c>"]
    assert store.ask("ASK { ?s ?p <a:b> }", as_of=1).first().answer
    [refused] = store.quarantine().collect()
    assert "expected a subject" in refused.error


@pytest.mark.soak
def test_instants_windows_and_streams_before_and_after_a_compaction(spark: Any, tmp_path: Path) -> None:
    store = tw.spark.store(tmp_path, spark=spark)
    a, b = ("<a:a>", "<a:p>", '"1"'), ("<a:b>", "<a:p>", '"2"')
    for stream, at, op, row in (
        (S, 1, 1, a),
        (T, 2, 1, a),
        (S, 3, -1, a),
        (S, 3, 1, b),
        (S, 3, -1, b),
        (S, 4, 1, b),
    ):
        append(store, stream, at * 1000, op, row)
    everything = "SELECT ?s ?g { ?s ?p ?o OPTIONAL { GRAPH ?g { ?s ?p ?o } } }"

    def seen(as_of: Any = None) -> list[tuple[str, str]]:
        return sorted((row.s, row.g) for row in store.ask(everything, as_of=as_of).collect())

    s, t = f"<{S}>", f"<{T}>"
    for compacted in (False, True):
        assert seen() == [("<a:a>", t), ("<a:b>", s)], compacted
        assert seen(1) == [("<a:a>", s)]
        assert seen(2) == [("<a:a>", s), ("<a:a>", t)]
        assert seen((2, 3)) == [("<a:b>", s)]
        assert seen((3, 4)) == [("<a:b>", s)]
        store.compact()
    append(store, S, 5000, 1, a)  # a part of the files is compacted, another one is not
    assert seen() == [("<a:a>", s), ("<a:a>", t), ("<a:b>", s)]
    store.compact(before=3)
    assert seen() == [("<a:a>", s), ("<a:a>", t), ("<a:b>", s)]
    assert seen(3) == [("<a:a>", t), ("<a:b>", s)]
    with pytest.raises(tw.UsageError, match="was dropped"):
        store.ask(everything, as_of=2)


@pytest.mark.soak
@settings(max_examples=6, phases=[Phase.explicit, Phase.generate])  # shrinking takes minutes
@given(st.data())
def test_random_queries_have_the_answers_of_the_judges(spark: Any, tmp_path_factory: Any, data: Any) -> None:
    random_query(spark, tmp_path_factory.mktemp("store"), data)


def random_query(spark: Any, folder: Path, data: Any) -> None:
    events = data.draw(algebra_streams())
    features = [name for name in FEATURES if name != "closure"]
    forms = ("SELECT", "expressions", "DISTINCT", "groups", "slices", "ASK")
    question = data.draw(
        algebra_questions(events, features=features, forms=forms, window=st.just(Unbounded()))
    )
    oracle = AlgebraOracle(question, events)
    at = data.draw(
        st.sampled_from(sorted({event.time for event in events if event.stream in question.streams}))
    )
    try:
        expected = oracle.answer(at)
    except (TooLargeError, UndecidedError):
        return
    store = tw.spark.store(folder, spark=spark)
    for event in events:
        if event.stream in question.streams:  # as one set, as the window of a query sees them
            append(store, S, event.time, 1 if event.op == "insert" else -1, *event.triples)
    if data.draw(st.booleans()):
        store.compact()
    text = f"{question.head}\nWHERE {question.select.where} {question.select.tail}"
    try:
        found = store.ask(text, as_of=as_instant(at)).collect()
    except tw.UnsupportedError:
        return
    shown = Counter(
        frozenset((name, value) for name, value in row.asDict().items() if value is not None) for row in found
    )
    if question.form == "ASK":
        shown = Counter([frozenset()] if found[0].answer else [])
    assert shown == expected, text
