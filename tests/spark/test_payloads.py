"""Payloads as events: times, deletes, graphs, blank nodes, and what is wrong with them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thalweg.engine import Session
from thalweg.options import RunOptions
from thalweg.rdf.arena import Arena
from thalweg.rdf.chunk import Chunk, Reject
from thalweg.rdf.prune import Prune, Signature
from thalweg.rdf.timestamped import TimestampedFramer, merged
from thalweg.spark.payloads import read_payloads
from thalweg.testing.strategies import LINE_ENDS

S = "http://ex/s"
AT = "<http://www.w3.org/ns/prov#generatedAtTime>"
TYPES = {
    "time": pa.int64(),
    "said": pa.string(),
    "timed": pa.bool_(),
    "payload": pa.binary(),
    "op": pa.string(),
}


def row(payload: bytes | None, **more: Any) -> dict[str, Any]:
    usual = {
        "stream": S,
        "source": None,
        "syntax": "nt",
        "payload": payload,
        "time": 0,
        "said": None,
        "timed": True,
        "op": None,
    }
    return {**usual, **more}


def read(*rows: dict[str, Any], prune: Prune | None = None) -> tuple[Arena, Chunk, int]:
    schema = pa.schema([(name, TYPES.get(name, pa.string())) for name in rows[0]])
    batch = pa.RecordBatch.from_pylist(list(rows), schema=schema)
    return read_payloads(prune or Prune.everything(), RunOptions(), batch)


def told(arena: Arena, chunk: Chunk) -> list[tuple[int, int, int, str]]:
    """Event, time, op and subject of each row that is data."""
    return [
        (int(chunk.number[k]), int(chunk.time[k]), int(chunk.op[k]), arena.text(int(chunk.s[k])))
        for k in range(len(chunk))
        if chunk.s[k]
    ]


def test_a_payload_with_a_time_is_one_event() -> None:
    arena, chunk, size = read(
        row(b"<a:1> <a:p> <a:o> .\n<a:2> <a:p> <a:o> .", time=5000),
        row(b"<a:3> <a:p> <a:o> <a:g> .\n", syntax="nq", time=4000, op="delete"),
        row(b"", time=7000),
    )
    assert told(arena, chunk) == [(0, 5000, 1, "<a:1>"), (0, 5000, 1, "<a:2>"), (1, 4000, -1, "<a:3>")]
    assert (chunk.statements, int(chunk.number[-1]), chunk.rejects) == (3, 2, ())
    assert size == 67, "with the line ends that were missing"


def test_a_time_may_be_a_text() -> None:
    _, chunk, _ = read(row(b"<a:1> <a:p> <a:o> .", time=None, said="1970-01-01T00:00:01.5Z"))
    assert chunk.time.tolist() == [1_500_000]


def test_graphs_say_their_times_themselves() -> None:
    text = (
        f'<a:1> <a:p> <a:o> <a:g> .\n<a:g> {AT} "2" .\n<a:h> {AT} "3" .\n'
        "<a:2> <a:p> <a:o> <a:h> .\n<a:3> <a:p> <a:o> <a:g> .\n"
    )
    arena, chunk, _ = read(row(text.encode(), syntax="nq", timed=False))
    assert sorted(told(arena, chunk), key=lambda t: t[3]) == sorted(
        [
            (e, t, 1, s)
            for s, t in (("<a:1>", 2000), ("<a:2>", 3000), ("<a:3>", 2000))
            for e in [_event(chunk, t)]
        ],
        key=lambda t: t[3],
    )
    assert len(set(chunk.number.tolist())) == 2


def _event(chunk: Chunk, time: int) -> int:
    return int(chunk.number[np.flatnonzero(chunk.time == time)[0]])


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (row(None), "no payload"),
        (row(b"<a:1> <a:p> <a:o> .", stream=""), "no stream"),
        (row(b"<a:1> <a:p> <a:o> .", time=None), "no time"),
        (row(b"<a:1> <a:p> <a:o> .", said="yesterday"), "not an instant"),
        (row(b"<a:1> <a:p> <a:o> .", op="upsert"), "upsert"),
        (row(b"<a:1> <a:p> <a:o> <a:g> .", syntax="nq", timed=False), "<a:g> has no time"),
        (row(b"<a:1> <a:p> <a:o> .", syntax="nq", timed=False), "no graph of this payload has a time"),
        (row(b"<a:1> <a:p>", syntax="turtle"), "Unexpected end"),
        (row(b"\xff\xfe\x00", syntax="jsonld"), "not JSON-LD"),
        (row(b"<a:1> <a:p> oops .\n"), "oops"),
        (row(b"<a:1> <a:p> <a:o> <a:g> .\n"), "expected '.'"),
        (row(b"\x00\xff\xfe garbage"), ""),
    ],
)
def test_a_bad_payload_is_refused_and_its_neighbours_are_not(given: dict[str, Any], reason: str) -> None:
    good = row(b"<a:good> <a:p> <a:o> .", time=1000)
    arena, chunk, _ = read(good, {**given, "source": "topic/0/17"}, good)
    assert [subject for _, _, _, subject in told(arena, chunk)] == ["<a:good>", "<a:good>"]
    (reject,) = chunk.rejects
    assert reject.source == "topic/0/17"
    assert reason in reject.reason or reason in reject.text
    assert reject.kind == ("untimed" if given["syntax"] == "nq" else "malformed")


def test_a_bad_line_is_told_with_its_place_in_its_payload() -> None:
    text = b"<a:1> <a:p> <a:o> .\n\n<a:2> <a:p> .\n<a:3> <a:p> <a:o> .\n"
    arena, chunk, _ = read(row(text), row(text, source="second"))
    assert [(reject.source, reject.line) for reject in chunk.rejects] == [(S, 3), ("second", 3)]
    assert isinstance(chunk.rejects[0], Reject)
    assert len(told(arena, chunk)) == 4


def test_lone_carriage_returns_end_the_lines_of_a_payload() -> None:
    arena, chunk, _ = read(
        row(b"bad\rbad\rbad", source="one"), row(b"<a:1> <a:p> <a:o> .\rbad", source="two")
    )
    assert [(reject.source, reject.line) for reject in chunk.rejects] == [
        *(("one", 1), ("one", 2), ("one", 3)),
        ("two", 2),
    ]
    assert [subject for _, _, _, subject in told(arena, chunk)] == ["<a:1>"]


@given(
    texts=st.lists(
        st.lists(
            st.sampled_from([b"<a:1> <a:p> <a:o> .", b"bad", b"bad", b"", *LINE_ENDS, *LINE_ENDS]), max_size=9
        ).map(b"".join),
        min_size=1,
        max_size=6,
    )
)
def test_a_reject_names_its_payload_and_its_line_whatever_ends_the_lines(texts: list[bytes]) -> None:
    _, chunk, _ = read(*(row(text, source=str(k)) for k, text in enumerate(texts)))
    good = b"<a:1> <a:p> <a:o> ."
    assert [(reject.source, reject.line) for reject in chunk.rejects] == [
        (str(k), number)
        for k, text in enumerate(texts)
        for number, line in enumerate(text.splitlines(), 1)
        if line not in (b"", good)
    ]


@pytest.mark.parametrize(
    ("syntax", "text"),
    [
        ("turtle", b"@prefix a: <http://ex/> . a:x a:p a:y, a:z ."),
        ("trig", b"@prefix a: <http://ex/> . a:g { a:x a:p a:y, a:z }"),
        ("n3", b"@prefix a: <http://ex/> . a:x a:p a:y, a:z ."),
        (
            "jsonld",
            b'{"@id": "http://ex/x", "http://ex/p": [{"@id": "http://ex/y"}, {"@id": "http://ex/z"}]}',
        ),
        (
            "rdfxml",
            b'<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:a="http://ex/">'
            b'<rdf:Description rdf:about="http://ex/x"><a:p rdf:resource="http://ex/y"/><a:p rdf:resource="http://ex/z"/>'
            b"</rdf:Description></rdf:RDF>",
        ),
    ],
)
def test_other_formats_are_read_by_a_complete_parser(syntax: str, text: bytes) -> None:
    arena, chunk, _ = read(row(text, syntax=syntax))
    assert sorted(arena.texts(chunk.o)) == ["<http://ex/y>", "<http://ex/z>"]


def test_a_payload_of_which_nothing_is_kept_differs_from_one_without_triples() -> None:
    unwanted, wanted = b"<a:s> <a:q> <a:o> .", b"<a:s> <a:p> <a:o> .\n<a:s> <a:q> <a:o> ."
    quad = b'<a:g> %s "7" .\n<a:s> <a:q> <a:o> <a:g> .' % AT.encode()
    rows = [row(unwanted), row(b""), row(b"oops"), row(unwanted, op="delete"), row(b"", op="delete")]
    rows += [row(wanted), row(quad, syntax="nq", timed=False)]
    arena, chunk, _ = read(*rows, prune=Prune.of([Signature(None, b"<a:p>", None)]))
    batch = TimestampedFramer(S, arena).frame(chunk)
    assert batch.inserts is not None
    assert batch.inserts.tolist() == [True, False, False, False, False, True, True]
    assert batch.with_markers().rows.event.tolist() == [0, 5, 6]
    assert arena.texts(batch.rows.p) == ["<a:p>"]


def test_messages_of_one_batch_are_taken_in_the_order_of_their_times() -> None:
    session = Session()
    query = session.register(f"SELECT ?x ?y FROM STREAM <{S}> [RANGE 10] WHERE {{ ?x <a:p> ?y }}")
    framer = TimestampedFramer(S, session.arena)
    chunks = []
    for rows in (
        [row(b"<a:1> <a:p> _:b .", time=9000), row(b"<a:2> <a:p> _:b .", time=2000)],
        [row(b"<a:3> <a:p> <a:o> .", time=5000), row(b"<a:3> <a:p> <a:o> .", time=6000, op="-")],
    ):
        arena, chunk, _ = read(*rows, prune=session.prune())
        chunks.append(Chunk.unpack(chunk.pack(arena), session.arena))
    batch = framer.frame(merged(chunks))
    session.push_events(batch)
    answers = query.poll()
    assert [(r.at, r.op, r["x"]) for r in answers] == [
        (2000, "+", "<a:2>"),
        (5000, "+", "<a:3>"),
        (6000, "-", "<a:3>"),
        (9000, "+", "<a:1>"),
    ]
    assert answers[0]["y"] != answers[3]["y"], "labels hold within an event"
    assert (batch.events, batch.clock, session.stats.late) == (4, 9000, 0)


def test_a_payload_may_state_events_with_ops_and_times_of_their_own() -> None:
    lines = b"".join(
        [
            b'{"at": 9, "op": "-", "graph": "<a:1> <a:p> 1 ."}\n',
            b'{"graph": "<a:2> <a:p> 1 ."}\n{"at": 8, "graph": ""}\nbad',
        ]
    )
    arena, chunk, size = read(
        row(b"<a:0> <a:p> <a:o> .\n", time=7000),
        row(lines, syntax="jsonl", time=5000, source="topic/0/7"),
    )
    assert told(arena, chunk) == [(0, 7000, 1, "<a:0>"), (1, 9000, -1, "<a:1>"), (3, 5000, 1, "<a:2>")]
    assert chunk.time[chunk.number == 2].tolist() == [8000]
    assert size == 20 + len(lines)
    assert [(reject.source, reject.line) for reject in chunk.rejects] == [("topic/0/7", 4)]


def test_changes_without_a_time_are_one_update_at_the_time_of_their_payload() -> None:
    rows = [b'A <a:1> <a:p> "x"', b"A <a:1> <a:p> <a:o>", b"D <a:1> <a:p> <a:o>"]
    rows += [b"D <a:2> <a:p> <a:o>", b"A <a:2> <a:p> <a:o>", b""]
    text = b" .\n".join(rows)
    arena, chunk, _ = read(row(text, syntax="rdfp", time=5000))
    assert told(arena, chunk) == [(0, 5000, -1, "<a:1>"), (1, 5000, 1, "<a:1>"), (1, 5000, 1, "<a:2>")]


def test_events_of_a_payload_without_any_time_are_refused_and_the_others_are_not() -> None:
    lines = b'{"graph": "<a:1> <a:p> 1 ."}\n{"at": 8, "graph": "<a:2> <a:p> 1 ."}'
    arena, chunk, _ = read(row(lines, syntax="jsonl", time=None, timed=False))
    assert told(arena, chunk) == [(0, 8000, 1, "<a:2>")]
    assert [reject.reason for reject in chunk.rejects] == ["1 event of this payload without a time"]


@pytest.mark.parametrize("syntax", ["rdfp", "ru", "jsonl", "jelly"])
def test_a_format_with_ops_has_no_op_beside_it(syntax: str) -> None:
    _, chunk, _ = read(row(b"", syntax=syntax, op="insert"))
    assert "states its ops itself" in chunk.rejects[0].reason
    assert not len(read(row(b"", syntax=syntax))[1].rejects)


def test_a_graph_of_a_payload_may_state_its_time_itself() -> None:
    text = f'<a:1> {AT} "7" <a:g> .\n<a:2> {AT} "8" <a:g> .\n<a:h> {AT} "9" .\n<a:3> {AT} "5" <a:h> .\n'
    arena, chunk, _ = read(row(text.encode(), syntax="nq", time=None, timed=False))
    times = {arena.text(int(s)): int(time) for s, time in zip(chunk.s, chunk.time, strict=True)}
    assert times == {"<a:1>": 7000, "<a:2>": 7000, "<a:3>": 9000}
    assert not chunk.rejects
