"""Sequences against brute force: equal matches for every query, every order of arrival, every batching."""

from __future__ import annotations

from itertools import count

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from thalweg import Session
from thalweg.errors import QueryError
from thalweg.lang import parse
from thalweg.testing.sequences import Alt, Event, Gpm, Neg, Opt, Plus, Ref, Seq, SequenceCase, Tog, evaluate, refs_of

S = "http://ex/"
STREAMS = (f"{S}s0", f"{S}s1", f"{S}s2")
NAMES = "ABCDEF"


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


@st.composite
def trees(draw: st.DrawFn, most: int) -> object:
    names = count()

    def ref() -> Ref:
        k = next(names)
        if k and draw(st.integers(0, 7)) == 0:
            return Ref(NAMES[draw(st.integers(0, k - 1)) % most])
        return Ref(NAMES[k % most])

    def unit(depth: int) -> object:
        kind = draw(st.sampled_from(["ref"] * 5 + ["plus", "neg", "opt", "tog", "alt", "altplus", "togplus", "seq"]))
        match kind:
            case "plus":
                return Plus(ref(), *draw(st.sampled_from([(1, None), (1, None), (2, None), (1, 2), (2, 3)])))
            case "neg":
                return Neg((ref(), ref()) if draw(st.booleans()) else (ref(),))
            case "opt":
                return Opt(unit(depth + 1) if depth < 2 else ref())
            case "tog":
                return Tog((ref(), ref()))
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


def repeated_in(tree: object) -> list[str]:
    if isinstance(tree, Plus):
        return list(refs_of(tree))
    inner = getattr(tree, "items", None) or ((tree.item,) if isinstance(tree, Opt) else ())
    return [name for one in inner for name in repeated_in(one)]


def negated_in(tree: object) -> list[str]:
    if isinstance(tree, Neg):
        return [ref.name for ref in tree.refs]
    inner = getattr(tree, "items", None) or ((tree.item,) if isinstance(tree, Opt) else ())
    return [name for one in inner for name in negated_in(one)]


@st.composite
def cases(draw: st.DrawFn, most: int = 6) -> SequenceCase:
    tree = draw(trees(most))
    order = list(refs_of(tree))
    repeated, negated = set(repeated_in(tree)), set(negated_in(tree))
    assume(set(order) - negated)
    made = {name: draw(patterns(name)) for name in dict.fromkeys(order)}
    streams = {name: draw(st.sampled_from(STREAMS[:2])) for name in made}
    own = {name: next((v for v in sorted(made[name][1]) if v.startswith("v")), None) for name in made}
    partition = "x" if draw(st.integers(0, 5)) == 0 else None
    if partition:
        assume(all("x" in made[name][1] for name in set(order) - negated))
    single = {name for name in repeated if order.count(name) == 1 and own[name]}
    atoms = {}
    for name in made:
        known = order if name in negated else order[: order.index(name)]
        before = [v for other in known if other not in negated and (v := own[other])]
        choices = ["", ""]
        if mine := own[name]:
            choices += [f"?{mine} > 0", f"?{mine} < 2"]
            choices += [f"?{mine} >= ?{v}" for v in before]
            if name in repeated - negated and order.count(name) == 1:
                choices += [f"?{mine} > PREV(?{mine})", f"?{mine} != PREV(?{mine}) || ?{mine} = 0"]
        if "y" in made[name][1]:
            choices.append("!BOUND(?y) || ?y > 0")
        for other in known:
            if other in single and other != name and other not in negated:
                choices += [f"COUNT(?{own[other]}) > 1", f"SUM(?{own[other]}) > 2"]
        filters = tuple(filter(None, draw(st.lists(st.sampled_from(choices), max_size=2))))
        atoms[name] = Gpm(streams[name], *made[name], filters)
    shown = ["x", "y", *(v for v in own.values() if v)]
    functions = [f"{f}(?{own[name]})" for name in sorted(single - negated) for f in ("COUNT", "SUM", "MIN", "MAX", "FIRST", "LAST")]
    functions += [f"AVG(?{own[name]}) * 2" for name in sorted(single - negated)]
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


def events(most: int) -> st.SearchStrategy[list[Event]]:
    triple = st.builds(
        lambda s, p, o: f'<{S}{s}> <{S}{p}> "{o}"^^<http://www.w3.org/2001/XMLSchema#integer> .',
        st.sampled_from("ab"),
        st.sampled_from("ppq"),
        st.integers(0, 2),
    )
    other = st.just(f"<{S}a> <{S}other> <{S}b> .")
    graph = st.lists(st.one_of(triple, triple, triple, other), min_size=1, max_size=2, unique=True).map(tuple)
    event = st.builds(Event, st.sampled_from(STREAMS), st.integers(0, 8), graph)
    return st.lists(event, max_size=most)


def answered(case: SequenceCase, arrived: list[Event], *, lateness: int, saves: bool = False) -> list[object]:
    session = Session(lateness=lateness)
    query = session.register(case.text())
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
    return sorted(
        ((int(row.at) // 1000, tuple(row.get(name) for name in case.names)) for row in rows), key=repr
    )


def accepted(case: SequenceCase) -> bool:
    try:
        parse(case.text())
    except QueryError as error:
        refusals = ("neighbouring negations", "! cannot stand inside", "needs an atom that is not negated", "operands of <>")
        assert any(reason in str(error) for reason in refusals), f"{error}\n{case.text()}"
        return False
    return True


@given(cases(), events(9), st.integers(0, 8))
def test_matches_are_those_of_the_definitions(case: SequenceCase, arrived: list[Event], lateness: int) -> None:
    assume(accepted(case))
    arrived = within_lateness(arrived, lateness)
    assert answered(case, arrived, lateness=lateness) == evaluate(case, arrived), case.text()


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
