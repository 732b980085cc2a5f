"""The command `materialise`: what it writes, what it refuses, and its exit codes."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest

EX = "http://ex/"
SCHEMA = """@prefix : <http://ex/> . @prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix owl: <http://www.w3.org/2002/07/owl#> .
:Cat rdfs:subClassOf :Animal . :owns rdfs:range :Cat ; owl:inverseOf :ownedBy . :partOf a owl:TransitiveProperty .
"""
DATA = "<http://ex/ann> <http://ex/owns> <http://ex/tom> .\n"
TYPE = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"
CLOSED = {
    f"<{EX}ann> <{EX}owns> <{EX}tom> .",
    f"<{EX}tom> <{EX}ownedBy> <{EX}ann> .",
    f"<{EX}tom> {TYPE} <{EX}Cat> .",
    f"<{EX}tom> {TYPE} <{EX}Animal> .",
}


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "schema.ttl").write_text(SCHEMA)
    (tmp_path / "data.nt").write_text(DATA)
    return tmp_path


def test_the_closure_is_printed_or_written_to_a_file_of_its_suffix(thalweg, files):
    done = thalweg("materialise", "data.nt", "--schema", "schema.ttl")
    assert set(done.out.splitlines()) == CLOSED
    assert "1 triple in 1 graph, 4 with what follows" in done.err
    done = thalweg("materialise", "data.nt", "--schema", "schema.ttl", "--out", "closed.nt.gz")
    assert done.out == ""
    assert set(gzip.decompress((files / "closed.nt.gz").read_bytes()).decode().splitlines()) == CLOSED


def test_turtle_in_and_the_transitive_rule_on_request(thalweg, files):
    (files / "data.ttl").write_text("@prefix : <http://ex/> . :a :partOf :b . :b :partOf :c .")
    plain = thalweg("materialise", "data.ttl", "--schema", "schema.ttl")
    assert len(plain.out.splitlines()) == 2
    assert "1 axiom is ignored" in plain.err
    chained = thalweg("materialise", "data.ttl", "--schema", "schema.ttl", "--rules", "default,transitive")
    assert f"<{EX}a> <{EX}partOf> <{EX}c> ." in chained.out


def test_malformed_input_is_quarantined_or_ends_it_without_an_output(thalweg, files):
    (files / "data.nt").write_text(DATA + "not a triple\n")
    done = thalweg(
        "materialise", "data.nt", "--schema", "schema.ttl", "--out", "c.nt", "--quarantine", "q.jsonl"
    )
    assert "1 quarantined" in done.err
    assert json.loads((files / "q.jsonl").read_text())["line"] == 2
    done = thalweg(
        *("materialise", "data.nt", "--schema", "schema.ttl", "--out", "d.nt", "--on-error", "fail")
    )
    assert done.code == 1
    assert "data.nt:2:1" in done.err
    assert not (files / "d.nt").exists()


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["data.nt", "--out", "data.nt", "--force"], "would overwrite an input"),
        (["data.nt", "--out", "schema.ttl", "--out-format", "nt", "--force"], "would overwrite an input"),
        (["data.nt", "--out", "taken.nt"], "exists and is not empty"),
        (["data.nt", "--out", "out.jsonl"], "written as N-Triples or N-Quads"),
        (["missing.nt"], "no such file"),
        (["mixed"], "N-Triples (mixed"),
        (["empty"], "no file to read"),
        (["with-events"], "convert"),
        (["*.zip"], "no such file"),
        (["tcp://localhost:9"], "files, or the standard input"),
        (["folder", "--out", "folder/closed.nt"], "would be read as a part of <FILE>"),
        (["events.rdfp"], "convert"),
        (["-"], "--format"),
        (["data.nt", "--rules", "rdfs99"], "is no rule"),
        (["data.nt", "--rules", "owl:sameAs"], "owl:sameAs is refused"),
    ],
)
def test_what_cannot_be_done_is_refused_and_nothing_is_touched(thalweg, files, arguments, reason):
    (files / "taken.nt").write_text("precious")
    (files / "events.rdfp").write_text("A <http://ex/a> <http://ex/b> <http://ex/c> .\n")
    for folder, names in {"mixed": "nt nq", "empty": "", "with-events": "rdfp", "folder": "nt"}.items():
        (files / folder).mkdir()
        for name in names.split():
            (files / folder / f"data.{name}").write_text(DATA)
    done = thalweg("materialise", *arguments, "--schema", "schema.ttl")
    assert done.code == 2
    assert reason in done.err
    assert (files / "data.nt").read_text() == DATA
    assert (files / "taken.nt").read_text() == "precious"


@pytest.mark.parametrize("source", ["data", "data/*/*.*", "data/**/c*.[nt]*"])
def test_folders_and_patterns_are_closed_as_one_graph(thalweg, files, source):
    """A step of a chain is in each file, so that no file has the whole chain."""
    (files / "data" / "more").mkdir(parents=True)
    for k, name in enumerate(("c0.nt", "c1.ttl", "c2.nt.gz")):
        text = f"<{EX}n{k}> <{EX}partOf> <{EX}n{k + 1}> .\n".encode()
        (files / "data/more" / name).write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    (files / "data" / "notes.txt").write_text("not RDF")
    done = thalweg("materialise", source, "--schema", "schema.ttl", "--rules", "default,transitive")
    chains = {f"<{EX}n{a}> <{EX}partOf> <{EX}n{b}> ." for a in range(4) for b in range(a + 1, 4)}
    assert set(done.out.splitlines()) == chains
    assert "3 triples in 1 graph" in done.err


def test_the_memory_that_all_files_need_together_is_checked_before_they_are_read(thalweg, files, monkeypatch):
    (files / "data").mkdir()
    for k in range(40):
        (files / "data" / f"{k}.nt").write_text(DATA)
    monkeypatch.setenv("THALWEG_MEMORY", "500")
    assert thalweg("materialise", "data.nt", "--schema", "schema.ttl").code == 0
    done = thalweg("materialise", "data", "--schema", "schema.ttl")
    assert done.code == 2
    assert "data needs about" in done.err


@pytest.mark.spark
@pytest.mark.soak
@pytest.mark.parametrize("source", ["data", "data/*.nt"])
def test_spark_closes_a_folder_as_one_process_does(files, source):
    (files / "data").mkdir()
    for k in range(3):
        text = f"<{EX}n{k}> <{EX}partOf> <{EX}n{k + 1}> .\n<{EX}ann> <{EX}owns> <{EX}tom> .\n"
        (files / "data" / f"{k}.nt").write_text(text)
    command = [sys.executable, "-m", "thalweg.cli", "materialise", source, "--schema", "schema.ttl"]
    command += ["--rules", "default,transitive"]
    made = [
        subprocess.run([*command, "--on", on], cwd=files, capture_output=True, text=True, check=True).stdout
        for on in ("local", "spark")
    ]
    assert sorted(made[0].splitlines()) == sorted(made[1].splitlines())
    assert len(made[0].splitlines()) == 6 + len(CLOSED)


def test_named_graphs_need_n_quads(thalweg, files):
    (files / "data.nq").write_text(DATA.replace(" .", f" <{EX}g> ."))
    done = thalweg("materialise", "data.nq", "--schema", "schema.ttl", "--out", "closed.nt")
    assert done.code == 1
    assert ".nq" in done.err
    assert not (files / "closed.nt").exists()
    done = thalweg("materialise", "data.nq", "--schema", "schema.ttl")
    assert {line.replace(f" <{EX}g> .", " .") for line in done.out.splitlines()} == CLOSED


def test_a_malformed_schema_is_refused_with_its_position(thalweg, files):
    (files / "schema.ttl").write_text("<http://ex/a> <http://ex/b>")
    done = thalweg("materialise", "data.nt", "--schema", "schema.ttl")
    assert done.code == 1
    assert "schema.ttl:1" in done.err
