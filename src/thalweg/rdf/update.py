"""The reader of SPARQL Update: `INSERT DATA` and `DELETE DATA` as events, whose data a parser of TriG reads."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from thalweg.lines import Places, count
from thalweg.rdf.arena import Arena, Bytes
from thalweg.rdf.chunk import NO_TIME, Chunk, Reject
from thalweg.rdf.formats import FORMATS, GENERATED_AT, BlankNodes, SequentialReader
from thalweg.rdf.prune import Prune
from thalweg.rdf.sequential import OverReader
from thalweg.rdf.stated import SHOWN, Stated, event_chunk, joined_times

# Possessive throughout: a literal of 100 MB needs no stack.
_STRING = (
    r"""\"\"\"(?:\"{0,2}+(?:[^"\\]|\\.))*+\"{3,5}+|\'\'\'(?:\'{0,2}+(?:[^'\\]|\\.))*+\'{3,5}+"""
    r"""|"(?:[^"\\\r\n]|\\.)*+"|'(?:[^'\\\r\n]|\\.)*+'"""
)
_IRI = r"""<[^<>"{}|^`\\\x00-\x20]*+>"""
_SPACE = r"(?:[ \t\r\n]++|\#[^\r\n]*+)*+"
_TOKEN = re.compile(
    rf"{_SPACE}(?:(?P<string>{_STRING})|(?P<iri>{_IRI})|(?P<word>[A-Za-z]++(?![\w.-]*+:))|(?P<mark>[{{}};])"
    r"""|(?P<other>(?:[^\s{};<>"'\#\\]|\\.)++|[^ \t\r\n#]))""",
    re.DOTALL,
)
_GRAPH = re.compile(
    rf"""{_SPACE}(?i:graph)(?=[\s<\#])(?P<name>{_SPACE}(?:{_IRI}|[^\s{{}}<>"'\#]++){_SPACE}\{{)?+""",
    re.DOTALL,
)
# As much as belongs to triples, with the last part of it apart.
_TRIPLES = re.compile(
    rf"""(?:{_SPACE}(?!(?i:graph)[\s<\#])((?:{_STRING}|{_IRI}|(?:[^\s{{}}<"'\#\\]|\\.)++|<)++))*+""",
    re.DOTALL,
)
_CLOSED = re.compile(rf"{_SPACE}\}}", re.DOTALL)
_DOT = re.compile(rf"{_SPACE}\.", re.DOTALL)
_BLANK_NODE = re.compile(r"_:|\[")
_OPS = {"INSERT": 1, "DELETE": -1}


@dataclass(frozen=True)
class DataOperation:
    """An operation: its op, its data as TriG, and where it begins."""

    op: int
    data: str
    start: int


class UpdateReader(OverReader):
    """Reads requests of SPARQL Update whole. Other operations than those on data are refused, those around them read.

    Operations are changes in sequence. A DELETE DATA and the INSERT DATA right after it are one update, at one time;
    every other operation is an event of its own.

    >>> arena = Arena()
    >>> reader = UpdateReader(arena, Prune.everything(), source="doc")
    >>> chunk = reader.read(b"PREFIX : <a:> DELETE DATA { :s :p 1 } ; INSERT DATA { GRAPH :g { :s :p 2 } }")
    >>> arena.texts(chunk.g[1:]), chunk.op.tolist()
    (['<a:g>'], [-1, 1])
    """

    def __init__(
        self,
        arena: Arena,
        prune: Prune,
        *,
        source: str,
        syntax: str = "ru",
        blank_nodes: BlankNodes = "event",
        per_event: int = 1,
        time_predicate: bytes = GENERATED_AT,
        stream: str = "",
    ) -> None:
        # Any number but one: blank nodes wait for the scope of their event.
        self._data = FORMATS["trig"].reader(
            arena, prune, source=source, blank_nodes=blank_nodes, per_event=2, time_predicate=b""
        )
        super().__init__(cast(SequentialReader, self._data), source)
        self._pieces: list[bytes] = []

    def feed(self, data: bytes | memoryview | Bytes, *, offset: int = 0) -> Chunk:
        """Keep the next piece of a request."""
        self._pieces.append(bytes(data))
        return self.nothing()

    def finish(self, *, broken: bool = False) -> Chunk:
        """The whole request; nothing where its rest could not be read."""
        text = b"" if broken else b"".join(self._pieces)
        self._pieces = []
        return self.read(text)

    def read(self, data: bytes | memoryview | Bytes, *, offset: int = 0) -> Chunk:
        """The events of a request."""
        try:
            text = bytes(data).decode("utf-8").removeprefix("\ufeff")
        except UnicodeDecodeError as wrong:
            before = bytes(data)[: wrong.start].decode("utf-8", "replace")
            return self._refused(Places(before).of(len(before)), "the text is not in UTF-8", before[-SHOWN:])
        places = Places(text)
        rejects: list[Reject] = []

        def refuse(at: int, reason: str) -> None:
            rejects.append(Reject(self.source, *places.of(at), reason, text[at : at + SHOWN]))

        operations = list(operations_of(text, refuse))
        sources = [f"{one.start} {self.source}" for one in operations]
        found = self._data.read_texts([one.data.encode() for one in operations], sources)
        for reject in found.chunk.rejects:
            start = int(reject.source.split(" ", 1)[0])
            refuse(start, f"the data of this operation: {reject.reason}")
        good = np.array([k for k in range(len(operations)) if k not in found.refused], np.int64)
        place = np.zeros(len(operations), np.int64)
        place[good] = np.arange(good.size)
        ops = np.array([operations[k].op for k in good.tolist()], np.int64)
        # An insert right after a delete belongs to it.
        joins = np.zeros(good.size, np.bool_)
        joins[1:] = (ops[1:] > 0) & (ops[:-1] < 0) & (np.diff(good) == 1)
        unit = np.cumsum(~joins) - 1
        stated = Stated(joined_times(unit, np.full(good.size, NO_TIME)), ops, found.statements[good])
        return event_chunk(
            replace(found.chunk, rejects=(), source=self.source),
            place[found.text],
            stated,
            lines=count(bytes(data)),
            rejects=sorted(rejects, key=lambda reject: (reject.line, reject.column)),
        )

    def _refused(self, at: tuple[int, int], reason: str, text: str) -> Chunk:
        return replace(self.nothing(), rejects=(Reject(self.source, *at, reason, text),))


class _Tokens:
    """The tokens of a text without blanks and comments, one at a time."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.go(0)

    def go(self, at: int) -> None:
        """Go to the token at or after a place; after the last one it is empty."""
        match = _TOKEN.match(self.text, at)
        self.kind = (match.lastgroup or "") if match else ""
        self.token = match[self.kind] if match else ""
        self.start = match.start(self.kind) if match else len(self.text)
        self.end = match.end() if match else len(self.text)

    def next(self) -> None:
        """Go to the next token."""
        self.go(self.end)

    @property
    def keyword(self) -> str:
        """The token in capitals, if it is a word."""
        return self.token.upper() if self.kind == "word" else ""

    def skip_operation(self) -> None:
        """Go to the semicolon that ends an operation, or to the end."""
        depth = 0
        while self.kind and not (self.token == ";" and depth <= 0):
            depth += (self.token == "{") - (self.token == "}")
            self.next()


def operations_of(text: str, refuse: Callable[[int, str], None]) -> Iterator[DataOperation]:
    """The operations on data of a request; `refuse` is told where others begin."""
    tokens = _Tokens(text)
    prologue = ""
    while tokens.kind:
        start, keyword, first = tokens.start, tokens.keyword, tokens.token
        if first == ";":
            tokens.next()
            continue
        tokens.next()
        if keyword in ("PREFIX", "BASE"):
            name = ""
            if keyword == "PREFIX":
                name = tokens.token + " "
                tokens.next()
            if tokens.kind != "iri":
                refuse(
                    start, f"{keyword} needs {'a name, a colon and ' if name else ''}an IRI in angle brackets"
                )
                tokens.skip_operation()
                continue
            prologue += f"{keyword} {name}{tokens.token}\n"
            tokens.next()
            continue
        if keyword not in _OPS or tokens.keyword != "DATA":
            refuse(start, f"only INSERT DATA and DELETE DATA are events: {first[:40]} is not read")
            tokens.skip_operation()
            continue
        tokens.next()
        try:
            yield DataOperation(_OPS[keyword], prologue + _quads(tokens, delete=keyword == "DELETE"), start)
        except ValueError as wrong:
            refuse(start, str(wrong))
            tokens.skip_operation()
            continue
        if tokens.kind and tokens.token != ";":
            refuse(tokens.start, "expected ; between two operations")
            tokens.skip_operation()


def _quads(tokens: _Tokens, *, delete: bool) -> str:
    """The data in braces as TriG, which wants a dot behind the triples before a graph, and none behind a graph.

    An operation that is refused is left at a place from which `skip_operation` finds its end.
    """
    if tokens.token != "{":
        raise ValueError("expected { and data")
    text, at = tokens.text, tokens.end
    parts: list[str] = []
    while True:
        triples = _TRIPLES.match(text, at)
        assert triples is not None
        parts += [triples[0], " .\n" if triples[1] and not triples[1].endswith(".") else "\n"]
        at = triples.end()
        if closed := _CLOSED.match(text, at):
            tokens.go(closed.end())
            data = "".join(parts)
            if delete and _has_blank_nodes(data):
                raise ValueError(
                    "DELETE DATA has no blank nodes: they would be others than those of the data"
                )
            return data
        graph = _GRAPH.match(text, at)
        if graph is None:
            raise ValueError("the data is not triples in braces, or has no closing brace")
        inside = _TRIPLES.match(text, graph.end()) if graph["name"] else None
        closed = _CLOSED.match(text, inside.end()) if inside else None
        if closed is None:
            raise ValueError("GRAPH needs a name and triples in braces")
        parts.append(text[at : closed.end()])
        at = closed.end()
        if dot := _DOT.match(text, at):
            at = dot.end()


def _has_blank_nodes(data: str) -> bool:
    if "_:" not in data and "[" not in data:
        return False
    return any(
        match.lastgroup == "other" and _BLANK_NODE.match(match["other"]) for match in _TOKEN.finditer(data)
    )
