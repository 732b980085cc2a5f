"""Rows of files and tables in the session and at the command line; bad rows, and mappings that do not fit."""

from __future__ import annotations

import gzip
import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest

from tests.unit.cli.commands import Commands
from thalweg import Mapping, Session, UsageError
from thalweg.io.files import read_events
from thalweg.options import RunOptions
from thalweg.rdf.arena import Arena
from thalweg.rdf.chunk import Reject
from thalweg.rdf.prune import Prune

S = "http://ex/s"
MAPPING = """
prefixes: {ex: "http://ex/"}
mappings:
  reading:
    s: ex:$(id)
    graphs: ex:graph/$(id)
    po:
      - [ex:value, $(value)]
      - p: ex:by
        o: {mapping: sensor}
  sensor:
    graphs: ex:graph/$(id)
    po: [[a, ex:Sensor]]
event: {time: $(at), format: epoch-s}
"""
BODY = "?x <http://ex/value> ?v ; <http://ex/by> ?b . ?b a <http://ex/Sensor>"
ALL = f"SELECT ?x ?v FROM STREAM <{S}> [NOW] WHERE {{ {BODY} }}"


def rows_of(
    session: Session, rows: object, mapping: str = MAPPING, **more: object
) -> list[tuple[int, str, str]]:
    query = session.register(ALL)
    session.push_rows(S, rows, mapping=mapping, **more)  # type: ignore[arg-type]
    return [(row.at, row["x"], row["v"]) for row in query.poll()]


INTEGER = "^^<http://www.w3.org/2001/XMLSchema#integer>"
THREE = [(1_000_000, "<http://ex/a>", f'"5"{INTEGER}'), (2_000_000, "<http://ex/b>", f'"7"{INTEGER}')]
TABLE = {"id": ["b", "a", "c"], "value": [7, 5, None], "at": [2, 1, 3]}


@pytest.mark.parametrize(
    "rows",
    [
        TABLE,
        pa.table(TABLE),
        pa.table(TABLE).to_batches()[0],
        [{"id": "b", "value": 7, "at": 2}, {"id": "a", "value": 5, "at": 1}, {"id": "c", "at": 3}],
        pd.DataFrame({"id": ["b", "a", "c"], "value": pd.array([7, 5, None], "Int64"), "at": [2, 1, 3]}),
    ],
    ids=["columns", "table", "batch", "dicts", "pandas"],
)
def test_rows_of_any_kind_are_events_in_the_order_of_their_times(rows: object) -> None:
    assert rows_of(Session(), rows) == THREE


def test_a_column_has_the_datatype_of_its_type_unless_the_mapping_gives_another() -> None:
    values = {
        "integer": (1, '"1"', "integer"),
        "double": (1.5, '"1.5"', "double"),
        "infinite": (float("-inf"), '"-INF"', "double"),
        "boolean": (True, '"true"', "boolean"),
        "decimal": (Decimal("0.00000000001"), '"0.00000000001"', "decimal"),
        "date": (date(2024, 2, 29), '"2024-02-29"', "date"),
        "moment": (
            datetime(2024, 2, 29, 1, 2, 3, 500, tzinfo=UTC),
            '"2024-02-29T01:02:03.0005Z"',
            "dateTime",
        ),
        "local": (datetime(2024, 2, 29, 1, 2, 3), '"2024-02-29T01:02:03"', "dateTime"),
        "bytes": (b"\x01\xff", '"01FF"', "hexBinary"),
    }
    for name, (value, lexical, kind) in values.items():
        found = rows_of(Session(), {"id": [name], "value": [value], "at": [1]})
        assert found == [
            (1_000_000, f"<http://ex/{name}>", f"{lexical}^^<http://www.w3.org/2001/XMLSchema#{kind}>")
        ]
    typed = MAPPING.replace("$(value)]", "$(value), xsd:decimal]")
    found = rows_of(Session(), {"id": ["x"], "value": [1.5], "at": [1]}, typed)
    assert found[0][2] == '"1.5"^^<http://www.w3.org/2001/XMLSchema#decimal>'


def test_a_column_of_timestamps_is_the_time_as_it_stands_and_needs_a_zone_if_it_has_none() -> None:
    mapping = MAPPING.replace(", format: epoch-s", "")
    aware = datetime(2024, 1, 1, tzinfo=UTC)
    found = rows_of(Session(), {"id": ["x"], "value": [1], "at": [aware]}, mapping)
    assert found[0][0] == int(aware.timestamp()) * 1_000_000
    naive = {"id": ["x"], "value": [1], "at": [datetime(2024, 1, 1, 1)]}
    with pytest.raises(UsageError, match="column at: its times have no zone: add `zone`"):
        rows_of(Session(), naive, mapping)
    zoned = mapping.replace("$(at)}", '$(at), zone: "+01:00"}')
    assert rows_of(Session(), naive, zoned)[0][0] == int(aware.timestamp()) * 1_000_000


def test_rows_that_delete_take_back_what_others_inserted() -> None:
    mapping = MAPPING.replace("epoch-s}", "epoch-s, op: $(op)}").replace(
        "      - p: ex:by\n        o: {mapping: sensor}\n", ""
    )
    session = Session()
    query = session.register(f"SELECT ?x FROM STREAM <{S}> WHERE {{ ?x <http://ex/value> ?v }}")
    rows = {
        "id": ["a", "b", "a"],
        "value": ["1", "2", "1"],
        "at": [1, 2, 3],
        "op": ["insert", None, "delete"],
    }
    session.push_rows(S, rows, mapping=mapping)
    session.advance(5000)
    found = [(row.op, row["x"]) for row in query.poll()]
    assert found == [("+", "<http://ex/a>"), ("+", "<http://ex/b>"), ("-", "<http://ex/a>")]


def test_rows_without_a_time_of_their_own_are_events_at_a_given_one() -> None:
    timeless = MAPPING.replace("event: {time: $(at), format: epoch-s}", "")
    assert sorted(rows_of(Session(), TABLE, timeless, at=4000)) == [
        (4_000_000, "<http://ex/a>", f'"5"{INTEGER}'),
        (4_000_000, "<http://ex/b>", f'"7"{INTEGER}'),
    ]
    with pytest.raises(UsageError, match="states no time of its rows: give at="):
        rows_of(Session(), TABLE, timeless)
    with pytest.raises(UsageError, match="states the time of its rows: leave out at="):
        rows_of(Session(), TABLE, at=1)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ({"id": ["x"], "at": [1]}, "which the table does not have: there are id, at"),
        ({"id": ["x"], "valeu": [1], "at": [1]}, "did you mean 'valeu'"),
        ("id,value", "rows are an Arrow table"),
        ({"id": ["x"], "value": [[1]], "at": [1]}, "column value has the type list"),
        ([{"id": "x", "value": 1, "at": 1}, {"id": "x", "value": "y", "at": 1}], "no common type"),
    ],
)
def test_tables_that_do_not_fit_are_refused_with_a_sentence(rows: object, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        rows_of(Session(), rows)


@pytest.mark.parametrize("name", ["taxi", "power"])
def test_the_mappings_of_the_examples_fit_rows_of_their_kind(name: str) -> None:
    folder = Path(__file__).parents[2] / "examples" / "rows"
    mapping = Mapping.read(folder / f"{name}.yml")
    columns = mapping.rules.layout.columns
    assert columns is not None
    rows = {column: ["2013-01-01 00:00:00" if "time" in column else "1"] for column in columns}
    session = Session()
    session.register(f"SELECT * FROM STREAM <{S}> WHERE {{ ?s ?p ?o }}")
    session.push_rows(S, rows, mapping=mapping)
    assert session.stats.triples == {"taxi": 24, "power": 4}[name]


# Files


def read(path: Path, mapping: str = MAPPING, **options: object) -> tuple[int, list[Reject]]:
    """How many events a file has, and what of it is refused."""
    given = RunOptions(mapping=Mapping(mapping), **options)  # type: ignore[arg-type]
    batches = list(read_events([path], S, Arena(), Prune.everything(), given, piece=1 << 16))
    return sum(batch.events for batch in batches), [reject for batch in batches for reject in batch.rejects]


GOOD = b"id,value,at\na,1,1\n"


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (b"x,1", "2 cells, and there are 3 columns"),
        (b"x,1,2,3", "4 cells, and there are 3 columns"),
        (b"x,1,soon", "column at: 'soon' is not a time (expected epoch-s)"),
        (b"x,1,", "column at: there is no time"),
        (b"\xff,1,2", "column id: not UTF-8"),
        (b"x,\xc3\x28,2", "column value: not UTF-8"),
        (b'"x"y,1,2', "text follows the closing quote of a cell (a quote within a cell is doubled)"),
        (b"x,1,99999999999999", "column at: '99999999999999' is not a time (expected epoch-s)"),
    ],
)
def test_a_bad_row_is_refused_with_its_line_and_the_rows_beside_it_stay(
    row: bytes, reason: str, tmp_path: Path
) -> None:
    file = tmp_path / "a.csv"
    file.write_bytes(GOOD + b'"two\nlines",2,2\n' + row + b"\nb,2,3\n")
    events, (reject,) = read(file)
    assert (events, reject.line, reject.reason) == (3, 5, reason)
    assert reject.text == row.decode("utf-8", "replace")


def test_a_quote_without_an_end_costs_its_own_line_only(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_bytes(GOOD + b'x,"1,2\nb,2,3\nc,3,4\n')
    events, (reject,) = read(file)
    assert (events, reject.line, reject.reason) == (3, 3, "a cell in quotes has no end")


def test_nul_bytes_and_long_cells_are_cells_like_others(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_bytes(
        GOOD + b"x\0,1,2\n" + b"y," + b"v" * 3_000_000 + b",3\n" + b'z,"' + b'a""\n' * 300_000 + b'",4\n'
    )
    assert read(file) == (4, [])


@pytest.mark.soak
def test_a_line_of_100_mb_is_a_row(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_bytes(GOOD + b"y," + b"v" * 100_000_000 + b",3\nb,1,4\n")
    assert read(file) == (3, [])


def test_a_gzip_file_that_breaks_off_has_the_rows_before_the_break(tmp_path: Path) -> None:
    file = tmp_path / "a.csv.gz"
    rows = b"".join(b"s%d,%d,%d\n" % (k, k * 7919 % 10007, k) for k in range(50_000))
    file.write_bytes(gzip.compress(GOOD + rows)[:-5000])
    events, (reject,) = read(file)
    assert 30_000 < events < 50_001
    assert reject.kind == "truncated"


@pytest.mark.parametrize("data", [b"", b"\n\n", b"\xef\xbb\xbf", b"id,value,at\n", b"id,value,at"])
def test_a_file_without_rows_has_no_events(data: bytes, tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_bytes(data)
    assert read(file) == (0, [])


def test_a_time_without_a_zone_is_refused_with_what_to_do(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_bytes(b"id,value,at\na,1,2024-01-01T00:00:00\nb,1,2024-01-01T00:00:00Z\n")
    events, (reject,) = read(file, MAPPING.replace(", format: epoch-s", ""))
    assert events == 1
    assert reject.reason == (
        "column at: the time '2024-01-01T00:00:00' has no zone: add `zone` to `event` in the mapping"
    )


def test_json_rows_that_are_no_objects_or_hold_arrays_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    lines = [
        '{"id": "a", "value": 1, "at": 1}',
        "[1]",
        '{"id": "b", "value": [1], "at": 2}',
        '{"id": ',
        '{"id": NaN}',
    ]
    file.write_text("\n".join(lines))
    events, rejects = read(file, format="json-rows")
    assert events == 1
    assert [(reject.line, reject.reason[:30]) for reject in rejects] == [
        (2, "not an object: each line is a "),
        (3, "column value: an array, where "),
        (4, "not JSON: Expecting value"),
        (5, "not JSON: NaN is no value"),
    ]


@pytest.fixture
def thalweg(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> Commands:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "q.rq").write_text(ALL)
    (tmp_path / "map.yml").write_text(MAPPING)
    (tmp_path / "map.csv").write_text(MAPPING)
    (tmp_path / "a.csv").write_bytes(GOOD + b'"b ""x""\n",2,2\n,,3\n')
    return Commands(tmp_path, capfdbinary)


def test_the_command_reads_rows_by_a_mapping_for_one_stream_or_for_all(thalweg: Commands) -> None:
    for mapping in ("map.yml", f"{S}=map.yml"):
        done = thalweg("run", "q.rq", "--stream", f"{S}=a.csv", "--mapping", mapping)
        assert done.code == 0, done.err
        assert [bindings["x"] for _, _, bindings in done.rows] == [
            "<http://ex/a>",
            "<http://ex/b%20%22x%22%0A>",
        ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "a.csv: CSV needs a mapping that makes RDF of its rows: --mapping"),
        (["--mapping", "no.yml"], "no.yml: the mapping cannot be read: No such file or directory"),
        (["--mapping", "q.rq"], "q.rq:1:1: the mapping is a list of keys and values"),
        (["--mapping", "http://ex/t=map.yml"], "--mapping is for <http://ex/t>, and no --stream gives it"),
        (["--mapping", "map.yml", "--per-event", "2"], "per_event is for formats without events"),
        (["--mapping", "map.csv", "--out", "map.csv"], "would overwrite"),
    ],
)
def test_a_command_that_cannot_map_its_rows_says_why(
    arguments: list[str], message: str, thalweg: Commands
) -> None:
    done = thalweg("run", "q.rq", "--stream", f"{S}=a.csv", *arguments)
    assert done.code == 2
    assert message in done.err


def test_a_column_that_the_file_lacks_is_named_with_its_place_in_the_mapping(
    thalweg: Commands, tmp_path: Path
) -> None:
    (tmp_path / "a.csv").write_bytes(b"id,val,at\na,1,1\n")
    done = thalweg("run", "q.rq", "--stream", f"{S}=a.csv", "--mapping", "map.yml")
    assert done.code == 2
    assert (
        "map.yml:8:20: the mapping names the column 'value', which a.csv does not have: "
        "did you mean 'val'? There are id, val, at"
    ) in done.err


def test_rows_of_json_have_the_same_events(thalweg: Commands, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(json.dumps({"id": "a", "value": 1, "at": 1}))
    done = thalweg("run", "q.rq", "--stream", f"{S}=a.jsonl", "--mapping", "map.yml", "--format", "json-rows")
    assert [bindings["v"] for _, _, bindings in done.rows] == [f'"1"{INTEGER}']
