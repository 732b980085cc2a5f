"""Expansion: the flat table of a network with the ids of an arena, and what follows from columns of triples."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from thalweg.kernels import entail as kernel
from thalweg.rdf.arena import Arena
from thalweg.schema.network import CONSTANT, KINDS, Form, Network

Ints = NDArray[np.int64]
T = TypeVar("T")
_LITERAL = ord('"')
_ALL = np.ones(1, np.bool_)


class Derived(NamedTuple):
    """Triples that follow from others, themselves included where they are visible, in the order of those."""

    source: Ints
    """Which triple each follows from."""
    s: Ints
    p: Ints
    o: Ints


class _Found(NamedTuple):
    """The forms of some triples: how many, of how many triples, the table, and where those of each triple are in it."""

    total: int
    some: int
    forms: Ints
    firsts: Ints
    counts: Ints


class Expansion:
    """What follows from triples whose ids are of an arena."""

    def __init__(self, network: Network, arena: Arena) -> None:
        self.network = network
        self.arena = arena
        flat = network.flat
        ids = np.concatenate([arena.intern_all([text.encode() for text in flat.texts]), [0]])
        self._ids = ids[:-1]
        self._names = dict(zip(flat.texts, self._ids.tolist(), strict=True)) if flat.reads_both else {}
        self._itself = flat.itself
        self._forms = flat.forms.copy()
        for place in (1, 2, 4):
            self._forms[:, place] = ids[flat.forms[:, place]]
        properties, classes = flat.properties.copy(), flat.classes.copy()
        properties[:, 0] = ids[properties[:, 0]]
        classes[:, :2] = ids[classes[:, :2]]
        self._properties = _table(properties, keyed=False)
        self._classes = _table(classes, keyed=True)
        self._bits = np.zeros(len(self._classes) // 8, np.int64)
        kernel.enter_bits(self._bits, classes)
        chained = [p.encode() for p in sorted(network.schema.transitive) if p in network.reads]
        self._chained = arena.intern_all(chained)
        self._aside: dict[tuple[int, int, int], list[list[int]]] = {}
        self.is_shared = False
        """Whether several windows use it: then what follows from the same columns is found once."""
        self._known: list[tuple[object, tuple[Ints, ...], object]] = []

    def forget(self) -> None:
        """Lets go of what it found for windows that share it: further columns come."""
        self._known.clear()

    def _cells(self, form: Form) -> list[int]:
        s, o = KINDS.get(form.s, CONSTANT), KINDS.get(form.o, CONSTANT)
        return [s, self._names.get(form.s, 0), self._names[form.p], o, self._names.get(form.o, 0)]

    def derive(self, s: Ints, p: Ints, o: Ints) -> Derived:
        """The visible triples that follow from each of some triples."""
        if not self.is_shared:
            return self._derive(s, p, o)
        return self._once("triples", (s, p, o), lambda: self._derive(s, p, o))

    def _once(self, how: object, given: tuple[Ints, ...], make: Callable[[], T]) -> T:
        """What is made of some arrays in some way: once, if the same arrays come again."""
        for known, arrays, made in self._known:
            if known == how and all(one is other for one, other in zip(arrays, given, strict=True)):
                return cast(T, made)
        found = make()
        self._known.append((how, given, found))
        return found

    def _derive(self, s: Ints, p: Ints, o: Ints) -> Derived:
        s, p, o = (np.ascontiguousarray(column) for column in (s, p, o))
        found = self._find(np.zeros(len(s), np.int64), _ALL, s, p, o)
        made = np.empty((4, found.total), np.int64)
        turned = np.empty(found.total, np.bool_)
        swapped = kernel.write_forms(s, p, o, found.firsts, found.counts, found.forms, *made, turned)
        return Derived(*(self._sound(made, 1, turned) if swapped else made))

    def count(self, s: Ints, p: Ints, o: Ints) -> int:
        """How many visible triples follow from some triples, in generalised RDF; nothing is made of them."""
        return self._find(np.zeros(len(s), np.int64), _ALL, s, p, o).total

    def derive_rows(
        self, feed: Ints, takes: NDArray[np.bool_], columns: tuple[Ints, ...], *, log: bool
    ) -> tuple[Ints, Ints]:
        """The rows (time, event, graph, s, p, o, op) that follow from rows of the feeds that are taken.

        With `log`, also those from which some follow: s, p, o and time.
        """
        if not self.is_shared:
            return self._derive_rows(feed, takes, columns, log)
        how = (takes.tobytes(), log)
        return self._once(how, (feed, *columns), lambda: self._derive_rows(feed, takes, columns, log))

    def _derive_rows(
        self, feed: Ints, takes: NDArray[np.bool_], columns: tuple[Ints, ...], log: bool
    ) -> tuple[Ints, Ints]:
        columns = tuple(np.ascontiguousarray(column) for column in columns)
        found = self._find(np.ascontiguousarray(feed), takes, *columns[3:6])
        out = np.empty((7, found.total), np.int64)
        turned = np.empty(found.total, np.bool_)
        logged = np.empty((4, found.some if log else 0), np.int64)
        swapped = kernel.write_rows(columns, found.firsts, found.counts, found.forms, out, turned, logged)
        return (self._sound(out, 3, turned) if swapped else out), logged

    def _find(self, feed: Ints, takes: NDArray[np.bool_], s: Ints, p: Ints, o: Ints) -> _Found:
        firsts, counts = np.empty((2, len(s)), np.int64)
        total, some, aside = kernel.find_forms(
            feed, takes, s, p, o, self._properties, self._classes, self._bits, self._itself, firsts, counts
        )
        forms = self._forms
        if aside:
            forms, total = self._with_aside(s, p, o, firsts, counts, total)
            some = np.count_nonzero(counts)
        return _Found(int(total), int(some), forms, firsts, counts)

    def _sound(self, made: Ints, subject: int, turned: NDArray[np.bool_]) -> Ints:
        """The columns without triples whose subject is a literal; `turned` are those whose subject was an object."""
        if self.network.general:
            return made
        places = np.flatnonzero(turned)
        literal = self.arena.initials(made[subject, places]) == _LITERAL
        if len(self._chained):  # paths lead over literals, too
            literal &= ~np.isin(made[subject + 1, places], self._chained)
        if not literal.any():
            return made
        kept = np.ones(made.shape[1], np.bool_)
        kept[places[literal]] = False
        return np.ascontiguousarray(made[:, kept])

    def _with_aside(
        self, s: Ints, p: Ints, o: Ints, firsts: Ints, counts: Ints, total: int
    ) -> tuple[Ints, int]:
        """The forms, with those of triples of which both ends are read as classes; their places are filled in."""
        more: list[list[int]] = []
        for i in np.flatnonzero(counts == kernel.ASIDE).tolist():
            key = (int(s[i]), int(p[i]), int(o[i]))
            found = self._aside.get(key)
            if found is None:
                texts = self.arena.texts_among_threads(key)
                supers = self.network.schema.supers
                one, other = (text if text in supers else None for text in texts[::2])
                forms = self.network.forms(texts[1], other, one)
                unknown = {term for form in forms for term in form} - set(KINDS) - set(self._names)
                self._names |= {term: self.arena.intern(term.encode()) for term in unknown}
                found = [self._cells(form) for form in forms]
                if one is not None or other is not None:  # else as many as there are triples
                    self._aside[key] = found
            firsts[i], counts[i] = len(self._forms) + len(more), len(found)
            more += found
            total += len(found)
        return np.concatenate([self._forms, np.array(more, np.int64).reshape(-1, kernel.FORM_CELLS)]), total

    def live_ids(self) -> Ints:
        """The ids of the table."""
        aside = {*self._names.values(), *(id for key in self._aside for id in key)}
        return np.concatenate([self._ids, self._chained, np.array(sorted(aside), np.int64)])

    @property
    def nbytes(self) -> int:
        """The memory of the table."""
        return self._forms.nbytes + self._properties.nbytes + self._classes.nbytes + self._bits.nbytes


def _table(rows: Ints, *, keyed: bool) -> Ints:
    table = np.zeros((1 << max(3, (2 * len(rows)).bit_length()), 4), np.int64)
    kernel.enter(table, rows, keyed)
    return table
