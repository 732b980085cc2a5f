"""The epsilon network of a schema: what follows from one triple, reduced to what patterns can see, and flattened.

A *form* is what a triple (S, p, O) leads to: each of its ends is S, O or a constant. The forms of a triple are found by
following links from (S, p, O) until nothing is new; a cycle ends by itself. What a triple of rdf:type leads to depends
on its class; so does that of a property that leads to rdf:type. A property that *reads* an end as a class has an entry
for each class that the schema knows, and one for all other terms.

On the way a literal may be a subject, and a blank node of the schema any term. Forms with such a node are not kept; a
literal as a subject is seen when the triple comes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from thalweg.errors import LimitError
from thalweg.kernels import entail as kernel
from thalweg.schema.axioms import SAME, SUBJECT, SWAPPED, TYPE, Schema

S, O = "S", "O"  # noqa: E741 - the ends of a triple, by their usual names
"""The ends of a form that are those of the triple; others are terms, which begin with < or _."""
Terms = tuple[str | None, str | None, str | None]
"""The constants of a pattern; None is a variable."""
KINDS = {S: kernel.OF_SUBJECT, O: kernel.OF_OBJECT}
CONSTANT = kernel.CONSTANT
_READS = {
    frozenset[str](): 0,
    frozenset({O}): kernel.READS_OBJECT,
    frozenset({S}): kernel.READS_SUBJECT,
    frozenset({S, O}): kernel.READS_BOTH,
}
EVERYTHING: tuple[Terms, ...] = ((None, None, None),)


MOST_STEPS = 20_000_000
"""How many links may be followed to flatten a network; in deep hierarchies their number grows with the square."""


class Form(NamedTuple):
    """A triple that follows from one (S, p, O)."""

    s: str
    p: str
    o: str


class Flat(NamedTuple):
    """A flat table, as `kernels.entail` has it, with places in `texts` instead of ids (the last one: none)."""

    texts: tuple[str, ...]
    forms: NDArray[np.int64]
    properties: NDArray[np.int64]
    classes: NDArray[np.int64]
    itself: int
    """The form of triples of properties that are not in the table, or -1 where no pattern sees these."""
    reads_both: bool
    """Whether there are properties of which both ends are read as classes."""


class Entry(NamedTuple):
    """What triples of a property lead to, where these ends are these classes (None: any term)."""

    p: str
    o: str | None
    s: str | None
    forms: tuple[Form, ...]


@dataclass(frozen=True)
class Network:
    """The network of a schema for some patterns.

    >>> from thalweg.schema.axioms import RDFS
    >>> schema = Schema.of([("<a:A>", f"<{RDFS}subClassOf>", "<a:B>"), ("<a:B>", f"<{RDFS}subClassOf>", "<a:C>")])
    >>> for entry in Network(schema, ((None, TYPE, "<a:C>"),)).entries:
    ...     print(entry.o, [form.o for form in entry.forms])
    <a:A> ['<a:C>']
    <a:B> ['<a:C>']
    <a:C> ['O']
    """

    schema: Schema
    patterns: tuple[Terms, ...] = EVERYTHING
    general: bool = False
    """Whether forms that RDF does not allow, or that name a blank node of the schema, are kept: for further rules."""

    @cached_property
    def entries(self) -> tuple[Entry, ...]:
        """The flat table: every property of the schema that leads to something visible, and its classes."""
        found = []
        for p in sorted(self._properties):
            if not (p.startswith("<") or self.general):
                continue
            reads = self.reads[p]
            # Other terms than those with entries are neither classes of the schema nor constants of patterns.
            apart = reads if len(reads) == 1 else frozenset()
            found.append(Entry(p, None, None, self.forms(p, apart=apart)))
            if reads == {O}:
                found += [Entry(p, c, None, self.forms(p, o=c)) for c in self._own_entries]
            elif reads == {S}:
                found += [Entry(p, None, c, self.forms(p, s=c)) for c in self._own_entries]
        return tuple(entry for entry in found if entry.forms)

    @cached_property
    def flat(self) -> Flat:
        """The table for kernels."""
        places: dict[str, int] = {}

        def place(text: str) -> int:
            return places.setdefault(text, len(places))

        forms: list[list[int]] = []
        shared: dict[tuple[Form, ...], int] = {}
        # A property without an entry leads to nothing visible, whatever the class.
        properties = {p: [place(p), _READS[reads], 0, 0] for p, reads in self.reads.items()}
        classes: list[list[int]] = []
        for entry in self.entries:
            first = shared.get(entry.forms)
            if first is None:
                first = shared[entry.forms] = len(forms)
                for s, p, o in entry.forms:
                    ends = (KINDS.get(s, CONSTANT), KINDS.get(o, CONSTANT))
                    one, other = (-1 if term in KINDS else place(term) for term in (s, o))
                    forms.append([ends[0], one, place(p), ends[1], other])
            read = entry.o or entry.s
            if read is None:
                properties[entry.p][2:] = first, len(entry.forms)
            else:
                classes.append([place(entry.p), place(read), first, len(entry.forms)])
        itself = -1
        if self.sees_any_property:
            itself = len(forms)
            forms.append([kernel.OF_SUBJECT, -1, -1, kernel.OF_OBJECT, -1])
        both = any(len(reads) == 2 for reads in self.reads.values())
        return Flat(
            tuple(places),
            np.array(forms or [[0, -1, -1, 0, -1]], np.int64),
            np.array(list(properties.values()), np.int64).reshape(-1, 4),
            np.array(classes, np.int64).reshape(-1, 4),
            itself,
            both,
        )

    def check(self) -> None:
        """Refuses a schema whose flat table would take too long to make."""
        schema, relevant = self.schema, self._relevant
        above: dict[tuple[str, str], list[tuple[str, str]]] = {}
        for p, links in schema.links.items():
            above["p", p] = [("p" if kind in (SAME, SWAPPED) else "c", target) for kind, target in links]
        for c, found in schema.supers.items():
            above["c", c] = [("c", one) for one in found]
        if sum(map(len, above.values())) ** 2 <= MOST_STEPS:
            return
        steps = 0
        for start in above:
            if relevant is not None and start not in relevant:
                continue
            reached, pending = {start}, [start]
            while pending and steps + len(reached) <= MOST_STEPS:
                for node in above.get(pending.pop(), ()):
                    if node not in reached and (relevant is None or node in relevant):
                        reached.add(node)
                        pending.append(node)
            steps += len(reached)
            if steps > MOST_STEPS:
                raise LimitError(
                    "the hierarchies of the schema are too deep: to flatten what the patterns of the query see of "
                    f"them takes more than {MOST_STEPS:,} steps; name classes and properties, or leave axioms out"
                )

    @property
    def sees_any_property(self) -> bool:
        """Whether some pattern sees triples of any property, also of one that the schema does not know."""
        return None in self._by_predicate

    @cached_property
    def reads(self) -> dict[str, frozenset[str]]:
        """By property: which ends of its triples are read as classes. Where both are, there are no entries by class."""
        found = {}
        for p in self._properties:
            classes = {form.o for form in self._close(p) if form.p == TYPE and form.o in (S, O)}
            found[p] = frozenset(classes if self.schema.supers else ())
        return found

    @cached_property
    def _properties(self) -> set[str]:
        """The properties that can lead to something visible."""
        mine = {*self.schema.properties, TYPE, *(p for _, p, _ in self.patterns if p is not None)}
        return mine if self._relevant is None else {p for p in mine if ("p", p) in self._relevant}

    @cached_property
    def _known_classes(self) -> list[str]:
        """The classes with superclasses that can lead to something visible, sorted."""
        known = (c for c in self.schema.supers if c.startswith("<") or self.general)
        relevant = self._relevant
        return sorted(c for c in known if relevant is None or ("c", c) in relevant)

    @cached_property
    def _own_entries(self) -> list[str]:
        """The terms that have entries where an end is read as a class: known classes, and constants of patterns."""
        named = {term for s, _, o in self.patterns for term in (s, o) if term is not None and term[0] == "<"}
        return sorted({*self._known_classes, *named})

    @cached_property
    def _relevant(self) -> set[tuple[str, str]] | None:
        """The properties and classes from which something visible can be reached; None: perhaps all of them."""
        links = self.schema.links
        open_ended = any(p is None or (p == TYPE and o is None) for _, p, o in self.patterns)
        if open_ended or TYPE in links:
            return None
        below = self.schema.below
        pending = [("c", o) if p == TYPE and o is not None else ("p", str(p)) for _, p, o in self.patterns]
        reached = set(pending)
        while pending:
            node = pending.pop()
            more = below.get(node, [])
            if node[0] == "c":
                more = [*more, ("p", TYPE)]
            for lower in more:
                if lower not in reached:
                    reached.add(lower)
                    pending.append(lower)
        return reached

    def forms(
        self, p: str, o: str | None = None, s: str | None = None, apart: frozenset[str] = frozenset()
    ) -> tuple[Form, ...]:
        """The visible forms of triples of a property whose ends are these classes, or any other terms.

        An end that is `apart` is none of the terms with entries of their own.
        """
        known = {S: s, O: o} | dict.fromkeys(apart, "")
        found = (form for form in self._close(p, o, s) if self._is_answerable(form))
        return tuple(sorted(form for form in found if self._sees(form, known)))

    def _close(self, p: str, o: str | None = None, s: str | None = None) -> set[Form]:
        """Everything that follows from a triple."""
        links, supers, relevant = self.schema.links, self.schema.supers, self._relevant
        known = {S: s, O: o}
        start = Form(S, p, O)
        found, pending = {start}, [start]
        while pending:
            form = pending.pop()
            more = []
            for kind, target in links.get(form.p, ()):
                if kind == SAME:
                    more.append(Form(form.s, target, form.o))
                elif kind == SWAPPED:
                    more.append(Form(form.o, target, form.s))
                elif relevant is None or ("c", target) in relevant:
                    more.append(Form(form.s if kind == SUBJECT else form.o, TYPE, target))
            if form.p == TYPE:
                above = supers.get(known.get(form.o, form.o) or "", ())
                more += [Form(form.s, TYPE, c) for c in above if relevant is None or ("c", c) in relevant]
            for one in more:
                if one not in found:
                    found.add(one)
                    pending.append(one)
        return found

    def _is_answerable(self, form: Form) -> bool:
        """Whether a form names no blank node of the schema, and its predicate is an IRI."""
        if self.general:
            return True
        return form.p.startswith("<") and not form.s.startswith("_") and not form.o.startswith("_")

    def _sees(self, form: Form, known: dict[str, str | None]) -> bool:
        """Whether a pattern can be of such a triple, given what the ends are (None: any term)."""
        ends = (known.get(form.s, form.s), known.get(form.o, form.o))
        candidates = [*self._by_predicate.get(form.p, ()), *self._by_predicate.get(None, ())]
        return any(
            all(term is None or end is None or term == end for term, end in zip(terms, ends, strict=True))
            for terms in candidates
        )

    @cached_property
    def _by_predicate(self) -> dict[str | None, list[tuple[str | None, str | None]]]:
        found: dict[str | None, list[tuple[str | None, str | None]]] = {}
        for s, p, o in dict.fromkeys(self.patterns):
            found.setdefault(p, []).append((s, o))
        return found

    def wanted(self) -> Iterator[Terms]:
        """What the triples are like from which something visible follows, beside those that patterns see themselves."""
        for entry in self.entries:
            for form in entry.forms:
                for s, o in [*self._by_predicate.get(form.p, ()), *self._by_predicate.get(None, ())]:
                    ends = {S: entry.s, O: entry.o}
                    if _fits(ends, form.s, s) and _fits(ends, form.o, o):
                        yield ends[S], entry.p, ends[O]
        for p, reads in self.reads.items():
            if reads == {S, O} and p.startswith("<"):
                yield None, p, None


def _fits(ends: dict[str, str | None], end: str, term: str | None) -> bool:
    """Whether an end of a form can be the term of a pattern; an end that is not decided becomes that."""
    if term is None:
        return True
    if end not in ends:
        return end == term
    if ends[end] is None:
        ends[end] = term
    return ends[end] == term
