"""Sequences in shards: the same matches in any number of them, after every loss of a worker, from logs put together."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.property.harness import quads
from tests.property.sequence_cases import accepted, cases, within_lateness
from tests.property.sequence_cases import events as random_events
from tests.spark.fakes import Play, chunks_of, in_process, job_of, new_worker, payloads_of, pushed, told
from thalweg.lang import parse
from thalweg.plan.explain import explain
from thalweg.spark import shard_engine
from thalweg.testing.sequences import Event as Arrived
from thalweg.testing.sequences import SequenceCase
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
LAWS = {
    "followed": "A ; B",
    "immediately, between others": "A , B",
    "repeated": "A ; A2+ , B?",
    "negated": "A ; N! ; B",
    "negated at the next instant": "A , N! , B",
    "until nothing": "A , B? ; N!",
    "at once, or one": "((A <> B) | A) ; B",
    "with an optional part": "A ; O",
}


def text(sequence: str) -> str:
    return f"""PREFIX : <http://ex/> SELECT * WITHIN 12 MILLISECONDS
FROM STREAM S1 <{ONE}> FROM STREAM S2 <{TWO}> WHERE {{ SEQ ({sequence})
DEFINE GPM A ON S1 {{ ?x :p ?a }} DEFINE GPM A2 ON S1 {{ ?x :p ?a2 FILTER(?a2 >= ?a) }}
DEFINE GPM B ON S2 {{ ?x :q ?b }} DEFINE GPM N ON S2 {{ ?x :n ?n }}
DEFINE GPM O ON S2 {{ ?x :q ?c OPTIONAL {{ ?x :n ?d }} }} }}"""


def events(stream: str, seed: int) -> list[Event]:
    chosen, time, found = random.Random(seed), 0, []
    for number in range(40):
        time += chosen.choice([0, 1, 1, 2, 3]) * 1000
        predicate = chosen.choice("ppo" if stream == ONE else "qno")
        triple = (
            f"<http://ex/{chosen.choice('abcd')}>",
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
    job = job_of(text(QUERIES[name]), shards=1 if name == "followed" else 3, drain=True)
    assert job.reading.router.shares.shards == (1 if name == "followed" else 3)
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


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("partition", ["", "PARTITION BY ?x"])
def test_shards_have_the_matches_of_one_process(tmp_path: Path, name: str, partition: str) -> None:
    asked = text(LAWS[name]).replace("WHERE", f"{partition} WHERE", 1)
    found = []
    for shards in (1, 2, 5):
        job = job_of(asked, shards=shards, drain=True)
        assert job.shares.shards == shards
        paths = {}
        play, waiting = Play(job), []
        for seed, stream in enumerate((ONE, TWO), 2):
            paths[stream] = tmp_path / f"{seed}.nq"
            paths[stream].write_bytes(quads(events(stream, seed), stamp="before"))
            waiting += chunks_of(job, stream, paths[stream], piece_bytes=2000)
        for chunk in waiting:
            play.batch([chunk])
        found.append(told(play.rows))
    assert found[0] == told(in_process(job, paths))
    assert found[0]
    assert found[1] == found[0]
    assert found[2] == found[0]


def test_a_sequence_that_cannot_be_spread_has_one_shard_and_a_reason() -> None:
    free = text("A ; B").replace("?x :q ?b", "?y :q ?b")
    assert "no variable" in job_of(free, shards=4).shares.reason
    assert "shards     1: every triple goes to one task (no variable" in explain(parse(free), 4)
    distinct = text("A ; B").replace("SELECT *", "SELECT DISTINCT ?b")
    assert job_of(distinct, shards=4).shares.shards == 1
    assert "shards     4: ?x 4 (every atom that is not negated binds ?x" in explain(parse(text("A ; B")), 4)
    assert "runs       in a shared buffer" in explain(parse(text("A ; A2+")))
    alone = text("A+").replace("SELECT *", "SELECT ?a")
    assert job_of(alone, shards=4).shares.shards == 1
    assert job_of(text("A"), shards=4).shares.shards == 4
    skip = text("A ; B").replace("WHERE", "AFTER MATCH SKIP PAST LAST EVENT WHERE", 1)
    assert job_of(skip, shards=4).shares.shards == 1
    assert job_of(skip.replace("AFTER", "PARTITION BY ?x AFTER"), shards=4).shares.shards == 4


@pytest.mark.filterwarnings("ignore::thalweg.errors.ThalwegWarning")
@settings(max_examples=2 * settings.default.max_examples)
@given(cases(4), random_events(10), st.integers(2, 4), st.data())
def test_random_sequences_in_shards_have_the_matches_of_one_process(
    case: SequenceCase, arrived: list[Arrived], shards: int, data: st.DataObject
) -> None:
    assume(accepted(case))
    job = job_of(case.text(), shards=shards, lateness=4)
    assume(job.shares.shards > 1)
    sent = [
        Event(one.stream, 1000 * one.time, tuple(tuple(text[:-2].split(" ", 2)) for text in one.triples))
        for one in within_lateness(arrived, 4)
        if one.stream in case.streams
    ]
    end = ("<http://ex/end>", "<http://ex/unwanted>", "<http://ex/end>")
    sent += [Event(stream, 10_000_000, (end,)) for stream in case.streams]
    sent += [Event(stream, 20_000_000, (end,)) for stream in case.streams]
    play, rest = Play(job), list(sent)
    while rest:
        count = data.draw(st.sampled_from([1, 2, 5]))
        batch, rest = rest[:count], rest[count:]
        if data.draw(st.booleans()):
            new_worker()
        play.batch(payloads_of(job, batch), retry=data.draw(st.booleans()))
    assert told(play.rows) == told(pushed(job, sent)), case.text()


NEAR = f"""PREFIX : <http://ex/> CONSTRUCT <http://ex/near> {{ ?x :near ?b }} WITHIN 15 MILLISECONDS
FROM STREAM S1 <{ONE}> FROM STREAM S2 <{TWO}> WHERE {{ SEQ (A ; B)
DEFINE GPM A ON S1 {{ ?x :p ?a }} DEFINE GPM B ON S2 {{ ?x :q ?b }} }}"""
LARGE = f"""PREFIX : <http://ex/> REGISTER STREAM <http://ex/near> AS CONSTRUCT {{ ?x :near ?a }}
FROM STREAM <{ONE}> [NOW] WHERE {{ ?x :p ?a FILTER(?a > 0) }}"""
TWICE = """PREFIX : <http://ex/> SELECT ?x ?b ?c WITHIN 30 MILLISECONDS FROM STREAM S <http://ex/near>
WHERE { SEQ (A ; B) DEFINE GPM A ON S { ?x :near ?b } DEFINE GPM B ON S { ?x :near ?c } }"""
COUNTED = """PREFIX : <http://ex/> SELECT ?x (COUNT(*) AS ?n) FROM STREAM <http://ex/near> [RANGE 9ms]
WHERE { ?x :near ?b } GROUP BY ?x"""


@pytest.mark.parametrize(
    ("producer", "consumer"),
    [(NEAR, TWICE), (NEAR, COUNTED), (LARGE, TWICE)],
    ids=["seq-seq", "seq-sparql", "sparql-seq"],
)
def test_a_stream_that_a_query_makes_feeds_another_on_both_runners(producer: str, consumer: str) -> None:
    job = job_of(consumer, shards=3, derive=[producer])
    assert job.shares.shards == 1
    sent = sorted([*events(ONE, 7), *events(TWO, 8)], key=lambda event: event.time)
    play = Play(job)
    for start in range(0, len(sent), 7):
        new_worker()
        play.batch(payloads_of(job, sent[start : start + 7]))
    assert told(play.rows) == told(pushed(job, sent))
    assert play.rows
