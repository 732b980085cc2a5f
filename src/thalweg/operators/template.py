"""The template of a CONSTRUCT query: solutions become triples, in columns of ids."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from thalweg.algebra.query import Query
from thalweg.algebra.terms import Const, Term, Var
from thalweg.rdf.arena import Arena

Ints = NDArray[np.int64]
_LITERAL, _IRI = ord('"'), ord("<")


class Template:
    """What the triples of a template are made of: columns of solutions, constants, and new blank nodes.

    A blank node is named by a digest of the query, its label and the terms of the solution: who takes the solution
    back, or finds it elsewhere, names the same node.
    """

    def __init__(self, query: Query, names: Sequence[str], arena: Arena) -> None:
        """`names` are the columns of a solution."""
        triples = query.template or ()
        self._arena = arena
        terms = dict.fromkeys(term for triple in triples for term in triple.terms)
        constants = [term for term in terms if isinstance(term, Const)]
        nodes = [term.name for term in terms if isinstance(term, Var) and term.anonymous]
        self._nodes = [f"{query.text}\n{name}" for name in nodes]
        self.constants = np.array([arena.intern(const.text.encode()) for const in constants], np.int64)
        # The cells of a solution, as the triples find them: its own, the constants, its nodes.
        cells: list[Term] = [*map(Var, names), *constants, *map(Var, nodes)]
        place = {term: k for k, term in enumerate(cells)}
        self._places = np.array([[place[term] for term in t.terms] for t in triples], np.intp).reshape(-1, 3)
        # A variable of a basic graph pattern is in every solution what it is there.
        patterns = query.patterns if query.flat else ()
        subjects = {p.s for p in patterns} | {p.p for p in patterns}
        predicates = {p.p for p in patterns}
        bound = set(map(Var, query.variables)) if query.flat else set()
        # Only of these it has to be looked up whether they can stand where they do.
        shown = set(map(Var, names))
        self._subjects = [(k, place[t.s]) for k, t in enumerate(triples) if t.s in shown - subjects]
        self._predicates = [(k, place[t.p]) for k, t in enumerate(triples) if t.p in shown - predicates]
        self._objects = [(k, place[t.o]) for k, t in enumerate(triples) if t.o in shown - bound]

    def triples(self, rows: Ints) -> tuple[Ints, Ints]:
        """The triples of solutions, in their order: for each, the row that gave it, and its ids.

        A triple that no graph can hold, with a literal as its subject or a predicate that is no IRI, is left out, and
        so is one with a variable that a solution leaves unbound.
        """
        count = len(rows)
        constants = np.broadcast_to(self.constants, (count, len(self.constants)))
        nodes = [self._arena.nodes(name, rows)[:, None] for name in self._nodes]
        made = np.concatenate([rows, constants, *nodes], axis=1)[:, self._places]
        sound = np.ones((count, len(self._places)), np.bool_)
        for triple, column in self._subjects:
            initials = self._arena.initials(rows[:, column])
            sound[:, triple] &= (initials != _LITERAL) & (rows[:, column] != 0)
        for triple, column in self._predicates:
            sound[:, triple] &= (self._arena.initials(rows[:, column]) == _IRI) & (rows[:, column] != 0)
        for triple, column in self._objects:
            sound[:, triple] &= rows[:, column] != 0
        return np.nonzero(sound)[0], made[sound]
