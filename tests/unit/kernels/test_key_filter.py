"""Key filters: they have every key that was added, and few others."""

from __future__ import annotations

import numpy as np

from thalweg.algebra.windows import Static
from thalweg.kernels import store as kernel
from thalweg.kernels.bases import in_static, newest_static
from thalweg.kernels.checking import address_of
from thalweg.kernels.key_filter import LINE_WORDS, add_key, may_have
from thalweg.operators.windows import WindowStores


def test_a_filter_has_every_key_that_was_added_and_few_others() -> None:
    chance = np.random.default_rng(7)
    terms, keys = chance.integers(-(2**63), 2**63 - 1, (2, 64_000))
    lines = 1000
    words = np.zeros((lines, LINE_WORDS), np.int64)
    at = address_of(words)
    for term, key in zip(terms[:32_000].tolist(), keys[:32_000].tolist(), strict=True):
        add_key(at, lines, term, key)
    found = [may_have(at, lines, term, key) for term, key in zip(terms.tolist(), keys.tolist(), strict=True)]
    assert all(found[:32_000])
    assert sum(found[32_000:]) < 0.02 * 32_000


def test_a_store_of_static_data_finds_its_rows_by_each_index_as_it_grows() -> None:
    chance = np.random.default_rng(8)
    every = (1 << kernel.INDEXES) - 1
    triples = np.unique(chance.integers(1, 60, (2000, 3)), axis=0) * 0x1234567890ABCDEF
    stores = WindowStores([Static()], [every])
    desc = kernel.descriptor(stores.descriptors, 0)
    for s, p, o in triples.tolist():
        while True:
            number, _ = kernel.insert(desc, every, 0, 0, s, p, o)
            if number > kernel.FULL_ROWS:
                break
            stores.grow(0, number, 0)
    for s, p, o in triples.tolist():
        assert in_static(desc, s, p, o)
        for kind in range(kernel.INDEXES):
            assert newest_static(desc, kind, s, p, o) == kernel.newest(desc, kind, s, p, o) >= 0
    assert not in_static(desc, 5, 6, 7)


def test_a_predicate_that_static_data_do_not_have_needs_no_look_at_the_filter() -> None:
    every = (1 << kernel.INDEXES) - 1
    stores = WindowStores([Static()], [every])
    desc = kernel.descriptor(stores.descriptors, 0)
    predicates = [64 * k + bit for k, bit in enumerate((3, 17, 63))]
    for s, p in ((s, p) for s in range(1, 1000) for p in predicates):
        while kernel.insert(desc, every, 0, 0, s, p, 1)[0] <= kernel.FULL_ROWS:
            stores.grow(0, kernel.insert(desc, every, 0, 0, s, p, 1)[0], 0)
    for kind in range(kernel.INDEXES):
        has_predicate = kernel.WITH_P >> kind & 1
        for bit in range(64):
            may_have = kernel.may_have_predicate(desc, kind, 64 * 99 + bit)
            assert bool(may_have) == (not has_predicate or bit in (3, 17, 63)), (kind, bit)
