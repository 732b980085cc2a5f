"""Timeline and counted rows against plain Python."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from thalweg.kernels.match import OUT_BINDINGS, OUT_FROM, OUT_TO, OUT_WEIGHT
from thalweg.kernels.store import FOREVER
from thalweg.operators.timeline import CountedRows, Timeline, consolidate

ends = st.one_of(st.integers(0, 20), st.just(int(FOREVER)))
lives = st.tuples(st.sampled_from([1, -1]), st.integers(0, 20), ends, st.integers(0, 3), st.integers(0, 3))


def solutions(rows: list[tuple[int, ...]]) -> np.ndarray:
    out = np.zeros((len(rows), OUT_BINDINGS + 2), np.int64)
    for k, (weight, begin, end, *binding) in enumerate(rows):
        out[k, [OUT_WEIGHT, OUT_FROM, OUT_TO]] = weight, begin, end
        out[k, OUT_BINDINGS:] = binding
    return out


@given(st.lists(st.tuples(st.lists(lives, max_size=200), st.integers(0, 25)), max_size=5))
def test_a_timeline_gives_every_signed_row_once_in_time_order(steps):
    timeline = Timeline(2)
    expected: list[tuple[int, int, tuple[int, int]]] = []
    for rows, until in steps:
        timeline.schedule(solutions(rows))
        for weight, begin, end, *binding in rows:
            expected.append((begin, weight, tuple(binding)))
            if end != FOREVER:
                expected.append((end, -weight, tuple(binding)))
        times, weights, values = timeline.pop(until)
        assert (times[1:] >= times[:-1]).all()
        got = Counter(zip(times.tolist(), weights.tolist(), map(tuple, values.tolist()), strict=True))
        assert got == Counter(entry for entry in expected if entry[0] <= until)
        expected = [entry for entry in expected if entry[0] > until]
        assert len(timeline) == len(expected)
        assert timeline.due == min((time for time, *_ in expected), default=None)
        assert Counter(map(tuple, timeline.rows().tolist())) == Counter(row for *_, row in expected)


@given(st.lists(st.lists(st.tuples(st.integers(-2, 2), st.integers(0, 4), st.integers(0, 4)), max_size=300)))
def test_counted_rows_tell_when_a_row_appears_and_vanishes(batches):
    counted = CountedRows(2)
    model: Counter[tuple[int, int]] = Counter()
    for batch in batches:
        weights = np.array([weight for weight, *_ in batch], np.int64)
        rows = np.array([row for _, *row in batch], np.int64).reshape(len(batch), 2)
        # A multiset has no negative counts: skip what would make one.
        keep = []
        for k, (weight, *row) in enumerate(batch):
            if model[tuple(row)] + weight >= 0:
                model[tuple(row)] += weight
                keep.append(k)
        known, counts = (column.tolist() for column in counted.content())
        before = Counter(dict(zip(map(tuple, known), counts, strict=True)))
        changes = counted.add(weights[keep], rows[keep])
        for k, change in zip(keep, changes.tolist(), strict=True):
            row = tuple(rows[k].tolist())
            was = before[row] > 0
            before[row] += int(weights[k])
            assert change == int(before[row] > 0) - int(was)
        there, counts = counted.content()
        assert dict(zip(map(tuple, there.tolist()), counts.tolist(), strict=True)) == +model


@given(st.lists(st.tuples(st.integers(0, 5), st.sampled_from([1, -1, 2]), st.integers(0, 2)), max_size=60))
def test_consolidating_nets_within_instants_and_changes_no_sum(entries):
    entries.sort(key=lambda entry: entry[0])
    times, weights, rows = (np.array([entry[k] for entry in entries], np.int64) for k in range(3))
    got = consolidate(times, weights, rows.reshape(-1, 1))
    expected: Counter[tuple[int, int]] = Counter()
    for time, weight, row in entries:
        expected[time, row] += weight
    sums: Counter[tuple[int, int]] = Counter()
    signs: dict[int, dict[int, set[int]]] = {}
    for time, weight, row in zip(got[0].tolist(), got[1].tolist(), got[2][:, 0].tolist(), strict=True):
        sums[time, row] += weight
        signs.setdefault(time, {}).setdefault(row, set()).add(np.sign(weight))
    assert {key: w for key, w in sums.items() if w} == {key: w for key, w in expected.items() if w}
    assert all(len(found) == 1 for at in signs.values() for found in at.values())
    assert (got[0][1:] >= got[0][:-1]).all()
