"""A step of a delta plan: which pattern comes next, its candidate rows, and whether a row fits."""

from __future__ import annotations

import numpy as np

from thalweg.kernels.bases import newest_static
from thalweg.kernels.checking import njit
from thalweg.kernels.layout import (
    BOUND,
    CONSTANT,
    NODE_FIRST,
    NODE_STEPS,
    PROBES,
    RACES,
    STEP_CELLS,
    STEP_KIND,
    STEP_STORE,
    STEP_TERMS,
    WALKED,
)
from thalweg.kernels.memory import load64, store64
from thalweg.kernels.store import ALL, BASE, FIELDS, HEAD, TAIL, descriptor, newest, older_row

FEW = 24  # candidates that a step may have before other steps are looked at


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
def fits(terms, s, p, o, bound):
    """Whether a triple fits the three (mode, value) pairs at an address; free variables are bound by it."""
    return (
        meet(load64(terms, 0), load64(terms, 1), s, bound)
        and meet(load64(terms, 2), load64(terms, 3), p, bound)
        and meet(load64(terms, 4), load64(terms, 5), o, bound)
    )


@njit(cache=True, nogil=True)
def wanted(mode, value, bound):
    """The term that a position must have; meaningless where it is still free."""
    if mode == CONSTANT:
        return value
    if mode == BOUND:
        return load64(bound, value)
    return np.int64(0)


@njit(cache=True, nogil=True)
def first_row(desc, step, bound):
    """The newest candidate row of a step (an address) in a store, or -1."""
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
def first_static_row(desc, step, bound):
    """The same in a store of static data."""
    kind = load64(step, STEP_KIND)
    if kind == ALL:
        return load64(desc, HEAD) - 1
    return newest_static(
        desc,
        kind,
        wanted(load64(step, STEP_TERMS), load64(step, STEP_TERMS + 1), bound),
        wanted(load64(step, STEP_TERMS + 2), load64(step, STEP_TERMS + 3), bound),
        wanted(load64(step, STEP_TERMS + 4), load64(step, STEP_TERMS + 5), bound),
    )


@njit(cache=True, nogil=True)
def chain_length(desc, kind, row, most):
    """How many live rows a chain has from `row` on, counted up to `most`."""
    tail = load64(desc, TAIL)
    count = np.int64(0)
    while row >= tail and count < most:
        count += 1
        row = older_row(desc, kind, row)
    return count


@njit(cache=True, nogil=True)
def candidates(stores, desc, step, row, bound, most):
    """How many candidates a step has from `row` on, and in the base of the store, counted up to `most`."""
    kind = load64(step, STEP_KIND)
    count = chain_length(desc, kind, row, most)
    base = load64(desc, BASE)
    if base != 0 and count < most:
        static = stores + (base - 1) * (8 * FIELDS)
        count += chain_length(static, kind, first_static_row(static, step, bound), most - count)
    return count


@njit(cache=True, nogil=True)
def choose(stores, node, steps, bound, tally):
    """The step (an address) to take from a node, the store of its pattern, and its first candidate row there.

    It is the first step, unless that has more than a few candidates: then all steps race, and the shortest chain wins.
    The race costs a small multiple of the winner's length, so that a hub is walked only where every way leads there.
    """
    step = steps + load64(node, NODE_FIRST) * (8 * STEP_CELLS)
    ways = load64(node, NODE_STEPS)
    desc = stores + load64(step, STEP_STORE) * (8 * FIELDS)
    row = first_row(desc, step, bound)
    store64(tally, PROBES, load64(tally, PROBES) + 1)
    if ways == 1 or (row < 0 and load64(desc, BASE) == 0):
        return step, desc, row
    most = np.int64(FEW)
    if candidates(stores, desc, step, row, bound, most) < most:
        return step, desc, row
    while True:
        store64(tally, RACES, load64(tally, RACES) + 1)
        best = step
        best_desc = desc
        best_row = row
        least = most
        for way in range(ways):
            other = step + way * (8 * STEP_CELLS)
            store = stores + load64(other, STEP_STORE) * (8 * FIELDS)
            first = row if way == 0 else first_row(store, other, bound)
            count = candidates(stores, store, other, first, bound, least)
            store64(tally, WALKED, load64(tally, WALKED) + count)
            if count < least:
                best = other
                best_desc = store
                best_row = first
                least = count
                if count == 0:
                    return other, store, np.int64(-1)
        if least < most:
            return best, best_desc, best_row
        most *= 8


@njit(cache=True, nogil=True)
def mean_chain_length(stores, store, kind, ss, ps, os, most):
    """The mean number of rows, each counted up to `most`, that a probe by the keys of some triples finds."""
    desc = descriptor(stores, store)
    total = np.int64(0)
    while desc != 0:
        for k in range(ss.shape[0]):
            row = load64(desc, HEAD) - 1 if kind == ALL else newest(desc, kind, ss[k], ps[k], os[k])
            total += chain_length(desc, kind, row, most)
        base = load64(desc, BASE)
        desc = descriptor(stores, base - 1) if base != 0 else np.int64(0)
    return total / max(ss.shape[0], 1)
