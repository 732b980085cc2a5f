"""Sequences in the state of a shard: the same matches after every loss of a worker, and from logs put together."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.property.harness import quads
from tests.spark.fakes import Play, chunks_of, in_process, job_of, new_worker, told
from thalweg.spark import shard_engine
from thalweg.testing.snapshot import Event

ONE, TWO = "http://ex/one", "http://ex/two"
INTEGER = "<http://www.w3.org/2001/XMLSchema#integer>"
QUERIES = {
    "followed": "A ; B",
    "immediately": "A , B",
    "repeated": "A , A2+ , B?",
    "negated": "A ; N! ; B",
    "until nothing": "A ; N!",
    "at once": "(A <> B)",
}


def text(sequence: str) -> str:
    return f"""PREFIX : <http://ex/> SELECT * WITHIN 12 MILLISECONDS
FROM STREAM S1 <{ONE}> FROM STREAM S2 <{TWO}> WHERE {{ SEQ ({sequence})
DEFINE GPM A ON S1 {{ ?x :p ?a }} DEFINE GPM A2 ON S1 {{ ?x :p ?a2 FILTER(?a2 >= ?a) }}
DEFINE GPM B ON S2 {{ ?x :q ?b }} DEFINE GPM N ON S2 {{ ?x :n ?n }} }}"""


def events(stream: str, seed: int) -> list[Event]:
    chosen, time, found = random.Random(seed), 0, []
    for number in range(40):
        time += chosen.choice([0, 1, 1, 2, 3]) * 1000
        predicate = chosen.choice("ppo" if stream == ONE else "qno")
        triple = (
            f"<http://ex/{chosen.choice('ab')}>",
            f"<http://ex/{predicate}>",
            f'"{chosen.randrange(4)}"^^{INTEGER}',
        )
        found.append(Event(stream, time, (triple,), f"{stream}/{number}"))
    return found


@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize("saves", [False, True])
def test_a_sequence_has_the_same_matches_after_every_loss_of_a_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, saves: bool
) -> None:
    if saves:  # the log is put together after every batch
        monkeypatch.setattr(shard_engine, "_FULL", 0)
        monkeypatch.setattr(shard_engine, "_SPARSE", 0)
    job = job_of(text(QUERIES[name]), shards=4, drain=True)
    assert job.reading.router.shares.shards == 1
    paths, waiting = {}, []
    for seed, stream in enumerate((ONE, TWO)):
        paths[stream] = tmp_path / f"{seed}.nq"
        paths[stream].write_bytes(quads(events(stream, seed), stamp="before"))
        waiting.append(chunks_of(job, stream, paths[stream], piece_bytes=900))
    play = Play(job)
    for pair in zip(*waiting, strict=False):
        new_worker()
        play.batch(list(pair))
    for rest in waiting[0][len(waiting[1]) :] + waiting[1][len(waiting[0]) :]:
        new_worker()
        play.batch([rest])
    expected = told(in_process(job, paths))
    assert expected
    assert told(play.rows) == expected
