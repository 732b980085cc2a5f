"""The matcher: windows and delta plans of a streamset, driven batch by batch."""

from __future__ import annotations

from collections.abc import Iterator, Set

import numpy as np
from numpy.typing import NDArray

from thalweg.kernels import layout
from thalweg.kernels.checking import address_of
from thalweg.kernels.match import match
from thalweg.kernels.store import FOREVER, NEVER, ROW_FROM, ROW_TO
from thalweg.operators.spans import Spans
from thalweg.operators.state import State
from thalweg.operators.windows import WindowStores
from thalweg.plan.linking import unindexed
from thalweg.plan.program import Program
from thalweg.rdf.events import Rows
from thalweg.static.data import distinct

Ints = NDArray[np.int64]
_ROOM = 4096
_MOST_ROOM = 1 << 18
_START = np.zeros(layout.CURSOR_CELLS, np.int64)  # the cursor before the first row
_START[[layout.AT_RANGE, layout.LEVEL]] = -1


class Matcher:
    """State of matching: the window stores, and where the kernel stands within a batch."""

    def __init__(self, program: Program, room: int = _ROOM) -> None:
        """`room` is how many solutions fit before the kernel first hands them over."""
        self.program = program
        self.stores = WindowStores([key[1] for key in program.stores], program.indexes, program.bases)
        self.counters = np.zeros(layout.COUNTERS, np.int64)
        self._context = np.zeros(layout.CONTEXT_CELLS, np.int64)
        self._cursor = np.zeros(layout.CURSOR_CELLS, np.int64)
        self._lookaheads = np.zeros((layout.LOOKAHEAD_SLOTS, layout.LOOKAHEAD_CELLS), np.int64)
        self._until = np.full(len(program.dispatch), NEVER, np.int64)
        self._generations: Ints | None = None  # by unit
        self._out = np.zeros((room, layout.OUT_BINDINGS + program.width), np.int64)
        self._settled = 0  # solutions found when memory was last given back
        self._make_room()

    def step(self, feed: Ints, rows: Rows, generations: Ints | None = None) -> Iterator[Spans]:
        """Applies inserts and deletes in time order; yields solutions in parts, each good until the next.

        `generations` are those of the rows, needed where units have some.
        """
        cursor = self._cursor
        if self._generations is not None:
            assert generations is not None
            self._context[layout.ROW_GENERATIONS] = address_of(generations)
        cursor[:] = _START
        while True:
            status = match(
                feed,
                rows.op,
                rows.time,
                rows.event,
                rows.graph,
                rows.s,
                rows.p,
                rows.o,
                self._context,
                cursor,
                self.counters,
                None if self._generations is None else True,
            )
            if status == layout.GROW:
                store, shortage = divmod(int(cursor[layout.DETAIL]), 16)
                self.stores.grow(store, -shortage, int(rows.time[cursor[layout.AT_ROW]]))
                continue
            written = cursor.item(layout.WRITTEN)
            if written:
                self.counters[layout.FOUND] += written
                yield Spans(self._out[:written])
                cursor[layout.WRITTEN] = 0
            if status == layout.DONE:
                return
            if len(self._out) < _MOST_ROOM:
                self._out = np.zeros((4 * len(self._out), self._out.shape[1]), np.int64)
                self._set_context()

    def settle(self, now: int) -> None:
        """Lets go of the rows that ended at or before `now`, and of memory that has become too much."""
        self.stores.settle(now)
        if len(self._out) > _ROOM:
            found = self.counters.item(layout.FOUND)
            least = max(_ROOM, self.program.fan)
            if len(self._out) > max(least, 16 * (found - self._settled)):
                self._out = np.zeros((least, self._out.shape[1]), np.int64)
                self._set_context()
            self._settled = found

    def replace_program(self, program: Program) -> None:
        """Takes other plans over the same stores and the same indexes."""
        keys, wanted = (own.dispatch[:, layout.DISPATCH_KEY] for own in (self.program, program))
        # A signature that is new has no row yet that counts: its queries use what comes from now on.
        if len(keys) != len(wanted) or not ((keys == wanted) | (keys == 0)).all():
            until = np.full(len(wanted), NEVER, np.int64)
            keys, place = np.unique(keys, return_index=True)
            found = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
            same = (keys[found] == wanted) & (wanted != 0)
            until[same] = self._until[place[found[same]]]
            self._until = until
        self.program = program
        width = layout.OUT_BINDINGS + program.width
        if width > self._out.shape[1]:
            self._out = np.zeros((len(self._out), width), np.int64)
        self._make_room()

    def set_generations(self, generations: Ints | None) -> None:
        """Sets the generation of each unit, or ends to distinguish them."""
        self.stores.set_generations(generations is not None)
        self._generations = generations
        self._set_context()

    def _make_room(self) -> None:
        """Room for a search of the program, and for all units that a solution may belong to."""
        program = self.program
        self._stack = np.zeros((max(program.depth, 1), layout.FRAME_CELLS), np.int64)
        self._bound = np.zeros(max(program.variables, 1), np.int64)
        if len(self._out) < program.fan:
            self._out = np.zeros((program.fan, self._out.shape[1]), np.int64)
        self._set_context()

    def _set_context(self) -> None:
        """Passes the addresses of all arrays to the kernel; the arrays are kept here for as long."""
        program, cells = self.program, self._context
        for place, array in (
            (layout.STORES, self.stores.descriptors),
            (layout.FEEDS, program.feeds),
            (layout.WILD, program.wild),
            (layout.DISPATCH, program.dispatch),
            (layout.ENTRIES, program.entries),
            (layout.NODES, program.nodes),
            (layout.STEPS, program.steps),
            (layout.OTHERS, program.others),
            (layout.OUTPUTS, program.outputs),
            (layout.PARAMETERS, program.parameters),
            (layout.KNOWN, program.known),
            (layout.VALUES, program.values),
            (layout.MEMBERS, program.members),
            (layout.UNTIL, self._until),
            (layout.STACK, self._stack),
            (layout.LOOKAHEAD, self._lookaheads),
            (layout.VARIABLES, self._bound),
            (layout.OUT, self._out),
        ):
            cells[place] = address_of(array)
        cells[layout.FEEDS_WIDTH] = program.feeds.shape[1]
        cells[layout.DISPATCH_LAST] = len(program.dispatch) - 1
        cells[layout.KNOWN_LAST] = len(program.known) - 1
        cells[layout.OUTPUTS_SIZE] = 8 * program.outputs.shape[1]
        cells[layout.OUT_SIZE], cells[layout.OUT_ROOM] = 8 * self._out.shape[1], len(self._out)
        cells[layout.FAN] = program.fan
        units = self._generations
        cells[layout.UNIT_GENERATIONS] = address_of(units) if units is not None else 0

    def replan(self, program: Program, now: int) -> None:
        """Takes other plans that may need other indexes."""
        self.replace_program(program)
        self.stores.index(program.indexes, now)

    def follow(self, program: Program, now: int, anew: Set[int] | None = None) -> None:
        """Takes a program with other queries, and with other stores where these need some.

        `anew` are the stores with rows that are not in all indexes which they have to be in, if that is known.
        """
        before = self.program
        known = {key: place for place, key in enumerate(before.stores)}
        places = [known.get(key, -1) for key in program.stores]
        self.replace_program(program)
        if places[: len(before.stores)] != list(range(len(before.stores))):
            anew = set(range(len(places)))  # signatures have the numbers of stores in them
            self._until[:] = FOREVER
        elif anew is None:
            anew = unindexed(before, program)
        windows = [key[1] for key in program.stores]
        self.stores.follow(windows, places, program.indexes, program.bases, now, anew)
        self._set_context()

    def static_content(self, store: int) -> Ints:
        """The triples that a store of static data holds, each once."""
        rows = self.stores.live_rows(store)
        return distinct(rows[rows[:, ROW_TO] == FOREVER, :ROW_FROM])

    def state(self) -> State:
        """The windows, and the work done so far."""
        return {
            "keys": [repr(key) for key in self.program.stores],
            "stores": self.stores.state(),
            "counters": self.counters,
        }

    def restore(self, state: State) -> None:
        """Goes on where a saved matcher was."""
        places = {key: place for place, key in enumerate(state["keys"])}
        self.stores.restore(state["stores"], [places[repr(key)] for key in self.program.stores])
        self.counters[:] = state["counters"]
        self._settled = self.counters.item(layout.FOUND)
        self._until[:] = FOREVER  # rows are there, and it is not known whose

    def live_ids(self) -> Iterator[Ints]:
        """The term ids that the stores still use."""
        for number in range(len(self.stores)):
            yield self.stores.live_rows(number)[:, :3].ravel()
        yield self.program.constants

    @property
    def output_bytes(self) -> int:
        """The memory of the buffer for solutions."""
        return self._out.nbytes
