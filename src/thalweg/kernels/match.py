"""The incremental matcher: one kernel that interprets the delta plans of all queries.

A triple that arrives is inserted into the stores of its stream. For each pattern i that it fits, the pattern's
delta plan is run: the other patterns, depth first, each step probing one index. The order is laid out beforehand; only
where a step has many candidates, the other patterns that could come next are asked how many they have (see `choose`).
Pattern j < i may use the new row itself, j > i only other rows, so that a solution is found once: at the
last of its rows to arrive. A solution lives in [max(from), min(to)) of its rows (SEMANTICS 2 and 3).

A delete runs the same plans for the row that it ends, with weight -1, for the rest of the row's life; then the row's
interval is cut. A triple that came again and again has several rows to end, one after the other.

The kernel can stop anywhere, when its output is full or a store has to grow, and goes on where it was: all
loops keep their position in `cursor`, `stack`, `ranges` and `bound`.

Rows are read without a check of their number, so none may be read that is not in its ring. Only `insert` and `doomed`,
between two searches, move a TAIL or ask for room; other plans and restored windows come between two batches, where
there is no search either. Within a search HEAD and TAIL stay, so what it keeps stays in the ring; the end of a chain
or what is older than TAIL is told by its number before it is read (where a level ends, after a delete, in `reaches`).
"""

from __future__ import annotations

import numpy as np
from numba import njit

from thalweg.kernels.memory import load64, store64
from thalweg.kernels.store import (
    ALL,
    DELETE,
    FIELDS,
    FULL_ROWS,
    HEAD,
    INSERT,
    KIND,
    NEVER,
    NOW,
    ROW_FROM,
    ROW_O,
    ROW_P,
    ROW_S,
    ROW_TO,
    SPO,
    TAIL,
    descriptor,
    doomed,
    expect,
    first_instant,
    insert,
    newest,
    older_row,
    row_address,
)

# Columns of an entry: a pattern of a query as the start of a delta plan.
ENTRY_PATTERN, ENTRY_NODE, ENTRY_OTHERS, ENTRY_TERMS = 0, 1, 2, 3
ENTRY_CELLS = ENTRY_TERMS + 6

# Columns of a node (a set of matched patterns): its steps, best first; where the list of its bound parameters begins,
# or -1. A node without steps is a solution: without parameters, of these members (units).
NODE_FIRST, NODE_STEPS, NODE_PARAMETERS, NODE_MEMBERS, NODE_COUNT = range(5)
NODE_CELLS = 5

# Columns of a step: another pattern, the index by which it is probed, the node that it leads to, and whether it
# binds parameters.
STEP_STORE, STEP_KIND, STEP_PATTERN, STEP_NODE, STEP_CHECKS, STEP_TERMS = range(6)
STEP_CELLS = STEP_TERMS + 6

# Columns of the table of values that the parameters of a node may have (open addressing): where the values are, and
# the members that they belong to, if the node is a solution.
KNOWN_KEY, KNOWN_VALUES, KNOWN_FIRST, KNOWN_COUNT = range(4)
KNOWN_CELLS = 4

# How a position of a pattern meets a term: (mode, value) pairs for s, p, o from *_TERMS on.
CONSTANT, BOUND, BIND = 0, 1, 2

# Columns of the dispatch table: open addressing by signature. Every predicate that some pattern names has the
# entry of its own signature, which says by which other masks of constants a triple must be looked up.
DISPATCH_KEY, DISPATCH_FIRST, DISPATCH_COUNT, DISPATCH_INDEXES, DISPATCH_MASKS = range(5)
DISPATCH_CELLS = 5
PREDICATE = 2  # the mask of signatures with a constant predicate and nothing else

# Columns of a solution; its bindings follow.
OUT_UNIT, OUT_WEIGHT, OUT_FROM, OUT_TO, OUT_GRAPH, OUT_BINDINGS = range(6)

# What the kernel works with: the addresses of the arrays of a program and of a matcher, and their sizes. Numba takes
# time for each array that it is called with, and counts references to each that it passes on.
(
    STORES, FEEDS, FEEDS_WIDTH, WILD, DISPATCH, DISPATCH_LAST, ENTRIES, NODES, STEPS, OTHERS, OUTPUTS, OUTPUTS_SIZE,
    PARAMETERS, KNOWN, KNOWN_LAST, VALUES, MEMBERS, FAN, UNTIL, STACK, OUTLOOK, VARIABLES, OUT, OUT_SIZE, OUT_ROOM,
) = range(25)  # fmt: skip
CONTEXT_CELLS = 25

# Where the kernel stands.
AT_ROW, AT_FEED, AT_RANGE, RANGES, AT_ENTRY, LEVEL, NUMBER, WRITTEN, DETAIL = range(9)
CURSOR_CELLS = 9
FRAME_CELLS = 4  # of a level of the search: next candidate row, from, to, step

# Why it came back.
DONE, FULL, GROW = 0, 1, 2

# Work counters.
INSERTED, REPEATED, DELETED, ABSENT, PROBES, WALKED, RACES, SPARED, FOUND = range(9)
COUNTERS = 9

FEW = 24  # candidates that a step may have before other steps are looked at

RANGE_CELLS = 3  # of a range of entries: first, end, slot of the signature

# What a row concerns is found out some rows ahead of its turn, so that the memory it will touch can come meanwhile.
# Columns of such an outlook: the number of ranges, the indexes that the triple needs, and the ranges.
AHEAD = 8
OUTLOOKS = 16  # a power of two, more than AHEAD
OUTLOOK_COUNT, OUTLOOK_INDEXES, OUTLOOK_RANGES = 0, 1, 2
OUTLOOK_CELLS = OUTLOOK_RANGES + 8 * RANGE_CELLS


@njit(cache=True, nogil=True)
def signature_key(store, mask, s, p, o):
    """The dispatch key of the triples of a store that agree with constants at the positions in `mask`."""
    h = np.uint64(store * 8 + mask + 1) * np.uint64(0x9E3779B97F4A7C15)
    if mask & 1:
        h = (h ^ np.uint64(s)) * np.uint64(0xBF58476D1CE4E5B9)
        h ^= h >> np.uint64(31)
    if mask & 2:
        h = (h ^ np.uint64(p)) * np.uint64(0x94D049BB133111EB)
        h ^= h >> np.uint64(29)
    if mask & 4:
        h = (h ^ np.uint64(o)) * np.uint64(0xD6E8FEB86659FD93)
        h ^= h >> np.uint64(32)
    return np.int64(h | np.uint64(1))


@njit(cache=True, nogil=True)
def meet(mode, value, term, bound):
    """Whether a term fits a position; a variable not bound before is bound by it."""
    if mode == CONSTANT:
        return term == value
    if mode == BOUND:
        return term == load64(bound, value)
    store64(bound, value, term)
    return True


@njit(cache=True, nogil=True)
def wanted(mode, value, bound):
    """The term that a position must have; meaningless where it is still free."""
    if mode == CONSTANT:
        return value
    if mode == BOUND:
        return load64(bound, value)
    return np.int64(0)


@njit(cache=True, nogil=True)
def first_row(stores, step, bound):
    """The newest candidate row of a step (an address), or -1."""
    desc = stores + load64(step, STEP_STORE) * (8 * FIELDS)
    kind = load64(step, STEP_KIND)
    if kind == ALL:
        return load64(desc, HEAD) - 1
    return newest(
        desc,
        kind,
        wanted(load64(step, STEP_TERMS), load64(step, STEP_TERMS + 1), bound),
        wanted(load64(step, STEP_TERMS + 2), load64(step, STEP_TERMS + 3), bound),
        wanted(load64(step, STEP_TERMS + 4), load64(step, STEP_TERMS + 5), bound),
    )


@njit(cache=True, nogil=True)
def reaches(desc, kind, row, most):
    """How many live rows a chain has from `row` on, counted up to `most`."""
    tail = load64(desc, TAIL)
    count = np.int64(0)
    while row >= tail and count < most:
        count += 1
        row = older_row(desc, kind, row)
    return count


@njit(cache=True, nogil=True)
def choose(stores, node, steps, bound, tally):
    """The step (an address) to take from a node, and its first candidate row.

    It is the first step, unless that has more than a few candidates: then all steps race, and the shortest chain wins.
    The race costs a small multiple of the winner's length, so that a hub is walked only where every way leads there.
    """
    step = steps + load64(node, NODE_FIRST) * (8 * STEP_CELLS)
    ways = load64(node, NODE_STEPS)
    row = first_row(stores, step, bound)
    store64(tally, PROBES, load64(tally, PROBES) + 1)
    if ways == 1 or row < 0:
        return step, row
    most = np.int64(FEW)
    desc = stores + load64(step, STEP_STORE) * (8 * FIELDS)
    if reaches(desc, load64(step, STEP_KIND), row, most) < most:
        return step, row
    while True:
        store64(tally, RACES, load64(tally, RACES) + 1)
        best = step
        best_row = row
        least = most
        for way in range(ways):
            other = step + way * (8 * STEP_CELLS)
            desc = stores + load64(other, STEP_STORE) * (8 * FIELDS)
            first = row if way == 0 else first_row(stores, other, bound)
            count = reaches(desc, load64(other, STEP_KIND), first, least)
            store64(tally, WALKED, load64(tally, WALKED) + count)
            if count < least:
                best = other
                best_row = first
                least = count
                if count == 0:
                    return other, np.int64(-1)
        if least < most:
            return best, best_row
        most *= 8


@njit(cache=True, nogil=True)
def fits(terms, s, p, o, bound):
    """Whether a triple fits the three (mode, value) pairs at an address; free variables are bound by it."""
    return (
        meet(load64(terms, 0), load64(terms, 1), s, bound)
        and meet(load64(terms, 2), load64(terms, 3), p, bound)
        and meet(load64(terms, 4), load64(terms, 5), o, bound)
    )


@njit(cache=True, nogil=True)
def mixed(h, value):
    """A hash with one more value in it."""
    h = (h ^ np.uint64(value)) * np.uint64(0xBF58476D1CE4E5B9)
    return h ^ (h >> np.uint64(29))


@njit(cache=True, nogil=True)
def enter_known(rows, values, table):
    """Fills the table of known values; a row is a node, how many values it has, and its members (first, count).

    The values of the rows are one after the other in `values`.
    """
    last = np.int64(table.shape[0] - 1)
    at = np.int64(0)
    for k in range(rows.shape[0]):
        h = np.uint64(rows[k, 0] + 1)
        for v in range(rows[k, 1]):
            h = mixed(h, values[at + v])
        key = np.int64(h | np.uint64(1))
        slot = (key >> np.int64(1)) & last
        while table[slot, KNOWN_KEY] != 0:
            slot = (slot + 1) & last
        table[slot, KNOWN_KEY] = key
        table[slot, KNOWN_VALUES] = at
        table[slot, KNOWN_FIRST] = rows[k, 2]
        table[slot, KNOWN_COUNT] = rows[k, 3]
        at += rows[k, 1]


@njit(cache=True, nogil=True)
def look_up_known(known, last, number, places, values, bound):
    """The entry (an address) for a node and its parameters as they are bound, or 0; `places` is ended by -1.

    The hash finds it, the values decide.
    """
    h = np.uint64(number + 1)
    k = np.int64(0)
    while load64(places, k) >= 0:
        h = mixed(h, load64(bound, load64(places, k)))
        k += 1
    key = np.int64(h | np.uint64(1))
    slot = (key >> np.int64(1)) & last
    while True:
        entry = known + slot * (8 * KNOWN_CELLS)
        found = load64(entry, KNOWN_KEY)
        if found == 0:
            return np.int64(0)
        if found == key:
            own = values + load64(entry, KNOWN_VALUES) * 8
            v = np.int64(0)
            while v < k and load64(own, v) == load64(bound, load64(places, v)):
                v += 1
            if v == k:
                return entry
        slot = (slot + 1) & last


@njit(cache=True, nogil=True)
def members_of(node, nodes, parameters, known, last, values, bound):
    """The members (first, count) that a solution belongs to."""
    places = load64(node, NODE_PARAMETERS)
    if places < 0:
        return load64(node, NODE_MEMBERS), load64(node, NODE_COUNT)
    number = (node - nodes) // (8 * NODE_CELLS)
    entry = look_up_known(known, last, number, parameters + places * 8, values, bound)
    if entry == 0:
        return np.int64(0), np.int64(0)
    return load64(entry, KNOWN_FIRST), load64(entry, KNOWN_COUNT)


@njit(cache=True, nogil=True)
def emit(row, unit, weight, begin, end, graph, bound, shown):
    """Writes a solution; the variables that it shows are listed at `shown`, ended by -1."""
    store64(row, OUT_UNIT, unit)
    store64(row, OUT_WEIGHT, weight)
    store64(row, OUT_FROM, begin)
    store64(row, OUT_TO, end)
    store64(row, OUT_GRAPH, graph)
    k = np.int64(0)
    while load64(shown, k) >= 0:
        store64(row, OUT_BINDINGS + k, load64(bound, load64(shown, k)))
        k += 1


@njit(cache=True, nogil=True)
def tell(context, node, written, weight, begin, end, graph):
    """Writes a solution, behind those that are written, for every member that it belongs to; answers how many."""
    bound = load64(context, VARIABLES)
    first, count = members_of(
        node,
        load64(context, NODES),
        load64(context, PARAMETERS),
        load64(context, KNOWN),
        load64(context, KNOWN_LAST),
        load64(context, VALUES),
        bound,
    )
    row = load64(context, OUT) + written * load64(context, OUT_SIZE)
    for member in range(first, first + count):
        unit = load64(load64(context, MEMBERS), member)
        shown = load64(context, OUTPUTS) + unit * load64(context, OUTPUTS_SIZE)
        emit(row, unit, weight, begin, end, graph, bound, shown)
        row += load64(context, OUT_SIZE)
    return count


@njit(cache=True, nogil=True)
def look_up(dispatch, last, key):
    """The entry (an address) of a signature in the dispatch table of slots 0 to `last`, or 0."""
    slot = (key >> np.int64(1)) & last
    while True:
        entry = dispatch + slot * (8 * DISPATCH_CELLS)
        found = load64(entry, DISPATCH_KEY)
        if found == key:
            return entry
        if found == 0:
            return np.int64(0)
        slot = (slot + 1) & last


@njit(cache=True, nogil=True)
def look_out(s, p, o, store, masks, dispatch, last, outlook):
    """Finds the entries that a triple concerns, as ranges, and the indexes that it needs.

    `masks` is the bit set of signature masks that leave the predicate open.
    """
    ranges = outlook + 8 * OUTLOOK_RANGES
    count = np.int64(0)
    indexes = np.int64(0)
    own = look_up(dispatch, last, signature_key(store, PREDICATE, s, p, o))
    if own != 0:
        masks |= load64(own, DISPATCH_MASKS)
    mask = np.int64(0)
    while masks:
        if masks & 1:
            entry = own if mask == PREDICATE else look_up(dispatch, last, signature_key(store, mask, s, p, o))
            if entry != 0:
                first = load64(entry, DISPATCH_FIRST)
                store64(ranges, RANGE_CELLS * count, first)
                store64(ranges, RANGE_CELLS * count + 1, first + load64(entry, DISPATCH_COUNT))
                store64(ranges, RANGE_CELLS * count + 2, (entry - dispatch) // (8 * DISPATCH_CELLS))
                indexes |= load64(entry, DISPATCH_INDEXES)
                count += 1
        masks >>= 1
        mask += 1
    store64(outlook, OUTLOOK_COUNT, count)
    store64(outlook, OUTLOOK_INDEXES, indexes)


@njit(cache=True, nogil=True)
def hopeless(others, until, begin):
    """Whether some other pattern of the query has no row that lives beyond `begin`.

    `others` lists the patterns' signatures, ended by -1; `until` tells when the last row of a signature ends. A
    deleted row still counts, so this may hope in vain, but it never gives up wrongly.
    """
    while load64(others, 0) >= 0:
        if load64(until, load64(others, 0)) <= begin:
            return True
        others += 8
    return False


@njit(cache=True, nogil=True)
def match(
    feed,
    op,
    time,
    event,
    graph,
    ss,
    ps,
    os,
    context,
    cursor,
    counters,
):
    """Runs the rows of a batch, in order, through stores and delta plans; answers DONE, FULL or GROW."""
    i = cursor[AT_ROW]
    f = cursor[AT_FEED]
    r = cursor[AT_RANGE]
    n_ranges = cursor[RANGES]
    e = cursor[AT_ENTRY]
    level = cursor[LEVEL]
    number = cursor[NUMBER]
    written = cursor[WRITTEN]
    status = np.int64(DONE)
    detail = np.int64(0)
    n = np.int64(ss.shape[0])
    walked = np.int64(0)
    inserted = np.int64(0)
    repeated = np.int64(0)
    deleted = np.int64(0)
    absent = np.int64(0)
    spared = np.int64(0)
    tally = np.int64(counters.ctypes.data)
    at_context = np.int64(context.ctypes.data)
    all_stores = context[STORES]
    feeds = context[FEEDS]
    feeds_width = context[FEEDS_WIDTH]
    wild = context[WILD]
    table = context[DISPATCH]
    last = context[DISPATCH_LAST]
    all_entries = context[ENTRIES]
    all_nodes = context[NODES]
    all_steps = context[STEPS]
    all_others = context[OTHERS]
    all_parameters = context[PARAMETERS]
    known_table = context[KNOWN]
    known_last = context[KNOWN_LAST]
    all_values = context[VALUES]
    ends = context[UNTIL]
    frames = context[STACK]
    all_outlooks = context[OUTLOOK]
    vars = context[VARIABLES]
    # A solution may belong to several units: it is written for all of them or not yet.
    room = context[OUT_ROOM] - context[FAN]

    ahead = i if r < 0 else i + 1
    while i < n:
        store = load64(feeds, feed[i] * feeds_width + f)
        if store < 0:
            i += 1
            f = np.int64(0)
            continue
        desc = all_stores + store * (8 * FIELDS)
        s = ss[i]
        p = ps[i]
        o = os[i]
        outlook = all_outlooks + (i & (OUTLOOKS - 1)) * (8 * OUTLOOK_CELLS)
        spans = outlook + 8 * OUTLOOK_RANGES
        if r < 0:
            while ahead < n and ahead <= i + AHEAD:
                first = load64(feeds, feed[ahead] * feeds_width)
                if first >= 0:
                    there = all_outlooks + (ahead & (OUTLOOKS - 1)) * (8 * OUTLOOK_CELLS)
                    look_out(ss[ahead], ps[ahead], os[ahead], first, load64(wild, first), table, last, there)
                    if load64(there, OUTLOOK_COUNT) != 0:
                        expect(
                            all_stores + first * (8 * FIELDS),
                            load64(there, OUTLOOK_INDEXES) | 1,
                            ss[ahead],
                            ps[ahead],
                            os[ahead],
                        )
                ahead += 1
            if f > 0:
                look_out(s, p, o, store, load64(wild, store), table, last, outlook)
            n_ranges = load64(outlook, OUTLOOK_COUNT)
            if n_ranges == 0:
                f += 1
                continue
            if op[i] == INSERT:
                number = insert(desc, load64(outlook, OUTLOOK_INDEXES) | 1, time[i], event[i], s, p, o)
                if number < 0:
                    if number <= FULL_ROWS:
                        status = np.int64(GROW)
                        detail = store * 16 - number
                        break
                    repeated += 1
                    f += 1
                    continue
                inserted += 1
                end = load64(row_address(desc, number), ROW_TO)
                for k in range(n_ranges):
                    signature = load64(spans, RANGE_CELLS * k + 2)
                    if load64(ends, signature) < end:
                        store64(ends, signature, end)
            else:
                number = doomed(desc, op[i], time[i], event[i], s, p, o)
                if number < 0:
                    if op[i] == DELETE:
                        absent += 1
                    f += 1
                    continue
                deleted += 1
            r = np.int64(0)
            e = load64(spans, 0)
            level = np.int64(-1)

        weight = np.int64(1)
        cut = np.int64(NEVER)
        if op[i] != INSERT:
            weight = np.int64(-1)
            cut = first_instant(desc, time[i])
        new_row = row_address(desc, number)
        now = load64(desc, KIND) == NOW
        stopped = False
        while r < n_ranges:
            end_of_range = load64(spans, RANGE_CELLS * r + 1)
            while e < end_of_range:
                entry = all_entries + e * (8 * ENTRY_CELLS)
                pattern = load64(entry, ENTRY_PATTERN)
                if level < 0:
                    if not fits(entry + 8 * ENTRY_TERMS, s, p, o, vars):
                        e += 1
                        continue
                    begin = max(load64(new_row, ROW_FROM), cut)
                    end = load64(new_row, ROW_TO)
                    if hopeless(all_others + load64(entry, ENTRY_OTHERS) * 8, ends, begin):
                        spared += 1
                        e += 1
                        continue
                    node = all_nodes + load64(entry, ENTRY_NODE) * (8 * NODE_CELLS)
                    if load64(node, NODE_STEPS) == 0:
                        if written > room:
                            stopped = True
                            break
                        written += tell(
                            at_context, node, written, weight, begin, event[i] if now else end, graph[i]
                        )
                        e += 1
                        continue
                    level = np.int64(0)
                    step, first = choose(all_stores, node, all_steps, vars, tally)
                    store64(frames, 0, first)
                    store64(frames, 1, begin)
                    store64(frames, 2, end)
                    store64(frames, 3, step)
                while level >= 0:
                    frame = frames + level * (8 * FRAME_CELLS)
                    step = load64(frame, 3)
                    target = all_stores + load64(step, STEP_STORE) * (8 * FIELDS)
                    candidate = load64(frame, 0)
                    if candidate < load64(target, TAIL):
                        level -= 1
                        continue
                    node = all_nodes + load64(step, STEP_NODE) * (8 * NODE_CELLS)
                    deepest = load64(node, NODE_STEPS) == 0
                    if deepest and written > room:
                        stopped = True
                        break
                    walked += 1
                    store64(frame, 0, older_row(target, load64(step, STEP_KIND), candidate))
                    if candidate == number and target == desc and load64(step, STEP_PATTERN) > pattern:
                        continue
                    row = row_address(target, candidate)
                    begin = max(load64(frame, 1), load64(row, ROW_FROM))
                    end = min(load64(frame, 2), load64(row, ROW_TO))
                    if begin >= end:
                        continue
                    terms = step + 8 * STEP_TERMS
                    if not fits(terms, load64(row, ROW_S), load64(row, ROW_P), load64(row, ROW_O), vars):
                        continue
                    if deepest:
                        written += tell(
                            at_context, node, written, weight, begin, event[i] if now else end, graph[i]
                        )
                        continue
                    if load64(step, STEP_CHECKS) and not look_up_known(
                        known_table,
                        known_last,
                        load64(step, STEP_NODE),
                        all_parameters + load64(node, NODE_PARAMETERS) * 8,
                        all_values,
                        vars,
                    ):
                        continue
                    level += 1
                    frame += 8 * FRAME_CELLS
                    step, first = choose(all_stores, node, all_steps, vars, tally)
                    store64(frame, 0, first)
                    store64(frame, 1, begin)
                    store64(frame, 2, end)
                    store64(frame, 3, step)
                if stopped:
                    break
                e += 1
            if stopped:
                break
            r += 1
            if r < n_ranges:
                e = load64(spans, RANGE_CELLS * r)
        if stopped:
            status = np.int64(FULL)
            break
        if op[i] != INSERT:
            store64(new_row, ROW_TO, cut)
            number = older_row(desc, SPO, number)
            if number >= load64(desc, TAIL) and load64(row_address(desc, number), ROW_TO) > cut:
                r = np.int64(0)
                e = load64(spans, 0)
                level = np.int64(-1)
                continue
        r = np.int64(-1)
        level = np.int64(-1)
        f += 1

    cursor[AT_ROW] = i
    cursor[AT_FEED] = f
    cursor[AT_RANGE] = r
    cursor[RANGES] = n_ranges
    cursor[AT_ENTRY] = e
    cursor[LEVEL] = level
    cursor[NUMBER] = number
    cursor[WRITTEN] = written
    cursor[DETAIL] = detail
    counters[INSERTED] += inserted
    counters[REPEATED] += repeated
    counters[DELETED] += deleted
    counters[ABSENT] += absent
    counters[SPARED] += spared
    counters[WALKED] += walked
    return status


@njit(cache=True, nogil=True)
def mean_reach(stores, store, kind, ss, ps, os, most):
    """The mean number of rows, each counted up to `most`, that a probe by the keys of some triples finds."""
    desc = descriptor(stores, store)
    total = np.int64(0)
    for k in range(ss.shape[0]):
        row = load64(desc, HEAD) - 1 if kind == ALL else newest(desc, kind, ss[k], ps[k], os[k])
        total += reaches(desc, kind, row, most)
    return total / max(ss.shape[0], 1)
