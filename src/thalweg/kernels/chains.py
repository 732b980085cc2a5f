"""Chains: rows of a table in lists that begin at rows of another one, with both neighbours of each.

`items[item, owner]` is the row of `owners` in whose chain an item is, and `owners[.., head]` the first of its items, or
-1; `following` and `previous` are the cells of an item with its neighbours, -1 at the ends.
"""

from __future__ import annotations

from thalweg.kernels.checking import njit


@njit(cache=True, nogil=True)
def link(items, owners, item, owner, head, following, previous):
    """Puts an item at the beginning of the chain of its owner."""
    row = items[item, owner]
    first = owners[row, head]
    items[item, following] = first
    items[item, previous] = -1
    if first >= 0:
        items[first, previous] = item
    owners[row, head] = item


@njit(cache=True, nogil=True)
def unlink(items, owners, item, owner, head, following, previous):
    """Takes an item out of the chain of its owner."""
    after, before = items[item, following], items[item, previous]
    if before >= 0:
        items[before, following] = after
    else:
        owners[items[item, owner], head] = after
    if after >= 0:
        items[after, previous] = before
