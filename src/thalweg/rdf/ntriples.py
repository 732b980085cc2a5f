"""The line reader: N-Triples and N-Quads bytes to chunks of ids, by the scan kernel and the grammar."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from thalweg.kernels import scan as kernel
from thalweg.kernels.arena import PENDING
from thalweg.kernels.bits import SLACK
from thalweg.kernels.checking import address_of
from thalweg.kernels.hashing import mix
from thalweg.lines import last_end
from thalweg.rdf.arena import Arena, Bytes, Ids
from thalweg.rdf.chunk import Chunk, Reject
from thalweg.rdf.formats import FORMATS, GENERATED_AT, BlankNodes
from thalweg.rdf.grammar import Malformed, statement
from thalweg.rdf.prune import Prune
from thalweg.rdf.texts import Texts, unmarked, with_marks

_SMALL = 4096
"""Bytes up to which a piece is copied whole instead of being read in place."""
_BOM = b"\xef\xbb\xbf"
_SHOWN = 500
_REASONS = {
    kernel.BAD_TIME: "the object is not a time: expected an xsd:dateTime or milliseconds",
    kernel.TOO_LONG: "the line is longer than 2 GiB",
    kernel.UNKNOWN: "a valid statement that the reader cannot take in: please report this line as a bug",
}
_ODD_LINES = 1024
_MANY_ROWS = 1 << 15
"""Rows for which a reader keeps room, whether or not they come."""
_SCRATCH = 256 * 1024
"""Bytes for the rewritten copy of a line with escapes; a line too long for it goes to the complete path."""


def scope_of(name: str) -> int:
    """A number for a source or stream, the same in every process: what blank node scopes start from."""
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little", signed=True)


class LineReader:
    """Turns pieces of one source into chunks; it keeps nothing from piece to piece.

    Blank nodes: `stable` keeps labels as they are. With `event`, a statement of N-Triples is its own scope
    where per_event is 1; per_event 0 makes each piece one event; in all other cases (blocks, named graphs)
    the event is known only to the framer, which gives the scope later (`Chunk.bnodes` counts what waits for
    it).

    An empty time_predicate reads N-Quads as plain statements: no timestamps, and graphs are not events.

    >>> arena = Arena()
    >>> chunk = LineReader(arena, Prune.everything(), syntax="nt", source="doc").read(b'<a:s> <a:p> "o"@EN .')
    >>> chunk.statements, arena.texts(chunk.o)
    (1, ['"o"@en'])
    """

    def __init__(
        self,
        arena: Arena,
        prune: Prune,
        *,
        syntax: str,
        source: str,
        blank_nodes: BlankNodes = "event",
        per_event: int = 1,
        time_predicate: bytes = GENERATED_AT,
    ) -> None:
        if syntax not in FORMATS or not FORMATS[syntax].splittable:
            raise ValueError(f"not a line syntax: {syntax!r}")
        if blank_nodes not in ("event", "stable"):
            raise ValueError(f"blank nodes are scoped to an 'event' or 'stable', not {blank_nodes!r}")
        if per_event < 0:
            raise ValueError(f"an event of {per_event} statements")
        self.arena = arena
        self.prune = prune
        self.syntax = syntax
        self.source = source
        quads = FORMATS[syntax].has_graphs
        timed = quads and bool(time_predicate)
        if blank_nodes == "stable":
            scope = kernel.RAW
        elif per_event == 0:
            scope = kernel.PER_PIECE
        else:
            scope = kernel.PER_LINE if per_event == 1 and not timed else kernel.RAW
        self._awaits_scope = blank_nodes == "event" and scope == kernel.RAW
        self._per_piece = scope == kernel.PER_PIECE
        self._scope = scope_of(source)
        self._time_predicate = time_predicate if timed else b""
        self._options = np.zeros(8, dtype=np.int64)
        self._options[kernel.QUADS] = quads
        self._set_times(self._time_predicate)
        self._options[kernel.SCOPE_MODE] = scope
        self._options[kernel.SCOPE] = self._scope
        self._memo = np.zeros(4 * kernel.MEMO, dtype=np.int64)
        self._pending = np.zeros((PENDING, 4), dtype=np.int64)
        self._scratch = np.zeros(_SCRATCH, dtype=np.uint8)
        self._out = np.empty((6, 256), dtype=np.int64)
        self._odd = np.empty((_ODD_LINES, 6), dtype=np.int64)
        self._make_pad(_SMALL + SLACK)

    def _make_pad(self, size: int) -> None:
        """Makes the array that ends of pieces are copied to. Its address is kept: NumPy takes long for it."""
        self._pad = np.zeros(size + SLACK, dtype=np.uint8)
        self._pad_at = address_of(self._pad)

    def read(self, data: bytes | memoryview | Bytes, *, offset: int = 0) -> Chunk:
        """Read whole lines (the last may lack its end); `offset` is where the data begins in the source."""
        view = np.frombuffer(data, dtype=np.uint8)
        self._memo[:] = 0
        run = _Run(self, offset)
        start = 3 if offset == 0 and view[:3].tobytes() == _BOM else 0
        cut = _safe_end(view, start)
        if cut > start:
            run.region(view, address_of(view), start, cut, offset)
        if cut < view.size:
            # The rest is read from a copy that has slack and a last line end.
            size = view.size - cut
            if size + 1 + SLACK > self._pad.size:
                self._make_pad(2 * size + 1)
            self._pad[:size] = view[cut:]
            if view.item(-1) != 0x0A:
                self._pad[size] = 0x0A
                size += 1
            run.region(self._pad, self._pad_at, 0, size, offset + cut)
        chunk = run.chunk()
        self._give_back(len(chunk), view.size - cut)
        return chunk

    def read_texts(self, texts: Sequence[bytes], sources: Sequence[str]) -> Texts:
        """Read several texts at once, each behind a mark that nobody who writes texts can guess."""
        mark = f"<urn:uuid:{uuid.uuid4()}>".encode()
        predicate = self._time_predicate or mark
        self._set_times(predicate)
        try:
            chunk = self.read(with_marks(texts, mark, predicate), offset=1)
        finally:
            self._set_times(self._time_predicate)
        return unmarked(chunk, self.arena.find(mark), texts, sources)

    def _set_times(self, predicate: bytes) -> None:
        """Take statements with this predicate as times; none if it is empty."""
        self._time = np.zeros(len(predicate) + SLACK, dtype=np.uint8)
        self._time[: len(predicate)] = np.frombuffer(predicate, dtype=np.uint8)
        self._options[kernel.MARKS] = bool(predicate)
        self._options[kernel.TIME_SIZE] = len(predicate)

    def _give_back(self, rows: int, rest: int) -> None:
        """Return memory that one large piece or one long line has needed."""
        if self._out.shape[1] > max(_MANY_ROWS, 8 * rows):
            self._out = np.empty((6, 256), dtype=np.int64)
        if self._pad.size > max(_SCRATCH, 8 * rest):
            self._make_pad(_SMALL + SLACK)


class _Run:
    """One read under way: the counters, the rows so far, and the odd lines with their texts."""

    def __init__(self, reader: LineReader, offset: int) -> None:
        self.reader = reader
        self.offset = offset
        self.state = np.zeros(8, dtype=np.int64)
        self.odd: list[NDArray[np.int64]] = []
        self.texts: list[bytes] = []
        self.scopes: list[int] = []

    def region(self, view: Bytes, address: int, start: int, end: int, offset: int) -> None:
        """Scan bytes [start, end) of a view that is readable beyond; `offset` is where the view begins."""
        reader = self.reader
        reader._options[kernel.OFFSET] = self.offset if reader._per_piece else offset + start
        self.state[kernel.POS] = 0
        while True:
            status = self._scan(address + start, address + end, reader._options)
            if status == kernel.DONE or status == kernel.ODD_FULL:
                self._collect(view[start:])
            if status == kernel.DONE:
                return

    def _scan(self, at: int, end: int, options: Ids) -> int:
        """Call the kernel until it is done or has too many odd lines; make room where it needs it."""
        reader, prune = self.reader, self.reader.prune
        while True:
            arena = reader.arena
            status: int = kernel.scan(
                at, end, options, self.state, arena.head, arena.slots, arena.log,
                prune.table, prune.wants, prune.pairs, prune.texts,
                reader._time, reader._memo, reader._pending, reader._scratch, reader._out, reader._odd,
            )  # fmt: skip
            if status == kernel.ROOM:
                arena.reserve(max(64, len(arena)), int(self.state[kernel.NEED]))
            elif status == kernel.FULL:
                wider = np.empty((6, max(1024, 2 * reader._out.shape[1])), dtype=np.int64)
                wider[:, : reader._out.shape[1]] = reader._out
                reader._out = wider
            else:
                return status

    def _collect(self, view: Bytes) -> None:
        """Take the odd lines that the kernel noted, with their texts."""
        count = self.state.item(kernel.ODDS)
        if count == 0:
            return
        noted = self.reader._odd[:count].copy()
        options = self.reader._options
        for start, stop, *_ in noted.tolist():
            self.texts.append(view[start:stop].tobytes())
            place = start if options[kernel.SCOPE_MODE] == kernel.PER_LINE else 0
            self.scopes.append(int(options[kernel.OFFSET]) + place)
        self.odd.append(noted)
        self.state[kernel.ODDS] = 0

    def chunk(self) -> Chunk:
        """Everything that was read, with what the complete path made of the odd lines."""
        state = self.state.tolist()
        columns = list(self.reader._out[:, : state[kernel.ROWS]].copy())
        statements, lines = state[kernel.STATEMENTS], state[kernel.LINES]
        rejects: tuple[Reject, ...] = ()
        if self.odd:
            odd = np.concatenate(self.odd)
            columns, accepted, rejects = self._complete(odd, columns)
            statements += accepted
            state = self.state.tolist()
        number, g, s, p, o, time = columns
        return Chunk(
            statements=statements,
            lines=lines,
            number=number,
            g=g,
            s=s,
            p=p,
            o=o,
            time=time,
            bnodes=state[kernel.BLANKS] if self.reader._awaits_scope else 0,
            rejects=rejects,
            unnamed=state[kernel.UNNAMED],
            blanks=state[kernel.BLANKS],
            source=self.reader.source,
        )

    def _complete(self, odd: Ids, columns: list[Ids]) -> tuple[list[Ids], int, tuple[Reject, ...]]:
        """Rewrite the odd lines in canonical form, scan that, and put the rows where they belong."""
        reader = self.reader
        refused: dict[int, tuple[int, str]] = {}
        canonical: list[bytes] = []
        origin: list[int] = []
        scoped = reader._options[kernel.SCOPE_MODE] != kernel.RAW
        for k, line in enumerate(self.texts):
            if odd[k, 5] == kernel.TOO_LONG:
                refused[k] = 1, _REASONS[kernel.TOO_LONG]
                continue
            name = _Scope(reader._scope, self.scopes[k]) if scoped else None
            try:
                canonical.append(statement(line, quads=bool(reader._options[kernel.QUADS]), scoped=name))
                origin.append(k)
            except Malformed as fault:
                refused[k] = fault.column, fault.reason
        lines = int(self.state[kernel.LINES])
        unread = self._scan_canonical(b"".join(canonical)) if canonical else []
        for place, why in unread:
            refused[origin[place]] = 1, _REASONS[why]
        kept = np.array([k for k in origin if k not in refused], dtype=np.int64)
        rows = int(self.state[kernel.ROWS])
        found = [column[:rows] for column in reader._out]
        self.state[kernel.LINES] = lines

        if kept.size:
            # A row of the fast path moves up by the accepted odd lines before it.
            columns[0] += np.searchsorted(odd[kept, 4], np.arange(columns[0].size), side="right")
            which = found[0]
            found[0] = odd[kept[which], 3] + which
            columns = _insert(columns, odd[kept[which], 4], found)
        rejects = tuple(
            Reject(
                source=reader.source,
                line=int(odd[k, 2]),
                column=refused[k][0],
                reason=refused[k][1],
                text=self.texts[k][: 4 * _SHOWN].decode("utf-8", "replace")[:_SHOWN],
            )
            for k in sorted(refused)
        )
        return columns, int(kept.size), rejects

    def _scan_canonical(self, text: bytes) -> list[tuple[int, int]]:
        """Scan our own canonical lines, from row 0 on; gives the places of those that are refused, and why."""
        data = np.frombuffer(text + bytes(SLACK), dtype=np.uint8)
        options = self.reader._options.copy()
        options[kernel.TRUSTED] = 1
        options[kernel.SCOPE_MODE] = kernel.RAW
        for place in (kernel.POS, kernel.LINES, kernel.STATEMENTS, kernel.ROWS):
            self.state[place] = 0
        unread: list[tuple[int, int]] = []
        address = address_of(data)
        status = -1
        while status != kernel.DONE:
            status = self._scan(address, address + len(text), options)
            odd = self.reader._odd[: int(self.state[kernel.ODDS])].tolist()
            unread += ((line - 1, why) for _, _, line, _, _, why in odd)
            self.state[kernel.ODDS] = 0
        return unread


class _Scope:
    """Canonical texts of the blank nodes of one event."""

    def __init__(self, scope: int, place: int) -> None:
        self.scope = scope
        self.place = place

    def __call__(self, label: str) -> str:
        return f"_:e{mix(self.scope, self.place) & (2**64 - 1):016x}-{label}"


def _insert(columns: list[Ids], before: Ids, rows: list[Ids]) -> list[Ids]:
    """The columns with rows put in; `before` has for each one (in order) the old row that it precedes."""
    if before.size == 0:
        return columns
    places = before + np.arange(before.size)
    old = np.ones(columns[0].size + before.size, dtype=np.bool_)
    old[places] = False
    merged = []
    for column, new in zip(columns, rows, strict=True):
        whole = np.empty(old.size, dtype=np.int64)
        whole[places] = new
        whole[old] = column
        merged.append(whole)
    return merged


def _safe_end(view: Bytes, start: int) -> int:
    """End of the last line that has SLACK bytes after it, or `start`: what can be read in place."""
    if view.size <= _SMALL:
        return start
    end = view.size - SLACK
    reach = 1024
    while True:
        low = max(start, end - reach)
        tail = view[low:end].tobytes()
        cut = last_end(tail, 0, len(tail))
        if cut:
            return low + cut
        if low == start:
            return start
        reach *= 8
