"""Turtle and TriG, piece by piece, to lines of N-Quads: by the kernel, and by a complete parser where it stops."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyoxigraph as ox

from thalweg.kernels import turtle as kernel
from thalweg.kernels.bits import SLACK
from thalweg.kernels.checking import address_of
from thalweg.kernels.hashing import keys_of
from thalweg.kernels.scan_terms import iri_end
from thalweg.kernels.turtle_terms import space_end, statement_end
from thalweg.lines import count
from thalweg.rdf.arena import Bytes, Ids
from thalweg.rdf.grammar import Malformed, statement
from thalweg.rdf.labels import Labels

_OUT = 1 << 21
"""Bytes of lines that are made at once: few enough for the cache."""
_MOST_AT_ONCE = 1024
"""Statements that the complete parser is given at once, at most."""
_SPACE = rb"(?:[ \t\r\n]|#[^\r\n]*[\r\n])*"
_DIRECTIVE = re.compile(
    rb"(?:@(?:prefix|base|version)(?![\w-])"
    rb"|(?i:prefix)" + _SPACE + rb"[^\s:<>#]*:" + _SPACE + rb"<[^<>]*>"
    rb"|(?i:base)" + _SPACE + rb"<[^<>]*>"
    rb"|(?i:version)" + _SPACE + rb"(?:\"[^\"\r\n]*\"|'[^'\r\n]*'))"
)
_FEW_PREFIXES = 256
"""Prefixes up to which each is looked for in a statement; among more of them, only in places where names begin."""
_NAMES = re.compile(rb"[^\s<>\"'\[\](){},;|:^@]*:")
_PLACE = re.compile(r"^Parser error (?:at|between) line \d+[^:]*: ")
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class Lines:
    """Lines of N-Quads that were made of a part of a document."""

    text: bytes | memoryview
    origins: Ids
    """For each line the offset in the document of the statement, or of the object, that it is made of."""


@dataclass(frozen=True)
class Fault:
    """Why a document is not read on: where, from 1 on, and what is wrong."""

    line: int
    column: int
    reason: str
    text: str


class Prefixes:
    """The prefixes in force: a table for the kernel that grows with them."""

    def __init__(self) -> None:
        self.iris: dict[bytes, bytes] = {}
        self.table: Ids = np.zeros((16, 5), dtype=np.int64)
        self.texts: Bytes = np.zeros(1024 + SLACK, dtype=np.uint8)
        self._used = 0

    def add(self, name: bytes, iri: bytes) -> None:
        """Declare a prefix; one that is declared again is replaced."""
        if self.iris.get(name) == iri:
            return
        known = name in self.iris
        self.iris[name] = iri
        if known or 2 * len(self.iris) > len(self.table):
            self._build()
        else:
            self._enter(name, iri)

    def _build(self) -> None:
        self.table = np.zeros((1 << max(4, (3 * len(self.iris)).bit_length()), 5), dtype=np.int64)
        self._used = 0
        for name, iri in self.iris.items():
            self._enter(name, iri)

    def _enter(self, name: bytes, iri: bytes) -> None:
        text = name + iri
        if not _is_absolute(iri):
            return  # the complete parser knows what it is
        if self._used + len(text) + SLACK > self.texts.size:
            wider = np.zeros(2 * (self._used + len(text)) + SLACK, dtype=np.uint8)
            wider[: self._used] = self.texts[: self._used]
            self.texts = wider
        at = self._used
        self.texts[at : at + len(text)] = np.frombuffer(text, dtype=np.uint8)
        self._used += len(text)
        padded = np.zeros(len(name) + SLACK, dtype=np.uint8)
        padded[: len(name)] = np.frombuffer(name, dtype=np.uint8)
        hashes, quicks = np.zeros(1, np.int64), np.zeros(1, np.int64)
        keys_of(address_of(padded), np.array([len(name)], np.int64), hashes, quicks)
        last = len(self.table) - 1
        i = int(quicks[0]) & last
        while self.table[i, 2]:
            i = (i + 1) & last
        self.table[i] = quicks[0], at, len(name) + 1, at + len(name), len(iri)


class Translator:
    """One document under way: what is in force, and the text that is not translated yet.

    >>> translator = Translator("turtle", "d-")
    >>> [bytes(lines.text) for lines in translator.feed(b"@prefix a: <a:> . a:s a:p a:t ; a:q a:o . a:", last=False)]
    [b'<a:s> <a:p> <a:t> .\\n<a:s> <a:q> <a:o> .\\n']
    >>> [bytes(lines.text) for lines in translator.feed(b"s a:p [] .", last=True)], translator.fault
    ([b'<a:s> <a:p> _:d-0 .\\n'], None)
    """

    def __init__(self, syntax: str, label: str) -> None:
        """`label` is what the labels of nodes without one begin with, behind `_:`."""
        self.fault: Fault | None = None
        self.lines = 0
        """Line ends up to the text that is not translated yet."""
        self._column = 0
        self._parser = ox.RdfFormat.TRIG if syntax == "trig" else ox.RdfFormat.TURTLE
        self._prefixes = Prefixes()
        self._base = b""
        self._label = label
        self._offset = 0
        self._rest = b""
        self._text = b""
        self._wanted = 0
        self._failures = 0
        self._state = np.zeros(8, dtype=np.int64)
        self._state[kernel.GRAPH] = -1
        self._options = np.zeros(8, dtype=np.int64)
        self._options[kernel.TRIG] = syntax == "trig"
        self._graph = np.zeros(kernel.LONGEST + 2 * SLACK, dtype=np.uint8)
        self._terms = np.zeros(kernel.TERMS, dtype=np.uint8)
        self._frames = np.zeros((kernel.DEPTH, 6), dtype=np.int64)
        self._out = np.zeros(_OUT, dtype=np.uint8)
        self._origins = np.zeros(_OUT // 32, dtype=np.int64)
        self._set_base(b"")

    def feed(self, data: bytes | memoryview, *, last: bool) -> Iterator[Lines]:
        """The lines of what the next piece completes. Those of one step are good only until the next."""
        if self.fault is not None:
            return
        text = b"".join([self._rest, data])
        if self._offset == 0 and text.startswith(_BOM):
            text = b"   " + text[3:]  # offsets stay what they are
        if not last and len(text) < self._wanted:
            self._rest = text
            return
        view = np.zeros(len(text) + 1 + 2 * SLACK, dtype=np.uint8)
        view[: len(text)] = np.frombuffer(text, dtype=np.uint8)
        view[len(text)] = 0x0A
        self._text = text
        self._options[kernel.LAST] = last
        self._state[kernel.POS] = 0
        yield from self._translate(text, view, last=last)
        at = int(self._state[kernel.POS])
        self._column = self._place(at)[1] - 1
        self._text = b""
        self.lines += count(text[:at])
        self._rest = text[at:]
        # A statement that is longer than a piece is not tried again before there is twice as much of it.
        self._wanted = 2 * len(self._rest)
        self._offset += at

    def _translate(self, text: bytes, view: Bytes, *, last: bool) -> Iterator[Lines]:
        start = address_of(view)
        end = start + len(text)
        state = self._state
        while self.fault is None:
            state[kernel.OUT] = state[kernel.ROWS] = 0
            before = int(state[kernel.POS])
            status = kernel.translate(
                start, end, self._options, state, self._prefixes.table, self._prefixes.texts, self._fixed,
                self._graph, self._terms, self._frames, self._out, self._origins,
            )  # fmt: skip
            rows = int(state[kernel.ROWS])
            if int(state[kernel.POS]) > before:
                self._failures = 0
            if rows:
                made = self._out[: int(state[kernel.OUT])].data
                yield Lines(made, self._origins[:rows] + self._offset)
            if status == kernel.DONE:
                if last and state[kernel.GRAPH] >= 0:
                    self._fail(
                        text, len(text), ValueError("the block of a graph has no end: '}' is missing"), 0
                    )
                return
            if status == kernel.FULL:
                if not rows:
                    self._out = np.zeros(2 * self._out.size, dtype=np.uint8)
                    self._origins = np.zeros(2 * self._origins.size, dtype=np.int64)
                continue
            at = space_end(start + int(state[kernel.POS]), end) - start
            directive = _DIRECTIVE.match(text, at) if state[kernel.GRAPH] < 0 else None
            if directive is not None:
                stop = directive.end()
                if text[at : at + 1] == b"@":
                    stop = int(statement_end(start + at, end, False)) - start
                    if (stop < 0 or stop == len(text)) and not last:
                        return  # a dot in a name may look like its end
                    stop = stop if stop > 0 else len(text)
                self._declare(text, at, stop)
            else:
                found: Lines | None = None
                while found is None:
                    stop, number = self._statements(text, start, at, end)
                    if stop == 0 and not last:
                        return
                    stop = stop or len(text)
                    # Where one of several is wrong, they are tried one by one: it may be one that is tolerated.
                    found = self._complete(text, at, stop, alone=number <= 1)
                    self._failures = 0 if found is None else self._failures
                yield found
            state[kernel.POS] = stop

    def _statements(self, text: bytes, start: int, at: int, end: int) -> tuple[int, int]:
        """Offset behind some statements, and how many: the more, the more the kernel has left; 0: too few are here.

        How many depends on the document alone, and not on how it is cut into pieces.
        """
        inside = bool(self._state[kernel.GRAPH] >= 0)
        wanted = min(1 << self._failures, _MOST_AT_ONCE)
        self._failures += 1
        stop = start + at
        for number in range(wanted):
            after = int(statement_end(stop, end, inside))
            if after == 0 or (after == end and not self._options[kernel.LAST]):
                if number and self._options[kernel.LAST]:
                    break
                self._failures -= 1
                return 0, 0
            stop = after
            following = int(space_end(stop, end)) - start
            if text[following : following + 1] in (b"", b"}") or _DIRECTIVE.match(text, following):
                break
        return stop - start, number + 1

    def _declare(self, text: bytes, at: int, stop: int) -> None:
        """Take a directive."""
        base = b"@base <%b> . " % self._base if self._base else b""
        given = base + text[at:stop]
        try:
            parser = _drained(given, lenient=False)
        except (SyntaxError, ValueError) as wrong:
            try:
                parser = _drained(given, lenient=True)
                iris = [*parser.prefixes.values(), *filter(None, [parser.base_iri])]
            except (SyntaxError, ValueError):
                iris = [""]
            if not all(_is_absolute(iri.encode()) for iri in iris):
                self._fail(text, at, wrong, len(base.decode()))
                return
        for name, iri in parser.prefixes.items():
            self._prefixes.add(name.encode(), iri.encode())
        if parser.base_iri is not None and parser.base_iri.encode() != self._base:
            self._set_base(parser.base_iri.encode())

    def _set_base(self, base: bytes) -> None:
        """Take a base: what fragments are appended to, and what names of files are."""
        self._base = base
        parts = [b"", b""]
        if base:
            try:
                quad = next(iter(ox.parse(b"<#f> <x:p> <f> .", ox.RdfFormat.TURTLE, base_iri=base.decode())))
                parts = [quad.subject.value.encode()[:-2], quad.object.value.encode()[:-1]]
            except (SyntaxError, ValueError):
                pass
            parts = [part if _is_absolute(part) else b"" for part in parts]
        label = f"_:{self._label}".encode()
        joined = b"".join([kernel.CONSTANTS, label, *parts])
        self._fixed = np.zeros(len(joined) + SLACK, dtype=np.uint8)
        self._fixed[: len(joined)] = np.frombuffer(joined, dtype=np.uint8)
        self._options[kernel.LABEL_SIZE] = len(label)
        self._options[kernel.BASE_SIZE], self._options[kernel.FOLDER_SIZE] = map(len, parts)

    def _complete(self, text: bytes, at: int, stop: int, *, alone: bool) -> Lines | None:
        """The lines of statements by the complete parser; None where one of several is wrong."""
        body = text[at:stop]
        known: set[bytes] = set(self._prefixes.iris)
        if len(known) > _FEW_PREFIXES:
            known &= {b"", *(name[:-1] for name in _NAMES.findall(body))}
        used = [name for name in known if name + b":" in body]
        head = [b"@base <%b> ." % self._base] if self._base else []
        head += (b"@prefix %b: <%b> ." % (name, self._prefixes.iris[name]) for name in sorted(used))
        size = int(self._state[kernel.GRAPH])
        if size >= 0:
            graph = self._graph[:size].tobytes()
            head.append(b"GRAPH %b {" % graph if graph else b"{")
        start = b" ".join(head) + b" "
        whole = start + body + b"}" * (size >= 0)
        quads, wrong = parsed(whole, self._parser)
        about_iris = isinstance(wrong, SyntaxError) and reason_of(wrong).startswith(
            ("Invalid IRI", "Invalid port")
        )
        if about_iris and (tolerated := _tolerated(whole, self._parser)):
            quads, wrong = tolerated, None
        if wrong is not None:
            if not alone:
                return None
            self._fail(text, at, wrong, len(start.decode()))
        labels = Labels(body, self._label, int(self._state[kernel.NODES]))
        made = labels.renamed(ox.serialize(quads, format=ox.RdfFormat.N_QUADS) or b"")
        self._state[kernel.NODES] = labels.used
        return Lines(made, np.full(len(quads), self._offset + at))

    def _fail(self, text: bytes, at: int, wrong: Exception, shift: int) -> None:
        """Note what is wrong at, or behind, an offset of a text that the parser got with `shift` more bytes before."""
        line, column = getattr(wrong, "lineno", None) or 1, getattr(wrong, "offset", None) or 1
        begun = self._place(at)
        if line == 1:
            column = max(column - shift, 1) + begun[1] - 1
        shown = text[at : at + 2000].decode("utf-8", "replace")[:500]
        self.fault = Fault(begun[0] + line - 1, column, reason_of(wrong), shown)

    def place_of(self, part: Lines, number: int) -> tuple[int, int]:
        """The line and the column in the document of what a line is made of, while the part is good."""
        return self._place(int(part.origins[min(number, len(part.origins) - 1)]) - self._offset)

    def _place(self, at: int) -> tuple[int, int]:
        """The line in the document, and the column, of an offset in the text that is being translated."""
        text = self._text
        begun = max(text.rfind(b"\n", 0, at), text.rfind(b"\r", 0, at)) + 1
        column = len(text[begun:at].decode("utf-8", "replace")) + 1
        return self.lines + count(text[:at]) + 1, column if begun else column + self._column


def _drained(text: bytes, *, lenient: bool) -> ox.QuadParser:
    """A parser that has read a text of directives."""
    parser = ox.parse(text, ox.RdfFormat.TURTLE, lenient=lenient)
    for _ in parser:
        pass
    return parser


class NotRdf11Error(ValueError):
    """A term of RDF 1.2 that is none of RDF 1.1."""


def parsed(text: bytes, format: ox.RdfFormat) -> tuple[list[ox.Quad], Exception | None]:
    """The statements of a text up to the first that is wrong, and what is wrong with it."""
    quads: list[ox.Quad] = []
    try:
        quads.extend(ox.parse(text, format))
    except MemoryError:  # of the parser's buffer, not of the machine
        return quads, ValueError(
            "a term is longer than 16 MiB, which is the most that the complete parser takes"
        )
    except (SyntaxError, ValueError) as wrong:
        return _of_rdf_11(quads)[0], _of_rdf_11(quads)[1] or wrong
    return _of_rdf_11(quads)


def _of_rdf_11(quads: list[ox.Quad]) -> tuple[list[ox.Quad], Exception | None]:
    for number, quad in enumerate(quads):
        term = quad.object
        if isinstance(term, ox.Triple):
            return quads[:number], NotRdf11Error("a triple term of RDF 1.2 (<<( )>>), which is not supported")
        if isinstance(term, ox.Literal) and term.direction is not None:
            return quads[:number], NotRdf11Error(
                "a string with a direction of RDF 1.2 (@en--ltr), which is not supported"
            )
    return quads, None


def _tolerated(text: bytes, format: ox.RdfFormat) -> list[ox.Quad]:
    """The statements of a text whose IRIs only the grammar has to allow, as in N-Triples; none if others are wrong."""
    try:
        quads, wrong = _of_rdf_11(list(ox.parse(text, format, lenient=True)))
        if wrong is None:
            for line in (ox.serialize(quads, format=ox.RdfFormat.N_QUADS) or b"").split(b"\n")[:-1]:
                statement(line, quads=True)
            return quads
    except (SyntaxError, ValueError, Malformed, MemoryError):
        pass
    return []


def reason_of(wrong: Exception) -> str:
    """What is wrong, without the place."""
    return _PLACE.sub("", str(getattr(wrong, "msg", None) or wrong))


def _is_absolute(iri: bytes) -> bool:
    """Whether the kernel takes an IRI as it is."""
    padded = np.zeros(len(iri) + 2 + SLACK, dtype=np.uint8)
    padded[: len(iri) + 2] = np.frombuffer(b"<%b>" % iri, dtype=np.uint8)
    return bool(iri_end(address_of(padded)) == address_of(padded) + len(iri) + 2)
