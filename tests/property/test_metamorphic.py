"""Changes of a query or of its streams that must change no answer: the oracle is asked about what was there before.

Batches, polls and clocks are drawn in every test (`harness.feed`): the division of the input varies with the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby, product

from harness import Feed, arrivals, feed
from hypothesis import given
from hypothesis import strategies as st

from thalweg.testing.snapshot import Count, Event, Now, Oracle, Question, Row, Triple
from thalweg.testing.strategies import (
    LITERALS,
    NODES,
    OPERATORS,
    PREDICATES,
    agrees,
    any_questions,
    counts,
    questions,
    streams,
)

UNREAD = "http://ex/unread"
NAMES = (
    "x",
    "y",
    "z",
    "v0",
    "v1",
    "v2",
    "p",
    "n0",
    "n1",
    "A",
    "_1",
    "é",
    "where",
    "SELECT",
    "longer_than_the_others",
)


# What may be done


@st.composite
def renamed(draw: st.DrawFn, question: Question) -> tuple[Question, dict[str, str]]:
    """The question under other names of variables, and the old name of each new one.

    Blank nodes of patterns change their labels, too. Names may change places, so that their order changes.
    """
    terms = {term for block in question.blocks for pattern in block.patterns for term in pattern}
    old = sorted({term[1:] for term in terms if term[0] == "?"} | set(question.select))
    new = draw(st.permutations(sorted({*NAMES, *old})))[: len(old)]
    known = {f"?{before}": f"?{after}" for before, after in zip(old, new, strict=True)}
    known |= {term: f"{term}b" for term in terms if term.startswith("_:")}
    blocks = tuple(
        replace(block, patterns=tuple(_mapped(pattern, known) for pattern in block.patterns))
        for block in question.blocks
    )
    select = tuple(known[f"?{name}"][1:] for name in question.select)
    return replace(question, blocks=blocks, select=select), dict(zip(new, old, strict=True))


def _mapped(pattern: Triple, known: dict[str, str]) -> Triple:
    s, p, o = (known.get(term, term) for term in pattern)
    return s, p, o


def named(rows: list[tuple[int, str, Row]], names: dict[str, str]) -> list[tuple[int, str, Row]]:
    """Rows with these names for theirs."""
    return [(at, op, frozenset((names[name], value) for name, value in row)) for at, op, row in rows]


def irrelevant(question: Question) -> list[Triple]:
    """Triples that no pattern wants: of another predicate, or just beside what some pattern asks for."""
    wanted = [pattern for block in question.blocks for pattern in block.patterns]
    constants = [
        sorted({term for term in place if term[0] not in "?_"}) for place in zip(*wanted, strict=True)
    ]
    near = product(
        [NODES[0], NODES[3], *constants[0]],
        ["<http://ex/unwanted>", "<http://ex/pp>", PREDICATES[0], *constants[1]],
        [NODES[1], NODES[2], LITERALS[1], LITERALS[3], *constants[2]],
    )
    return [triple for triple in near if not any(agrees(pattern, triple) for pattern in wanted)]


@st.composite
def noisy(
    draw: st.DrawFn, events: Sequence[Event], question: Question, *, counted: bool = False
) -> list[Event]:
    """The events with irrelevant triples among theirs and irrelevant events among them, as far as these do not count.

    In a window by count each inserted event or triple pushes others out: there, only deletes and other streams are
    irrelevant (and triples within an event, to a window of ELEMENTS), unless `counted` asks for all the same.
    """
    units = {block.window.unit for block in question.blocks if isinstance(block.window, Count)}
    inside = counted or "TRIPLES" not in units
    own = counted or not units
    # Triples anywhere, even wanted ones, on a stream that the question does not read.
    names = [UNREAD, *sorted(question.streams)]
    pool = irrelevant(question)
    if not pool:  # some pattern wants everything
        return list(events)
    noise = st.lists(st.sampled_from(pool), min_size=1, max_size=2, unique=True)
    result: list[Event] = []
    for event in events:
        for _ in range(draw(st.sampled_from([0, 0, 1, 2]))):
            stream = draw(st.sampled_from(names))
            op = "insert" if own and draw(st.booleans()) else "delete"
            triples = draw(noise)
            if stream == UNREAD:
                op, triples = "insert", [*triples, *event.triples]
            time = event.time - draw(st.sampled_from([0, 0, 1]))
            time = max([time, *(other.time for other in result)])
            result.append(Event(stream, time, tuple(triples), f"http://ex/noise{len(result)}", op))
        if inside and event.stream in question.streams and draw(st.booleans()):
            triples = list(event.triples)
            for triple in draw(noise):
                triples.insert(draw(st.integers(0, len(triples))), triple)
            event = replace(event, triples=tuple(triples))
        result.append(event)
    return result


@st.composite
def rearranged(draw: st.DrawFn, events: Sequence[Event], question: Question) -> list[Event]:
    """The same triples in other events of the same instants, as far as no window tells the difference.

    Windows by time do not see events, but instants. TRIPLES see an order; ELEMENTS and [NOW] see events, but
    in these no order.
    """
    windows = [block.window for block in question.blocks]
    whole = any(isinstance(w, Now) or (isinstance(w, Count) and w.unit == "ELEMENTS") for w in windows)
    ordered = any(isinstance(w, Count) for w in windows)
    result: list[Event] = []
    for _, group in groupby(events, key=lambda event: event.time):
        instant = list(group)
        for event in instant if ordered else draw(st.permutations(instant)):
            triples = list(event.triples)
            if not any(isinstance(w, Count) and w.unit == "TRIPLES" for w in windows):
                triples = list(draw(st.permutations(triples)))
            while triples:
                size = len(triples) if whole else draw(st.integers(1, len(triples)))
                part, triples = triples[:size], triples[size:]
                result.append(replace(event, triples=tuple(part)))
    return result


# That it changes nothing


@given(st.data())
def test_the_names_of_variables_are_only_names(data: st.DataObject) -> None:
    events = data.draw(streams(max_events=12, deletes=data.draw(st.booleans())))
    question = data.draw(any_questions(events, max_patterns=4))
    other, before = data.draw(renamed(question))
    run = Feed([other])
    feed(run, data.draw(arrivals(events)), data.draw)
    [emitted] = run.emitted
    emitted.rows, emitted.question = named(emitted.rows, before), question
    emitted.check(Oracle(question, events))


@given(st.data())
def test_two_questions_that_differ_in_names_share_a_session_and_answer_alike(data: st.DataObject) -> None:
    events = data.draw(streams(max_events=10, deletes=data.draw(st.booleans())))
    question = data.draw(any_questions(events, max_patterns=3))
    other, before = data.draw(renamed(question))
    run = Feed([question, other])
    feed(run, data.draw(arrivals(events)), data.draw)
    first, second = run.emitted
    second.rows = named(second.rows, before)
    assert first.per_instant() == second.per_instant()
    first.check(Oracle(question, events))


@given(st.data())
def test_triples_that_no_pattern_wants_change_nothing(data: st.DataObject) -> None:
    events = data.draw(streams(max_events=8, deletes=data.draw(st.booleans())))
    question = data.draw(any_questions(events, max_patterns=3))
    more = data.draw(noisy(events, question))
    run = Feed([question])
    feed(run, more, data.draw)
    run.emitted[0].check(Oracle(question, events))


@given(st.data())
def test_what_no_pattern_wants_still_counts_in_a_window_by_count(data: st.DataObject) -> None:
    events = data.draw(streams(max_events=8, deletes=data.draw(st.booleans())))
    question = data.draw(questions(events, window=counts(), max_patterns=2, operators=(None, *OPERATORS)))
    more = data.draw(noisy(events, question, counted=True))
    run = Feed([question])
    feed(run, more, data.draw)
    run.emitted[0].check(Oracle(question, more))


@given(st.data())
def test_within_an_instant_it_does_not_matter_which_event_brings_a_triple(data: st.DataObject) -> None:
    events = data.draw(streams(max_events=10, deletes=data.draw(st.booleans())))
    question = data.draw(any_questions(events, max_patterns=3))
    run = Feed([question])
    feed(run, data.draw(arrivals(data.draw(rearranged(events, question)))), data.draw)
    run.emitted[0].check(Oracle(question, events))


@given(st.data())
def test_all_of_it_at_once_with_restarts_changes_nothing(data: st.DataObject) -> None:
    events = data.draw(streams(max_events=8, deletes=data.draw(st.booleans())))
    asked = data.draw(st.lists(any_questions(events, max_patterns=3), min_size=1, max_size=2))
    # What is irrelevant or the same to all of them at once: as if they were one question.
    every = Question(tuple(block for question in asked for block in question.blocks))
    more = data.draw(noisy(data.draw(rearranged(events, every)), every))
    run = Feed(asked)

    def restart(rest: list[Event]) -> None:
        if data.draw(st.integers(0, 2)) == 0:
            run.restart()

    feed(run, more, data.draw, between=restart)
    for emitted in run.emitted:
        emitted.check(Oracle(emitted.question, events))
