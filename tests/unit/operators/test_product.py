"""The product of parts: what it keeps sums to what it was given."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from thalweg.kernels.layout import OUT_BINDINGS, OUT_FROM, OUT_TO, OUT_WEIGHT
from thalweg.operators.product import Product, _netted
from thalweg.operators.spans import Spans

pieces = st.tuples(st.sampled_from([1, 1, -1]), st.integers(0, 8), st.integers(1, 8), st.integers(0, 2))


def solutions(rows: list[tuple[int, int, int, int]], width: int) -> np.ndarray:
    out = np.zeros((len(rows), OUT_BINDINGS + width), np.int64)
    for k, (weight, begin, length, binding) in enumerate(rows):
        out[k, [OUT_WEIGHT, OUT_FROM, OUT_TO]] = weight, begin, begin + length
        out[k, OUT_BINDINGS:] = binding
    return out


def weights_at(rows: np.ndarray, at: int) -> dict[tuple[int, ...], int]:
    total: Counter[tuple[int, ...]] = Counter()
    for row in rows.tolist():
        if row[OUT_FROM] <= at < row[OUT_TO]:
            total[tuple(row[OUT_BINDINGS:])] += row[OUT_WEIGHT]
    return {binding: weight for binding, weight in total.items() if weight}


@given(st.lists(pieces, min_size=1, max_size=30), st.integers(0, 2))
def test_netting_changes_no_sum_and_leaves_no_neighbours_of_equal_weight(rows, width):
    known = solutions(rows, width)
    netted = _netted(known)
    for at in range(20):
        assert weights_at(netted, at) == weights_at(known, at)
    ends = {(tuple(row[OUT_BINDINGS:]), row[OUT_TO], row[OUT_WEIGHT]) for row in netted.tolist()}
    assert not any(
        (tuple(row[OUT_BINDINGS:]), row[OUT_FROM], row[OUT_WEIGHT]) in ends for row in netted.tolist()
    )
    assert (netted[:, OUT_FROM] < netted[:, OUT_TO]).all()


@given(st.lists(st.tuples(st.integers(0, 1), st.lists(pieces, min_size=1, max_size=6)), max_size=12))
def test_the_product_sums_to_the_product_of_the_sums(batches):
    product = Product([[0], [1]], per_event=False)
    out, given = [], [[], []]
    for part, rows in batches:
        given[part] += rows
        out.append(product.step(part, Spans(solutions(rows, 1))).cells)
        product.tidy(now=-1, event=0)
    made = np.concatenate([np.empty((0, OUT_BINDINGS + 2), np.int64), *out])
    for at in range(18):
        left, right = (weights_at(solutions(rows, 1), at) for rows in given)
        expected = {(x, y): u * v for (x,), u in left.items() for (y,), v in right.items()}
        assert weights_at(made, at) == expected
