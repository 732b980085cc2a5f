"""Closures on Spark: the same sets as in this process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import thalweg as tw
from thalweg.errors import UsageError
from thalweg.testing import entailment as judge

pytestmark = pytest.mark.spark
EX = "http://ex/"
AXIOMS = [
    (f"<{EX}A>", judge.SUB_CLASS, f"<{EX}B>"),
    (f"<{EX}B>", judge.SUB_CLASS, f"<{EX}A>"),
    (f"<{EX}p>", judge.DOMAIN, f"<{EX}A>"),
    (f"<{EX}p>", judge.INVERSE, f"<{EX}q>"),
    (f"<{EX}q>", judge.RANGE, f"<{EX}C>"),
    (f"<{EX}r>", judge.A, judge.TRANSITIVE),
]
DATA = [
    *(
        (f"<{EX}x{k % 7}>", f"<{EX}{'pqr'[k % 3]}>", f"<{EX}x{k % 5}>", ("", f"<{EX}g>")[k % 2])
        for k in range(40)
    ),
    (f"<{EX}x>", f"<{EX}p>", '"5"', ""),
    ("_:b", judge.A, f"<{EX}A>", ""),
]


@pytest.mark.parametrize("rules", [None, "default,transitive"])
def test_statements_are_closed_by_graph_and_each_is_there_once(
    spark: Any, tmp_path: Path, rules: str | None
) -> None:
    path = tmp_path / "data.nq"
    path.write_text("".join(f"{' '.join(quad)} .\n" for quad in DATA) + "malformed\n")
    schema = "".join(f"{' '.join(axiom)} .\n" for axiom in AXIOMS)
    frame = tw.spark.statements(spark, str(path), pieceBytes="1k")
    if rules is None:
        with pytest.warns(tw.ThalwegWarning, match="transitive"):
            closed = tw.spark.materialise(frame, schema)
    else:
        closed = tw.spark.materialise(frame, schema, rules)
    found = [tuple(row) for row in closed.collect()]
    names = judge.ALL_RULES | ({"transitive"} if rules else set())
    wanted = {
        (*triple, graph or None)
        for graph in ("", f"<{EX}g>")
        for triple in judge.closed(AXIOMS, [quad[:3] for quad in DATA if quad[3] == graph], names)
    }
    assert len(found) == len(set(found))
    assert set(found) == wanted


def test_a_frame_without_the_columns_of_statements_is_refused(spark: Any) -> None:
    with pytest.raises(UsageError, match="predicate"):
        tw.spark.materialise(spark.createDataFrame([("a",)], "subject string"), "")
