"""The incremental matcher: one kernel that interprets the delta plans of all queries.

A triple that arrives is inserted into the stores of its stream. For each pattern i that it fits, the pattern's
delta plan is run: the other patterns, depth first, each step probing one index. The order is laid out beforehand; only
where a step has many candidates, the candidates of the other patterns that could come next are counted (see `choose`).
Pattern j < i may use the new row itself, j > i only other rows, so that a solution is found once: at the
last of its rows to arrive. A solution lives in [max(from), min(to)) of its rows (SEMANTICS 2 and 3).

Where queries were registered in mid-stream, a row serves a range of generations, and a solution those that all of its
rows serve (see `generations`); an arrival or a delete runs the plans for each range of generations that it concerns.

A triple that comes again prolongs its row: the same plans are run for the time from its old end on. A delete runs them
for the row that it ends, with weight -1, for the rest of the row's life; then the row's interval is cut.

The kernel can stop anywhere, when its output is full or a store has to grow, and goes on where it was: all
loops keep their position in `cursor`, `stack`, `ranges` and `bound`.

Rows are read without a check of their number, so none may be read that is not in its ring. Only `insert` and
`row_to_delete`, between two searches, move a TAIL or need room; other plans and restored windows come between two
batches, where there is no search either. Within a search HEAD and TAIL stay, so what it keeps stays in the ring; the
end of a chain or a row older than TAIL is recognized by its number before it is read (where a level ends, in
`chain_length`).
"""

from __future__ import annotations

import numpy as np

from thalweg.kernels.bases import in_static, prefetch_static, row_to_mask
from thalweg.kernels.checking import njit
from thalweg.kernels.dispatch import dispatch_triple, partner_is_empty
from thalweg.kernels.generations import delete_part, first_generation, insert_part, last_generation
from thalweg.kernels.layout import (
    ABSENT,
    AHEAD,
    APPLIED,
    AT_ENTRY,
    AT_FEED,
    AT_RANGE,
    AT_ROW,
    BEGIN,
    DELETED,
    DETAIL,
    DISPATCH,
    DISPATCH_LAST,
    DONE,
    ENTRIES,
    ENTRY_CELLS,
    ENTRY_NODE,
    ENTRY_OTHERS,
    ENTRY_PATTERN,
    ENTRY_TERMS,
    FAN,
    FEEDS,
    FEEDS_WIDTH,
    FRAME_CELLS,
    FULL,
    GROW,
    HIGH,
    INSERTED,
    KNOWN,
    KNOWN_LAST,
    LEVEL,
    LOOKAHEAD,
    LOOKAHEAD_CELLS,
    LOOKAHEAD_COUNT,
    LOOKAHEAD_INDEXES,
    LOOKAHEAD_RANGES,
    LOOKAHEAD_SLOTS,
    LOW,
    NODE_CELLS,
    NODE_PARAMETERS,
    NODE_STEPS,
    NODES,
    NUMBER,
    OTHERS,
    OUT_ROOM,
    PARAMETERS,
    RANGE_CELLS,
    RANGES,
    REPEATED,
    ROW_GENERATIONS,
    SPARED,
    STACK,
    STEP_CHECKS,
    STEP_KIND,
    STEP_NODE,
    STEP_PATTERN,
    STEP_TERMS,
    STEPS,
    STORES,
    UNTIL,
    VALUES,
    VARIABLES,
    WALKED,
    WILD,
    WRITTEN,
)
from thalweg.kernels.memory import load64, store64
from thalweg.kernels.parameter_table import look_up_parameters
from thalweg.kernels.solutions import emit_solution
from thalweg.kernels.steps import choose, first_static_row, fits
from thalweg.kernels.store import (
    BASE,
    CUT,
    DELETE,
    ENDED,
    FIELDS,
    FULL_ROWS,
    HIDE,
    INSERT,
    ROW_FROM,
    ROW_O,
    ROW_P,
    ROW_S,
    ROW_TO,
    SHOW,
    TAIL,
    first_instant,
    insert,
    is_hidden,
    older_row,
    prefetch_entries,
    row_address,
    row_to_delete,
    set_hidden,
)


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
    ranged,
):
    """Runs the rows of a batch, in order, through stores and delta plans; answers DONE, FULL or GROW.

    `ranged` is None unless there are generations: then Numba compiles no code for them.
    """
    i = cursor[AT_ROW]
    f = cursor[AT_FEED]
    r = cursor[AT_RANGE]
    n_ranges = cursor[RANGES]
    e = cursor[AT_ENTRY]
    level = cursor[LEVEL]
    number = cursor[NUMBER]
    start = cursor[BEGIN]
    written = cursor[WRITTEN]
    low = cursor[LOW]
    high = cursor[HIGH]
    applied = cursor[APPLIED]
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
    all_lookaheads = context[LOOKAHEAD]
    vars = context[VARIABLES]
    generations = context[ROW_GENERATIONS]
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
        lookahead = all_lookaheads + (i & (LOOKAHEAD_SLOTS - 1)) * (8 * LOOKAHEAD_CELLS)
        spans = lookahead + 8 * LOOKAHEAD_RANGES
        if r < 0:
            while ahead < n and ahead <= i + AHEAD:
                first = load64(feeds, feed[ahead] * feeds_width)
                if first >= 0:
                    slot = all_lookaheads + (ahead & (LOOKAHEAD_SLOTS - 1)) * (8 * LOOKAHEAD_CELLS)
                    dispatch_triple(
                        ss[ahead], ps[ahead], os[ahead], first, load64(wild, first), table, last, slot
                    )
                    if load64(slot, LOOKAHEAD_COUNT) != 0:
                        target = all_stores + first * (8 * FIELDS)
                        prefetch_entries(
                            target,
                            load64(slot, LOOKAHEAD_INDEXES) | 1,
                            ss[ahead],
                            ps[ahead],
                            os[ahead],
                        )
                        base = load64(target, BASE)
                        if base != 0:  # the arrival is looked up there
                            prefetch_static(all_stores + (base - 1) * (8 * FIELDS), ss[ahead])
                ahead += 1
            if f > 0:
                dispatch_triple(s, p, o, store, load64(wild, store), table, last, lookahead)
            n_ranges = load64(lookahead, LOOKAHEAD_COUNT)
            hidden = False  # a hidden row is matched in the base of its store
            if n_ranges == 0:
                f += 1
                continue
            if op[i] == INSERT:
                indexes = load64(lookahead, LOOKAHEAD_INDEXES) | 1
                if ranged is not None:
                    generation = load64(generations, i)
                    number, start, high = insert_part(
                        desc, indexes, time[i], event[i], s, p, o, low, generation
                    )
                    if number < 0 and number > FULL_ROWS:
                        low = high + 1
                        if low <= generation:
                            continue
                        low = np.int64(0)
                else:
                    number, start = insert(desc, indexes, time[i], event[i], s, p, o)
                if number < 0:
                    if number <= FULL_ROWS:
                        status = np.int64(GROW)
                        detail = store * 16 - number
                        break
                    repeated += 1
                    f += 1
                    continue
                inserted += 1
                new_row = row_address(desc, number)
                end = load64(new_row, ROW_TO)
                base = load64(desc, BASE)
                if base != 0:
                    hidden = in_static(all_stores + (base - 1) * (8 * FIELDS), s, p, o)
                    set_hidden(new_row, hidden)
                for k in range(n_ranges):
                    signature = load64(spans, RANGE_CELLS * k + 2)
                    if load64(ends, signature) < end:
                        store64(ends, signature, end)
            elif op[i] == HIDE or op[i] == SHOW:
                number = row_to_mask(desc, op[i], time[i], s, p, o)
                if number < 0:
                    low = np.int64(0)
                    f += 1
                    continue
                new_row = row_address(desc, number)
                start = max(load64(new_row, ROW_FROM), time[i])
                if op[i] == SHOW:
                    set_hidden(new_row, False)
                if ranged is not None:
                    low = first_generation(desc, new_row)
                    high = last_generation(desc, new_row)
            else:
                if ranged is not None:
                    generation = load64(generations, i)
                    number, high = delete_part(desc, op[i], time[i], event[i], s, p, o, low, generation)
                    if number == FULL_ROWS:
                        status = np.int64(GROW)
                        detail = store * 16 - number
                        break
                    if number < 0:
                        low = high + 1
                        if low <= generation:
                            continue
                        low = np.int64(0)
                    else:
                        applied = np.int64(1)
                else:
                    number = row_to_delete(desc, op[i], time[i], event[i], s, p, o)
                if number < 0:
                    if op[i] == DELETE and applied == 0:
                        absent += 1
                    applied = np.int64(0)
                    f += 1
                    continue
                deleted += 1
                new_row = row_address(desc, number)
                hidden = is_hidden(new_row)
                start = max(load64(new_row, ROW_FROM), first_instant(desc, time[i]))
                if op[i] == CUT:
                    start = max(start, event[i])
            r = n_ranges if hidden else np.int64(0)
            e = load64(spans, 0)
            level = np.int64(-1)

        weight = np.int64(1) if op[i] > 0 else np.int64(-1)
        new_row = row_address(desc, number)
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
                    begin = start
                    end = load64(new_row, ROW_TO)
                    if partner_is_empty(all_others + load64(entry, ENTRY_OTHERS) * 8, ends, begin):
                        spared += 1
                        e += 1
                        continue
                    node = all_nodes + load64(entry, ENTRY_NODE) * (8 * NODE_CELLS)
                    if load64(node, NODE_STEPS) == 0:
                        if written > room:
                            stopped = True
                            break
                        written += emit_solution(
                            at_context,
                            node,
                            written,
                            event[i],
                            weight,
                            begin,
                            end,
                            graph[i],
                            low,
                            high,
                            ranged,
                        )
                        e += 1
                        continue
                    level = np.int64(0)
                    step, target, first = choose(all_stores, node, all_steps, vars, tally)
                    store64(frames, 0, first)
                    store64(frames, 1, begin)
                    store64(frames, 2, end)
                    store64(frames, 3, step)
                    store64(frames, 6, target)
                    if ranged is not None:
                        store64(frames, 4, low)
                        store64(frames, 5, high)
                while level >= 0:
                    frame = frames + level * (8 * FRAME_CELLS)
                    step = load64(frame, 3)
                    target = load64(frame, 6)
                    candidate = load64(frame, 0)
                    if candidate < load64(target, TAIL):
                        base = load64(target, BASE)
                        if base == 0:
                            level -= 1
                        else:
                            target = all_stores + (base - 1) * (8 * FIELDS)
                            first = first_static_row(target, step, vars)
                            if first < 0:
                                level -= 1
                            else:
                                store64(frame, 0, first)
                                store64(frame, 6, target)
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
                    if begin >= end or is_hidden(row):
                        continue
                    first_served = np.int64(0)
                    last_served = np.int64(0)
                    if ranged is not None:
                        first_served = max(load64(frame, 4), first_generation(target, row))
                        last_served = min(load64(frame, 5), last_generation(target, row))
                        if first_served > last_served:
                            continue
                    terms = step + 8 * STEP_TERMS
                    if not fits(terms, load64(row, ROW_S), load64(row, ROW_P), load64(row, ROW_O), vars):
                        continue
                    if deepest:
                        written += emit_solution(
                            at_context,
                            node,
                            written,
                            event[i],
                            weight,
                            begin,
                            end,
                            graph[i],
                            first_served,
                            last_served,
                            ranged,
                        )
                        continue
                    if load64(step, STEP_CHECKS) and not look_up_parameters(
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
                    step, target, first = choose(all_stores, node, all_steps, vars, tally)
                    store64(frame, 0, first)
                    store64(frame, 1, begin)
                    store64(frame, 2, end)
                    store64(frame, 3, step)
                    store64(frame, 6, target)
                    if ranged is not None:
                        store64(frame, 4, first_served)
                        store64(frame, 5, last_served)
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
        r = np.int64(-1)
        level = np.int64(-1)
        if op[i] == HIDE or op[i] == SHOW:
            set_hidden(new_row, op[i] == HIDE)
            low = np.int64(0)
            continue  # the triple may have other rows
        if op[i] != INSERT:
            store64(new_row, ROW_TO, start)
            store64(desc, ENDED, load64(desc, ENDED) + 1)
        if ranged is not None and high < load64(generations, i):
            low = high + 1  # younger units have another row of this triple, or none
            continue
        low = np.int64(0)
        applied = np.int64(0)
        f += 1

    cursor[AT_ROW] = i
    cursor[AT_FEED] = f
    cursor[AT_RANGE] = r
    cursor[RANGES] = n_ranges
    cursor[AT_ENTRY] = e
    cursor[LEVEL] = level
    cursor[NUMBER] = number
    cursor[BEGIN] = start
    cursor[WRITTEN] = written
    cursor[LOW] = low
    cursor[HIGH] = high
    cursor[APPLIED] = applied
    cursor[DETAIL] = detail
    counters[INSERTED] += inserted
    counters[REPEATED] += repeated
    counters[DELETED] += deleted
    counters[ABSENT] += absent
    counters[SPARED] += spared
    counters[WALKED] += walked
    return status
