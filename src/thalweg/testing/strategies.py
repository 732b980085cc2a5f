"""Hypothesis strategies: small random streams, windows and patterns in which joins do happen.

Needs the library hypothesis, which Thalweg itself does not depend on.
"""

from __future__ import annotations

import string
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from hypothesis import strategies as st

from thalweg.instants import FIRST, LAST, LONGEST
from thalweg.testing import entailment as judge
from thalweg.testing.snapshot import (
    Block,
    Count,
    Event,
    Now,
    Question,
    Range,
    Report,
    Triple,
    Unbounded,
    Window,
)

STREAMS = ("http://ex/s1", "http://ex/s2")
NODES = tuple(f"<http://ex/{name}>" for name in "abcd")
PREDICATES = tuple(f"<http://ex/{name}>" for name in "pqr")
CLASSES = tuple(f"<http://ex/{name}>" for name in "CDE")
UNWANTED = "<http://ex/unwanted>"
"""A predicate that no pattern names; `?p` may take it."""
INTEGER = "<http://www.w3.org/2001/XMLSchema#integer>"
# Equal numbers that are different terms, and texts that differ only in their tags.
LITERALS = (f'"1"^^{INTEGER}', f'"01"^^{INTEGER}', '"1"', '"1"@en', '"\\"\\\\"')
BLANKS = ("_:m", "_:n")
MS = 1000
MAX_PRODUCT = 3000
OPERATORS = ("RSTREAM", "ISTREAM", "DSTREAM")
LINE_ENDS = (b"\n", b"\r", b"\r\n")
BUILT_IN = (
    "http://www.w3.org/2001/XMLSchema#string",
    "http://www.w3.org/2001/XMLSchema#dateTime",
    "http://www.w3.org/1999/02/22-rdf-syntax-ns#langString",
    "http://www.w3.org/ns/prov#generatedAtTime",
)
"""IRIs that the reader compares terms with."""
COMPARED = (8, 16, 40, 48, 56, 64, 72, 128, 255)
"""Bytes that kernels compare, hash or copy at once, and sums of them."""


def triples(*, blanks: bool = False) -> st.SearchStrategy[Triple]:
    """Triples over a vocabulary so small that they meet, repeat and point to each other."""
    nodes = st.sampled_from(NODES + BLANKS if blanks else NODES)
    objects = st.one_of(nodes, nodes, st.sampled_from(LITERALS))
    return st.tuples(nodes, st.sampled_from(PREDICATES), objects)


@st.composite
def streams(
    draw: st.DrawFn,
    *,
    names: Sequence[str] = STREAMS,
    max_events: int = 10,
    blanks: bool = False,
    deletes: bool = False,
    unwanted: bool = False,
    extreme: bool = False,
    few: int = 0,
    made: st.SearchStrategy[Triple] | None = None,
) -> list[Event]:
    """Events in order of time, with equal timestamps, gaps, re-arrivals and sub-millisecond times.

    A delete mostly takes triples that came before. With `unwanted`, some events have no triple that a pattern names;
    `extreme` times are near the first or the last one that is accepted. With `few`, there are so many different triples
    at most, which come again and again. `made` is where the triples come from.
    """
    made = triples(blanks=blanks) if made is None else made
    if few:
        made = st.sampled_from(draw(st.lists(made, min_size=1, max_size=few)))
    count = draw(st.integers(min(3, max_events), max_events))
    names = draw(st.sampled_from([names, names[:1]]))
    usual = [0, 0, 0, -7 * MS, 5 * MS, 1_700_000_000_123_456]
    # Two seconds before the last time there is room for all that a test adds to it.
    time = draw(st.sampled_from([FIRST, FIRST + 1, LAST - 2_000_000] if extreme else usual))
    events: list[Event] = []
    for number in range(count):
        time += draw(st.sampled_from([0, MS, MS, 2 * MS, 3 * MS, 7 * MS, 1, 999]))
        op = draw(st.sampled_from(["insert", "insert", "delete"])) if deletes else "insert"
        known = [triple for event in events for triple in event.triples]
        source = st.sampled_from(known) if op == "delete" and known else made
        graph = draw(st.lists(source, min_size=1, max_size=3, unique=True))
        if unwanted and draw(st.integers(0, 2)) == 0:
            graph = list(dict.fromkeys((s, UNWANTED, o) for s, _, o in graph))
        name = draw(st.sampled_from(names))
        events.append(Event(name, time, tuple(graph), f"http://ex/g{number}", op))
    return events


def wanted(events: Sequence[Event]) -> list[Event]:
    """The events, without triples that no pattern is to be made of; all of them where no other triple is left."""
    kept = [
        replace(event, triples=tuple(triple for triple in event.triples if triple[1] != UNWANTED))
        for event in events
    ]
    return kept if any(event.triples for event in kept) else list(events)


def instants_near_the_ends() -> st.SearchStrategy[int]:
    """Microseconds around the first and the last time that is accepted, and around the ends of 64 bits."""
    ends = st.sampled_from([FIRST, FIRST, LAST, LAST, 2**63 - 10**7, -(2**63) + 10**7, 0])
    return st.tuples(ends, st.sampled_from([0, 1, -1, 999, -1000, 1_000_001, -86_400_000_000])).map(sum)


@st.composite
def time_texts(draw: st.DrawFn) -> tuple[str, int]:
    """Texts of times near the ends of what is accepted, each with its microseconds: dateTimes in any zone, or
    milliseconds; numpy writes them, which knows all years.
    """
    us = draw(instants_near_the_ends().filter(lambda us: abs(us) < 2**63 - 10**8))
    if draw(st.integers(0, 2)) == 0:
        return str(us // 1000), us // 1000 * 1000
    hours = draw(st.sampled_from([0, 0, 1, -14, 14]))
    local = us + hours * 3_600_000_000
    if abs(local) >= 2**63:
        hours, local = 0, us
    text = str(np.datetime64(local, "us"))
    return f"{text}{f'{hours:+03d}:00' if hours else 'Z'}", us


def long_windows() -> st.SearchStrategy[Window]:
    """Windows about as long as the whole of time."""
    widths = st.sampled_from([LONGEST, LONGEST - 1, LONGEST // 2, 10**15])
    return st.one_of(st.builds(Range, widths), widths.map(lambda width: Range(width, width)))


@st.composite
def close_iris(draw: st.DrawFn, constants: Sequence[str] = BUILT_IN) -> str:
    """IRIs that a comparison by parts takes for a constant: the same length, the same first or last bytes, one byte
    different anywhere, or one more or less.
    """
    iri = draw(st.sampled_from(constants))
    letter = draw(st.sampled_from("aZ0"))
    kind = draw(st.sampled_from(["same", "one byte", "middle", "begin", "longer", "shorter"]))
    scheme = iri.index(":") + 1
    at = draw(st.integers(scheme, len(iri) - 1))
    if kind == "one byte":
        return iri[:at] + letter + iri[at + 1 :]
    if kind == "middle":
        return iri[:8] + letter * (len(iri) - 16) + iri[-8:]
    if kind == "begin":
        return iri[:scheme] + letter * (at - scheme) + iri[at:]
    if kind == "longer":
        return iri[:at] + letter + iri[at:]
    return iri[:at] + iri[at + 1 :] if kind == "shorter" else iri


def sized_iris() -> st.SearchStrategy[str]:
    """IRIs around the lengths that kernels compare at once, which differ in one byte from each other."""
    sizes = st.tuples(st.sampled_from(COMPARED), st.integers(-3, 3)).map(sum)
    filled = st.tuples(sizes, st.sampled_from(string.ascii_letters[:3]), st.integers(0, 260))

    def made(parts: tuple[int, str, int]) -> str:
        size, letter, at = parts
        rest = ["x"] * max(size - 2, 1)
        rest[at % len(rest)] = letter
        return "a:" + "".join(rest)

    return filled.map(made)


def windows(*, steps: bool | None = None) -> st.SearchStrategy[Window]:
    """Windows with reports (overlapping, tumbling or with gaps), without them, or both kinds."""
    widths = st.one_of(st.integers(1, 12), st.sampled_from([20, 40])).map(lambda ms: ms * MS)
    odd = st.sampled_from([1, MS + 1])
    with_step = st.builds(Range, widths, widths)
    without = st.one_of(st.just(Unbounded()), st.builds(Range, widths), st.builds(Range, odd))
    return {True: with_step, False: without, None: st.one_of(with_step, without)}[steps]


def reports(*, closes: bool = True, empty: bool = False) -> st.SearchStrategy[Report]:
    """Reports of every kind; `closes` says whether the window can close, `empty` asks for empty ones, too."""
    told = st.booleans() if empty else st.just(False)
    periods = st.sampled_from([1, 2, 3, 5, 11]).map(lambda ms: ms * MS)
    kinds = ["", "CONTENT-CHANGE", *(["WINDOW-CLOSE"] if closes else [])]
    named = st.builds(lambda kind, told: Report(kind, 0, told and kind != ""), st.sampled_from(kinds), told)
    periodic = st.builds(Report, st.just("PERIODIC"), periods, told)
    return st.one_of(named, periodic, st.just(Report("NON-EMPTY")))


def counts(
    *, empty: bool = False, units: Sequence[str] = ("ELEMENTS", "TRIPLES")
) -> st.SearchStrategy[Window]:
    """Windows that count events or triples; steps overlap, tumble or leave gaps."""
    return st.builds(
        Count, st.sampled_from(units), st.integers(1, 6), st.integers(1, 5), reports(empty=empty)
    )


def any_windows(*, empty: bool = False) -> st.SearchStrategy[Window]:
    """Every kind of window: by time with any bounds, origin and report, by count, or none."""
    widths = st.one_of(st.integers(1, 12), st.sampled_from([20, 40])).map(lambda ms: ms * MS)
    origins = st.sampled_from([0, 0, 3 * MS, -7 * MS, 1_700_000_000_001 * MS])
    bounds = st.sampled_from(["", "CLOSED-OPEN", "OPEN-CLOSED"])
    stepped = st.builds(Range, widths, widths, origins, bounds, reports(empty=empty))
    sliding = st.builds(Range, widths, st.none(), st.just(0), bounds, reports(closes=False, empty=empty))
    return st.one_of(stepped, sliding, counts(empty=empty), st.just(Unbounded()))


@st.composite
def patterns(draw: st.DrawFn, *, max_patterns: int = 6) -> tuple[Triple, ...]:
    """One to six patterns: stars, chains, cycles, or anything, with constants sprinkled over them."""
    count = draw(st.integers(1, max_patterns))
    shape = draw(st.sampled_from(["star", "chain", "cycle", "any"]))
    result: list[Triple] = []
    for i in range(count):
        predicate = draw(st.sampled_from([*PREDICATES, *PREDICATES, "?p"]))
        if shape == "star":
            ends = ("?x", f"?y{i}") if draw(st.booleans()) else (f"?y{i}", "?x")
        elif shape == "chain":
            ends = (f"?n{i}", f"?n{i + 1}")
        elif shape == "cycle":
            ends = (f"?n{i}", f"?n{(i + 1) % count}")
        else:
            variables = st.sampled_from(["?x", "?y", "?z", "?u", "_:v"])
            ends = (draw(variables), draw(variables))
        subject = draw(st.sampled_from([ends[0]] * 6 + [NODES[0], NODES[1]]))
        object_ = draw(st.sampled_from([ends[1]] * 6 + [NODES[0], NODES[2], LITERALS[0], LITERALS[2]]))
        result.append((subject, predicate, object_))
    return tuple(result)


@st.composite
def matching(draw: st.DrawFn, data: Sequence[Triple], *, max_patterns: int = 6) -> tuple[Triple, ...]:
    """Patterns made of triples that are there, by forgetting most of their terms: joins with an answer."""
    found = [draw(st.sampled_from(data))]
    while len(found) < max_patterns and draw(st.integers(0, 3)):
        ends = {end for s, _, o in found for end in (s, o)}
        near = [triple for triple in data if triple[0] in ends or triple[2] in ends]
        found.append(draw(st.sampled_from(near if draw(st.integers(0, 7)) else data)))
    terms = sorted({term for triple in found for term in triple})
    # An end is forgotten unless chance says otherwise, and now and then under a second name.
    names = {term: draw(st.sampled_from([f"?v{i}"] * 5 + [term])) for i, term in enumerate(terms)}
    result = []
    for s, p, o in found:
        subject, object_ = names[s], names[o]
        if draw(st.integers(0, 9)) == 0:
            object_ = "?w"
        if subject[:2] == "_:" or object_[:2] == "_:":
            subject, object_ = subject.replace("_:", "?b"), object_.replace("_:", "?b")
        result.append((subject, draw(st.sampled_from([p] * 5 + ["?p"])), object_))
    return tuple(result)


@st.composite
def questions(
    draw: st.DrawFn,
    events: Sequence[Event],
    *,
    window: st.SearchStrategy[Window] | None = None,
    max_blocks: int = 3,
    max_patterns: int = 6,
    operators: Sequence[str | None] = (None,),
) -> Question:
    """A question that these events may answer, cut down so that no answer can explode."""
    window = windows() if window is None else window
    data = [triple for event in events for triple in event.triples]
    names = sorted({event.stream for event in events})
    hit = matching(data, max_patterns=max_patterns)
    bodies = [draw(st.one_of(hit, hit, patterns(max_patterns=max_patterns)))]
    while len(bodies) < max_blocks and draw(st.integers(0, 2)) == 0:
        more = draw(st.one_of(matching(data, max_patterns=2), patterns(max_patterns=2)))
        # A blank node is a variable of one group: SPARQL does not let two share its label.
        bodies.append(tuple(_relabelled(pattern, len(bodies)) for pattern in more))
    bodies = _cut(bodies, data)
    blocks = []
    for body in bodies:
        read = tuple(names) if len(bodies) == 1 and draw(st.booleans()) else (draw(st.sampled_from(names)),)
        blocks.append(Block(read, draw(window), body))
    variables = sorted({t[1:] for body in bodies for pattern in body for t in pattern if t[0] == "?"})
    select: tuple[str, ...] = ()
    if not variables:
        select = ("none",)
    elif draw(st.booleans()):
        select = tuple(draw(st.lists(st.sampled_from(variables), min_size=1, max_size=4, unique=True)))
    return Question(tuple(blocks), select, draw(st.booleans()), draw(st.sampled_from(list(operators))))


def now_questions(events: Sequence[Event], operators: Sequence[str | None]) -> st.SearchStrategy[Question]:
    """Questions about single events."""
    return questions(events, window=st.just(Now()), max_blocks=1, operators=operators)


@st.composite
def any_questions(
    draw: st.DrawFn, events: Sequence[Event], *, max_patterns: int = 6, graphs: bool = False
) -> Question:
    """Questions of every kind: any windows, any operator, or about single events; with `graphs`, some for a graph."""
    asked = now_questions(events, (None, "RSTREAM", "ISTREAM"))
    if draw(st.integers(0, 7)):
        operator = draw(st.sampled_from([None, None, None, *OPERATORS]))
        window = any_windows(empty=operator == "RSTREAM")
        asked = questions(events, window=window, max_patterns=max_patterns, operators=(operator,))
    return draw(constructs(asked) if graphs and draw(st.integers(0, 3)) == 0 else asked)


@st.composite
def constructs(draw: st.DrawFn, asked: st.SearchStrategy[Question]) -> Question:
    """Questions whose answer is a graph: new triples of their variables, of constants, and of new nodes."""
    question = draw(asked)
    names = [f"?{name}" for name in question.variables] or ["?nowhere"]
    some = st.sampled_from(names * 3)
    nodes = st.sampled_from(["_:n", "_:m", NODES[0], "?nowhere"])
    subjects = st.one_of(some, some, nodes)
    predicates = st.one_of(some, st.sampled_from([*PREDICATES, "<http://ex/made>"]))
    objects = st.one_of(some, some, nodes, st.sampled_from(LITERALS))
    template = draw(st.lists(st.tuples(subjects, predicates, objects), min_size=1, max_size=4))
    return replace(question, template=tuple(template), select=(), distinct=False)


@st.composite
def producers(draw: st.DrawFn, events: Sequence[Event], output: str) -> Question:
    """CONSTRUCT queries with an output stream, without new nodes: these have other names at the oracle."""
    operator = draw(st.sampled_from([None, None, *OPERATORS]))
    asked = questions(events, window=any_windows(), max_patterns=2, max_blocks=2, operators=(operator,))
    if draw(st.integers(0, 3)) == 0:
        asked = now_questions(events, (None, "ISTREAM"))
    question = draw(constructs(asked))
    made = {f"?{name}" for name in question.variables}
    template = tuple(
        triple for triple in question.template or () if all(t[0] in '<"' or t in made for t in triple)
    )
    if not template:
        template = ((NODES[0], PREDICATES[0], NODES[1]),)
    return replace(question, template=template, output=output)


def agrees(pattern: Triple, triple: Triple) -> bool:
    """Whether a triple has the constants of a pattern; it may still fail to match one that repeats a variable."""
    return all(want[0] in "?_" or want == have for want, have in zip(pattern, triple, strict=True))


def _relabelled(pattern: Triple, number: int) -> Triple:
    s, p, o = (f"{term}{number}" if term.startswith("_:") else term for term in pattern)
    return s, p, o


def _cut(bodies: list[tuple[Triple, ...]], data: Sequence[Triple]) -> list[tuple[Triple, ...]]:
    """The patterns up to the point where even their cartesian product stays small."""
    product = 1
    result: list[tuple[Triple, ...]] = []
    for body in bodies:
        kept: list[Triple] = []
        for pattern in body:
            product *= max(1, sum(agrees(pattern, triple) for triple in set(data)))
            if product > MAX_PRODUCT and (kept or result):
                break
            kept.append(pattern)
        if kept:
            result.append(tuple(kept))
        if product > MAX_PRODUCT:
            break
    return result


@st.composite
def schemas(draw: st.DrawFn, *, transitive: bool = False, about_types: bool = True) -> list[Triple]:
    """Axioms over the vocabulary of `triples`: cycles, blank nodes, self-references, literals as classes.

    With `about_types`, rdf:type may have axioms like any property.
    """
    often = [*PREDICATES, *PREDICATES, *([judge.A] if about_types else [])]
    properties = st.sampled_from([*often, "_:schema1"])
    classes = st.sampled_from([*CLASSES, *CLASSES, *NODES[:2], "_:schema2", '"no class"'])
    kinds = st.one_of(
        st.tuples(properties, st.sampled_from([judge.DOMAIN, judge.RANGE]), classes),
        st.tuples(
            properties,
            st.sampled_from([judge.SUB_PROPERTY, judge.SUB_PROPERTY, judge.INVERSE, judge.SAME_PROPERTY]),
            properties,
        ),
        st.tuples(
            classes.filter(lambda term: term[0] != '"'),
            st.sampled_from([judge.SUB_CLASS, judge.SUB_CLASS, judge.SAME_CLASS]),
            classes,
        ),
        st.tuples(
            properties,
            st.just(judge.A),
            st.sampled_from([judge.SYMMETRIC, judge.TRANSITIVE] if transitive else [judge.SYMMETRIC]),
        ),
    )
    return draw(st.lists(kinds, min_size=1, max_size=8))


def typed_triples(*, blanks: bool = False) -> st.SearchStrategy[Triple]:
    """Triples as those of `triples`, and types."""
    nodes = st.sampled_from(NODES + BLANKS if blanks else NODES)
    types = st.tuples(nodes, st.just(judge.A), st.sampled_from([*CLASSES, *CLASSES, *NODES[:2]]))
    return st.one_of(triples(blanks=blanks), types)
