"""VALUES as an operator: pairs of rows and rows of a table that agree wherever both are bound."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from thalweg.operators.rows import ExpandRows
from thalweg.operators.spans import Changes

CELLS = st.integers(0, 3)
"""Ids; 0 is unbound."""


@given(
    table=st.lists(st.tuples(CELLS, CELLS, CELLS), max_size=8),
    rows=st.lists(st.tuples(CELLS, CELLS, CELLS), min_size=1, max_size=8),
    repeat=st.sampled_from([1, 20]),
    shared=st.sampled_from([(), ((0, 0),), ((2, 1),), ((0, 0), (1, 2)), ((1, 0), (0, 1), (2, 2))]),
)
def test_each_row_meets_the_rows_of_the_table_that_are_compatible_in_the_order_of_the_rows(
    table: list[tuple[int, ...]],
    rows: list[tuple[int, ...]],
    repeat: int,
    shared: tuple[tuple[int, int], ...],
) -> None:
    added = [place for place in range(3) if place not in {theirs for _, theirs in shared}]
    rows *= repeat  # few rows and many are looked up in different ways
    operator = ExpandRows(np.array(table, np.int64).reshape(-1, 3), shared, added, 3)
    time = np.arange(len(rows))
    made = operator.step(Changes(time, time + 1, np.array(rows, np.int64)))
    expected = []
    for k, row in enumerate(rows):
        met = []
        for other in table:
            if all(0 in (row[mine], other[theirs]) or row[mine] == other[theirs] for mine, theirs in shared):
                cells = list(row)
                for mine, theirs in shared:
                    cells[mine] = row[mine] or other[theirs]
                met.append((k, k + 1, [*cells, *(other[place] for place in added)]))
        expected += sorted(met)
    found = list(zip(made.time.tolist(), made.weight.tolist(), made.rows.tolist(), strict=True))
    assert sorted(found) == sorted(expected)
    assert made.time.tolist() == sorted(made.time.tolist())
