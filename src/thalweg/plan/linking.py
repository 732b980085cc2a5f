"""Linking: one more query for a program, at the cost of that query. The plans of the others stay as they are.

The query is compiled alone, over the stores of the program, and its tables are appended. Plans that could be shared are
not: now and then, all queries are compiled together.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from thalweg.algebra.query import Query
from thalweg.kernels.layout import (
    BASE_SLOT,
    DISPATCH_COUNT,
    DISPATCH_FIRST,
    DISPATCH_INDEXES,
    DISPATCH_KEY,
    DISPATCH_MASKS,
    ENTRY_NODE,
    ENTRY_OTHERS,
    NODE_FIRST,
    NODE_MEMBERS,
    STEP_NODE,
)
from thalweg.plan.program import Interner, Program, Statistics, compile_program

Ints = NDArray[np.int64]


def link_query(
    program: Program,
    query: Query,
    number: int,
    intern: Interner,
    statistics: Statistics,
    epoch: int,
    static: Collection[str] = (),
) -> tuple[Program, set[int]] | None:
    """The program with a query, number `number`, whose units come last, and which stores have to be indexed anew.

    None where the dispatch table is too full. `static` are the static graphs, those that the program was made with.
    """
    alone = replace(statistics, fanout={})
    more = compile_program(
        program.streams,
        [query],
        intern,
        statistics=alone,
        epochs=[epoch],
        stores=program.stores,
        static=static,
    )
    added = _add_signatures(program, more)
    if added is None:
        return None
    dispatch, entries, others = added
    nodes, steps = more.nodes.copy(), more.steps.copy()
    nodes[:, NODE_FIRST] += len(program.steps)
    nodes[:, NODE_MEMBERS] += len(program.members)
    steps[:, STEP_NODE] += len(program.nodes)
    needs = dict(program.needs)
    for signature, kinds in more.needs.items():
        needs[signature] = needs.get(signature, 1) | kinds
    anew = unindexed(program, more)
    indexes = list(more.indexes)
    for store, kinds in enumerate(program.indexes):
        indexes[store] |= kinds
    wild = more.wild.copy()
    wild[: len(program.stores)] |= program.wild[: len(program.stores)]
    linked = replace(
        program,
        stores=more.stores,
        indexes=tuple(indexes),
        units=(*program.units, *(replace(unit, query=number) for unit in more.units)),
        bases=more.bases,
        feeds=more.feeds,
        wild=wild,
        dispatch=dispatch,
        entries=entries,
        nodes=np.concatenate([program.nodes, nodes]),
        steps=np.concatenate([program.steps, steps]),
        others=others,
        outputs=_stacked(program.outputs[: len(program.units)], more.outputs),
        members=np.concatenate([program.members, more.members + len(program.units)]),
        fan=max(program.fan, more.fan),
        width=max(program.width, more.width),
        variables=max(program.variables, more.variables),
        depth=max(program.depth, more.depth),
        constants=np.union1d(program.constants, more.constants),
        needs=needs,
    )
    return linked, anew


def unindexed(before: Program, after: Program) -> set[int]:
    """The stores with rows that are not in all indexes by which a later program looks for them.

    What was stored for a signature is in the indexes that its plans have needed so far. Stores have the same numbers in
    both.
    """
    return {
        signature[0]
        for signature, kinds in after.needs.items()
        if kinds & ~before.needs.get(signature, kinds)
    }


def _add_signatures(program: Program, more: Program) -> tuple[Ints, Ints, Ints] | None:
    """The dispatch table, the entries and their others of both; None where the table is too full.

    The entries of a signature follow each other: those of one that has some already are copied to the end.
    """
    found = np.flatnonzero(more.dispatch[:, DISPATCH_KEY])
    if 3 * (np.count_nonzero(program.dispatch[:, DISPATCH_KEY]) + len(found)) > 2 * len(program.dispatch):
        return None
    dispatch = program.dispatch.copy()
    slots = np.zeros(len(more.dispatch), np.int64)
    parts: list[Ints] = [program.entries]
    count = len(program.entries)
    entries = more.entries.copy()
    entries[:, ENTRY_NODE] += len(program.nodes)
    entries[:, ENTRY_OTHERS] += len(program.others)
    for place in found.tolist():
        signature = more.dispatch[place]
        slot = slots[place] = _slot(dispatch, int(signature[DISPATCH_KEY]))
        first, size = signature[DISPATCH_FIRST], signature[DISPATCH_COUNT]
        before = dispatch[slot]
        own: Sequence[Ints] = [
            program.entries[before[DISPATCH_FIRST] : before[DISPATCH_FIRST] + before[DISPATCH_COUNT]],
            entries[first : first + size],
        ]
        parts += own
        before[DISPATCH_KEY] = signature[DISPATCH_KEY]
        before[DISPATCH_FIRST], before[DISPATCH_COUNT] = count, sum(map(len, own))
        before[DISPATCH_INDEXES] |= signature[DISPATCH_INDEXES]
        before[DISPATCH_MASKS] |= signature[DISPATCH_MASKS]
        count += int(before[DISPATCH_COUNT])
    found_others, bases = more.others & ((1 << BASE_SLOT) - 1), (more.others >> BASE_SLOT) - 1
    paired = slots[found_others % len(slots)] | (np.where(bases < 0, -1, slots[bases]) + 1) << BASE_SLOT
    others = np.where(more.others < 0, -1, paired)
    return dispatch, np.concatenate(parts), np.concatenate([program.others, others])


def _slot(dispatch: Ints, key: int) -> int:
    """The slot of a signature in the dispatch table, or the one that it may take."""
    last = len(dispatch) - 1
    slot = (key >> 1) & last
    while dispatch[slot, DISPATCH_KEY] not in (0, key):
        slot = (slot + 1) & last
    return slot


def _stacked(upper: Ints, lower: Ints) -> Ints:
    """The rows of two arrays, each ended by -1, in one of the larger width."""
    width = max(upper.shape[1], lower.shape[1])
    table = np.full((len(upper) + len(lower), width), -1, np.int64)
    table[: len(upper), : upper.shape[1]] = upper
    table[len(upper) :, : lower.shape[1]] = lower
    return table
