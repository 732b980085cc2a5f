"""Bytes of N-Triples or N-Quads to rows of ids: the fast path of the reader.

The law: every line that is neither blank nor a comment becomes a statement or an odd line. A statement is
kept as a row if the prune tables want it; only then are its terms hashed and entered into the arena. A line
with escapes is rewritten first (`scan_escapes`). An odd line is left to the complete path. What this path
accepts is what the complete path accepts, with the same canonical texts.

The bytes are a region [at, end) of whole lines, the last byte is LF or CR, and SLACK bytes beyond it are readable.
"""

from __future__ import annotations

from thalweg.kernels.arena import (
    COUNT,
    PENDING,
    RECORD,
    SCOPED,
    USED,
    copy,
    copy_later,
    crowded,
    find,
    put,
    put_all,
    put_later,
    write_scoped,
)
from thalweg.kernels.bits import SLACK, address, load8, load_word, mum, store8, store_word
from thalweg.kernels.checking import njit
from thalweg.kernels.hashing import hash64, mix, quick, same
from thalweg.kernels.scan_escapes import GROWTH, rewrite
from thalweg.kernels.scan_terms import (
    blanks_end,
    iri_end,
    label_end,
    line_end,
    next_line,
    string_end,
    tag_end,
)
from thalweg.kernels.times import NO_TIME, micros

# Places in `state`: counters that live through the calls of one read.
POS, LINES, STATEMENTS, ROWS, ODDS, UNNAMED, BLANKS, NEED = 0, 1, 2, 3, 4, 5, 6, 7

# Rows of `out`, one a column of the chunk: number, graph, subject, predicate, object, time.
NUMBER, G, S, P, O, TIME = 0, 1, 2, 3, 4, 5

# What a call ended with.
DONE, ROOM, FULL, ODD_FULL = 0, 1, 2, 3

# Places in `options`.
QUADS, MARKS, TRUSTED, SCOPE_MODE, SCOPE, OFFSET, TIME_SIZE = 0, 1, 2, 3, 4, 5, 6

# Scope modes: labels as they are, one scope for each line, one for the piece.
RAW, PER_LINE, PER_PIECE = 0, 1, 2

# Why a line is odd.
UNKNOWN, BAD_TIME, TOO_LONG = 0, 1, 2

# Kinds of a term: bytes that are canonical, a blank node that needs its scope, a literal whose tag has
# capitals.
_PLAIN, _BLANK, _CAPITALS = 0, 1, 2

# Bits of `wants`: a signature without constants, with an object, with a subject, with both.
ANY, OBJECT, SUBJECT, BOTH = 1, 2, 4, 8

LONGEST = 2**31
"""Bytes of a line beyond which it is refused: a record's size has 32 bits."""

MEMO = 256
"""Predicates whose ids are remembered during a read (a power of two)."""


@njit(cache=True, nogil=True)
def pair_key(predicate, s, o):
    """Key of (predicate number, subject hash or 0, object hash or 0) in the table of constants; never 0."""
    key = mum(s ^ 0x5851F42D4C957F2D, mix(o, predicate + 1))
    return key if key != 0 else 1


@njit(cache=True, nogil=True)
def _has(pairs, key):
    last = pairs.size - 1
    i = key & last
    while pairs[i] != 0:
        if pairs[i] == key:
            return True
        i = (i + 1) & last
    return False


@njit(cache=True, nogil=True)
def _agrees(wants, pairs, predicate, s, o):
    if wants & ANY:
        return True
    if wants & OBJECT and _has(pairs, pair_key(predicate, 0, o)):
        return True
    if wants & SUBJECT and _has(pairs, pair_key(predicate, s, 0)):
        return True
    return wants & BOTH != 0 and _has(pairs, pair_key(predicate, s, o))


@njit(cache=True, nogil=True)
def _predicate(table, texts_at, at, size, key):
    """Number of a wanted predicate, or 0; the rows of `table` are (key, offset of the text, size, number)."""
    last = table.shape[0] - 1
    i = key & last
    while table[i, 3] != 0:
        if table[i, 0] == key and table[i, 2] == size and same(texts_at + table[i, 1], at, size):
            return table[i, 3]
        i = (i + 1) & last
    return 0


@njit(cache=True, nogil=True)
def _settle(kind, at, size, tag, scope, tail):
    """Canonical text of a term: where its bytes are and how many; rewritten ones are put at `tail`."""
    if kind == _BLANK:
        return tail, write_scoped(tail, at, size, scope)
    if kind == _CAPITALS:
        copy(tail, at, size)
        for k in range(tag, size):
            c = load8(tail + k)
            if 0x41 <= c <= 0x5A:
                store8(tail + k, c | 0x20)
        return tail, size
    return at, size


_STRING = b"^^<http://www.w3.org/2001/XMLSchema#string>"
_LANG_STRING = b"^^<http://www.w3.org/1999/02/22-rdf-syntax-ns#langString>"
_STRING_SIZE, _LANG_STRING_SIZE = len(_STRING), len(_LANG_STRING)
_STRING_WORDS = tuple(int.from_bytes(_STRING[k : k + 8], "little", signed=True) for k in (3, 11, 19, 27, 34))
_LANG_STRING_WORDS = tuple(
    int.from_bytes(_LANG_STRING[k : k + 8], "little", signed=True) for k in (3, 11, 19, 27, 35, 43, 48)
)


@njit(cache=True, nogil=True)
def _is_string(p):
    """Whether the 43 bytes here, of which the first three and the last are known, are the datatype xsd:string."""
    return (
        load_word(p + 34) == _STRING_WORDS[4]
        and load_word(p + 27) == _STRING_WORDS[3]
        and load_word(p + 19) == _STRING_WORDS[2]
        and load_word(p + 11) == _STRING_WORDS[1]
        and load_word(p + 3) == _STRING_WORDS[0]
    )


@njit(cache=True, nogil=True)
def _is_lang_string(p):
    """Whether the 57 bytes here, of which the first three and the last are known, are the datatype rdf:langString."""
    return (
        load_word(p + 48) == _LANG_STRING_WORDS[6]
        and load_word(p + 43) == _LANG_STRING_WORDS[5]
        and load_word(p + 35) == _LANG_STRING_WORDS[4]
        and load_word(p + 27) == _LANG_STRING_WORDS[3]
        and load_word(p + 19) == _LANG_STRING_WORDS[2]
        and load_word(p + 11) == _LANG_STRING_WORDS[1]
        and load_word(p + 3) == _LANG_STRING_WORDS[0]
    )


@njit(cache=True, nogil=True)
def _literal(p, escapes):
    """A literal at p: (address after it or 0, size of its canonical text, kind, place of its tag)."""
    quote = string_end(p + 1, escapes)
    if quote == 0:
        return 0, 0, _PLAIN, 0
    q = quote + 1
    c = load8(q)
    if c == 0x5E:
        if load8(q + 1) != 0x5E or load8(q + 2) != 0x3C:
            return 0, 0, _PLAIN, 0
        end = iri_end(q + 2)
        if end == 0:
            return 0, 0, _PLAIN, 0
        if end - q == _STRING_SIZE and _is_string(q):
            return end, q - p, _PLAIN, 0
        if end - q == _LANG_STRING_SIZE and _is_lang_string(q):
            return 0, 0, _PLAIN, 0
        return end, end - p, _PLAIN, 0
    if c == 0x40:
        end, capitals = tag_end(q)
        return end, end - p, _CAPITALS if capitals else _PLAIN, q - p
    return q, q - p, _PLAIN, 0


@njit(cache=True, nogil=True)
def _finish(p):
    """Address of the next line if `.` is at p and only blanks or a comment follow it, else 0."""
    if load8(p) != 0x2E:
        return 0
    p += 1
    c = load8(p)
    if c == 0x0A:
        return p + 1
    p = blanks_end(p)
    if load8(p) == 0x23:
        p = line_end(p)
    c = load8(p)
    if c == 0x0A:
        return p + 1
    if c == 0x0D:
        return next_line(p)
    return 0


@njit(cache=True, nogil=True)
def scan(
    at,
    end,
    options,
    state,
    head,
    slots,
    log,
    table,
    wants,
    pairs,
    texts,
    time,
    memo,
    pending,
    scratch,
    out,
    odd,
):
    """Read lines from `at + state[POS]` on; gives DONE, or what it lacks to go on.

    Rows go to the columns of `out` (number, g, s, p, o, time), odd lines to the rows of `odd` (start, end,
    line, statements before, rows before, why).
    """
    slots_at = address(slots)
    log_at = address(log)
    texts_at = address(texts)
    time_at = address(time)
    last_slot = slots.size // 2 - 1
    quads = options[QUADS] != 0
    marks = options[MARKS] != 0
    trusted = options[TRUSTED] != 0
    scope_mode = options[SCOPE_MODE]
    time_size = options[TIME_SIZE]
    blank = _PLAIN if scope_mode == RAW else _BLANK
    wild = wants[0]
    lines = state[LINES]
    statements = state[STATEMENTS]
    rows = state[ROWS]
    odds = state[ODDS]
    capacity = out.shape[1]
    stride = 8 * capacity
    # The last subject and the last graph name: runs of one subject or graph are entered once.
    # Their ids are, or will be, in a cell of `out`.
    s_seen = g_seen = at
    s_seen_size = g_seen_size = 0
    out_at = address(out)
    s_cell = g_cell = out_at
    waiting = 0
    waiting_bytes = 0
    scope = mix(options[SCOPE], options[OFFSET])
    status = DONE
    scratch_at = address(scratch)
    longest = (scratch.size - SLACK) // GROWTH - 1
    # A line with escapes is scanned in a rewritten copy; `resume` is where the scan goes on after it, else 0.
    resume = 0
    escapes = trusted
    p = at + state[POS]
    origin = p
    while resume != 0 or p < end:
        line = p
        if resume == 0:
            origin = p
            lines += 1
        why = UNKNOWN
        # Every exit from this block that is not `continue` or the inner `break` at its end leaves an odd
        # line.
        while True:
            c = load8(p)
            if c == 0x20 or c == 0x09:
                p = blanks_end(p)
                c = load8(p)
            s_at = p
            s_kind = _PLAIN
            if c == 0x3C:
                p = iri_end(p)
            elif c == 0x5F:
                p = label_end(p, trusted)
                s_kind = blank
            else:
                if c == 0x23:
                    p = line_end(p)
                    c = load8(p)
                p = next_line(p) if c == 0x0A or c == 0x0D else 0
                if p != 0:
                    why = -1
                break
            if p == 0:
                break
            s_size = p - s_at
            p = blanks_end(p)
            p_at = p
            if load8(p) != 0x3C:
                p = 0
                break
            p = iri_end(p)
            if p == 0:
                break
            p_size = p - p_at
            p = blanks_end(p)
            o_at = p
            o_kind = _PLAIN
            tag = 0
            c = load8(p)
            if c == 0x3C:
                p = iri_end(p)
                o_size = p - o_at
            elif c == 0x22:
                p, o_size, o_kind, tag = _literal(p, escapes)
            elif c == 0x5F:
                p = label_end(p, trusted)
                o_kind = blank
                o_size = p - o_at
            else:
                p = 0
                o_size = 0
            if p == 0:
                break
            p = blanks_end(p)
            g_at = p
            g_size = 0
            if quads:
                c = load8(p)
                if c == 0x3C:
                    p = iri_end(p)
                    g_size = p - g_at
                elif c == 0x5F:
                    p = label_end(p, trusted)
                    g_size = p - g_at
                if p == 0:
                    break
                p = blanks_end(p)
            p = _finish(p)
            if p == 0:
                break

            if p - line > LONGEST:
                p = 0
                why = TOO_LONG
                break

            # The line is a statement. Is it wanted?
            key = quick(p_at, p_size)
            keep = True
            o_hash = 0
            settled_at = o_at
            settled_size = o_size
            instant = NO_TIME
            if p_size == time_size and same(time_at, p_at, p_size):
                if load8(o_at) == 0x22:
                    instant = micros(o_at + 1, string_end(o_at + 1, escapes) - o_at - 1)
                # Within a graph it is data, whatever the object.
                if instant == NO_TIME and g_size == 0:
                    p = 0
                    why = BAD_TIME
                    break
            if wild & ANY == 0:
                predicate = _predicate(table, texts_at, p_at, p_size, key)
                want = wants[predicate] if predicate != 0 else 0
                keep = (want | wild) != 0
            else:
                predicate = 0
                want = ANY
            # Lines that we wrote ourselves come from anywhere in the piece: each one names its graph.
            new_graph = (
                marks and g_size != 0 and (trusted or g_size != g_seen_size or not same(g_seen, g_at, g_size))
            )
            if keep or new_graph or instant != NO_TIME:
                need = p - line + 4 * (RECORD + SCOPED) + 256
                if rows == capacity:
                    status = FULL
                elif head[USED] + waiting_bytes + need > log.size or crowded(
                    head[COUNT] + waiting + 4, last_slot
                ):
                    status = ROOM
                    state[NEED] = need
                if status != DONE:
                    break
                if scope_mode == PER_LINE:
                    scope = mix(options[SCOPE], options[OFFSET] + origin - at)
                if keep:
                    settled_at, settled_size = _settle(
                        o_kind, o_at, o_size, tag, scope, log_at + head[USED] + RECORD
                    )
                    o_hash = hash64(settled_at, settled_size)
                    if (want | wild) & ANY == 0:
                        s_hash = 0
                        if (want | wild) & (SUBJECT | BOTH):
                            s_hash = hash64(s_at, s_size)
                        keep = _agrees(want, pairs, predicate, s_hash, o_hash) or _agrees(
                            wild, pairs, 0, s_hash, o_hash
                        )
                if keep or new_graph or instant != NO_TIME:
                    cell = out_at + 8 * rows
                    store_word(cell, statements)
                    store_word(cell + G * stride, 0)
                    store_word(cell + S * stride, 0)
                    store_word(cell + P * stride, 0)
                    store_word(cell + O * stride, 0)
                    store_word(cell + TIME * stride, instant)
                    rows += 1
                    if keep:
                        target = cell + O * stride
                        if o_kind == _PLAIN:
                            waiting = put_later(
                                pending, waiting, head, slots_at, last_slot,
                                settled_at, settled_size, o_hash, target,
                            )  # fmt: skip
                            waiting_bytes += settled_size + RECORD
                        else:
                            store_word(
                                target,
                                put(head, slots_at, last_slot, log_at, settled_at, settled_size, o_hash),
                            )
                        place = 4 * (key & (MEMO - 1))
                        if (
                            memo[place] != key
                            or memo[place + 1] != p_size
                            or not same(log_at + memo[place + 2], p_at, p_size)
                        ):
                            p_id = put(head, slots_at, last_slot, log_at, p_at, p_size, hash64(p_at, p_size))
                            memo[place] = key
                            memo[place + 1] = p_size
                            memo[place + 2] = find(slots_at, last_slot, p_id) + RECORD
                            memo[place + 3] = p_id
                        store_word(cell + P * stride, memo[place + 3])
                    if keep or instant != NO_TIME:
                        target = cell + S * stride
                        if s_size == s_seen_size and same(s_seen, s_at, s_size):
                            waiting = copy_later(pending, waiting, s_cell, target)
                        elif s_kind == _PLAIN:
                            waiting = put_later(
                                pending, waiting, head, slots_at, last_slot,
                                s_at, s_size, hash64(s_at, s_size), target,
                            )  # fmt: skip
                            waiting_bytes += s_size + RECORD
                            s_seen = s_at
                            s_seen_size = s_size
                            s_cell = target
                        else:
                            settled_at, settled_size = _settle(
                                s_kind, s_at, s_size, 0, scope, log_at + head[USED] + RECORD
                            )
                            s_hash = hash64(settled_at, settled_size)
                            store_word(
                                target,
                                put(head, slots_at, last_slot, log_at, settled_at, settled_size, s_hash),
                            )
                        if load8(s_at) == 0x5F:
                            state[BLANKS] += 1
                        if keep and load8(o_at) == 0x5F:
                            state[BLANKS] += 1
                    if g_size != 0:
                        target = cell + G * stride
                        if g_size == g_seen_size and not new_graph and same(g_seen, g_at, g_size):
                            waiting = copy_later(pending, waiting, g_cell, target)
                        else:
                            waiting = put_later(
                                pending, waiting, head, slots_at, last_slot,
                                g_at, g_size, hash64(g_at, g_size), target,
                            )  # fmt: skip
                            waiting_bytes += g_size + RECORD
                            g_seen = g_at
                            g_seen_size = g_size
                            g_cell = target
                    if waiting > PENDING - 4:
                        put_all(pending, waiting, head, slots_at, last_slot, log_at)
                        waiting = 0
                        waiting_bytes = 0
            if g_size == 0 and instant == NO_TIME:
                state[UNNAMED] += 1
            statements += 1
            why = -1
            break
        if status != DONE:
            lines -= 1
            p = origin
            break
        if why >= 0:
            stop = line_end(origin)
            if why == UNKNOWN and resume == 0 and not trusted and stop - origin <= longest:
                # Texts in the scratch that were noted before must be entered before it is written again.
                put_all(pending, waiting, head, slots_at, last_slot, log_at)
                waiting = 0
                waiting_bytes = 0
                if rewrite(origin, stop, scratch_at):
                    resume = next_line(stop)
                    escapes = True
                    p = scratch_at
                    continue
            if odds == odd.shape[0]:
                status = ODD_FULL
                lines -= 1
                p = origin
                break
            odd[odds, 0] = origin - at
            odd[odds, 1] = stop - at
            odd[odds, 2] = lines
            odd[odds, 3] = statements
            odd[odds, 4] = rows
            odd[odds, 5] = why
            odds += 1
            # It may be of another graph: the next line must name its graph again.
            g_seen_size = 0
            resume = next_line(stop)
        if resume != 0:
            p = resume
            resume = 0
            escapes = trusted
            # What was seen may lie in the scratch.
            s_seen_size = 0
            g_seen_size = 0
    put_all(pending, waiting, head, slots_at, last_slot, log_at)
    state[POS] = p - at
    state[LINES] = lines
    state[STATEMENTS] = statements
    state[ROWS] = rows
    state[ODDS] = odds
    return status
