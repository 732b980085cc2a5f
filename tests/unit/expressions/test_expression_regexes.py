"""Regular expressions of XPath: its syntax, its flags, and bounded time."""

from __future__ import annotations

import contextlib
import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thalweg.expressions import regexes
from thalweg.expressions.regexes import UnsupportedPatternError, matches, replaced
from thalweg.expressions.values import ExpressionError

FOUND = [
    (r"^a.c$", "", "abc"),
    (r"a.c", "s", "a\nc"),
    (r"^b$", "m", "a\nb\nc"),
    (r"A", "i", "a"),
    (r"É", "i", "é"),
    (r"a b [ ]c", "x", "ab c"),
    (r"\d+", "", "٣"),
    (r"^\w$", "", "é"),
    (r"^\W$", "", "-"),
    (r"^\s$", "", "\t"),
    (r"^\S$", "", "\u00a0"),
    (r"^\i\c*$", "", "x:y-1"),
    (r"^\I$", "", "1"),
    (r"^\C$", "", " "),
    (r"^\p{Lu}\P{Lu}$", "", "Äa"),
    (r"^[\p{L}-[aeiou]]+$", "", "xyz"),
    (r"^[a-z-[aeiou]]$", "", "b"),
    (r"^[^a-z-[A]]$", "", "B"),
    (r"^[\s\S]$", "", "\n"),
    (r"^[\W_]$", "", "_"),
    (r"^[a\-z]$", "", "-"),
    (r"^[-a]$", "", "-"),
    (r"^[a-]$", "", "-"),
    (r"^[.*+?|(){}$]$", "", "$"),
    (r"^\.\*\[\]\^\$$", "", ".*[]^$"),
    (r"^a{2,3}?$", "", "aaa"),
    (r"^(?:a|b)(c)?$", "", "b"),
    (r"", "", ""),
    (r"^[\d-[5]]$", "", "4"),
    (r"^[a-d-[b-c]]$", "", "d"),
]
MISSED = [
    (r"a.c", "", "a\nc"),
    (r"^b$", "", "a\nb\nc"),
    (r"a b", "", "ab"),
    (r"^\s$", "", "\u00a0"),
    (r"^[a-z-[aeiou]]$", "", "e"),
    (r"^[\d-[5]]$", "", "5"),
    (r"^\w$", "", "."),
    (r"a$", "", "a\n"),
    (r"^[^a-z-[A]]$", "", "A"),
]


@pytest.mark.parametrize(("pattern", "flags", "text"), FOUND)
def test_a_pattern_is_found(pattern: str, flags: str, text: str) -> None:
    assert matches(text, pattern, flags)


@pytest.mark.parametrize(("pattern", "flags", "text"), MISSED)
def test_a_pattern_is_not_found(pattern: str, flags: str, text: str) -> None:
    assert not matches(text, pattern, flags)


@pytest.mark.parametrize(
    "pattern",
    ["(", ")", "a)", "*", "a**", "a{", "a{2,1}", "[", "[]", "[a", "[b-a]", "]", "}", "\\", r"\q", r"\x41", r"\b"]
    + ["(?=a)", "(?i)a", r"\p{Xx}", r"[a-\d]", "[[a]]", "[a-[b]c]", "a|*", "^*", r"\Qa\E", "[a-[b"],
)  # fmt: skip
def test_an_invalid_pattern_is_an_error(pattern: str) -> None:
    with pytest.raises(ExpressionError) as refused:
        matches("a", pattern)
    assert not isinstance(refused.value, UnsupportedPatternError)


@pytest.mark.parametrize(
    "pattern", [r"(a)\1", r"\p{IsGreek}", "a{1001}", "((a{100}){100}){100}", "a" * 10_001]
)
def test_what_is_valid_and_not_supported_is_named(pattern: str) -> None:
    with pytest.raises(UnsupportedPatternError):
        matches("a", pattern)


@pytest.mark.parametrize("flags", ["q", "z", "I", "i "])
def test_an_unknown_flag_is_an_error(flags: str) -> None:
    with pytest.raises(ExpressionError, match="flags"):
        matches("a", "a", flags)


@pytest.mark.parametrize(
    ("text", "pattern", "replacement", "expected"),
    # XPath and XQuery functions, 7.6.3
    [
        ("abracadabra", "bra", "*", "a*cada*"),
        ("abracadabra", "a.*a", "*", "*"),
        ("abracadabra", "a.*?a", "*", "*c*bra"),
        ("abracadabra", "a", "", "brcdbr"),
        ("abracadabra", "a(.)", "a$1$1", "abbraccaddabbra"),
        ("AAAA", "A+?", "b", "bbbb"),
        ("AAAA", "A+", "b", "b"),
        ("darted", "^(.*?)d(.*)$", "$1c$2", "carted"),
        ("abc", "b", r"\$\\", r"a$\c"),
        ("abc", "(b)", "$12", "ab2c"),
        ("abc", "b", "$1", "ac"),
        ("abc", "(b)|(c)", "[$1$2]", "a[b][c]"),
        ("éa😀a", "a", "X", "éX😀X"),
    ],
)
def test_replacements_follow_xpath(text: str, pattern: str, replacement: str, expected: str) -> None:
    assert replaced(text, pattern, replacement) == expected


@pytest.mark.parametrize("replacement", ["$", "$x", "\\", r"\n", "a$"])
def test_a_malformed_replacement_is_an_error(replacement: str) -> None:
    with pytest.raises(ExpressionError):
        replaced("abc", "b", replacement)


def test_a_pattern_that_matches_nothing_at_all_cannot_be_replaced() -> None:
    for pattern in ("", "b*", "^", "a|"):
        with pytest.raises(ExpressionError, match="empty"):
            replaced("abc", pattern, "x")


@pytest.mark.parametrize(
    "pattern", ["(a*)*b", "(a|aa)+$b", "(a|a)*b", "a.*a.*a.*a.*a.*b", "(.{0,30}){0,30}x"]
)
def test_patterns_that_backtrack_for_ever_elsewhere_end_soon(pattern: str) -> None:
    begin = time.monotonic()
    for size in (1_000, 100_000, 1_000_000):
        with contextlib.suppress(ExpressionError):  # too large a pattern for so long a text
            assert not matches("a" * size, pattern)
    assert time.monotonic() - begin < 20


def test_a_replacement_that_looks_at_the_rest_again_and_again_ends_soon() -> None:
    begin = time.monotonic()
    with pytest.raises(ExpressionError, match="too many matches"):
        replaced("a" * 1_000_000, "a(.*b)?", "x")
    assert time.monotonic() - begin < 30
    assert replaced("a" * 10_000, "a", "b") == "b" * 10_000


literals = st.text(alphabet="abc01 \n\u00e9", min_size=1, max_size=3).map(re.escape)


@given(
    st.recursive(
        st.one_of(literals, st.sampled_from([".", "[ab]", "[^a]", "[a-c]", "a?", "(?:b)"])),
        lambda inner: st.one_of(
            st.tuples(inner, inner).map("".join),
            st.tuples(inner, inner).map(lambda pair: f"(?:{pair[0]}|{pair[1]})"),
            st.tuples(inner, st.sampled_from(["*", "+", "?", "{1,2}", "*?"])).map(
                lambda pair: f"(?:{pair[0]}){pair[1]}"
            ),
        ),
        max_leaves=6,
    ),
    st.text(alphabet="abc01 \n\u00e9", max_size=8),
)
def test_patterns_of_both_languages_are_found_where_python_finds_them(pattern: str, text: str) -> None:
    # What Python escapes beyond XPath: a space, a newline.
    pattern = pattern.replace("\\ ", " ").replace("\\\n", "\n")
    assert matches(text, pattern) == (re.search(pattern, text) is not None)


def test_a_compiled_pattern_is_kept() -> None:
    assert regexes.compiled("a+b", "i") is regexes.compiled("a+b", "i")
