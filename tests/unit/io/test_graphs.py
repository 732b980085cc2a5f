"""Answers as N-Triples and N-Quads: what a file holds, who may ask for one, and that a second query can read it."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from thalweg.cli import _main
from thalweg.errors import UsageError
from thalweg.io.graphs import events_of
from thalweg.io.outputs import check_output
from thalweg.lang import parse

S = "http://ex/s"
STAMP = "<http://www.w3.org/ns/prov#generatedAtTime>"
DATE_TIME = "<http://www.w3.org/2001/XMLSchema#dateTime>"
LINES = [f"<http://ex/{a}> <http://ex/knows> <http://ex/{b}> ." for a, b in ("ab", "bc", "ca", "bd")]


def asked(
    operator: str = "", window: str = "[RANGE 2 STEP 2]", template: str = "?x <http://ex/near> ?z"
) -> str:
    head = f"REGISTER {operator} <http://ex/out> AS " if operator else ""
    body = "?x <http://ex/knows> ?y . ?y <http://ex/knows> ?z" if window != "[NOW]" else "?x ?y ?z"
    return f"{head}CONSTRUCT {{ {template} }} FROM STREAM <{S}> {window} WHERE {{ {body} }}"


def run(folder: Path, text: str, source: Path, out: str) -> Path:
    (folder / "query.rq").write_text(text)
    given = ["run", str(folder / "query.rq"), "--stream", f"{S}={source}"]
    assert _main([*given, "--out", str(folder / out), "--force"]) == 0
    return folder / out


@pytest.fixture
def triples(tmp_path: Path) -> Path:
    path = tmp_path / "in.nt"
    path.write_text("\n".join(LINES) + "\n")
    return path


def graph(name: str, ms: int, *lines: str) -> list[str]:
    stamp = f'<{name}> {STAMP} "1970-01-01T00:00:00.{ms:03d}Z"^^{DATE_TIME} .'
    return [stamp, *(f"{line} <{name}> ." for line in lines)]


def near(a: str, b: str) -> str:
    return f"<http://ex/{a}> <http://ex/near> <http://ex/{b}>"


def test_a_file_of_quads_holds_a_graph_for_each_instant(tmp_path: Path, triples: Path) -> None:
    out = run(tmp_path, asked("RSTREAM", "[RANGE 3 STEP 1]"), triples, "out.nq")
    name = "http://ex/out#1970-01-01T00:00:00.00{}Z"
    lines = out.read_text().splitlines()
    assert lines[:3] == [*graph(name.format(2), 2, near("a", "c")), graph(name.format(3), 3)[0]]
    assert set(lines[2:]) == set(graph(name.format(3), 3, near("a", "c"), near("b", "a"), near("c", "b")))


def test_a_file_of_triples_holds_them_alone(tmp_path: Path, triples: Path) -> None:
    out = run(tmp_path, asked("ISTREAM", "[RANGE 3 STEP 1]"), triples, "out.nt.gz")
    made = gzip.decompress(out.read_bytes()).decode().splitlines()
    assert sorted(made) == [f"{near(a, b)} ." for a, b in ("ac", "ba", "cb")]


def test_events_keep_their_names_and_others_get_one(tmp_path: Path, triples: Path) -> None:
    quads = tmp_path / "in.nq"
    quads.write_text("\n".join(graph("http://ex/g", 5, "<http://ex/a> <http://ex/p> <http://ex/b>")) + "\n")
    text = asked(window="[NOW]", template="?z ?y ?x")
    assert run(tmp_path, text, quads, "out.nq").read_text().splitlines() == graph(
        "http://ex/g", 5, "<http://ex/b> <http://ex/p> <http://ex/a>"
    )
    made = run(tmp_path, text, triples, "out.nq").read_text().splitlines()
    assert made[2:4] == graph(
        "urn:thalweg:answer#1970-01-01T00:00:00.001Z", 1, "<http://ex/c> <http://ex/knows> <http://ex/b>"
    )


@pytest.mark.parametrize(("operator", "window"), [("RSTREAM", "[RANGE 3 STEP 1]"), ("ISTREAM", "[RANGE 9]")])
def test_a_second_query_reads_what_the_first_has_written(
    tmp_path: Path, triples: Path, operator: str, window: str
) -> None:
    template = "?x <http://ex/near> [ <http://ex/is> ?z ]"
    first = run(tmp_path, asked(operator, window, template), triples, "first.nq")
    body = "?x <http://ex/near> ?n . ?n <http://ex/is> ?z"
    second = f"SELECT ?x ?z FROM STREAM <{S}> [NOW] WHERE {{ {body} }}"
    out = run(tmp_path, second, first, "second.jsonl")
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    told = {
        (row["at"][20:23], *(row["bindings"][name][11] for name in "xz")) for row in rows if row["op"] == "+"
    }
    if operator == "RSTREAM":
        assert told == {("002", "a", "c"), ("003", "a", "c"), ("003", "b", "a"), ("003", "c", "b")}
    else:
        assert told == {("001", "a", "c"), ("002", "b", "a"), ("002", "c", "b"), ("003", "a", "d")}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("SELECT ?x FROM STREAM <http://ex/s> [NOW] WHERE { ?x ?y ?z }", "of a CONSTRUCT only"),
        (asked(), "cannot take one back: write REGISTER ISTREAM"),
        (asked("DSTREAM"), "cannot take one back"),
        (asked("RSTREAM", "[RANGE 2 STEP 2 REPORT WINDOW-CLOSE WITH EMPTY]"), "WITH EMPTY"),
        (asked("RSTREAM").replace("<http://ex/out>", "<out>"), "<out> is relative"),
    ],
)
@pytest.mark.parametrize("kind", ["nq", "nt", "nq.gz"])
def test_what_triples_cannot_express_is_refused_with_what_to_write(text: str, reason: str, kind: str) -> None:
    with pytest.raises(UsageError, match=reason) as caught:
        check_output(parse(text), Path(f"out.{kind}"))
    assert str(caught.value).startswith(f"out.{kind}: ")
    check_output(parse(text), Path("out.csv"))
    check_output(parse(text), None)


def test_rows_of_an_instant_that_are_mixed_are_put_together() -> None:
    graphs = ["<http://ex/g>", "<http://ex/h>", "<http://ex/g>", None]
    times = ["1970-01-01T00:00:01Z"] * 4
    found = list(events_of("http://ex/a#b", times, graphs, [["<s>"] * 4, ["<p>"] * 4, list("1234")]))
    assert [first for first, _ in found] == [0, 1, 3]
    assert [lines.count("\n") for _, lines in found] == [3, 2, 2]
    assert found[2][1].startswith("<http://ex/a#b-1970-01-01T00:00:01Z> ")
