"""Stores with a base: static data that a window store is one set with, and the rows that it hides (see `store`)."""

from __future__ import annotations

import numpy as np

from thalweg.kernels.checking import njit
from thalweg.kernels.key_filter import may_have, prefetch_line
from thalweg.kernels.memory import load64
from thalweg.kernels.store import (
    BASE,
    FILTER,
    FILTER_LINES,
    FOREVER,
    HEAD,
    ROW_O,
    ROW_P,
    ROW_S,
    ROW_TO,
    SHOW,
    SPO,
    TAIL,
    add_keys,
    descriptor,
    filter_key,
    is_hidden,
    may_have_predicate,
    newest,
    older_row,
    row_address,
    set_hidden,
)


@njit(cache=True, nogil=True)
def fill_filter(desc):
    """Adds the keys of all rows to the filter of a store of static data."""
    for number in range(load64(desc, TAIL), load64(desc, HEAD)):
        row = row_address(desc, number)
        add_keys(desc, load64(row, ROW_S), load64(row, ROW_P), load64(row, ROW_O))


@njit(cache=True, nogil=True)
def newest_static(desc, kind, s, p, o):
    """The newest row of a store of static data with the key that `kind` makes of (s, p, o), or -1."""
    if not may_have_predicate(desc, kind, p):  # most often streams and static data have different ones
        return np.int64(-1)
    term, key = filter_key(kind, s, p, o)
    if not may_have(load64(desc, FILTER), load64(desc, FILTER_LINES), term, key):
        return np.int64(-1)
    return newest(desc, kind, s, p, o)


@njit(cache=True, nogil=True)
def prefetch_static(desc, s):
    """Prefetches what `newest_static` reads of the filter for keys with a subject."""
    prefetch_line(load64(desc, FILTER), load64(desc, FILTER_LINES), s)


@njit(cache=True, nogil=True)
def in_static(desc, s, p, o):
    """Whether a store of static data has a triple: some row of it has no end."""
    number = newest_static(desc, SPO, s, p, o)
    tail = load64(desc, TAIL)
    while number >= tail:
        if load64(row_address(desc, number), ROW_TO) == FOREVER:
            return True
        number = older_row(desc, SPO, number)
    return False


@njit(cache=True, nogil=True)
def row_to_mask(desc, op, time, s, p, o):
    """A row of a triple, alive after `time`, that is still to be hidden or shown; or -1."""
    number = newest(desc, SPO, s, p, o)
    tail = load64(desc, TAIL)
    while number >= tail:
        row = row_address(desc, number)
        if load64(row, ROW_TO) > time and is_hidden(row) == (op == SHOW):
            return number
        number = older_row(desc, SPO, number)
    return np.int64(-1)


@njit(cache=True, nogil=True)
def rehide(stores, store):
    """Hides the rows of a store whose triples its base has, and shows the others."""
    desc = descriptor(stores, store)
    base = descriptor(stores, load64(desc, BASE) - 1)
    for number in range(load64(desc, TAIL), load64(desc, HEAD)):
        row = row_address(desc, number)
        set_hidden(row, in_static(base, load64(row, ROW_S), load64(row, ROW_P), load64(row, ROW_O)))
