"""The incremental matcher: one kernel that interprets the delta plans of all queries.

A triple that arrives is inserted into the stores of its stream. For each pattern i that it fits, the pattern's
delta plan is run: the other patterns in an order fixed beforehand, depth first, each step probing one index.
Pattern j < i may use the new row itself, j > i only older rows, so that a solution is found once: at the
last of its rows to arrive. A solution lives in [max(from), min(to)) of its rows (SEMANTICS 2 and 3).

The kernel can stop anywhere, when its output is full or a store has to grow, and goes on where it was: all
loops keep their position in `cursor`, `stack`, `ranges` and `bound`.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from thalweg.kernels.memory import load64
from thalweg.kernels.store import (
    ALL,
    HEAD,
    KIND,
    NOW,
    ROW_FROM,
    ROW_O,
    ROW_P,
    ROW_S,
    ROW_TO,
    TAIL,
    expect,
    insert,
    newest,
    older_row,
    row_address,
)

# Columns of an entry: a pattern of a query as the start of a delta plan.
ENTRY_QUERY, ENTRY_FIRST, ENTRY_STEPS, ENTRY_TERMS = 0, 1, 2, 3
ENTRY_CELLS = ENTRY_TERMS + 6

# Columns of a step: another pattern, and the index by which it is probed.
STEP_STORE, STEP_KIND, STEP_OLDER, STEP_TERMS = 0, 1, 2, 3
STEP_CELLS = STEP_TERMS + 6

# How a position of a pattern meets a term: (mode, value) pairs for s, p, o from *_TERMS on.
CONSTANT, BOUND, BIND = 0, 1, 2

# Columns of the dispatch table: open addressing by signature. Every predicate that some pattern names has the
# entry of its own signature, which says by which other masks of constants a triple must be looked up.
DISPATCH_KEY, DISPATCH_FIRST, DISPATCH_COUNT, DISPATCH_INDEXES, DISPATCH_MASKS = range(5)
DISPATCH_CELLS = 5
PREDICATE = 2  # the mask of signatures with a constant predicate and nothing else

# Columns of a solution; its bindings follow.
OUT_QUERY, OUT_WEIGHT, OUT_FROM, OUT_TO, OUT_GRAPH, OUT_BINDINGS = range(6)

# Where the kernel stands.
AT_ROW, AT_FEED, AT_RANGE, RANGES, AT_ENTRY, LEVEL, NUMBER, WRITTEN, STATUS, DETAIL = range(10)
CURSOR_CELLS = 10

# Why it came back.
DONE, FULL, GROW = 0, 1, 2

# Work counters.
INSERTED, REPEATED, PROBES, WALKED, FOUND = range(5)
COUNTERS = 5

AHEAD = 8  # rows between asking for memory and using it


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
        return term == bound[value]
    bound[value] = term
    return True


@njit(cache=True, nogil=True)
def wanted(mode, value, bound):
    """The term that a position must have; meaningless where it is still free."""
    if mode == CONSTANT:
        return value
    if mode == BOUND:
        return bound[value]
    return np.int64(0)


@njit(cache=True, nogil=True)
def first_row(stores, steps, step, bound):
    """The newest candidate row of a step, or -1."""
    store = steps[step, STEP_STORE]
    kind = steps[step, STEP_KIND]
    if kind == ALL:
        return stores[store, HEAD] - 1
    return newest(
        stores,
        store,
        kind,
        wanted(steps[step, STEP_TERMS], steps[step, STEP_TERMS + 1], bound),
        wanted(steps[step, STEP_TERMS + 2], steps[step, STEP_TERMS + 3], bound),
        wanted(steps[step, STEP_TERMS + 4], steps[step, STEP_TERMS + 5], bound),
    )


@njit(cache=True, nogil=True)
def emit(out, at, query, begin, end, graph, bound, outputs):
    """Writes a solution with weight 1; `outputs[query]` lists the variables that it shows, ended by -1."""
    out[at, OUT_QUERY] = query
    out[at, OUT_WEIGHT] = 1
    out[at, OUT_FROM] = begin
    out[at, OUT_TO] = end
    out[at, OUT_GRAPH] = graph
    for k in range(outputs.shape[1]):
        variable = outputs[query, k]
        if variable < 0:
            break
        out[at, OUT_BINDINGS + k] = bound[variable]


@njit(cache=True, nogil=True)
def look_up(dispatch, key):
    """The slot of a signature in the dispatch table, or -1."""
    size = np.int64(dispatch.shape[0] - 1)
    slot = (key >> np.int64(1)) & size
    while dispatch[slot, DISPATCH_KEY] != 0:
        if dispatch[slot, DISPATCH_KEY] == key:
            return slot
        slot = (slot + 1) & size
    return np.int64(-1)


@njit(cache=True, nogil=True)
def find_ranges(s, p, o, store, wild, dispatch, ranges):
    """The entries that a triple concerns, as ranges; answers (their number, the indexes that it needs)."""
    count = np.int64(0)
    indexes = np.int64(0)
    masks = wild[store]
    own = look_up(dispatch, signature_key(store, PREDICATE, s, p, o))
    if own >= 0:
        masks |= dispatch[own, DISPATCH_MASKS]
    mask = np.int64(0)
    while masks:
        if masks & 1:
            slot = own if mask == PREDICATE else look_up(dispatch, signature_key(store, mask, s, p, o))
            if slot >= 0:
                ranges[count, 0] = dispatch[slot, DISPATCH_FIRST]
                ranges[count, 1] = dispatch[slot, DISPATCH_FIRST] + dispatch[slot, DISPATCH_COUNT]
                indexes |= dispatch[slot, DISPATCH_INDEXES]
                count += 1
        masks >>= 1
        mask += 1
    return count, indexes


@njit(cache=True, nogil=True)
def match(
    feed,
    time,
    event,
    graph,
    ss,
    ps,
    os,
    stores,
    feeds,
    wild,
    dispatch,
    entries,
    steps,
    outputs,
    cursor,
    stack,
    ranges,
    bound,
    out,
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
    room = np.int64(out.shape[0])
    n = np.int64(ss.shape[0])
    probes = np.int64(0)
    walked = np.int64(0)
    inserted = np.int64(0)
    repeated = np.int64(0)

    while i < n:
        store = feeds[feed[i], f]
        if store < 0:
            i += 1
            f = np.int64(0)
            continue
        s = ss[i]
        p = ps[i]
        o = os[i]
        if r < 0:
            if i + AHEAD < n:
                expect(stores, store, ss[i + AHEAD], ps[i + AHEAD], os[i + AHEAD])
            n_ranges, indexes = find_ranges(s, p, o, store, wild, dispatch, ranges)
            if n_ranges == 0:
                f += 1
                continue
            number = insert(stores, store, indexes | 1, time[i], event[i], s, p, o)
            if number < 0:
                if number < -2:
                    status = np.int64(GROW)
                    detail = store * 16 - number
                    break
                repeated += 1
                f += 1
                continue
            inserted += 1
            r = np.int64(0)
            e = ranges[0, 0]
            level = np.int64(-1)

        new_row = row_address(stores, store, number)
        where = graph[i]
        now = stores[store, KIND] == NOW
        stopped = False
        while r < n_ranges:
            last = ranges[r, 1]
            while e < last:
                query = entries[e, ENTRY_QUERY]
                n_steps = entries[e, ENTRY_STEPS]
                first = entries[e, ENTRY_FIRST]
                if level < 0:
                    if not (
                        meet(entries[e, ENTRY_TERMS], entries[e, ENTRY_TERMS + 1], s, bound)
                        and meet(entries[e, ENTRY_TERMS + 2], entries[e, ENTRY_TERMS + 3], p, bound)
                        and meet(entries[e, ENTRY_TERMS + 4], entries[e, ENTRY_TERMS + 5], o, bound)
                    ):
                        e += 1
                        continue
                    if n_steps == 0:
                        if written == room:
                            stopped = True
                            break
                        emit(
                            out,
                            written,
                            query,
                            load64(new_row, ROW_FROM),
                            event[i] if now else load64(new_row, ROW_TO),
                            where,
                            bound,
                            outputs,
                        )
                        written += 1
                        e += 1
                        continue
                    level = np.int64(0)
                    stack[0, 1] = load64(new_row, ROW_FROM)
                    stack[0, 2] = load64(new_row, ROW_TO)
                    stack[0, 0] = first_row(stores, steps, first, bound)
                    probes += 1
                while level >= 0:
                    step = first + level
                    target = steps[step, STEP_STORE]
                    candidate = stack[level, 0]
                    if candidate < stores[target, TAIL]:
                        level -= 1
                        continue
                    if level == n_steps - 1 and written == room:
                        stopped = True
                        break
                    walked += 1
                    stack[level, 0] = older_row(stores, target, steps[step, STEP_KIND], candidate)
                    if steps[step, STEP_OLDER] != 0 and candidate >= number:
                        continue
                    row = row_address(stores, target, candidate)
                    begin = max(stack[level, 1], load64(row, ROW_FROM))
                    end = min(stack[level, 2], load64(row, ROW_TO))
                    if begin >= end:
                        continue
                    if not (
                        meet(steps[step, STEP_TERMS], steps[step, STEP_TERMS + 1], load64(row, ROW_S), bound)
                        and meet(
                            steps[step, STEP_TERMS + 2], steps[step, STEP_TERMS + 3], load64(row, ROW_P), bound
                        )
                        and meet(
                            steps[step, STEP_TERMS + 4], steps[step, STEP_TERMS + 5], load64(row, ROW_O), bound
                        )
                    ):
                        continue
                    if level == n_steps - 1:
                        emit(out, written, query, begin, event[i] if now else end, where, bound, outputs)
                        written += 1
                        continue
                    level += 1
                    stack[level, 1] = begin
                    stack[level, 2] = end
                    stack[level, 0] = first_row(stores, steps, step + 1, bound)
                    probes += 1
                if stopped:
                    break
                e += 1
            if stopped:
                break
            r += 1
            if r < n_ranges:
                e = ranges[r, 0]
        if stopped:
            status = np.int64(FULL)
            break
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
    cursor[STATUS] = status
    cursor[DETAIL] = detail
    counters[INSERTED] += inserted
    counters[REPEATED] += repeated
    counters[PROBES] += probes
    counters[WALKED] += walked
    return status
