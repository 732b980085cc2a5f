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


class Derived(NamedTuple):
    """Triples that follow from others, themselves included where they are visible, in the order of those."""

    source: Ints
    """Which triple each follows from."""
    s: Ints
    p: Ints
    o: Ints


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
        self._forms = np.array(forms or [[0] * kernel.FORM_CELLS], np.int64)
        self._properties = _table(list(properties.values()), keyed=False)
        self._classes = _table(classes, keyed=True)
        self._aside: dict[tuple[int, int, int], list[list[int]]] = {}

    def _cells(self, form: Form) -> list[int]:
        s, o = _KINDS.get(form.s, kernel.CONSTANT), _KINDS.get(form.o, kernel.CONSTANT)
        return [s, self._ids.get(form.s, 0), self._ids[form.p], o, self._ids.get(form.o, 0)]

    def derive(self, s: Ints, p: Ints, o: Ints) -> Derived:
        """The visible triples that follow from each of some triples."""
        size = len(s)
        firsts, counts = np.zeros(size, np.int64), np.zeros(size, np.int64)
        s, p, o = (np.ascontiguousarray(column) for column in (s, p, o))
        total = int(kernel.find_forms(s, p, o, self._properties, self._classes, firsts, counts))
        forms = self._forms
        if (counts == kernel.ASIDE).any():
            forms, total = self._with_aside(s, p, o, firsts, counts, total)
        made = np.empty((4, total), np.int64)
        turned = np.empty(total, np.bool_)
        swapped = kernel.write_forms(s, p, o, firsts, counts, forms, *made, turned)
        if swapped and not self.network.general:
            places = np.flatnonzero(turned)
            literal = self._arena.initials(made[1, places]) == _LITERAL
            if literal.any():
                kept = np.ones(total, np.bool_)
                kept[places[literal]] = False
                made = made[:, kept]
        return Derived(*made)

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
