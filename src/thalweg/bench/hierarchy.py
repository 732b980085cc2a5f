"""Interval codes of a class hierarchy, as LiteMat has them, against the epsilon table.

A class is numbered in preorder, so that the classes below one are an interval: a subclass test is two comparisons. That
needs a code for each term. It is measured with codes in place of ids, and with codes that are looked up by id.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import numba
import numpy as np
from numpy.typing import NDArray

from thalweg.bench.report import Report
from thalweg.rdf.arena import Arena
from thalweg.schema.axioms import TYPE, schema_of
from thalweg.schema.expansion import Expansion
from thalweg.schema.network import Network
from thalweg.testing.generate_offers import TREES, ProductTypes, type_iri

Ints = NDArray[np.int64]


def measure(report: Report, triples: int, repeat: int) -> None:
    """Nanoseconds for a triple of rdf:type, of which one in eight is below the class that is asked for."""
    for size, branching in TREES.items():
        tree = ProductTypes(branching)
        arena = Arena()
        ids = arena.intern_all([type_iri(number).encode() for number in range(1, size + 1)])
        codes, ends = preorder(tree)
        chance = np.random.default_rng(0)
        leaves = np.array(tree.leaves) - 1
        first = len(leaves) // branching[0]
        below = chance.random(triples) < 1 / 8
        types = leaves[
            np.where(below, chance.integers(0, first, triples), chance.integers(first, len(leaves), triples))
        ]
        network = Network(schema_of(tree.schema()), ((None, TYPE, type_iri(2)),))
        expansion = Expansion(network, arena)
        s, p = np.arange(1, triples + 1), np.full(triples, arena.intern(TYPE.encode()))
        o, coded = ids[types], codes[types]
        keys, values = _table(ids, codes)
        low, high = int(codes[1]), int(ends[1])
        found: list[tuple[str, Callable[[], int]]] = [
            ("epsilon table", partial(expansion.count, s, p, o)),
            ("codes in place of ids", partial(_within, coded, low, high)),
            ("codes looked up by id", partial(_found_within, o, keys, values, low, high)),
        ]
        for name, work in found:
            if work() != np.count_nonzero(below):
                raise AssertionError(f"{name}: {work()} of {np.count_nonzero(below)} types were found")
            report.add("hierarchy", f"{size:,} classes, {name}", _best(work, repeat) / triples * 1e9, "ns")


def preorder(tree: ProductTypes) -> tuple[Ints, Ints]:
    """By class: its number in preorder, and the end of the interval of those below it.

    >>> preorder(ProductTypes((2, 1)))
    (array([0, 1, 3, 2, 4]), array([5, 3, 5, 3, 5]))
    """
    below: dict[int, list[int]] = {}
    for number in range(tree.size, 1, -1):
        below.setdefault(tree.above(number), []).append(number)
    codes, ends = np.zeros((2, tree.size), np.int64)
    pending, code = [(1, False)], 0
    while pending:
        number, left = pending.pop()
        if left:
            ends[number - 1] = code
            continue
        codes[number - 1] = code
        code += 1
        pending += [(number, True), *((one, False) for one in below.get(number, ()))]
    return codes, ends


@numba.njit
def _within(codes: Ints, low: int, high: int) -> int:  # pragma: no cover - compiled
    found = 0
    for code in codes:
        found += (code >= low) & (code < high)
    return found


@numba.njit
def _slot(id: int, last: int) -> np.int64:  # pragma: no cover - compiled
    return np.int64((np.uint64(id) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(40)) & last


@numba.njit
def _found_within(
    ids: Ints, keys: Ints, values: Ints, low: int, high: int
) -> int:  # pragma: no cover - compiled
    found = 0
    last = np.int64(keys.shape[0] - 1)
    for id in ids:
        slot = _slot(id, last)
        while keys[slot] != 0 and keys[slot] != id:
            slot = (slot + 1) & last
        found += (values[slot] >= low) & (values[slot] < high)
    return found


@numba.njit
def _enter(keys: Ints, values: Ints, ids: Ints, codes: Ints) -> None:  # pragma: no cover - compiled
    last = np.int64(keys.shape[0] - 1)
    for k in range(ids.shape[0]):
        slot = _slot(ids[k], last)
        while keys[slot] != 0:
            slot = (slot + 1) & last
        keys[slot] = ids[k]
        values[slot] = codes[k]


def _table(ids: Ints, codes: Ints) -> tuple[Ints, Ints]:
    """A hash table from ids to codes; what is not in it has the code -1."""
    size = 1 << (2 * len(ids)).bit_length()
    keys, values = np.zeros(size, np.int64), np.full(size, -1, np.int64)
    _enter(keys, values, ids, codes)
    return keys, values


def _best(work: Callable[[], int], repeat: int) -> float:
    """CPU seconds of the quickest call."""
    taken = []
    for _ in range(3 * repeat):
        begun = time.process_time()
        work()
        taken.append(time.process_time() - begun)
    return min(taken)
