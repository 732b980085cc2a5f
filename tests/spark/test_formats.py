"""Every format of the table, from files and from payloads, on both runners: the same events."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import thalweg as tw
from tests.spark.fakes import run_frame, told
from tests.unit.rdf.jelly_frames import delimited, frames_of
from thalweg.answers import Row
from thalweg.io.files import read_events
from thalweg.options import RunOptions
from thalweg.rdf.chunk import Reject
from thalweg.rdf.formats import FORMATS

pytestmark = pytest.mark.spark
AT = "http://www.w3.org/ns/prov#generatedAtTime"
RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
P = "<http://ex/p>"
TURTLE = f'@prefix : <http://ex/NAME/> . :x {P} :y , [] , _:b . :z {P} "\u00e9"@EN . [] {P} :y .'
CONTENT = {
    "nt": f"<http://ex/NAME/x> {P} <http://ex/NAME/y> .\n<http://ex/NAME/x> {P} _:b .\nbad\n"
    f'<http://ex/NAME/z> {P} "\\u00e9"@EN .',
    "nq": f'<http://ex/NAME/g> <{AT}> "2" .\n<http://ex/NAME/x> {P} _:b <http://ex/NAME/g> .\n'
    f'<http://ex/NAME/z> {P} "1" <http://ex/NAME/g> .\n<http://ex/NAME/h> <{AT}> "3" .\n'
    f"_:b {P} <http://ex/NAME/y> <http://ex/NAME/h> .\n",
    "turtle": TURTLE,
    "trig": f'@prefix : <http://ex/NAME/> . :g <{AT}> "2" . :g {{ :x {P} :y , [] , _:b }} '
    f':h <{AT}> "3" . :h {{ :z {P} _:b }}',
    "jsonld": f'[{{"@id": "http://ex/NAME/g", "{AT}": "2", "@graph": [{{"@id": "http://ex/NAME/x", "http://ex/p": '
    '[{"@id": "http://ex/NAME/y"}, {}, {"@id": "_:b"}]}]}]',
    "rdfxml": f'<rdf:RDF xmlns:rdf="{RDF}" xmlns:e="http://ex/"><rdf:Description rdf:about="http://ex/NAME/x">'
    '<e:p rdf:resource="http://ex/NAME/y"/><e:p rdf:nodeID="b"/><e:p rdf:parseType="Resource">'
    '<e:p rdf:resource="http://ex/NAME/y"/></e:p></rdf:Description></rdf:RDF>',
    "n3": TURTLE,
}
LINE = "<http://ex/NAME/x> <http://ex/p> "
EVENTS = {
    "rdfp": f"TX .\nD {LINE} 'old' .\nA {LINE} _:b .\nA _:b {P} <http://ex/NAME/y> .\nTC .\nbad\n"
    f'TX .\nA {LINE} "no" .\nTA .\nA {LINE} "\u00e9"@EN .\n',
    "ru": f"PREFIX : <http://ex/NAME/> DELETE DATA {{ {LINE} 'old' }} ; INSERT DATA {{ :x {P} :y, [], _:b }} ; "
    f"INSERT DATA {{ :z {P} 'z' }}",
    "jsonl": "\n".join(
        [
            json.dumps({"op": "-", "graph": LINE + "'old' ."}),
            json.dumps({"graph": LINE + "<http://ex/NAME/y>, [], _:b ."}),
            "bad",
            json.dumps({"op": "insert", "graph": LINE + "1 .", "stream": "http://ex/else"}),
            json.dumps({"op": "insert", "graph": LINE + '"1" .', "format": "nt"}),
        ]
    ),
    "jelly": f"{LINE} <http://ex/NAME/y> .\n{LINE} _:b .\n_:b {P} <http://ex/NAME/z> .",
}
"""Formats that state events; their payloads are in test_payloads."""
BAD = ("nt", "rdfp", "jsonl")
TEXTS = {name: text.replace("NAME", name) for name, text in (CONTENT | EVENTS).items()}
TEXTS["rdfp"] = TEXTS["rdfp"].replace("'old'", '"old"')
BYTES = {name: text.encode() for name, text in TEXTS.items()}
BYTES["jelly"] = delimited(frames_of([({}, TEXTS["jelly"])]))
CASES = [
    (door, name) for name in TEXTS for door in ("file", "payload") if door == "file" or name not in EVENTS
]
LATER = 5_000_000
"""The time of payloads, after those of all events in files."""


def stream_of(door: str, name: str) -> str:
    return f"http://ex/{door}/{name}"


def query_of(streams: list[str]) -> str:
    windows = " ".join(f"FROM STREAM <{stream}> [NOW]" for stream in streams)
    return f"SELECT ?x ?y {windows} {{ ?x {P} ?y }}"


def in_process(folder: Path, name: str, door: str) -> tuple[list[Row], list[Reject]]:
    """The events of a stream as a session of this process finds them, and what it refuses."""
    stream = stream_of(door, name)
    session = tw.Session()
    query = session.register(query_of([stream]))
    if door == "payload":
        session.push(stream, at=LATER // 1000, graph=TEXTS[name], format=name)
    else:
        files = [folder / name / "one.data"]
        for batch in read_events(files, stream, session.arena, session.prune, RunOptions(format=name)):
            session.push_events(batch)
    return query.poll(), session.quarantine()


class OnSpark(NamedTuple):
    """What one query on Spark gives for all streams."""

    folder: Path
    rows: list[Row]
    rejects: list[dict[str, Any]]


@pytest.fixture(scope="module")
def on_spark(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> OnSpark:
    folder = tmp_path_factory.mktemp("formats")
    frames = []
    for name, text in BYTES.items():
        (folder / name).mkdir()
        (folder / name / "one.data").write_bytes(text)
        reading = {"syntax": name, "endOfStream": "true", "pieceBytes": "64"}
        frames.append(tw.spark.read(spark, str(folder / name), stream=stream_of("file", name), **reading))
        if name in EVENTS:
            continue
        table, schema = str(folder / f"table-{name}"), "text string, at long"
        spark.createDataFrame([(text.decode(), LATER // 1000)], schema).coalesce(1).write.parquet(table)
        messages = spark.readStream.schema(schema).parquet(table)
        stream = stream_of("payload", name)
        frames.append(tw.spark.events(messages, stream=stream, payload="text", time="at", format=name))
    whole = frames[0]
    for frame in frames[1:]:
        whole = whole.unionByName(frame, allowMissingColumns=True)
    query = query_of([stream_of(door, name) for door, name in CASES])
    answer = tw.spark.run(whole, query, shards=1, quarantine=str(folder / "quarantine"))
    rows, _ = run_frame(answer, str(folder / "checkpoint"))
    lines = [
        line for file in (folder / "quarantine").glob("*.jsonl") for line in file.read_text().splitlines()
    ]
    return OnSpark(folder, rows, [json.loads(line) for line in lines])


def without_labels(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Rows whose blank nodes have no labels: those of pushed graphs are by the number of the push."""
    return [
        (at, tuple((k, "_:" if v[:2] == "_:" else v) for k, v in names), *rest) for at, names, *rest in rows
    ]


def test_all_formats_of_the_table_are_tested() -> None:
    assert set(TEXTS) == {name for name, format in FORMATS.items() if not format.has_rows}


@pytest.mark.parametrize(("door", "name"), CASES)
def test_both_runners_read_the_same_events(door: str, name: str, on_spark: OnSpark) -> None:
    own = [
        row
        for row in on_spark.rows
        if (row.at == LATER) == (door == "payload")
        and any(f"http://ex/{name}/" in term for term in row.bindings.values())
    ]
    expected, refused = in_process(on_spark.folder, name, door)
    assert len(expected) >= 3
    if door == "file":
        assert told(own) == told(expected)
    else:
        assert sorted(without_labels(told(own))) == sorted(without_labels(told(expected)))
        labels = [
            len({v for row in rows for v in row.bindings.values() if v[:2] == "_:"})
            for rows in (own, expected)
        ]
        assert labels[0] == labels[1] > 0
    source = stream_of(door, name) if door == "payload" else str(on_spark.folder / name / "one.data")
    found = [(r["line"], r["reason"]) for r in on_spark.rejects if r["source"] == source]
    assert found == [(reject.line, reject.reason) for reject in refused]
    assert len(found) == (name in BAD)
