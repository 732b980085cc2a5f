"""Input that is rejected as a whole fails the run and names the likely cause; a part of it is left out and counted."""

from __future__ import annotations

import gzip
from collections.abc import Callable

import pytest

from tests.unit.cli.commands import EX, FRIENDS, PEOPLE, STREAM, TIME, Commands, quads
from thalweg.io.sniff import holds_data, likely_cause

TRIPLES = "\n".join(PEOPLE) + "\n"
TURTLE = f"@prefix : <{EX}> .\n:ann :knows :ben ;\n  :likes :cem .\n"
NO_PREFIX = f"<{EX}ann> <{EX}knows> <{EX}ben> ,\n <{EX}cem> .\n"
RDF_XML = '<?xml version="1.0"?>\n<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"/>\n'
QUADS = "".join(map(quads, range(3)))
UNTIMED = f"{PEOPLE[0][:-1]} <{EX}g> .\n"

WHOLE: dict[str, tuple[str, bytes, str]] = {
    "N-Triples named .nq": ("x.nq", TRIPLES.encode(), "it holds N-Triples"),
    "N-Quads named .nt": ("x.nt", QUADS.encode(), "it holds N-Quads: call it .nq"),
    "N-Quads without times named .nt": ("x.nt", UNTIMED.encode(), "it holds N-Quads: call it .nq"),
    "Turtle named .nt": ("x.nt", TURTLE.encode(), "it looks like Turtle: convert it to N-Triples"),
    "Turtle without prefixes": ("x.nt", NO_PREFIX.encode(), "it looks like Turtle"),
    "Turtle named .nq": ("x.nq", TURTLE.encode(), "it looks like Turtle: convert it to N-Quads"),
    "TriG named .nq": ("x.nq", f"PREFIX : <{EX}>\n:g {{ :a :p :b }}\n".encode(), "it looks like TriG"),
    "N-Quads in lines that end in CR": (
        "x.nt",
        QUADS.replace("\n", "\r").encode(),
        "it holds N-Quads: call it .nq",
    ),
    "gzipped Turtle": ("x.nt.gz", gzip.compress(TURTLE.encode()), "it looks like Turtle"),
    "a plain file named .gz": ("x.nt.gz", TRIPLES.encode(), "it is not a gzip file, though"),
    "a gzip that breaks off": (
        "x.nt.gz",
        gzip.compress(TRIPLES.encode())[:-30],
        "not written or copied to its end",
    ),
    "a damaged gzip": ("x.nt.gz", b"\x1f\x8b" + bytes(50), "the gzip file is damaged"),
    "RDF/XML": ("x.nt", RDF_XML.encode(), "it looks like RDF/XML"),
    "other XML": ("x.nt", b'<?xml version="1.0"?>\n<a/>\n', "it looks like XML"),
    "JSON-LD": ("x.nt", b'{\n "@id": "http://ex/a"}\n', "it looks like JSON-LD"),
    "JSON": ("x.nq", b'[{"a": 1}]', "it looks like JSON: convert it to N-Quads"),
    "HTML": ("x.nt", b"<!doctype HTML>\n<html><body>Not found</body></html>\n", "it is a web page (HTML)"),
    "UTF-16": ("x.nt", TRIPLES.encode("utf-16"), "it is text in UTF-16"),
    "UTF-16 without a mark": ("x.nt", TRIPLES.encode("utf-16-le"), "binary data or text in UTF-16"),
    "graphs without times": ("x.nq", UNTIMED.encode(), "a graph needs a time"),
    "prose": ("x.nt", b"It was a dark night.\n", "no line could be read"),
}


@pytest.mark.parametrize("case", WHOLE)
def test_input_that_is_rejected_as_a_whole_fails_the_run_and_names_the_cause(
    thalweg: Commands, case: str
) -> None:
    name, content, cause = WHOLE[case]
    (thalweg.folder / name).write_bytes(content)
    done = thalweg.run(name)
    assert (done.code, done.out) == (1, "")
    assert done.lines[0].startswith(f"no usable input in <{STREAM}>: {name}: ")
    assert cause in done.lines[0]
    assert done.lines[-1].startswith("failed after ")


@pytest.mark.parametrize("case", WHOLE)
def test_one_bad_file_of_a_folder_is_left_out_and_named(thalweg: Commands, case: str) -> None:
    name, content, cause = WHOLE[case]
    good = "a" + name[1:].removesuffix(".gz")
    folder = thalweg.folder / "in"
    folder.mkdir()
    (folder / good).write_text(TRIPLES if good.endswith(".nt") else QUADS)
    (folder / name).write_bytes(content)
    (thalweg.folder / "friends.rq").write_text(FRIENDS.replace("RANGE 10", "RANGE 1h"))
    done = thalweg.run("in")
    assert done.code == 0
    assert len(done.rows) >= 2
    if case == "N-Triples named .nq":  # not distinguishable from statements that belong to no event
        assert "3 statements without a time" in done.lines[-1]
    else:
        assert "0 quarantined" not in done.lines[-1]
        assert any(f"in/{name}" in line for line in done.lines)
        assert case == "prose" or any(cause in line for line in done.lines)


def test_one_stream_that_gives_nothing_fails_the_run(thalweg: Commands) -> None:
    (thalweg.folder / "two.rq").write_text(
        f"SELECT ?a FROM NAMED WINDOW <w> ON <{EX}s> [RANGE 1] FROM NAMED WINDOW <v> ON <{EX}t> [RANGE 1] "
        f"{{ WINDOW <w> {{ ?a <{EX}knows> ?b }} WINDOW <v> {{ ?b <{EX}knows> ?c }} }}"
    )
    (thalweg.folder / "bad.nt").write_text(TURTLE)
    done = thalweg("run", "two.rq", "--stream", f"{EX}s=people.nt", "--stream", f"{EX}t=bad.nt")
    assert done.code == 1
    assert f"no usable input in <{EX}t>: bad.nt: it looks like Turtle" in done.err
    assert f"<{EX}s>" not in done.err


@pytest.mark.parametrize(
    "content", ["", "\n\n", "# nothing yet\n", "  # nothing yet\n\t\n", "# nothing\r# yet\r"]
)
def test_a_stream_that_is_empty_is_no_failure(thalweg: Commands, content: str) -> None:
    (thalweg.folder / "x.nt").write_text(content)
    done = thalweg.run("x.nt")
    assert (done.code, len(done.lines)) == (0, 1)
    assert not holds_data("x.nt")


@pytest.mark.parametrize(
    "content",
    [
        TRIPLES,
        TRIPLES + "oops\n",
        "\ufeff" + TRIPLES,
        f'<{EX}a> <{EX}p> "say; @prefix , {{ }} [] <html> ;" .\n',
        f'<{EX}a> <{EX}p> "a, b" .\n' * 60 + UNTIMED,
        "# @prefix ; ,\n" + TRIPLES,
        TRIPLES + f'<{EX}a> <{EX}p> "a , b ;\n',
    ],
)
def test_nothing_is_guessed_about_files_that_are_what_they_are_called(
    thalweg: Commands, content: str
) -> None:
    (thalweg.folder / "x.nt").write_text(content)
    assert likely_cause("x.nt") is None


def test_data_behind_a_comment_that_ends_in_cr_is_seen(thalweg: Commands) -> None:
    (thalweg.folder / "x.nt").write_bytes(b"# a comment\roops")
    assert holds_data("x.nt")
    assert thalweg.run("x.nt").code == 1


def test_skipped_files_are_named_and_counted(thalweg: Commands) -> None:
    folder = thalweg.folder / "in"
    (folder / "sub").mkdir(parents=True)
    (folder / "a.nt").write_text(TRIPLES)
    for name in ("b.csvx", "sub/c.nt.zip", "d.txt", "e.txt", ".hidden.ttl"):
        (folder / name).write_text(TURTLE)
    done = thalweg.run("in")
    assert done.code == 0
    assert "skipped for their suffixes: in/b.csvx, in/d.txt, in/e.txt and 1 other" in done.err
    assert done.lines[-1].endswith("4 files skipped")


def test_triples_and_graphs_in_one_folder_are_refused(thalweg: Commands) -> None:
    (thalweg.folder / "x.nq").write_text(QUADS)
    done = thalweg.run(".")
    assert (done.code, len(done.lines)) == (2, 1)
    assert "give them as two streams" in done.err


@pytest.mark.parametrize("before", ["", "# a comment\n" * 5, "# a comment\r" * 5, QUADS * 30_000, "\ufeff"])
def test_fail_also_covers_statements_that_say_no_time(thalweg: Commands, before: str) -> None:
    (thalweg.folder / "x.nq").write_text(before + PEOPLE[0] + "\n" + quads(4))
    line = len(before.splitlines()) + 1 - (before == "\ufeff")
    assert thalweg.run("x.nq").code == 0
    done = thalweg.run("x.nq", "--on-error", "fail")
    assert done.code == 1
    assert done.lines == [f"x.nq:{line}: the statement is in no graph and states no time"]


@pytest.mark.parametrize("case", [name for name in WHOLE if name not in ("prose", "graphs without times")])
def test_fail_names_the_cause_in_its_one_sentence(thalweg: Commands, case: str) -> None:
    name, content, cause = WHOLE[case]
    (thalweg.folder / name).write_bytes(content)
    done = thalweg.run(name, "--on-error", "fail")
    assert (done.code, len(done.lines)) == (1, 1)
    assert done.lines[0].startswith(f"{name}:")
    assert ":0" not in done.lines[0]
    if case not in ("N-Triples named .nq", "a gzip that breaks off", "a damaged gzip"):
        assert cause in done.lines[0]


@pytest.mark.parametrize(
    ("spoil", "left_out"),
    [
        (lambda text: text + "oops\n", "1 quarantined, 0 late"),
        (lambda text: text + PEOPLE[0] + "\n", "0 quarantined, 0 late, 1 statement without a time"),
        (lambda text: text + quads(1).replace("g1", "late"), "0 quarantined, 1 late"),
        (lambda text: text, "0 quarantined, 0 late"),
    ],
)
def test_what_a_run_left_out_is_in_its_last_line_and_each_kind_has_a_hint(
    thalweg: Commands, spoil: Callable[[str], str], left_out: str
) -> None:
    (thalweg.folder / "x.nq").write_text(spoil("".join(map(quads, range(3)))))
    done = thalweg.run("x.nq")
    assert done.code == 0
    assert done.lines[-1].endswith(left_out)
    assert len(done.lines) == 1 + (left_out != "0 quarantined, 0 late")


def test_a_stream_that_the_query_does_not_read_is_counted(thalweg: Commands) -> None:
    done = thalweg("run", "friends.rq", "--stream", f"{STREAM}=people.nt", "--stream", f"{EX}other=people.nt")
    assert done.code == 0
    assert done.lines[0] == f"the query does not read <{EX}other>"
    assert done.lines[-1].endswith("1 stream unread")


def test_times_by_another_predicate_are_named_for_what_they_are(thalweg: Commands) -> None:
    (thalweg.folder / "x.nq").write_text(QUADS.replace(TIME, f"<{EX}at>"))
    assert thalweg.run("x.nq").code == 1
    assert thalweg.run("x.nq", "--time-predicate", f"{EX}at").code == 0
