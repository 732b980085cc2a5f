"""The window store alone, against a list of rows: whatever its ring and its tables are doing meanwhile."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit

from thalweg.algebra.windows import OPEN_CLOSED, Range, Unbounded, Window
from thalweg.kernels import store as kernel
from thalweg.kernels.memory import load64, store64
from thalweg.operators import windows
from thalweg.operators.windows import WindowStores

SPO = kernel.SPO
KEYS = {SPO: (0, 1, 2), kernel.SP: (0, 1), kernel.PO: (1, 2), kernel.P: (1,), kernel.S: (0,), kernel.O: (2,)}
ALL_INDEXES = 0b111111
Triple = tuple[int, int, int]


@njit
def read_chain(desc, kind, s, p, o, out):
    """Copies the rows of a key, newest first; answers how many there are."""
    number = kernel.newest(desc, kind, s, p, o)
    count = 0
    while number >= load64(desc, kernel.TAIL):
        for cell in range(6):
            out[count, cell] = load64(kernel.row_address(desc, number), cell)
        count += 1
        number = kernel.older_row(desc, kind, number)
    return count


@njit
def end_row(desc, number, cut):
    """What the matcher does with the row that a delete ends."""
    row = kernel.row_address(desc, number)
    store64(row, kernel.ROW_TO, max(cut, load64(row, kernel.ROW_FROM)))
    store64(desc, kernel.ENDED, load64(desc, kernel.ENDED) + 1)


def needs(triple: Triple, indexes: int) -> int:
    """The indexes that a triple enters: of some predicates, plans ask for the triple itself only."""
    return indexes if triple[1] == 1 else 1 << SPO


@dataclass
class Model:
    """What a window by time, or without end, holds: for each triple its lives [from, to), and when it last came."""

    width: int | None
    step: int = 1
    lives: dict[Triple, list[list[int]]] = field(default_factory=dict)
    came: dict[Triple, int] = field(default_factory=dict)

    def shows(self, time: int) -> int:
        return -(-time // self.step) * self.step

    def insert(self, triple: Triple, now: int) -> None:
        begin = self.shows(now)
        end = kernel.FOREVER if self.width is None else self.shows(now + self.width)
        lives = self.lives.setdefault(triple, [])
        if begin < end:
            if lives and lives[-1][1] >= begin:
                lives[-1][1] = max(end, lives[-1][1])
            else:
                lives.append([begin, end])
            self.came[triple] = now

    def delete(self, triple: Triple, now: int) -> None:
        lives = self.lives.get(triple)
        if lives and lives[-1][1] > self.shows(now) and self.came[triple] < now:
            lives[-1][1] = self.shows(now)

    def alive(self, kind: int, triple: Triple, now: int) -> list[tuple[int, ...]]:
        """The rows that a probe has to find: s p o from to; a life that has begun may begin at any time before."""
        return sorted(
            (*other, max(begin, now), end)
            for other, lives in self.lives.items()
            for begin, end in lives
            if max(begin, now) < end and all(other[k] == triple[k] for k in KEYS[kind])
        )


class Store:
    """A store that is driven as the matcher does it."""

    def __init__(self, window: Window, indexes: int) -> None:
        self.stores = WindowStores([window], [indexes])
        self.indexes = indexes | 1 << SPO
        self.desc = kernel.descriptor(self.stores.descriptors, 0)
        self.grown: list[int] = []

    def insert(self, triple: Triple, now: int) -> None:
        while (number := self._insert(triple, now)) <= kernel.FULL_ROWS:
            self.grown.append(number)
            self.stores.grow(0, number, now)

    def _insert(self, triple: Triple, now: int) -> int:
        return kernel.insert(self.desc, needs(triple, self.indexes), now, 0, *triple)[0]

    def delete(self, triple: Triple, now: int) -> None:
        number = kernel.row_to_delete(self.desc, kernel.DELETE, now, 0, *triple)
        if number >= 0:
            end_row(self.desc, number, kernel.first_instant(self.desc, now))

    def chain(self, kind: int, triple: Triple, now: int) -> list[tuple[int, ...]]:
        """The rows of a key that are or will be alive: s p o from to."""
        out = np.empty((self.stores.live + 1, 6), np.int64)
        count = read_chain(self.desc, kind, *triple, out)
        return [
            (*row[:3], max(row[3], now), row[4]) for row in out[:count].tolist() if row[4] > max(now, row[3])
        ]

    def rows_of(self, triple: Triple) -> int:
        """How many rows the store keeps of a triple, dead ones included."""
        return int((self.stores.live_rows(0)[:, :3] == triple).all(axis=1).sum())

    def jump(self, by: int) -> None:
        """Lets `by` rows have come and gone before those that are there; dead entries stay as they are."""
        fields = self.stores.descriptors[0]
        tail, live = int(fields[kernel.TAIL]), self.stores.live
        for table in self.stores._tables[0]:
            alive = (table != 0) & ((table - tail) & kernel.NUMBER < live)
            table[alive] = table[alive] & ~kernel.NUMBER | (table[alive] + by) & kernel.NUMBER
        fields[[kernel.HEAD, kernel.TAIL]] += by
        fields[kernel.ROWS] -= by * fields[kernel.STRIDE]

    @property
    def stride(self) -> int:
        return int(self.stores.descriptors[0, kernel.STRIDE])


def insert(store: Store, model: Model, triple: Triple, now: int) -> None:
    store.insert(triple, now)
    model.insert(triple, now)


def compare(store: Store, model: Model, triples: list[Triple], now: int) -> None:
    """A chain has every row that needs to be in it, once; rows that need not be there may be, if they are alive."""
    for kind in range(kernel.INDEXES):
        if store.indexes >> kind & 1:
            for triple in triples:
                found, alive = Counter(store.chain(kind, triple, now)), model.alive(kind, triple, now)
                assert found <= Counter(alive)
                assert Counter(row for row in alive if needs(row[:3], store.indexes) >> kind & 1) <= found


@pytest.fixture(scope="module", autouse=True)
def _small_sizes():
    """Rings and tables that are full after a few rows, so that a short history meets all their sizes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(windows, "_FEW_ROWS", 2)
        patch.setattr(windows, "_table_size", lambda keys: 5 * keys // 2 + 3)
        yield


INSERT, DELETE, REPLANT, SETTLE, JUMP = range(5)
terms = st.integers(1, 5)
triples = st.tuples(terms, st.integers(1, 2), terms)
# A burst of many rows at one instant, then few of them for long: what makes rings grow, wrap around and shrink.
moves = st.lists(
    st.tuples(
        st.sampled_from([INSERT] * 6 + [DELETE] * 3 + [REPLANT, SETTLE]),
        st.lists(triples, min_size=1, max_size=30),
        st.sampled_from([0, 0, 1, 3, 12, 60]),
    ),
    max_size=25,
)
index_sets = st.sampled_from([1, 0b11, 0b10101, 0b11111, ALL_INDEXES])


@pytest.mark.parametrize(("width", "step"), [(None, 1), (1, 1), (20, 1), (12, 12), (20, 7), (20, 5), (3, 9)])
@given(indexes=index_sets, moves=moves)
def test_a_store_holds_what_a_list_of_lives_holds(width, step, indexes, moves):
    window = Unbounded() if width is None else Range(width, None if step == 1 else step, bounds=OPEN_CLOSED)
    store, model = Store(window, indexes), Model(width, step)
    now = 0
    met: list[Triple] = [(9, 9, 9)]
    for move, batch, wait in moves:
        now += wait
        for triple in batch:
            if move == INSERT:
                insert(store, model, triple, now)
            elif move == DELETE:
                store.delete(triple, now)
                model.delete(triple, now)
        if move == REPLANT:
            store.stores.index([indexes], now)
        elif move == SETTLE:
            store.stores.settle(now)
        met = [*dict.fromkeys([*met, *batch])]
        compare(store, model, met[-12:], now)
        assert all(store.rows_of(triple) <= 1 for triple in batch)
    assert store.stride == (72 if indexes.bit_count() > 4 else 64)
    compare(store, model, met, now)


@given(
    start=st.integers(0, 3 * 2**31),
    indexes=index_sets,
    moves=st.lists(
        st.tuples(
            st.sampled_from([INSERT, INSERT, DELETE, JUMP]),
            st.lists(triples, min_size=1, max_size=20),
            st.sampled_from([0, 1, 5, 30]),
            st.sampled_from([1, 2**30, 2**31 - 40, 2**31 - 1, 2**31]),
        ),
        max_size=30,
    ),
)
def test_row_numbers_beyond_32_bits_do_not_bring_dead_rows_back(start, indexes, moves):
    store, model = Store(Range(20), indexes), Model(20)
    store.jump(start)
    now = 0
    met: list[Triple] = []
    for move, batch, wait, by in moves:
        now += wait
        met = [*dict.fromkeys([*met, *batch])]
        if move == JUMP:
            store.jump(by)
            compare(store, model, met, now)
        for triple in batch:
            if move == DELETE:
                store.delete(triple, now)
                model.delete(triple, now)
            else:  # the sweep comes with the first row after a jump
                insert(store, model, triple, now)
        compare(store, model, met, now)


@pytest.mark.parametrize("jump", [2**31, 2**31 - 1, 2**30])
@pytest.mark.parametrize("rounds", [1, 2])
def test_dead_entries_are_swept_before_their_row_numbers_come_again(jump, rounds):
    """A row that is not in an index has the number and the key of one that was: a dead entry would lead to it."""
    store, model = Store(Range(20), ALL_INDEXES), Model(20)
    for k in range(30):
        store.insert((k, 1, k), 0)
    now = 100
    store.stores.settle(now)
    while (left := rounds * 2**32 - int(store.stores.descriptors[0, kernel.HEAD])) > 0:
        store.jump(min(jump, left - 1))
        insert(store, model, (50, 2, now), now)
        now += 30
    for k in range(30):
        insert(store, model, (k, 2, k), now)
        compare(store, model, [(k, 2, k), (50, 2, now)], now)


def test_a_ring_grows_while_its_rows_wrap_around_its_end():
    store, model = Store(Range(10), ALL_INDEXES), Model(10)
    now = 0
    for rate in (1, 1, 1, 2, 3, 5, 8):  # rows at an instant: each time more than the ring has been made for
        for _ in range(15):
            now += 1
            for k in range(rate):
                triple = (now, k % 2, k)
                insert(store, model, triple, now)
        compare(store, model, [(now, 0, 0), (now - 5, 0, 0), (1, 0, 0)], now)
    assert store.grown.count(kernel.FULL_ROWS) > 5


def burst_then_few(cycle: int) -> tuple[Store, int, int]:
    """A store after 20,000 rows at once and a row at each instant for long, its memory at its largest, and the time."""
    store = Store(Range(10), 0b11)
    for k in range(20_000):
        store.insert((k, 1, 1), 0)
    burst = store.stores.nbytes
    for now in range(1, 60_000):
        store.insert((now % cycle, 1, 1), now)
    assert store.stores.live <= 10
    return store, burst, now


def test_a_ring_shrinks_when_its_rows_have_come_round():
    store, burst, _ = burst_then_few(10**9)
    assert store.stores.nbytes < burst / 10


@pytest.mark.parametrize("cycle", [10**9, 7])
def test_a_store_that_is_settled_shrinks_after_a_burst(cycle):
    """Also where the rows after the burst bring no new keys: then the ring does not come round."""
    store, burst, now = burst_then_few(cycle)
    store.stores.settle(now)
    assert store.stores.nbytes < burst / 10


def test_a_triple_that_comes_again_and_again_has_one_row_and_holds_nothing_up():
    store, model = Store(Range(100), ALL_INDEXES), Model(100)
    for now in range(1000):
        for triple in ((1, 1, 1), (2, 1, now % 3), (now, 1, 9)):
            insert(store, model, triple, now)
        # Four triples come all the time, and 100 are new.
        assert store.stores.live <= 4 + 100
    compare(store, model, [(1, 1, 1), (2, 1, 0), (999, 1, 9), (900, 1, 9), (899, 1, 9)], now)


def test_rows_that_deletes_have_ended_are_given_back():
    store, model = Store(Unbounded(), 0b11), Model(None)
    for k in range(20_000):
        insert(store, model, (k, 1, 1), 0)
    burst = store.stores.nbytes
    for k in range(20_000):
        if k % 100:
            store.delete((k, 1, 1), 1)
            model.delete((k, 1, 1), 1)
    store.stores.settle(1)
    assert store.stores.live == 200
    assert store.stores.nbytes < burst / 10
    compare(store, model, [(k, 1, 1) for k in (0, 1, 19_900, 19_999)], 1)


def test_deletes_do_not_make_a_ring_grow():
    """Rows that deletes have ended are left behind when the ring is full and mostly of them."""
    store, model = Store(Unbounded(), 0b11), Model(None)
    for k in range(3000):
        store.insert((k, 1, 1), 2 * k)
        if k >= 10:
            store.delete((k - 10, 1, 1), 2 * k + 1)
    for k in range(2990, 3000):
        model.insert((k, 1, 1), 2 * k)
    compare(store, model, [(k, 1, 1) for k in (0, 2989, 2990, 2999)], 6000)
    assert store.stores.live < 60
