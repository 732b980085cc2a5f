"""Hints at syntax errors: the slips whose cause is plain."""

from __future__ import annotations

import re

from thalweg.hints import meant
from thalweg.lang import grammar
from thalweg.lang.clauses import Cursor, Token

_KEYWORDS = (
    *(
        "SELECT",
        "CONSTRUCT",
        "ASK",
        "DESCRIBE",
        "WHERE",
        "FROM",
        "NAMED",
        "STREAM",
        "WINDOW",
        "REGISTER",
        "PREFIX",
    ),
    *(
        "BASE",
        "OPTIONAL",
        "FILTER",
        "UNION",
        "MINUS",
        "BIND",
        "VALUES",
        "GRAPH",
        "DISTINCT",
        "REDUCED",
        "EXISTS",
    ),
    *(
        "NOT",
        "AS",
        "ON",
        "GROUP",
        "HAVING",
        "ORDER",
        "BY",
        "LIMIT",
        "OFFSET",
        "COUNT",
        "BOUND",
        "REGEX",
        "UNDEF",
    ),
    *("RANGE", "STEP", "TUMBLING", "ELEMENTS", "TRIPLES", "NOW", "RSTREAM", "ISTREAM", "DSTREAM", "CONTAINS"),
    *("STRSTARTS", "STRENDS", "COALESCE", "CONCAT", "LANGMATCHES", "DATATYPE", "UNDEF"),
)
_LONGEST = 100_000  # characters that are worth parsing again
_STARTS_TRIPLE = ("var", "iri", "pname", "label")
_JSON = re.compile(r"\s*[\[{]\s*[\"\]}{]")
_DIRECTIVE = re.compile(r"\s*@(?:prefix|base)\b", re.IGNORECASE)
_XML = re.compile(r"\s*<(?:\?xml|!DOCTYPE|rdf:RDF|html)\b", re.IGNORECASE)
_LINE = re.compile(
    r'\s*(?:#[^\r\n]*[\r\n]+\s*)*(?:<[^<>\s]*>|_:\S+)\s+(?:<[^<>\s]*>|a)\s+(?:<[^<>\s]*>|_:\S|")'
)


def data_in(text: str) -> str | None:
    """What a text is that holds data, and no query; None where that is not plain."""
    if _XML.match(text):
        return "XML or HTML"
    if _JSON.match(text):
        return "JSON"
    if _DIRECTIVE.match(text):
        return "Turtle or TriG"
    return "RDF data" if _LINE.match(text) else None


def hint_at(cursor: Cursor, found: Token, remaining: str) -> str:
    """What is probably wrong at a token that the grammar refuses, as the end of a sentence; empty if it is not plain.

    `remaining` is the text that the grammar was given.
    """
    place = cursor.tokens.index(found)
    before = cursor.tokens[place - 1] if place else None
    slip = _slip(cursor, place, found, before)
    if slip is not None:
        return f"; {slip}"
    for token in (found, before):
        near = _keyword(token)
        if near is not None:
            return f"; did you mean {near}?"
    if found.depth and found.kind in _STARTS_TRIPLE and _goes_on(remaining, found):
        return "; is a dot missing before it? Triples are separated by ' .'"
    return ""


def _slip(cursor: Cursor, place: int, found: Token, before: Token | None) -> str | None:
    if before is None:
        return None
    two_before = cursor.tokens[place - 2] if place > 1 else None
    if found.text == "=" and before.text == "=":
        return "equality is one ="
    if found.matches("AND", "OR"):
        return f"write {'&&' if found.matches('AND') else '||'} for {found.text}"
    if (found.matches("=") and before.text == "!") or (found.text == ">" and before.text == "<"):
        return "inequality is !="
    if two_before is not None and two_before.matches("PREFIX") and before.kind == "word":
        return f"a prefix ends with a colon: PREFIX {before.text}: <...>"
    if found.text == "/" and before.kind == "pname" and before.text.lower() in ("http:", "https:"):
        return f"an IRI is written in angle brackets: <{before.text}//...>"
    if found.matches("RANGE", "ELEMENTS", "TRIPLES", "NOW") and before.kind in ("iri", "pname"):
        return f"a window is written in brackets: [{found.text} ...]"
    if found.text == "[" and before.kind in ("iri", "pname") and two_before is not None:
        return "a window belongs to FROM STREAM <...> or FROM NAMED WINDOW <...> ON <...>"
    return _in_select(cursor, place, found, before)


def _in_select(cursor: Cursor, place: int, found: Token, before: Token) -> str | None:
    """A slip in the list of variables behind SELECT."""
    start = next((k for k in range(place, -1, -1) if cursor.tokens[k].matches("SELECT")), None)
    if start is None or any(token.matches("{", "FROM", "WHERE") for token in cursor.tokens[start:place]):
        return None
    if found.text == ",":
        return "variables are separated by spaces"
    if found.kind == "word" and _keyword(found) is None and before.kind in ("word", "var"):
        return f"a variable begins with a question mark: ?{found.text}"
    return None


def _keyword(token: Token | None) -> str | None:
    """The keyword that a word is probably meant to be."""
    if token is None or token.kind not in ("word", "pname") or token.text.upper() in _KEYWORDS:
        return None
    return meant(token.text, _KEYWORDS) if len(token.text) > 2 and ":" not in token.text else None


def _goes_on(text: str, found: Token) -> bool:
    """Whether the text is read beyond a token if a dot stands before it."""
    if len(text) > _LONGEST:
        return False
    mended = f"{text[: found.at]} . {text[found.at :]}"
    try:
        grammar.parse(mended)
    except grammar.GrammarError as failure:
        return failure.at > found.end + 3
    return True
