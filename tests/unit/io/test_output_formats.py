"""Answers in every format that is written: what a file holds, and that readers of others find the same terms in it."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pyarrow.parquet as pq
import pyoxigraph as ox
import pytest
import rdflib
import rdflib.compare
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.rdf.documents import iris, labels, literals, read
from thalweg.algebra.scope import TRIPLE
from thalweg.errors import ThalwegError, UsageError
from thalweg.instants import show_instant
from thalweg.io.files import pieces
from thalweg.io.graphs import GraphWriter, NQuads, NTriples
from thalweg.io.opening import open_file
from thalweg.io.outputs import answer_of, check_output, output_format, prefixes_of, writer_for, writer_of
from thalweg.io.parquet import Parquet
from thalweg.io.patches import RdfPatch
from thalweg.io.pretty import Pretty, printable
from thalweg.io.sparql_results import SparqlCsv, SparqlJson, SparqlTsv, SparqlXml
from thalweg.io.turtle import TriG, Turtle
from thalweg.io.writers import Answer, Tsv, Writer
from thalweg.lang import parse
from thalweg.rdf.formats import writable

EX = "http://ex/"
ADDITIONS = Answer(rows="additions")
SELECT = f"SELECT ?x FROM STREAM <{EX}s> [RANGE 10] {{ ?x <{EX}p> ?y }}"
CONSTRUCT = f"CONSTRUCT {{ ?x <{EX}q> ?y }} FROM STREAM <{EX}s> [RANGE 10] {{ ?x <{EX}p> ?y }}"
ASK = f"ASK FROM STREAM <{EX}s> [RANGE 10] {{ ?x <{EX}p> ?y }}"
PREFIXES = {"ex": "http://ex.org/", "x": "urn:x:", "": "a:"}


def canonical(text: str) -> str:
    """A term as the reader gives it to writers."""
    _, found = read(f"<a:s> <a:p> {text} .\n".encode())
    return found[0][2]


iri_terms = iris.map(canonical)
terms = (iris | literals | labels).map(canonical)
triples = st.tuples((iris | labels).map(canonical), iri_terms, terms)


def written(
    kind: type[Writer], names: Sequence[str], rows: Sequence[Sequence[str | None]], answer: Answer = ADDITIONS
) -> bytes:
    out = io.BytesIO()
    with kind(out, names, answer, close=False) as writer:
        for row in rows:
            bound = {name: [term] for name, term in zip(names, row, strict=True) if term}
            writer.columns([0], ["+"], bound)
    return out.getvalue()


def found(data: bytes, format: ox.QueryResultsFormat) -> tuple[list[str], list[tuple[str | None, ...]]]:
    """Variables and rows of a document of SPARQL results, by another reader."""
    results = ox.parse_query_results(data, format=format)
    assert isinstance(results, ox.QuerySolutions)
    names = [variable.value for variable in results.variables]
    return names, [tuple(None if term is None else str(term) for term in row) for row in results]


def has_no_xml(term: str | None) -> bool:
    return term is not None and any(
        (ord(c) < 0x20 and c not in "\t\n\r") or c in "\ufffe\uffff" for c in _lexical(term)
    )


def _lexical(term: str) -> str:
    quad = next(iter(ox.parse(f"<a:s> <a:p> {term} .".encode(), format=ox.RdfFormat.N_TRIPLES)))
    return quad.object.value


@given(st.lists(st.tuples(st.none() | terms, terms), max_size=6))
@pytest.mark.parametrize(
    ("kind", "format"),
    [(SparqlJson, ox.QueryResultsFormat.JSON), (SparqlXml, ox.QueryResultsFormat.XML)],
)
def test_sparql_results_hold_every_kind_of_term(kind, format, rows) -> None:
    if kind is SparqlXml and any(has_no_xml(term) for row in rows for term in row):
        with pytest.raises(ThalwegError, match=r"XML has no U\+"):
            written(kind, ["x", "y"], rows)
        return
    assert found(written(kind, ["x", "y"], rows), format) == (["x", "y"], rows)


@given(st.lists(st.tuples(terms, st.none() | terms), max_size=6))
def test_sparql_tsv_has_a_row_a_line_with_terms_in_n_triples_form(rows) -> None:
    head, *lines = written(SparqlTsv, ["x", "y"], rows).decode().removesuffix("\n").split("\n")
    assert head == "?x\t?y"
    assert [tuple(cell or None for cell in line.split("\t")) for line in lines] == rows


@given(st.lists(st.tuples(terms, st.none() | terms), max_size=6))
def test_sparql_csv_has_the_values(rows) -> None:
    table = list(csv.reader(io.StringIO(written(SparqlCsv, ["x", "y"], rows).decode(), newline="")))
    values = [
        ["" if term is None else term if term[0] == "_" else _lexical(term) for term in row] for row in rows
    ]
    assert table == [["x", "y"], *values]


def isomorphic(one: object, other: object) -> bool:
    first, second = ox.Dataset(one), ox.Dataset(other)  # type: ignore[arg-type]
    for dataset in (first, second):
        dataset.canonicalize(ox.CanonicalizationAlgorithm.UNSTABLE)
    return first == second


@given(st.lists(triples, max_size=8))
def test_turtle_is_the_same_graph_to_two_other_readers(rows) -> None:
    data = written(Turtle, TRIPLE, rows, Answer(rows="additions", prefixes=PREFIXES))
    lines = "".join(f"{s} {p} {o} .\n" for s, p, o in rows).encode()
    expected = list(ox.parse(lines, format=ox.RdfFormat.N_TRIPLES))
    assert isomorphic(ox.parse(data, format=ox.RdfFormat.TURTLE), expected)


def test_rdflib_reads_turtle_and_trig_too() -> None:
    rows = [
        ("<http://ex.org/a>", "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>", "<http://ex.org/C>"),
        ("<http://ex.org/a>", "<http://ex.org/b-c>", '"5"^^<http://www.w3.org/2001/XMLSchema#integer>'),
        ("<http://ex.org/a>", "<http://ex.org/b-c>", '"a\\n\\"b\\""@en'),
        ("_:b.1", "<http://ex.org/p.>", "<urn:x:y>"),
    ]
    out = io.BytesIO()
    with Turtle(out, TRIPLE, Answer(rows="additions", prefixes=PREFIXES), close=False) as writer:
        writer.columns([0] * 4, ["+"] * 4, dict(zip(TRIPLE, zip(*rows, strict=True), strict=True)))
    data = out.getvalue()
    assert b"ex:a a ex:C ;\n" in data
    assert b'ex:b-c 5, "a\\n\\"b\\""@en .' in data
    graph = rdflib.Graph().parse(data=data, format="turtle")
    lines = "".join(f"{s} {p} {o} .\n" for s, p, o in rows)
    assert rdflib.compare.isomorphic(graph, rdflib.Graph().parse(data=lines, format="nt"))
    quads = rdflib.Dataset().parse(data=written(TriG, TRIPLE, rows), format="trig")
    assert len(list(quads.quads())) == len(rows) + 1


@given(
    st.lists(st.tuples(st.none() | iri_terms, st.sampled_from([0, 1, 5000]), triples), max_size=8),
    st.booleans(),
)
def test_trig_and_n_quads_hold_the_same_graphs(rows, timed) -> None:
    def quads(kind: type[GraphWriter], format: ox.RdfFormat) -> list[ox.Quad]:
        out = io.BytesIO()
        with kind(out, TRIPLE, Answer(prefixes=PREFIXES, timed=timed), close=False) as writer:
            for graph, at, triple in rows:
                writer.columns([at], ["+"], dict(zip(TRIPLE, ([t] for t in triple), strict=True)), [graph])
        return list(ox.parse(out.getvalue(), format=format))

    one = quads(TriG, ox.RdfFormat.TRIG)
    assert isomorphic(one, quads(NQuads, ox.RdfFormat.N_QUADS))
    if not timed:
        told = {
            (str(q.predicate), q.graph_name.value if isinstance(q.graph_name, ox.NamedNode) else None)
            for q in one
        }
        assert told == {(p, graph and graph[1:-1]) for graph, _, (_, p, _) in rows}


# What a file of one answer holds of an answer that changes.


@given(
    st.lists(st.tuples(st.sampled_from("+++--0"), st.sampled_from(["<a:1>", "<a:2>", "<a:3>"])), max_size=30)
)
def test_of_changes_the_answer_at_the_end_is_held(steps) -> None:
    out, held, at = io.BytesIO(), Counter[str](), 0
    with SparqlJson(out, ["x"], Answer(), close=False) as writer:
        for op, term in steps:
            at += 1
            if op == "0":
                writer.columns([at], ["0"], {})
            elif op == "+" or held[term]:
                held[term] += 1 if op == "+" else -1
                writer.columns([at], [op], {"x": [term]})
    rows = found(out.getvalue(), ox.QueryResultsFormat.JSON)[1]
    assert rows == [(term,) for term in sorted(held.elements())]


def test_of_reports_the_last_one_is_held() -> None:
    out = io.BytesIO()
    with SparqlTsv(out, ["x"], Answer(rows="reports"), close=False) as writer:
        writer.columns([1, 1, 2], ["+"] * 3, {"x": ["<a:1>", "<a:2>", "<a:3>"]})
        writer.columns([2], ["+"], {"x": ["<a:3>"]})
    assert out.getvalue() == b"?x\n<a:3>\n<a:3>\n"


def test_an_empty_report_is_held_if_it_is_the_last() -> None:
    out = io.BytesIO()
    with SparqlTsv(out, ["x"], Answer(rows="reports"), close=False) as writer:
        writer.columns([1], ["+"], {"x": ["<a:1>"]})
        writer.columns([2], ["0"], {})
    assert out.getvalue() == b"?x\n"


@pytest.mark.parametrize(("ops", "truth"), [("", False), ("+", True), ("+-", False), ("+-+", True)])
def test_an_ask_is_a_truth_value(ops: str, truth: bool) -> None:
    for kind, format in ((SparqlJson, ox.QueryResultsFormat.JSON), (SparqlXml, ox.QueryResultsFormat.XML)):
        out = io.BytesIO()
        with kind(out, [], Answer(ask=True), close=False) as writer:
            for at, op in enumerate(ops):
                writer.columns([at], [op], {})
        assert bool(ox.parse_query_results(out.getvalue(), format=format)) is truth


# Tables and patches.


def test_parquet_has_times_as_timestamps_and_terms_as_text(tmp_path: Path) -> None:
    path = tmp_path / "out.parquet"
    with Parquet(open_file(path), ["x", "op"]) as writer:
        writer.columns([1_500_000], ["+"], {"x": ["<a:1>"], "op": ['"5"']}, ["<a:g>"])
        writer.columns([-1], ["-"], {"x": ["<a:1>"]})
    table = pq.read_table(path)
    assert table.column_names == ["at", "op", "graph", "x", "?op"]
    rows = table.to_pylist()
    assert [show_instant(int(row["at"].timestamp() * 1_000_000)) for row in rows] == [
        "1970-01-01T00:00:01.5Z",
        "1969-12-31T23:59:59.999999Z",
    ]
    assert [tuple(row.values())[1:] for row in rows] == [
        ("+", "<a:g>", "<a:1>", '"5"'),
        ("-", None, "<a:1>", None),
    ]


def test_parquet_is_complete_after_a_failure_and_groups_its_rows(tmp_path: Path) -> None:
    path = tmp_path / "out.parquet"
    with suppress(KeyboardInterrupt), Parquet(open_file(path), ["x"]) as writer:
        for start in range(0, 100_000, 1000):
            writer.columns(list(range(start, start + 1000)), ["+"] * 1000, {"x": ["<a:1>"] * 1000})
        raise KeyboardInterrupt
    assert pq.read_metadata(path).num_rows == 100_000
    assert pq.read_metadata(path).num_row_groups == 2


def test_a_table_with_tabs_has_the_columns_of_the_other_table() -> None:
    out = io.BytesIO()
    Tsv(out, ["x", "at"]).columns([0], ["+"], {"x": ['"a\\tb"']})
    assert out.getvalue() == b'at\top\tgraph\tx\t?at\n1970-01-01T00:00:00Z\t+\t\t"a\\tb"\t\n'


@given(
    st.lists(
        st.tuples(st.sampled_from([0, 0, 0, 1000]), st.booleans(), st.sampled_from(["<a:1>", '"2"', "_:c"])),
        max_size=25,
    )
)
def test_a_patch_applied_in_order_gives_the_answer(steps) -> None:
    """One transaction an instant, however the instant came in parts, in which no triple comes and goes."""
    out, at, held = io.BytesIO(), 0, set[str]()
    with RdfPatch(out, TRIPLE, close=False) as writer:
        for step, comes, term in steps:
            at += step
            if comes is (term not in held):
                held ^= {term}
                writer.columns(
                    [at], ["+" if comes else "-"], {**{name: ["<a:p>"] for name in TRIPLE}, "object": [term]}
                )
    applied, times, inside = set[str](), [], set[str]()
    for line in out.getvalue().decode().splitlines():
        code, *rest = line.split(" ")
        if code == "H":
            times.append(rest[1])
        elif code == "TX":
            inside = set()
        elif code in "AD":
            assert rest[2] not in inside
            inside.add(rest[2])
            assert (code == "A") is (rest[2] not in applied)
            applied ^= {rest[2]}
    assert applied == held
    assert len(times) == len(set(times))


# Which format an output has, and what is refused.


@pytest.mark.parametrize("name", writable())
def test_every_format_has_a_writer_and_its_suffixes_lead_to_it(name: str) -> None:
    format = writable()[name]
    kind = writer_of(format)
    assert writer_for(None, name) is kind
    for suffix in format.suffixes:
        assert output_format(Path(f"out{suffix}")) is format
        if kind.is_text:
            assert output_format(Path(f"OUT{suffix.upper()}.gz")) is format


@pytest.mark.parametrize(
    ("text", "out", "format", "reason"),
    [
        (SELECT, "out.ttl", None, "of a CONSTRUCT only"),
        (SELECT, "out.rdfp", None, "of a CONSTRUCT only"),
        (CONSTRUCT, "out.srj", None, "a CONSTRUCT makes triples"),
        (CONSTRUCT, "out.trig", None, "cannot take one back"),
        (f"REGISTER RSTREAM <{EX}o> AS {CONSTRUCT}", "out.rdfp", None, "a patch holds changes, and RSTREAM"),
        (ASK, "out.txt", "sparql-csv", "no form for yes and no"),
        (SELECT, "out.parquet.gz", None, "Parquet is compressed within"),
        (SELECT, "out.xlsx", None, "unknown output format"),
        (SELECT, "out", "excel", "--out-format is one of nt, nq"),
    ],
)
def test_what_a_format_cannot_hold_is_refused(text: str, out: str, format: str | None, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        check_output(parse(text), Path(out), format)


@pytest.mark.parametrize(
    ("text", "out"),
    [(SELECT, "out.srj"), (SELECT, "out.parquet"), (CONSTRUCT, "out.ttl.gz"), (ASK, "out.srx")],
)
def test_a_format_that_is_written_as_a_whole_is_refused_for_a_run_that_continues(text: str, out: str) -> None:
    check_output(parse(text), Path(out))
    with pytest.raises(UsageError, match="with --checkpoint adds to its output"):
        check_output(parse(text), Path(out), resumable=True)
    check_output(parse(text), None, resumable=True)


def test_rows_that_nothing_takes_back_are_told_from_changes_and_reports() -> None:
    assert answer_of(parse(SELECT)).rows == "changes"
    assert answer_of(parse(SELECT.replace("[RANGE 10]", "[NOW]"))).rows == "additions"
    for operator, rows in (("RSTREAM", "reports"), ("ISTREAM", "additions"), ("DSTREAM", "additions")):
        assert answer_of(parse(f"REGISTER {operator} <{EX}o> AS {SELECT}")).rows == rows


def test_the_prefixes_of_a_query_are_those_of_its_output() -> None:
    text = f"PREFIX ex: <{EX}> prefix : <urn:a:>\nBASE <http://base/> PREFIX rel: <rel/>\n{SELECT}"
    assert prefixes_of(parse(text)) == {"ex": EX, "": "urn:a:"}


# A table for people.


def test_columns_of_the_table_for_people_stay_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "70")
    out = io.BytesIO()
    with Pretty(out, ["who", "v"], Answer(prefixes={"ex": EX}), close=False) as table:
        table.columns(
            [0], ["+"], {"who": [f"<{EX}a>"], "v": ['"5"^^<http://www.w3.org/2001/XMLSchema#double>']}
        )
        table.columns([1000], ["-"], {"who": [f"<{EX}{'b' * 99}>"]})
        table.columns([2000], ["0"], {})
        table.columns([3000], ["+"], {"who": ['"日本"@ja'], "v": ['"\\u001B[2J"']})
    head, *lines = out.getvalue().decode().splitlines()
    assert head.split() == ["at", "?who", "?v"]
    place = head.index("?who")
    assert [line[place:].split()[0] for line in lines] == [
        "ex:a",
        lines[1][place:].split()[0],
        "(empty)",
        '"日本"@ja',
    ]
    assert lines[1].endswith("…")
    assert lines[0].endswith(" 5")
    assert lines[0].index(" 5") + 1 == head.index("?v")
    assert all(len(line) <= 70 for line in lines)
    assert "\x1b" not in out.getvalue().decode()


@given(st.text())
def test_no_text_steers_the_terminal(text: str) -> None:
    assert not any(
        ord(c) < 0x20 or 0x7F <= ord(c) < 0xA0 or c in "\u202e\u2066\u200f" for c in printable(text)
    )


# Bad luck.


@pytest.mark.parametrize("name", ["jsonl", "csv", "parquet", "sparql-json", "sparql-xml"])
def test_a_full_disk_is_named(name: str) -> None:
    def fill() -> None:
        with writer_for(None, name)(open_file(Path("/dev/full")), ["x"], ADDITIONS) as writer:
            writer.columns([0] * 1000, ["+"] * 1000, {"x": [f"<a:{k}>" for k in range(1000)]})

    with pytest.raises(ThalwegError, match=r"^/dev/full: cannot be written: No space left"):
        fill()


@pytest.mark.parametrize("suffix", [".gz", ".zst", ".bz2"])
def test_a_compressed_file_can_be_added_to(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"out.nt{suffix}"
    for k, append in enumerate((False, True, True)):
        with NTriples(open_file(path, append), TRIPLE) as writer:
            writer.columns([0], ["+"], dict(zip(TRIPLE, (["<a:s>"], ["<a:p>"], [f'"{k}"']), strict=True)))
    whole = b"".join(bytes(data) for _, data in pieces(path))
    lines = whole.decode().splitlines()
    assert lines == [f'<a:s> <a:p> "{k}" .' for k in range(3)]


def test_json_stays_valid_where_a_run_is_stopped(tmp_path: Path) -> None:
    path = tmp_path / "out.srj"
    with suppress(KeyboardInterrupt), SparqlJson(open_file(path), ["x"], ADDITIONS) as writer:
        writer.columns([0, 0], ["+", "+"], {"x": ["<a:1>", "<a:2>"]})
        raise KeyboardInterrupt
    assert len(json.loads(path.read_bytes())["results"]["bindings"]) == 2
