"""The whole algebra in the stateful step: random queries in shards, with kills and restarts, against one process."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, event, given, reject
from hypothesis import strategies as st

from tests.spark.fakes import Play, job_of, new_worker, payloads_of, pushed, told
from thalweg.errors import UnsupportedError
from thalweg.lang import parse
from thalweg.spark import shard_engine
from thalweg.spark.shard_plan import ShardPlan
from thalweg.testing.algebra import FEATURES, FORMS, algebra_questions, algebra_streams
from thalweg.testing.snapshot import Event
from thalweg.testing.strategies import OPERATORS, any_windows

DERIVED = "http://ex/d"
END = ("<http://ex/end>", "<http://ex/unwanted>", "<http://ex/end>")


@pytest.fixture
def often() -> Iterator[None]:
    """Logs are put together after every batch that brings something."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shard_engine, "_FULL", 0)
        patch.setattr(shard_engine, "_SPARSE", 0)
        patch.setattr(shard_engine, "_PART", 700)
        yield


def ended(events: Sequence[Event], streams: Sequence[str], after: int = 60_007) -> list[Event]:
    """The events, and one more on each stream that lets the windows run empty."""
    last = max(one.time for one in events) + after
    return [*events, *(Event(stream, last, (END,), f"http://ex/end{k}") for k, stream in enumerate(streams))]


def played(data: st.DataObject, job: ShardPlan, events: Sequence[Event]) -> Play:
    """The events in any batches; between them, workers end, batches fail and are run again."""
    play, rest = Play(job), list(events)
    while rest:
        count = data.draw(st.sampled_from([1, 1, 2, 5]))
        batch, rest = rest[:count], rest[count:]
        what = data.draw(st.sampled_from(["go on", "new worker", "new worker", "retry", "fail"]))
        if what == "new worker":
            new_worker()
        fail_after = data.draw(st.integers(0, 2)) if what == "fail" else None
        play.batch(payloads_of(job, batch), retry=what == "retry", fail_after=fail_after)
    return play


def run(data: st.DataObject, events: Sequence[Event], shards: Sequence[int], **asked: Any) -> None:
    """One random query: its rows are those of one process at every instant."""
    question = data.draw(algebra_questions(events, **asked))
    text = question.text()
    try:
        job = job_of(text, shards=data.draw(st.sampled_from(shards)))
    except UnsupportedError:  # as in one process
        reject()
    spread = job.reading.router.shares.shards
    assume(spread > 1 or 1 in shards)
    whole = ended(events, sorted(question.streams))
    play = played(data, job, whole)
    assert told(play.rows) == told(pushed(job, whole)), text
    event(f"{spread} shards, rows: {min(len(play.rows), 3)}")


def test_a_query_of_many_nested_groups_can_be_sent_to_a_task() -> None:
    """With the plan of 200 groups, pickling would be beyond the usual limit of frames; here, the limit is lower."""
    many = 200
    groups = "".join(f"OPTIONAL {{ ?x <http://ex/p{k}> ?v{k} " for k in range(many))
    query = parse(f"SELECT * FROM STREAM <http://ex/s> WHERE {{ ?x <http://ex/p> ?y {groups} {'}' * many} }}")
    frames = sys.getrecursionlimit()
    sys.setrecursionlimit(400)
    try:
        sent = pickle.loads(pickle.dumps(query))
    finally:
        sys.setrecursionlimit(frames)
    assert sent.root == query.root
    assert sent.text == query.text


@given(data=st.data())
def test_random_algebra_gives_the_same_rows_whatever_batches_retries_and_workers_do(
    data: st.DataObject,
) -> None:
    events = data.draw(algebra_streams())
    run(data, events, [1, 2, 3, 4], features=FEATURES, forms=FORMS, window=any_windows())


@given(data=st.data())
def test_random_algebra_that_is_spread_gives_the_same_rows(data: st.DataObject) -> None:
    """Fewer nodes and connected parts: most queries have a variable by which they are spread."""
    events = data.draw(algebra_streams(dense=True, max_events=16))
    features = [name for name in FEATURES if name not in ("values", "disconnected")]
    operators = [None, None, "ISTREAM", "DSTREAM"]
    run(data, events, [2, 3, 4], features=features, forms=FORMS, operators=operators, size=2)


@given(data=st.data())
def test_subselects_that_hide_variables_are_spread_by_what_they_show(data: st.DataObject) -> None:
    events = data.draw(algebra_streams(dense=True, max_events=16))
    operators = [None, "ISTREAM", "DSTREAM"]
    run(
        data,
        events,
        [2, 4],
        features=["subselect", "union", "optional"],
        must=["subselect"],
        forms=["SELECT", "DISTINCT", "CONSTRUCT"],
        operators=operators,
        size=2,
    )


@given(data=st.data())
def test_now_gives_the_same_rows_where_whole_events_are_spread(data: st.DataObject) -> None:
    events = data.draw(algebra_streams(max_events=16))
    run(data, events, [1, 3, 4], features=FEATURES, forms=FORMS, sources="now")


@pytest.mark.usefixtures("often")
@given(data=st.data())
def test_random_algebra_goes_on_from_logs_that_were_put_together(data: st.DataObject) -> None:
    """The state of operators, and whether a query has begun, are in the saved session."""
    events = data.draw(algebra_streams(max_events=14))
    operators = [None, None, *OPERATORS]
    run(data, events, [1, 2, 4], features=FEATURES, forms=FORMS, window=any_windows(), operators=operators)


@given(data=st.data())
def test_random_algebra_derives_the_same_streams_by_new_workers(data: st.DataObject) -> None:
    """A graph of one query feeds another one; both have the whole algebra."""
    events = data.draw(algebra_streams(max_events=12))
    operators = [None, *OPERATORS]
    maker = data.draw(algebra_questions(events, features=FEATURES, forms=["CONSTRUCT"], operators=operators))
    producer = maker.text()
    if maker.operator is None:
        producer = f"REGISTER STREAM <{DERIVED}> AS {producer}"
    producer = producer.replace("<http://ex/out>", f"<{DERIVED}>")
    read = [*events, *(replace(one, stream=DERIVED, op="insert") for one in events)]
    asked = data.draw(algebra_questions(read, features=FEATURES, forms=FORMS, operators=operators))
    job = job_of(asked.text(), derive=[producer])
    whole = ended(events, sorted((asked.streams | maker.streams) - {DERIVED}))
    play = played(data, job, whole)
    assert told(play.rows) == told(pushed(job, whole)), f"{producer}\n{asked.text()}"
    event(f"reads what is derived: {DERIVED in asked.streams}, rows: {min(len(play.rows), 3)}")
