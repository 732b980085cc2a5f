"""Framing: which rows are an event, its time, and what is held back."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thalweg.kernels.frame import LIMIT
from thalweg.rdf.arena import Arena
from thalweg.rdf.chunk import NO_TIME, Chunk, Reject
from thalweg.rdf.events import EventBatch, Rows
from thalweg.rdf.framing import StatementFramer
from thalweg.rdf.ntriples import GENERATED_AT, LineReader
from thalweg.rdf.prune import Prune, Signature

Shown = list[tuple[int, int, str, str]]


class Line:
    """A stream under test: pieces go in, rows (event, time in ms, graph, object) come out."""

    def __init__(
        self, syntax: str = "nq", prune: Prune | None = None, mask: int = -1, **options: object
    ) -> None:
        self.arena = Arena(hash_mask=mask)
        per_event = options.get("per_event", 1)
        prune = Prune.everything() if prune is None else prune
        self.reader = LineReader(self.arena, prune, syntax=syntax, source="doc", per_event=per_event)  # type: ignore[arg-type]
        mode = "graphs" if syntax == "nq" else "triples"
        self.framer = StatementFramer("s", mode=mode, arena=self.arena, **options)  # type: ignore[arg-type]
        self.offset = 0

    def chunk(self, text: str) -> Chunk:
        chunk = self.reader.read(text.encode(), offset=self.offset)
        self.offset += len(text.encode())
        return chunk

    def push(self, text: str) -> EventBatch:
        return self.framer.frame(self.chunk(text))

    def show(self, *batches: EventBatch) -> Shown:
        return [
            (
                int(event),
                int(time) // 1000,
                self.arena.text(int(graph)) if graph else "",
                self.arena.text(int(o)),
            )
            for batch in batches
            for time, event, graph, o in zip(*batch.rows.columns[:3], batch.rows.o, strict=True)
        ]


def at(graph: str, time: object) -> str:
    return f'<a:{graph}> {GENERATED_AT.decode()} "{time}" .\n'


def quad(graph: str, o: str = "<a:o>") -> str:
    return f"<a:s> <a:p> {o} <a:{graph}> .\n"


def triples(*numbers: int) -> str:
    return "".join(f"<a:s> <a:p> <a:{k}> .\n" for k in numbers)


def test_each_triple_is_an_event_and_its_number_its_time() -> None:
    line = Line("nt")
    first, second, last = line.push(triples(0, 1)), line.push(triples(2)), line.framer.close()
    assert line.show(first, second, last) == [(0, 0, "", "<a:0>"), (1, 1, "", "<a:1>"), (2, 2, "", "<a:2>")]
    assert [batch.clock for batch in (first, second, last)] == [1000, 2000, 2000]
    assert [batch.events for batch in (first, second, last)] == [2, 1, 0]


def test_pruned_triples_are_events_too() -> None:
    line = Line("nt", Prune.of([Signature(None, None, b"<a:2>")]))
    batch = line.push(triples(0, 1, 2, 3))
    assert line.show(batch) == [(2, 2, "", "<a:2>")]
    assert (batch.events, batch.clock) == (4, 3000)


def test_a_block_waits_for_its_last_triple() -> None:
    line = Line("nt", per_event=3)
    batches = [line.push(triples(*numbers)) for numbers in ([0, 1], [2, 3, 4, 5, 6], [7], [8, 9])]
    assert [line.show(batch) for batch in batches] == [
        [],
        [(k // 3, k // 3, "", f"<a:{k}>") for k in range(6)],
        [],
        [(2, 2, "", f"<a:{k}>") for k in (6, 7, 8)],
    ]
    assert [batch.clock for batch in batches] == [NO_TIME, 1000, 1000, 2000]
    assert [batch.events for batch in batches] == [0, 2, 0, 1]
    last = line.framer.close()
    assert line.show(last) == [(3, 3, "", "<a:9>")]
    assert (last.events, last.clock) == (1, 3000)
    assert line.framer.close().events == 0


@pytest.mark.parametrize(
    ("rate", "last"), [(1000, 9_000), (3, 3_000_000), (Fraction(1, 2), 18_000_000), (2.5, 3_600_000)]
)
def test_a_rate_gives_exact_times(rate: float, last: int) -> None:
    line = Line("nt", rate=rate)
    batch = line.push(triples(*range(10)))
    assert batch.rows.time.tolist() == [int(Fraction(k * 1_000_000) / Fraction(rate)) for k in range(10)]
    assert batch.clock == last


def test_blank_nodes_of_a_block_are_one_within_it() -> None:
    line = Line("nt", per_event=2)
    batch = line.push("_:b <a:p> _:c .\n_:b <a:p> _:b .\n_:b <a:p> _:b .\n_:b <a:p> <a:o> .\n")
    s = batch.rows.s.tolist()
    assert s[0] == s[1] == batch.rows.o[1]
    assert s[2] == s[3] == batch.rows.o[2]
    assert len({s[0], s[2], int(batch.rows.o[0])}) == 3


@pytest.mark.parametrize(
    "text",
    [
        at("g", 5) + quad("g", "<a:1>") + quad("g", "<a:2>"),
        quad("g", "<a:1>") + at("g", 5) + quad("g", "<a:2>"),
        quad("g", "<a:1>") + quad("g", "<a:2>") + at("g", 5),
        quad("g", "<a:1>") + quad("g", "<a:2>") + quad("h") + at("h", 7) + at("g", 5),
    ],
    ids=["before", "inside", "after", "after the next graph"],
)
def test_the_time_of_a_graph_may_be_said_anywhere(text: str) -> None:
    line = Line()
    shown = line.show(line.push(text), line.framer.close())
    assert shown[:2] == [(0, 5, "<a:g>", "<a:1>"), (0, 5, "<a:g>", "<a:2>")]


def test_a_graph_is_emitted_when_the_next_one_begins() -> None:
    line = Line()
    assert line.show(line.push(at("g", 1) + quad("g"))) == []
    assert line.show(line.push(quad("g", "<a:o2>"))) == []
    batch = line.push(at("h", 2) + quad("h"))
    assert line.show(batch) == [(0, 1, "<a:g>", "<a:o>"), (0, 1, "<a:g>", "<a:o2>")]
    assert (batch.events, batch.clock) == (1, 1000)
    assert line.show(line.framer.close()) == [(1, 2, "<a:h>", "<a:o>")]


def test_a_graph_waits_for_the_time_of_an_earlier_one() -> None:
    line = Line()
    assert line.show(line.push(quad("g") + at("h", 2) + quad("h") + at("i", 3) + quad("i"))) == []
    assert line.show(line.push(at("g", 1))) == [(0, 1, "<a:g>", "<a:o>"), (1, 2, "<a:h>", "<a:o>")]


def test_a_graph_without_a_time_is_refused_at_the_end() -> None:
    line = Line()
    line.push(at("g", 1) + quad("g") + quad("h") + quad("h") + at("i", 3) + quad("i"))
    last = line.framer.close()
    assert line.show(last) == [(2, 3, "<a:i>", "<a:o>")]
    assert [reject.reason for reject in last.rejects] == ["graph <a:h> has no time"]
    assert (last.events, last.clock) == (1, 3000)


def test_a_graph_without_a_time_holds_back_no_more_than_the_limit() -> None:
    line = Line()
    batch = line.push(quad("none") + "".join(at(f"g{k}", k) + quad(f"g{k}") for k in range(LIMIT - 1)))
    assert (batch.events, batch.rejects) == (0, ())
    batch = line.push(at("last", 9999) + quad("last"))
    assert [reject.reason for reject in batch.rejects] == ["graph <a:none> has no time"]
    assert batch.events == LIMIT - 1
    assert line.show(batch)[0] == (1, 0, "<a:g0>", "<a:o>")
    # It is too late for the time of the refused one, and that harms no one.
    assert line.show(line.push(at("none", 1)), line.framer.close()) == [(LIMIT, 9999, "<a:last>", "<a:o>")]


def test_a_repeated_graph_is_a_new_event_with_the_time_last_said() -> None:
    line = Line()
    text = (
        at("g", 1) + quad("g") + at("h", 2) + quad("h") + quad("g", "<a:2>") + quad("h", "<a:2>") + at("g", 5)
    )
    shown = line.show(line.push(text + quad("g", "<a:3>")), line.framer.close())
    assert [(event, time, graph) for event, time, graph, _ in shown] == [
        (0, 1, "<a:g>"),
        (1, 2, "<a:h>"),
        (2, 1, "<a:g>"),
        (3, 2, "<a:h>"),
        (4, 5, "<a:g>"),
    ]


def test_blank_nodes_of_a_repeated_graph_are_new_ones() -> None:
    line = Line()
    line.push(
        at("g", 1) + quad("g", "_:b") + quad("g", "_:b") + at("h", 2) + quad("h", "_:b") + quad("g", "_:b")
    )
    o = line.framer.close()
    assert len(o) == 1
    again = Line()
    batch = again.push(
        at("g", 1) + quad("g", "_:b") + quad("g", "_:b") + at("h", 2) + quad("h", "_:b") + quad("h")
    )
    assert batch.rows.o[0] == batch.rows.o[1]
    assert o.rows.o[0] != batch.rows.o[0]


def test_a_year_beyond_the_calendar_is_no_time() -> None:
    line = Line()
    batch = line.push(at("g", "99999-01-01T00:00:00Z") + quad("g") + quad("h"))
    assert batch.clock == NO_TIME
    assert [reject.line for reject in batch.rejects] == [1]


def test_a_bad_time_is_refused_and_so_is_its_graph() -> None:
    line = Line()
    batch = line.push(at("g", "1") + quad("g") + at("h", "tomorrow") + quad("h"))
    assert [reject.line for reject in batch.rejects] == [3]
    assert [reject.reason for reject in line.framer.close().rejects] == ["graph <a:h> has no time"]


def test_pruned_graphs_move_the_clock() -> None:
    line = Line(prune=Prune.of([Signature(None, None, b"<a:wanted>")]))
    text = at("g", 1) + quad("g") + at("h", 2) + quad("h", "<a:wanted>") + quad("h") + at("i", 3) + quad("i")
    first, last = line.push(text), line.framer.close()
    assert line.show(first, last) == [(1, 2, "<a:h>", "<a:wanted>")]
    assert [(batch.events, batch.clock) for batch in (first, last)] == [(2, 2000), (1, 3000)]


def test_other_statements_of_the_default_graph_are_counted() -> None:
    line = Line()
    line.push(triples(1, 2) + at("g", 1) + quad("g") + triples(3) + quad("g"))
    assert line.framer.ignored == 3
    assert line.framer.close().events == 1


def test_lines_of_rejects_are_counted_from_the_beginning_of_their_source() -> None:
    line = Line("nt")
    assert [reject.line for reject in line.push("bad\n" + triples(1)).rejects] == [1]
    assert [reject.line for reject in line.push("\nbad\n").rejects] == [4]
    assert [reject.line for reject in line.push("\rbad\r\nbad").rejects] == [6, 7]


def test_a_reject_that_has_no_line_is_given_none() -> None:
    line = Line("nt")
    line.push(triples(3))
    shrunk = replace(line.chunk(""), rejects=(Reject("doc", 0, 0, "the file shrank", ""),))
    assert [reject.line for reject in line.framer.frame(shrunk).rejects] == [0]


def test_many_graphs_without_end_need_bounded_memory() -> None:
    line = Line()
    for start in range(0, 20_000, 2_000):
        line.push("".join(at(f"g{k}", k) + quad(f"g{k}") for k in range(start, start + 2_000)))
        line.arena.compact(line.framer.live_ids())
    assert line.framer.live_ids().size < 8_192 + 16
    assert len(line.arena) < 8_192 + 16


_parts = st.lists(
    st.one_of(
        st.tuples(st.just("quad"), st.sampled_from("ghi"), st.sampled_from(["<a:1>", "<a:2>", "_:b"])),
        st.tuples(st.just("at"), st.sampled_from("ghi"), st.integers(0, 50)),
        st.tuples(st.just("bad"), st.just(""), st.just("")),
        st.tuples(st.just("other"), st.just(""), st.just("")),
    ),
    max_size=25,
)


def written(part: tuple[str, str, object]) -> str:
    kind, graph, value = part
    if kind == "quad":
        return quad(graph, str(value))
    if kind == "at":
        return at(graph, value)
    return "bad\n" if kind == "bad" else triples(1)


@pytest.mark.parametrize(("syntax", "per_event"), [("nq", 1), ("nt", 1), ("nt", 3)])
@given(
    parts=_parts,
    cuts=st.lists(st.integers(0, 25), max_size=4),
    mask=st.sampled_from([-1, 7]),
    prune=st.booleans(),
)
def test_events_depend_on_neither_pieces_nor_restarts_nor_the_hash(
    syntax: str, per_event: int, parts: list[tuple[str, str, object]], cuts: list[int], mask: int, prune: bool
) -> None:
    texts = [written(part) for part in parts]
    wanted = Prune.of([Signature(None, None, b"<a:1>")]) if prune else None
    whole = Line(syntax, wanted, per_event=per_event)
    expected = [whole.push("".join(texts)), whole.framer.close()]

    line = Line(syntax, wanted, mask, per_event=per_event)
    shown: Shown = []
    batches = []
    edges = [0, *sorted(min(cut, len(texts)) for cut in cuts), len(texts)]
    for start, end in pairwise(edges):
        batches.append(line.push("".join(texts[start:end])))
        shown += line.show(batches[-1])
        # Somebody else goes on, with another arena that has other terms at those ids.
        heir = Line(syntax, wanted, mask, per_event=per_event)
        heir.arena.intern(b"<a:something>")
        heir.arena.intern(b"<a:else>")
        heir.framer.restore(line.framer.state())
        heir.offset = line.offset
        line = heir
    batches.append(line.framer.close())
    shown += line.show(batches[-1])
    assert shown == whole.show(*expected)
    assert sum(batch.events for batch in batches) == sum(batch.events for batch in expected)
    assert batches[-1].clock == expected[-1].clock
    rejects = [(reject.line, reject.reason) for batch in batches for reject in batch.rejects]
    assert rejects == [(reject.line, reject.reason) for batch in expected for reject in batch.rejects]


def test_the_state_of_another_mode_is_refused() -> None:
    with pytest.raises(ValueError, match="not the state"):
        Line("nt").framer.restore(Line("nq").framer.state())


@pytest.mark.parametrize(
    "wrong", [{"mode": "quads"}, {"per_event": 0}, {"rate": 0}, {"unit_us": -1}, {"mode": "graphs"}]
)
def test_wrong_options_of_a_framer_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"."):
        StatementFramer("s", **wrong)  # type: ignore[arg-type]


def test_columns_of_a_batch_have_one_length() -> None:
    none = np.empty(0, dtype=np.int64)
    with pytest.raises(ValueError, match="different lengths"):
        EventBatch("s", Rows(none, none, none, none, none, none, np.zeros(1, dtype=np.int64)))


def inside(graph: str, time: object, s: str = "x") -> str:
    return at(s, time).replace(" .\n", f" <a:{graph}> .\n")


def test_a_graph_may_state_its_time_itself() -> None:
    line = Line()
    text = quad("g", "<a:1>") + inside("g", 7) + inside("g", 8) + quad("h", "<a:2>") + inside("h", 9)
    batches = [line.push(text), line.framer.close()]
    assert [row[:3] for row in line.show(*batches)] == [(0, 7, "<a:g>")] * 3 + [(1, 9, "<a:h>")] * 2
    assert not any(batch.rejects for batch in batches)
    assert line.framer.ignored == 0


def test_what_the_default_graph_has_stated_goes_before_what_the_graph_states() -> None:
    line = Line()
    text = at("g", 5) + inside("g", 7) + inside("h", 7) + quad("i") + at("h", 6) + at("i", 8)
    assert [row[:2] for row in line.show(line.push(text), line.framer.close())] == [(0, 5), (1, 7), (2, 8)]


def test_a_time_within_a_graph_counts_whatever_is_pruned_and_wherever_pieces_are_cut() -> None:
    lines = [quad("g"), inside("g", 7), quad("g"), quad("h"), inside("h", 3), inside("g", 4)]
    for cut in range(len(lines) + 1):
        line = Line(prune=Prune.of([Signature(None, b"<a:p>", None)]))
        batches = [line.push("".join(lines[:cut])), line.push("".join(lines[cut:])), line.framer.close()]
        assert [row[:2] for row in line.show(*batches)] == [(0, 7), (0, 7), (1, 3)]
        assert [int(time) for batch in batches for time in batch.times] == [7000, 3000, 4000]


def test_within_a_graph_the_time_predicate_may_have_other_objects() -> None:
    line = Line()
    batches = [line.push(inside("g", "soon") + inside("g", 7) + inside("h", "soon")), line.framer.close()]
    assert [row[:2] for row in line.show(*batches)] == [(0, 7), (0, 7)]
    assert [reject.reason for batch in batches for reject in batch.rejects] == ["graph <a:h> has no time"]
