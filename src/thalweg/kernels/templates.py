"""Cells of rows to terms: each term template is a sequence of texts and slots, written out for every row.

The law is R2RML's: a slot of an IRI template is percent-encoded (all that is not `iunreserved` in RFC 3987), a slot
of a literal is escaped as canonical N-Triples has it, and a whole cell that is an IRI stands as it is. A row without
one of the cells has no term (id 0). Texts that are no UTF-8, and cells that are no IRI, are faults of the row.
"""

from __future__ import annotations

from thalweg.kernels.arena import COUNT, PENDING, RECORD, USED, copy, crowded, put_all, put_later
from thalweg.kernels.bits import SLACK, address, copy64, ctz, load8, lshr, store8, string_stops
from thalweg.kernels.checking import njit
from thalweg.kernels.hashing import hash64
from thalweg.kernels.scan_escapes import write_canonical

TEXT, SAFE, STRING, WHOLE = 0, 1, 2, 3
"""Kinds of parts: a constant text, a slot of an IRI, a slot of a literal, a cell that is an IRI."""

NOT_UTF8, NOT_IRI, RELATIVE = 1, 2, 3
"""Faults of a cell: not UTF-8, a character that no IRI has, an IRI that is not absolute."""

TERM, ROW, NEED = 0, 1, 2
"""Places in the state of `build`: the next term and row, and the bytes that are missing."""

DONE, NO_ROOM, NO_SCRATCH = 0, 1, 2

GROWTH = 6
"""Bytes that one byte of a cell may become."""


@njit(cache=True, nogil=True)
def _character_end(p, end):
    """Address after the well-formed UTF-8 character of several bytes at p, or -1 if it is none, or not within `end`."""
    c = load8(p)
    second = load8(p + 1)
    if c < 0xC2 or c > 0xF4:
        return -1
    size = 2 if c < 0xE0 else 3 if c < 0xF0 else 4
    # No overlong forms, no surrogates, nothing beyond U+10FFFF.
    if (
        p + size > end
        or second & 0xC0 != 0x80
        or (c == 0xE0 and second < 0xA0)
        or (c == 0xED and second >= 0xA0)
        or (c == 0xF0 and second < 0x90)
        or (c == 0xF4 and second >= 0x90)
    ):
        return -1
    for k in range(2, size):
        if load8(p + k) & 0xC0 != 0x80:
            return -1
    return p + size


@njit(cache=True, nogil=True)
def _write_string(target, p, size):
    """Write a cell as the text of a literal; gives the address after it, or -1 if the cell is not UTF-8."""
    end = p + size
    while p < end:
        stops = string_stops(p)
        left = end - p
        copy64(target, p)
        if left < 64:
            stops &= lshr(-1, 64 - left)
        if stops == 0:
            step = min(left, 64)
            target += step
            p += step
            continue
        plain = ctz(stops)
        target += plain
        p += plain
        c = load8(p)
        if c < 0x80:
            target = write_canonical(target, c)
            p += 1
            continue
        while p < end and load8(p) >= 0x80:
            after = _character_end(p, end)
            if after < 0:
                return -1
            while p < after:
                store8(target, load8(p))
                target += 1
                p += 1
    return target


@njit(cache=True, nogil=True)
def _unreserved(c):
    letter = 0x61 <= c | 0x20 <= 0x7A
    return letter or 0x30 <= c <= 0x39 or c == 0x2D or c == 0x2E or c == 0x5F or c == 0x7E


@njit(cache=True, nogil=True)
def _code_point(p, size):
    """The code point of a valid character of so many bytes."""
    if size == 2:
        return (load8(p) & 0x1F) << 6 | load8(p + 1) & 0x3F
    if size == 3:
        return (load8(p) & 0x0F) << 12 | (load8(p + 1) & 0x3F) << 6 | load8(p + 2) & 0x3F
    return (
        (load8(p) & 0x07) << 18
        | (load8(p + 1) & 0x3F) << 12
        | (load8(p + 2) & 0x3F) << 6
        | load8(p + 3) & 0x3F
    )


@njit(cache=True, nogil=True)
def _is_ucschar(code):
    """Whether RFC 3987 has the code point among its `ucschar`."""
    if code < 0x10000:
        return 0xA0 <= code <= 0xD7FF or 0xF900 <= code <= 0xFDCF or 0xFDF0 <= code <= 0xFFEF
    return code & 0xFFFF <= 0xFFFD and code <= 0xEFFFD and not 0xE0000 <= code < 0xE1000


@njit(cache=True, nogil=True)
def _write_encoded(target, c):
    """Write a byte percent-encoded."""
    high = c >> 4
    low = c & 15
    store8(target, 0x25)
    store8(target + 1, high + (0x30 if high < 10 else 0x37))
    store8(target + 2, low + (0x30 if low < 10 else 0x37))
    return target + 3


@njit(cache=True, nogil=True)
def _write_safe(target, p, size):
    """Write a cell as a part of an IRI; gives the address after it, or -1 if the cell is not UTF-8."""
    end = p + size
    while p < end:
        c = load8(p)
        if c < 0x80:
            if _unreserved(c):
                store8(target, c)
                target += 1
            else:
                target = _write_encoded(target, c)
            p += 1
            continue
        after = _character_end(p, end)
        if after < 0:
            return -1
        kept = _is_ucschar(_code_point(p, after - p))
        while p < after:
            if kept:
                store8(target, load8(p))
                target += 1
            else:
                target = _write_encoded(target, load8(p))
            p += 1
    return target


@njit(cache=True, nogil=True)
def _scheme_within(p, size):
    """Whether a text begins with a scheme and its colon."""
    if size == 0 or not 0x61 <= load8(p) | 0x20 <= 0x7A:
        return False
    for k in range(size):
        c = load8(p + k)
        if c == 0x3A:
            return True
        if not (_unreserved(c) and c != 0x5F and c != 0x7E) and c != 0x2B:
            return False
    return False


@njit(cache=True, nogil=True)
def _fault_of_iri(p, size):
    """Why a cell is no IRI: 0 if it is one."""
    end = p + size
    while p < end:
        c = load8(p)
        if c >= 0x80:
            p = _character_end(p, end)
            if p < 0:
                return NOT_UTF8
            continue
        if c <= 0x20 or c == 0x22 or c == 0x3C or c == 0x3E or c == 0x5C or c == 0x5E or c == 0x60:
            return NOT_IRI
        if 0x7B <= c <= 0x7D:
            return NOT_IRI
        p += 1
    return 0


@njit(cache=True, nogil=True)
def build(
    n, terms, parts, texts, cells, sizes, kinds, suffixes, state, head, slots, log, scratch, pending, ids, bad
):
    """Enter the terms of all rows, and write their ids; 0 where a row has none.

    terms: the first part of each template, the part behind its last, and the column whose kind of value is the datatype
    (-1: none). parts: the kind; a text's offset and size, or a slot's column; for whole IRIs also the base's offset and
    size. kinds: for each cell which of `suffixes` (offset and size in `texts`) follows it. bad: for each row the fault
    and column of its first bad cell. It stops where the arena or the scratch has no room, and goes on from there.
    """
    texts_at = address(texts)
    scratch_at = address(scratch)
    ids_at = address(ids)
    while state[TERM] < terms.shape[0]:
        t = state[TERM]
        first, behind, natural = terms[t, 0], terms[t, 1], terms[t, 2]
        constant = 2 * SLACK
        for k in range(first, behind):
            constant += parts[k, 2] + parts[k, 4]
        for k in range(suffixes.shape[0]):
            constant += suffixes[k, 1]
        while state[ROW] < n:
            slots_at = address(slots)
            log_at = address(log)
            last = slots.size // 2 - 1
            r = state[ROW]
            target = scratch_at
            count = 0
            while r < n and count < PENDING:
                need = constant
                present = True
                for k in range(first, behind):
                    if parts[k, 0] != TEXT:
                        size = sizes[parts[k, 1], r]
                        if size < 0:
                            present = False
                            break
                        need += GROWTH * size
                if not present or bad[r, 0] != 0:
                    ids[t, r] = 0
                    r += 1
                    continue
                if target + need > scratch_at + scratch.size:
                    if count == 0:
                        state[NEED] = need
                        state[ROW] = r
                        return NO_SCRATCH
                    break
                begin = target
                for k in range(first, behind):
                    kind, a, b = parts[k, 0], parts[k, 1], parts[k, 2]
                    if kind == TEXT:
                        copy(target, texts_at + a, b)
                        target += b
                        continue
                    p, size = cells[a, r], sizes[a, r]
                    fault = NOT_UTF8
                    if kind == STRING:
                        after = _write_string(target, p, size)
                    elif kind == SAFE:
                        after = _write_safe(target, p, size)
                    else:
                        fault = _fault_of_iri(p, size)
                        if not _scheme_within(p, size):
                            if parts[k, 4] == 0 and fault == 0:
                                fault = RELATIVE
                            copy(target, texts_at + parts[k, 3], parts[k, 4])
                            target += parts[k, 4]
                        after = -1
                        if fault == 0:
                            copy(target, p, size)
                            after = target + size
                    if after < 0:
                        bad[r, 0] = fault
                        bad[r, 1] = a
                        break
                    target = after
                if bad[r, 0] != 0:
                    ids[t, r] = 0
                    target = begin
                    r += 1
                    continue
                if natural >= 0:
                    kind = kinds[natural, r]
                    copy(target, texts_at + suffixes[kind, 0], suffixes[kind, 1])
                    target += suffixes[kind, 1]
                size = target - begin
                count = put_later(
                    pending,
                    count,
                    head,
                    slots_at,
                    last,
                    begin,
                    size,
                    hash64(begin, size),
                    ids_at + 8 * (t * n + r),
                )
                r += 1
            size = target - scratch_at + count * RECORD + 4 * SLACK
            if crowded(head[COUNT] + count, last) or head[USED] + size > log.size:
                state[NEED] = size
                return NO_ROOM
            put_all(pending, count, head, slots_at, last, log_at)
            state[ROW] = r
        state[TERM] = t + 1
        state[ROW] = 0
    return DONE


@njit(cache=True, nogil=True)
def assemble(triples, ids, graph, time, op, accepted, columns):
    """Write the triples of the accepted rows, event by event, and give how many rows there are.

    triples: the places in `ids` of subject, predicate and object. A row without triples has one whose ids are 0.
    columns: number, g, s, p, o, time, op, with room for all.
    """
    event = 0
    k = 0
    for r in range(accepted.size):
        if not accepted[r]:
            continue
        begin = k
        for t in range(triples.shape[0]):
            s, p, o = ids[triples[t, 0], r], ids[triples[t, 1], r], ids[triples[t, 2], r]
            if s != 0 and p != 0 and o != 0:
                columns[2, k] = s
                columns[3, k] = p
                columns[4, k] = o
                k += 1
        if k == begin:
            columns[2, k] = 0
            columns[3, k] = 0
            columns[4, k] = 0
            k += 1
        for i in range(begin, k):
            columns[0, i] = event
            columns[1, i] = graph[r]
            columns[5, i] = time[r]
            columns[6, i] = op[r]
        event += 1
    return k
