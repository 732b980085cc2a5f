"""Timeline and counted rows against plain Python."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thalweg.kernels.layout import OUT_BINDINGS, OUT_FROM, OUT_TO, OUT_WEIGHT
from thalweg.kernels.store import FOREVER
from thalweg.operators.spans import Changes, Spans
from thalweg.operators.timeline import CountedRows, Timeline

YEAR_10000 = 253_402_300_800_000_000
near = st.integers(0, 20)
far = st.one_of(
    near,
    st.integers(0, 1 << 30),
    st.integers(-YEAR_10000, YEAR_10000),
    st.sampled_from([0, 63, 64, -1, -64, YEAR_10000, int(FOREVER) - 1, -int(FOREVER) - 1]),
)


def lives(times):
    ends = st.one_of(times, st.just(int(FOREVER)))
    return st.tuples(st.sampled_from([1, -1]), times, ends, st.integers(0, 3), st.integers(0, 3))


def calls(times):
    """Lives that come, and how far time goes then."""
    return st.lists(st.tuples(st.lists(lives(times), max_size=200), times), max_size=5)


def solutions(rows: list[tuple[int, ...]]) -> Spans:
    out = np.zeros((len(rows), OUT_BINDINGS + 2), np.int64)
    for k, (weight, begin, end, *binding) in enumerate(rows):
        out[k, [OUT_WEIGHT, OUT_FROM, OUT_TO]] = weight, begin, end
        out[k, OUT_BINDINGS:] = binding
    return Spans(out)


def entries(rows: list[tuple[int, ...]]) -> list[tuple[int, int, tuple[int, ...]]]:
    """Beginnings and ends: time, weight, bindings."""
    begun = [(begin, weight, tuple(binding)) for weight, begin, _, *binding in rows]
    ended = [(end, -weight, tuple(binding)) for weight, _, end, *binding in rows if end != FOREVER]
    return begun + ended


def popped(timeline: Timeline, until: int) -> Counter[tuple[int, int, tuple[int, ...]]]:
    taken = timeline.pop(until)
    assert (taken.time[1:] >= taken.time[:-1]).all()
    values = map(tuple, taken.rows.tolist())
    return Counter(zip(taken.time.tolist(), taken.weight.tolist(), values, strict=True))


@given(st.one_of(calls(near), calls(far)), st.booleans(), st.booleans())
def test_a_timeline_gives_every_signed_row_once_in_time_order(steps, ordered, saved):
    timeline = Timeline(2)
    expected: list[tuple[int, int, tuple[int, ...]]] = []
    for rows, until in steps:
        rows = sorted(rows, key=lambda row: row[1]) if ordered else rows
        timeline.schedule(solutions(rows))
        expected += entries(rows)
        if saved:
            state = timeline.state()
            timeline = Timeline(2)
            timeline.restore(state)
        assert popped(timeline, until) == Counter(entry for entry in expected if entry[0] <= until)
        expected = [entry for entry in expected if entry[0] > until]
        assert len(timeline) == len(expected)
        assert timeline.due == min((time for time, *_ in expected), default=None)
        assert Counter(map(tuple, timeline.rows().tolist())) == Counter(row for *_, row in expected)


def stream(rng: np.random.Generator, events: int, spread: int, begin: int = 0) -> list[tuple[int, ...]]:
    """One life an instant, each of a random length."""
    return [
        (1, begin + k, begin + k + 1 + int(length), k, 0)
        for k, length in enumerate(rng.integers(0, spread, events))
    ]


@pytest.mark.parametrize("batch", [1, 7, 500])
@pytest.mark.parametrize("spread", [1, 50, 10**4, 10**12])
def test_a_timeline_follows_a_stream_in_batches_of_any_size(batch, spread):
    rng = np.random.default_rng(batch * spread)
    rows = stream(rng, min(2000, 600 * batch), spread)
    timeline = Timeline(2)
    for start in range(0, len(rows), batch):
        part = rows[start : start + batch]
        timeline.schedule(solutions(part))
        until = part[-1][1]
        got = popped(timeline, until)
        # Everything before has been taken: what is due now is of this batch or ends within it.
        known = entries(rows[: start + batch])
        assert got == Counter(entry for entry in known if part[0][1] <= entry[0] <= until)


def test_a_timeline_gives_its_memory_back():
    rng = np.random.default_rng(0)
    timeline = Timeline(2)
    timeline.schedule(solutions(stream(rng, 100_000, 10**6)))
    large = timeline.nbytes
    assert large < 1.6 * 32 * len(timeline)
    assert len(timeline.pop(2 * 10**6)) == 200_000
    assert not timeline.give_back(spare=100_000)  # as many may come again
    assert timeline.nbytes == large
    assert timeline.give_back()
    assert timeline.nbytes == 0


@pytest.mark.parametrize("spread", [50, 10**4, 10**9])
def test_a_timeline_that_gives_memory_back_keeps_what_waits(spread):
    rng = np.random.default_rng(spread)
    timeline = Timeline(2)
    rows = stream(rng, 20_000, 1000)
    timeline.schedule(solutions(rows))
    expected = entries(rows)
    for until in (15_000, 20_000, 20_900, 20_990, 22_000):
        assert popped(timeline, until) == Counter(entry for entry in expected if entry[0] <= until)
        expected = [entry for entry in expected if entry[0] > until]
        assert timeline.give_back()
        assert timeline.nbytes < 32 * (2 * (len(timeline) + 8 * min(len(timeline), 11 * 64)) + 64) + 32_000
        more = stream(rng, 10, spread, begin=until + 1)
        timeline.schedule(solutions(more))
        expected += entries(more)


def test_a_timeline_without_rows_has_next_to_no_memory():
    assert Timeline(2).nbytes == 0


@given(st.lists(st.lists(st.tuples(st.integers(-2, 2), st.integers(0, 4), st.integers(0, 4)), max_size=300)))
def test_counted_rows_report_when_a_row_appears_and_vanishes(batches):
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


def test_a_timeline_forgets_ends_that_cancel():
    timeline = Timeline(2)
    timeline.schedule(solutions([(1, k, 10**9, k, 0) for k in range(1000)]))
    timeline.pop(2000)
    timeline.schedule(solutions([(-1, 2000 + k, 10**9, k, 0) for k in range(990)]))
    timeline.pop(5000)
    assert len(timeline) == 1990
    assert timeline.give_back()
    assert popped(timeline, 10**9) == Counter({(10**9, -1, (k, 0)): 1 for k in range(990, 1000)})


def test_counted_rows_give_their_memory_back():
    counted = CountedRows(2)
    rows = np.arange(200_000).reshape(-1, 2)
    counted.add(np.ones(100_000, np.int64), rows)
    large = counted.nbytes
    counted.add(-np.ones(99_990, np.int64), rows[10:])
    assert len(counted) == 10
    assert not counted.give_back(spare=100_000)
    assert counted.nbytes == large
    assert counted.give_back()
    assert counted.nbytes < 64 * 1024
    assert sorted(map(tuple, counted.content()[0].tolist())) == list(map(tuple, rows[:10].tolist()))


@given(st.lists(st.tuples(st.integers(0, 5), st.sampled_from([1, -1, 2]), st.integers(0, 2)), max_size=60))
def test_consolidating_nets_within_instants_and_changes_no_sum(entries):
    entries.sort(key=lambda entry: entry[0])
    times, weights, rows = (np.array([entry[k] for entry in entries], np.int64) for k in range(3))
    got = Changes(times, weights, rows.reshape(-1, 1)).consolidated()
    expected: Counter[tuple[int, int]] = Counter()
    for time, weight, row in entries:
        expected[time, row] += weight
    sums: Counter[tuple[int, int]] = Counter()
    signs: dict[int, dict[int, set[int]]] = {}
    found = zip(got.time.tolist(), got.weight.tolist(), got.rows[:, 0].tolist(), strict=True)
    for time, weight, row in found:
        sums[time, row] += weight
        signs.setdefault(time, {}).setdefault(row, set()).add(np.sign(weight))
    assert {key: w for key, w in sums.items() if w} == {key: w for key, w in expected.items() if w}
    assert all(len(found) == 1 for at in signs.values() for found in at.values())
    assert (got.time[1:] >= got.time[:-1]).all()
