"""`thalweg convert` and `thalweg check`: what is kept, what is lost or refused, and that no file is harmed."""

from __future__ import annotations

import gzip
import io
import json
import os
import subprocess
import sys
import time

import pyarrow.parquet as pq
import pyoxigraph as ox
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.cli.commands import EX, PEOPLE, Commands, quads
from tests.unit.rdf.documents import documents, iris, literals
from thalweg.rdf.formats import FORMATS, WRITERS

PARSERS = {
    "nt": ox.RdfFormat.N_TRIPLES,
    "nq": ox.RdfFormat.N_QUADS,
    "turtle": ox.RdfFormat.TURTLE,
    "trig": ox.RdfFormat.TRIG,
}
SETS = ["nq", "trig"]
BOTH_WAYS = [name for name in WRITERS if name in FORMATS and name not in ("csv", "tsv")]
"""The formats that are read and written."""
STAMP = "<http://www.w3.org/ns/prov#generatedAtTime>"


def isomorphic(one: bytes, kind: str, other: bytes, other_kind: str) -> bool:
    first, second = (
        ox.Dataset(ox.parse(data, format=PARSERS[name])) for data, name in ((one, kind), (other, other_kind))
    )
    for dataset in (first, second):
        dataset.canonicalize(ox.CanonicalizationAlgorithm.UNSTABLE)
    return first == second


def suffix(name: str) -> str:
    return FORMATS[name].suffixes[0]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=documents("nt"), way=st.lists(st.sampled_from(["nt", "turtle"]), min_size=1, max_size=3))
def test_a_graph_is_the_same_after_any_way_through_formats_of_graphs(
    thalweg: Commands, data: bytes, way: list[str]
) -> None:
    (thalweg.folder / "0.nt").write_bytes(data)
    before = "0.nt"
    for step, name in enumerate([*way, "nt"], 1):
        done = thalweg("convert", before, f"{step}{suffix(name)}", "--force")
        assert done.code == 0, done.err
        before = f"{step}{suffix(name)}"
    assert isomorphic((thalweg.folder / before).read_bytes(), "nt", data, "nt")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=documents("nq"), way=st.lists(st.sampled_from(SETS), min_size=1, max_size=3))
def test_a_dataset_is_the_same_after_any_way_through_formats_of_datasets(
    thalweg: Commands, data: bytes, way: list[str]
) -> None:
    (thalweg.folder / "0.nq").write_bytes(data)
    before = "0.nq"
    for step, name in enumerate([*way, "nq"], 1):
        done = thalweg("convert", before, f"{step}{suffix(name)}", "--force")
        assert done.code == 0, done.err
        before = f"{step}{suffix(name)}"
    assert isomorphic((thalweg.folder / before).read_bytes(), "nq", data, "nq")


triples = st.tuples(iris, iris, iris | literals).map(lambda terms: f"{' '.join(terms)} .\n")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    graphs=st.lists(st.lists(triples, max_size=4), min_size=1, max_size=4),
    way=st.lists(st.sampled_from([name for name in BOTH_WAYS if name not in ("nt", "turtle")]), max_size=3),
)
def test_events_keep_times_names_and_triples_through_all_formats_of_events(
    thalweg: Commands, graphs: list[list[str]], way: list[str]
) -> None:
    text = io.StringIO()
    expected = []
    for number, graph in enumerate(graphs):
        name = f"{EX}g{number}"
        text.write(f'<{name}> {STAMP} "{number * 7}" .\n')
        held = _triples("".join(graph))
        text.writelines(f"{triple} <{name}> .\n" for triple in held)
        if held:
            expected.append((f"1970-01-01T00:00:00.{number * 7:03d}Z", name, held))
    (thalweg.folder / "0.nq").write_text(text.getvalue())
    before = "0.nq"
    for step, name in enumerate([*way, "csv"], 1):
        after = f"{step}{suffix(name) if name != 'csv' else '.tsv'}"
        done = thalweg("convert", before, after, "--force")
        assert done.code == 0, done.err
        before = after
    _, *rows = (thalweg.folder / before).read_text().split("\n")[:-1]
    found: dict[tuple[str, str], set[ox.Triple]] = {}
    for row in rows:
        at, op, graph, *terms = row.split("\t")
        quad = next(iter(ox.parse(f"{' '.join(terms)} .".encode(), format=ox.RdfFormat.N_TRIPLES)))
        assert op == "+"
        found.setdefault((_millis(at), graph[1:-1]), set()).add(quad.triple)
    assert [(*key, held) for key, held in found.items()] == expected


changes = st.lists(
    st.tuples(
        st.sampled_from(["insert", "delete"]), st.integers(0, 2), st.lists(triples, min_size=1, max_size=3)
    ),
    max_size=6,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(changes=changes, way=st.lists(st.sampled_from(["rdfp", "jsonl"]), min_size=1, max_size=3))
def test_deletes_and_inserts_stay_events_of_their_own(
    thalweg: Commands, changes: list[tuple[str, int, list[str]]], way: list[str]
) -> None:
    at, expected = 0, []
    with (thalweg.folder / "0.jsonl").open("w") as out:
        for op, step, graph in changes:
            at += step
            out.write(json.dumps({"at": at, "op": op, "graph": "".join(graph), "format": "nt"}) + "\n")
            expected.append((at, op, _triples("".join(graph))))
    before = "0.jsonl"
    for step, name in enumerate([*way, "jsonl"], 1):
        done = thalweg("convert", before, f"{step}{suffix(name)}", "--force")
        assert done.code == 0, done.err
        before = f"{step}{suffix(name)}"
    lines = [json.loads(line) for line in (thalweg.folder / before).read_text().splitlines()]
    found = [(1000 * float(line["at"][17:-1]), line["op"], _triples(line["graph"])) for line in lines]
    assert found == expected


def _triples(text: str) -> set[ox.Triple]:
    return {quad.triple for quad in ox.parse(text.encode(), format=ox.RdfFormat.N_TRIPLES)}


@pytest.mark.parametrize("target", ["out.nt", "out.ttl", "out.nq", "out.trig.gz"])
def test_a_delete_is_refused_where_the_target_has_none(thalweg: Commands, target: str) -> None:
    (thalweg.folder / "in.rdfp").write_text(f"A {PEOPLE[0]}\nD {PEOPLE[0]}\n")
    before = thalweg.files()
    done = thalweg("convert", "in.rdfp", target)
    assert done.code == 1
    assert "has no deletes, and at 1970-01-01T00:00:00.001Z" in done.err
    assert done.err.endswith("convert to .rdfp or .jsonl\n")
    assert thalweg.files() == before


def test_one_graph_in_two_events_in_a_row_is_refused_as_quads(thalweg: Commands) -> None:
    quad = f"{PEOPLE[0][:-1]}<{EX}g> ."
    lines = (json.dumps({"at": at, "graph": quad, "format": "nq"}) for at in (1, 2))
    (thalweg.folder / "in.jsonl").write_text("\n".join(lines))
    done = thalweg("convert", "in.jsonl", "out.nq")
    assert (done.code, f"<{EX}g> is two events in a row" in done.err) == (1, True)
    assert thalweg("convert", "in.jsonl", "out.rdfp").code == 0


def _millis(at: str) -> str:
    whole, _, rest = at.removesuffix("Z").partition(".")
    return f"{whole}.{rest:0<3}Z"


def test_triples_get_times_as_quads_that_a_query_reads(thalweg: Commands) -> None:
    done = thalweg("convert", "people.nt", "out.nq.gz", "--rate", "10", "--stream", f"{EX}s")
    assert (done.code, done.lines) == (0, [done.lines[0]])
    lines = gzip.decompress((thalweg.folder / "out.nq.gz").read_bytes()).decode().splitlines()
    assert lines[2].startswith(f'<{EX}s#1> {STAMP} "1970-01-01T00:00:00.1Z"^^')
    assert lines[3] == f"{PEOPLE[1][:-1]}<{EX}s#1> ."
    assert thalweg.run("out.nq.gz").rows == [], "the events are 100 ms apart"


def test_a_table_of_events_has_times_ops_and_graphs(thalweg: Commands) -> None:
    (thalweg.folder / "in.nq").write_text(quads(1) + quads(2))
    assert thalweg("convert", "in.nq", "out.parquet").code == 0
    rows = pq.read_table(thalweg.folder / "out.parquet").to_pylist()
    assert [(row["at"].microsecond, row["op"], row["graph"], row["subject"]) for row in rows] == [
        (1000, "+", f"<{EX}g1>", f"<{EX}ben>"),
        (2000, "+", f"<{EX}g2>", f"<{EX}cem>"),
    ]
    assert thalweg("convert", "in.nq", "out.jsonl").code == 0
    first = json.loads((thalweg.folder / "out.jsonl").read_text().splitlines()[0])
    assert (first["at"], first["op"], first["format"]) == ("1970-01-01T00:00:00.001Z", "insert", "nq")


def test_rows_are_converted_with_a_mapping_which_is_no_output(thalweg: Commands) -> None:
    (thalweg.folder / "in.csv").write_text("at,who,v\n5,a,1\n7,b,2\n")
    rule = "mappings: {r: {s: 'http://ex/$(who)', po: [['http://ex/v', $(v)]]}}\n"
    (thalweg.folder / "m.yml").write_text(f"{rule}event: {{time: $(at), format: epoch-ms}}\n")
    done = thalweg("convert", "in.csv", "out.tsv", "--mapping", "m.yml")
    assert done.code == 0, done.err
    rows = (thalweg.folder / "out.tsv").read_text().splitlines()
    assert rows[1].split("\t") == ["1970-01-01T00:00:00.005Z", "+", "", f"<{EX}a>", f"<{EX}v>", '"1"']
    assert (
        thalweg("check", "in.csv", "--mapping", "m.yml").out.splitlines()[1]
        == "  2 statements; 3 IRIs, 2 literals"
    )
    done = thalweg("convert", "in.csv", "m.yml", "--mapping", "m.yml", "--force", "--out-format", "nt")
    assert (done.code, "would overwrite" in done.err) == (2, True)
    assert thalweg("convert", "in.csv", "out.nt").code == 2


def test_what_is_lost_is_said(thalweg: Commands) -> None:
    (thalweg.folder / "in.nq").write_text(quads(1))
    done = thalweg("convert", "in.nq", "out.nt")
    assert done.lines[0] == "lost: the names of graphs, which the target does not have"
    (thalweg.folder / "plain.nq").write_text(f"{PEOPLE[0]}\n")
    done = thalweg("convert", "plain.nq", "plain.rdfp")
    assert done.lines[0].startswith(
        "left out: 1 statement of the default graph without a time (--as-statements"
    )
    assert thalweg("convert", "plain.nq", "plain.rdfp", "--as-statements", "--force").code == 0
    assert f"A {PEOPLE[0]}" in (thalweg.folder / "plain.rdfp").read_text()


def test_standard_input_and_output_are_files_too(thalweg: Commands) -> None:
    given = subprocess.run(
        [
            sys.executable,
            "-m",
            "thalweg.cli",
            "convert",
            "-",
            "-",
            "--format",
            "nt",
            "--out-format",
            "turtle",
        ],
        input=gzip.compress("\n".join(PEOPLE).encode()),
        capture_output=True,
        cwd=thalweg.folder,
        check=True,
    )
    assert isomorphic(given.stdout, "turtle", "\n".join(PEOPLE).encode(), "nt")
    assert "3 statements" in given.stderr.decode()


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["people.nt", "people.nt", "--force"], "would overwrite an input"),
        (["people.nt", "link.nt", "--force"], "would overwrite an input"),
        (["people.nt", "thesis.ttl"], "names a file that exists and is not empty"),
        (["people.nt", "."], "unknown output format"),
        (["people.nt", "folder.ttl"], "is a folder"),
        (["people.nt", "nowhere/out.ttl"], "there is no folder nowhere"),
        (["people.nt", "out.srj"], "are of a query"),
        (["people.nt", "out.ttl", "--quarantine", "out.ttl"], "name the same file"),
        (["missing.nt", "out.ttl"], "no such file or folder"),
        (["-", "out.ttl"], "--format names its format"),
        (["data", "data/out.nt"], "would be read as a part of"),
        (["tcp://localhost:1", "out.nt", "--format", "nt"], "a file or the standard input (-) is converted"),
    ],
)
def test_a_conversion_that_would_harm_a_file_or_makes_no_sense_is_refused(
    thalweg: Commands, arguments: list[str], reason: str
) -> None:
    (thalweg.folder / "thesis.ttl").write_text("three years of work\n")
    (thalweg.folder / "folder.ttl").mkdir()
    (thalweg.folder / "data").mkdir()
    (thalweg.folder / "data" / "a.nt").write_text(PEOPLE[0])
    os.symlink("people.nt", thalweg.folder / "link.nt")
    before = thalweg.files()
    done = thalweg("convert", *arguments)
    assert done.code == 2
    assert reason in done.err
    assert thalweg.files() == before


def test_a_failure_leaves_the_file_that_was_there(thalweg: Commands) -> None:
    (thalweg.folder / "out.ttl").write_text("three years of work\n")
    (thalweg.folder / "bad.nt").write_text(f"{PEOPLE[0]}\n<a:s> nonsense\n")
    before = thalweg.files()
    done = thalweg("convert", "bad.nt", "out.ttl", "--force", "--on-error", "fail")
    assert (done.code, "bad.nt:2:7" in done.err) == (1, True)
    assert thalweg.files() == before
    done = thalweg("convert", "bad.nt", "out.ttl", "--force", "--quarantine", "bad.jsonl")
    assert (done.code, done.lines) == (0, [done.lines[-1]])
    assert json.loads((thalweg.folder / "bad.jsonl").read_text())["line"] == 2
    assert PEOPLE[0].encode() in (thalweg.folder / "out.ttl").read_bytes()


def test_a_full_disk_ends_a_conversion_with_a_sentence(thalweg: Commands) -> None:
    done = thalweg("convert", "people.nt", "/dev/full", "--out-format", "nt")
    assert (done.code, done.lines) == (1, ["/dev/full: cannot be written: No space left on device"])


@pytest.mark.slow
def test_ctrl_c_leaves_a_complete_file_of_what_was_converted(thalweg: Commands) -> None:
    line = (PEOPLE[0] + "\n").encode()
    (thalweg.folder / "large.nt").write_bytes(line * 800_000)
    command = [sys.executable, "-m", "thalweg.cli", "convert", "large.nt", "out.jsonl.gz"]
    running = subprocess.Popen(command, cwd=thalweg.folder, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not any(
        part.stat().st_size > 1000 for part in thalweg.folder.glob(".part-*")
    ):
        time.sleep(0.05)
    running.send_signal(2)
    _, err = running.communicate(timeout=120)
    assert running.returncode == 130, err
    assert b"interrupted after" in err
    lines = gzip.decompress((thalweg.folder / "out.jsonl.gz").read_bytes()).splitlines()
    assert 0 < len(lines) < 800_000
    assert json.loads(lines[-1])["op"] == "insert"
    assert not list(thalweg.folder.glob(".part-*"))


# thalweg check


def test_a_good_file_is_counted(thalweg: Commands) -> None:
    (thalweg.folder / "in.nq").write_text(quads(1) + quads(2) + f"{PEOPLE[0]}\n")
    done = thalweg("check", "in.nq", "people.nt")
    assert done.code == 0
    assert done.out.splitlines() == [
        "in.nq: N-Quads",
        "  5 statements, 2 named graphs; 8 IRIs, 2 literals",
        "  2 events, 1970-01-01T00:00:00.001Z to 1970-01-01T00:00:00.002Z",
        "  1 graphs and statements without a time: they are no events",
        "  0 malformed",
        "people.nt: N-Triples",
        "  3 statements; 5 IRIs",
        "  3 events, 1970-01-01T00:00:00Z to 1970-01-01T00:00:00.002Z",
        "  0 malformed",
    ]


def test_what_is_malformed_is_shown_with_its_place(thalweg: Commands) -> None:
    (thalweg.folder / "bad.nt").write_text(f"{PEOPLE[0]}\n" + "<a:s> nonsense\n" * 12 + f"{PEOPLE[1]}\n")
    done = thalweg("check", "bad.nt", "--show", "2")
    assert done.code == 1
    assert done.out.splitlines()[3:] == [
        "  12 malformed:",
        *(
            f"    bad.nt:{line}:7: {done.out.split('bad.nt:2:7: ')[1].split('  |')[0]}  |  <a:s> nonsense"
            for line in (2, 3)
        ),
        "    ... and 10 more (--show N)",
    ]


def test_a_truncated_file_is_malformed(thalweg: Commands) -> None:
    packed = gzip.compress("".join(f"<a:{os.urandom(9).hex()}> <a:p> <a:o> .\n" for _ in range(500)).encode())
    (thalweg.folder / "cut.nt.gz").write_bytes(packed[: len(packed) // 2])
    done = thalweg("check", "cut.nt.gz")
    assert done.code == 1
    assert "cut.nt.gz: N-Triples, gzip" in done.out
    assert "breaks off" in done.out


def test_a_folder_is_checked_file_by_file(thalweg: Commands) -> None:
    (thalweg.folder / "data").mkdir()
    for name in ("a.nt", "b.nt"):
        (thalweg.folder / "data" / name).write_text(PEOPLE[0])
    assert thalweg("check", "data").out.count("1 statement;") == 2
