"""Hypothesis strategies: random SPARQL queries of the whole algebra over windows, made for streams that answer them.

A query's patterns come from triples of the stream, with names in the places of terms, the same one for the same term in
most places: so groups, OPTIONALs and EXISTS meet on variables, and most answers are not empty.

Left out, because the specification leaves it open: MINUS and sub-queries inside EXISTS, where terms take the places of
variables that MINUS compares and SELECT names; REDUCED inside a sub-query; comparisons of literals of different kinds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from thalweg.testing.algebra_groups import (
    FEATURES,
    LINK,
    NEXT,
    NUMBER,
    NUMBERS,
    TEXT,
    TEXTS,
    WINDOWS,
    Maker,
)
from thalweg.testing.algebra_oracle import AlgebraQuestion, Source
from thalweg.testing.judge import Judge, TooLargeError
from thalweg.testing.judge_expressions import UndecidedError
from thalweg.testing.snapshot import Event, Now, Range, Triple, Unbounded, Window
from thalweg.testing.strategies import BLANKS, MS, NODES, streams, windows
from thalweg.testing.syntax import Call, Const, Expression, Group, Select, Var, scope

__all__ = [
    "FEATURES",
    "FORMS",
    "algebra_questions",
    "algebra_streams",
    "algebra_triples",
    "wide_windows",
    "with_static",
]

FORMS = ("SELECT", "expressions", "DISTINCT", "groups", "slices", "REDUCED", "ASK", "CONSTRUCT")


def algebra_triples(*, blanks: bool = False, dense: bool = False) -> st.SearchStrategy[Triple]:
    """Triples in which a predicate has one kind of object, so that comparisons are mostly defined.

    `dense` ones link few nodes, so that there is more than one way from one to another.
    """
    nodes = st.sampled_from(NODES[:3] if dense else NODES + BLANKS if blanks else NODES)
    links = st.tuples(nodes, st.sampled_from([LINK, LINK, NEXT]), nodes)
    numbers = st.tuples(nodes, st.just(NUMBER), st.sampled_from(NUMBERS))
    texts = st.tuples(nodes, st.just(TEXT), st.sampled_from(TEXTS))
    return (
        st.one_of(links, links, links, links, numbers) if dense else st.one_of(links, links, numbers, texts)
    )


def algebra_streams(
    *, blanks: bool = False, dense: bool = False, deletes: bool = True, **given: Any
) -> st.SearchStrategy[list[Event]]:
    """Streams of such triples."""
    return streams(made=algebra_triples(blanks=blanks, dense=dense), deletes=deletes, **given)


def wide_windows() -> st.SearchStrategy[Window]:
    """Windows of which most hold more than a few events."""
    widths = st.sampled_from([8, 20, 40]).map(lambda ms: ms * MS)
    steps = st.sampled_from([1, 3, 8]).map(lambda ms: ms * MS)
    wide = st.one_of(st.just(Unbounded()), st.builds(Range, widths), st.builds(Range, widths, steps))
    return st.one_of(wide, wide, windows())


@st.composite
def algebra_questions(
    draw: st.DrawFn,
    events: Sequence[Event],
    *,
    features: Sequence[str] = (),
    must: Sequence[str] = (),
    forms: Sequence[str] = ("SELECT",),
    sources: str = "default",
    window: st.SearchStrategy[Window] | None = None,
    operators: Sequence[str | None] = (None,),
    size: int = 3,
) -> AlgebraQuestion:
    """A query that these events may answer: its groups have some of `features` and, on top, all that it `must` have.

    `sources` is "default" (one window as the default graph), "now" (single events) or "named" (several windows).
    """
    names = sorted({event.stream for event in events})
    read: tuple[Source, ...]
    if sources == "named":
        many = draw(st.integers(1, 3))
        read = tuple(
            Source(
                (draw(st.sampled_from(names)),),
                draw(wide_windows() if window is None else window),
                WINDOWS[number],
            )
            for number in range(many)
        )
        if draw(st.integers(0, 2)) == 0:
            read = (
                Source((draw(st.sampled_from(names)),), draw(wide_windows() if window is None else window)),
                *read,
            )
    else:
        every = tuple(names) if draw(st.booleans()) else (draw(st.sampled_from(names)),)
        read = (
            Source(every, Now() if sources == "now" else draw(wide_windows() if window is None else window)),
        )
    seen = {stream for source in read for stream in source.streams}
    data = [triple for event in events if event.stream in seen for triple in event.triples]
    if sources == "now":  # all patterns have to meet in one event
        whole = [event for event in events if event.stream in seen and event.op == "insert"]
        largest = sorted(whole, key=lambda event: -len(event.triples))[:3]
        data = [*(list(draw(st.sampled_from(largest)).triples) if largest else []), *data[:2]]
    form, operator = draw(st.sampled_from(list(forms))), draw(st.sampled_from(list(operators)))
    for _ in range(5):
        maker = Maker(draw, data, frozenset(features) | set(must), read)
        where = maker.group(size, must=list(must), least=0 if must else size // 2)
        if _has_answer(where, read, events):
            break
    return draw(_shaped(where, read, form, operator))


@st.composite
def with_static(draw: st.DrawFn, question: AlgebraQuestion) -> AlgebraQuestion:
    """A question with static data in the place of one of several windows, and in its default graph."""
    sources = list(question.sources)
    named = [k for k, source in enumerate(sources) if source.name is not None]
    if len(sources) > 1 and named and draw(st.booleans()):
        static = sources.pop(named[-1])
        sources.append(Source((), Unbounded(), static.name))
    if all(source.name is not None for source in sources):
        sources.append(Source((), Unbounded()))
    return replace(question, sources=tuple(sources))


def _has_answer(where: Group, read: tuple[Source, ...], events: Sequence[Event]) -> bool:
    """Whether a group has solutions over all that was ever inserted, or over some event if it asks for single ones."""

    def content(streams: tuple[str, ...], some: Sequence[Event]) -> frozenset[Triple]:
        inserted = [event for event in some if event.op == "insert" and event.stream in streams]
        return frozenset(triple for event in inserted for triple in event.triples)

    parts = [[event] for event in events] if isinstance(read[0].window, Now) else [list(events)]
    try:
        for some in parts:
            default = [content(source.streams, some) for source in read if source.name is None]
            named = {source.name: content(source.streams, some) for source in read if source.name is not None}
            if Judge(default[0] if default else frozenset(), named).solutions(where):
                return True
    except (TooLargeError, UndecidedError):
        pass
    return False


@st.composite
def _shaped(
    draw: st.DrawFn, where: Group, read: tuple[Source, ...], form: str, operator: str | None
) -> AlgebraQuestion:
    """The query of a group: its form, its columns, its template."""
    names = sorted(scope(where))
    some: tuple[str, ...] = ("none",)
    if names:
        some = tuple(draw(st.lists(st.sampled_from(names), min_size=1, max_size=4, unique=True)))
    everything = bool(names) and draw(st.booleans())
    select = Select(() if everything else some, where)
    if form in ("DISTINCT", "REDUCED"):
        return AlgebraQuestion(read, replace(select, items=some[:2], modifier=form), operator=operator)
    if form == "expressions":
        maker = Maker(draw, [], frozenset(), read)
        made = [(maker.value(names), f"made{k}") for k in range(draw(st.integers(1, 2)))]
        items: list[str | tuple[Expression, str]] = [*some[: draw(st.integers(0, 2))], *made]
        if draw(st.booleans()):  # an expression may use a name that was made before it
            items.append((Call("COALESCE", (Var("made0"), Const('"none"'))), "last"))
        modifier = draw(st.sampled_from(["", "", "DISTINCT"]))
        return AlgebraQuestion(read, Select(tuple(items), where, modifier), operator=operator)
    if form == "slices":
        maker = Maker(draw, [], frozenset(), read)
        modifier = draw(st.sampled_from(["", "", "DISTINCT"]))
        sliced = maker.sliced(replace(select, modifier=modifier), names or ["none"])
        return AlgebraQuestion(read, sliced, operator=operator)
    if form == "groups":
        maker = Maker(draw, [], frozenset(), read, made=50)
        return AlgebraQuestion(read, maker.grouped(where, names or ["none"]), operator=operator)
    if form == "ASK":
        return AlgebraQuestion(read, Select((), where), "ASK", operator=operator)
    if form == "CONSTRUCT":
        known = st.sampled_from([f"?{name}" for name in names] or ["?none"])
        ends = st.one_of(known, known, known, st.sampled_from([NODES[0], "?none", "_:new", TEXTS[0]]))
        made_of = st.sampled_from([LINK, "<http://ex/made>"])
        subjects = ends.filter(lambda term: term[0] != '"')
        template = draw(st.lists(st.tuples(subjects, made_of, ends), min_size=1, max_size=3))
        return AlgebraQuestion(read, Select((), where), "CONSTRUCT", tuple(template), operator)
    return AlgebraQuestion(read, select, operator=operator)
