"""The command line, mostly in this process; what needs signals and pipes runs as a command of its own."""

from __future__ import annotations

import csv
import gzip
import io
import json
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.unit.cli.commands import EX, FRIENDS, PEOPLE, TIME, Commands


@pytest.fixture
def thalweg(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> Commands:
    monkeypatch.chdir(tmp_path)
    return Commands(tmp_path, capsysbinary)


def command(arguments: Sequence[str], **options: object) -> subprocess.Popen[bytes]:
    program = [sys.executable, "-m", "thalweg.cli", *arguments]
    # Unbuffered, so that reading one line takes no more than that line out of the pipe.
    return subprocess.Popen(
        program,
        bufsize=0,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        **options,  # type: ignore[call-overload]
    )


def at(ms: int) -> str:
    return f"1970-01-01T00:00:00.{ms:03d}".rstrip("0").rstrip(".") + "Z"


def pair(a: str, c: str) -> dict[str, str]:
    return {"a": f"<{EX}{a}>", "c": f"<{EX}{c}>"}


def test_run_prints_how_the_answer_changes(thalweg):
    done = thalweg("run", "friends.rq", "--stream", f"{EX}people=people.nt")
    assert done.code == 0
    assert done.rows == [(at(1), "+", pair("ann", "cem")), (at(2), "+", pair("ben", "dora"))]
    assert done.out.splitlines()[0] == (
        '{"at": "1970-01-01T00:00:00.001Z", "op": "+", '
        '"bindings": {"a": "<http://ex/ann>", "c": "<http://ex/cem>"}}'
    )
    assert done.err.startswith("thalweg: 3 events, 3 triples, 2 results in ")
    assert done.err.endswith("0 quarantined, 0 late\n")


def test_drain_lets_the_windows_run_empty(thalweg):
    done = thalweg("run", "friends.rq", "--stream", f"{EX}people=people.nt", "--drain")
    assert done.rows[2:] == [(at(10), "-", pair("ann", "cem")), (at(11), "-", pair("ben", "dora"))]


def test_a_query_that_names_no_stream_reads_the_only_one(thalweg, tmp_path):
    (tmp_path / "bare.rq").write_text(f"SELECT ?x {{ ?x <{EX}knows> ?k FILTER(?k = <{EX}ben>) }}")
    done = thalweg("run", "bare.rq", "--stream", f"<{EX}any>=people.nt")
    assert done.rows == [(at(0), "+", {"x": f"<{EX}ann>"})]


def test_a_projected_constant_is_part_of_each_row_and_an_unbound_variable_is_not(thalweg, tmp_path):
    (tmp_path / "bare.rq").write_text(f"SELECT ?none ?k ?x {{ ?x <{EX}knows> ?k FILTER(?k = <{EX}ben>) }}")
    done = thalweg("run", "bare.rq", "--stream", f"{EX}any=people.nt")
    assert [list(bindings) for _, _, bindings in done.rows] == [["k", "x"]]


@pytest.mark.parametrize(
    ("options", "times"),
    [
        (["--per-event", "2"], [at(0), at(1)]),
        (["--rate", "100"], [at(10), at(20)]),
    ],
)
def test_events_of_n_triples_are_blocks_at_a_rate(thalweg, tmp_path, options, times):
    (tmp_path / "wide.rq").write_text(FRIENDS.replace("[RANGE 10]", "[RANGE 1h]"))
    done = thalweg("run", "wide.rq", "--stream", f"{EX}people=people.nt", *options)
    assert [row[0] for row in done.rows] == times


def test_a_folder_is_read_in_the_order_of_its_names(thalweg, tmp_path):
    folder = tmp_path / "people"
    (folder / "c").mkdir(parents=True)
    (folder / "b.nt.gz").write_bytes(gzip.compress(PEOPLE[1].encode()))
    (folder / "a.nt").write_text(PEOPLE[0])
    (folder / "c" / "a.NT").write_text(PEOPLE[2])
    (folder / "notes.txt").write_text("not data")
    (folder / ".hidden.nt").write_text("not data")
    for path in ("people", "people/**/*.[nN][tT]*"):
        done = thalweg("run", "friends.rq", "--stream", f"{EX}people={path}")
        assert [row[0] for row in done.rows] == [at(1), at(2)]
        assert "0 quarantined" in done.err


def test_two_streams_are_read_side_by_side(thalweg, tmp_path):
    (tmp_path / "two.rq").write_text(
        f"SELECT ?a ?c FROM NAMED WINDOW <w> ON <{EX}s> [RANGE 1] FROM NAMED WINDOW <v> ON <{EX}t> [RANGE 1] "
        f"{{ WINDOW <w> {{ ?a <{EX}p> ?b }} WINDOW <v> {{ ?b <{EX}q> ?c }} }}"
    )
    (tmp_path / "s.nt").write_text("".join(f"<{EX}a{i}> <{EX}p> <{EX}b{i}> .\n" for i in range(50)))
    (tmp_path / "t.nt").write_text("".join(f"<{EX}b{i}> <{EX}q> <{EX}c{i}> .\n" for i in range(40)))
    done = thalweg("run", "two.rq", "--stream", f"{EX}s=s.nt", "--stream", f"{EX}t=t.nt")
    found = [(row[0], row[2]) for row in done.rows if row[1] == "+"]
    assert found == [(at(i), pair(f"a{i}", f"c{i}")) for i in range(40)]
    assert "90 events" in done.err


def test_a_row_of_now_carries_its_graph(thalweg, tmp_path):
    (tmp_path / "now.rq").write_text(f"SELECT * FROM STREAM <{EX}s> [NOW] {{ ?x <{EX}p> ?y }}")
    (tmp_path / "s.nq").write_text(
        f'<{EX}g> {TIME} "1970-01-01T00:00:01.5Z" .\n<{EX}a> <{EX}p> "\u00e9\\n" <{EX}g> .\n'
        f"<{EX}a> <{EX}p> <{EX}b> .\n"
    )
    done = thalweg("run", "now.rq", "--stream", f"{EX}s=s.nq")
    assert done.out == (
        '{"at": "1970-01-01T00:00:01.5Z", "op": "+", "graph": "<http://ex/g>", '
        '"bindings": {"x": "<http://ex/a>", "y": "\\"\u00e9\\\\n\\""}}\n'
    )
    assert "left out: 1 statement of the default graph" in done.err


def test_a_row_of_now_has_no_graph_where_its_event_has_none(thalweg, tmp_path):
    (tmp_path / "now.rq").write_text(f"SELECT * FROM STREAM <{EX}s> [NOW] {{ ?x <{EX}p> ?y }}")
    (tmp_path / "s.nt").write_text(f"<{EX}a> <{EX}p> <{EX}b> .\n")
    done = thalweg("run", "now.rq", "--stream", f"{EX}s=s.nt")
    assert done.out.startswith('{"at": "1970-01-01T00:00:00Z", "op": "+", "bindings": ')


def test_the_time_predicate_can_be_another_one(thalweg, tmp_path):
    (tmp_path / "bare.rq").write_text(f"SELECT * {{ ?x <{EX}knows> ?y }}")
    typed = '"1970-01-01T00:00:00.005Z"^^<http://www.w3.org/2001/XMLSchema#dateTime>'
    (tmp_path / "s.nq").write_text(f"<{EX}g> <{EX}at> {typed} .\n<{EX}a> <{EX}knows> <{EX}b> <{EX}g> .\n")
    done = thalweg("run", "bare.rq", "--stream", f"{EX}s=s.nq", "--time-predicate", f"{EX}at")
    assert [row[0] for row in done.rows] == [at(5)]


def test_blank_nodes_are_local_to_events_unless_their_labels_are_stable(thalweg, tmp_path):
    (tmp_path / "blank.nt").write_text(f"<{EX}ann> <{EX}knows> _:b .\n_:b <{EX}knows> <{EX}cem> .\n")
    local = thalweg("run", "friends.rq", "--stream", f"{EX}people=blank.nt")
    stable = thalweg("run", "friends.rq", "--stream", f"{EX}people=blank.nt", "--blank-nodes", "stable")
    assert local.rows == []
    assert "use --blank-nodes stable" in local.err
    assert [row[2] for row in stable.rows] == [pair("ann", "cem")]
    assert "blank nodes" not in stable.err


def test_the_name_of_the_output_says_its_format(thalweg, tmp_path):
    printed = thalweg("run", "friends.rq", "--stream", f"{EX}people=people.nt").out
    for name in ("o.jsonl", "o.ndjson", "o.jsonl.gz", "o.csv"):
        done = thalweg("run", "friends.rq", "--stream", f"{EX}people=people.nt", "--out", name)
        assert (done.code, done.out) == (0, "")
    assert (tmp_path / "o.jsonl").read_text() == (tmp_path / "o.ndjson").read_text() == printed
    assert gzip.decompress((tmp_path / "o.jsonl.gz").read_bytes()).decode() == printed
    table = list(csv.DictReader(io.StringIO((tmp_path / "o.csv").read_text())))
    assert table[0] == {"at": at(1), "op": "+", "graph": "", **pair("ann", "cem")}


def test_malformed_input_is_set_aside_with_place_and_reason(thalweg, tmp_path):
    (tmp_path / "people.nt").write_text("\n".join([PEOPLE[0], "oops .", *PEOPLE[1:]]))
    told = thalweg("run", "friends.rq", "--stream", f"{EX}people=people.nt")
    kept = thalweg("run", "friends.rq", "--stream", f"{EX}people=people.nt", "--quarantine", "q.jsonl")
    assert len(told.rows) == len(kept.rows) == 2
    assert "1 quarantined" in told.err
    assert "people.nt:2:1: " in told.err
    (record,) = map(json.loads, (tmp_path / "q.jsonl").read_text().splitlines())
    assert (record["source"], record["line"], record["text"]) == ("people.nt", 2, "oops .")


def test_malformed_input_ends_the_run_where_that_is_wanted(thalweg, tmp_path):
    (tmp_path / "people.nt").write_text("\n".join([PEOPLE[0], "oops .", *PEOPLE[1:]]))
    done = thalweg("run", "friends.rq", "--stream", f"{EX}people=people.nt", "--on-error", "fail")
    assert done.code == 1
    assert done.err.startswith("thalweg: people.nt:2:1: ")
    assert done.err.count("\n") == 1


def test_late_events_are_counted_and_kept(thalweg, tmp_path):
    quads = [
        f'<{EX}{g}> {TIME} "{show}"^^<http://www.w3.org/2001/XMLSchema#dateTime> .\n{line[:-1]} <{EX}{g}> .\n'
        for g, show, line in zip(
            "abc",
            ["1970-01-01T00:00:09Z", "1970-01-01T00:00:02Z", "1970-01-01T00:00:10Z"],
            PEOPLE,
            strict=True,
        )
    ]
    (tmp_path / "people.nq").write_text("".join(quads))
    (tmp_path / "friends.rq").write_text(FRIENDS.replace("[RANGE 10]", "[RANGE 10s]"))
    done = thalweg("run", "friends.rq", "--stream", f"{EX}people=people.nq", "--late", "late.jsonl")
    assert "1 late" in done.err
    (record,) = map(json.loads, (tmp_path / "late.jsonl").read_text().splitlines())
    assert (record["stream"], record["at"]) == (f"{EX}people", "1970-01-01T00:00:02Z")
    patient = thalweg("run", "friends.rq", "--stream", f"{EX}people=people.nq", "--lateness", "8s")
    assert "0 late" in patient.err
    assert [row[0] for row in patient.rows] == ["1970-01-01T00:00:09Z", "1970-01-01T00:00:10Z"]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["run"], "QUERY.rq"),
        (["run", "friends.rq"], "--stream"),
        (["fly"], "fly"),
        (["run", "none.rq", "--stream", "a:a=people.nt"], "none.rq: the query cannot be read"),
        (["run", "friends.rq", "--stream", "people.nt"], "IRI=PATH"),
        (["run", "friends.rq", "--stream", f"{EX}people=none.nt"], "none.nt: no such file or folder"),
        (["run", "friends.rq", "--stream", f"{EX}people=empty"], "empty: there is no file to read here"),
        (["run", "friends.rq", "--stream", f"{EX}people=notes.txt"], "notes.txt"),
        (["run", "friends.rq", "--stream", "a:a=people.nt"], f"the query reads <{EX}people>"),
        (["run", "friends.rq", *["--stream", f"{EX}people=people.nt"] * 2], "twice"),
        (["run", "friends.rq", "--stream", f"{EX}people=people.nt", "--on", "mars"], "mars"),
        (["run", "friends.rq", "--stream", f"{EX}people=people.nt", "--per-event", "0"], "--per-event"),
        (["run", "friends.rq", "--stream", f"{EX}people=people.nt", "--rate", "0"], "--rate"),
        (["run", "friends.rq", "--stream", f"{EX}people=people.nt", "--lateness", "soon"], "--lateness"),
        (
            ["run", "friends.rq", "--stream", f"{EX}people=people.nt", "--out", "o.xml"],
            "o.xml: unknown output",
        ),
        (
            ["run", "friends.rq", "--stream", f"{EX}people=people.nt", "--out", "no/o.csv"],
            "cannot be written",
        ),
        (
            ["run", "friends.rq", "--stream", f"{EX}people=people.nt", "--quarantine", "no/q"],
            "cannot be written",
        ),
        (["run", "friends.rq", "--stream", f"{EX}people=people.nt", "--checkpoint", "c"], "--on spark"),
        (
            [
                "run",
                "friends.rq",
                "--stream",
                f"{EX}people=people.nt",
                "--static",
                "none.nt",
                "--on",
                "spark",
            ],
            "cannot read none.nt: there is no such file",
        ),
        (["run", "wrong.rq", "--stream", f"{EX}people=people.nt"], "wrong.rq:2:3: unknown prefix 'ex:'"),
        (["explain", "wrong.rq"], "wrong.rq:2:3: unknown prefix 'ex:'"),
        (["bench", "nothing"], "nothing"),
        (["bench", "--data", "none.nt"], "none.nt: no such file"),
        (["bench", "--data", "people.nt", "--json", "./people.nt"], "--json would overwrite --data"),
    ],
)
def test_wrong_usage_is_one_sentence_and_code_2(thalweg, tmp_path, arguments, complaint):
    (tmp_path / "empty").mkdir()
    (tmp_path / "notes.txt").write_text("")
    (tmp_path / "wrong.rq").write_text("SELECT * {\n  ex:a ?p ?o }")
    done = thalweg(*arguments)
    assert done.code == 2
    assert done.err.startswith("thalweg: ")
    assert done.err.count("\n") == 1
    assert complaint in done.err
    assert done.out == ""


def test_spark_without_java_is_one_sentence(thalweg, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    done = thalweg("run", "friends.rq", "--stream", f"{EX}people=people.nt", "--on", "spark")
    assert done.code == 2
    assert done.err.startswith("thalweg: Spark needs Java 17 or newer, and there is none")
    assert done.err.count("\n") == 1


def test_a_window_by_count_and_empty_reports_are_written_by_run(thalweg, tmp_path):
    knows = f"<{EX}knows>"
    (tmp_path / "last.rq").write_text(f"SELECT ?a FROM STREAM <{EX}people> [ELEMENTS 1] {{ ?a {knows} ?b }}")
    run = ("run", "--stream", f"{EX}people=people.nt")
    rows = [(op, bindings["a"]) for _, op, bindings in thalweg(*run, "last.rq").rows]
    ann, ben, cem = (f"<{EX}{name}>" for name in ("ann", "ben", "cem"))
    assert sorted(rows) == sorted([("+", ann), ("-", ann), ("+", ben), ("-", ben), ("+", cem)])
    window = "[ELEMENTS 1 REPORT WINDOW-CLOSE WITH EMPTY]"
    (tmp_path / "told.rq").write_text(
        f"REGISTER RSTREAM <{EX}o> AS SELECT ?b FROM STREAM <{EX}people> {window} {{ <{EX}ann> {knows} ?b }}"
    )
    assert [(op, b) for _, op, b in thalweg(*run, "told.rq").rows] == [
        ("+", {"b": ben}),
        ("0", {}),
        ("0", {}),
    ]
    thalweg(*run, "told.rq", "--out", "told.csv")
    table = list(csv.reader((tmp_path / "told.csv").open()))
    assert [row[1:] for row in table[1:]] == [["+", "", ben], ["0", "", ""], ["0", "", ""]]


def test_explain_shows_how_a_query_is_read(thalweg, tmp_path):
    (tmp_path / "bare.rq").write_text("SELECT * { ?x <a:p> ?y }")
    assert f"<{EX}people> [RANGE 10ms]" in thalweg("explain", "friends.rq").out
    assert "<a:s>" in thalweg("explain", "bare.rq", "--stream", "a:s").out
    assert thalweg("explain", "bare.rq").code == 0


@pytest.mark.parametrize(
    ("format", "start"), [("dot", "digraph {"), ("mermaid", "flowchart BT"), ("svg", "<svg ")]
)
def test_explain_draws_a_plan(thalweg, format, start):
    done = thalweg("explain", "friends.rq", "--format", format)
    assert done.code == 0
    assert done.out.startswith(start)


def test_a_query_can_come_from_the_standard_input(thalweg, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"SELECT * { ?x ex:p ?y }")))
    assert "the input:1:15: unknown prefix" in thalweg("explain", "-").err


def test_the_version_and_the_help_are_printed(thalweg):
    assert thalweg("--version").out.startswith("thalweg 0.")
    for arguments in ([], ["--help"], ["run", "--help"]):
        done = thalweg(*arguments)
        assert (done.code, done.err) == (0, "")
        assert "Usage: thalweg" in done.out


def test_help_loads_neither_numba_nor_rdflib():
    code = (
        "import sys\nfrom thalweg.cli import _main\n_main(['run', '--help'])\n"
        "sys.exit(len({'numba', 'rdflib', 'pyspark', 'pyarrow', 'numpy'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], stdout=subprocess.DEVNULL, timeout=60).returncode == 0


@pytest.fixture(scope="module")
def long_run(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Arguments of a run that takes a while: five pieces of a file with wide lines."""
    folder = tmp_path_factory.mktemp("long")
    (folder / "each.rq").write_text(f"SELECT ?x FROM STREAM <{EX}s> [RANGE 1] {{ ?x <{EX}p> ?y }}")
    pair = [f'<{EX}{name}> <{EX}p> "{"x" * 4000}" .\n' for name in "ab"]
    (folder / "s.nt").write_text("".join(pair) * 10_000)
    return ["run", str(folder / "each.rq"), "--stream", f"{EX}s={folder / 's.nt'}"]


def test_ctrl_c_ends_a_run_with_whole_lines_and_code_130(long_run):
    with command(long_run) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=120)
    rows = [first, *out.splitlines(keepends=True)]
    assert process.returncode == 130
    assert all(json.loads(row)["op"] in "+-" for row in rows)
    assert rows[-1].endswith(b"\n")
    assert err.startswith(b"thalweg: interrupted after ")
    assert f"{len(rows):,} results".encode() in err


def test_a_reader_that_leaves_ends_the_run_quietly(long_run):
    with command(long_run) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(timeout=120) == 0
        assert process.stderr is not None
        assert process.stderr.read() == b""


@pytest.mark.spark
def test_spark_gives_the_same_answers_quarantine_and_counts(tmp_path):
    (tmp_path / "friends.rq").write_text(FRIENDS)
    (tmp_path / "people.nt").write_text("\n".join([PEOPLE[0], "oops .", *PEOPLE[1:]]))
    told = {}
    for on in ("local", "spark"):
        files = [f"--out={on}.csv", f"--quarantine={on}.jsonl", f"--late={on}-late.jsonl"]
        arguments = ["run", "friends.rq", "--stream", f"{EX}people=people.nt", "--on", on, "--drain", *files]
        with command(arguments, cwd=tmp_path) as process:
            _, err = process.communicate(timeout=300)
        assert process.returncode == 0, err.decode()
        told[on] = err.decode().splitlines()[-1]
    for name in (".csv", "-late.jsonl"):
        assert (tmp_path / f"spark{name}").read_text() == (tmp_path / f"local{name}").read_text()
    here, there = (json.loads((tmp_path / f"{on}.jsonl").read_text()) for on in ("local", "spark"))
    assert (here["line"], here["reason"]) == (there["line"], there["reason"])
    for line in told.values():
        assert line.startswith("thalweg: 3 events, 3 triples, 4 results in ")
        assert line.endswith("1 quarantined, 0 late")
    with command([*arguments, "--force", "--on-error", "fail"], cwd=tmp_path) as process:
        _, err = process.communicate(timeout=300)
    assert process.returncode == 1
    assert "people.nt:2:1: " in err.decode().splitlines()[-1]


def test_the_progress_line_is_drawn_where_it_is_asked_for(thalweg):
    arguments = ["run", "friends.rq", "--stream", f"{EX}people=people.nt", "--out", "o.csv", "--force"]
    assert thalweg(*arguments, "--no-progress").err.count("\n") == 1
    assert len(thalweg(*arguments, "--progress").err) > len(thalweg(*arguments).err)
