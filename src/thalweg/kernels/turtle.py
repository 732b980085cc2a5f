"""Turtle and TriG to lines of N-Quads: the fast path of the document reader.

The law: what is translated is what the complete path makes of the same statement, up to the labels of nodes without a
label and the order of a statement's triples. A statement that this path does not cover, whatever the reason, is left
alone: the call ends before it (`STOP`), with nothing written of it. So is one that the data ends in.

The bytes are a region [at, end); behind it are a line feed and zeros, SLACK of them at least.
"""

from __future__ import annotations

from thalweg.kernels.arena import copy
from thalweg.kernels.bits import SLACK, address, load8, load_word, store8
from thalweg.kernels.checking import njit
from thalweg.kernels.scan_terms import label_end, string_end, tag_end
from thalweg.kernels.turtle_terms import (
    IRI,
    IRI_SIZE,
    colon_of,
    find_prefix,
    goes_on,
    iri_or_relative,
    is_name,
    local_end,
    number_end,
    space_end,
    text_end,
    write_decimal,
    write_name,
    write_text,
)

# Places in `state`. GRAPH is the size of the name of the block that is open: 0 for one without a name, -1 for none.
POS, OUT, ROWS, NODES, GRAPH = 0, 1, 2, 3, 4

# What a call ended with: all is translated, the next statement is not covered, there is no room for it.
DONE, STOP, FULL = 0, 1, 2

# Places in `options`: whether there are graphs, whether the data ends the document, sizes of the label of nodes, of the
# base without its fragment, and of its folder; their texts follow each other in `fixed`, after the constants.
TRIG, LAST, LABEL_SIZE, BASE_SIZE, FOLDER_SIZE = 0, 1, 2, 3, 4

_RDF = b"http://www.w3.org/1999/02/22-rdf-syntax-ns#"
_XSD = b'"^^<http://www.w3.org/2001/XMLSchema#'
_CONSTANTS = (
    *(b"<%s%s>" % (_RDF, name) for name in (b"type", b"first", b"rest", b"nil")),
    *(b"%s%s>" % (_XSD, name) for name in (b"integer", b"decimal", b"double", b"boolean")),
)
CONSTANTS = b"".join(_CONSTANTS)
"""What `fixed` begins with."""
_SIZES = tuple(map(len, _CONSTANTS))
_STARTS = tuple(sum(_SIZES[:k]) for k in range(len(_SIZES)))
_TYPE, _FIRST, _REST, _NIL = _STARTS[:4]
_TYPE_SIZE, _FIRST_SIZE, _REST_SIZE, _NIL_SIZE = _SIZES[:4]
_BOOLEAN, _BOOLEAN_SIZE = _STARTS[7], _SIZES[7]
_ALL = len(CONSTANTS)

# What is read next, and kinds of brackets that are open.
_PREDICATE, _OBJECT, _AFTER = 0, 1, 2
_SUBJECT_LIST, _OBJECT_LIST, _COLLECTION = 0, 1, 2

DEPTH = 64
"""Brackets in brackets that are covered."""
LONGEST = 1 << 14
"""Bytes of a subject, predicate or graph name that are covered."""
_TERMS = 2 * (DEPTH + 2) * (LONGEST + SLACK)
TERMS = _TERMS
"""Bytes of the array for subjects and predicates."""

_GRAPH_WORD = int.from_bytes(b"graph", "little")
_FIVE = (1 << 40) - 1
_LOWER = 0x2020202020
_TRUE = int.from_bytes(b"true", "little")
_FOUR = (1 << 32) - 1
_FALSE = int.from_bytes(b"false", "little")


@njit(cache=True, nogil=True)
def _resource(p, target, prefixes, texts_at, fixed_at, options):
    """Write the IRI, as `<...>` or as a prefixed name, at p; gives (address after it or 0, after what was written)."""
    c = load8(p)
    if c == 0x3C:
        q, relative = iri_or_relative(p)
        if q == 0 or q - p > LONGEST:
            return 0, 0
        if relative == 0:
            copy(target, p, q - p)
            return q, target + q - p
        base = fixed_at + _ALL + options[LABEL_SIZE]
        size = options[BASE_SIZE]
        if relative == 2:
            base += size
            size = options[FOLDER_SIZE]
        if size == 0:
            return 0, 0
        return q, write_name(target, base, size, p + 1, q - p - 2, False)
    colon = colon_of(p)
    if load8(colon) != 0x3A:
        return 0, 0
    row = find_prefix(prefixes, texts_at, p, colon - p)
    if row < 0:
        return 0, 0
    q, escapes = local_end(colon + 1)
    if q == 0 or q - colon + prefixes[row, IRI_SIZE] > LONGEST:
        return 0, 0
    end = write_name(
        target, texts_at + prefixes[row, IRI], prefixes[row, IRI_SIZE], colon + 1, q - colon - 1, escapes
    )
    return q, end


@njit(cache=True, nogil=True)
def _node(target, fixed_at, size, number):
    """Write the label of a new node; gives the address after it."""
    copy(target, fixed_at + _ALL, size)
    return write_decimal(target + size, number)


@njit(cache=True, nogil=True)
def _begin(target, s_at, s_size, p_at, p_size):
    """Write a subject and a predicate; gives the address for the object."""
    copy(target, s_at, s_size)
    target += s_size
    store8(target, 0x20)
    copy(target + 1, p_at, p_size)
    target += 1 + p_size
    store8(target, 0x20)
    return target + 1


@njit(cache=True, nogil=True)
def _finish(target, g_at, g_size):
    """Write the graph and the end of a line; gives the address after it."""
    store8(target, 0x20)
    target += 1
    if g_size > 0:
        copy(target, g_at, g_size)
        target += g_size
        store8(target, 0x20)
        target += 1
    store8(target, 0x2E)
    store8(target + 1, 0x0A)
    return target + 2


@njit(cache=True, nogil=True)
def _extent(p, end):
    """A string at p: (address of the quote that closes it or 0, whether it is long, whether it is canonical)."""
    quote = load8(p)
    long = load8(p + 1) == quote and load8(p + 2) == quote
    if quote == 0x22 and not long:
        closing = string_end(p + 1, False)
        if closing != 0:
            return closing, False, True
    return text_end(p + 3 if long else p + 1, end, quote, long), long, False


@njit(cache=True, nogil=True)
def _literal(p, closing, long, plain, target, prefixes, texts_at, fixed_at, options):
    """Write the literal at p; gives (address after it or 0, after what was written)."""
    if plain:
        copy(target, p, closing - p)
        target += closing - p
    else:
        store8(target, 0x22)
        target = write_text(p + 3 if long else p + 1, closing, target + 1)
        if target == 0:
            return 0, 0
    q = closing + 3 if long else closing + 1
    store8(target, 0x22)
    target += 1
    c = load8(q)
    if c == 0x40:
        after, _ = tag_end(q)
        if after == 0 or after - q > LONGEST or goes_on(load8(after)):
            return 0, 0
        copy(target, q, after - q)
        return after, target + after - q
    if c == 0x5E:
        if load8(q + 1) != 0x5E:
            return 0, 0
        store8(target, c)
        store8(target + 1, c)
        return _resource(q + 2, target + 2, prefixes, texts_at, fixed_at, options)
    return q, target


@njit(cache=True, nogil=True)
def _truth(p):
    """Size of the word true or false at p, or 0."""
    word = load_word(p)
    size = 0
    if word & _FOUR == _TRUE:
        size = 4
    elif word & _FIVE == _FALSE:
        size = 5
    c = load8(p + size)
    # A dot that a name follows may be one of a prefix.
    if goes_on(c) or (c == 0x2E and is_name(load8(p + size + 1))):
        return 0
    return size


@njit(cache=True, nogil=True)
def _is_graph(p):
    return (load_word(p) | _LOWER) & _FIVE == _GRAPH_WORD and not goes_on(load8(p + 5))


@njit(cache=True, nogil=True)
def translate(at, end, options, state, prefixes, texts, fixed, graph, terms, frames, out, origins):
    """Translate statements from `at + state[POS]` on; gives DONE, or why it ended before a statement.

    Lines go to `out` from `state[OUT]` on, and for each the offset of its object to `origins`.
    """
    texts_at = address(texts)
    fixed_at = address(fixed)
    g_at = address(graph)
    terms_at = address(terms)
    out_at = address(out)
    limit = out_at + out.size - SLACK
    trig = options[TRIG] != 0
    last = options[LAST] != 0
    label_size = options[LABEL_SIZE]
    target = out_at + state[OUT]
    rows = state[ROWS]
    nodes = state[NODES]
    g_size = state[GRAPH]
    # What a line may need beside its object.
    most = 3 * (LONGEST + SLACK)
    p = at + state[POS]
    status = DONE
    while True:
        start = p
        first_row = rows
        first_node = nodes
        first_target = target
        p = space_end(p, end)
        if p >= end:
            if not last:
                p = start  # a comment may go on
            break
        status = STOP
        c = load8(p)
        s_at = terms_at
        tail = s_at
        depth = 0
        step = _PREDICATE
        named = False
        # The subject, and in TriG what opens and closes blocks. Every `break` from here on leaves the statement alone.
        if c == 0x7D:
            if g_size < 0:
                break
            g_size = -1
            p += 1
            status = DONE
            continue
        if c == 0x7B:
            if not trig or g_size >= 0:
                break
            g_size = 0
            p += 1
            status = DONE
            continue
        if trig and g_size < 0 and c | 0x20 == 0x67 and _is_graph(p):
            named = True
            p = space_end(p + 5, end)
            c = load8(p)
        if c == 0x5F:
            q = label_end(p, False)
            if q == 0 or q - p > LONGEST:
                break
            copy(tail, p, q - p)
            tail += q - p
        elif c == 0x5B:
            q = space_end(p + 1, end)
            tail = _node(tail, fixed_at, label_size, nodes)
            nodes += 1
            if load8(q) == 0x5D:
                q += 1
            elif named:
                break
            else:
                frames[0, 0] = _SUBJECT_LIST
                frames[0, 5] = tail
                depth = 1
        else:
            q, tail = _resource(p, tail, prefixes, texts_at, fixed_at, options)
            if q == 0:
                break
        p = q
        s_size = tail - s_at
        if trig and g_size < 0 and depth == 0:
            q = space_end(p, end)
            if q < end and load8(q) == 0x7B:
                copy(g_at, s_at, s_size)
                g_size = s_size
                p = q + 1
                status = DONE
                continue
            if named:
                break
        p_at = tail
        p_size = 0
        done = False
        while True:
            p = space_end(p, end)
            if p >= end:
                break
            c = load8(p)
            if step == _PREDICATE:
                if c == 0x61 and not goes_on(load8(p + 1)) and load8(p + 1) != 0x2E:
                    p_at = fixed_at + _TYPE
                    p_size = _TYPE_SIZE
                    p += 1
                else:
                    p_at = tail
                    p, q = _resource(p, p_at, prefixes, texts_at, fixed_at, options)
                    if p == 0:
                        break
                    p_size = q - p_at
                step = _OBJECT
            elif step == _OBJECT:
                origin = p - at
                if target + most > limit or rows >= origins.size:
                    status = FULL
                    break
                target = _begin(target, s_at, s_size, p_at, p_size)
                step = _AFTER
                opened = -1
                if c == 0x22 or c == 0x27:
                    closing, long, plain = _extent(p, end)
                    if closing == 0:
                        break
                    if target + (1 if plain else 6) * (closing - p) + most > limit:
                        status = FULL
                        break
                    p, target = _literal(
                        p, closing, long, plain, target, prefixes, texts_at, fixed_at, options
                    )
                    if p == 0:
                        break
                elif c == 0x5F:
                    q = label_end(p, False)
                    if q == 0 or q - p > LONGEST:
                        break
                    copy(target, p, q - p)
                    target += q - p
                    p = q
                elif c == 0x5B or c == 0x28:
                    p = space_end(p + 1, end)
                    closing = load8(p)
                    if c == 0x28 and closing == 0x29:
                        copy(target, fixed_at + _NIL, _NIL_SIZE)
                        target += _NIL_SIZE
                        p += 1
                    else:
                        begun = target
                        target = _node(target, fixed_at, label_size, nodes)
                        nodes += 1
                        if c == 0x5B and closing == 0x5D:
                            p += 1
                        else:
                            if depth == DEPTH:
                                break
                            opened = _COLLECTION if c == 0x28 else _OBJECT_LIST
                            frames[depth, 0] = opened
                            frames[depth, 1] = s_at
                            frames[depth, 2] = s_size
                            frames[depth, 3] = p_at
                            frames[depth, 4] = p_size
                            frames[depth, 5] = tail
                            depth += 1
                            # The new subject lies behind the predicate, which is needed again.
                            if p_at == tail:
                                tail = p_at + p_size
                            s_at = tail
                            s_size = target - begun
                            copy(s_at, begun, s_size)
                            tail = s_at + s_size
                            step = _PREDICATE
                            if opened == _COLLECTION:
                                p_at = fixed_at + _FIRST
                                p_size = _FIRST_SIZE
                                step = _OBJECT
                elif 0x30 <= c <= 0x39 or c == 0x2B or c == 0x2D or c == 0x2E:
                    q, kind = number_end(p)
                    if q == 0 or q - p > LONGEST:
                        break
                    store8(target, 0x22)
                    copy(target + 1, p, q - p)
                    target += 1 + q - p
                    copy(target, fixed_at + _STARTS[3 + kind], _SIZES[3 + kind])
                    target += _SIZES[3 + kind]
                    p = q
                else:
                    size = _truth(p)
                    if size != 0:
                        store8(target, 0x22)
                        copy(target + 1, p, size)
                        copy(target + 1 + size, fixed_at + _BOOLEAN, _BOOLEAN_SIZE)
                        target += 1 + size + _BOOLEAN_SIZE
                        p += size
                    else:
                        p, target = _resource(p, target, prefixes, texts_at, fixed_at, options)
                        if p == 0:
                            break
                target = _finish(target, g_at, g_size)
                origins[rows] = origin
                rows += 1
            elif depth > 0 and frames[depth - 1, 0] == _COLLECTION:
                if target + most > limit or rows >= origins.size:
                    status = FULL
                    break
                line = _begin(target, s_at, s_size, fixed_at + _REST, _REST_SIZE)
                origins[rows] = p - at
                rows += 1
                if c == 0x29:
                    copy(line, fixed_at + _NIL, _NIL_SIZE)
                    target = _finish(line + _NIL_SIZE, g_at, g_size)
                    depth -= 1
                    s_at = frames[depth, 1]
                    s_size = frames[depth, 2]
                    p_at = frames[depth, 3]
                    p_size = frames[depth, 4]
                    tail = frames[depth, 5]
                    p += 1
                else:
                    begun = line
                    line = _node(line, fixed_at, label_size, nodes)
                    nodes += 1
                    s_size = line - begun
                    copy(s_at, begun, s_size)
                    tail = s_at + s_size
                    target = _finish(line, g_at, g_size)
                    step = _OBJECT
            elif c == 0x2C:
                p += 1
                step = _OBJECT
            else:
                if c == 0x3B:
                    while c == 0x3B:
                        p = space_end(p + 1, end)
                        c = load8(p)
                    if p >= end:
                        break
                    if c != 0x2E and c != 0x5D and c != 0x7D:
                        step = _PREDICATE
                        continue
                if c == 0x5D:
                    if depth == 0:
                        break
                    depth -= 1
                    p += 1
                    if frames[depth, 0] == _OBJECT_LIST:
                        s_at = frames[depth, 1]
                        s_size = frames[depth, 2]
                        p_at = frames[depth, 3]
                        p_size = frames[depth, 4]
                        tail = frames[depth, 5]
                        continue
                    # The subject may stand alone.
                    tail = frames[depth, 5]
                    p = space_end(p, end)
                    if p >= end:
                        break
                    c = load8(p)
                    if c != 0x2E and c != 0x7D:
                        step = _PREDICATE
                        continue
                if depth > 0:
                    break
                if c == 0x2E:
                    p += 1
                    done = p < end or last  # else a number may go on behind the dot
                elif c == 0x7D and g_size >= 0:
                    done = True
                break
        if not done:
            break
        status = DONE
    if status != DONE:
        p = start
        rows = first_row
        nodes = first_node
        target = first_target
    state[POS] = p - at
    state[OUT] = target - out_at
    state[ROWS] = rows
    state[NODES] = nodes
    state[GRAPH] = g_size
    return status
