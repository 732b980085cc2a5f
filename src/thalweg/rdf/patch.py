"""The reader of RDF Patch: transactions of added and deleted triples, by the scan kernel of N-Quads.

The grammar is that of Apache Jena: a row is a line, its terms are in the syntax of N-Triples, and `PA` and `PD` are
changes of a dataset's prefixes, which abbreviate nothing. Rows are not parsed one by one: the code of a row is
overwritten with a blank, all other lines become comments, and the text is read as N-Quads.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
from numpy.typing import NDArray

from thalweg.instants import instant
from thalweg.lines import last_end
from thalweg.rdf.arena import Arena, Bytes, Ids
from thalweg.rdf.chunk import NO_TIME, Chunk, Reject
from thalweg.rdf.formats import GENERATED_AT, BlankNodes, SequentialReader
from thalweg.rdf.ntriples import LineReader
from thalweg.rdf.prune import Prune
from thalweg.rdf.sequential import OverReader
from thalweg.rdf.stated import Stated, event_chunk, joined_times, last_of_each, shown, updates

# What a line is. Those of transactions come last.
_NOTHING, _ADD, _DELETE, _BEGIN, _COMMIT, _ABORT = range(6)
_CODES = {b"TX": _BEGIN, b"TB": _BEGIN, b"TC": _COMMIT, b"TA": _ABORT}
_BAD_TIME = NO_TIME + 2
"""The time of what stands behind a header whose time is none."""
_LF, _CR, _BLANK, _TAB, _HASH, _DOT, _T = b"\n\r \t#.T"
_BLANKS = re.compile(rb"[ \t]*+")
_END = rb"[ \t]*+\.[ \t]*+(?:#.*+)?+"
_TRANSACTION = re.compile(rb"(TX|TB|TC|TA)" + _END, re.DOTALL)
_SEGMENT = re.compile(rb"Z" + _END, re.DOTALL)
_STRING = rb'"(?:[^"\\]|\\.)*+"'
_TERM = rb"(?:" + _STRING + rb"(?:@[A-Za-z0-9-]++|\^\^<[^<>]*+>)?+|<[^<>]*+>|_:[^\s]++|[+-]?[0-9]++)"
_HEADER = re.compile(
    rb"H[ \t]++([A-Za-z][\w.-]*+|" + _STRING + rb")[ \t]*+(" + _TERM + rb")" + _END, re.DOTALL
)
_NAME = rb"(?:" + _STRING + rb"|[A-Za-z][\w.-]*+:?+|:)"
_PREFIX_ADDED = re.compile(
    rb"PA[ \t]++" + _NAME + rb"[ \t]*+(?:<[^<>]*+>|" + _STRING + rb")(?:[ \t]*+" + _TERM + rb")?+" + _END,
    re.DOTALL,
)
_PREFIX_DELETED = re.compile(rb"PD[ \t]++" + _NAME + rb"(?:[ \t]++" + _TERM + rb")?+" + _END, re.DOTALL)
_TIME = re.compile(rb'"([^"\\]*+)"(?:\^\^<[^<>]*+>)?+|([+-]?[0-9]++)')
_OF_TRANSACTION = re.compile(rb"(?:^|[\r\n])[ \t]*+T")
_LABELLED = re.compile(rb'"(?:[^"\\]|\\.)*+"|<_:([^<>"\s]*+)>', re.DOTALL)


class PatchReader(OverReader):
    """Reads RDF Patch in pieces that may be cut anywhere; a transaction that is open is kept as text.

    A transaction is one update: what it deletes is one event, what it inserts another at the same time. An aborted one
    is left out and counted, one without an end is refused. A malformed row is refused, the others of its transaction
    are applied. A row outside of transactions is an event. Times are those of the last header `time` above the commit.

    >>> arena = Arena()
    >>> text = b'H time "5" .\\nTX .\\nA <a:s> <a:p> "new" .\\nD <a:s> <a:p> "old" .\\nTC .\\n'
    >>> reader = PatchReader(arena, Prune.everything(), source="doc")
    >>> chunk = reader.read(text)
    >>> arena.texts(chunk.o), chunk.op.tolist(), int(chunk.time[0])
    (['"old"', '"new"'], [-1, 1], 5000)
    """

    def __init__(
        self,
        arena: Arena,
        prune: Prune,
        *,
        source: str,
        syntax: str = "rdfp",
        blank_nodes: BlankNodes = "event",
        per_event: int = 1,
        time_predicate: bytes = GENERATED_AT,
        stream: str = "",
    ) -> None:
        # Any number but one: blank nodes wait for the scope of their event.
        self._rows = LineReader(
            arena, prune, syntax="nq", source=source, blank_nodes=blank_nodes, per_event=2, time_predicate=b""
        )
        super().__init__(cast(SequentialReader, self._rows), source)
        self._header = b"time" if time_predicate in (GENERATED_AT, b"") else time_predicate.strip(b"<>")
        self._time = NO_TIME
        self._open: list[bytes] = []
        self._partial = b""

    def feed(self, data: bytes | memoryview | Bytes, *, offset: int = 0) -> Chunk:
        """The events that a piece completes."""
        text = self._partial + bytes(data)
        cut = last_end(text, 0, len(text))
        self._partial = text[cut:]
        text = text[:cut]
        if self._open and not _OF_TRANSACTION.search(text):
            self._open.append(text)
            return self.nothing()
        text = b"".join([*self._open, text])
        self._open.clear()
        cut = _open_transaction(text)
        if cut:
            self._open.append(text[cut:])
            text = text[:cut]
        return self._read(text, ended=False)

    def finish(self, *, broken: bool = False) -> Chunk:
        """What is left at the end; a line that breaks off is not taken for a whole one."""
        text = b"".join([*self._open, b"" if broken else self._partial])
        self._open.clear()
        self._partial = b""
        return self._read(text, ended=True)

    def _read(self, text: bytes, *, ended: bool) -> Chunk:
        if not text:
            return self.nothing()
        found = _Lines(text, self._header, self.source)
        control = found.control
        codes = found.code[control]
        follows = np.concatenate([codes[1:], [_NOTHING]])
        begins = codes == _BEGIN
        commits = begins & (follows == _COMMIT)
        aborts = begins & (follows == _ABORT)
        if codes.size and begins[-1] and not ended:
            # The last transaction is open: it is read again when it has ended, and so is what its headers say.
            at = int(found.start[control[-1]])
            self._open.insert(0, text[at:])
            if at == 0:
                return self.nothing()
            return self._read(text[:at], ended=False)
        for k in np.flatnonzero(begins & ~commits & ~aborts).tolist():
            found.refuse(int(control[k]), "the transaction that begins here has no end: TC or TA is missing")
        strays = (codes > _BEGIN) & ~np.concatenate([[False], begins[:-1]])[: codes.size]
        for k in np.flatnonzero(strays).tolist():
            found.refuse(int(control[k]), "there is no transaction to end: TX is missing")
        return self._events(found, commits, begins, int(np.count_nonzero(aborts)))

    def _events(
        self, found: _Lines, commits: NDArray[np.bool_], begins: NDArray[np.bool_], aborted: int
    ) -> Chunk:
        control = found.control
        rows = np.flatnonzero((found.code == _ADD) | (found.code == _DELETE))
        # Where each row stands: -1 outside of transactions, else the place of the line that begins its own.
        before = np.searchsorted(control, rows) - 1
        inside = (before >= 0) & begins[before] if begins.size else np.zeros(rows.size, np.bool_)
        wanted = ~inside | (commits[before] if commits.size else inside)
        rows, before, inside = rows[wanted], before[wanted], inside[wanted]
        chunk = self._rows.read(found.as_quads(rows), offset=1)
        refused = np.array([reject.line - 1 for reject in chunk.rejects], np.int64)
        rejects = [replace(one, text=found.shown(one.line - 1)) for one in chunk.rejects]
        good = ~np.isin(rows, refused)
        rows, before, inside = rows[good], before[good], inside[good]

        # Units in the order of the text: committed transactions, and rows outside of transactions.
        committed = np.flatnonzero(commits)
        lines = np.concatenate([control[committed], rows[~inside]])
        ends = np.concatenate([control[committed + 1], rows[~inside]])
        order = np.argsort(lines, kind="stable")
        place = np.empty(order.size, np.int64)
        place[order] = np.arange(order.size)
        unit = np.empty(rows.size, np.int64)
        unit[inside] = place[np.searchsorted(committed, before[inside])]
        unit[~inside] = place[committed.size :]
        times = found.times_at(ends[order], self._time)
        self._time = found.last_time(self._time)
        untimed = times == _BAD_TIME
        for k in np.flatnonzero(untimed).tolist():
            found.refuse(int(lines[order[k]]), "the time of this change is not readable: see its header")

        op = np.where(found.code[rows] == _ADD, 1, -1)
        event, owner, ops = updates(unit, op, order.size)
        statements = np.bincount(event, minlength=owner.size)
        counted = last_of_each(chunk, unit[chunk.number], op[chunk.number])
        chunk = chunk.picked(counted)
        stated = Stated(joined_times(owner, times), ops, statements)
        whole = event_chunk(
            chunk,
            event[chunk.number],
            stated,
            lines=found.lines,
            rejects=sorted([*rejects, *found.rejects], key=lambda reject: (reject.line, reject.column)),
            left_out=aborted,
        )
        return _without(whole, untimed[owner]) if untimed.any() else whole


def _open_transaction(text: bytes) -> int:
    """Where the last transaction of a text begins, if it is seen at once that it is open there; else 0.

    This spares to look at its lines twice: whatever is overlooked here is found there.
    """
    begin = text.rfind(b"\nTX")
    ended = begin < 0 or any(text.find(word, begin) >= 0 for word in (b"\nTC", b"\nTA"))
    return 0 if ended else begin + 1


def _without(chunk: Chunk, refused: NDArray[np.bool_]) -> Chunk:
    """A chunk of events without some of them."""
    rows = np.flatnonzero(~refused[chunk.number])
    number = (np.cumsum(~refused) - 1)[chunk.number[rows]]
    return replace(chunk.picked(rows), number=number)


@dataclass(init=False)
class _Lines:
    """The lines of a text: where they begin, what they are, and the times that headers state."""

    start: Ids
    """Where each line begins; one more for the end of the text."""
    code: NDArray[np.uint8]
    lines: int
    control: Ids
    """The lines that begin and end transactions."""

    def __init__(self, text: bytes, header: bytes, source: str) -> None:
        self.text, self.source, self._header = text, source, header
        self.view = np.frombuffer(text, np.uint8)
        self.rejects: list[Reject] = []
        self._heads: list[tuple[int, int]] = []
        ends = self.view == _LF
        if _CR in text:
            backs = self.view == _CR
            backs[:-1] &= ~ends[1:]
            ends |= backs
        starts = np.flatnonzero(ends) + 1
        self.lines = int(starts.size)
        if not starts.size or starts[-1] < len(text):
            starts = np.append(starts, len(text))
        self.start = np.concatenate([[0], starts])
        self.code = np.zeros(self.start.size - 1, np.uint8)
        self._first = self._classify()
        self.control = np.flatnonzero(self.code >= _BEGIN)

    def _classify(self) -> Ids:
        """Find what each line is; gives the place of its first byte that is no blank."""
        first = self.start[:-1].copy()
        lead = self.view[first]
        for k in np.flatnonzero((lead == _BLANK) | (lead == _TAB)).tolist():
            match = _BLANKS.match(self.text, int(first[k]))
            assert match is not None
            first[k] = min(match.end(), len(self.text) - 1)
        lead = self.view[first]
        padded = np.concatenate([self.view, np.full(4, _LF, np.uint8)])
        second, third, fourth, fifth = (padded[first + step] for step in range(1, 5))
        ends_word = (second == _BLANK) | (second == _TAB) | (second == ord("<")) | (second == ord("_"))
        self.code[(lead == ord("A")) & ends_word] = _ADD
        self.code[(lead == ord("D")) & ends_word] = _DELETE
        usual = (lead == _T) & (third == _BLANK) & (fourth == _DOT) & ((fifth == _LF) | (fifth == _CR))
        for word, code in _CODES.items():
            self.code[usual & (second == word[1])] = code
        silent = (lead == _LF) | (lead == _CR) | (lead == _HASH) | (lead == _BLANK) | (lead == _TAB)
        for k in np.flatnonzero((self.code == _NOTHING) & ~silent).tolist():
            self._other(k, self.text[int(first[k]) : int(self.start[k + 1])].rstrip(b"\r\n"))
        return first

    def _other(self, line: int, text: bytes) -> None:
        """A line that is no row, in whatever way it is written."""
        if header := _HEADER.fullmatch(text):
            if header[1].strip(b'"') == self._header:
                self._heads.append((line, self._stated_time(line, header[2])))
        elif transaction := _TRANSACTION.fullmatch(text):
            self.code[line] = _CODES[transaction[1]]
        elif not any(kind.fullmatch(text) for kind in (_PREFIX_ADDED, _PREFIX_DELETED, _SEGMENT)):
            word = text.split(None, 1)[0][:20].decode("utf-8", "replace")
            known = text[:2] in (b"TX", b"TB", b"TC", b"TA", b"PA", b"PD") or text[:1] in b"HZ"
            reason = f"not a row of {word}" if known else f"{word!r} is none of H, TX, TC, TA, A, D, PA, PD"
            self.refuse(line, reason)

    def _stated_time(self, line: int, term: bytes) -> int:
        match = _TIME.fullmatch(term)
        try:
            if match is None:
                raise ValueError("the time is not a literal without escapes")
            return instant((match[1] if match[2] is None else match[2]).decode())
        except (ValueError, UnicodeDecodeError) as wrong:
            self.refuse(line, str(wrong))
            return _BAD_TIME

    def refuse(self, line: int, reason: str) -> None:
        """Note a line that is refused."""
        self.rejects.append(Reject(self.source, line + 1, 1, reason, self.shown(line)))

    def shown(self, line: int) -> str:
        """How a line begins."""
        return shown(self.text[int(self.start[line]) : int(self.start[line + 1])].rstrip(b"\r\n"))

    def times_at(self, lines: Ids, before: int) -> Ids:
        """The last time that is stated above each line."""
        heads = np.array([line for line, _ in self._heads], np.int64)
        times = np.array([before, *(time for _, time in self._heads)], np.int64)
        return times[np.searchsorted(heads, lines)]

    def last_time(self, before: int) -> int:
        """The time that the text leaves behind."""
        return self._heads[-1][1] if self._heads else before

    def as_quads(self, rows: Ids) -> bytes:
        """The text as N-Quads: of rows the terms, of other lines nothing."""
        quads = self.view.copy()
        other = np.ones(self.code.size, np.bool_)
        other[rows] = False
        first = self._first[other]
        plain = (quads[first] != _LF) & (quads[first] != _CR)
        quads[first[plain]] = _HASH
        quads[self._first[rows]] = _BLANK
        text = quads.tobytes()
        return _LABELLED.sub(_label, text) if b"<_:" in text else text


def _label(match: re.Match[bytes]) -> bytes:
    """A blank node in angle brackets without them, at its place."""
    return match[0] if match[1] is None else b" _:%s " % match[1]
