"""The stock suite: V shapes in prices, as sequences of events (SPAseq, thesis A.5).

One event comes each millisecond, so that a window of 1 - 10 s holds 1,000 - 10,000 events. Both settings of the thesis'
generator: prices by a fractal random walk, and prices that repeat the shape that is looked for.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from time import process_time

import numpy as np
from numpy.typing import NDArray

from thalweg.algebra.query import Query
from thalweg.algebra.sequences import Optimisations
from thalweg.bench import stock_rival
from thalweg.bench.report import Report
from thalweg.engine import Session
from thalweg.lang import parse
from thalweg.operators.sequences import SequenceView
from thalweg.rdf.arena import Arena
from thalweg.rdf.events import EventBatch, Rows
from thalweg.rows import Row

STREAM = "http://example.org/main"
SEQUENCES = ("A; B; C", "A, B, C", "A, B+, C")
RANDOM, SHAPED = "random walk", "by the sequence"
SETTINGS = (RANDOM, SHAPED)
OPERATORS = {
    "Kleene +": "A, B+, C",
    "negation": "A, N!, B, C",
    "optional": "A, B?, C",
    "none": "A, B, C",
}
"""Thesis, figure 9.15: unary operators against each other."""
CONJUNCTIONS = {"lazy": Optimisations(), "eager": Optimisations(lazy_conjunctions=False)}
"""Thesis, figure 9.19."""
_INTEGER = "http://www.w3.org/2001/XMLSchema#integer"
_MOST_PRICE = 999
_SHAPE = (500, 400, 600)


@dataclass(frozen=True)
class Sizes:
    """How much a run measures: events, windows in events, companies, atoms, operands of `<>` and `|`."""

    events: int = 200_000
    widths: tuple[int, ...] = (10, 100, 1000, 10_000)
    companies: tuple[int, ...] = (1, 100, 1000)
    atoms: tuple[int, ...] = (3, 6, 9, 12)
    operands: tuple[int, ...] = (2, 4, 6, 8)
    batch: int = 10_000
    repeat: int = 3
    rival: int = 100_000


QUICK = Sizes(
    events=50_000, widths=(10, 100), companies=(1, 100), atoms=(3, 6), operands=(2, 4), repeat=2, rival=20_000
)


def query_of(sequence: str, width: int) -> str:
    """The V shape of the thesis over a window."""
    return f"""PREFIX pred: <http://example/> SELECT ?company ?p1 ?p2 ?p3
WITHIN {width} MILLISECONDS FROM STREAM S1 <{STREAM}>
WHERE {{ SEQ ({sequence})
  DEFINE GPM A ON S1 {{ ?company pred:price ?p1 . ?company pred:volume ?vol1 }}
  DEFINE GPM N ON S1 {{ ?company pred:price ?p0 . ?company pred:volume ?vol0  FILTER(?p0 = ?p1) }}
  DEFINE GPM B ON S1 {{ ?company pred:price ?p2 . ?company pred:volume ?vol2  FILTER(?p2 < ?p1) }}
  DEFINE GPM C ON S1 {{ ?company pred:price ?p3 . ?company pred:volume ?vol3  FILTER(?p3 > ?p2 && ?p3 > ?p1) }} }}"""


def longer_query(operator: str, atoms: int, width: int) -> str:
    """V shapes one after the other: down, then up over both prices before (thesis, queries A.14 - A.17)."""
    definitions = []
    for k in range(1, atoms + 1):
        condition = f"FILTER(?p{k} < ?p{k - 1})" if k > 1 else ""
        if k % 3 == 0:
            condition = f"FILTER(?p{k} > ?p{k - 1} && ?p{k} > ?p{k - 2})"
        pattern = f"?company pred:price ?p{k} . ?company pred:volume ?vol{k}"
        definitions.append(f"DEFINE GPM A{k} ON S1 {{ {pattern}  {condition} }}")
    sequence = f" {operator} ".join(f"A{k}" for k in range(1, atoms + 1))
    return f"""PREFIX pred: <http://example/> SELECT ?company ?p1 ?p{atoms}
WITHIN {width} MILLISECONDS FROM STREAM S1 <{STREAM}>
WHERE {{ SEQ ({sequence}) {" ".join(definitions)} }}"""


def branching_query(operator: str, operands: int, width: int) -> str:
    """A price, and behind it operands with `<>` or `|` between them (thesis, figure 9.16)."""
    definitions = [
        f"DEFINE GPM B{k} ON S1 {{ ?company pred:price ?p . ?company pred:volume ?v{k}  FILTER(?p < ?p1) }}"
        for k in range(operands)
    ]
    group = f" {operator} ".join(f"B{k}" for k in range(operands))
    return f"""PREFIX pred: <http://example/> SELECT ?company ?p1 ?p
WITHIN {width} MILLISECONDS FROM STREAM S1 <{STREAM}>
WHERE {{ SEQ (A, ({group})) DEFINE GPM A ON S1 {{ ?company pred:price ?p1 . ?company pred:volume ?vol1 }}
{" ".join(definitions)} }}"""


def conjunction_query(operands: int, width: int) -> str:
    """A price, and behind it a conjunction of operands with conditions of their own (thesis, figure 9.19)."""
    definitions = [
        f"DEFINE GPM B{k} ON S1 {{ ?company pred:price ?p . ?company pred:volume ?v{k}  FILTER(?v{k} > {900 - k}) }}"
        for k in range(operands)
    ]
    group = " <> ".join(f"B{k}" for k in range(operands))
    return f"""PREFIX pred: <http://example/> SELECT ?company ?p1 ?p
WITHIN {width} MILLISECONDS FROM STREAM S1 <{STREAM}>
WHERE {{ SEQ (A; ({group})) DEFINE GPM A ON S1 {{ ?company pred:price ?p1 . ?company pred:volume ?vol1 }}
{" ".join(definitions)} }}"""


def with_optimisations(text: str, optimisations: Optimisations) -> Query:
    """A sequence with some optimisations switched off."""
    query = parse(text)
    assert query.sequence is not None
    return replace(query, sequence=replace(query.sequence, optimisations=optimisations))


def prices_of(setting: str, events: int, chosen: np.random.Generator) -> NDArray[np.int64]:
    """Prices from 0 to 999: steps on several scales (a fractal walk), or the shape again and again."""
    if setting == SHAPED:
        return np.resize(np.array(_SHAPE), events)
    walk = np.zeros(events)
    scale = 1
    while scale <= events:
        steps = chosen.normal(0, scale**0.5, -(-events // scale) + 1)
        walk += np.interp(np.arange(events), np.arange(len(steps)) * scale, steps)
        scale *= 4
    walk = np.rint(500 + 3 * walk).astype(np.int64)
    return np.abs((walk - _MOST_PRICE) % (2 * _MOST_PRICE) - _MOST_PRICE)  # reflected at both ends


def trades(
    setting: str, events: int, companies: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """The numbers of companies, prices and volumes."""
    chosen = np.random.default_rng(companies)
    company = (
        chosen.integers(0, companies, events) if setting == RANDOM else np.arange(events) // 3 % companies
    )
    return company, prices_of(setting, events, chosen), chosen.integers(0, 1000, events)


def events_of(arena: Arena, sizes: Sizes, companies: int, setting: str = RANDOM) -> list[EventBatch]:
    """The stream as ids: two triples an event."""
    company, price, volume = trades(setting, sizes.events, companies)
    names = arena.intern_all([f"<http://example/c{k}>".encode() for k in range(companies)])
    numbers = arena.intern_all([f'"{k}"^^<{_INTEGER}>'.encode() for k in range(1000)])
    predicates = arena.intern_all([b"<http://example/price>", b"<http://example/volume>"])
    subject = np.repeat(names[company], 2)
    value = np.stack([numbers[price], numbers[volume]], axis=1).ravel()
    number = np.repeat(np.arange(sizes.events), 2)
    rows = Rows.inserts(
        number * 1000, number, np.zeros_like(number), subject, np.tile(predicates, sizes.events), value
    )
    starts = range(0, len(rows), 2 * sizes.batch)
    parts = [rows[start : start + 2 * sizes.batch] for start in starts]
    return [EventBatch(STREAM, part, int(part.time[-1])) for part in parts]


def timed(text: str | Query, sizes: Sizes, companies: int, setting: str = RANDOM) -> tuple[float, int]:
    """The seconds of the process that all events take, and how many matches they have; the best of some runs."""
    best, found = float("inf"), 0
    for _ in range(sizes.repeat):
        session = Session(max_pending=None)
        query = session.register(text)
        batches = events_of(session.arena, sizes, companies, setting)
        begun, found = process_time(), 0
        for batch in batches:
            session.push_events(batch)
            found += len(query.drain())
        session.finish()
        found += len(query.drain())
        best = min(best, process_time() - begun)
    return best, found


def run(
    *,
    data: Path | None = None,
    quick: bool = False,
    spark: bool = True,
    sizes: Sizes | None = None,
    rivals: bool = False,
) -> Report:
    """All figures of the suite; its stream is generated, and there is none on Spark."""
    sizes = sizes or (QUICK if quick else Sizes())
    report = Report("stock")
    _windows(report, sizes)
    _unary(report, sizes)
    _branches(report, sizes)
    _lazy(report, sizes)
    _atoms(report, sizes)
    _memory(report, sizes)
    if rivals:
        _rival(report, sizes)
    return report


def _many(companies: int) -> str:
    return "1 company" if companies == 1 else f"{companies:,} companies"


def _windows(report: Report, sizes: Sizes) -> None:
    for setting in SETTINGS:
        for companies in sizes.companies:
            chart = report.chart(
                f"Stock: windows, {_many(companies)}, {setting}", "events of a window", "k events/s"
            )
            for sequence in SEQUENCES:
                # Matches by `;` grow with the square of a company's events in the window: ten at most.
                most = 10 * companies if ";" in sequence else max(sizes.widths)
                for width in (one for one in sizes.widths if one <= most):
                    seconds, found = timed(query_of(sequence, width), sizes, companies, setting)
                    rate = sizes.events / seconds / 1000
                    chart.add(f"SEQ({sequence})", width, rate)
                    report.add(
                        f"{_many(companies)}, {setting}",
                        f"SEQ({sequence}), window {width}",
                        rate,
                        "k events/s",
                        target=None if "+" in sequence else 1000,
                        note=f"{found:,} matches",
                    )


def _unary(report: Report, sizes: Sizes) -> None:
    """Figure 9.15: the same stream, one company, the operators against each other."""
    chart = report.chart("Figure 9.15: unary operators", "events of a window", "k events/s")
    for width in sizes.widths:
        for name, sequence in OPERATORS.items():
            seconds, found = timed(query_of(sequence, width), sizes, 1, SHAPED)
            rate = sizes.events / seconds / 1000
            chart.add(name, width, rate)
            note = f"SEQ({sequence}), {found:,} matches"
            report.add(
                "unary operators, figure 9.15", f"{name}, window {width}", rate, "k events/s", note=note
            )


def _branches(report: Report, sizes: Sizes) -> None:
    """Figure 9.16: more operands."""
    chart = report.chart("Figure 9.16: conjunction and disjunction", "operands", "k events/s")
    for operator, name in (("<>", "conjunction"), ("|", "disjunction")):
        for operands in sizes.operands:
            text = branching_query(operator, operands, 5000)
            seconds, found = timed(text, sizes, 1, SHAPED)
            rate = sizes.events / seconds / 1000
            chart.add(name, operands, rate)
            report.add(
                "conjunction and disjunction, figure 9.16",
                f"{name} of {operands}",
                rate,
                "k events/s",
                note=f"{found:,} matches",
            )


def _lazy(report: Report, sizes: Sizes) -> None:
    """Figure 9.19: conjunctions whose operands are asked of every event, or where the others matched."""
    operands = 4
    chart = report.chart("Figure 9.19: lazy and eager conjunction", "events of a window", "k events/s")
    for width in sizes.widths:
        answers = set()
        for name, optimisations in CONJUNCTIONS.items():
            asked = with_optimisations(conjunction_query(operands, width), optimisations)
            seconds, found = timed(asked, sizes, max(sizes.companies))
            answers.add(found)
            rate = sizes.events / seconds / 1000
            chart.add(name, width, rate)
            report.add(
                f"conjunction of {operands}, figure 9.19",
                f"{name}, window {width}",
                rate,
                "k events/s",
                note=f"{found:,} matches",
            )
        if len(answers) > 1:
            raise AssertionError(f"lazy conjunctions changed the matches: {sorted(answers)}")


def _atoms(report: Report, sizes: Sizes) -> None:
    """Longer sequences, of which the time should not grow faster than their number of atoms."""
    chart = report.chart("Stock: atoms of a sequence", "atoms", "us/event")
    for setting in SETTINGS:
        for operator in ",;":
            # By `;` a company has five events in the window on average: every choice among them is a run.
            companies = 1 if operator == "," else max(sizes.companies)
            width = 1000 if operator == "," else 5 * companies
            costs = []
            for atoms in sizes.atoms:
                seconds, found = timed(longer_query(operator, atoms, width), sizes, companies, setting)
                costs.append(seconds / sizes.events * 1e6)
                chart.add(f"by {operator} {setting}", atoms, costs[-1])
                name = f"{atoms} atoms by `{operator}`, {_many(companies)}"
                report.add(f"atoms, {setting}", name, costs[-1], "us/event", note=f"{found:,} matches")
            report.add(
                f"atoms, {setting}",
                f"{sizes.atoms[-1]} against {sizes.atoms[0]} by `{operator}`",
                costs[-1] / costs[0],
                "x the time",
                target=sizes.atoms[-1] / sizes.atoms[0],
                at_most=True,
            )


def _memory(report: Report, sizes: Sizes) -> None:
    """What a partial match takes, in a window that holds many."""
    companies = max(sizes.companies)
    session = Session(max_pending=None)
    query = session.register(query_of("A; B; C", 10 * companies))
    for batch in events_of(session.arena, sizes, companies):
        session.push_events(batch)
        query.drain()
    partial = sum(view.runs.held for view in _views(session))
    taken = session.memory()["operators"]["sequence"]
    report.add(
        "memory",
        f"a partial match of SEQ(A; B; C), {_many(companies)}",
        taken / max(partial, 1),
        "bytes",
        note=f"{partial:,} partial matches, {taken:,} bytes",
    )


def _views(session: Session) -> list[SequenceView]:
    found = [view for streamset in session._streamsets for _, view in streamset.registered]
    return [view for view in found if isinstance(view, SequenceView)]


def _rival(report: Report, sizes: Sizes) -> None:
    """Esper over the same trades; equal matches are checked by their number and the sum of their values."""
    sizes = replace(sizes, events=sizes.rival)
    company, price, _ = trades(RANDOM, sizes.events, stock_rival.COMPANIES)

    def ours(operator: str, width: int) -> tuple[float, int, int]:
        text = query_of(f"A{operator} B{operator} C", width)
        seconds, found = timed(text, sizes, stock_rival.COMPANIES)
        session = Session(max_pending=None)
        query = session.register(text)
        rows: list[Row] = []
        for batch in events_of(session.arena, sizes, stock_rival.COMPANIES):
            session.push_events(batch)
            rows += query.poll()
        session.finish()
        total = 0
        for row in (*rows, *query.poll()):
            values = [int(str(row.value(name))) for name in ("p1", "p2", "p3")]
            number = int(str(row["company"]).rsplit("/c", 1)[1].removesuffix(">"))
            total += number * 10**9 + values[0] * 10**6 + values[1] * 1000 + values[2]
        return seconds, found, total

    stock_rival.measure(
        report, list(zip(company.tolist(), price.tolist(), strict=True)), sizes.widths[:3], ours
    )
