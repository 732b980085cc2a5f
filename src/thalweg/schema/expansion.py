"""Expansion: the flat table of a network with the ids of an arena, and what follows from columns of triples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from thalweg.kernels import entail as kernel
from thalweg.rdf.arena import Arena
from thalweg.schema.network import Form, Network, O, S

Ints = NDArray[np.int64]
_KINDS = {S: kernel.OF_SUBJECT, O: kernel.OF_OBJECT}
_READS = {
    frozenset(): 0,
    frozenset({O}): kernel.READS_OBJECT,
    frozenset({S}): kernel.READS_SUBJECT,
    frozenset({S, O}): kernel.READS_BOTH,
}
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
        self._arena = arena
        texts = dict.fromkeys(
            text
            for entry in network.entries
            for text in (entry.p, entry.o, entry.s, *(term for form in entry.forms for term in form))
            if text is not None and text not in _KINDS
        )
        texts.update(dict.fromkeys(network.reads))
        self._ids = dict(
            zip(texts, arena.intern_all([text.encode() for text in texts]).tolist(), strict=True)
        )
        forms: list[list[int]] = []
        properties: dict[str, list[int]] = {}
        classes: list[list[int]] = []
        shared: dict[tuple[Form, ...], int] = {}
        for p, reads in network.reads.items():
            # A property without an entry leads to nothing visible, whatever the class.
            properties[p] = [self._ids[p], _READS[reads], 0, 0]
        for entry in network.entries:
            first = shared.get(entry.forms)
            if first is None:
                first = shared[entry.forms] = len(forms)
                forms += [self._cells(form) for form in entry.forms]
            read = entry.o or entry.s
            if read is None:
                properties[entry.p][2:] = first, len(entry.forms)
            else:
                classes.append([self._ids[entry.p], self._ids[read], first, len(entry.forms)])
        self._itself = -1
        if network.sees_any_property:
            self._itself = len(forms)
            forms.append([kernel.OF_SUBJECT, 0, 0, kernel.OF_OBJECT, 0])
        self._forms = np.array(forms or [[0] * kernel.FORM_CELLS], np.int64)
        self._properties = _table(list(properties.values()), keyed=False)
        self._classes = _table(classes, keyed=True)
        self._aside: dict[tuple[int, int, int], list[list[int]]] = {}

    def _cells(self, form: Form) -> list[int]:
        s, o = _KINDS.get(form.s, kernel.CONSTANT), _KINDS.get(form.o, kernel.CONSTANT)
        return [s, self._ids.get(form.s, 0), self._ids[form.p], o, self._ids.get(form.o, 0)]

    def derive(self, s: Ints, p: Ints, o: Ints) -> Derived:
        """The visible triples that follow from each of some triples."""
        s, p, o = (np.ascontiguousarray(column) for column in (s, p, o))
        found = self._find(np.zeros(len(s), np.int64), _ALL, s, p, o)
        made = np.empty((4, found.total), np.int64)
        turned = np.empty(found.total, np.bool_)
        swapped = kernel.write_forms(s, p, o, found.firsts, found.counts, found.forms, *made, turned)
        return Derived(*(self._sound(made, 1, turned) if swapped else made))

    def derive_rows(
        self, feed: Ints, takes: NDArray[np.bool_], columns: tuple[Ints, ...], *, log: bool
    ) -> tuple[Ints, Ints]:
        """The rows (time, event, graph, s, p, o, op) that follow from rows of the feeds that are taken.

        With `log`, also those from which some follow: s, p, o and time.
        """
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
            feed, takes, s, p, o, self._properties, self._classes, self._itself, firsts, counts
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
        literal = self._arena.initials(made[subject, places]) == _LITERAL
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
                texts = self._arena.texts_among_threads(key)
                supers = self.network.schema.supers
                one, other = (text if text in supers else None for text in texts[::2])
                forms = self.network.forms(texts[1], other, one)
                unknown = {term for form in forms for term in form} - set(_KINDS) - set(self._ids)
                self._ids |= {term: self._arena.intern(term.encode()) for term in unknown}
                found = [self._cells(form) for form in forms]
                if one is not None or other is not None:  # else as many as there are triples
                    self._aside[key] = found
            firsts[i], counts[i] = len(self._forms) + len(more), len(found)
            more += found
            total += len(found)
        return np.concatenate([self._forms, np.array(more, np.int64).reshape(-1, kernel.FORM_CELLS)]), total

    def live_ids(self) -> Ints:
        """The ids of the table."""
        return np.array(sorted({*self._ids.values(), *(id for key in self._aside for id in key)}), np.int64)

    @property
    def nbytes(self) -> int:
        """The memory of the table."""
        return self._forms.nbytes + self._properties.nbytes + self._classes.nbytes


def _table(rows: Sequence[Sequence[int]], *, keyed: bool) -> Ints:
    table = np.zeros((1 << max(3, (2 * len(rows)).bit_length()), 4), np.int64)
    if rows:
        kernel.enter(table, np.array(rows, np.int64), keyed)
    return table
