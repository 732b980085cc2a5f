"""Static data in the stateful step: in shards, with kills and restarts, against one process and a judge."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, event, given, reject
from hypothesis import strategies as st

import thalweg as tw
from tests.spark.fakes import Play, job_of, new_worker, payloads_of, pushed, run_frame, told
from tests.spark.test_sharded_algebra import ended, played
from tests.spark.test_stages import check_sums
from thalweg.arguments import static_data_of
from thalweg.errors import DataError, QueryError, UsageError
from thalweg.lang import parse
from thalweg.schema import schema_of
from thalweg.spark import shard_engine
from thalweg.testing import entailment as judge
from thalweg.testing.algebra import (
    FEATURES,
    FORMS,
    algebra_questions,
    algebra_streams,
    algebra_triples,
    with_static,
)
from thalweg.testing.algebra_oracle import Load
from thalweg.testing.snapshot import Event, Triple
from thalweg.testing.strategies import (
    OPERATORS,
    any_windows,
    questions,
    schemas,
    streams,
    typed_triples,
)

S = "http://ex/s"
CONNECTED = [name for name in FEATURES if name not in ("values", "disconnected")]


def text_of(triples: Sequence[Triple] | frozenset[Triple]) -> str:
    return "".join(f"{s} {p} {o} .\n" for s, p, o in sorted(triples))


def run(data: st.DataObject, shards: Sequence[int], *, stages: int = 0, **asked: Any) -> None:
    """One random query: at every instant its rows are those of one process, and the judge's answer."""
    events = data.draw(algebra_streams(dense=True, max_events=12))
    known = sorted({triple for one in events for triple in one.triples})
    some = st.frozensets(st.one_of(algebra_triples(dense=True), st.sampled_from(known)), max_size=8)
    static = {"": data.draw(some)}
    heard = [*events, Event(events[0].stream, 0, tuple(sorted(static[""])))]
    question = data.draw(with_static(data.draw(algebra_questions(heard, **asked))))
    for source in question.sources:
        if not source.streams and source.name is not None:
            static[source.name] = data.draw(some)
    loaded = static_data_of({name: text_of(content) + "\n" for name, content in static.items()})
    try:
        job = job_of(question.text(), shards=data.draw(st.sampled_from(shards)), static=loaded)
    except QueryError:
        with pytest.raises(QueryError):
            tw.Session(static=loaded).register(question.text())
        reject()
    spread = job.reading.router.shares.shards
    assume(spread > 1 or 1 in shards)
    assume(not stages or (job.second is not None) == (stages == 2))
    whole = ended(events, sorted(question.streams))
    play = played(data, job, whole)
    assert told(play.rows) == told(pushed(job, whole)), (question.text(), static)
    if question.operator is None and not question.per_event:
        times = [one.time for one in whole if one.stream in job.job.query.streams]
        loads = [Load(None, graph, content) for graph, content in static.items()]
        check_sums(play.rows, question, whole, times, loads)
    event(f"{spread} shards, rows: {min(len(play.rows), 3)}")


@given(data=st.data())
def test_static_data_give_the_same_rows_whatever_batches_retries_and_workers_do(data: st.DataObject) -> None:
    run(data, [1, 2, 3, 4], features=FEATURES, forms=FORMS, window=any_windows())


@given(data=st.data())
def test_static_data_that_are_spread_give_the_same_rows(data: st.DataObject) -> None:
    run(data, [2, 3, 4], features=CONNECTED, forms=FORMS, operators=[None, None, *OPERATORS], size=2)


@given(data=st.data())
def test_static_graphs_beside_named_windows_are_spread(data: st.DataObject) -> None:
    run(data, [2, 3, 4], features=["optional", "filter", "union"], sources="named", window=any_windows())


@given(data=st.data())
def test_static_data_in_two_stages_give_the_same_rows(data: st.DataObject) -> None:
    forms = ["groups", "groups", "slices", "DISTINCT", "CONSTRUCT", "ASK"]
    run(data, [2, 3, 4], stages=2, features=CONNECTED, forms=forms, size=2)


@given(data=st.data())
def test_each_event_of_now_has_static_data_once(data: st.DataObject) -> None:
    run(data, [1, 3, 4], features=["optional", "filter", "disconnected"], sources="now")


@given(data=st.data())
def test_static_data_are_in_shards_that_go_on_from_saved_sessions(data: st.DataObject) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in ("_FULL", 0), ("_SPARSE", 0), ("_PART", 700):
            patch.setattr(shard_engine, name, value)
        run(data, [2, 4], features=["optional", "filter", "groups"], operators=[None, None, *OPERATORS])


@given(data=st.data())
def test_static_data_are_closed_under_the_schema_in_every_shard(data: st.DataObject) -> None:
    schema, made = data.draw(schemas(about_types=False)), typed_triples()
    events = data.draw(streams(deletes=True, max_events=12, few=10, made=made))
    static = data.draw(st.frozensets(made, max_size=6))
    both = [*events, Event(events[0].stream, 0, tuple(sorted(static)))]
    closed = [
        Event(one.stream, one.time, tuple(sorted(judge.closed(schema, one.triples))), one.graph)
        for one in both
    ]
    question = data.draw(questions(closed, max_blocks=2, max_patterns=3))
    loaded = static_data_of(text_of(static) + "\n")
    query = parse(question.text(), graphs=loaded.names).under(schema_of(text_of(frozenset(schema))))
    job = job_of(query, shards=data.draw(st.sampled_from([2, 3, 4])), static=loaded)  # type: ignore[arg-type]
    assume(job.shares.shards > 1)
    whole = ended(events, sorted(question.streams))
    assert told(played(data, job, whole).rows) == told(pushed(job, whole)), (question.text(), static)


CHAIN = "?x <http://ex/p> ?y . ?y <http://ex/q> ?z"
ALONE = "".join(
    f"<http://ex/n{k}> <http://ex/{p}> <http://ex/n{k + 1}> .\n" for k in range(40) for p in ("p", "q")
)


def tick(at: int, k: int = 0) -> Event:
    return Event(S, at, ((f"<http://ex/t{k}>", "<http://ex/p>", "<http://ex/n0>"),), f"http://ex/g{at}")


@pytest.mark.parametrize("shards", [1, 2, 3, 4, 6])
def test_rows_of_static_data_alone_come_once_at_the_first_instant(shards: int) -> None:
    job = job_of(
        f"SELECT ?x ?z FROM STREAM <{S}> [RANGE 10] WHERE {{ {CHAIN} }}", shards=shards, static=ALONE
    )
    play = Play(job)
    for at in (7_000, 8_000):
        new_worker()
        play.batch(payloads_of(job, [tick(at)]))
    first = [row for row in play.rows if row.at == 7_000]
    assert len(first) == len({tuple(row.bindings.values()) for row in first}) == 39 + 1
    assert [row.bindings["x"] for row in play.rows if row.at != 7_000] == []
    assert told(play.rows) == told(pushed(job, [tick(7_000), tick(8_000)]))


@pytest.mark.parametrize("shards", [2, 4])
def test_a_query_of_static_data_alone_begins_with_its_stream(shards: int) -> None:
    """Two ways of routing one graph, beside a default graph that no pattern reads, and of which nothing is loaded."""
    text = f"""SELECT ?x ?z FROM STREAM <{S}> [RANGE 10]
        WHERE {{ GRAPH <http://ex/g> {{ ?x <http://ex/p> ?y . ?y <http://ex/p> ?z }} }}"""
    job = job_of(text, shards=shards, static={"http://ex/g": ALONE})
    assert job.shares.shards > 1
    play = Play(job)
    for at in (7_000, 8_000):
        new_worker()
        play.batch(payloads_of(job, [tick(at)]))
    assert [row.at for row in play.rows] == [7_000] * 39
    assert told(play.rows) == told(pushed(job, [tick(7_000), tick(8_000)]))


def test_a_shard_has_only_the_static_triples_that_it_can_join() -> None:
    job = job_of(f"SELECT ?y FROM STREAM <{S}> [RANGE 10] WHERE {{ {CHAIN} }}", shards=4, static=ALONE)
    held = []
    for shard in range(4):
        session = job.session(shard)
        session.advance(5)
        held.append(session.live_triples)
        assert session.arena.find(b"<http://ex/n39>") == 0 or session.live_triples < 80
    assert sum(held) == 80
    assert max(held) < 40


def test_a_new_engine_of_a_long_run_does_not_repeat_the_reports_since_its_beginning() -> None:
    """Static data do not expire, so that every step has a report of them, also of those that no event reaches."""
    text = f"""REGISTER RSTREAM <http://ex/out> AS SELECT ?x ?z
        FROM STREAM <{S}> [RANGE 20ms STEP 10ms] WHERE {{ {CHAIN} }}"""
    job = job_of(text, shards=2, static=ALONE)
    play, events = Play(job), [tick(at * 10_000) for at in (1, 2, 90, 95, 100)]
    for one in events:
        new_worker()
        play.batch(payloads_of(job, [one]))
    assert told(play.rows) == told(pushed(job, events))
    (since,) = play.positions().static
    assert since is not None
    assert 900_000 < since < 1_000_000


def test_other_static_data_are_refused_by_the_state_of_a_run() -> None:
    text = f"SELECT ?x ?z FROM STREAM <{S}> [RANGE 10] WHERE {{ {CHAIN} }}"
    job, other, none = (job_of(text, shards=2, static=given) for given in (ALONE, ALONE + ALONE[:46], None))
    play = Play(job)
    play.batch(payloads_of(job, [tick(1000)]))
    for changed in (other, none):
        new_worker()
        again = Play(changed)
        again.stages = play.stages
        again.stores = play.stores
        with pytest.raises(UsageError, match="other static data"):
            again.batch(payloads_of(changed, [tick(2000)]))


def test_a_worker_without_the_file_or_with_another_one_says_so() -> None:
    text = f"SELECT ?x ?z FROM STREAM <{S}> [RANGE 10] WHERE {{ {CHAIN} }}"
    job = job_of(text, shards=2, static=ALONE + "# of this test\n")
    assert job.static is not None
    path = Path(job.static.files[0].path)
    whole = path.read_bytes()
    for content, reason in (
        (whole[:-64] + bytes(64), "is damaged"),
        (whole[:20], "is damaged|was changed"),
        (whole.replace(b"static data", b"STATIC data", 1), "was changed since the run began"),
        (None, "are not on this machine"),
    ):
        new_worker()
        path.unlink(missing_ok=True)
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(DataError, match=f"the static data of static data .*({reason})"):
            Play(job).batch(payloads_of(job, [tick(1000)]))
    path.write_bytes(whole)
    Play(job).batch(payloads_of(job, [tick(1000)]))


PARTS = """<http://ex/in> a <http://www.w3.org/2002/07/owl#TransitiveProperty> .
<http://ex/inside> <http://www.w3.org/2000/01/rdf-schema#subPropertyOf> <http://ex/in> ."""


@pytest.mark.parametrize("shards", [1, 3])
def test_chains_lead_over_static_and_streamed_steps_on_spark_too(shards: int) -> None:
    """The rule `transitive`: every second step of a chain is static, and streamed ones expire and are deleted."""
    text = f"SELECT ?x ?z FROM STREAM <{S}> [RANGE 4] WHERE {{ ?x <http://ex/in> ?z }}"
    static = "".join(f"<http://ex/n{k}> <http://ex/inside> <http://ex/n{k + 1}> .\n" for k in range(0, 12, 2))
    loaded = static_data_of(static)
    query = parse(text, graphs=loaded.names).under(schema_of(PARTS, "default,transitive"))
    job = job_of(query, shards=shards, static=loaded)  # type: ignore[arg-type]

    def step(at: int, k: int, *, delete: bool = False) -> Event:
        triple = (f"<http://ex/n{k}>", "<http://ex/in>", f"<http://ex/n{k + 1}>")
        return Event(S, at, (triple,), f"http://ex/g{at}", "delete" if delete else "insert")

    events = [step(1000, 1), step(2000, 3), step(3000, 5), step(4000, 3, delete=True), step(7000, 9)]
    play = Play(job)
    for one in events:
        new_worker()
        play.batch(payloads_of(job, [one]))
    judged = dict[tuple[str, ...], int]()
    for row in play.rows:
        pair = tuple(row.bindings.values())
        judged[pair] = judged.get(pair, 0) + (1 if row.op == "+" else -1)
    assert set(judged.values()) <= {0, 1}
    # At 7: the static steps, and the streamed one from n9 to n10, which joins two of them.
    steps = {(f"<http://ex/n{k}>", f"<http://ex/n{k + 1}>") for k in (0, 2, 4, 6, 8, 10, 9)}
    chains = {("<http://ex/n8>", "<http://ex/n10>"), ("<http://ex/n8>", "<http://ex/n11>")}
    expected = steps | chains | {("<http://ex/n9>", "<http://ex/n11>")}
    assert {pair for pair, count in judged.items() if count} == expected
    assert told(play.rows) == told(pushed(job, events))


FILE = "".join(f"<http://ex/n{k % 7}> <http://ex/p> <http://ex/n{k * 3 % 11}> .\n" for k in range(60))
GROUPS = f"""SELECT ?z (COUNT(?x) AS ?n) FROM STREAM <{S}> [RANGE 20]
    WHERE {{ ?x <http://ex/p> ?y GRAPH <http://ex/g> {{ ?y <http://ex/q> ?z }} }} GROUP BY ?z"""
JOIN = f"SELECT ?x ?z FROM STREAM <{S}> [RANGE 20] WHERE {{ {CHAIN} }}"


@pytest.mark.spark
@pytest.mark.parametrize(
    ("text", "static", "refused"),
    [
        pytest.param(JOIN, ALONE, True, marks=pytest.mark.soak),
        (GROUPS, [{"http://ex/g": ALONE}], False),
    ],
)
def test_static_data_give_the_same_rows_on_spark(
    spark: Any, tmp_path: Path, text: str, static: Any, refused: bool
) -> None:
    """Two runs with one checkpoint, so that engines begin anew; a third one has other static data, and is refused."""
    (tmp_path / "in").mkdir()
    lines, rows = FILE.splitlines(keepends=True), []
    for number, part in enumerate((lines[:30], lines[30:])):
        (tmp_path / "in" / f"{number}.nt").write_text("".join(part))
        events = tw.spark.read(spark, str(tmp_path / "in"), stream=S)
        frame = tw.spark.run(events, text, static=static, shards=2)
        rows += run_frame(frame, str(tmp_path / "checkpoint"))[0]
    session = tw.Session(static=static_data_of(static))
    query = session.register(text)
    for number, line in enumerate(lines):
        session.push(S, at=number, graph=line)
    expected = told(query.poll())
    assert len(expected) > 20
    assert told(rows) == expected
    if not refused:  # the state refuses other static data without Spark, too: see above
        return
    changed = tw.spark.run(events, text, static=[static, ALONE[:46]], shards=2)
    (tmp_path / "in" / "2.nt").write_text(lines[0])
    with pytest.raises(Exception, match="other static data"):
        run_frame(changed, str(tmp_path / "checkpoint"))
