"""The window store alone, against a list of rows: whatever its ring and its tables are doing meanwhile."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit

from thalweg.algebra.windows import Range, Unbounded, Window
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
def end_rows(desc, number, cut):
    """What the matcher does with the rows that a delete ends."""
    while number >= load64(desc, kernel.TAIL):
        row = kernel.row_address(desc, number)
        if load64(row, kernel.ROW_TO) <= cut:
            break
        store64(row, kernel.ROW_TO, cut)
        number = kernel.older_row(desc, SPO, number)


def needs(triple: Triple, indexes: int) -> int:
    """The indexes that a triple enters: of some predicates, plans ask for the triple itself only."""
    return indexes if triple[1] == 1 else 1 << SPO


@dataclass
class Model:
    """All rows that ever were: s p o from to time, and the indexes that they are in."""

    width: int | None
    indexes: int = ALL_INDEXES
    rows: list[list[int]] = field(default_factory=list)

    def alive(self, triple: Triple, now: int) -> list[list[int]]:
        return [row for row in self.rows if tuple(row[:3]) == triple and row[4] > now]

    def insert(self, triple: Triple, now: int) -> None:
        end = kernel.FOREVER if self.width is None else now + self.width
        alive = self.alive(triple, now)
        if alive and alive[-1][4] >= end:
            alive[-1][5] = now
        else:
            begin = alive[-1][4] if alive else now
            self.rows.append([*triple, begin, end, now, needs(triple, self.indexes)])

    def delete(self, triple: Triple, now: int) -> None:
        alive = self.alive(triple, now)
        if alive and alive[-1][5] < now:
            for row in alive:
                row[4] = now

    def chain(self, kind: int, triple: Triple, now: int) -> list[list[int]]:
        return [
            row[:6]
            for row in reversed(self.rows)
            if row[4] > now and row[6] >> kind & 1 and all(row[k] == triple[k] for k in KEYS[kind])
        ]

    def replant(self) -> None:
        for row in self.rows:
            row[6] = self.indexes


class Store:
    """A store that is driven as the matcher does it."""

    def __init__(self, window: Window, indexes: int) -> None:
        self.stores = WindowStores([window], [indexes])
        self.indexes = indexes | 1 << SPO
        self.desc = kernel.descriptor(self.stores.descriptors, 0)
        self.grown: list[int] = []

    def insert(self, triple: Triple, now: int) -> bool:
        """Whether all rows had to be planted anew, which brings them into all indexes."""
        anew = False
        while (number := self._insert(triple, now)) <= kernel.FULL_ROWS:
            tail = self.stores.descriptors[0, kernel.TAIL]
            self.grown.append(number)
            self.stores.grow(0, number, now)
            anew = anew or tail != self.stores.descriptors[0, kernel.TAIL]
        return anew

    def _insert(self, triple: Triple, now: int) -> int:
        return kernel.insert(self.desc, needs(triple, self.indexes), now, 0, *triple)

    def delete(self, triple: Triple, now: int) -> None:
        end_rows(self.desc, kernel.doomed(self.desc, kernel.DELETE, now, 0, *triple), now)

    def chain(self, kind: int, triple: Triple, now: int) -> list[list[int]]:
        out = np.empty((self.stores.live + 1, 6), np.int64)
        count = read_chain(self.desc, kind, *triple, out)
        return [row for row in out[:count].tolist() if row[4] > now]

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
    if store.insert(triple, now):
        model.replant()
    model.insert(triple, now)


def compare(store: Store, model: Model, triples: list[Triple], now: int) -> None:
    for kind in range(kernel.INDEXES):
        if store.indexes >> kind & 1:
            for triple in triples:
                assert store.chain(kind, triple, now) == model.chain(kind, triple, now)


@pytest.fixture(scope="module", autouse=True)
def _small_sizes():
    """Rings and tables that are full after a few rows, so that a short history meets all their sizes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(windows, "_FEW_ROWS", 2)
        patch.setattr(windows, "_table_size", lambda keys: 5 * keys // 2 + 3)
        yield


INSERT, DELETE, REPLANT, JUMP = range(4)
terms = st.integers(1, 5)
triples = st.tuples(terms, st.integers(1, 2), terms)
# A burst of many rows at one instant, then few of them for long: what makes rings grow, wrap around and shrink.
moves = st.lists(
    st.tuples(
        st.sampled_from([INSERT] * 6 + [DELETE] * 3 + [REPLANT]),
        st.lists(triples, min_size=1, max_size=30),
        st.sampled_from([0, 0, 1, 3, 12, 60]),
    ),
    max_size=25,
)
index_sets = st.sampled_from([1, 0b11, 0b10101, 0b11111, ALL_INDEXES])


@pytest.mark.parametrize("width", [None, 1, 20])
@given(indexes=index_sets, moves=moves)
def test_a_store_holds_what_a_list_of_rows_holds(width, indexes, moves):
    store = Store(Unbounded() if width is None else Range(width), indexes)
    model = Model(width, indexes)
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
            model.replant()
        met = [*dict.fromkeys([*met, *batch])]
        compare(store, model, met[-12:], now)
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
    store, model = Store(Range(20), indexes), Model(20, indexes)
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
    store.stores.evict(now)
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


@pytest.mark.parametrize("cycle", [10**9, 7])
def test_a_ring_shrinks_after_a_burst(cycle):
    """Also where the rows after the burst bring no new keys: then tables stay as they are."""
    store = Store(Range(10), 0b11)
    for k in range(20_000):
        store.insert((k, 1, 1), 0)
    burst = store.stores.nbytes
    for now in range(1, 60_000):
        store.insert((now % cycle, 1, 1), now)
    assert store.stores.live <= 10
    assert store.stores.nbytes < burst / 10


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
