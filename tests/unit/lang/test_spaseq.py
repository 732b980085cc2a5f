"""SPAseq texts: both layouts of the thesis, and what is refused, with place and hint."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thalweg.errors import QueryError, UnsupportedError
from thalweg.lang import parse

ATOMS = """
  DEFINE GPM A ON S1 { ?x <http://ex/p> ?a }
  DEFINE GPM B ON S1 { ?x <http://ex/q> ?b }
  DEFINE GPM C ON S2 { ?x <http://ex/r> ?c }
"""


def text(
    sequence: str = "A ; B",
    *,
    form: str = "SELECT ?x",
    clauses: str = "WITHIN 10 SECONDS",
    atoms: str = ATOMS,
) -> str:
    return f"""{form}
{clauses}
FROM STREAM S1 <http://ex/s1>
FROM STREAM S2 <http://ex/s2>
WHERE {{ SEQ ({sequence})
{atoms}
}}"""


def sequence_of(query: str) -> str:
    found = parse(query).sequence
    assert found is not None
    return str(found.pattern)


def refusal(query: str, kind: type[QueryError] = QueryError) -> str:
    with pytest.raises(kind) as error:
        parse(query)
    assert error.value.line is not None
    assert error.value.column is not None
    return str(error.value)


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("A ; B", "A ; B"),
        ("A,B;C", "A , B ; C"),
        ("A; B+, C", "A ; B+ , C"),
        ("A , B! , C", "A , B! , C"),
        ("A? ; B", "A? ; B"),
        ("(A <> B) , C", "(A <> B) , C"),
        ("(A<>B<>C)", "(A <> B <> C)"),
        ("(A | B)+ ; C", "(A | B)+ ; C"),
        ("A | B ; C", "(A | B ; C)"),
        ("(A ; B)? , C", "(A ; B)? , C"),
        ("A{2,4} ; B{3} ; C{2,}", "A{2,4} ; B{3,3} ; C{2,}"),
        ("A{0,2} ; B", "A{1,2}? ; B"),
        ("A ; (B | C)!", "A ; (B | C)!"),
        ("A ; B! ; C! ; A", "A ; B! ; C! ; A"),
    ],
)
def test_sequences_are_read(written: str, read: str) -> None:
    assert sequence_of(text(written)) == read


def test_the_layout_of_chapter_8_has_seq_inside_the_braces() -> None:
    query = parse(text("A; B+, C"))
    assert query.language == "SPAseq"
    assert query.streams == ("http://ex/s1", "http://ex/s2")
    assert query.sequence is not None
    assert query.sequence.within == 10_000_000


def test_the_layout_of_appendix_a_5_has_seq_before_the_braces() -> None:
    """Query A.16, as it is printed: lower-case prefixes, a dot behind a FILTER, variables that nothing binds."""
    query = parse("""
prefix c: <http://example/company#>
prefix pred: <http://example/>
SELECT ?company ?p1 ?p2 ?p3 ?v1 ?v2 ?v3
WITHIN 10 SECONDS
FROM STREAM S1 <http://example.org/main>
WHERE
SEQ (A, B, C)
{
  DEFINE GPM A ON S1

  {
    ?company pred:price ?p1.
    ?company pred:volume ?vol1.
  }
  DEFINE GPM B ON S1
  {
    ?company pred:price ?p2.
    ?company pred:volume ?vol2.
    Filter (?p2 < ?p1 )
  }
  DEFINE GPM C ON S1
  {
    ?company pred:price ?p3.
    ?company pred:volume ?vol3.
    Filter (?p3 > ?p2 && ?p3 > ?p1).
  }
}""")
    assert query.sequence is not None
    assert str(query.sequence.pattern) == "A , B , C"
    conditions = [str(one.expression) for atom in query.sequence.atoms for one in atom.conditions]
    assert conditions == ["?p2 < ?p1", "?p3 > ?p2", "?p3 > ?p1"]
    assert len(query.doubts) == 3


def test_construct_names_its_stream_with_or_without_a_short_name() -> None:
    template = "{ ?x <http://ex/made> ?a . }"
    for form in (f"CONSTRUCT S3 <http://ex/out> {template}", f"CONSTRUCT <http://ex/out> {template}"):
        query = parse(text(form=form))
        assert query.output == "http://ex/out"
        assert query.template is not None
    assert parse(text(form=f"CONSTRUCT {template}")).output is None


@pytest.mark.parametrize(
    ("written", "length"),
    [("30 MINUTES", 1800), ("1 hour", 3600), ("PT10S", 10), ("2000", 2), ("2 Days", 172_800)],
)
def test_within_takes_durations_and_units(written: str, length: int) -> None:
    found = parse(text(clauses=f"WITHIN {written}")).sequence
    assert found is not None
    assert found.within == length * 1_000_000


def test_keywords_in_names_strings_and_comments_are_no_keywords() -> None:
    atoms = """
  DEFINE GPM A ON S1 { ?x <http://ex/SEQ(A)> "WITHIN 3 SECONDS } SEQ (" . # DEFINE GPM Z ON S9 {
                       ?x <http://ex/FROM> ?a FILTER(?a != "COUNT(?a) PREV(?a)") }
  DEFINE GPM B ON S1 { ?x <http://ex/q> ?SEQ }
"""
    query = parse(text("A ; B", atoms=atoms))
    assert query.sequence is not None
    assert [atom.name for atom in query.sequence.atoms] == ["A", "B"]
    assert [len(atom.query.patterns) for atom in query.sequence.atoms] == [2, 1]
    assert not any(atom.conditions for atom in query.sequence.atoms)


def test_conditions_of_own_variables_go_into_the_pattern_and_the_others_to_the_join() -> None:
    atoms = ATOMS.replace("?b }", "?b FILTER(?b > 1 && ?b < ?a) FILTER(STRLEN(STR(?x)) > 2) }")
    found = parse(text(atoms=atoms)).sequence
    assert found is not None
    assert [str(one.expression) for one in found.atoms[1].conditions] == ["?b < ?a"]


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        (text(clauses=""), "needs WITHIN"),
        (text(clauses="WITHIN 0 SECONDS"), "longer than nothing"),
        (text(clauses="WITHIN soon"), "not a duration"),
        (text(clauses="WITHIN 1s WITHIN 2s"), "WITHIN stands once"),
        (text("A ; D"), "no DEFINE GPM D"),
        (text("A B"), "between atoms stands ; or ,"),
        (text("A ; "), "expected the name of an atom"),
        (text("A ; B <> C"), "put parentheses around the operands of <>"),
        (text("(A+ <> B)"), "operands of <> are atoms"),
        (text("(A ; B)+"), "a repetition takes an atom"),
        (text("A?+"), "a repetition takes an atom"),
        (text("(A <> B)!; C"), "! takes an atom"),
        (text("(A | B!) ; C"), "! cannot stand inside |"),
        (text("A!"), "not negated"),
        (text("A ; B! , C! ; A"), "neighbouring negations"),
        (text("A , B! ; C? ; C! ; A"), "neighbouring negations"),
        (text("A{3,2}"), "fewer times at most"),
        (text("A{0}"), "{0} is no repetition"),
        (text("A{1000000}"), "at most 1,000 iterations"),
        (text(";".join(["A?"] * 20)), "alternatives"),
        (text("(" * 60 + "A" + ")" * 60), "nested at most"),
        (text(atoms=ATOMS + "DEFINE GPM A ON S1 { ?x ?y ?z }"), "defined twice"),
        (text(atoms=ATOMS.replace("ON S2", "ON S3")), "declares the stream S3"),
        (text("A; B; C", atoms=ATOMS.replace("?b }", "?b FILTER(?c > 1) }")), "no atom before it binds"),
        (text(atoms=ATOMS.replace("?b }", "?b FILTER(?zz > 1) }")), "which no atom binds"),
        (text(atoms=ATOMS.replace("?b }", "?b FILTER(PREV(?b) > 1) }")), "B is not repeated"),
        (text("A ; B+", atoms=ATOMS.replace("?a }", "?a FILTER(COUNT(?b) > 1) }")), "a repetition before it"),
        (text(form="SELECT (COUNT(?a) AS ?n)"), "iterations of a repetition"),
        (text("A+", form="SELECT (COUNT(*) AS ?n)"), "takes one variable"),
        (text("A+", form="SELECT (?a + 1 AS ?x)"), "has a value already"),
        (text("A+", form="SELECT COUNT(?a)"), "needs a name in SELECT"),
        (text(atoms=ATOMS.replace("?x <http://ex/p> ?a", "")), "needs a triple"),
        (text(atoms=ATOMS.replace("?x <http://ex/p> ?a", "OPTIONAL { ?x ?y ?z }")), "needs a triple"),
        (text(atoms=ATOMS.replace("?x <http://ex/p> ?a", "SERVICE <http://ex/> { ?x ?y ?a }")), "SERVICE"),
        (text(atoms=ATOMS.replace("?x <http://ex/p> ?a", "GRAPH <http://ex/g> { ?x ?y ?a }")), "needs a triple"),
        (text(atoms=ATOMS.replace("?x <http://ex/p> ?a", "?x <http://ex/p> ; ; ?a")), "syntax error"),
        (text(atoms=ATOMS.replace("<http://ex/p>", "ex:p")), "unknown prefix 'ex:'"),
        (text(clauses="WITHIN 1s PARTITION BY ?a"), "the pattern of the atom B does not use it"),
        (text(clauses="WITHIN 1s PARTITION BY x"), "takes one variable"),
        (text(clauses="WITHIN 1s AFTER MATCH SKIP TO FIRST C"), "C, which is no atom of SEQ that has events"),
        (text("A ; B!", clauses="WITHIN 1s AFTER MATCH SKIP TO LAST B"), "B, which is no atom of SEQ"),
        (text(clauses="WITHIN 1s AFTER MATCH SKIP TO FIRST <x>"), "takes the name of an atom"),
        (text(clauses="WITHIN 1s AFTER MATCH SKIP FIRST A"), "expected NO or PAST or TO"),
        (text(clauses="WITHIN 1s CONSUME OLDEST"), "expected RECENT or CHRONOLOGICAL"),
        (text(clauses="WITHIN 1s AFTER MATCH SKIP TO NEXT CONSUME RECENT"), "choose one"),
        (text("A ; B!", clauses="WITHIN 1s CONSUME RECENT"), "ends in a negation"),
        (text(clauses="WITHIN 1s WITH RETRACTION"), "expected RETRACTIONS or TIMED"),
        (text(clauses="WITHIN 1s WITH TIMED OUT AS late"), "takes a new variable"),
        (text("A OVERLAPS B"), "OVERLAPS never holds here: a part that is one event has no duration"),
        (text("(A , B) DURING C"), "the parts of DURING are made of atoms"),
        (text("(A ; B) MET BY C+"), "the parts of MET BY are made of atoms"),
        (text("A ; B BEFORE C"), "put parentheses around both parts"),
        (text("A BEFORE B ; C"), "put parentheses around the two parts"),
        (
            text("A DURING (B ; C ; C)", atoms=ATOMS.replace("?c }", "?c FILTER(?c > ?a) }")),
            "the FILTER of C uses ?a, which is bound later in B ; C ; A ; C",
        ),
        (text("(A;A;A;A;A;A) DURING (B;B;B;B;B;B)"), "DURING has more than 1,000 orders of events"),
        (text(clauses="WITHIN 1s WITH TIMED OUT AS ?a"), "?a has a value already"),
        (text(form="SELECT ?late", clauses="WITHIN 1s WITH TIMED OUT AS ?late"), "a column by itself"),
        (text(clauses="WITHIN 1s WITH TIMED OUT AS ?l WITH TIMED OUT AS ?m"), "stands once"),
        (text(clauses="WITHIN 1s WITH TIMED OUT AS ?l CONSUME RECENT"), "without AFTER MATCH SKIP"),
        (text(clauses="WITHIN 1s WITH RETRACTIONS WITH RETRACTIONS"), "stands once"),
        (text(clauses="WITHIN 1s WITH RETRACTIONS CONSUME RECENT"), "WITH RETRACTIONS beside"),
        (text(form="CONSTRUCT { ?x ?x ?x }", clauses="WITHIN 1s WITH RETRACTIONS"), "is for SELECT"),
        (text(form="CONSTRUCT <http://ex/s1> { ?x ?x ?x }"), "derived from itself"),
        (text(form="CONSTRUCT S9 { ?x ?x ?x }"), "needs the IRI of its stream"),
        (text(form="ASK"), "begins with SELECT or CONSTRUCT"),
        (text(form="REGISTER STREAM <http://ex/o> AS SELECT ?x"), "names its stream itself"),
        (text() + " LIMIT 3", "cannot stand behind a sequence"),
        (text().replace("S1 <http://ex/s1>", "<http://ex/s1>"), "has a short name"),
        (text().replace("<http://ex/s1>", "<http://ex/s1> [RANGE 1s]"), "one window for all streams"),
        (text().replace("<http://ex/s2>", "<http://ex/s1>"), "declared twice"),
        (text().replace("SEQ (A ; B)", ""), "SEQ"),
    ],
)  # fmt: skip
def test_what_no_sequence_can_be_is_refused_with_its_place(query: str, reason: str) -> None:
    assert reason in refusal(query)


def test_a_refusal_points_at_the_token() -> None:
    with pytest.raises(UnsupportedError) as error:
        parse(text("A ; (A ; B)+"))
    assert (error.value.line, error.value.column) == (5, 25)


@given(
    st.lists(
        st.sampled_from(["A", "B", "(", ")", ";", ",", "?", "+", "!", "<>", "|", "{", "}", "2", "?x", '"']),
        max_size=14,
    )
)
def test_any_tokens_are_a_sequence_or_refused(tokens: list[str]) -> None:
    query = text(" ".join(tokens))
    try:
        found = parse(query)
    except QueryError as error:
        assert error.line is not None  # noqa: PT017
    else:
        again = text(str(found.sequence.pattern) if found.sequence else "")
        assert sequence_of(again) == sequence_of(query)


@pytest.mark.parametrize("cut", range(0, 260, 7))
def test_a_truncated_text_is_refused(cut: int) -> None:
    whole = text("A ; B+ , C")
    with pytest.raises(QueryError):
        parse(whole[: cut % len(whole)], stream="http://ex/s")


def test_relations_of_parts_are_the_orders_that_fulfil_them() -> None:
    assert sequence_of(text("(A ; B) OVERLAPS (C ; B)")) == "(A ; C ; B ; B)"
    assert sequence_of(text("(A ; B) met by C ; A".replace("C ; A", "(C ; A)"))) == "(C ; (A <> A) ; B)"
    assert sequence_of(text("((A ; B) STARTED BY C) ; A")) == "((A <> C) ; B) ; A"
