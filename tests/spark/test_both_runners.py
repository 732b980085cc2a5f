"""One suite for both runners: each query gives the same rows in one process and in the stateful step with shards.

A new feature of the language gets a line here. Where shards, windows or reports differ in kind, a real Spark is asked,
too; it takes ten seconds for each query.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.spark.fakes import (
    Play,
    chunks_of,
    in_process,
    job_of,
    new_worker,
    payloads_of,
    pushed,
    run_frame,
    told,
)
from tests.spark.test_failures import engine_processes, kill
from thalweg.answers import Row
from thalweg.instants import show_instant
from thalweg.testing.snapshot import Event, Triple

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
    "groups": asked(CHAIN, what="?y (COUNT(*) AS ?n) (MIN(?x) AS ?a) (GROUP_CONCAT(?z) AS ?all)")
    + " GROUP BY ?y",
    "groups of an optional": asked(
        f"?x {P} ?y OPTIONAL {{ ?x {Q} ?z }}", what="?x (COUNT(DISTINCT ?z) AS ?n)"
    )
    + " GROUP BY ?x HAVING (COUNT(?z) < 3)",
    "one group": asked(CHAIN, "[RANGE 30 STEP 10]", "(COUNT(*) AS ?n) (MAX(?y) AS ?m)"),
    "groups in steps": asked(CHAIN, "[RANGE 30 STEP 10]", "?x (COUNT(*) AS ?n)", "RSTREAM") + " GROUP BY ?x",
    "graph of groups": made(
        f"?x {Q} ?n", f"{{ SELECT ?x (COUNT(?y) AS ?n) WHERE {{ ?x {P} ?y }} GROUP BY ?x }}"
    ),
    "top groups": asked(CHAIN, what="?y (COUNT(*) AS ?n)") + " GROUP BY ?y ORDER BY DESC(?n) LIMIT 3",
    "top rows in steps": asked(CHAIN, "[RANGE 30 STEP 10]", "?x ?z", "RSTREAM")
    + " ORDER BY DESC(?y) ?x LIMIT 5 OFFSET 1",
    "top rows of each event": asked("?x ?p ?y", "[NOW]", "?x ?y") + " ORDER BY ?y LIMIT 2",
    "one group of each event": asked(
        f"?x {Q} ?y", "[NOW]", "(COUNT(*) AS ?n) (<urn:thalweg:windowEnd>() AS ?at)"
    ),
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

ARRIVAL = "urn:thalweg:arrivalTime"
N1, N2 = "<http://ex/n1>", "<http://ex/n2>"
STEP = "[RANGE 30 STEP 10]"
ALGEBRA = {
    "optional": asked(f"?x {P} ?y OPTIONAL {{ ?y {Q} ?z }}"),
    "optional in a dynamic graph": asked(f"?x {P} ?y OPTIONAL {{ ?y {Q} ?z }}", ""),
    "chain of optionals": asked(
        f"?x {P} ?y OPTIONAL {{ ?y {Q} ?z OPTIONAL {{ ?z {P} ?w FILTER(?w != ?x) }} }} FILTER(!BOUND(?z) || ?z != {N1})"
    ),
    "star of optionals": asked(
        f"?x {P} ?y OPTIONAL {{ ?x {Q} ?z }} OPTIONAL {{ ?w {P} ?x }} FILTER(?x != {N1})"
    ),
    "union": asked(f"{{ ?x {P} ?y }} UNION {{ ?z {Q} ?x }}", what="DISTINCT ?x"),
    "union with a hidden variable": asked(
        f"{{ SELECT ?y {{ ?x {P} ?y }} }} UNION {{ ?x {Q} ?y }}", what="DISTINCT ?x ?y"
    ),
    "minus": asked(f"?x {P} ?y MINUS {{ ?y {Q} ?z }}"),
    "not exists": asked(f"?x {P} ?y FILTER NOT EXISTS {{ ?x {Q} ?z FILTER(?z != ?y) }}"),
    "exists in a condition": asked(f"?x {P} ?y FILTER(?x = {N1} || EXISTS {{ ?y {Q} ?z }})"),
    "bind": asked(f"?x {P} ?y BIND(STR(?y) AS ?name) FILTER(CONTAINS(?name, '2') || ?x = {N1})"),
    "values": asked(f"{CHAIN} VALUES (?x ?v) {{ ({N1} 1) ({N2} UNDEF) (UNDEF 3) }}", "[RANGE 20]"),
    "values only": asked("VALUES (?x ?y) { (1 2) (3 UNDEF) (1 2) }"),
    "sub-select": asked(f"?x {P} ?y {{ SELECT DISTINCT ?y WHERE {{ ?y {Q} ?z }} }}"),
    "path of zero or one": asked(f"?x {P}? ?y", "[RANGE 10]"),
    "path with a choice": asked(f"?x {P}|^{Q} ?y"),
    "path of one or more": asked(f"?x {P}+ ?y", "[RANGE 20]"),
    "path from a term in steps": asked(f"{N1} ({P}|^{Q})* ?y", STEP, operator="RSTREAM"),
    "path that others begin": asked(f"?x {Q} ?y . ?y {P}* ?z", ""),
    "path within each event": asked(f"?x ({P}|{Q})+ ?y", "[NOW]"),
    "arrival times": asked(
        f"?x {P} ?y . ?z {P} ?y FILTER(<{ARRIVAL}>(?x, {P}, ?y) < <{ARRIVAL}>(?z, {P}, ?y))",
        "[RANGE 20]",
        f"?x ?z (<http://larkc.eu/csparql/sparql/jena/ext#timestamp>(?x, {P}, ?y) AS ?t)",
    ),
    "groups with bounds": asked(
        f"?x {P} ?y", STEP, "?x (COUNT(*) AS ?n) (<urn:thalweg:windowStart>() AS ?from)", "ISTREAM"
    )
    + " GROUP BY ?x",
    "exists in an optional": asked(f"?x {P} ?y OPTIONAL {{ ?y {Q} ?z FILTER NOT EXISTS {{ ?x {Q} ?z }} }}"),
    "ask": f"ASK FROM STREAM <{S}> [RANGE 8] WHERE {{ ?x {P} ?x OPTIONAL {{ ?x {Q} ?y }} }}",
    "graph over an optional": made(f"?x {Q} ?z . ?y {P} [ {Q} ?z ]", f"?x {P} ?y OPTIONAL {{ ?y {Q} ?z }}"),
    "optional first": asked(f"OPTIONAL {{ ?x {P} ?x }}", "[RANGE 5]"),
    "each event with an optional": asked(f"?x ?p ?y OPTIONAL {{ ?x {Q} ?z }}", "[NOW]"),
    "rstream of an optional": asked(f"?x {P} ?y OPTIONAL {{ ?y {Q} ?z }}", STEP, operator="RSTREAM"),
    "istream of an optional": asked(f"?x {P} ?y OPTIONAL {{ ?y {Q} ?z }}", STEP, "?y ?z", "ISTREAM"),
    "dstream of not exists": asked(f"?x {P} ?y FILTER NOT EXISTS {{ ?x {Q} ?y }}", operator="DSTREAM"),
    "derived from an optional": (
        f"SELECT * FROM STREAM <http://ex/d> [RANGE 30] WHERE {{ ?x {Q} ?y OPTIONAL {{ ?y {P} ?z }} }}"
    ),
    "derived from a first instant": "SELECT * FROM STREAM <http://ex/d> [RANGE 50] WHERE { ?x ?p ?y }",
}
"""Queries of the algebra; they are in `CASES`, too."""

CASES |= ALGEBRA

DERIVE = {
    "derived from an optional": [
        f"REGISTER STREAM <http://ex/d> AS CONSTRUCT {{ ?x {Q} ?y . ?y {P} ?z }} FROM STREAM <{S}> [RANGE 20] "
        f"WHERE {{ ?x {P} ?y OPTIONAL {{ ?y {Q} ?z }} }}"
    ],
    "derived from a first instant": [
        f"REGISTER STREAM <http://ex/d> AS CONSTRUCT {{ ?x {Q} ?y }} FROM STREAM <{S}> [RANGE 20] "
        f"WHERE {{ VALUES (?x ?y) {{ ({N1} {N2}) }} }}"
    ],
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
    *("star", "rstream", "two streams", "derived", "star of optionals"),
    *(
        pytest.param(name, marks=pytest.mark.soak)
        for name in (
            *("triangle", "apart", "distinct", "by count", "each event", "graph with nodes"),
            *("union with a hidden variable", "exists in a condition", "values only"),
        )
    ),
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


def changes(seed: int) -> list[Event]:
    """Inserts and deletes of such edges, some at one instant; the first event has no edge that a query asks for."""
    chance = random.Random(seed)
    there: list[Triple] = []
    events = [Event(S, 1000, (("<http://ex/a>", "<http://ex/unwanted>", "<http://ex/b>"),))]
    at = 3000
    for _ in range(90):
        at += chance.choice([0, 500, 1000, 2000, 9000])
        edges = [
            (
                f"<http://ex/n{chance.randrange(5)}>",
                chance.choice([P, Q]),
                f"<http://ex/n{chance.randrange(5)}>",
            )
            for _ in range(chance.choice([1, 1, 2, 3]))
        ]
        if there and chance.random() < 0.35:
            gone = chance.choice(there)
            there.remove(gone)
            events.append(Event(S, at, (gone,), op="delete"))
        else:
            there += edges
            events.append(Event(S, at, tuple(edges)))
    return [*events, Event(S, at + 10**6, (("<http://ex/a>", "<http://ex/unwanted>", "<http://ex/b>"),))]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "shards"),
    [
        pytest.param(name, shards, marks=() if shards == 1 + k % 4 else pytest.mark.soak)
        for k, name in enumerate(ALGEBRA)
        for shards in (1, 2, 3, 4)
    ],
)
def test_kills_at_every_batch_leave_the_rows_of_the_algebra_as_they_are(name: str, shards: int) -> None:
    """Inserts and deletes in batches of any size; each batch is broken off, run, and run again, by new workers."""
    chance = random.Random(f"{name} {shards}")
    job = job_of(ALGEBRA[name], shards=shards, derive=DERIVE.get(name, ()))
    play = Play(job)
    events = rest = changes(shards)
    while rest:
        size = chance.choice([1, 1, 2, 7])
        new_worker()
        play.batch(payloads_of(job, rest[:size]), fail_after=chance.randrange(3), retry=chance.random() < 0.5)
        rest = rest[size:]
    assert told(play.rows) == told(pushed(job, events))
    assert len(play.rows) > 0


def patch_of(events: Iterable[Event]) -> str:
    """Events as RDF Patch, a transaction each."""
    rows = (
        (
            event,
            "".join(
                f"{'D' if event.op == 'delete' else 'A'} {' '.join(triple)} .\n" for triple in event.triples
            ),
        )
        for event in events
    )
    return "".join(f'H time "{show_instant(event.time)}" .\nTX .\n{text}TC .\n' for event, text in rows)


@pytest.mark.slow
@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize(
    "name", ["star", "triangle", "dynamic graph", "by count", "each event", "minus", "graph"]
)
def test_deletes_from_files_give_the_same_rows_in_shards_and_after_kills(
    tmp_path: Path, name: str, shards: int
) -> None:
    """Each file is a batch; it is broken off, run, and run again, by new workers."""
    chance = random.Random(f"{name} {shards}")
    job = job_of(CASES[name], shards=shards)
    events, paths = changes(shards), []
    for number in range(0, len(events), 17):
        paths.append(tmp_path / f"{number:03}.rdfp")
        paths[-1].write_text(patch_of(events[number : number + 17]))
    play = Play(job)
    for path in paths:
        new_worker()
        chunks = chunks_of(job, S, path, piece_bytes=2000, last=False)
        play.batch(chunks, fail_after=chance.randrange(3), retry=chance.random() < 0.5)
    whole = tmp_path / "whole.rdfp"
    whole.write_text(patch_of(events))
    assert told(play.rows) == told(in_process(job, {S: whole})) == told(pushed(job, events))
    assert len(play.rows) > 1


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("name", ["triangle", "by count", "each event"])
def test_graphs_that_state_their_times_give_the_same_rows_in_shards(
    tmp_path: Path, name: str, shards: int
) -> None:
    chance = random.Random(name)
    path, text = tmp_path / "s.nq", ""
    for k in range(60):
        node = [f"<http://ex/n{chance.randrange(5)}>" for _ in range(4)]
        graph = f"<http://ex/g{k}>"
        rows = [f"{node[0]} {P} {node[1]}", f"{node[0]} {Q} {node[2]}", f"{node[3]} {P} {node[0]}"]
        rows.insert(chance.randrange(4), f'{node[1]} {P} "{3 * k}"')
        text += "".join(f"{row} {graph} .\n" for row in rows)
    path.write_text(text)
    job = job_of(CASES[name], shards=shards, time_predicate=P)
    play = Play(job)
    for chunk in chunks_of(job, S, path, piece_bytes=1000):
        play.batch([chunk])
    assert told(play.rows) == told(in_process(job, {S: path}))
    assert len(play.rows) > 1


@pytest.mark.parametrize("name", ["values only", "optional first"])
def test_rows_without_triples_begin_with_the_first_event_also_if_nothing_of_it_is_kept(name: str) -> None:
    job = job_of(ALGEBRA[name], shards=4)
    play = Play(job)
    events = changes(0)
    for number, event in enumerate(events):
        if number % 2:
            new_worker()
        play.batch(payloads_of(job, [event]))
    assert len(play.stages[-1]) == 1
    assert play.rows[0].at == events[0].time
    assert told(play.rows) == told(pushed(job, events))


def test_a_row_has_no_binding_of_a_variable_that_is_unbound(tmp_path: Path) -> None:
    file = tmp_path / "a.nt"
    file.write_text(f"{N1} {P} {N2} .\n")
    job = job_of(ALGEBRA["optional"], shards=2)
    play = Play(job)
    play.batch(chunks_of(job, S, file, piece_bytes=1000))
    assert [row.bindings for row in play.rows] == [{"x": N1, "y": N2}]


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


@pytest.mark.spark
@pytest.mark.parametrize("name", ["optional first", "star of optionals"])
def test_the_algebra_goes_on_from_a_checkpoint_on_spark(
    spark: Any, tmp_path: Path, checkpoint: str, name: str
) -> None:
    """The engines of the first run are gone when the second one begins; the log has less than the stream."""
    import thalweg as tw

    text, file, rows = ALGEBRA[name], tmp_path / "s.nt", []
    replayed: list[int] = []
    for seed, end in (1, "false"), (2, "true"):
        with file.open("a") as more:
            more.write(lines(seed))
        for process in engine_processes():
            kill(process)
        events = tw.spark.read(
            spark,
            str(file),
            stream=S,
            endOfStream=end,
            settle="3600",
            maxBytesPerTrigger="4k",
            pieceBytes="1k",
        )
        found, progress = run_frame(tw.spark.run(events, text, shards=2), checkpoint)
        rows += found
        stages = [stage for step in progress for stage in step.observedMetrics.values()]
        replayed.append(sum(stage["replayed"] for stage in stages))
    assert replayed[0] == 0 < replayed[1]
    assert told(rows) == told(in_process(job_of(text), {S: file}))


@pytest.mark.spark
def test_deletes_of_a_file_go_on_from_a_checkpoint_on_spark(
    spark: Any, tmp_path: Path, checkpoint: str
) -> None:
    import thalweg as tw

    text, folder, rows = CASES["minus"], tmp_path / "patches", []
    folder.mkdir()
    events = changes(1)
    half = len(events) // 2
    for name, part, end in ("1", events[:half], "false"), ("2", events[half:], "true"):
        (folder / f"{name}.rdfp").write_text(patch_of(part))
        for process in engine_processes():
            kill(process)
        source = tw.spark.read(spark, str(folder), stream=S, endOfStream=end, settle="0", pieceBytes="1k")
        found, _ = run_frame(tw.spark.run(source, text, shards=2), checkpoint)
        rows += found
        assert found
    whole = tmp_path / "whole.rdfp"
    whole.write_text(patch_of(events))
    assert told(rows) == told(in_process(job_of(text), {S: whole}))
