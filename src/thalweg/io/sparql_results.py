"""The formats of SPARQL 1.1 for results of SELECT and ASK: JSON, XML, CSV and TSV."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from json.encoder import encode_basestring
from xml.sax.saxutils import escape, quoteattr

from thalweg.errors import ThalwegError
from thalweg.expressions.values import BLANK, IRI, parse
from thalweg.io.snapshots import Row, Snapshot
from thalweg.io.writers import csv_rows, tsv_rows

_NO_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
NAMESPACE = "http://www.w3.org/2005/sparql-results#"


class Terms:
    """Texts of terms made into something else, each one once, because bindings repeat."""

    def __init__(self, made: Callable[[str], str], most: int = 1 << 16) -> None:
        """At most so many are kept."""
        self._made, self._most = made, most
        self._known: dict[str, str] = {}

    def __call__(self, text: str) -> str:
        """What a text is made into."""
        found = self._known.get(text)
        if found is None:
            if len(self._known) >= self._most:
                self._known.clear()
            found = self._known[text] = self._made(text)
        return found


class SparqlJson(Snapshot):
    """SPARQL 1.1 Query Results JSON Format."""

    of = "select"

    def _begin(self) -> bytes:
        self._term = Terms(json_term)
        self._keys = [json.dumps(name, ensure_ascii=False) for name in self.names]
        if self.answer.ask:
            return b""
        head = json.dumps({"vars": self.names}, ensure_ascii=False)
        return f'{{"head": {head}, "results": {{"bindings": ['.encode()

    def _text(self, rows: Iterable[Row]) -> bytes:
        if self.answer.ask:
            return b""
        solutions = (
            ", ".join(f"{key}: {self._term(term)}" for key, term in zip(self._keys, row, strict=True) if term)
            for row in rows
        )
        return ((",\n" if self._any else "\n") + ",\n".join(f"{{{one}}}" for one in solutions)).encode()

    def _end(self) -> bytes:
        if self.answer.ask:
            return b'{"head": {}, "boolean": %s}\n' % (b"true" if self._any else b"false")
        return b"\n]}}\n"


class SparqlXml(Snapshot):
    """SPARQL Query Results XML Format."""

    of = "select"

    def _begin(self) -> bytes:
        self._term = Terms(xml_term)
        self._open = [f"<binding name={quoteattr(name)}>" for name in self.names]
        head = "".join(f"<variable name={quoteattr(name)}/>" for name in self.names)
        text = f'<?xml version="1.0" encoding="UTF-8"?>\n<sparql xmlns="{NAMESPACE}">\n<head>{head}</head>\n'
        return (text + ("" if self.answer.ask else "<results>\n")).encode()

    def _text(self, rows: Iterable[Row]) -> bytes:
        if self.answer.ask:
            return b""
        solutions = (
            "".join(
                f"{tag}{self._term(term)}</binding>"
                for tag, term in zip(self._open, row, strict=True)
                if term
            )
            for row in rows
        )
        return "".join(f"<result>{one}</result>\n" for one in solutions).encode()

    def _end(self) -> bytes:
        if self.answer.ask:
            return b"<boolean>%s</boolean>\n</sparql>\n" % (b"true" if self._any else b"false")
        return b"</results>\n</sparql>\n"


class SparqlCsv(Snapshot):
    """SPARQL 1.1 Query Results CSV Format: values only, so that a literal and an IRI may look alike."""

    of = "solutions"

    def _begin(self) -> bytes:
        self._term = Terms(plain)
        return csv_rows([self.names])

    def _text(self, rows: Iterable[Row]) -> bytes:
        return csv_rows([self._term(term) if term else "" for term in row] for row in rows)


class SparqlTsv(Snapshot):
    """SPARQL 1.1 Query Results TSV Format: terms as in Turtle."""

    of = "solutions"

    def _begin(self) -> bytes:
        return tsv_rows([[f"?{name}" for name in self.names]])

    def _text(self, rows: Iterable[Row]) -> bytes:
        return tsv_rows(rows)


def plain(text: str) -> str:
    """The bare value of a term."""
    return text if text[0] == "_" else parse(text).content


def json_term(text: str) -> str:
    """A term as SPARQL results in JSON have it.

    >>> json_term('"a"@en')
    '{"type": "literal", "value": "a", "xml:lang": "en"}'
    """
    if text[0] == "<":
        return f'{{"type": "uri", "value": {encode_basestring(text[1:-1])}}}'
    value = parse(text)
    kind = "bnode" if value.kind == BLANK else "literal"
    shown = f'{{"type": "{kind}", "value": {encode_basestring(value.content)}'
    if value.kind == BLANK:
        return shown + "}"
    if value.language:
        return f'{shown}, "xml:lang": {encode_basestring(value.language)}}}'
    if value.datatype:
        return f'{shown}, "datatype": {encode_basestring(value.datatype)}}}'
    return shown + "}"


def xml_term(text: str) -> str:
    """A term as SPARQL results in XML have it.

    >>> xml_term('"a"@en')
    '<literal xml:lang="en">a</literal>'
    """
    value = parse(text)
    if wrong := _NO_XML.search(value.content):
        raise ThalwegError(
            f"XML has no U+{ord(wrong[0]):04X}, and the term {text[:80]} has it: write .srj or .jsonl instead"
        )
    content = escape(value.content, {"\r": "&#13;"})
    if value.kind == IRI:
        return f"<uri>{content}</uri>"
    if value.kind == BLANK:
        return f"<bnode>{content}</bnode>"
    if value.language:
        return f"<literal xml:lang={quoteattr(value.language)}>{content}</literal>"
    datatype = f" datatype={quoteattr(value.datatype)}" if value.datatype else ""
    return f"<literal{datatype}>{content}</literal>"
