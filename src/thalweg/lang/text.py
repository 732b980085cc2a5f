"""A query's text, made ready for rdflib's grammar, with the place where each character was written."""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import cached_property
from typing import NoReturn

from thalweg import lines
from thalweg.errors import QueryError, UnsupportedError

_PIECES = re.compile(
    r"""
    (?P<comment>\#[^\r\n]*)
  | (?P<iri><(?:[^<>"{}|^`\\\x00-\x20]|\\u[0-9A-Fa-f]{4}|\\U[0-9A-Fa-f]{8})*>)
  | (?P<string>\"{3}(?:\"{0,2}(?:[^"\\]|\\.))*\"{3} | '{3}(?:'{0,2}(?:[^'\\]|\\.))*'{3}
             | "(?:[^"\\\r\n]|\\.)*" | '(?:[^'\\\r\n]|\\.)*')
  | (?P<escape>\\u[0-9A-Fa-f]{4}|\\U[0-9A-Fa-f]{8})
  | \\.
    """,
    re.VERBOSE | re.DOTALL,
)
_FORBIDDEN = re.compile("[\x00\ud800-\udfff]")
_LEGAL = {"iri": re.compile(r'<[^<>"{}|^`\\\x00-\x20]*>'), "escape": re.compile(r"[\w\u00b7\u203f\u2040-]")}
_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))", re.DOTALL)
_ECHAR = {"t": "\t", "b": "\b", "n": "\n", "r": "\r", "f": "\f", '"': '"', "'": "'", "\\": "\\"}
_BACK = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r"}


class QueryText:
    """A query as it was written (`written`) and as the grammar reads it (`text`): no comments, no escapes.

    Comments become spaces. A string that has escapes is written anew in the one form that rdflib's grammar
    reads completely. Offsets into `text` are turned into the line and column of `written`.
    """

    def __init__(self, written: str, source: str = "query") -> None:
        self.written = written
        self.source = source
        self._here: list[int] = [0]
        self._there: list[int] = [0]
        self.text = self._prepare()

    def place(self, at: int) -> tuple[int, int]:
        """Line and column, from 1, of an offset into `text`."""
        i = bisect_right(self._here, at) - 1
        return self._line_and_column(self._there[i] + at - self._here[i])

    def fail(self, reason: str, at: int) -> NoReturn:
        """Refuse the query: something in it is wrong."""
        line, column = self.place(at)
        raise QueryError(reason, source=self.source, line=line, column=column)

    def refuse(self, reason: str, at: int) -> NoReturn:
        """Refuse the query: it asks for something that we do not do."""
        line, column = self.place(at)
        raise UnsupportedError(reason, source=self.source, line=line, column=column)

    def _prepare(self) -> str:
        if bad := _FORBIDDEN.search(self.written):
            self._fail_in_written(f"the character U+{ord(bad[0]):04X} cannot be in a query", bad.start())
        out: list[str] = []
        length = done = 0
        for match in _PIECES.finditer(self.written):
            kind, piece = match.lastgroup, match[0]
            if kind == "comment":
                new = " " * len(piece)
            elif kind == "string" and "\\" in piece:
                new = self._string(piece, match.start())
            elif kind in ("iri", "escape") and "\\" in piece:
                new = self._expand(piece, match.start())
                if not _LEGAL[kind].fullmatch(new):
                    self._fail_in_written(
                        f"{piece!r} hides a character that is not allowed here", match.start()
                    )
            else:
                continue
            before = self.written[done : match.start()]
            out += (before, new)
            length += len(before) + len(new)
            done = match.end()
            if len(new) != len(piece):
                self._here.append(length)
                self._there.append(done)
        out.append(self.written[done:])
        return "".join(out)

    def _string(self, piece: str, start: int) -> str:
        marks = 3 if piece[:3] in ('"""', "'''") and len(piece) >= 6 else 1
        content = self._expand(piece[marks:-marks], start + marks)
        return '"' + "".join(_BACK.get(c, c) for c in content) + '"'

    def _expand(self, piece: str, start: int) -> str:
        def one(match: re.Match[str]) -> str:
            if code := match[1] or match[2]:
                point = int(code, 16)
                if point > 0x10FFFF or 0xD800 <= point <= 0xDFFF:
                    self._fail_in_written(f"{match[0]} is not a character", start + match.start())
                return chr(point)
            if match[3] not in _ECHAR:
                self._fail_in_written(f"unknown escape {match[0]!r} in a string", start + match.start())
            return _ECHAR[match[3]]

        return _ESCAPE.sub(one, piece)

    def _fail_in_written(self, reason: str, at: int) -> NoReturn:
        line, column = self._line_and_column(at)
        raise QueryError(reason, source=self.source, line=line, column=column)

    def _line_and_column(self, at: int) -> tuple[int, int]:
        return self._places.of(min(at, len(self.written)))

    @cached_property
    def _places(self) -> lines.Places:
        return lines.Places(self.written)
