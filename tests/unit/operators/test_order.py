"""ORDER BY, LIMIT, OFFSET and ranks through a session; the queries of DEBS 2015 over rides that are made up."""

from __future__ import annotations

from collections import Counter, deque
from random import Random

import numpy as np
import pytest

import thalweg as tw
from thalweg.operators import ordering
from thalweg.operators.ordering import OrderedRows, SliceRows
from thalweg.operators.spans import Changes
from thalweg.rdf.arena import Arena

STREAM = "http://ex/s"
XSD = "http://www.w3.org/2001/XMLSchema#"
WHERE = "WHERE { ?s <http://ex/p> ?o }"


def number(value: object, kind: str = "integer") -> str:
    return f'"{value}"^^<{XSD}{kind}>'


def pushed(session: tw.Session, at: int, *objects: str) -> None:
    graph = "".join(f"<http://ex/{at}-{k}> <http://ex/p> {term} .\n" for k, term in enumerate(objects))
    session.push(STREAM, at=at, graph=graph)


def test_rstream_emits_rows_in_order_with_ranks_and_deltas_have_none() -> None:
    session = tw.Session()
    rows = f"SELECT ?s FROM STREAM <{STREAM}> [RANGE 10s STEP 1s] {WHERE} ORDER BY DESC(?o)"
    ordered = session.register(f"REGISTER RSTREAM <http://ex/out> AS {rows}")
    deltas = session.register(rows)
    pushed(session, 0, number(2), number(10), '"x"', number("2.5", "decimal"), "<http://ex/i>")
    session.advance(1000)
    assert [(row["s"], row.value("rank")) for row in ordered.poll()] == [
        (f"<http://ex/0-{k}>", rank) for rank, k in enumerate((2, 1, 3, 0, 4), 1)
    ]
    assert {name for row in deltas.poll() for name in row.bindings} == {"s"}
    assert [row.value("rank") for row in ordered.answer()] == [1, 2, 3, 4, 5]


def test_equal_rows_are_ordered_by_text_and_have_ranks_of_their_own() -> None:
    session = tw.Session()
    query = session.register(
        f"REGISTER RSTREAM <http://ex/out> AS SELECT ?o FROM STREAM <{STREAM}> [RANGE 10s STEP 1s] {WHERE} ORDER BY ?o"
    )
    pushed(session, 0, number("1.0", "decimal"), number(1), number(1), number("01"))
    session.advance(1000)
    expected = sorted([number("1.0", "decimal"), number(1), number(1), number("01")])
    assert [(row["o"], row.value("rank")) for row in query.poll()] == list(
        zip(expected, (1, 2, 3, 4), strict=True)
    )


def test_a_query_that_shows_a_rank_of_its_own_keeps_it() -> None:
    session = tw.Session()
    query = session.register(
        f"REGISTER RSTREAM <http://ex/out> AS SELECT (?o AS ?rank) FROM STREAM <{STREAM}> [RANGE 10s STEP 1s] "
        f"{WHERE} ORDER BY ?o"
    )
    pushed(session, 0, number(7))
    session.advance(1000)
    assert [row.bindings for row in query.poll()] == [{"rank": number(7)}]


def test_distinct_with_an_order_by_what_it_does_not_show_is_refused_where_it_matters() -> None:
    session = tw.Session()
    rows = f"SELECT DISTINCT ?s FROM STREAM <{STREAM}> [RANGE 10s] {WHERE} ORDER BY ?o"
    with pytest.raises(tw.errors.QueryError, match=r"ORDER BY \?o, which it does not show"):
        session.register(f"{rows} LIMIT 1")
    session.register(rows)


def test_limit_without_order_takes_the_first_rows_by_text_and_offset_alone_drops_them() -> None:
    session = tw.Session()
    first = session.register(f"SELECT ?o FROM STREAM <{STREAM}> {WHERE} LIMIT 2")
    rest = session.register(f"SELECT ?o FROM STREAM <{STREAM}> {WHERE} OFFSET 2")
    none = session.register(f"SELECT ?o FROM STREAM <{STREAM}> {WHERE} LIMIT 0")
    pushed(session, 0, '"c"', '"a"', '"d"', '"b"')
    session.advance(1)
    assert sorted(row["o"] for row in first.poll()) == ['"a"', '"b"']
    assert sorted(row["o"] for row in rest.poll()) == ['"c"', '"d"']
    assert none.poll() == []


@pytest.mark.parametrize(("offset", "limit"), [(0, 10), (5, 10), (0, None), (990, 20)])
def test_thousands_of_rows_come_and_go_and_the_top_is_right_at_every_instant(
    offset: int, limit: int | None
) -> None:
    arena, random = Arena(), Random(3)
    operator = SliceRows(OrderedRows([(0, True)], (0, 1), arena), offset, limit)
    terms = [number(k) for k in range(200)]
    ids = {term: arena.intern(term.encode()) for term in terms}
    there: Counter[tuple[str, str]] = Counter()
    shown: Counter[tuple[int, int]] = Counter()
    for time in range(3000):
        if there and random.random() < 0.4:
            row, weight = random.choice(list(there.elements())), -1
        else:
            row, weight = (random.choice(terms), random.choice(terms)), random.choice((1, 1, 2))
        there[row] += weight
        cells = np.array([[ids[term] for term in row]])
        out = operator.step(Changes(np.array([time]), np.array([weight]), cells))
        for one, sign in zip(out.rows.tolist(), out.weight.tolist(), strict=True):
            shown[tuple(one)] += sign
        if time % 100 == 0:
            in_order = sorted(there.elements(), key=lambda row: (-int(row[0].split('"')[1]), row))
            expected = in_order[offset : None if limit is None else offset + limit]
            assert +shown == Counter((ids[a], ids[b]) for a, b in expected)
    assert operator.give_back(0)


@pytest.mark.parametrize("kinds", [5, 12, 60])
@pytest.mark.parametrize("down", [True, False])
def test_rows_behind_the_range_are_put_in_order_when_they_are_needed(
    kinds: int, down: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows wait in no order behind a bound that is nearly at the range; batches cross it, and states are saved."""
    monkeypatch.setattr(ordering, "_AHEAD", 1)
    arena, random = Arena(), Random(kinds)
    terms = [*(number(k) for k in range(kinds)), '"a"', '"b"', "<http://ex/a>", "<http://ex/b>"]
    ids = {term: arena.intern(term.encode()) for term in terms}
    places = {term: place for place, term in enumerate([*terms[-2:], *terms[:-2]])}  # IRIs, numbers, strings

    def made() -> SliceRows:
        return SliceRows(OrderedRows([(0, down), (1, False)], (0, 1), arena), 1, 2)

    operator = made()
    there: Counter[tuple[str, str]] = Counter()
    shown: Counter[tuple[int, int]] = Counter()
    behind = 0
    for time in range(400):
        changes: list[tuple[int, tuple[str, str]]] = []
        grows = 0.7 if time % 100 < 50 else 0.3
        for _ in range(random.choice([1, 3, 12])):
            if there and random.random() > grows:
                first = min if random.random() < 0.5 else max
                row, weight = first(there, key=lambda row: places[row[0]]), -1
            else:
                row, weight = (random.choice(terms), random.choice(terms)), random.choice((1, 1, 2))
            there[row] += weight
            there = +there
            changes.append((weight, row))
        rows = np.array([[ids[term] for term in row] for _, row in changes])
        times = time * 20 + np.arange(len(changes))  # each change is an instant of its own
        out = operator.step(Changes(times, np.array([weight for weight, _ in changes]), rows))
        for one, sign in zip(out.rows.tolist(), out.weight.tolist(), strict=True):
            shown[tuple(one)] += sign
        ordered_rows = sorted(
            there.elements(), key=lambda row: (-places[row[0]] if down else places[row[0]], places[row[1]])
        )
        assert +shown == Counter((ids[a], ids[b]) for a, b in ordered_rows[1:3])
        behind = max(behind, len(operator._behind))
        if random.random() < 0.1:
            state, operator = operator.state(), made()
            operator.restore(state)
        assert operator.held == len(there)
    assert behind > 3


# DEBS 2015: rides of taxis from cell to cell of a grid


def rides(count: int) -> list[tuple[int, str, str, str, str]]:
    """Time in minutes, taxi, route, area of the beginning, and fare in cents as a decimal."""
    random = Random(15)
    found = []
    for k in range(count):
        start, end = (min(random.randrange(6), random.randrange(6)) for _ in range(2))
        found.append(
            (
                k // 3,
                f"taxi{k}",
                f"route{start}-{end}",
                f"area{start}",
                f"{random.randrange(500, 5000) / 100:.2f}",
            )
        )
    return found


def drive(query_text: str, count: int = 400) -> list[tuple[int, str, dict[str, str]]]:
    session = tw.Session()
    query = session.register(query_text)
    for minute, taxi, route, area, fare in rides(count):
        graph = (
            f"<http://ex/{taxi}> <http://ex/route> <http://ex/{route}> .\n"
            f"<http://ex/{taxi}> <http://ex/area> <http://ex/{area}> .\n"
            f"<http://ex/{taxi}> <http://ex/fare> {number(fare, 'decimal')} .\n"
        )
        session.push(STREAM, at=60_000 * minute, graph=graph)
    session.advance(60_000 * (count // 3))
    return [(int(row.at) // 60_000_000, row.op, row.bindings) for row in query.poll()]


def test_debs_2015_the_ten_most_frequent_routes_of_the_last_half_hour() -> None:
    found = drive(
        f"SELECT ?route (COUNT(*) AS ?rides) FROM STREAM <{STREAM}> [RANGE 30m] "
        "WHERE { ?taxi <http://ex/route> ?route } GROUP BY ?route ORDER BY DESC(?rides) LIMIT 10"
    )
    answer: Counter[tuple[str, str]] = Counter()
    at = 0
    window: deque[tuple[int, str]] = deque()
    for minute in range(0, 133):
        while at < len(found) and found[at][0] <= minute:
            _, op, row = found[at]
            answer[row["route"], row["rides"]] += 1 if op == "+" else -1
            at += 1
        window += [(time, f"<http://ex/{route}>") for time, _, route, _, _ in rides(400) if time == minute]
        while window and window[0][0] <= minute - 30:
            window.popleft()
        counts = Counter(route for _, route in window)
        # Equal counts: by the text of the row, whose first column by name is the count.
        best = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:10]
        assert +answer == Counter((route, number(n)) for route, n in best)


def test_debs_2015_the_most_profitable_areas_by_the_average_fare_for_each_waiting_taxi() -> None:
    found = drive(
        f"REGISTER RSTREAM <http://ex/out> AS SELECT ?area (AVG(?fare) / COUNT(?taxi) AS ?profit) "
        f"FROM STREAM <{STREAM}> [RANGE 15m STEP 5m] "
        "WHERE { ?taxi <http://ex/area> ?area ; <http://ex/fare> ?fare } GROUP BY ?area ORDER BY DESC(?profit) LIMIT 3"
    )
    assert {op for _, op, _ in found} == {"+"}
    for minute in range(15, 130, 5):
        fares: dict[str, list[float]] = {}
        for time, _, _, area, fare in rides(400):
            if minute - 15 <= time < minute:
                fares.setdefault(f"<http://ex/{area}>", []).append(float(fare))
        profit = {area: sum(some) / len(some) / len(some) for area, some in fares.items()}
        best = sorted(profit, key=lambda area: -profit[area])[:3]
        rows = [row for at, _, row in found if at == minute]
        assert [row["area"] for row in rows] == best
        assert [row["rank"] for row in rows] == [number(k) for k in (1, 2, 3)]
        assert [float(row["profit"].split('"')[1]) for row in rows] == pytest.approx(
            [profit[area] for area in best]
        )


def test_statistics_by_task_type_as_in_query_4_of_seed_003() -> None:
    """COUNT, AVG, MIN and MAX of durations by the type of a task, for types with enough tasks, slowest first."""
    session = tw.Session()
    query = session.register(
        "REGISTER RSTREAM <http://ex/out> AS SELECT ?type (COUNT(?task) AS ?tasks) (AVG(?d) AS ?mean) "
        f"(MIN(?d) AS ?least) (MAX(?d) AS ?most) FROM STREAM <{STREAM}> [RANGE 10s TUMBLING] "
        "WHERE { ?task a ?type ; <http://ex/duration> ?d } "
        "GROUP BY ?type HAVING (COUNT(?task) > 2) ORDER BY DESC(AVG(?d))"
    )
    random = Random(4)
    durations: dict[str, list[int]] = {}
    for k in range(60):
        kind, took = f"<http://ex/type{random.randrange(5)}>", random.randrange(1, 90)
        durations.setdefault(kind, []).append(took)
        graph = f"<http://ex/t{k}> <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> {kind} .\n"
        graph += f"<http://ex/t{k}> <http://ex/duration> {number(took)} .\n"
        session.push(STREAM, at=100 * k, graph=graph)
    session.advance(10_000)
    kept = {kind: some for kind, some in durations.items() if len(some) > 2}
    slowest = sorted(kept, key=lambda kind: -sum(kept[kind]) / len(kept[kind]))
    rows = query.poll()
    assert [row["type"] for row in rows] == slowest
    for row in rows:
        some = kept[row["type"]]
        assert [row.value(name) for name in ("tasks", "least", "most")] == [len(some), min(some), max(some)]
        assert float(row.value("mean")) == pytest.approx(sum(some) / len(some))
