"""A stream that falls silent: after a while, answers no longer wait for it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from tests.spark.fakes import Play, chunks_of, job_of, new_worker
from thalweg.spark.shard_plan import ShardPlan

ONE, TWO = "http://ex/one", "http://ex/two"
TEXT = (
    f"SELECT ?x ?z FROM NAMED WINDOW <http://ex/w> ON <{ONE}> [RANGE 10s] "
    f"FROM NAMED WINDOW <http://ex/v> ON <{TWO}> [RANGE 10s] "
    "WHERE { WINDOW <http://ex/w> { ?x <http://ex/p> ?y } WINDOW <http://ex/v> { ?y <http://ex/q> ?z } }"
)


def chunks(job: ShardPlan, folder: Path, stream: str, predicate: str, seconds: range) -> list[pa.RecordBatch]:
    """Events of a stream, at these seconds; the last is open, for more of it may come."""
    path = folder / f"{predicate}-{seconds.start}.nq"
    path.write_text(
        "".join(
            f'<http://ex/g{k}> <http://www.w3.org/ns/prov#generatedAtTime> "{k}000" .\n'
            f"<http://ex/a> <http://ex/{predicate}> <http://ex/a> <http://ex/g{k}> .\n"
            for k in seconds
        )
    )
    return chunks_of(job, stream, path, piece_bytes=1 << 20, last=False)


def test_answers_come_after_the_time_out_whoever_runs_the_engine_by_then(tmp_path: Path) -> None:
    for lost in (False, True):
        play = Play(job := job_of(TEXT, idle=10_000))
        play.clock = 1_000
        play.batch(
            chunks(job, tmp_path, ONE, "p", range(1, 5)) + chunks(job, tmp_path, TWO, "q", range(1, 3))
        )
        told = len(play.rows)
        play.clock = 6_000
        play.batch(chunks(job, tmp_path, ONE, "p", range(5, 40)))
        assert len(play.rows) == told, "the other stream may still say something"
        if lost:
            new_worker()
        play.wake_up(10_999)
        assert len(play.rows) == told
        play.wake_up(11_000)
        assert [(row.at // 1_000_000, row.op) for row in play.rows[told:]] == [(11, "-")], (
            "10 s after the last that was whole"
        )


def test_what_a_silent_stream_brings_later_is_late_only_where_the_others_have_passed(tmp_path: Path) -> None:
    play = Play(job := job_of(TEXT, idle=10_000))
    play.batch(chunks(job, tmp_path, ONE, "p", range(1, 20)))
    play.wake_up(10_000)
    play.batch(chunks(job, tmp_path, TWO, "q", range(15, 25)))
    assert play.counts["late"] == 3, "15 to 17; the first stream is at 18"
    assert [(row.at // 1_000_000, row.op) for row in play.rows] == [(18, "+")]


def test_when_all_are_silent_time_goes_to_where_the_first_of_them_is(tmp_path: Path) -> None:
    play = Play(job := job_of(TEXT, idle=10_000))
    play.batch(chunks(job, tmp_path, ONE, "p", range(1, 15)) + chunks(job, tmp_path, TWO, "q", range(1, 3)))
    assert [row.op for row in play.rows] == ["+"]
    play.wake_up(50_000)
    assert [(row.at // 1_000_000, row.op) for row in play.rows] == [(1, "+"), (11, "-")]
    play.wake_up(500_000)
    play.batch(
        chunks(job, tmp_path, TWO, "q", range(14, 19)) + chunks(job, tmp_path, ONE, "p", range(15, 19))
    )
    assert play.counts["late"] == 1, "the graph of second 2, which was open"
    assert [(row.at // 1_000_000, row.op) for row in play.rows[2:]] == [(14, "+")]


def test_the_second_stage_goes_on_with_the_time_out_too(tmp_path: Path) -> None:
    text = TEXT.replace("?x ?z", "(COUNT(*) AS ?n)", 1)
    rows = []
    for shards in (1, 3):
        play = Play(job := job_of(text, idle=10_000, shards=shards))
        play.batch(
            chunks(job, tmp_path, ONE, "p", range(1, 15)) + chunks(job, tmp_path, TWO, "q", range(1, 3))
        )
        new_worker()
        play.wake_up(50_000)
        rows.append([(row.at // 1_000_000, row.op, row["n"][1]) for row in play.rows])
    assert job.second is not None
    assert rows[0] == rows[1]
    assert rows[0][-1] == (11, "+", "0")
