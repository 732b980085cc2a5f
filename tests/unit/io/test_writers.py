import io
import json
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thalweg.instants import instant
from thalweg.io.writers import Csv, JsonLines

NAMES = ("x", "y")
ROWS = st.lists(
    st.builds(
        lambda at, op, graph, bindings: SimpleNamespace(at=at, op=op, graph=graph, bindings=bindings),
        st.integers(-(10**15), 10**15),
        st.sampled_from("+-"),
        st.none() | st.text(min_size=1, alphabet=st.characters(codec="utf-8")),
        st.dictionaries(st.sampled_from(NAMES), st.text(alphabet=st.characters(codec="utf-8"))),
    )
)


@given(ROWS)
def test_json_lines_say_what_the_rows_say(rows):
    out = io.BytesIO()
    writer = JsonLines(out, NAMES)
    writer.write(rows)
    read = [json.loads(line) for line in out.getvalue().decode().split("\n")[:-1]]
    assert [instant(row["at"]) for row in read] == [row.at for row in rows]
    assert [row["op"] for row in read] == [row.op for row in rows]
    assert [row.get("graph") for row in read] == [row.graph for row in rows]
    assert [row["bindings"] for row in read] == [row.bindings for row in rows]
    assert all(list(row["bindings"]) == sorted(row["bindings"]) for row in read)
    assert writer.rows == len(rows)


def test_rows_and_columns_are_written_alike():
    by_row, by_column = io.BytesIO(), io.BytesIO()
    JsonLines(by_row, NAMES).write(
        [SimpleNamespace(at=5, op="+", graph=None, bindings={"x": "<a>", "y": '"%s"'})]
    )
    JsonLines(by_column, NAMES).columns([5], ["+"], {"y": ['"%s"'], "x": ["<a>"]})
    assert by_row.getvalue() == by_column.getvalue()


def test_a_table_quotes_what_it_must():
    out = io.BytesIO()
    Csv(out, NAMES).columns([0], ["-"], {"x": ['"a,b"']}, ["<g>"])
    assert out.getvalue() == b'at,op,graph,x,y\r\n1970-01-01T00:00:00Z,-,<g>,"""a,b""",\r\n'


@pytest.mark.parametrize("most", [1, 7])
def test_an_output_that_takes_little_at_a_time_gets_all_of_it(most):
    class Narrow(io.BytesIO):
        def write(self, data):
            return super().write(bytes(data)[:most])

    out = Narrow()
    JsonLines(out, ["x"]).columns([0], ["+"], {"x": ["<a>"]})
    assert json.loads(out.getvalue())["bindings"] == {"x": "<a>"}
