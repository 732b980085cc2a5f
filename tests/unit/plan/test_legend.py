"""What makes `explain` easier to read: prefixed names, a key to its words, and warnings at cross products."""

from __future__ import annotations

import pytest

import thalweg as tw
from thalweg.plan.legend import shortened

HEAD = "PREFIX ex: <http://ex/> PREFIX deep: <http://ex/deep/> SELECT * FROM STREAM ex:s [RANGE 10s] "
CROSS = "no variable in common"


@pytest.mark.parametrize(
    ("line", "short"),
    [
        ("<http://ex/a>", "ex:a"),
        ("<http://ex/deep/a>", "deep:a"),
        ("<http://ex/a/b>", "<http://ex/a/b>"),
        ("<http://ex/a.>", "<http://ex/a.>"),
        ("<http://ex/>", "ex:"),
        ("<http://other/a>", "<http://other/a>"),
        ('"<http://ex/a>" "\\"<http://ex/a>"@en', '"<http://ex/a>" "\\"<http://ex/a>"@en'),
        ('"x"^^<http://ex/t>', '"x"^^ex:t'),
        ("?a < 5 && ?b > 7", "?a < 5 && ?b > 7"),
        ("?x <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> <http://ex/C>", "?x a ex:C"),
    ],
)
def test_iris_are_written_with_the_longest_prefix_that_fits(line: str, short: str) -> None:
    assert shortened(line, {"ex": "http://ex/", "deep": "http://ex/deep/"}) == short


def test_a_page_has_the_querys_prefixes_and_a_key_to_the_words_that_it_uses() -> None:
    page = tw.explain(HEAD + "{ ?a deep:p ?b # PREFIX no: <http://ex/deep/>\n }")
    assert "?a deep:p ?b" in page
    assert "ex:s [RANGE 10s]" in page
    body, key = page.split("\n\nkey\n")
    assert {line.split()[0] for line in key.splitlines()} == {"source", "pattern", "delta", "output"}
    assert "co-group" not in body


@pytest.mark.parametrize(
    ("where", "warned"),
    [
        ("{ ?a ex:p ?b . ?c ex:q ?d }", True),
        ("{ ?a ex:p ?b . ?b ex:q ?d }", False),
        ("{ ?a ex:p ?b . ex:x ex:y ex:z }", False),
        ("{ ?a ex:p ?b OPTIONAL { ?c ex:q ?d } }", True),
        ("{ ?a ex:p ?b OPTIONAL { ?a ex:q ?d } }", False),
        ("{ ?a ex:p ?b FILTER NOT EXISTS { ?a ex:q ?d } }", False),
        ("{ { SELECT DISTINCT ?a { ?a ex:p ?b } } { SELECT DISTINCT ?c { ?c ex:q ?d } } }", True),
        ("{ { SELECT DISTINCT ?a { ?a ex:p ?b } } { SELECT DISTINCT ?a { ?a ex:q ?d } } }", False),
    ],
)
def test_parts_without_a_common_variable_are_warned_of(where: str, warned: bool) -> None:
    page = tw.explain(HEAD + where)
    assert (CROSS in page) == warned, page
