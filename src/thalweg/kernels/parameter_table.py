"""The table of parameters: a hash table from a node and the values of its parameters to the members with these values.

Queries that differ in constants only share a plan; the constants are its parameters.
"""

from __future__ import annotations

import numpy as np

from thalweg.kernels.checking import njit
from thalweg.kernels.hashing import mixed
from thalweg.kernels.layout import KNOWN_CELLS, KNOWN_COUNT, KNOWN_FIRST, KNOWN_KEY, KNOWN_VALUES
from thalweg.kernels.memory import load64


@njit(cache=True, nogil=True)
def enter_parameters(rows, values, table):
    """Fills the table; a row is a node, how many values it has, and its members (first, count).

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
def look_up_parameters(known, last, number, places, values, bound):
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
