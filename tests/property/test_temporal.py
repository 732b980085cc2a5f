"""EP-SPARQL against the definitions of its operators: equal solutions for every query and order of arrival."""

from __future__ import annotations

import re

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from thalweg import Session
from thalweg.errors import QueryError
from thalweg.lang import parse
from thalweg.testing.sequences import Event
from thalweg.testing.temporal import Braces, Leaf, Operation, TemporalCase, evaluate

S = "http://ex/"
STREAMS = (f"{S}s0", f"{S}s1")
OPERATORS = ["SEQ"] * 4 + ["EQUALS"] * 2 + ["OPTIONALSEQ"] * 2 + ["EQUALSOPTIONAL"] * 2 + ["", "UNION"]
REFUSALS = (
    "rename one of them",
    "no pattern binds",
    "may be unbound",
    "no solution",
    "orders",
    "cannot stand in a join",
)


@st.composite
def trees(draw: st.DrawFn) -> Braces:
    known: list[str] = []

    def leaf(optional: bool = False) -> Leaf:
        own = f"v{len(known)}"
        left = list(known)
        known.append(own)
        pattern = draw(
            st.sampled_from(
                [f"?x <{S}p> ?{own}"] * 3
                + [f"?x <{S}q> ?{own}", f"<{S}a> <{S}p> ?{own}", f"?x <{S}p> ?{own} . ?x <{S}q> ?y"]
                + [f"?x <{S}p> ?{own} OPTIONAL {{ ?x <{S}q> ?y }}"]
            )
        )
        choices = ["", "", "", f"?{own} > 0"]
        if optional and left:
            choices += [f"?{own} >= ?{name}" for name in left] * 2
        return Leaf(pattern, tuple(filter(None, [draw(st.sampled_from(choices))])))

    def filters(many: int, depth: int) -> tuple[str, ...]:
        inside = known[many:]
        first, last = inside[0], inside[-1]
        choices = [f"?{last} >= ?{first}", f"BOUND(?{last})", f"!BOUND(?{last})", f"?{first} < 2"]
        choices += ['getDURATION() > "PT0.001S"^^xsd:duration', "getENDTIME() != getSTARTTIME()"]
        choices += ["!BOUND(?y)"]
        if depth:  # in the outermost group it would be the window
            choices += ['"PT0.003S"^^xsd:duration >= getDURATION()']
        return tuple(draw(st.lists(st.sampled_from(choices), max_size=2)))

    def group(depth: int) -> object:
        many = len(known)
        tree: object = leaf() if depth >= 2 or draw(st.booleans()) else group(depth + 1)
        for _ in range(draw(st.integers(0 if depth == 2 else 1, 2))):
            name = draw(st.sampled_from(OPERATORS))
            if name == "UNION" and isinstance(tree, Operation):
                name = "SEQ"
            if name in ("OPTIONALSEQ", "EQUALSOPTIONAL"):
                right: object = leaf(optional=True)
            else:
                right = leaf() if depth >= 1 or draw(st.integers(0, 2)) else group(depth + 1)
            if name in ("", "UNION") and not (composite(tree) or composite(right)):
                name = "SEQ"  # without a temporal operator it would be one event
            tree = Operation(name, tree, right)
        if not composite(tree):
            return tree
        return Braces(tree, filters(many, depth) if draw(st.booleans()) else ())

    found = group(0)
    return found if isinstance(found, Braces) else Braces(found)


def composite(tree: object) -> bool:
    match tree:
        case Operation():
            return tree.name not in ("", "UNION") or composite(tree.left) or composite(tree.right)
        case Braces():
            return composite(tree.tree)
    return False


@st.composite
def cases(draw: st.DrawFn) -> TemporalCase:
    tree = draw(trees())
    names = sorted(set(re.findall(r"\?(v\d+|x|y)", str(tree))))
    select = draw(st.lists(st.sampled_from(names), min_size=1, max_size=4, unique=True))
    select += draw(st.sampled_from([[], [], ["getDURATION()"], ["getSTARTTIME()", "getENDTIME()"]]))
    many = 2 if len(names) < 5 and draw(st.integers(0, 3)) == 0 else 1
    return TemporalCase(
        tree,
        draw(st.sampled_from([1, 2, 3, 4, 6, 20])),
        STREAMS[:many],
        tuple(select),
        draw(st.integers(0, 4)) == 0,
    )


@st.composite
def events(draw: st.DrawFn) -> list[Event]:
    integer = "http://www.w3.org/2001/XMLSchema#integer"
    triple = st.builds(
        lambda s, p, o: f'<{S}{s}> <{S}{p}> "{o}"^^<{integer}> .',
        st.sampled_from("aaab"),
        st.sampled_from("ppq"),
        st.integers(0, 2),
    )
    graph = st.lists(triple, min_size=1, max_size=3, unique=True).map(tuple)
    found, time = [], 0
    for _ in range(draw(st.integers(2, 7))):
        time += draw(st.sampled_from([0, 0, 1, 1, 1, 2, -1]))
        found.append(Event(draw(st.sampled_from((*STREAMS[:1] * 4, STREAMS[1]))), max(time, 0), draw(graph)))
    return found


def answered(case: TemporalCase, arrived: list[Event], *, saves: bool) -> list[object]:
    session = Session(lateness=10)
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
    return sorted((plain((int(row.at), tuple(row.get(n) for n in case.names))) for row in rows), key=repr)


def plain(row: tuple[int, tuple[str | None, ...]]) -> object:
    """A row whose times and durations have one spelling."""

    def cell(text: str | None) -> str | None:
        if found := re.fullmatch(r'"PT([0-9.]+)S"\^\^<.*>', text or ""):
            return f"{float(found[1])} s"
        return re.sub(r"\.?0*Z", "Z", text) if text and text.endswith("dateTime>") else text

    return row[0], tuple(map(cell, row[1]))


def accepted(case: TemporalCase) -> bool:
    """Whether a query is none of those that are refused."""
    try:
        parse(case.text())
    except QueryError as error:
        if any(reason in str(error) for reason in REFUSALS):
            return False
        raise
    return True


@pytest.mark.filterwarnings("ignore::thalweg.errors.ThalwegWarning")
@settings(max_examples=4 * settings.default.max_examples)  # an example takes a tenth of a second
@given(cases(), events(), st.booleans())
def test_solutions_are_those_of_the_definitions(
    case: TemporalCase, arrived: list[Event], saves: bool
) -> None:
    assume(accepted(case))
    expected = sorted(map(plain, evaluate(case, arrived)), key=repr)
    assert answered(case, arrived, saves=saves) == expected, case.text()
