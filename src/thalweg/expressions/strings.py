"""Functions on strings, IRIs and language tags: SPARQL 1.1, sections 17.4.2 and 17.4.3."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from urllib.parse import quote

from thalweg.expressions import regexes
from thalweg.expressions.resolving import resolved
from thalweg.expressions.values import (
    INTEGER,
    IRI,
    LANG,
    LANG_STRING,
    LONGEST_STRING,
    STRING,
    XSD,
    ExpressionError,
    Value,
    boolean,
    integer,
    iri,
    literal,
    string,
)

_TAG = re.compile(r"[a-zA-Z]+(?:-[a-zA-Z0-9]+)*")
_ABSOLUTE = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:")
_LEGAL = re.compile(r'[^<>"{}|^`\\\x00-\x20]*')


def text_of(value: Value) -> str:
    """The characters of a string literal, with a language tag or without."""
    if value.kind not in (STRING, LANG):
        raise ExpressionError("not a string")
    return value.content


def simple(value: Value) -> str:
    """The characters of a string without a language tag."""
    if value.kind != STRING:
        raise ExpressionError("not a string without language tag")
    return value.content


def compatible(a: Value, b: Value) -> tuple[str, str]:
    """The characters of two strings that are argument compatible (17.4.3.1.2)."""
    x, y = text_of(a), text_of(b)
    if b.kind == LANG and a.language != b.language:
        raise ExpressionError("the language tags differ")
    return x, y


def str_(value: Value) -> Value:
    """`STR`."""
    if value.kind != IRI and not value.is_literal:
        raise ExpressionError("a blank node has no text")
    return string(value.content)


def lang(value: Value) -> Value:
    """`LANG`."""
    if not value.is_literal:
        raise ExpressionError("only a literal has a language")
    return string(value.language)


def datatype(value: Value) -> Value:
    """`DATATYPE`."""
    if not value.is_literal:
        raise ExpressionError("only a literal has a datatype")
    return iri(value.datatype or XSD + "string")


def iri_(value: Value, base: Value | None = None) -> Value:
    """`IRI`: an IRI stays, a string is resolved against the base of the query."""
    if value.kind == IRI:
        return value
    written = simple(value)
    if not _ABSOLUTE.match(written) and base is not None:
        written = resolved(base.content, written)
    if not _ABSOLUTE.match(written) or not _LEGAL.fullmatch(written):
        raise ExpressionError("not an absolute IRI")
    return iri(written)


def strdt(lexical: Value, datatype: Value) -> Value:
    """`STRDT`."""
    if datatype.kind != IRI or datatype.content == LANG_STRING:
        raise ExpressionError("a datatype is an IRI, and rdf:langString needs a tag")
    return literal(simple(lexical), datatype.content)


def strlang(lexical: Value, tag: Value) -> Value:
    """`STRLANG`; the tag is lower-cased, as readers do."""
    if not _TAG.fullmatch(simple(tag)):
        raise ExpressionError("not a language tag")
    return string(simple(lexical), tag.content.lower())


def strlen(value: Value) -> Value:
    """`STRLEN`."""
    return integer(len(text_of(value)))


def substr(value: Value, start: Value, length: Value | None = None) -> Value:
    """`SUBSTR`: positions count from 1; what lies outside of the text is left out.

    >>> substr(string("foobar"), integer(0), integer(3)).content
    'fo'
    """
    text = text_of(value)
    if start.kind != INTEGER or (length is not None and length.kind != INTEGER):
        raise ExpressionError("a position is an integer")
    first = start.value - 1
    last = len(text) if length is None else first + length.value
    return string(text[max(first, 0) : max(last, 0)], value.language)


def ucase(value: Value) -> Value:
    """`UCASE`."""
    return string(text_of(value).upper(), value.language)


def lcase(value: Value) -> Value:
    """`LCASE`."""
    return string(text_of(value).lower(), value.language)


def strstarts(a: Value, b: Value) -> Value:
    """`STRSTARTS`."""
    x, y = compatible(a, b)
    return boolean(x.startswith(y))


def strends(a: Value, b: Value) -> Value:
    """`STRENDS`."""
    x, y = compatible(a, b)
    return boolean(x.endswith(y))


def contains(a: Value, b: Value) -> Value:
    """`CONTAINS`."""
    x, y = compatible(a, b)
    return boolean(y in x)


def strbefore(a: Value, b: Value) -> Value:
    """`STRBEFORE`: without a match, a string without language tag."""
    x, y = compatible(a, b)
    at = x.find(y)
    return string(x[:at], a.language) if at >= 0 else string("")


def strafter(a: Value, b: Value) -> Value:
    """`STRAFTER`: without a match, a string without language tag."""
    x, y = compatible(a, b)
    at = x.find(y)
    return string(x[at + len(y) :], a.language) if at >= 0 else string("")


def encode_for_uri(value: Value) -> Value:
    """`ENCODE_FOR_URI`."""
    return string(quote(text_of(value), safe="-_.~"))


def concat(*values: Value) -> Value:
    """`CONCAT`: with the language tag that all arguments have."""
    texts = [text_of(value) for value in values]
    if sum(map(len, texts)) > LONGEST_STRING:
        raise ExpressionError(f"a string of more than {LONGEST_STRING} characters")
    joined = "".join(texts)
    languages = {value.language for value in values}
    return string(joined, languages.pop() if len(languages) == 1 else "")


def langmatches(tag: Value, range_: Value) -> Value:
    """`LANGMATCHES`: basic filtering of RFC 4647."""
    found, wanted = simple(tag).lower(), simple(range_).lower()
    if wanted == "*":
        return boolean(found != "")
    return boolean(found == wanted or (wanted != "" and found.startswith(f"{wanted}-")))


def regex(text: Value, pattern: Value, flags: Value | None = None) -> Value:
    """`REGEX`."""
    return boolean(regexes.matches(text_of(text), simple(pattern), simple(flags) if flags else ""))


def replace(text: Value, pattern: Value, replacement: Value, flags: Value | None = None) -> Value:
    """`REPLACE`."""
    given = simple(flags) if flags else ""
    return string(regexes.replaced(text_of(text), simple(pattern), simple(replacement), given), text.language)


def hashing(name: str) -> Callable[[Value], Value]:
    """The function of a hash: its hexadecimal digits, in lower case."""

    def apply(value: Value) -> Value:
        return string(hashlib.new(name, simple(value).encode(), usedforsecurity=False).hexdigest())

    return apply
