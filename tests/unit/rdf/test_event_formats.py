"""Formats that state events, with deletes, against a store of pyoxigraph that applies the same changes."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pyoxigraph as ox
import pytest
from hypothesis import given
from hypothesis import strategies as st

import thalweg as tw
from tests.unit.rdf.jelly_frames import delimited, frames_of
from thalweg.instants import show_instant
from thalweg.io.files import read_events
from thalweg.options import RunOptions
from thalweg.rdf.arena import Arena
from thalweg.rdf.chunk import Chunk, Reject
from thalweg.rdf.formats import FORMATS
from thalweg.rdf.framing import framer_of
from thalweg.rdf.prune import Prune

S = "http://ex/s"
ALL = f"SELECT ?s ?p ?o FROM STREAM <{S}> WHERE {{ ?s ?p ?o }}"
TERMS = [
    "<http://ex/a>",
    "<http://ex/b>",
    '"x \\"q\\" \\\\ ; } . {\\n\u00e9 TX GRAPH"@en',
    '"5"^^<http://ex/t>',
]
TRIPLES = [f"{s} <http://ex/{p}> {o}" for s in TERMS[:2] for p in "pq" for o in TERMS]

Change = tuple[int, str]
"""1 or -1, and a triple."""


class Unit(NamedTuple):
    """Changes in sequence at one time (in milliseconds)."""

    at: int
    changes: list[Change]


triples = st.sampled_from(TRIPLES)
sequences = st.lists(st.tuples(st.sampled_from([1, -1]), triples), max_size=5)
one_op = st.tuples(st.sampled_from([1, -1]), st.lists(triples, max_size=3)).map(
    lambda pair: [(pair[0], triple) for triple in pair[1]]
)
inserts = st.lists(triples, max_size=3).map(lambda found: [(1, triple) for triple in found])


def units(changes: st.SearchStrategy[list[Change]]) -> st.SearchStrategy[list[Unit]]:
    """Units at increasing times."""
    gaps = st.lists(st.tuples(st.integers(1, 4), changes), max_size=6)

    def timed(pairs: list[tuple[int, list[Change]]]) -> list[Unit]:
        at, made = 0, []
        for gap, found in pairs:
            at += gap
            made.append(Unit(at, found))
        return made

    return gaps.map(timed)


def patch_of(found: list[Unit], *, timed: bool = True) -> bytes:
    text = ""
    for unit in found:
        text += f'H time "{show_instant(unit.at * 1000)}" .\n' if timed else "# no time\n"
        text += (
            "TX .\n"
            + "".join(f"{'A' if op > 0 else 'D'} {triple} .\n" for op, triple in unit.changes)
            + "TC .\n"
        )
    return text.encode()


def lines_of(found: list[Unit], *, timed: bool = True) -> bytes:
    made = []
    for unit in found:
        op = {1: "insert", -1: "-"}[unit.changes[0][0]] if unit.changes else "+"
        event = {"op": op, "graph": "".join(f"{triple} .\n" for _, triple in unit.changes)}
        made.append(json.dumps(event | ({"at": unit.at} if timed else {})))
    return "\n".join(made).encode()


def update_of(found: list[Unit], *, timed: bool = False) -> bytes:
    words = {1: "INSERT DATA", -1: "delete data"}
    made = []
    for unit in found:
        op = unit.changes[0][0] if unit.changes else 1
        made.append(f"{words[op]} {{ {' . '.join(triple for _, triple in unit.changes)} }}")
    return " ;\n".join(made).encode()


def jelly_of(found: list[Unit], *, timed: bool = True) -> bytes:
    frames = [
        ({"time": str(unit.at).encode()} if timed else {}, "".join(f"{t} .\n" for _, t in unit.changes))
        for unit in found
    ]
    return delimited(frames_of(frames)) if frames else b""


class Read(NamedTuple):
    """What a session has made of a file."""

    changes: dict[int, Counter[str]]
    """What entered and left the answer, by the time in milliseconds."""
    rejects: list[Reject]
    late: int
    events: int


def read(
    data: bytes, format: str, *, piece: int = 1 << 20, threads: int = 1, rate: float | None = None
) -> Read:
    session = tw.Session()
    query = session.register(ALL)
    options = RunOptions(format=format, rate=rate)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "changes.data"
        path.write_bytes(data)
        events = 0
        source = read_events([path], S, session.arena, session.prune, options, piece=piece, threads=threads)
        for batch in source:
            events += batch.events
            session.push_events(batch)
    changes: dict[int, Counter[str]] = {}
    for row in query.poll():
        triple = " ".join(row.bindings[name] for name in "spo")
        changes.setdefault(row.at // 1000, Counter())[triple] += 1 if row.op == "+" else -1
    rejects = [replace(reject, source=Path(reject.source).name) for reject in session.quarantine()]
    return Read(changes, rejects, len(session.late()), events)


def applied(found: list[Unit]) -> dict[int, set[str]]:
    """The content after each unit, by a store that applies change after change."""
    store = ox.Store()
    content = {}
    for unit in found:
        for op, triple in unit.changes:
            quads = list(ox.parse(f"{triple} .".encode(), ox.RdfFormat.N_TRIPLES))
            (store.add if op > 0 else store.remove)(quads[0])  # type: ignore[arg-type]
        content[unit.at] = {f"{quad.subject} {quad.predicate} {quad.object}" for quad in store}
    return content


def same_content(found: list[Unit], got: Read) -> None:
    sums: Counter[str] = Counter()
    for at, content in applied(found).items():
        sums.update(got.changes.pop(at, Counter()))
        present = {triple for triple, number in sums.items() if number}
        assert {str(number) for triple, number in sums.items() if number} <= {"1"}
        canonical = {f"{q.subject} {q.predicate} {q.object}" for triple in present for q in parsed(triple)}
        assert canonical == content
    assert not got.changes
    assert not got.rejects


def parsed(triple: str) -> list[ox.Quad]:
    return list(ox.parse(f"{triple} .".encode(), ox.RdfFormat.N_TRIPLES))


@given(units(sequences), st.integers(1, 200), st.booleans())
def test_a_patch_is_a_sequence_of_changes(found: list[Unit], piece: int, timed: bool) -> None:
    if not timed:
        found = [Unit(k, unit.changes) for k, unit in enumerate(found)]
    got = read(patch_of(found, timed=timed), "rdfp", piece=piece)
    same_content(found, got)
    assert got.events >= len(found)


@given(units(one_op), st.integers(1, 200), st.integers(1, 2))
def test_a_line_of_json_is_an_event(found: list[Unit], piece: int, threads: int) -> None:
    got = read(lines_of(found), "jsonl", piece=piece, threads=threads)
    same_content(found, got)
    assert got.events == len(found)


@given(st.lists(one_op, max_size=6))
def test_an_update_is_a_sequence_of_operations(changes: list[list[Change]]) -> None:
    found: list[Unit] = []
    deletes = False
    for change in changes:
        op = change[0][0] if change else 1
        joins = deletes and op > 0 and found
        found.append(Unit(found[-1].at if joins else len({unit.at for unit in found}), change))
        deletes = op < 0
    got = read(update_of(found), "ru")
    merged: dict[int, list[Change]] = {}
    for unit in found:
        merged.setdefault(unit.at, []).extend(unit.changes)
    same_content([Unit(at, change) for at, change in merged.items()], got)
    assert got.events == len(found)


@given(units(inserts), st.integers(1, 200), st.booleans())
def test_a_frame_of_jelly_is_an_event(found: list[Unit], piece: int, timed: bool) -> None:
    if not timed:
        found = [Unit(k, unit.changes) for k, unit in enumerate(unit for unit in found if unit.changes)]
    same_content(found, read(jelly_of(found, timed=timed), "jelly", piece=piece))


@given(
    st.lists(st.tuples(st.integers(0, 9), one_op), max_size=8),
    st.integers(1, 100),
    st.sampled_from(["rdfp", "jsonl"]),
)
def test_what_is_late_in_a_file_does_not_depend_on_its_pieces(
    pairs: list[tuple[int, list[Change]]], piece: int, format: str
) -> None:
    found = [Unit(*pair) for pair in pairs]
    data = patch_of(found) if format == "rdfp" else lines_of(found)
    whole, cut = read(data, format), read(data, format, piece=piece)
    assert whole == cut
    times = [unit.at for unit in found]
    assert whole.late >= sum(at < max(times[:k], default=0) for k, at in enumerate(times))


def test_events_without_a_time_come_at_the_given_rate() -> None:
    found = [Unit(k * 500, [(1, TRIPLES[k])]) for k in range(4)]
    for format, data in (
        ("rdfp", patch_of(found, timed=False)),
        ("jsonl", lines_of(found, timed=False)),
        ("jelly", jelly_of(found, timed=False)),
        ("ru", update_of(found)),
    ):
        assert list(read(data, format, rate=2).changes) == [0, 500, 1000, 1500], format


TEXTS = {
    "rdfp": patch_of([Unit(1, [(1, TRIPLES[0]), (-1, TRIPLES[1])]), Unit(2, [(1, TRIPLES[2])])]),
    "jsonl": lines_of([Unit(1, [(1, TRIPLES[0])]), Unit(2, [(-1, TRIPLES[2]), (-1, TRIPLES[3])])]),
    "ru": b"PREFIX : <http://ex/>\n" + update_of([Unit(1, [(1, TRIPLES[0])]), Unit(2, [(-1, TRIPLES[2])])]),
    "jelly": jelly_of([Unit(1, [(1, TRIPLES[0])]), Unit(2, [(1, TRIPLES[2]), (1, TRIPLES[3])])]),
}


@st.composite
def damaged(draw: st.DrawFn) -> tuple[str, bytes]:
    """A format, and bytes that are a damaged text of it, or any."""
    format = draw(st.sampled_from(sorted(TEXTS)))
    data = bytearray(TEXTS[format])
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(data)))
        piece = draw(
            st.one_of(
                st.binary(max_size=4), st.sampled_from([b"\n", b"\0", b"\xff", b'"', b"{", b"}", b"TX ."])
            )
        )
        data[at : at + draw(st.integers(0, 6))] = piece
    return format, draw(st.one_of(st.just(bytes(data)), st.binary(max_size=60)))


@given(damaged(), st.integers(1, 40))
def test_damaged_input_is_refused_with_a_reason_wherever_it_is_cut(
    case: tuple[str, bytes], piece: int
) -> None:
    format, data = case
    whole, cut = read(data, format), read(data, format, piece=piece)
    assert whole == cut
    assert all(reject.reason and reject.source for reject in whole.rejects)


@pytest.mark.parametrize("format", ["rdfp", "jsonl"])
@given(
    units(one_op),
    st.lists(st.sampled_from(["bogus", "A <x> .", "{", '{"at": 1}', "\0", "]"]), min_size=1, max_size=3),
)
def test_good_events_next_to_bad_lines_survive(format: str, found: list[Unit], bad: list[str]) -> None:
    texts = [patch_of([unit]) if format == "rdfp" else lines_of([unit]) + b"\n" for unit in found]
    garbage = ["\0"] if format == "rdfp" else []
    bad = [*(line for line in bad if format == "jsonl" or line != '{"at": 1}'), *garbage]
    data = b"".join(text + line.encode() + b"\n" for text, line in zip(texts, bad * len(texts), strict=False))
    data += b"".join(texts[len(bad) * len(texts) :])
    got = read(data, format)
    assert len(got.rejects) == len(texts)
    same_content(found, got._replace(rejects=[]))


def chunk_of(data: bytes, format: str, stream: str = "") -> tuple[Arena, Chunk]:
    arena = Arena()
    reader = FORMATS[format].reader(arena, Prune.everything(), source="doc", stream=stream)
    return arena, reader.read(data)


def reasons(data: bytes, format: str) -> list[tuple[int, int, str]]:
    _, chunk = chunk_of(data, format)
    return [(reject.line, reject.column, reject.reason) for reject in chunk.rejects]


@pytest.mark.parametrize(
    ("format", "text", "line", "reason"),
    [
        ("rdfp", "TX .\nA <http://a> <http://p> .\nTC .\n", 2, "expected an object"),
        ("rdfp", "TX .\nA <http://a> <http://p> ex:o .\nTC .\n", 2, "expected an object"),
        ("rdfp", "\nTX .\nA <http://a> <http://p> 'o' .\n", 2, "has no end"),
        ("rdfp", "TC .\n", 1, "TX is missing"),
        ("rdfp", "TX\n", 1, "not a row of TX"),
        ("rdfp", "Q <http://a> .\n", 1, "is none of H, TX"),
        ("rdfp", 'H time "yesterday" .\nA <http://a> <http://p> "o" .\n', 1, "not an instant"),
        ("rdfp", 'PA "x" .\n', 1, "not a row of PA"),
        ("jsonl", '{"at": "2024-13-01T00:00:00Z", "graph": ""}', 1, "no such day"),
        ("jsonl", '{"at": [1], "graph": ""}', 1, "not an instant"),
        ("jsonl", '\n{"op": "upsert", "graph": ""}', 2, "op is insert or delete, not 'upsert'"),
        ("jsonl", '{"op": 1, "graph": ""}', 1, "op is insert or delete"),
        ("jsonl", '{"op": ["+"], "graph": ""}', 1, "op is insert or delete"),
        ("jsonl", '{"stream": 5, "graph": ""}', 1, "stream is a text"),
        ("jsonl", '{"graph": 5}', 1, "graph is a text, not a number"),
        ("jsonl", '{"at": 5}', 1, "there is no graph"),
        ("jsonl", '{"graph": "", "format": "rdfp"}', 1, "format is one of nt"),
        ("jsonl", '{"graph": "", "format": []}', 1, "format is one of nt"),
        ("jsonl", '{"bindings": {"x": "<http://a>"}}', 1, "bindings are those of a CONSTRUCT"),
        ("jsonl", "[" * 100_000, 1, "nested too deeply"),
        ("jsonl", '{"at": ' + "9" * 5000 + "}", 1, "not JSON that can be read"),
        ("jsonl", '{"graph": ' + '{"@graph": [' * 300 + "]}" * 300 + "}", 1, ""),
        ("ru", "CLEAR ALL", 1, "only INSERT DATA and DELETE DATA are events: CLEAR"),
        ("ru", "\n DELETE WHERE { ?s ?p ?o }", 2, "DELETE is not read"),
        ("ru", "INSERT DATA { <http://a> <http://p> ?x }", 1, "?x is not a valid RDF object"),
        ("ru", "DELETE DATA { [] <http://p> 1 }", 1, "no blank nodes"),
        ("ru", "INSERT DATA { <http://a> <http://p> 1", 1, "no closing brace"),
        ("ru", "INSERT DATA { } INSERT DATA { }", 1, "expected ;"),
        ("ru", "PREFIX x <http://a>", 1, ""),
    ],
)
def test_bad_input_is_refused_with_its_place(format: str, text: str, line: int, reason: str) -> None:
    found = reasons(text.encode(), format)
    if reason:
        assert found[0][0] == line
        assert reason in found[0][2]


@pytest.mark.parametrize("format", ["rdfp", "jsonl", "ru"])
def test_bytes_that_are_no_utf_8_are_refused(format: str) -> None:
    text = {
        "rdfp": b'A <http://a> <http://p> "\xff" .',
        "jsonl": b'{"graph": "\xff"}',
        "ru": b"INSERT DATA { \xff }",
    }
    assert len(reasons(text[format], format)) == 1


def test_a_malformed_time_takes_its_transactions_out_and_no_others() -> None:
    row = b'TX .\nA <http://a> <http://p> "%d" .\nTC .\n'
    text = b'H time "x" .\n' + row % 1 + b'H time "2" .\n' + row % 2
    arena, chunk = chunk_of(text, "rdfp")
    assert arena.texts(chunk.o) == ['"2"']
    assert [reject.line for reject in chunk.rejects] == [1, 2]


def test_an_aborted_transaction_and_lines_of_other_streams_are_left_out_and_counted() -> None:
    text = b'TX .\nA <http://a> <http://p> "1" .\nTA .\nA <http://a> <http://p> "2" .\n'
    arena, chunk = chunk_of(text, "rdfp")
    assert (arena.texts(chunk.o), chunk.left_out, chunk.rejects) == (['"2"'], 1, ())
    line = '{"stream": "%s", "graph": "<http://a> <http://p> 1 ."}\n'
    _, chunk = chunk_of((line % S + line % "http://ex/t").encode(), "jsonl", stream=S)
    assert (len(chunk), chunk.left_out, chunk.rejects) == (1, 1, ())


def test_a_triple_that_a_transaction_adds_and_then_deletes_is_deleted() -> None:
    row = b' <http://a> <http://p> "1" .\n'
    _, chunk = chunk_of(b"TX .\nA" + row + b"D" + row + b"TC .\n", "rdfp")
    assert chunk.op[chunk.s != 0].tolist() == [-1]
    _, chunk = chunk_of(b"TX .\nD" + row + b"A" + row + b"TC .\n", "rdfp")
    assert chunk.op[chunk.s != 0].tolist() == [1]


def test_a_patch_is_the_same_however_it_is_cut() -> None:
    row = f"A {TRIPLES[0]} .\n"
    text = f'TX .\n{row}TX .\n{row}TC .\nTX .\nH time "7" .\nTX .\n{row}TX .\n{row}'.encode()
    text += f"TA .\n{row}TC .\nTX .\n{row}".encode()
    whole = read(text, "rdfp")
    assert [reject.line for reject in whole.rejects] == [1, 6, 8, 14, 15]
    for piece in range(1, len(text), 5):
        arena = Arena()
        reader = FORMATS["rdfp"].reader(arena, Prune.everything(), source="changes.data")
        framer = framer_of(S, "events", arena)
        chunks = [reader.feed(text[:piece]), reader.feed(text[piece:]), reader.finish()]  # type: ignore[attr-defined]
        batches = [framer.frame(chunk) for chunk in chunks]
        assert [reject for batch in batches for reject in batch.rejects] == whole.rejects, piece
        assert sum(chunk.left_out for chunk in chunks) == 1
        assert sum(batch.events for batch in batches) == whole.events


def test_a_patch_knows_the_rows_of_jena() -> None:
    text = (
        'H id <uuid:1> . # a comment\nH "prev" <uuid:0> .\nTX .\n'
        'PA "ex" "http://ex/" .\nPA ex: <http://ex/> .\nPD "ex" .\n'
        '  A\t<http://a> <http://p> <_:b1> <http://g> .\r\nA _:b1 <http://p> "<_:b1>" .\rZ .\nTC.\nTB .\nTC .\n'
    )
    arena, chunk = chunk_of(text.encode(), "rdfp")
    assert not chunk.rejects
    assert sorted(arena.texts(chunk.o[chunk.o != 0])) == ['"<_:b1>"', "_:b1"]
    assert int(chunk.number[-1]) == 1


def test_blank_nodes_are_local_to_their_event_unless_they_are_stable() -> None:
    texts = {
        "rdfp": b"TX .\nA _:b <http://p> 'x' .\nA _:b <http://p> _:b .\nTC .\nA _:b <http://p> _:b .\n",
        "jsonl": b'{"graph": "_:b <http://p> _:b ."}\n{"graph": "_:b <http://p> [] ."}\n',
        "ru": b"INSERT DATA { _:b <http://p> _:b } ; INSERT DATA { _:b <http://p> _:b }",
        "jelly": delimited(frames_of([({}, "_:b <http://p> _:b ."), ({}, "_:b <http://p> _:b .")])),
    }
    for format, text in texts.items():
        for blank_nodes, nodes in (("event", 2), ("stable", 1)):
            arena = Arena()
            reader = FORMATS[format].reader(
                arena,
                Prune.everything(),
                source="doc",
                blank_nodes=blank_nodes,  # type: ignore[arg-type]
            )
            batch = framer_of(S, "events", arena).frame(reader.read(text))
            assert len(set(arena.texts(batch.rows.s))) == nodes, (format, blank_nodes)


def test_the_rows_of_a_construct_query_are_read_again() -> None:
    row = {
        "at": "1970-01-01T00:00:01Z",
        "op": "-",
        "bindings": dict(
            zip(("subject", "predicate", "object"), ("<http://a>", "<http://p>", '"\\n"@en'), strict=True)
        ),
    }
    arena, chunk = chunk_of(json.dumps(row).encode(), "jsonl")
    assert (arena.texts(chunk.o), chunk.op.tolist(), chunk.time.tolist()) == (['"\\n"@en'], [-1], [1_000_000])


def test_graphs_of_lines_are_in_any_format() -> None:
    graphs = [
        {"graph": "@prefix : <http://ex/> . :a :p 1 ."},
        {"graph": "<http://ex/a> <http://ex/p> 1 <http://ex/g> .".replace("1", '"1"'), "format": "nq"},
        {"graph": {"@id": "http://ex/a", "http://ex/p": 1}},
        {"graph": '[{"@id": "http://ex/a", "http://ex/p": 1}]', "format": "jsonld"},
        {"graph": "<http://ex/g> { <http://ex/a> <http://ex/p> 1 }", "format": "trig"},
    ]
    arena, chunk = chunk_of("\n".join(map(json.dumps, graphs)).encode(), "jsonl")
    assert not chunk.rejects
    assert arena.texts(chunk.s) == ["<http://ex/a>"] * 5
    assert [bool(g) for g in chunk.g] == [False, True, False, False, True]


@pytest.mark.parametrize("kind", ["quads", "graphs"])
def test_a_frame_of_quads_has_the_time_that_its_default_graph_states(kind: str) -> None:
    at = "<http://www.w3.org/ns/prov#generatedAtTime>"
    frame = ({}, f'<http://g> {at} "7" .\n<http://a> <http://p> "1" <http://g> .\n')
    arena, chunk = chunk_of(delimited(frames_of([frame], kind)), "jelly")
    assert (arena.texts(chunk.g), arena.texts(chunk.o), chunk.time.tolist()) == (
        ["<http://g>"],
        ['"1"'],
        [7000],
    )
    single = frames_of([frame], kind)[0].SerializeToString()
    assert len(chunk_of(single, "jelly")[1]) == 1


def test_jelly_that_breaks_off_or_is_damaged_keeps_the_frames_before() -> None:
    frames = frames_of([({}, f"{TRIPLES[k]} .") for k in range(3)])
    data = delimited(frames)
    first = len(delimited(frames[:1]))
    _, chunk = chunk_of(data[:-2], "jelly")
    assert len(chunk) == 2
    assert [reject.reason for reject in chunk.rejects] == ["frame 3: the source breaks off within a frame"]
    _, chunk = chunk_of(data[:first] + b"\x05\xff\xff\xff\xff\xff" + data[first:], "jelly")
    assert len(chunk) == 1
    assert "what follows depends on it" in chunk.rejects[0].reason
    assert "this is not Jelly" in chunk_of(b"\xff" * 40, "jelly")[1].rejects[0].reason


def test_jelly_with_terms_that_rdf_does_not_allow_refuses_their_statements_only() -> None:
    frames = frames_of([({}, f"{TRIPLES[0]} .\n{TRIPLES[9]} .")])
    for row in frames[0].rows:
        if row.WhichOneof("row") == "name" and row.name.value == "a":
            row.name.value = "a b\n<http://ex/evil> <http://ex/p> 1 ."
    arena, chunk = chunk_of(delimited(frames), "jelly")
    assert chunk.rejects
    assert "frame 1, statement" in chunk.rejects[0].reason
    assert arena.texts(chunk.s) == ["<http://ex/b>"]


def test_push_refuses_formats_that_state_events() -> None:
    with pytest.raises(tw.UsageError, match="RDF Patch states events, and push takes one graph"):
        tw.Session().push(S, at=1, graph="TX .", format="rdfp")
