"""A streamset with one sequence query: the atoms are [NOW] queries of their streams, and the runs join their solutions.

An instant is taken when it is complete, which is when all watermarks have passed it: only then is it known what stands
between two events, what happens at one timestamp, and what does not happen.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from typing import cast

import numpy as np
from numpy.typing import NDArray

from thalweg.algebra.query import Query
from thalweg.algebra.sequences import CHRONOLOGICAL, Sequence
from thalweg.errors import LimitError, UsageError
from thalweg.instants import show_instant
from thalweg.kernels.store import INSERT
from thalweg.kernels.times import NO_TIME
from thalweg.operators.pipeline import Pipeline
from thalweg.operators.sequence_atoms import Atoms, Ordinals
from thalweg.operators.sequence_events import Solutions, instants_of
from thalweg.operators.sequence_retraction import KEPT_WINDOWS, Retractions
from thalweg.operators.sequence_runs import SequenceRuns
from thalweg.operators.state import State
from thalweg.operators.streamset import Streamset
from thalweg.operators.template import Template
from thalweg.operators.views import Delta, View
from thalweg.options import LIMITS, Limits
from thalweg.plan.cells import spread
from thalweg.plan.program import Interner
from thalweg.rdf.arena import Arena
from thalweg.rdf.events import Rows
from thalweg.static.data import StaticData

Ints = NDArray[np.int64]
_FEW_INSTANTS = 64


class SequenceView(View):
    """The matches of a sequence, one row each, or one graph each; nothing is taken back."""

    def __init__(self, query: Query, arena: Arena, limits: Limits = LIMITS) -> None:
        super().__init__(query, arena, limits)
        self._arena = arena
        self._streams = len(query.streams)
        self._template: Template | None = None
        self._matches = 0
        if query.template is not None:
            assert query.sequence is not None
            self._template = Template(query, [name for name, _ in query.sequence.columns], arena)
            self.width = 3

    def _make_pipeline(self, query: Query, arena: Arena, limits: Limits) -> Pipeline:
        # Runs have what a view asks of a pipeline; no spans go into them.
        return cast(Pipeline, SequenceRuns(query, arena, limits))

    @property
    def runs(self) -> SequenceRuns:
        """The runs of the sequence."""
        return cast(SequenceRuns, self._pipeline)

    def advance(self, watermark: int) -> None:
        """Nothing waits here: matches are shown when they are found."""

    def show(self, at: Ints, rows: Ints) -> None:
        """Emits matches, in the order of time."""
        if not len(at):
            return
        event = np.zeros(len(at), np.int64)
        if self._template is not None:
            # Which event comes first does not depend on batches: it is decided by the texts of the row.
            texts = [self._texts(column) for column in rows.T]
            order = np.array(
                sorted(range(len(at)), key=lambda k: (at[k], [column[k] for column in texts])), np.intp
            )
            at, rows = at[order], rows[order]
            match, rows = self._template.triples(rows)
            made = np.unique(np.concatenate([match[:, None], rows], axis=1), axis=0)
            match, rows = made[:, 0], made[:, 1:]
            at = at[match]
            # A derived stream finds the stream of an event in its number: one for all matches.
            event = (self._matches + match) * self._streams
            self._matches += len(order)
        one = np.ones(len(at), np.int64)
        self._emit(Delta(at, one, np.zeros(len(at), np.int64), event, np.ascontiguousarray(rows)))

    def retract(self, runs: SequenceRuns, at: int, weights: Ints, rows: Ints) -> None:
        """Goes on with other runs, and emits the rows that come and go because of it, at an instant."""
        runs.shed_before(self.runs)
        self._pipeline = cast(Pipeline, runs)
        if len(weights):
            none = np.zeros(len(weights), np.int64)
            self._emit(Delta(none + at, weights, none, none, np.ascontiguousarray(rows)))

    def _texts(self, ids: Ints) -> list[str]:
        texts = [""] * len(ids)
        bound = np.flatnonzero(ids)
        for place, text in zip(bound.tolist(), self._arena.texts(ids[bound]), strict=True):
            texts[place] = text
        return texts

    def live_ids(self) -> list[Ints]:
        """The term ids that are still to be emitted."""
        constants = [] if self._template is None else [self._template.constants]
        return [*super().live_ids(), *constants]

    def state(self) -> State:
        """Everything that is still to be emitted or needed for it."""
        return {**super().state(), "matches": self._matches}

    def restore(self, state: State) -> None:
        """Goes on where a saved view was."""
        super().restore(state)
        self._matches = state["matches"]


class SequenceSet(Streamset):
    """The streams of one sequence query, merged by time."""

    def __init__(self, streams: tuple[str, ...] | list[str], static: StaticData | None = None) -> None:
        super().__init__(streams, static=static)
        self._atoms: Atoms | None = None
        self._only: tuple[Query, SequenceView] | None = None
        self._retractions: Retractions | None = None
        self._absent = 0  # deletes that named no event
        self._numbered = 0  # events that have ordinals
        self.counts_events = True

    @property
    def is_open(self) -> bool:
        """Nothing is shared with other queries."""
        return False

    def add(self, query: Query, arena: Arena, limits: Limits = LIMITS) -> View:
        """Takes its query in."""
        assert query.sequence is not None
        view = SequenceView(query, arena, limits)
        self._only, self._arena = (query, view), arena
        if query.sequence.retracts:
            self._retractions = Retractions(query, arena, limits)
        self._atoms = Atoms(query, arena, limits, self.static)
        return view

    @property
    def _sequence_view(self) -> SequenceView:
        assert self._only is not None
        return self._only[1]

    @property
    def _within(self) -> int:
        return self._sequence.within

    def remove(self, view: View, intern: Interner) -> None:
        """Lets its query go."""
        self._only = None

    def __len__(self) -> int:
        return 0 if self._only is None else 1

    @property
    def registered(self) -> list[tuple[Query, View]]:
        """Its query and the view."""
        return [] if self._only is None else [self._only]

    # Time

    def push(self, stream: str, rows: Rows | None, clock: int, watermark: int) -> None:
        """Takes rows of one stream, with markers of events without rows.

        A delete ends the query, unless deletes take events back.
        """
        if rows is not None and len(rows):
            view = self._sequence_view
            if self._retractions is None and view.failure is None and (deleted := rows.op != INSERT).any():
                at = show_instant(int(rows.time[deleted].min()))
                view.fail(
                    LimitError(
                        f"<{stream}> has a delete at {at}, and a sequence takes events back only WITH RETRACTIONS: "
                        "write that before WHERE, or ISTREAM in the CONSTRUCT that makes the stream"
                    )
                )
            rows = rows if view.failure is None else None
        super().push(stream, rows, clock, watermark)

    def reload(self) -> None:
        """Takes note that static data have changed: events that are not complete yet are asked with the new ones."""
        for inner in self._inner.values():
            inner.reload()

    def reach(self) -> int | None:
        """How long after an event it can still matter."""
        windows = 1
        if self._retractions is not None:
            windows = KEPT_WINDOWS
        elif self._sequence_view.runs.automaton.looks_back_and_waits:
            windows = 2
        return windows * self._within + 1

    def horizon(self) -> int | None:
        """The earliest event time that can still matter; None: all of them do.

        Which matches exclude others depends on those before them, and so on.
        """
        if self._sequence.skip is not None or self._sequence.consume == CHRONOLOGICAL:
            return None
        waiting = [int(rows.time.min()) for rows in self._merge.waiting]
        reach = self.reach()
        assert reach is not None
        return min([max(self.bound, NO_TIME + reach) - reach, *waiting])

    @property
    def counts_triples(self) -> bool:
        """The order of the triples of an event never matters."""
        return False

    # Work

    def run(self, intern: Interner) -> None:
        """Takes all instants that are complete: those before the smallest watermark of the streams."""
        bound = self._merge.target(self._within + 1 if self._merge.drains else 0)
        view = self._sequence_view
        if bound <= self.bound:
            return
        settled = bound - 1
        feed, rows = self._merge.take(settled)
        if view.failure is not None:
            self.bound = bound
            return
        feed, rows, deleted = self._without_deletes(feed, rows)
        found = self._solutions(feed, rows, bound, intern)
        self.bound = bound
        cuts = np.empty(0, np.int64)
        if self._sequence.selects:  # earlier matches exclude later ones: fewer runs are made in short parts
            cuts = instants_of(rows.time)[_FEW_INSTANTS::_FEW_INSTANTS]
        elif deleted is not None:
            cuts = instants_of(deleted[1].time)
        try:
            for times, part, until in self._slices(instants_of(rows.time), found, cuts, settled):
                shed = view.runs.shed
                view.show(*view.runs.step(times, part, until))
                if deleted is not None:
                    self._retract(deleted, until + 1)
                if view.runs.shed > shed:
                    view.mark_gap(until)
        except LimitError as error:
            view.fail(error)
        if self._retractions is not None:
            self._retractions.forget(settled)
            self._absent = self._retractions.absent

    def _without_deletes(self, feed: Ints, rows: Rows) -> tuple[Ints, Rows, tuple[Ints, Rows] | None]:
        """Inserts, and deletes apart from them, where these take events back."""
        if self._retractions is None:
            return feed, rows, None
        inserted = rows.op == INSERT
        return feed[inserted], rows[inserted], (feed[~inserted], rows[~inserted])

    def _retract(self, deleted: tuple[Ints, Rows], at: int) -> None:
        """Takes events back that deletes of an instant name; everything before it has been matched."""
        assert self._retractions is not None
        feed, rows = deleted
        now = rows.time == at
        if not now.any():
            return
        view = self._sequence_view
        changed = self._retractions.apply(feed[now], rows[now])
        if changed is not None:
            runs, weights, found = changed
            view.retract(runs, at, weights, found)

    def _slices(
        self, times: Ints, found: dict[str, Solutions], cuts: Ints, settled: int
    ) -> Iterator[tuple[Ints, dict[str, Solutions], int]]:
        """A batch in parts that end before some instants, and at the end of it."""
        for cut in cuts.tolist():
            place = int(np.searchsorted(times, cut))
            ends = {name: int(np.searchsorted(one.times, cut)) for name, one in found.items()}
            yield times[:place], {name: one[: ends[name]] for name, one in found.items()}, cut - 1
            times, found = times[place:], {name: one[ends[name] :] for name, one in found.items()}
        yield times, found, settled

    @property
    def _sequence(self) -> Sequence:
        assert self._only is not None
        assert self._only[0].sequence is not None
        return self._only[0].sequence

    def _solutions(self, feed: Ints, rows: Rows, bound: int, intern: Interner) -> dict[str, Solutions]:
        """The solutions of all atoms in the events of some rows."""
        assert self._atoms is not None
        answers = self._atoms.ask(list(self.streams), feed, rows, bound, intern)
        ordinals = None
        if self._sequence.selects or self._retractions is not None:
            ordinals = Ordinals(rows, self._numbered)
            self._numbered += len(ordinals)
        found = {
            atom.name: self._atoms.solutions(atom, delta, ordinals)
            for atoms, delta in answers
            for atom in atoms
        }
        if self._sequence.part is not None:
            found = {name: self._in_part(self._sequence.part, name, one) for name, one in found.items()}
        if self._retractions is not None and ordinals is not None:
            self._retractions.add(feed, rows, ordinals(rows.time, rows.event), found)
        return found

    def _in_part(self, part: tuple[str, int, int], name: str, found: Solutions) -> Solutions:
        """The solutions of an atom that do not belong to another shard."""
        variable, shards, cell = part
        atom = next(atom for atom in self._sequence.atoms if atom.name == name)
        if not len(found) or variable not in atom.possible:
            return found
        assert self._arena is not None
        ids = np.ascontiguousarray(found.rows[:, atom.possible.index(variable)])
        return found[(ids == 0) | (spread(self._arena.keys(ids)) % shards == cell)]

    @property
    def _inner(self) -> dict[str, Streamset]:
        return {} if self._atoms is None else self._atoms.inner

    # Memory

    def live_ids(self) -> Iterator[Ints]:
        """The term ids that queues, atoms and runs still use."""
        for rows in self._merge.waiting:
            yield from rows.ids
        for inner in self._inner.values():
            yield from inner.live_ids()
        if self._atoms is not None:
            yield from self._atoms.live_ids()
        if self._only is not None:
            yield from self._only[1].live_ids()
        if self._retractions is not None:
            yield from self._retractions.live_ids()

    @property
    def held(self) -> int:
        """How many rows are kept in all."""
        held = sum(inner.held for inner in self._inner.values()) + sum(map(len, self._merge.waiting))
        held += 0 if self._retractions is None else self._retractions.held
        return held + (self._only[1].held if self._only is not None else 0)

    @property
    def live(self) -> int:
        """How many rows the windows hold."""
        return sum(inner.live for inner in self._inner.values())

    @property
    def absent(self) -> int:
        """How many deletes named no event, as of the last run."""
        return self._absent

    @property
    def shed(self) -> int:
        """How many partial matches were dropped because there were too many."""
        return 0 if self._only is None else self._only[1].runs.shed

    @property
    def window_bytes(self) -> int:
        """The memory of the windows of atoms."""
        return sum(inner.window_bytes for inner in self._inner.values())

    @property
    def output_bytes(self) -> int:
        """The memory of the buffers in which solutions of atoms leave the kernel."""
        return sum(inner.output_bytes for inner in self._inner.values())

    @property
    def answer_bytes(self) -> int:
        """The memory of atoms and runs."""
        kept = sum(inner.answer_bytes for inner in self._inner.values())
        kept += 0 if self._retractions is None else self._retractions.nbytes
        return kept + (self._only[1].nbytes if self._only is not None else 0)

    def operator_bytes(self) -> Counter[str]:
        """The memory of the runs."""
        return self._sequence_view.memory() if self._only is not None else Counter()

    # Saving

    def digest(self) -> str:
        """A digest of the query, by which a saved state is known to fit."""
        parts: list[object] = [(self.streams, query.root, query.sequence) for query, _ in self.registered]
        parts += [key for key in self._inner if key not in self.streams]
        return hashlib.sha256(repr(parts).encode()).hexdigest()[:32]

    def refresh(self, intern: Interner) -> None:
        """Everything of complete instants has been taken: there is nothing to catch up with."""
        for inner in self._inner.values():
            inner.refresh(intern)

    def state(self) -> State:
        """Everything but the query itself."""
        return {
            "plan": self.digest(),
            "bound": self.bound,
            "merge": self._merge.state(),
            "inner": {stream: inner.state() for stream, inner in self._inner.items()},
            "view": self._sequence_view.state(),
            "numbered": self._numbered,
            "retractions": None if self._retractions is None else self._retractions.state(),
        }

    def restore(self, state: State, intern: Interner) -> None:
        """Goes on where a saved one with the same query was."""
        if state["plan"] != self.digest():
            raise UsageError("the saved state belongs to another sequence, or to another version of its plan")
        self.bound = state["bound"]
        if self._retractions is not None:
            self._retractions.restore(state["retractions"])
            self._absent = self._retractions.absent
        self._numbered = state["numbered"]
        self._merge.restore(state["merge"])
        for stream, inner in self._inner.items():
            inner.restore(state["inner"][stream], intern)
        self._sequence_view.restore(state["view"])
