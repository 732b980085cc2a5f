"""Clauses that choose among matches, in shards: the rows of one process, after every loss of a worker."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.property.harness import quads
from tests.spark.fakes import Play, chunks_of, in_process, job_of, new_worker, told
from tests.spark.test_sequences_in_shards import ONE, TWO, events, text
from thalweg.answers import Row
from thalweg.errors import LimitError
from thalweg.spark import shard_engine

CLAUSES = {
    "AFTER MATCH SKIP PAST LAST EVENT": 1,
    "AFTER MATCH SKIP TO LAST A PARTITION BY ?x": 3,
    "CONSUME CHRONOLOGICAL": 1,
    "CONSUME RECENT PARTITION BY ?x": 3,
    "WITH TIMED OUT AS ?late": 3,
}


def played(job: object, paths: dict[str, Path], most: int | None = None) -> list[tuple[object, ...]]:
    """The rows of the files, batch by batch, each by a new worker; with at most so many entries of a log."""
    play = Play(job)
    waiting = [chunks_of(job, stream, path, piece_bytes=900) for stream, path in paths.items()]
    for number in range(max(map(len, waiting))):
        new_worker()
        play.batch([chunks[number] for chunks in waiting if number < len(chunks)])
        assert most is None or max(len(play.entries(shard)) for shard in range(play.shards)) <= most
    return told(play.rows)


@pytest.mark.parametrize("saves", [False, True])
@pytest.mark.parametrize("clause", CLAUSES)
def test_matches_that_exclude_others_and_partial_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clause: str, saves: bool
) -> None:
    if saves:  # the log is put together: which matches earlier ones exclude is in it
        monkeypatch.setattr(shard_engine, "_FULL", 12)
        monkeypatch.setattr(shard_engine, "_SPARSE", 0)
    job = job_of(text("A ; A2+ , B?").replace("WHERE", f"{clause} WHERE", 1), shards=3, drain=True)
    assert job.shares.shards == CLAUSES[clause]
    paths = {}
    for seed, stream in enumerate((ONE, TWO)):
        paths[stream] = tmp_path / f"{seed}.nq"
        paths[stream].write_bytes(quads(events(stream, seed), stamp="before"))
    found = played(job, paths, most=6 if saves else None)
    assert found == told(in_process(job, paths))
    assert found


@pytest.mark.parametrize("shards", [1, 2])
def test_deletes_are_refused_without_retractions(tmp_path: Path, shards: int) -> None:
    job = job_of(text("A ; B"), shards=shards)
    path = tmp_path / "one.rdfp"
    path.write_text('H time "1" .\nTX .\nD <http://ex/a> <http://ex/p> <http://ex/b> .\nTC .\n')
    with pytest.raises(LimitError, match=f"<{ONE}> has a delete at .* only WITH RETRACTIONS"):
        played(job, {ONE: path})


@pytest.mark.parametrize("shards", [1, 2])
def test_too_many_partial_matches_are_marked_by_gaps(tmp_path: Path, shards: int) -> None:
    """The limit is that of a shard, and what is dropped depends on batches; that something was, is in the rows."""
    job = job_of(text("A ; A2 ; B"), shards=shards, drain=True, max_partial_matches=8)
    paths = {}
    for seed, stream in enumerate((ONE, TWO)):
        paths[stream] = tmp_path / f"{seed}.nq"
        paths[stream].write_bytes(quads(events(stream, seed), stamp="before"))
    play = Play(job)
    for stream, path in paths.items():
        for chunk in chunks_of(job, stream, path, piece_bytes=900):
            play.batch([chunk])
    assert "gap" in {row.op for row in play.rows}
    found = matches([row for row in play.rows if row.op != "gap"])
    exact = matches(in_process(job_of(text("A ; A2 ; B"), drain=True), paths))
    assert found < exact  # some are missing, and none is wrong


def matches(rows: list[Row]) -> Counter[tuple[Any, ...]]:
    return Counter({tuple(row[:-1]): row[-1] for row in told(rows)})


def test_events_that_are_taken_back(tmp_path: Path) -> None:
    asked = text("A ; N! ; B").replace("WHERE", "WITH RETRACTIONS WHERE", 1)
    job = job_of(asked, shards=3, drain=True)
    assert job.shares.shards == 1
    chosen, paths = random.Random(5), {}
    for seed, stream in enumerate((ONE, TWO)):
        lines, before = [], []
        for event in events(stream, seed):
            time = event.time // 1000
            (triple,) = event.triples
            lines += [f'H time "{time}" .', "TX ."]
            if before and chosen.random() < 0.4:
                lines.append(f"D {' '.join(chosen.choice(before[-4:]))} .")
            lines += [f"A {' '.join(triple)} .", "TC ."]
            before.append(triple)
        paths[stream] = tmp_path / f"{seed}.rdfp"
        paths[stream].write_text("\n".join(lines) + "\n")
    expected = in_process(job, paths)
    assert {row.op for row in expected} == {"+", "-"}
    assert played(job, paths) == told(expected)
