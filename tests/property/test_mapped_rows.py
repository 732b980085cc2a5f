"""Rows by a mapping, against an evaluator that shares no code with ours; cuts and garbage change nothing."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyoxigraph as ox
from hypothesis import given
from hypothesis import strategies as st
from mapped_rows import XSD, Rule, triples_of, yarrrml

from thalweg.rdf.arena import Arena
from thalweg.rdf.chunk import Chunk, Reject
from thalweg.rdf.formats import FORMATS
from thalweg.rdf.headers import Header
from thalweg.rdf.mapping import Mapping
from thalweg.rdf.prune import Prune, Signature
from thalweg.rdf.table_rows import TableBuilder

COLUMNS = ["at", "op", "a", "b", "c"]
TIMES = "event: {time: $(at), format: epoch-s, op: $(op)}"
RULES = [
    Rule("http://ex/{a}/x{b}", "http://ex/p", "{c}"),
    Rule("http://ex/{a}", "http://ex/typed", "{b}", datatype=f"{XSD}decimal"),
    Rule("http://ex/{a}", "http://ex/said", "it's {b} \\\\ {c}", language="en-gb"),
    Rule("_:n", "http://ex/knows", "http://ex/{c}", kind="iri"),
    Rule("_:n", "http://ex/self", "_:n", kind="iri"),
    Rule("http://ex/const", "http://ex/q", "{c}", datatype=f"{XSD}string"),
]
# As YAML and as Python write a backslash.
PLAIN = [Rule(r.s, r.p, r.o.replace("\\\\", "\\"), r.kind, r.datatype, r.language) for r in RULES]

_cells = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12),
    st.sampled_from(
        ["", '"', '""', ",", "\n", "\r\n", "a b", "ü/ß", "\U0001f600", "\ue000", "x" * 200, "~%-._"]
    ),
)
_rows = st.lists(
    st.fixed_dictionaries(
        {
            "at": st.integers(-(10**9), 10**10).map(str),
            "op": st.sampled_from(["", "+", "insert", "-", "delete"]),
            "a": _cells,
            "b": _cells,
            "c": _cells,
        }
    ),
    max_size=12,
)


def written(rows: list[dict[str, str]], delimiter: str, end: str, always: bool) -> bytes:
    def cell(text: str) -> str:
        odd = any(c in text for c in ('"', delimiter, "\r", "\n"))
        return '"' + text.replace('"', '""') + '"' if odd or always else text

    lines = [delimiter.join(COLUMNS), *(delimiter.join(cell(row[name]) for name in COLUMNS) for row in rows)]
    return "".join(line + end for line in lines).encode()


def read(
    data: bytes, mapping: Mapping, syntax: str = "csv", size: int = 1 << 20
) -> tuple[list[Event], list[Reject]]:
    """The events and rejects of data that is read in pieces of about `size` bytes."""
    arena, format = Arena(), FORMATS[syntax]
    header = Header(format, mapping, "file")
    reader = format.reader(arena, Prune.everything(), source="file", mapping=mapping, header=header)
    events: list[Event] = []
    rejects: list[Reject] = []
    at, lines = 0, 0
    while at < len(data):
        high = at + size
        end = format.cut(mapping)(data, at, min(high, len(data)))
        while end == at and high < len(data):
            high += size
            end = format.cut(mapping)(data, at, min(high, len(data)))
        if high >= len(data):
            end = len(data)
        chunk = reader.read(data[at:end], offset=at)
        events += events_of(chunk, arena)
        rejects += [Reject(r.source, r.line + lines, r.column, r.reason, r.text) for r in chunk.rejects]
        lines += chunk.lines
        at = end
    return events, rejects


Event = tuple[int, int, frozenset[ox.Triple]]


def events_of(chunk: Chunk, arena: Arena) -> list[Event]:
    """Time, op and triples of each event."""
    numbers = chunk.number.tolist()
    assert sorted(set(numbers)) == list(range(len(set(numbers))))
    assert numbers == sorted(numbers)
    found: list[Event] = []
    for number in sorted(set(numbers)):
        rows = np.flatnonzero(chunk.number == number)
        (time,), (op,) = set(chunk.time[rows].tolist()), set(chunk.op[rows].tolist())
        text = "".join(
            " ".join(arena.texts([chunk.s[row], chunk.p[row], chunk.o[row]])) + " .\n"
            for row in rows
            if chunk.s[row]
        )
        parsed = ox.parse(text.encode(), ox.RdfFormat.N_TRIPLES)
        found.append((time, op, frozenset(quad.triple for quad in parsed)))
    return found


def expected(rows: list[dict[str, str]]) -> list[Event]:
    ops = {"": 1, "+": 1, "insert": 1, "-": -1, "delete": -1}
    found = []
    for row in rows:
        triples = triples_of(row, PLAIN)
        found.append((int(row["at"]) * 1_000_000, ops[row["op"]] if triples else 0, triples))
    return found


@given(
    _rows,
    st.sampled_from([",", ";", "\t", "|"]),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.booleans(),
    st.integers(1, 200),
)
def test_rows_of_text_have_the_events_that_the_evaluator_finds_however_they_are_cut(
    rows: list[dict[str, str]], delimiter: str, end: str, always: bool, size: int
) -> None:
    mapping = Mapping(yarrrml(RULES, TIMES, f"rows: {{delimiter: {json.dumps(delimiter)}}}"))
    data = written(rows, delimiter, end, always)
    events, rejects = read(data, mapping, size=size)
    assert not rejects
    assert events == expected(rows)


@given(_rows, st.integers(1, 200))
def test_json_rows_have_the_events_that_the_evaluator_finds(rows: list[dict[str, str]], size: int) -> None:
    mapping = Mapping(yarrrml(RULES, TIMES))
    # An empty text is a value in JSON, and no cell in CSV: here it is left out.
    data = "".join(json.dumps({k: v for k, v in row.items() if v}) + "\n" for row in rows).encode()
    events, rejects = read(data, mapping, "json-rows", size)
    assert not rejects
    assert events == expected(rows)


@given(_rows)
def test_tables_have_the_events_that_the_evaluator_finds(rows: list[dict[str, str]]) -> None:
    mapping = Mapping(yarrrml(RULES, TIMES))
    table = pa.table({name: pa.array([row[name] or None for row in rows], pa.string()) for name in COLUMNS})
    arena = Arena()
    builder = TableBuilder(mapping, table.schema, Prune.everything(), "table")
    assert events_of(builder.build(arena, table), arena) == expected(rows)


@given(_rows, st.sampled_from(["http://ex/p", "http://ex/self", "http://ex/none"]))
def test_pruned_rows_are_those_of_the_wanted_predicate_and_events_stay(
    rows: list[dict[str, str]], predicate: str
) -> None:
    mapping = Mapping(yarrrml(RULES, TIMES))
    arena = Arena()
    prune = Prune.of([Signature(None, f"<{predicate}>".encode(), None)])
    reader = FORMATS["csv"].reader(arena, prune, source="file", mapping=mapping)
    chunk = reader.read(written(rows, ",", "\n", False))
    whole = expected(rows)
    kept = [
        (time, op, frozenset(triple for triple in triples if triple.predicate.value == predicate))
        for time, op, triples in whole
    ]
    assert events_of(chunk, arena) == kept
    assert chunk.statements == sum(
        sum(all(row[name] for name in re.findall(r"\{(\w)\}", rule.s + rule.o)) for rule in RULES)
        for row in rows
    )


@given(
    st.lists(
        st.sampled_from(
            [b'"', b'""', b",", b"\n", b"\r", b"\r\n", b"a", b"1", b"\xff", b"\0", b"1,+,x,y,z\n"]
        )
    ),
    st.integers(1, 20),
)
def test_garbage_is_refused_with_its_line_and_means_the_same_however_it_is_cut(
    parts: list[bytes], size: int
) -> None:
    mapping = Mapping(yarrrml(RULES, TIMES, "rows: {columns: [at, op, a, b, c]}"))
    data = b"".join(parts)
    whole, rejects = read(data, mapping)
    assert read(data, mapping, size=size) == (whole, rejects)
    lines = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
    for reject in rejects:
        assert lines[reject.line - 1], reject
    # A good row behind an end of line that is in no cell is never lost.
    if b'"' not in data:
        assert len(whole) >= sum(line == b"1,+,x,y,z" for line in lines)


@given(st.lists(st.binary(max_size=20), max_size=6))
def test_no_line_of_bytes_stops_the_reader_of_json_rows(lines: list[bytes]) -> None:
    mapping = Mapping(yarrrml(RULES, TIMES))
    good = b'{"at": 1, "a": "x", "b": 2}'
    events, _ = read(b"\n".join([*lines, good, b""]), mapping, "json-rows")
    assert events[-1][0] == 1_000_000


@given(
    st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1)),
    st.sampled_from(
        ["%Y-%m-%d %H:%M:%S", "%d/%b/%Y:%H:%M:%S %z", "%m/%d/%y %I:%M:%S %p", "%Y%m%dT%H%M%S.%f", "%B %d, %Y"]
    ),
    st.sampled_from(["UTC", "+05:30", "-03:00", "America/New_York", "Europe/Berlin"]),
)
def test_times_by_a_pattern_are_those_of_strptime(moment: datetime, pattern: str, zone: str) -> None:
    offset = re.fullmatch(r"([+-])(\d\d):(\d\d)", zone)
    where: object = ZoneInfo(zone) if not offset else None
    if offset:
        from datetime import timezone

        shift = timedelta(hours=int(offset[2]), minutes=int(offset[3]))
        where = timezone(shift if offset[1] == "+" else -shift)
    text = moment.replace(tzinfo=UTC).strftime(pattern)
    local = datetime.strptime(text, pattern)
    aware = local if local.tzinfo else local.replace(tzinfo=where)  # type: ignore[arg-type]
    there = aware.astimezone(UTC)
    if aware.astimezone(where).replace(tzinfo=None) != aware.replace(tzinfo=None) and "%z" not in pattern:  # type: ignore[arg-type]
        return
    if not local.tzinfo and there.astimezone(where).replace(tzinfo=None) != local:  # type: ignore[arg-type]
        return  # the clocks skipped this time
    mapping = Mapping(
        yarrrml(
            RULES[:1],
            f'event: {{time: $(at), format: "{pattern}", zone: "{zone}"}}',
            "rows: {columns: [at, op, a, b, c]}",
        )
    )
    events, rejects = read(f'"{text}",,x,y,z\n'.encode(), mapping)
    assert not rejects
    assert events[0][0] == (there - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
