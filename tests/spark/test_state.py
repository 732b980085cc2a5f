"""The state of a shard: what its log holds, when it is put together, who may read it, and what is refused."""

from __future__ import annotations

import json
import pickle
import random
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.property.harness import quads
from tests.spark.fakes import Play, chunks_of, in_process, job_of, new_worker, timed_graph, told
from tests.spark.victim import STREAM, TEXT, chain
from thalweg.engine import Session
from thalweg.errors import UsageError
from thalweg.spark import encode, host, shard_engine
from thalweg.spark.payloads import read_payloads
from thalweg.spark.routing import MESSAGES
from thalweg.spark.shard_engine import SAVED
from thalweg.spark.shard_plan import ShardPlan
from thalweg.testing.strategies import any_windows, questions, streams

Change = tuple[str, bytes, int]


@pytest.fixture
def often() -> Iterator[None]:
    """Logs are put together after every batch that brings something."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shard_engine, "_FULL", 0)
        patch.setattr(shard_engine, "_SPARSE", 0)
        patch.setattr(shard_engine, "_PART", 700)
        yield


@pytest.mark.usefixtures("often")
@given(data=st.data())
def test_a_log_that_was_put_together_gives_the_same_answers(data: st.DataObject) -> None:
    events = data.draw(streams(max_events=24, blanks=True))
    operators = [None, "RSTREAM", "ISTREAM", "DSTREAM"]
    question = data.draw(
        questions(events, window=any_windows(), max_blocks=2, max_patterns=3, operators=operators)
    )
    names = defaultdict(list)
    for event in events:
        names[event.stream].append(event)
    for stream in question.streams:
        names.setdefault(stream, [])
    job = job_of(
        question.text(),
        shards=data.draw(st.sampled_from([1, 2, 4])),
        drain=data.draw(st.booleans()),
        lateness=data.draw(st.sampled_from([0, 2])),
    )
    with tempfile.TemporaryDirectory() as folder:
        paths, waiting = {}, []
        for number, (stream, own) in enumerate(sorted(names.items())):
            paths[stream] = Path(folder) / f"{number}.nq"
            paths[stream].write_bytes(
                quads(own, stamp=data.draw(st.sampled_from(["before", "after", "inside"])))
            )
            size = data.draw(st.sampled_from([1, 200, 600]))
            waiting += chunks_of(job, stream, paths[stream], piece_bytes=size)
        expected = in_process(job, paths)
        play = Play(job)
        while waiting:
            count = data.draw(st.sampled_from([1, 1, 2, 5]))
            batch, waiting = waiting[:count], waiting[count:]
            what = data.draw(st.sampled_from(["go on", "new worker", "new worker", "retry"]))
            if what == "new worker":
                new_worker()
            play.batch(batch, retry=what == "retry")
    assert told(play.rows) == told(expected)


def messages(job: ShardPlan, changes: list[Change]) -> list[pa.RecordBatch]:
    """Changes of a graph as the encoding step hands them on."""
    names = ("stream", "source", "syntax", "payload", "time", "said", "timed", "op")
    types = (
        pa.string(),
        pa.string(),
        pa.string(),
        pa.binary(),
        pa.int64(),
        pa.string(),
        pa.bool_(),
        pa.string(),
    )
    rows = [(STREAM, None, "nt", line, at, None, True, op) for op, line, at in changes]
    own = pa.RecordBatch.from_arrays(
        [pa.array(values, kind) for values, kind in zip(zip(*rows, strict=True), types, strict=True)], names
    )
    cells = {"stream": STREAM, "source": "", "seq": 0, "part": 0, "syntax": MESSAGES, "last": False}
    part = read_payloads(job.reading.prune, job.reading.options, own)
    return [encode._rows(job.reading, MESSAGES, cells, part, 0)]


@pytest.mark.parametrize("shards", [1, 2])
def test_a_graph_that_only_changes_has_a_log_as_long_as_the_graph(
    monkeypatch: pytest.MonkeyPatch, shards: int
) -> None:
    """Without a window every insert and delete stays in the log, until it is put together."""
    monkeypatch.setattr(shard_engine, "_FULL", 40)
    text = TEXT.replace(" [RANGE 60]", " [RANGE 1000000000s]")
    job = job_of(text, shards=shards)
    play = Play(job)
    session = Session()
    query = session.register(text)
    chance = random.Random(7)
    there: list[bytes] = []
    logged, at = [], 0
    for number in range(120):
        changes: list[Change] = []
        for _ in range(8):
            at += 1000
            if len(there) > 12 and chance.random() < 0.6:
                changes.append(("delete", there.pop(chance.randrange(len(there))), at))
            else:
                line = chain(k := chance.randrange(200), k + 1)
                if line not in there:
                    there.append(line)
                    changes.append(("insert", line, at))
        for op, line, time in changes:
            session.push(STREAM, at=time // 1000, graph=line, op=op)
        if number % 7 == 6:
            new_worker()
        play.batch(messages(job, changes), retry=number % 11 == 3)
        logged.append(max(len(play.entries(shard)) for shard in range(play.shards)))
    assert told(play.rows) == told(query.poll())
    assert max(logged) < 30 * shards, "of 120 batches, with an entry for each role"
    assert any(entry.mode == SAVED for entry in play.entries().values())


def test_a_window_by_count_has_a_log_that_ends(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nobody knows until when the last n triples count, so that no entry expires by time."""
    monkeypatch.setattr(shard_engine, "_FULL", 40)
    file = tmp_path / "a.nt"
    file.write_bytes(chain(0, 2000))
    job = job_of(TEXT.replace("[RANGE 60]", "[TRIPLES 30 STEP 5]"))
    play = Play(job)
    longest = 0
    for number, chunk in enumerate(chunks_of(job, STREAM, file, piece_bytes=900)):
        if number % 5 == 4:
            new_worker()
        play.batch([chunk])
        longest = max(longest, play.log())
    assert told(play.rows) == told(in_process(job, {STREAM: file}))
    assert longest < 30, "of 100 batches"


def test_events_count_after_a_restart_also_where_a_batch_left_no_triple(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(shard_engine, "_FULL", 40)
    file = tmp_path / "a.nt"
    # Most batches hold unwanted triples only: what they count must be in the log, and the log must end.
    file.write_bytes(
        b"".join(chain(k, k + 3) + 97 * b"<a:s> <a:unwanted> <a:o> .\n" for k in range(0, 60, 3))
    )
    job = job_of(TEXT.replace("[RANGE 60]", "[ELEMENTS 130 STEP 5]"))
    play = Play(job)
    longest = 0
    for chunk in chunks_of(job, STREAM, file, piece_bytes=500):
        new_worker()
        play.batch([chunk])
        longest = max(longest, play.log())
    assert told(play.rows) == told(in_process(job, {STREAM: file}))
    assert {row.op for row in play.rows} == {"+", "-"}
    assert longest < 30, "of 100 batches"


def test_a_state_of_another_format_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "a.nt"
    file.write_bytes(chain(0, 10))
    job = job_of(TEXT)
    play = Play(job)
    play.batch(chunks_of(job, STREAM, file, piece_bytes=10**6))
    header = pickle.loads(play.stores[0].values["header"])
    play.stores[0].values["header"] = pickle.dumps((host.FORMAT + 1, *header[1:]))
    with pytest.raises(UsageError, match=f"format {host.FORMAT + 1}, and this is format {host.FORMAT}"):
        play.batch(chunks_of(job, STREAM, file, piece_bytes=10**6))


def test_a_batch_that_runs_again_writes_what_was_late_or_refused_once(tmp_path: Path) -> None:
    file = tmp_path / "a.nq"
    times = [1000, 2000, 500, 3000, 700, 4000]
    file.write_text("oops\n".join(timed_graph(k, at) for k, at in enumerate(times)))
    written = []
    for again in False, True:
        folders = [tmp_path / f"{name}-{again}" for name in ("refused", "late")]
        job = job_of(TEXT, quarantine=str(folders[0]), late=str(folders[1]), shards=2)
        play = Play(job)
        for chunk in chunks_of(job, STREAM, file, piece_bytes=300):
            play.batch([chunk], retry=again, fail_after=1 if again else None)
            if again:
                new_worker()
        written.append([{path.name: path.read_text() for path in folder.iterdir()} for folder in folders])
    assert written[0] == written[1]
    assert sum(text.count("oops") for text in written[0][0].values()) == 5
    assert {json.loads(line)["at"] for text in written[0][1].values() for line in text.splitlines()} == {
        500_000,
        700_000,
    }


@pytest.mark.spark
def test_the_state_can_be_read_with_spark(spark: Any, tmp_path: Path) -> None:
    from thalweg.spark import read, run

    file = tmp_path / "in.nt"
    file.write_bytes(chain(0, 200))
    events = read(spark, str(file), stream=STREAM, maxBytesPerTrigger="3k", settle="0")
    checkpoint = str(tmp_path / "checkpoint")
    writer = run(events, TEXT, shards=2).writeStream.format("noop").option("checkpointLocation", checkpoint)
    writer.trigger(availableNow=True).start().awaitTermination()
    state = spark.read.format("statestore").option("path", checkpoint)
    headers = state.option("stateVarName", "header").load().select("value.*").collect()
    assert [row.format for row in headers] == [host.FORMAT] * 2
    log = state.option("stateVarName", "log").load().select("user_map_key.place", "user_map_value.*")
    assert log.count() == sum(row.next - row.first for row in headers)
