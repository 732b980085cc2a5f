"""What is valid and can hardly be meant is warned about once: in the last lines of a run, or by Python's warnings."""

from __future__ import annotations

import warnings

import pytest

from tests.unit.cli.commands import EX, FRIENDS, PEOPLE, STREAM, Commands
from thalweg import Session, ThalwegWarning
from thalweg.lang import parse
from thalweg.plan.coverage import Coverage


def test_a_pattern_that_no_triple_fits_is_named_with_its_place(thalweg: Commands) -> None:
    (thalweg.folder / "typo.rq").write_text(FRIENDS.replace(f"?b <{EX}knows>", f"\n?b <{EX}konws>"))
    done = thalweg.run("people.nt", query="typo.rq")
    assert done.code == 0
    assert done.lines[:-1] == [f"no triple fits the pattern  ?b <{EX}konws> ?c .  (line 2:1 of the query)"]
    assert done.lines[-1].endswith("1 pattern unmatched")


def test_an_answer_that_is_always_empty_is_named_instead_of_its_patterns(thalweg: Commands) -> None:
    (thalweg.folder / "empty.rq").write_text(
        f"SELECT * FROM STREAM <{STREAM}> [RANGE 10] {{ ?a <{EX}knows> ?b\nFILTER(?nowhere = ?a) }}"
    )
    done = thalweg.run("people.nt", query="empty.rq")
    assert done.code == 0
    [hint, summary] = done.lines
    assert hint.startswith("the answer is always empty: ?nowhere is bound by no pattern")
    assert hint.endswith("(line 2:1)")
    assert "unmatched" not in summary


@pytest.mark.parametrize(
    ("pattern", "fitted"),
    [
        (f"?x <{EX}knows> <{EX}dora>", True),
        (f"?x <{EX}knows> <{EX}ann>", False),
        (f"<{EX}ann> ?p ?y", True),
        (f"?x <{EX}knows> ?x", False),
        ("?x ?p ?y", True),
        (f'?x <{EX}knows> "ben"', False),
    ],
)
@pytest.mark.parametrize("window", ["[RANGE 10]", "[ELEMENTS 2]", "[NOW]"])
def test_a_pattern_is_fitted_by_a_triple_of_the_whole_run(
    thalweg: Commands, pattern: str, fitted: bool, window: str
) -> None:
    (thalweg.folder / "one.rq").write_text(f"SELECT * FROM STREAM <{STREAM}> {window} {{ {pattern} }}")
    done = thalweg.run("people.nt", query="one.rq")
    assert ("1 pattern unmatched" in done.lines[-1]) != fitted


def test_a_pattern_is_looked_for_in_its_own_stream(thalweg: Commands) -> None:
    (thalweg.folder / "two.rq").write_text(
        f"SELECT ?a FROM NAMED WINDOW <w> ON <{EX}s> [RANGE 1] FROM NAMED WINDOW <v> ON <{EX}t> [RANGE 1] "
        f"{{ WINDOW <w> {{ ?a <{EX}knows> ?b }} WINDOW <v> {{ ?b <{EX}likes> ?c }} }}"
    )
    (thalweg.folder / "likes.nt").write_text(PEOPLE[0].replace("knows", "likes"))
    given = ("run", "two.rq", "--stream")
    assert "unmatched" not in thalweg(*given, f"{EX}s=people.nt", "--stream", f"{EX}t=likes.nt").err
    done = thalweg(*given, f"{EX}s=likes.nt", "--stream", f"{EX}t=people.nt")
    assert done.lines[-1].endswith("2 patterns unmatched")


def test_a_triple_far_behind_is_found(thalweg: Commands) -> None:
    (thalweg.folder / "x.nt").write_text(f"{PEOPLE[0]}\n" * 5000 + f"<{EX}a> <{EX}likes> <{EX}b> .\n")
    text = f"SELECT * FROM STREAM <{STREAM}> [RANGE 1] {{ ?a <{EX}knows> ?b . ?c <{EX}likes> ?d }}"
    (thalweg.folder / "far.rq").write_text(text)
    assert "unmatched" not in thalweg.run("x.nt", query="far.rq").err
    assert Coverage([parse(text)], [STREAM], matched=[1]).unmatched == [0]


def test_a_run_without_events_does_not_speak_of_patterns(thalweg: Commands) -> None:
    (thalweg.folder / "x.nt").write_text("")
    assert "pattern" not in thalweg.run("x.nt").err


SELECT = f"SELECT ?a ?typo FROM STREAM <{STREAM}> [RANGE 10] {{ ?a <{EX}knows> ?b }}"
CONSTRUCT = SELECT.replace("SELECT ?a ?typo", f"CONSTRUCT {{ ?a <{EX}p> ?typo . ?a <{EX}q> [] }}")


@pytest.mark.parametrize(
    ("text", "doubt"),
    [
        (SELECT, "?typo is selected and no pattern binds it: no row has it"),
        (CONSTRUCT, "?typo is in the template and no pattern binds it: its triples are never made"),
    ],
)
def test_a_variable_that_nothing_binds_is_doubted(thalweg: Commands, text: str, doubt: str) -> None:
    (thalweg.folder / "typo.rq").write_text(text)
    done = thalweg.run("people.nt", query="typo.rq")
    assert (done.code, done.lines[:-1]) == (0, [doubt])
    assert f"doubt      {doubt}" in thalweg("explain", "typo.rq").out
    with pytest.warns(ThalwegWarning) as given:
        Session().register(text)
    assert [str(one.message) for one in given] == [f"query: {doubt}"]
    assert given[0].filename == __file__, "the warning points at the caller"


@pytest.mark.parametrize(
    "text",
    [
        FRIENDS,
        SELECT.replace(" ?typo", " ?b"),
        SELECT.replace("?typo", "?b").replace("?b }", f"?b FILTER(?b = <{EX}ben>) }}"),
        CONSTRUCT.replace("?typo", "?b"),
    ],
)
def test_a_sound_query_is_registered_without_a_word(text: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Session().register(text)


def test_a_pushed_stream_that_no_query_reads_is_warned_about_once() -> None:
    session = Session()
    session.register(FRIENDS)
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        for at in range(3):
            session.push(f"{EX}typo", at=at, graph=PEOPLE[0])
            session.push(STREAM, at=at, graph=PEOPLE[0])
    (one,) = given
    assert issubclass(one.category, ThalwegWarning)
    assert f"no query reads <{EX}typo>" in str(one.message)
    assert one.filename == __file__
    assert session.stats.unread == 3


def test_the_hint_about_blank_nodes_counts_those_of_this_run(thalweg: Commands) -> None:
    blank = f"<{EX}ann> <{EX}knows> _:b .\n_:b <{EX}knows> <{EX}cem> .\n"
    (thalweg.folder / "blank.nt").write_text(blank)
    (thalweg.folder / "quoted.nt").write_text(f'<{EX}ann> <{EX}knows> "_:e0123456789abcdef-b" .\n')
    (thalweg.folder / "unwanted.nt").write_text(PEOPLE[0] + f"\n_:b <{EX}likes> _:c .\n")
    assert "--blank-nodes stable" in thalweg.run("blank.nt").err
    assert "--blank-nodes stable" in thalweg.run("blank.nt", "--per-event", "2").err
    assert "--blank-nodes" not in thalweg.run("quoted.nt").err
    assert "--blank-nodes" not in thalweg.run("unwanted.nt").err


@pytest.mark.parametrize(("predicate", "unmatched"), [("knows", 0), ("konws", 1)])
def test_patterns_of_producers_are_judged_and_those_over_derived_streams_are_not(
    thalweg: Commands, predicate: str, unmatched: int
) -> None:
    (thalweg.folder / "make.rq").write_text(
        f"REGISTER ISTREAM <{EX}made> AS CONSTRUCT {{ ?b <{EX}known> ?a }} "
        f"FROM STREAM <{STREAM}> [RANGE 10] {{ ?a <{EX}{predicate}> ?b }}"
    )
    (thalweg.folder / "read.rq").write_text(
        f"SELECT ?b FROM STREAM <{EX}made> [RANGE 10] {{ ?b <{EX}known> ?a }}"
    )
    done = thalweg.run("people.nt", "--derive", "make.rq", query="read.rq")
    assert (done.code, bool(done.rows)) == (0, not unmatched)
    assert done.lines[-1].endswith("1 pattern unmatched" if unmatched else "0 late")
    for path in ("make.rq", "read.rq"):
        refused = thalweg.run("people.nt", "--derive", "make.rq", "--late", path, "--force", query="read.rq")
        assert (refused.code, len(refused.lines)) == (2, 1)
        assert "would overwrite the query" in refused.err
