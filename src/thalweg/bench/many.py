"""Many registered queries: what a triple costs when most of them do not concern it."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from thalweg.bench.report import Report
from thalweg.bench.workload import STREAM, Cost, Encoded, best_costs
from thalweg.testing.generate import UB

# Shapes of all classes, about a department D of the stream, its university U, a number N and a rank R.
_SHAPES = {
    "star": "?x ub:worksFor <D> . ?x ub:name ?name . ?x a ub:R",
    "path": '?x ub:advisor ?y . ?y ub:worksFor <D> . ?y ub:researchInterest "ResearchN"',
    "cycle": "?y ub:teacherOf ?z . ?x ub:takesCourse ?z . ?x ub:advisor ?y . ?x ub:memberOf <D> . ?y a ub:R",
    "course": "?x ub:takesCourse <D/GraduateCourseN> . ?x a ub:GraduateStudent",
    "single": "?paper ub:publicationAuthor <D/FullProfessorN>",
    "ground": "<D/FullProfessorN> ub:headOf <D> . <D> ub:subOrganizationOf <U>",
    "loose": "?x ub:headOf <D> . ?paper ub:publicationAuthor <D/AssociateProfessorN>",
}

_RANKS = ("FullProfessor", "AssociateProfessor", "AssistantProfessor", "Lecturer")


@dataclass(frozen=True)
class Sizes:
    """How many queries, under which window, over how many triples of the stream."""

    queries: int = 1000
    window: int = 100_000
    triples: int = 300_000
    repeat: int = 3
    batch: int = 100


def mixed(count: int, departments: list[str], window: int) -> Iterator[str]:
    """So many different queries of mixed shapes."""
    shapes = list(_SHAPES.values())
    for number in range(count):
        turn, which = divmod(number, len(shapes))
        lap, place = divmod(turn, len(departments))
        home = departments[place]
        university = "http://www." + home.split(".", 2)[2]
        pattern = shapes[which].replace("<D", f"<{home}").replace("<U>", f"<{university}>")
        pattern = re.sub(r"N(?=[>\"])", str(lap), pattern)
        pattern = re.sub(r"ub:R\b", f"ub:{_RANKS[lap % len(_RANKS)]}", pattern)
        yield (f"PREFIX ub: <{UB}> SELECT * FROM STREAM <{STREAM}> [RANGE {window}] WHERE {{ {pattern} }}")


def _cost(stream: Encoded, texts: list[str], sizes: Sizes, *, in_flow: bool) -> tuple[Cost, Cost]:
    """The cost of a flow in which queries are registered, all before it or one by one, and of what follows it."""
    size = min(sizes.batch, len(stream) // 2 // len(texts))
    flow = size * len(texts)
    session, queries = stream.session(texts[:1])
    rest = texts[1:]
    begun = time.perf_counter()
    if not in_flow:
        queries += [session.register(text) for text in rest]
    rows = 0
    for start in range(0, flow, size):
        session.push_events(stream.batch(start, start + size))
        if in_flow and rest:
            queries.append(session.register(rest.pop(0)))
    middle = time.perf_counter()
    rows = sum(len(query.drain()) for query in queries)
    first = Cost(middle - begun, flow, rows, session.live_triples)
    end = min(len(stream), flow + sizes.triples // 2)
    begun = time.perf_counter()
    for batch in stream.batches(flow, end):
        session.push_events(batch)
    after = time.perf_counter() - begun
    rows = sum(len(query.drain()) for query in queries)
    return first, Cost(after, end - flow, rows, session.live_triples)


def measure_in_flow(report: Report, stream: Encoded, sizes: Sizes) -> None:
    """All queries registered one by one while the stream flows, against the same ones registered before it."""
    texts = list(mixed(sizes.queries, departments_of(stream), sizes.window))
    rounds = [
        [_cost(stream, texts, sizes, in_flow=in_flow) for in_flow in (False, True)]
        for _ in range(sizes.repeat)
    ]
    before, within = (
        [min(costs, key=lambda cost: cost.seconds) for costs in zip(*runs, strict=True)]
        for runs in zip(*rounds, strict=True)
    )
    note = (
        f"registering and {sizes.batch} triples for each: {before[0].seconds / len(texts) * 1e3:.2g} to "
        f"{within[0].seconds / len(texts) * 1e3:.2g} ms a query"
    )
    case = f"{len(texts)} registered one by one in the flow"
    ratio = within[0].seconds / before[0].seconds
    report.add("many queries", case, ratio, "x time of before it", note=note, target=2, at_most=True)
    ratio = within[1].a_triple / before[1].a_triple
    note = f"{before[1].a_triple * 1e9:.0f} to {within[1].a_triple * 1e9:.0f} ns a triple"
    report.add(
        "many queries",
        "the same, triples afterwards",
        ratio,
        "x time of before it",
        note=note,
        target=2,
        at_most=True,
    )


def departments_of(stream: Encoded) -> list[str]:
    """The departments of a LUBM stream, in order."""
    predicate, kind = (
        stream.arena.find(f"<{UB}{name}>".encode()) for name in ("subOrganizationOf", "Department")
    )
    kinds = set(stream.s[stream.o == kind].tolist())
    found = dict.fromkeys(id for id in stream.s[stream.p == predicate].tolist() if id in kinds)
    return [text[1:-1] for text in stream.arena.texts(list(found))]


def measure(report: Report, stream: Encoded, sizes: Sizes) -> None:
    """Time per triple with one query (the mean over the shapes), ten, a hundred, and all."""
    departments = departments_of(stream)
    texts = list(mixed(sizes.queries, departments, sizes.window))
    tail = min(sizes.triples, len(stream)) // 2

    def run(chosen: list[str]) -> Cost:
        return stream.run(chosen, tail=tail, warm=tail, end=2 * tail)

    counts = list(dict.fromkeys((10, 100, sizes.queries)))
    single = [partial(run, [text]) for text in texts[: len(_SHAPES)]]
    several = [partial(run, texts[:count]) for count in counts]
    costs = [cost.a_triple for cost in best_costs([*single, *several], sizes.repeat)]
    one = sum(costs[: len(single)]) / len(single)
    for count, cost in zip(counts, costs[len(single) :], strict=True):
        start = time.perf_counter()
        stream.session(texts[:count])
        register = time.perf_counter() - start
        target = {"target": 20, "at_most": True} if count == sizes.queries else {}
        note = f"{one * 1e9:.0f} to {cost * 1e9:.0f} ns a triple; to register: {register / count * 1e3:.2g} ms a query"
        report.add(
            "many queries", f"{count} of mixed shapes", cost / one, "x time of one", note=note, **target
        )
