"""Sequences that cannot be meant, or that their input does not fit: a sentence with a place, and an exit code."""

from __future__ import annotations

import json

import pytest

from tests.unit.cli.commands import Commands, Done

INTEGER = "<http://www.w3.org/2001/XMLSchema#integer>"
PATCH = f"""H time "1" .
TX .
A <http://ex/i> <http://ex/p> "1"^^{INTEGER} .
TC .
H time "2" .
TX .
D <http://ex/i> <http://ex/p> "1"^^{INTEGER} .
A <http://ex/i> <http://ex/q> "1"^^{INTEGER} .
TC .
"""


def text(
    first: str = "?x :p ?a",
    *,
    form: str = "SELECT ?x",
    within: str = "1s",
    sequence: str = "A ; B",
    more: str = "",
) -> str:
    return f"""PREFIX : <http://ex/>
{form}
WITHIN {within} FROM STREAM S <http://ex/s> {more} WHERE {{ SEQ ({sequence})
DEFINE GPM A ON S {{ {first} }}
DEFINE GPM B ON S {{ ?x :q ?b }} }}"""


def asked(thalweg: Commands, query: str, *more: str, name: str = "s.nt", data: str | None = None) -> Done:
    (thalweg.folder / "q.rq").write_text(query)
    lines = "".join(f'<http://ex/i> <http://ex/{p}> "{k}"^^{INTEGER} .\n' for k in range(30) for p in "pq")
    (thalweg.folder / name).write_text(data or lines)
    return thalweg(
        "run", str(thalweg.folder / "q.rq"), "--stream", f"http://ex/s={thalweg.folder / name}", *more
    )


@pytest.mark.parametrize(
    ("first", "reason"),
    [
        ('"text" :p ?a', "a subject is no literal"),
        ("?x :p ?a FILTER(?a > 5 && ?a < 3)", "?a cannot be both > 5 and < 3 (line 4:"),
        ("?x :p ?a FILTER(5 <= ?a) FILTER(?a < 5)", "?a cannot be both >= 5 and < 5 (line 4:"),
        ("?x :p ?a FILTER(?a = 1 && ?a != 1)", "?a cannot be both = 1 and != 1"),
        ("?x :p ?a FILTER(1 = 2)", "1 = 2 is false"),
        ("?x :p ?a FILTER(false)", "false never holds"),
    ],
)
def test_an_atom_that_nothing_can_match_is_warned_of(thalweg: Commands, first: str, reason: str) -> None:
    done = asked(thalweg, text(first))
    assert done.code == 0
    assert not done.out
    (warned,) = (line for line in done.lines if "matches no event" in line)
    assert warned.startswith("the atom A matches no event: ")
    assert reason in warned


@pytest.mark.parametrize(
    "first",
    ["?x :p ?a FILTER(?a >= 3 && ?a <= 3)", "?x :p ?a FILTER(?a != 1 || false)", "?x :p ?a FILTER(?a > -1)"],
)
def test_an_atom_that_something_can_match_is_not(thalweg: Commands, first: str) -> None:
    done = asked(thalweg, text(first))
    assert len(done.lines) == 1
    assert done.out


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        (
            text("?x :p ?a FILTER(?b > 1)"),
            "q.rq:4:30: the FILTER of A uses ?b, which no atom before it binds",
        ),
        (text("?x :p ?a FILTER(?z > 1)"), "q.rq:4:30: the FILTER of A uses ?z, which no atom binds"),
        (text(within="0s"), "q.rq:3:8: WITHIN must be longer than nothing"),
        (text(form="CONSTRUCT <http://ex/s> { ?x :p 1 }"), "<http://ex/s> would be derived from itself"),
    ],
)
def test_a_sequence_that_is_wrong_is_refused_with_its_place(
    thalweg: Commands, query: str, reason: str
) -> None:
    done = asked(thalweg, query)
    assert done.code == 2
    assert not done.out
    (line,) = done.lines
    assert reason in line
    assert "q.rq:" in line


def test_partial_matches_beyond_the_limit_are_dropped_loudly_or_end_the_run(thalweg: Commands) -> None:
    query = text("?x :p []", sequence="A ; A ; A ; B")
    done = asked(thalweg, query, "--max-partial-matches", "100")
    assert done.code == 0
    assert "gap" in {json.loads(line)["op"] for line in done.out.splitlines()}
    assert (
        "more than 100 partial matches, and the oldest were dropped: matches may be missing" in done.lines[0]
    )
    assert "gap" in done.lines[-1]
    done = asked(thalweg, query, "--max-partial-matches", "100", "--on-partial-matches", "fail")
    assert done.code == 1
    assert done.lines[-1].startswith("the sequence has more than 100 partial matches: shorten WITHIN")


def test_deletes_are_refused_without_retractions(thalweg: Commands) -> None:
    done = asked(thalweg, text(), name="s.rdfp", data=PATCH)
    assert done.code == 1
    assert not done.out
    assert done.lines[-1].startswith(
        "<http://ex/s> has a delete at 1970-01-01T00:00:00.002Z, and a sequence takes"
    )
    done = asked(thalweg, text(more="WITH RETRACTIONS"), name="s.rdfp", data=PATCH)
    assert done.code == 0
