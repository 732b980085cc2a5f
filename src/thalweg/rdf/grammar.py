r"""The complete path: one line of N-Triples or N-Quads by the whole grammar, to canonical text or a reason.

What RDF 1.1 N-Triples allows, with two restrictions that its test suite makes: IRIs are absolute, and a blank
node label has no colon. Canonical text has one space between terms, ` .` at the end, `\u` only for control
characters.
"""

from __future__ import annotations

import re
from collections.abc import Callable

_ESCAPED = r"\\u[0-9A-Fa-f]{4}|\\U[0-9A-Fa-f]{8}"
# Possessive and unrolled: a line of 100 MB needs no stack.
_IRI = re.compile(rf'<([^\x00-\x20<>"{{}}|^`\\]*+(?:(?:{_ESCAPED})[^\x00-\x20<>"{{}}|^`\\]*+)*+)>')
_STRING = re.compile(rf'"([^"\\\n\r]*+(?:(?:\\[tbnrf"\'\\]|{_ESCAPED})[^"\\\n\r]*+)*+)"')
_TAG = re.compile(r"@([a-zA-Z]+(?:-[a-zA-Z0-9]+)*)")
_BLANKS = re.compile(r"[ \t]*")
_BASE = (
    "A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u02ff\u0370-\u037d\u037f-\u1fff\u200c-\u200d"
    "\u2070-\u218f\u2c00-\u2fef\u3001-\ud7ff\uf900-\ufdcf\ufdf0-\ufffd\U00010000-\U000effff"
)
_MORE = f"{_BASE}_0-9\\-\u00b7\u0300-\u036f\u203f-\u2040"
_LABEL = re.compile(f"_:[{_BASE}_0-9](?:[{_MORE}.]*[{_MORE}])?(?![{_MORE}:])")

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:")
_FORBIDDEN = re.compile(r'[\x00-\x20<>"{}|^`\\]')
_UNESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))", re.DOTALL)
_TO_ESCAPE = re.compile(r'[\x00-\x1f"\\\x7f]')
_NAMED = {"t": "\t", "b": "\b", "n": "\n", "r": "\r", "f": "\f", '"': '"', "'": "'", "\\": "\\"}
_ESCAPES = {chr(code): f"\\u{code:04X}" for code in (*range(0x20), 0x7F)} | {
    char: f"\\{name}" for name, char in _NAMED.items() if name != "'"
}

_STRING_TYPE = "http://www.w3.org/2001/XMLSchema#string"
_LANG_STRING_TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#langString"

Scoped = Callable[[str], str]


class Malformed(Exception):  # noqa: N818 - it is a finding about data, raised and caught within the reader
    """Why a line is no statement, and the column (from 1) where that shows."""

    def __init__(self, column: int, reason: str) -> None:
        super().__init__(reason)
        self.column = column
        self.reason = reason


def statement(line: bytes, *, quads: bool, scoped: Scoped | None = None) -> bytes:
    r"""Canonical text of the statement on a line (without its end), or Malformed.

    `scoped` gives a blank node's canonical text from its label.

    >>> statement(rb'<http://a\u002fb><http://p>  "\u0041\u0009"@EN.# so', quads=False)
    b'<http://a/b> <http://p> "A\\t"@en .\n'
    """
    broken: Malformed | None = None
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as error:
        # A comment may hold any bytes: what counts is whether the statement ends before them.
        text = line.decode("utf-8", "surrogateescape")
        column = len(line[: error.start].decode("utf-8")) + 1
        broken = Malformed(column, f"not UTF-8: byte 0x{line[error.start]:02X}")
    cursor = _Cursor(text, scoped)
    try:
        terms = [cursor.subject(), cursor.predicate(), cursor.object()]
        if quads:
            terms += cursor.graph()
        cursor.finish(quads)
    except Malformed as fault:
        raise fault if broken is None or fault.column < broken.column else broken from None
    if broken is not None and broken.column <= cursor.at:
        raise broken
    return f"{' '.join(terms)} .\n".encode()


class _Cursor:
    """A place in a line; each method reads one production and moves on."""

    def __init__(self, text: str, scoped: Scoped | None) -> None:
        self.text = text
        self.at = 0
        self.scoped = scoped

    def _skip(self) -> str:
        self.at = _BLANKS.match(self.text, self.at).end()  # type: ignore[union-attr]
        return self.text[self.at : self.at + 1]

    def _fail(self, reason: str, at: int | None = None) -> Malformed:
        return Malformed((self.at if at is None else at) + 1, reason)

    def _found(self) -> str:
        found = self.text[self.at : self.at + 1]
        return f"found {found!r}" if found else "the line ends here"

    def subject(self) -> str:
        first = self._skip()
        if first == "<":
            return self._iri()
        if first == "_":
            return self._blank_node()
        raise self._fail(f"expected a subject, an IRI in <> or a blank node; {self._found()}")

    def predicate(self) -> str:
        if self._skip() == "<":
            return self._iri()
        raise self._fail(f"expected a predicate, an IRI in <>; {self._found()}")

    def object(self) -> str:
        first = self._skip()
        if first == "<":
            return self._iri()
        if first == '"':
            return self._literal()
        if first == "_":
            return self._blank_node()
        raise self._fail(f"expected an object, an IRI, a blank node or a literal; {self._found()}")

    def graph(self) -> list[str]:
        first = self._skip()
        if first == "<":
            return [self._iri()]
        if first == "_":
            return [self._label()]
        return []

    def finish(self, quads: bool) -> None:
        if self._skip() != ".":
            expected = "a graph name or '.'" if quads else "'.'"
            raise self._fail(f"expected {expected} after the object; {self._found()}")
        self.at += 1
        if self._skip() not in ("", "#"):
            raise self._fail(f"only one statement fits a line; {self._found()}")

    def _iri(self) -> str:
        start = self.at
        match = _IRI.match(self.text, start)
        if match is None:
            if self.text.startswith("<<", start):
                raise self._fail("a triple term of RDF 1.2 (<<( )>>), which is not supported", start)
            raise self._broken_iri(start)
        self.at = match.end()
        iri = match[1]
        if "\\" in iri:
            iri = _UNESCAPE.sub(lambda one: self._char(one, start), iri)
            bad = _FORBIDDEN.search(iri)
            if bad:
                raise self._fail(f"an escape stands for {bad[0]!r}, which is not allowed in an IRI", start)
        if _SCHEME.match(iri) is None:
            raise self._fail(f"<{iri[:80]}> is not an absolute IRI", start)
        return f"<{iri}>"

    def _broken_iri(self, start: int) -> Malformed:
        at = start + 1
        while bad := _FORBIDDEN.search(self.text, at):
            at = bad.start()
            if bad[0] == "\\":
                if re.compile(_ESCAPED).match(self.text, at):
                    at += 1
                    continue
                return self._fail("a malformed escape in an IRI", at)
            return self._fail(f"{bad[0]!r} is not allowed in an IRI", at)
        return self._fail("the IRI has no end", start)

    def _char(self, match: re.Match[str], start: int) -> str:
        if match[3] is not None:
            return _NAMED[match[3]]
        code = int(match[1] or match[2], 16)
        if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
            raise self._fail(f"{match[0]} is not a character", start)
        return chr(code)

    def _label(self) -> str:
        match = _LABEL.match(self.text, self.at)
        if match is None:
            raise self._fail("a malformed blank node label")
        self.at = match.end()
        return match[0]

    def _blank_node(self) -> str:
        label = self._label()
        return self.scoped(label[2:]) if self.scoped else label

    def _literal(self) -> str:
        start = self.at
        match = _STRING.match(self.text, start)
        if match is None:
            raise self._broken_string(start)
        self.at = match.end()
        lexical = match[1]
        if "\\" in lexical:
            lexical = _UNESCAPE.sub(lambda one: self._char(one, start), lexical)
        lexical = _TO_ESCAPE.sub(lambda one: _ESCAPES[one[0]], lexical)
        end = self.at
        after = self._skip()
        if after == "@":
            tag = _TAG.match(self.text, self.at)
            if tag is None or self.text[tag.end() : tag.end() + 1] == "-":
                raise self._fail("a malformed language tag")
            self.at = tag.end()
            return f'"{lexical}"@{tag[1].lower()}'
        if after == "^":
            if not self.text.startswith("^^", self.at):
                raise self._fail("expected '^^' before a datatype")
            self.at += 2
            if self._skip() != "<":
                raise self._fail(f"expected a datatype, an IRI in <>; {self._found()}")
            place = self.at
            datatype = self._iri()[1:-1]
            if datatype == _LANG_STRING_TYPE:
                raise self._fail("a literal of rdf:langString needs a language tag", place)
            return f'"{lexical}"' if datatype == _STRING_TYPE else f'"{lexical}"^^<{datatype}>'
        self.at = end
        return f'"{lexical}"'

    def _broken_string(self, start: int) -> Malformed:
        at = start + 1
        legal = re.compile(rf"\\[tbnrf\"'\\]|{_ESCAPED}")
        while (found := re.compile(r'["\\]').search(self.text, at)) and found[0] == "\\":
            escape = legal.match(self.text, found.start())
            if escape is None:
                return self._fail("a malformed escape in a literal", found.start())
            at = escape.end()
        return self._fail("the literal has no closing quote", start)
