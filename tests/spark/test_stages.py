"""Two stages: cut plans give the rows of one process and of a judge, whatever happens to workers and batches."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, event, given, reject
from hypothesis import strategies as st

from tests.spark.fakes import Play, in_process, job_of, new_worker, payloads_of, pushed, told
from tests.spark.test_both_runners import CHAIN, STEP, P, Q, S, asked, changes, files_of, made
from tests.spark.test_sharded_algebra import ended, played
from thalweg.answers import Row
from thalweg.errors import UnsupportedError, UsageError
from thalweg.lang import parse
from thalweg.schema import schema_of
from thalweg.spark import host, shard_engine
from thalweg.spark.shard_engine import LogEntry
from thalweg.testing.algebra import FEATURES, algebra_questions, algebra_streams
from thalweg.testing.algebra_oracle import AlgebraOracle, AlgebraQuestion, Load, bag_of
from thalweg.testing.answers import by_value, equal_bags
from thalweg.testing.judge import TooLargeError
from thalweg.testing.judge_expressions import UndecidedError
from thalweg.testing.snapshot import Event
from thalweg.testing.strategies import OPERATORS

FORMS = ["groups", "groups", "slices", "DISTINCT", "CONSTRUCT", "ASK", "SELECT"]


def run(data: st.DataObject, **asked: Any) -> None:
    """One random query in two stages: at every instant its rows are those of one process, and the judge's answer."""
    events = data.draw(algebra_streams(dense=True, max_events=14))
    question = data.draw(algebra_questions(events, **{"forms": FORMS, "size": 2, **asked}))
    try:
        job = job_of(question.text(), shards=data.draw(st.sampled_from([2, 3, 4])))
    except UnsupportedError:  # as in one process
        reject()
    assume(job.second is not None)
    whole = ended(events, sorted(question.streams))
    play = played(data, job, whole)
    assert told(play.rows) == told(pushed(job, whole)), question.text()
    if question.operator is None and not question.per_event:
        check_sums(play.rows, question, whole, [e.time for e in whole if e.stream in job.job.query.streams])
    event(f"shards: {[len(stage) for stage in play.stages]}, rows: {min(len(play.rows), 3)}")


def check_sums(
    rows: Sequence[Row],
    question: AlgebraQuestion,
    events: Sequence[Event],
    times: Sequence[int],
    static: Sequence[Load] = (),
) -> None:
    """At every instant before the last event, inserts minus deletes are the judge's answer."""
    oracle = AlgebraOracle(question, events, static=static)
    oracle.first = min(times)
    waiting = sorted(rows, key=lambda row: row.at)[::-1]
    total: Counter[Any] = Counter()
    for t in (instant for instant in oracle.instants() if instant < max(times)):
        while waiting and waiting[-1].at <= t:
            row = waiting.pop()
            total[frozenset(row.bindings.items())] += 1 if row.op == "+" else -1
        have = Counter({row: count for row, count in total.items() if count})
        try:
            want = oracle.answer(t)
        except (TooLargeError, UndecidedError):
            return
        have, want = by_value(bag_of(have)), by_value(bag_of(want))
        assert equal_bags(have, want), f"at {t}:\n{question.text()}\nhave {have}\nwant {want}"


CASES = {
    "count over a chain": asked(CHAIN, "[RANGE 20]", "(COUNT(*) AS ?n)"),
    "groups by an expression": f"""
        SELECT ?s (COUNT(?z) AS ?n) (MIN(?z) AS ?least) (GROUP_CONCAT(DISTINCT STR(?y)) AS ?all)
        FROM STREAM <{S}> [RANGE 20] WHERE {{ {CHAIN} }} GROUP BY (STRAFTER(STR(?x), "n") AS ?s)""",
    "groups in steps": f"""
        REGISTER RSTREAM <http://ex/out> AS SELECT ?s (SUM(STRLEN(STR(?z))) AS ?n) FROM STREAM <{S}> {STEP}
        WHERE {{ {CHAIN} }} GROUP BY (STR(?x) AS ?s) HAVING (COUNT(*) > 1)""",
    "distinct": asked(f"?x {P} ?y OPTIONAL {{ ?y {Q} ?z }}", "[RANGE 20]", "DISTINCT ?z"),
    "top k": asked(CHAIN, "[RANGE 20]", "?x ?z") + " ORDER BY DESC(?z) LIMIT 3 OFFSET 1",
    "first groups in order": f"""
        REGISTER RSTREAM <http://ex/out> AS SELECT ?x (COUNT(?z) AS ?n) FROM STREAM <{S}> {STEP}
        WHERE {{ {CHAIN} }} GROUP BY ?x ORDER BY DESC(?n) ?x LIMIT 4""",
    "not the start of a chain": asked(
        f"?x {P} ?y MINUS {{ SELECT (?x AS ?y) WHERE {{ ?x {P} ?v . ?v {Q} ?w }} }}", "[RANGE 8]"
    ),
    "graph of both directions": made(f"?x {P} ?z . ?z {P} ?x", CHAIN, "[RANGE 20]"),
    "ask": f"ASK FROM STREAM <{S}> [RANGE 3] WHERE {{ {CHAIN} }}",
    "what enters": asked(f"?x {P} ?y OPTIONAL {{ ?y {Q} ?z }}", STEP, "?z", "ISTREAM"),
}
ON_SPARK = ["groups by an expression", *(pytest.param(name, marks=pytest.mark.soak) for name in CASES)]


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.soak if k % 2 else ()) for k, name in enumerate(CASES)]
)
def test_a_query_in_two_stages_gives_the_same_rows_whatever_is_killed(name: str) -> None:
    job = job_of(CASES[name], shards=3)
    play, events = Play(job), changes(3)
    for start in range(0, len(events), 9):
        new_worker()
        play.batch(payloads_of(job, events[start : start + 9]), fail_after=start % 3, retry=start % 2 == 0)
    assert told(play.rows) == told(pushed(job, events))
    assert len(play.rows) > 0
    assert job.second is not None


@pytest.mark.parametrize("name", ["groups by an expression", "distinct"])
def test_a_query_under_a_schema_gives_the_same_rows_in_two_stages(name: str) -> None:
    schema = f"""{Q} <http://www.w3.org/2000/01/rdf-schema#subPropertyOf> {P} .
        {P} a <http://www.w3.org/2002/07/owl#SymmetricProperty> ."""
    query = parse(CASES[name]).under(schema_of(schema))
    job = job_of(query, shards=3)  # type: ignore[arg-type]
    play, events = Play(job), changes(3)
    for start in range(0, len(events), 9):
        new_worker()
        play.batch(payloads_of(job, events[start : start + 9]))
    assert told(play.rows) == told(pushed(job, events))
    assert told(play.rows) != told(pushed(job_of(CASES[name]), events))
    assert job.second is not None


def test_a_state_of_another_plan_or_format_is_refused_in_both_stages(monkeypatch: pytest.MonkeyPatch) -> None:
    job, other = (job_of(CASES[name], shards=2) for name in ("top k", "count over a chain"))
    events = changes(1)[:20]
    for stage in (0, 1):
        play = Play(job)
        play.batch(payloads_of(job, events))
        new_worker()
        started = Play(other)
        started.stages[stage] = play.stages[stage]
        with pytest.raises(UsageError, match="another query"):
            started.batch(payloads_of(other, events))
    monkeypatch.setattr(host, "FORMAT", host.FORMAT + 1)
    with pytest.raises(UsageError, match="format"):
        play.batch(payloads_of(job, events))


@pytest.mark.soak
def test_the_log_of_the_second_stage_follows_its_state_and_not_the_stream() -> None:
    """A window of a few events: the changes of the others have no effect any more."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shard_engine, "_FULL", 50)
        job = job_of(CASES["groups by an expression"], shards=2)
        play, events = Play(job), changes(1)
        for one in events:
            play.batch(payloads_of(job, [one]))
            assert max(len(store.values) for store in play.stages[1]) < 60
        assert told(play.rows) == told(pushed(job, events))
    modes = {
        LogEntry(*pickle.loads(value)).mode
        for store in play.stages[1]
        for key, value in store.values.items()
        if isinstance(key, tuple)
    }
    assert "saved" in modes


@pytest.mark.spark
@pytest.mark.parametrize("name", ON_SPARK)
def test_a_query_in_two_stages_gives_the_same_rows_on_both_runners(
    spark: Any, tmp_path: Path, name: str
) -> None:
    from thalweg.spark import run_files

    paths = files_of(CASES[name], tmp_path)
    rows: list[Row] = []
    source = {"maxBytesPerTrigger": "6k", "pieceBytes": "2k"}
    streams = {stream: str(path) for stream, path in paths.items()}
    run_files(CASES[name], streams, rows.extend, spark=spark, source=source, shards=2, drain=True)
    assert told(rows) == told(in_process(job_of(CASES[name], drain=True), paths))
    assert len(rows) > 1


@given(data=st.data())
def test_random_algebra_in_two_stages_gives_the_same_rows(data: st.DataObject) -> None:
    run(data, features=FEATURES)


@pytest.mark.soak
@given(data=st.data())
def test_reports_of_random_algebra_in_two_stages_are_the_same(data: st.DataObject) -> None:
    run(data, features=[name for name in FEATURES if name != "values"], operators=OPERATORS)


@pytest.mark.soak
@given(data=st.data())
def test_random_algebra_in_two_stages_goes_on_from_saved_states(data: st.DataObject) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in ("_FULL", 0), ("_SPARSE", 0), ("_PART", 700):
            patch.setattr(shard_engine, name, value)
        run(data, features=FEATURES, operators=[None, None, *OPERATORS])
