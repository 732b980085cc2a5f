"""One suite for both runners: each query gives the same rows in one process and in the stateful step with shards.

A new feature of the language gets a line here. Where shards, windows or reports differ in kind, a real Spark is asked,
too; it takes ten seconds for each query.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from tests.spark.fakes import Play, chunks_of, in_process, job_of, told
from thalweg.answers import Row

S, T = "http://ex/s", "http://ex/t"
P, Q = "<http://ex/p>", "<http://ex/q>"


def asked(body: str, window: str = "[RANGE 40]", what: str = "*", operator: str = "") -> str:
    head = f"REGISTER {operator} <http://ex/out> AS " if operator else ""
    return f"{head}SELECT {what} FROM STREAM <{S}> {window} WHERE {{ {body} }}"


def made(template: str, body: str, window: str = "[RANGE 40]", operator: str = "") -> str:
    head = f"REGISTER {operator} <http://ex/out> AS " if operator else ""
    return f"{head}CONSTRUCT {{ {template} }} FROM STREAM <{S}> {window} WHERE {{ {body} }}"


CHAIN = f"?x {P} ?y . ?y {P} ?z"
CASES = {
    "star": asked(f"?x {P} ?y . ?x {Q} ?z"),
    "chain": asked(CHAIN),
    "tree": asked(f"?x {P} ?y . ?x {Q} ?z . ?y {P} ?v . ?z {Q} ?w"),
    "triangle": asked(f"?x {P} ?y . ?y {P} ?z . ?z {P} ?x"),
    "square": asked(f"?a {P} ?b . ?b {Q} ?c . ?c {P} ?d . ?d {Q} ?a"),
    "apart": asked(f"?x {P} <http://ex/n1> . ?y {Q} <http://ex/n2>", "[RANGE 20]"),
    "ground": asked(f"<http://ex/n5> {P} <http://ex/n5> . <http://ex/n5> {Q} <http://ex/n1>", "[RANGE 90]"),
    "dynamic graph": asked(CHAIN, ""),
    "any predicate": asked("?x ?p ?y . ?y ?p ?x"),
    "distinct": asked(CHAIN, what="DISTINCT ?x"),
    "istream": asked(CHAIN, "[RANGE 30 STEP 10]", operator="ISTREAM"),
    "dstream": asked(CHAIN, "[RANGE 30 STEP 10]", what="?y", operator="DSTREAM"),
    "rstream": asked(CHAIN, "[RANGE 30 STEP 10]", operator="RSTREAM"),
    "rstream that slides": asked(CHAIN, "[RANGE 10]", operator="RSTREAM"),
    "by count": asked(CHAIN, "[ELEMENTS 20 STEP 5]"),
    "each event": asked("?x ?p ?y . ?x ?p ?x", "[NOW]"),
    "graph": made(f"?x {Q} ?z", CHAIN),
    "graph of two ends": made(f"?x {Q} ?y . ?y {Q} ?x", CHAIN, "[RANGE 30 STEP 10]"),
    "graph with nodes": made(f"?x {P} _:n . _:n {Q} ?z", CHAIN),
    "graph in steps": made(f"?y {P} [ {Q} ?x ]", CHAIN, "[RANGE 30 STEP 10]", "RSTREAM"),
    "graph of what comes": made(f"<http://ex/all> {P} ?x", CHAIN, operator="ISTREAM"),
    "graph of one triple": made(f"<http://ex/all> {P} <http://ex/all>", CHAIN, "[RANGE 3]"),
    "graph of each event": made(f"?x {P} [ {Q} ?y ]", "?x ?p ?y . ?x ?p ?x", "[NOW]"),
    "two streams": (
        f"SELECT * FROM NAMED WINDOW <http://ex/w1> ON <{S}> [RANGE 40 STEP 20] "
        f"FROM NAMED WINDOW <http://ex/w2> ON <{T}> [RANGE 30 STEP 20] "
        f"WHERE {{ WINDOW <http://ex/w1> {{ ?x {P} ?y }} WINDOW <http://ex/w2> {{ ?y {P} ?z }} }}"
    ),
    "derived": (
        f"SELECT * FROM STREAM <http://ex/d> [RANGE 30] FROM STREAM <{S}> [RANGE 30] WHERE {{ ?x {Q} ?y . ?y {P} ?z }}"
    ),
    "derived twice": f"SELECT * FROM STREAM <http://ex/d> [ELEMENTS 5 STEP 2] WHERE {{ ?x {P} ?y }}",
}

DERIVE = {
    "derived": [
        f"REGISTER ISTREAM <http://ex/d> AS CONSTRUCT {{ ?x {Q} ?z }} FROM STREAM <{S}> [RANGE 20] WHERE {{ {CHAIN} }}"
    ],
    "derived twice": [
        f"REGISTER STREAM <http://ex/c> AS CONSTRUCT {{ ?x {Q} ?z }} FROM STREAM <{S}> [RANGE 20] WHERE {{ {CHAIN} }}",
        f"REGISTER RSTREAM <http://ex/d> AS CONSTRUCT {{ ?z {P} ?x }} FROM STREAM <http://ex/c> [RANGE 9 STEP 3] "
        f"WHERE {{ ?x {Q} ?z }}",
    ],
}
"""CONSTRUCT queries whose streams a case reads."""


def lines(seed: int) -> str:
    """Edges of two kinds among a few nodes."""
    chance = random.Random(seed)
    return "".join(
        f"<http://ex/n{chance.randrange(9)}> <http://ex/{chance.choice('pq')}> <http://ex/n{chance.randrange(9)}> .\n"
        for _ in range(200)
    )


EMPTY = {
    "two values": asked(f"{CHAIN} FILTER(?y = <http://ex/n1> && ?y = <http://ex/n2>)"),
    "no value": asked(f"{CHAIN} FILTER(?nowhere = <http://ex/n1>)", "[RANGE 30 STEP 10]", operator="RSTREAM"),
    "no value by count": asked(f"{CHAIN} FILTER(?nowhere)", "[ELEMENTS 20 STEP 5]"),
    "no value of each event": asked(f"{CHAIN} FILTER(?nowhere)", "[NOW]"),
    "graph": made(f"?x {Q} ?z", f"{CHAIN} FILTER(?y = 'so')", "[RANGE 30 STEP 10]", "ISTREAM"),
}
"""Queries whose answer is always empty."""

ON_SPARK = (
    *("star", "triangle", "apart", "distinct", "rstream", "by count", "each event", "two streams"),
    *("graph with nodes", "derived"),
)


def files_of(text: str, folder: Path) -> dict[str, Path]:
    paths = {S: folder / "s.nt"}
    if T in text:
        paths[T] = folder / "t.nt"
    for number, path in enumerate(paths.values()):
        path.write_text(lines(number))
    return paths


@pytest.mark.parametrize("shards", [2, 5])
@pytest.mark.parametrize("name", CASES)
def test_a_query_gives_the_same_rows_in_shards(tmp_path: Path, name: str, shards: int) -> None:
    text = CASES[name]
    paths = files_of(text, tmp_path)
    job = job_of(text, shards=shards, drain=True, derive=DERIVE.get(name, ()))
    play = Play(job)
    for stream, path in paths.items():
        for chunk in chunks_of(job, stream, path, piece_bytes=2000):
            play.batch([chunk])
    assert told(play.rows) == told(in_process(job, paths))
    assert len(play.rows) > 1


@pytest.mark.parametrize("shards", [1, 2])
@pytest.mark.parametrize("name", EMPTY)
def test_a_query_without_solutions_gives_no_rows_in_shards(tmp_path: Path, name: str, shards: int) -> None:
    paths = files_of(EMPTY[name], tmp_path)
    job = job_of(EMPTY[name], shards=shards, drain=True)
    play = Play(job)
    for chunk in chunks_of(job, S, paths[S], piece_bytes=2000):
        play.batch([chunk])
    assert play.counts["events"] >= 200
    assert play.rows == in_process(job, paths) == []


@pytest.mark.spark
@pytest.mark.parametrize("shards", [1, 2])
def test_a_query_without_solutions_gives_no_rows_on_spark(spark: Any, tmp_path: Path, shards: int) -> None:
    from thalweg.spark import run_files

    text = EMPTY["two values"]
    rows: list[Row] = []
    streams = {stream: str(path) for stream, path in files_of(text, tmp_path).items()}
    run_files(text, streams, rows.extend, spark=spark, shards=shards, drain=True)
    assert rows == []


@pytest.mark.spark
@pytest.mark.parametrize("name", ON_SPARK)
def test_a_query_gives_the_same_rows_on_both_runners(spark: Any, tmp_path: Path, name: str) -> None:
    from thalweg.spark import run_files

    text = CASES[name]
    paths = files_of(text, tmp_path)
    rows: list[Row] = []
    streams = {stream: str(path) for stream, path in paths.items()}
    source = {"maxBytesPerTrigger": "6k", "pieceBytes": "2k"}
    derive = DERIVE.get(name, ())
    run_files(text, streams, rows.extend, spark=spark, source=source, shards=2, drain=True, derive=derive)
    assert told(rows) == told(in_process(job_of(text, drain=True, derive=derive), paths))
    assert len(rows) > 1
