"""Rows to events: cells of columns, by the templates of a mapping, to chunks of ids.

All rows of a block are written out template by template, so the work of a row is that of its distinct terms. Triples
that no query wants are not built.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thalweg.kernels import templates
from thalweg.kernels.arena import PENDING
from thalweg.kernels.bits import SLACK
from thalweg.rdf.arena import Arena, Bytes, Ids
from thalweg.rdf.chunk import NO_TIME, Chunk, Reject
from thalweg.rdf.mapping import Column, Rules, Term, Triple
from thalweg.rdf.prune import Prune
from thalweg.rdf.row_times import times_of

NATURAL = ("", *(f"^^<http://www.w3.org/2001/XMLSchema#{name}>" for name in (
    "integer", "double", "boolean", "decimal", "date", "dateTime", "hexBinary")))  # fmt: skip
"""What follows a literal without a datatype, by the kind of its cell: 0 is a text."""
TEXT, INTEGER, DOUBLE, BOOLEAN, DECIMAL, DATE, DATE_TIME, BINARY = range(8)

BLOCK = 2048
"""Rows that are built together: their cells and ids stay in the cache."""
_SHOWN = 500
_SCRATCH = 64 * 1024
_OPS = {b"insert": 1, b"+": 1, b"delete": -1, b"-": -1}
_FAULTS = {
    templates.NOT_UTF8: "column {}: not UTF-8",
    templates.NOT_IRI: "column {}: not an IRI, because a character of it is not allowed there",
    templates.RELATIVE: "column {}: not an absolute IRI (set `base` in the mapping if it is relative)",
}


@dataclass
class Cells:
    """Cells of rows by column: where the bytes of each one are and how many; no cell has the size -1.

    64 bytes behind each cell can be read. `times` has columns that are times already.
    """

    count: int
    """The rows; the arrays may have room for more."""
    at: Ids
    sizes: Ids
    kinds: NDArray[np.uint8] | None = None
    """For each cell the place of its datatype in `NATURAL`; None: all are texts."""
    times: dict[int, Ids] = field(default_factory=dict)
    """The times of columns that are such, in microseconds, and NO_TIME where there is none."""
    keep: object = None
    """Whatever owns the bytes."""

    def __len__(self) -> int:
        return self.count

    def text(self, column: int, row: int) -> bytes:
        """The bytes of one cell."""
        size = int(self.sizes[column, row])
        return ctypes.string_at(int(self.at[column, row]), size) if size > 0 else b""


Describe = Callable[[int], tuple[int, str]]
"""The line and the text of a row, for messages."""


class RowBuilder:
    """The templates of a mapping, compiled for columns in their places and for what is kept."""

    def __init__(self, rules: Rules, places: dict[str, int], prune: Prune) -> None:
        self.rules, self.prune = rules, prune
        self.places = places
        self._wanted = [triple for triple in rules.triples if _is_wanted(triple, prune)]
        terms = dict.fromkeys(term for triple in self._wanted for term in triple.terms)
        self._constants = [term for term in terms if term.is_constant or term.kind == "blank"]
        self._built = [term for term in terms if not (term.is_constant or term.kind == "blank")]
        if rules.graph is not None:
            if rules.graph.is_constant and rules.graph not in self._constants:
                self._constants.append(rules.graph)
            elif not rules.graph.is_constant and rules.graph not in self._built:
                self._built.append(rules.graph)
        number = {term: k for k, term in enumerate([*self._built, *self._constants])}
        self._triples = np.array(
            [[number[term] for term in triple.terms] for triple in self._wanted], np.int64
        ).reshape(-1, 3)
        self._graph = None if rules.graph is None else number[rules.graph]
        self._texts = [canonical(term).encode() for term in self._constants]
        self._blank = np.array(
            [[triple.s.kind == "blank", triple.o.kind == "blank"] for triple in self._wanted], np.int64
        ).reshape(-1, 2)
        self._compile()
        self._sets = [[places[column.name] for column in triple.columns] for triple in rules.triples]
        self._used = sorted({place for places in self._sets for place in places})
        self._scratch = np.zeros(_SCRATCH, np.uint8)
        self._pending = np.zeros((PENDING, 4), np.int64)

    def _compile(self) -> None:
        texts = _Texts()
        parts: list[tuple[int, int, int, int, int]] = []
        terms: list[tuple[int, int, int]] = []
        for term in self._built:
            first = len(parts)
            prefix, suffix = _frame_of(term)
            inner = [*term.parts]
            for part in [prefix, *inner, suffix]:
                if isinstance(part, Column):
                    place = self.places[part.name]
                    kind = _slot_kind(term)
                    base = texts.add(term.base) if kind == templates.WHOLE else (0, 0)
                    parts.append((kind, place, 0, *base))
                elif part:
                    shown = part if part in (prefix, suffix) else _escaped(part, term)
                    parts.append((templates.TEXT, *texts.add(shown), 0, 0))
            natural = self.places[term.columns[0].name] if term.is_natural else -1
            terms.append((first, len(parts), natural))
        suffixes = [texts.add(suffix) for suffix in NATURAL]
        self._terms = np.array(terms, np.int64).reshape(-1, 3)
        self._parts = np.array(parts, np.int64).reshape(-1, 5)
        self._suffixes = np.array(suffixes, np.int64).reshape(-1, 2)
        self._bytes = texts.array()

    def build(self, arena: Arena, cells: Cells, describe: Describe, source: str) -> Chunk:
        """The events of rows: `number` is the place of an event in the chunk; an event without triples has one row.

        Rows of which a cell is bad are refused, and are no events.
        """
        n = len(cells)
        reasons: dict[int, str] = {}
        times, ops = self._times(cells, reasons), self._ops(cells, reasons)
        bad = np.zeros((n, 2), np.int64)
        if reasons:
            bad[list(reasons), 0] = -1
        ids = self._ids(arena, cells, bad)
        for row in np.flatnonzero(bad[:, 0] > 0).tolist():
            fault, place = bad[row].tolist()
            name = next(name for name, at in self.places.items() if at == place)
            reasons[row] = _FAULTS[fault].format(name)
        accepted = bad[:, 0] == 0
        count = int(np.count_nonzero(accepted))
        columns = np.empty((7, count * max(1, len(self._triples))), np.int64)
        graph = np.zeros(n, np.int64) if self._graph is None else ids[self._graph]
        rows = templates.assemble(self._triples, ids, graph, times, ops, accepted, columns)
        number, g, s, p, o, time, op = (column[:rows] for column in columns)
        statements, bare = self._count(cells, accepted)
        if bare is not None:
            op = np.where((s == 0) & bare[number], 0, op)
        blanks = self._blanks(ids, accepted)
        return Chunk(
            statements=statements,
            lines=0,
            number=number.copy(),
            g=g.copy(),
            s=s.copy(),
            p=p.copy(),
            o=o.copy(),
            time=time.copy(),
            bnodes=blanks,
            rejects=tuple(
                Reject(source, line, 0, reasons[row], text[:_SHOWN])
                for row in sorted(reasons)
                for line, text in [describe(row)]
            ),
            source=source,
            blanks=blanks,
            op=op.copy(),
        )

    def _blanks(self, ids: Ids, accepted: NDArray[np.bool_]) -> int:
        """How many blank nodes the kept triples have."""
        total = 0
        for (s, p, o), blank in zip(self._triples.tolist(), self._blank.sum(axis=1).tolist(), strict=True):
            if blank:
                present = (ids[s] != 0) & (ids[p] != 0) & (ids[o] != 0) & accepted
                total += blank * int(np.count_nonzero(present))
        return total

    def _ids(self, arena: Arena, cells: Cells, bad: Ids) -> Ids:
        """The id of each term of each row."""
        n, built = len(cells), len(self._built)
        ids = np.zeros((built + len(self._constants), n), np.int64)
        for place, text in enumerate(self._texts, built):
            ids[place] = arena.intern(text)
        if built:
            kinds = np.zeros_like(cells.sizes, np.uint8) if cells.kinds is None else cells.kinds
            state = np.zeros(4, np.int64)
            while True:
                status = templates.build(
                    n, self._terms, self._parts, self._bytes, cells.at, cells.sizes, kinds, self._suffixes, state,
                    arena.head, arena.slots, arena.log, self._scratch, self._pending, ids, bad,
                )  # fmt: skip
                if status == templates.DONE:
                    break
                need = int(state[templates.NEED])
                if status == templates.NO_ROOM:
                    arena.reserve(max(4 * PENDING, len(arena)), need)
                else:
                    self._scratch = np.zeros(2 * need, np.uint8)
            if self._scratch.size > 16 * _SCRATCH:  # one long cell has needed it
                self._scratch = np.zeros(_SCRATCH, np.uint8)
        return ids

    def _times(self, cells: Cells, reasons: dict[int, str]) -> Ids:
        rule = self.rules.time
        if rule is None:
            return np.full(len(cells), NO_TIME, np.int64)
        place = self.places[rule.column.name]
        n = len(cells)
        times, wrong = times_of(rule, cells.at[place, :n], cells.sizes[place, :n], cells.times.get(place))
        for row, reason in wrong.items():
            shown = cells.text(place, row)[:80].decode("utf-8", "replace")
            reasons.setdefault(row, f"column {rule.column.name}: {reason.format(repr(shown))}")
        return times

    def _ops(self, cells: Cells, reasons: dict[int, str]) -> Ids:
        ops = np.ones(len(cells), np.int64)
        if self.rules.op is None:
            return ops
        place = self.places[self.rules.op.name]
        for row in range(len(cells)):
            text = cells.text(place, row).strip()
            if text and text not in _OPS:
                shown = text[:40].decode("utf-8", "replace")
                reasons.setdefault(row, f"column {self.rules.op.name}: op is insert or delete, not {shown!r}")
            ops[row] = _OPS.get(text, 1)
        return ops

    def _count(self, cells: Cells, accepted: NDArray[np.bool_]) -> tuple[int, NDArray[np.bool_] | None]:
        """How many triples the rows have, wanted or not; and which events have none, if any."""
        count = int(np.count_nonzero(accepted))
        total = count * len(self._sets)
        sizes = cells.sizes[:, : len(cells)]
        if not self._used or not (sizes[self._used] < 0).any():
            return total, None
        missing = sizes < 0
        total, found = 0, np.zeros(len(cells), np.bool_)
        for places in self._sets:
            has = accepted & ~missing[places].any(axis=0) if places else accepted
            total += int(np.count_nonzero(has))
            found |= has
        return total, ~found[accepted]


@dataclass
class _Texts:
    """Constant texts, one after the other."""

    whole: bytearray = field(default_factory=bytearray)

    def add(self, text: str) -> tuple[int, int]:
        """Offset and size of a text."""
        data = text.encode()
        self.whole += data
        return len(self.whole) - len(data), len(data)

    def array(self) -> Bytes:
        """All of them, with slack behind."""
        return np.frombuffer(bytes(self.whole) + bytes(SLACK), np.uint8).copy()


_ESCAPES = {chr(code): f"\\u{code:04X}" for code in (*range(0x20), 0x7F)} | {
    "\t": "\\t", "\b": "\\b", "\n": "\\n", "\r": "\\r", "\f": "\\f", '"': '\\"', "\\": "\\\\",
}  # fmt: skip


def _escaped(text: str, term: Term) -> str:
    """A constant part of a template, as canonical text has it."""
    return "".join(_ESCAPES.get(c, c) for c in text) if term.kind == "literal" else text


def _frame_of(term: Term) -> tuple[str, str]:
    """What stands before and after the parts of a term."""
    if term.kind == "iri":
        return "<", ">"
    if term.kind == "blank":
        return "_:", ""
    if term.language:
        return '"', f'"@{term.language}'
    if term.datatype and term.datatype != "http://www.w3.org/2001/XMLSchema#string":
        return '"', f'"^^<{term.datatype}>'
    return '"', '"'


def canonical(term: Term) -> str:
    """The text of a term that has no slots."""
    prefix, suffix = _frame_of(term)
    return prefix + "".join(_escaped(str(part), term) for part in term.parts) + suffix


def _slot_kind(term: Term) -> int:
    if term.kind == "literal":
        return templates.STRING
    return templates.WHOLE if len(term.parts) == 1 else templates.SAFE


def _is_wanted(triple: Triple, prune: Prune) -> bool:
    """Whether some query can use triples of the template."""
    constants = [canonical(term).encode() if term.is_constant else None for term in triple.terms]
    return any(
        all(
            wanted is None or constant is None or wanted == constant
            for wanted, constant in zip((one.s, one.p, one.o), constants, strict=True)
        )
        for one in prune.signatures
    )


def joined(chunks: Sequence[Chunk], rejects: Sequence[Reject], lines: int, source: str) -> Chunk:
    """Chunks of blocks of rows as one, whose events are numbered on."""
    if not chunks:
        none = np.empty(0, np.int64)
        return Chunk(0, lines, none, none, none, none, none, none, rejects=tuple(rejects), source=source)
    counts = [int(chunk.number[-1]) + 1 if len(chunk) else 0 for chunk in chunks]
    bases = np.repeat(np.cumsum([0, *counts[:-1]]), [len(chunk) for chunk in chunks])
    columns: dict[str, Any] = {
        name: np.concatenate([getattr(chunk, name) for chunk in chunks])
        for name in ("number", "g", "s", "p", "o", "time", "op")
    }
    columns["number"] = columns["number"] + bases
    found = [*rejects, *(reject for chunk in chunks for reject in chunk.rejects)]
    return Chunk(
        statements=sum(chunk.statements for chunk in chunks),
        lines=lines,
        bnodes=sum(chunk.bnodes for chunk in chunks),
        blanks=sum(chunk.blanks for chunk in chunks),
        rejects=tuple(sorted(found, key=lambda reject: reject.line)),
        source=source,
        **columns,
    )
