"""Random sequences and events, and the two answers that are compared: the engine's and that of brute force."""

from __future__ import annotations

import re
from dataclasses import replace
from decimal import Decimal
from itertools import count

from hypothesis import assume
from hypothesis import strategies as st

from thalweg import Session
from thalweg.algebra.query import Query
from thalweg.algebra.sequences import Optimisations
from thalweg.errors import QueryError
from thalweg.lang import parse
from thalweg.testing.sequences import (
    Alt,
    Event,
    Gpm,
    Neg,
    Opt,
    Plus,
    Ref,
    Seq,
    SequenceCase,
    Tog,
    evaluate,
    refs_of,
)

S = "http://ex/"
STREAMS = (f"{S}s0", f"{S}s1", f"{S}s2")
NAMES = "ABCDEF"
REFUSALS = (
    "neighbouring negations",
    "! cannot stand inside",
    "needs an atom that is not negated",
    "CONSUME RECENT of a sequence that ends",
    "EXISTS in the atom",
)


def patterns(name: str) -> st.SearchStrategy[tuple[str, frozenset[str]]]:
    own = f"v{name}"
    return st.sampled_from(
        [
            (f"?x <{S}p> ?{own}", frozenset({"x", own})),
            (f"?x <{S}q> ?{own}", frozenset({"x", own})),
            (f"?x <{S}p> ?y", frozenset({"x", "y"})),
            (f"<{S}a> <{S}p> ?{own}", frozenset({own})),
            (f"?x <{S}p> ?{own} OPTIONAL {{ ?x <{S}q> ?y }}", frozenset({"x", "y", own})),
            (f"?x <{S}p> ?{own} . ?x <{S}q> ?w{name}", frozenset({"x", own, f"w{name}"})),
            (f"{{ ?x <{S}p> ?{own} }} UNION {{ ?y <{S}q> ?{own} }}", frozenset({"x", "y", own})),
        ]
    )


KINDS = (*["ref"] * 5, "plus", "neg", "opt", "tog", "alt", "altplus", "togplus", "seq")


@st.composite
def trees(draw: st.DrawFn, most: int, kinds: tuple[str, ...] = KINDS) -> object:
    names = count()

    def ref() -> Ref:
        k = next(names)
        if k and draw(st.integers(0, 7)) == 0:
            return Ref(NAMES[draw(st.integers(0, k - 1)) % most])
        return Ref(NAMES[k % most])

    def unit(depth: int) -> object:
        kind = draw(st.sampled_from(kinds))
        match kind:
            case "plus":
                return Plus(ref(), *draw(st.sampled_from([(1, None), (1, None), (2, None), (1, 2), (2, 3)])))
            case "neg":
                return Neg((ref(), ref()) if draw(st.booleans()) else (ref(),))
            case "opt":
                return Opt(unit(depth + 1) if depth < 2 else ref())
            case "tog":
                return Tog((ref(), ref()))
            case "tog3":
                return Tog((ref(), ref(), ref()))
            case "altplus":
                return Plus(Alt((ref(), ref())))
            case "togplus":
                return Plus(Tog((ref(), ref())))
            case "alt" if depth < 2:
                return Alt((unit(depth + 1), unit(depth + 1)))
            case "seq" if depth < 2:
                return chain(depth + 1, 2)
        return ref()

    def chain(depth: int, longest: int) -> object:
        items = [unit(depth) for _ in range(draw(st.integers(1, longest)))]
        ops = tuple(draw(st.sampled_from(";,")) for _ in items[1:])
        return Seq(tuple(items), ops) if len(items) > 1 else items[0]

    return chain(0, 4)


def places(tree: object, kind: type | None = None) -> list[tuple[str, type | None]]:
    """The atoms in written order, each with what it stands in: a repetition, a negation, or neither."""
    if isinstance(tree, Ref):
        return [(tree.name, kind)]
    if isinstance(tree, Plus | Neg):
        return [(name, type(tree)) for name in refs_of(tree)]
    inner = tree.refs if isinstance(tree, Tog) else (tree.item,) if isinstance(tree, Opt) else tree.items
    return [place for one in inner for place in places(one)]


@st.composite
def cases(draw: st.DrawFn, most: int = 6, kinds: tuple[str, ...] = KINDS) -> SequenceCase:
    tree = draw(trees(most, kinds))
    order = places(tree)
    names = list(dict.fromkeys(name for name, _ in order))
    many = [name for name, _ in order]
    positive = [name for name, kind in order if kind is not Neg]
    assume(positive)
    made = {name: draw(patterns(name)) for name in names}
    streams = {name: draw(st.sampled_from((*STREAMS[:1] * 3, STREAMS[1]))) for name in names}
    own = {name: next((v for v in sorted(made[name][1]) if v.startswith("v")), None) for name in names}
    partition = (
        "x" if draw(st.integers(0, 4)) == 0 and all("x" in made[name][1] for name in positive) else None
    )
    single = {name for name, kind in order if kind is Plus and many.count(name) == 1 and own[name]}
    atoms = {}
    for name in names:
        first = many.index(name)
        known = positive if name not in positive else [n for n, kind in order[:first] if kind is not Neg]
        choices = ["", "", ""]
        if mine := own[name]:
            choices += [f"?{mine} > 0", f"?{mine} < 2"]
            choices += [f"?{mine} >= ?{own[other]}" for other in known if own[other]]
            if name in single:
                choices += [f"?{mine} >= PREV(?{mine})", f"?{mine} != PREV(?{mine}) || ?{mine} = 0"]
        if "y" in made[name][1]:
            choices.append("!BOUND(?y) || ?y > 0")
        for other in single.intersection(known) - {name}:
            choices += [f"COUNT(?{own[other]}) > 1", f"SUM(?{own[other]}) > 2"]
        filters = tuple(filter(None, draw(st.lists(st.sampled_from(choices), max_size=2))))
        atoms[name] = Gpm(streams[name], *made[name], filters)
    shown = ["x", "y", *(v for v in own.values() if v)]
    functions = [
        f"{function}(?{own[name]})"
        for name in sorted(single)
        for function in ("COUNT", "SUM", "MIN", "MAX", "FIRST", "LAST", "AVG")
    ]
    select = draw(st.lists(st.sampled_from(shown), min_size=1, max_size=4, unique=True))
    if functions:
        select += draw(st.lists(st.sampled_from(functions), max_size=2, unique=True))
    return SequenceCase(
        tree,
        atoms,
        draw(st.sampled_from([1, 2, 3, 5, 20])),
        STREAMS[: draw(st.integers(2, 3))],
        tuple(select),
        draw(st.integers(0, 3)) == 0,
        partition,
    )


@st.composite
def events(draw: st.DrawFn, most: int) -> list[Event]:
    """Events about time order, with ties and gaps; most on one stream, most about one subject."""
    integer = "http://www.w3.org/2001/XMLSchema#integer"
    triple = st.builds(
        lambda s, p, o: f'<{S}{s}> <{S}{p}> "{o}"^^<{integer}> .',
        st.sampled_from("aaab"),
        st.sampled_from("ppq"),
        st.integers(0, 2),
    )
    other = st.just(f"<{S}a> <{S}other> <{S}b> .")
    graph = st.lists(st.one_of(*[triple] * 6, other), min_size=1, max_size=3, unique=True).map(tuple)
    found, time = [], 0
    for _ in range(draw(st.integers(2, most))):
        time += draw(st.sampled_from([0, 1, 1, 1, 2, -1]))
        stream = draw(st.sampled_from((*STREAMS[:1] * 5, *STREAMS[1:])))
        found.append(Event(stream, max(time, 0), draw(graph)))
    return found


def answered(
    case: SequenceCase,
    arrived: list[Event],
    *,
    lateness: int,
    saves: bool = False,
    optimisations: Optimisations | None = None,
    **options: object,
) -> list[object]:
    session = Session(lateness=lateness)
    if case.static:
        session.load("\n".join(case.static))
    for graph, triples in case.named:
        session.load("\n".join(triples), graph=graph)
    text: str | Query = case.text()
    if optimisations is not None:
        parsed = parse(case.text())
        assert parsed.sequence is not None
        text = replace(parsed, sequence=replace(parsed.sequence, optimisations=optimisations))
    query = session.register(text, **options)
    rows = []
    for event in arrived:
        session.push(event.stream, at=event.time, graph="\n".join(event.triples))
        rows += query.poll()
        if saves:
            session = Session.restore(session.save())
            (query,) = session.queries
    session.finish(drain=True)
    rows += query.poll()
    assert all(row.op == "+" for row in rows)
    assert not session.late()
    names = [*case.names, *([case.timed_out] if case.timed_out else [])]
    found = ((int(row.at) // 1000, tuple(row.get(name) for name in names)) for row in rows)
    return sorted(map(by_value, found), key=repr)


def expected(case: SequenceCase, arrived: list[Event]) -> list[object]:
    return sorted(map(by_value, evaluate(case, arrived)), key=repr)


def by_value(row: tuple[int, tuple[str | None, ...]]) -> object:
    """A row whose decimals, which are averages, have one spelling."""

    def plain(text: str | None) -> str | None:
        found = re.fullmatch(r'"([0-9.]+)"\^\^<.*#decimal>', text or "")
        return text if found is None else str(round(Decimal(found[1]), 9).normalize())

    return row[0], tuple(map(plain, row[1]))


def accepted(case: SequenceCase) -> bool:
    """Whether a sequence is none of those that are refused."""
    try:
        parse(case.text())
    except QueryError as error:
        if any(reason in str(error) for reason in REFUSALS):
            return False
        raise
    return True


def within_lateness(arrived: list[Event], lateness: int) -> list[Event]:
    """The events that are not late, in an order that differs from that of time."""
    kept: list[Event] = []
    clocks: dict[str, int] = {}
    for event in arrived:
        clock = clocks.get(event.stream, event.time)
        if event.time >= clock - lateness:
            kept.append(event)
            clocks[event.stream] = max(clock, event.time)
    return kept
