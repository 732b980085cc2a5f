"""The stateful step without Spark: whatever happens between batches, the answers are those of one process."""

from __future__ import annotations

import json
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.property.harness import quads
from tests.spark.fakes import (
    Play,
    chunks_of,
    in_process,
    in_process_with_late,
    job_of,
    new_worker,
    timed_graph,
    told,
)
from thalweg.answers import Row
from thalweg.errors import UsageError
from thalweg.options import RunOptions
from thalweg.spark.shard_engine import LogEntry, Positions
from thalweg.testing.snapshot import Block, Event, Question, Range, Window
from thalweg.testing.strategies import STREAMS, any_windows, questions, streams, windows

TRIPLES = (
    "SELECT ?x ?z FROM STREAM <http://ex/s> [RANGE {r}] WHERE {{ ?x <http://ex/p> ?y . ?y <http://ex/p> ?z }}"
)


def chain(first: int, last: int) -> bytes:
    return b"".join(
        b"<http://ex/n%d> <http://ex/p> <http://ex/n%d> .\n" % (k % 17, k * k % 17)
        for k in range(first, last)
    )


def test_rows_of_a_task_that_is_run_again_are_the_same(tmp_path: Path) -> None:
    file = tmp_path / "a.nt"
    file.write_bytes(chain(0, 300) + b"nonsense\n")
    job = job_of(TRIPLES.format(r=30), shards=2)
    first, again = (chunks_of(job, "http://ex/s", file, piece_bytes=2000) for _ in range(2))
    assert len(first) > 3
    assert first == again
    clocked = chunks_of(
        job_of(job.job.query.text, shards=2, clocked=True), "http://ex/s", file, piece_bytes=2000
    )
    assert sum(sum(batch["reading"].to_pylist()) for batch in clocked) > 0


@pytest.mark.parametrize(
    ("window", "operators"),
    [
        (windows(), [None, "RSTREAM", "ISTREAM", "DSTREAM"]),
        (any_windows(), ["ISTREAM", "DSTREAM"]),
        (any_windows(empty=True), ["RSTREAM"]),
    ],
    ids=["plain windows", "any window", "any window with empty reports"],
)
@given(data=st.data())
def test_answers_are_those_of_one_process_whatever_batches_retries_and_workers_do(
    window: st.SearchStrategy[Window], operators: list[str | None], data: st.DataObject
) -> None:
    events = data.draw(streams(max_events=24, blanks=True))
    question = data.draw(questions(events, window=window, max_blocks=2, max_patterns=3, operators=operators))
    names = defaultdict(list)
    if data.draw(st.booleans()):  # some events overtake others, and some of those are too late
        events = sorted(events, key=lambda event: event.time + data.draw(st.sampled_from([0, 0, 0, 4000])))
    for event in events:
        names[event.stream].append(event)
    for stream in question.streams:
        names.setdefault(stream, [])
    job = job_of(
        question.text(),
        shards=data.draw(st.sampled_from([1, 1, 2, 3, 4, 8])),
        drain=data.draw(st.booleans()),
        lateness=data.draw(st.sampled_from([0, 2])),
    )
    with tempfile.TemporaryDirectory() as folder:
        paths = {}
        for number, (stream, own) in enumerate(sorted(names.items())):
            paths[stream] = Path(folder) / f"{number}.nq"
            paths[stream].write_bytes(
                quads(own, stamp=data.draw(st.sampled_from(["before", "after", "inside"])))
            )
        waiting = [
            chunk
            for stream, path in paths.items()
            for chunk in chunks_of(job, stream, path, piece_bytes=data.draw(st.sampled_from([1, 200, 600])))
        ]
        expected, late = in_process_with_late(job, paths)
        play = Play(job)
        while waiting:
            count = data.draw(st.sampled_from([1, 1, 2, 5]))
            batch, waiting = waiting[:count], waiting[count:]
            what = data.draw(st.sampled_from(["go on", "new worker", "new worker", "retry", "fail"]))
            if what == "new worker":
                new_worker()
            fail_after = data.draw(st.integers(0, 2)) if what == "fail" else None
            play.batch(batch, retry=what == "retry", fail_after=fail_after)
    assert told(play.rows) == told(expected)
    assert play.counts["events"] == sum(map(len, names.values()))
    assert play.counts["late"] == late


def netted(rows: list[Row]) -> Counter[object]:
    """What the rows sum to at each instant: without an operator, an instant may come in parts."""
    sums: Counter[object] = Counter()
    for row in rows:
        sums[row.at, frozenset(row.bindings.items()), row.graph, row.op == "0"] += -1 if row.op == "-" else 1
    return Counter({key: n for key, n in sums.items() if n})


@given(data=st.data())
def test_every_batch_has_a_new_worker_and_the_log_keeps_all_that_matters_to_it(data: st.DataObject) -> None:
    """Streams that lag behind each other, events that are cut anywhere, and nothing in memory between batches."""
    names = data.draw(st.sampled_from([STREAMS, STREAMS, STREAMS[:1]]))
    events = data.draw(streams(names=names, max_events=9))
    lateness = data.draw(st.sampled_from([0, 2]))
    tight = tight_windows(events, lateness * 1000)
    window = st.one_of(windows(), tight, tight)
    question = data.draw(
        questions(events, window=window, max_patterns=2, operators=[None, "RSTREAM", "ISTREAM", "DSTREAM"])
    )
    job = job_of(question.text(), lateness=lateness)
    with tempfile.TemporaryDirectory() as folder:
        paths, waiting = {}, {}
        for number, stream in enumerate(sorted(question.streams)):
            paths[stream] = Path(folder) / f"{number}.nq"
            own = [event for event in events if event.stream == stream]
            paths[stream].write_bytes(
                quads(own, stamp=data.draw(st.sampled_from(["after", "inside", "before"])))
            )
            # Lines of some 90 bytes: a piece is one to three of them, and most events are cut.
            size = data.draw(st.sampled_from([1, 1, 150, 300]))
            waiting[stream] = chunks_of(job, stream, paths[stream], piece_bytes=size)
        expected = in_process(job, paths)
        play = Play(job)
        reach = max(_reach(block.window) for block in question.blocks)
        seen: dict[object, LogEntry] = {}
        while waiting:
            stream = data.draw(st.sampled_from(sorted(waiting)))
            count = data.draw(st.sampled_from([1, 2, 3, 6]))
            new_worker()
            play.batch(waiting[stream][:count])
            waiting[stream] = waiting[stream][count:]
            if not waiting[stream]:
                del waiting[stream]
            kept = play.entries()
            seen |= kept
            for place in seen.keys() - kept.keys():
                bound = slowest(play.positions(), question.streams, lateness * 1000)
                assert seen[place].latest + reach < bound, (
                    "an entry goes when its last event has left for good"
                )
                del seen[place]
    assert netted(play.rows) == netted(expected)


@st.composite
def tight_windows(draw: st.DrawFn, events: Sequence[Event], lateness: int) -> Window:
    """Windows that one of the events has just left for good, or has just not, when another has come."""
    times = sorted({event.time for event in events})
    gaps = [later - time - lateness for time, later in combinations(times, 2) if later - time - lateness > 2]
    total = draw(st.sampled_from(gaps or [1000])) - draw(st.sampled_from([1, 1, 0, 2]))
    step = draw(st.sampled_from([None, None, 1, total // 2]))
    bounds = draw(st.sampled_from(["CLOSED-OPEN", "OPEN-CLOSED"]))
    return Range(total, None, 0, bounds) if not step else Range(max(1, total - step), step, 0, bounds)


def _reach(window: Window) -> float:
    """How long after an event its leaving the window can still have to be told."""
    return window.width + (window.step or 0) + 1 if isinstance(window, Range) else float("inf")


def slowest(positions: Positions, names: Iterable[str], lateness: int) -> float:
    """How far the streams have all come; those that have ended hold nobody up."""
    running = [positions.clocks.get(name, -float("inf")) for name in names if name not in positions.ended]
    return min(running, default=float("inf")) - lateness


def test_what_leaves_at_the_next_instant_is_still_in_the_log(tmp_path: Path) -> None:
    """The last moment of an entry: all streams have come to where its triple leaves, and that is still to be told.

    p     |======)         from just after 0 up to 3001, where the window leaves its instant out
    q           |======)   from 3000 on
    time  0     3000 3001  a new worker at each
    """
    p, q = (
        ("<http://ex/a>", "<http://ex/p>", "<http://ex/b>"),
        ("<http://ex/a>", "<http://ex/q>", "<http://ex/b>"),
    )
    times = [(0, p), (3000, q), (3001, q), (9000, q), (9001, q)]
    events = [Event(STREAMS[0], at, (triple,), f"http://ex/g{at}") for at, triple in times]
    early = Block(STREAMS[:1], Range(3000, None, 0, "CLOSED-OPEN"), (("?x", "<http://ex/p>", "?y"),))
    other = Block(STREAMS[:1], Range(1000), (("?x", "<http://ex/q>", "?y"),))
    job = job_of(Question((early, other), operator="DSTREAM").text())
    file = tmp_path / "a.nq"
    file.write_bytes(quads(events, stamp="before"))
    play = Play(job)
    for chunk in chunks_of(job, STREAMS[0], file, piece_bytes=1):
        new_worker()
        play.batch([chunk])
    assert [(row.at, row.op) for row in play.rows] == [(3001, "-")]


def test_constants_of_a_query_are_not_in_the_row_of_an_empty_report(tmp_path: Path) -> None:
    file = tmp_path / "a.nt"
    file.write_bytes(b"<http://ex/a> <http://ex/p> <http://ex/b> .\n" + chain(0, 30))
    text = (
        "REGISTER RSTREAM <http://ex/o> AS SELECT ?x FROM STREAM <http://ex/s> "
        "[RANGE 5 STEP 5 REPORT WINDOW-CLOSE WITH EMPTY] "
        "WHERE { ?x <http://ex/p> ?y FILTER(?x = <http://ex/a>) }"
    )
    job = job_of(text)
    play = Play(job)
    for chunk in chunks_of(job, "http://ex/s", file, piece_bytes=300):
        new_worker()
        play.batch([chunk])
    assert [(row.op, row.bindings) for row in play.rows] == [("+", {"x": "<http://ex/a>"}), *[("0", {})] * 5]


@pytest.mark.parametrize("per_event", [1, 3])
def test_the_log_keeps_what_the_window_needs_and_no_more(tmp_path: Path, per_event: int) -> None:
    file = tmp_path / "a.nt"
    file.write_bytes(chain(0, 4000))
    job = job_of(TRIPLES.format(r=50), RunOptions(per_event=per_event))
    play = Play(job)
    longest = 0
    for number, chunk in enumerate(chunks_of(job, "http://ex/s", file, piece_bytes=2000)):
        if number % 5 == 4:
            new_worker()
        play.batch([chunk])
        longest = max(longest, play.log())
    assert told(play.rows) == told(in_process(job, {"http://ex/s": file}))
    assert longest <= 2 + 50 * per_event * 45 // 2000 + 1
    assert max(play.replayed) == longest or max(play.replayed) <= longest
    assert play.counts["events"] == -(-4000 // per_event)


def test_a_live_engine_is_used_again_and_only_a_new_worker_reads_the_log(tmp_path: Path) -> None:
    file = tmp_path / "a.nt"
    file.write_bytes(chain(0, 600))
    job = job_of(TRIPLES.format(r="1h"))
    play = Play(job)
    chunks = chunks_of(job, "http://ex/s", file, piece_bytes=2500)
    for chunk in chunks[:4]:
        play.batch([chunk])
    assert play.replayed == [0, 0, 0, 0]
    new_worker()
    play.batch([chunks[4]])
    play.batch([chunks[5]], retry=True)
    assert play.replayed[4:] == [4, 5]
    for chunk in chunks[6:]:
        play.batch([chunk])
    assert set(play.replayed[6:]) == {0}
    assert told(play.rows) == told(in_process(job, {"http://ex/s": file}))


def test_a_checkpoint_of_another_query_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "a.nt"
    file.write_bytes(chain(0, 10))
    first, second = job_of(TRIPLES.format(r=10)), job_of(TRIPLES.format(r=20))
    play = Play(first)
    play.batch(chunks_of(first, "http://ex/s", file, piece_bytes=10**6))
    play.plans = [second]
    with pytest.raises(UsageError, match="another query"):
        play.batch(chunks_of(second, "http://ex/s", file, piece_bytes=10**6))


def test_what_is_refused_is_told_once_with_its_place_in_the_file(tmp_path: Path) -> None:
    file = tmp_path / "a.nt"
    good = chain(0, 100).splitlines(keepends=True)
    good[60] = b"<http://ex/a> <http://ex/p> oops .\n"
    good[90] = b'<http://ex/a> <http://ex/p> "unfinished .\n'
    file.write_bytes(b"".join(good))
    job = job_of(TRIPLES.format(r=10), quarantine=str(tmp_path / "quarantine"))
    play = Play(job)
    for chunk in chunks_of(job, "http://ex/s", file, piece_bytes=1000):
        play.batch([chunk], retry=True)
    lines = [
        json.loads(line)
        for part in sorted((tmp_path / "quarantine").glob("*.jsonl"))
        for line in part.read_text().splitlines()
    ]
    assert [(line["source"], line["line"]) for line in lines] == [(str(file), 61), (str(file), 91)]
    assert lines[0]["column"] == 29
    assert all(line["reason"] and line["text"] for line in lines)
    assert play.counts["rejected"] == 2


def test_late_events_are_told_and_change_nothing(tmp_path: Path) -> None:
    file = tmp_path / "a.nq"
    file.write_text("".join(timed_graph(k, at) for k, at in enumerate([1000, 2000, 500, 3000])))
    text = "SELECT ?y FROM STREAM <http://ex/s> [RANGE 10s] WHERE { <http://ex/a> <http://ex/p> ?y }"
    job = job_of(text, late=str(tmp_path / "late"))
    play = Play(job)
    play.batch(chunks_of(job, "http://ex/s", file, piece_bytes=10**6))
    assert [row.bindings["y"] for row in play.rows] == [f"<http://ex/b{k}>" for k in (0, 1, 3)]
    (line,) = (tmp_path / "late" / "batch-00000000-shard-0.jsonl").read_text().splitlines()
    assert json.loads(line)["at"] == 500_000
    assert play.counts["late"] == 1


def test_files_of_triples_and_graphs_in_one_stream_are_told_apart(tmp_path: Path) -> None:
    (tmp_path / "a.nt").write_bytes(chain(0, 5))
    (tmp_path / "b.nq").write_bytes(b"<http://ex/a> <http://ex/p> <http://ex/b> <http://ex/g> .\n")
    job = job_of(TRIPLES.format(r=10), quarantine=str(tmp_path / "quarantine"))
    first = chunks_of(job, "http://ex/s", tmp_path / "a.nt", piece_bytes=10**6)
    second = chunks_of(job, "http://ex/s", tmp_path / "b.nq", piece_bytes=10**6)
    play = Play(job)
    place = first[0].schema.get_field_index("last")
    play.batch(
        [first[0].set_column(place, first[0].schema.field(place), second[0].column("shard").cast("bool"))]
    )
    play.batch(second)
    assert play.counts["rejected"] == 1


def test_the_end_of_a_stream_may_come_alone_and_still_closes_its_last_event(tmp_path: Path) -> None:
    file = tmp_path / "a.nq"
    file.write_text(
        '<http://ex/g> <http://www.w3.org/ns/prov#generatedAtTime> "1000" .\n'
        "<http://ex/a> <http://ex/p> <http://ex/b> <http://ex/g> .\n"
    )
    text = "SELECT ?y FROM STREAM <http://ex/s> [RANGE 10s] WHERE { <http://ex/a> <http://ex/p> ?y }"
    job = job_of(text)
    play = Play(job)
    (whole,) = chunks_of(job, "http://ex/s", file, piece_bytes=10**6)
    place = whole.schema.get_field_index("last")
    play.batch([whole.set_column(place, whole.schema.field(place), whole.column("shard").cast("bool"))])
    assert play.rows == []
    (tmp_path / "none.nq").touch()
    play.batch(chunks_of(job, "http://ex/s", tmp_path / "none.nq", piece_bytes=10**6), retry=True)
    assert [(row.at, row.bindings["y"]) for row in play.rows] == [(1_000_000, "<http://ex/b>")]


def test_an_event_without_a_graph_name_has_none_in_its_rows(tmp_path: Path) -> None:
    file = tmp_path / "a.nt"
    file.write_bytes(chain(0, 4))
    text = "SELECT ?x FROM STREAM <http://ex/s> [NOW] WHERE { ?x <http://ex/p> ?y }"
    job = job_of(text)
    play = Play(job)
    play.batch(chunks_of(job, "http://ex/s", file, piece_bytes=10**6))
    assert [(row.at, row.graph) for row in play.rows] == [(k * 1000, None) for k in range(4)]
