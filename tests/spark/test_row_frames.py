"""Rows on Spark, of files and of frames: the answers of one process, over shards and a restart."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import thalweg as tw
from tests.spark.test_events import answers, told
from thalweg.answers import Row
from thalweg.options import RunOptions

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

S = "http://ex/s"
MAPPING = tw.Mapping("""
prefixes: {ex: "http://ex/"}
mappings:
  reading:
    s: ex:reading/$(id)
    po:
      - [ex:of, ex:sensor/$(sensor)~iri]
      - [ex:value, $(value), xsd:decimal]
      - p: ex:note
        o: {mapping: note}
  note:
    s: _:note
    po: [[ex:text, $(note)]]
event: {time: $(at), format: epoch-ms}
""")
QUERY = f"""SELECT ?sensor ?a ?b ?text FROM STREAM <{S}> [RANGE 3s] WHERE {{
  ?x <http://ex/of> ?sensor ; <http://ex/value> ?a ; <http://ex/note> ?n . ?n <http://ex/text> ?text .
  ?y <http://ex/of> ?sensor ; <http://ex/value> ?b . FILTER(?a < ?b) }}"""


def table(count: int) -> list[tuple[int, str, int, str, str | None]]:
    rng = random.Random(1)
    notes = ['say "hi"', "two\nlines", "ü, comma", None]
    return [
        (250 * k, f"r{k}", rng.randrange(4), str(rng.randrange(9)), rng.choice(notes)) for k in range(count)
    ]


def in_process(rows: list[tuple[int, str, int, str, str | None]]) -> list[Row]:
    session = tw.Session()
    query = session.register(QUERY)
    names = ("at", "id", "sensor", "value", "note")
    session.push_rows(S, [dict(zip(names, row, strict=True)) for row in rows], mapping=MAPPING)
    session.finish(S)
    return query.poll()


def as_csv(rows: list[tuple[int, str, int, str, str | None]]) -> str:
    def cell(value: object) -> str:
        return "" if value is None else '"' + str(value).replace('"', '""') + '"'

    return "".join(
        ",".join(map(cell, row)) + "\n" for row in [("at", "id", "sensor", "value", "note"), *rows]
    )


def test_files_of_rows_have_the_answers_of_one_process_over_two_shards_and_a_restart(
    spark: Any, tmp_path: Path, checkpoint: str
) -> None:
    rows, folder = table(80), tmp_path / "in"
    folder.mkdir()
    found: list[Row] = []
    for part in (0, 40):
        (folder / f"{part:03}.csv").write_text(as_csv(rows[part : part + 40]), encoding="utf-8", newline="")
        (folder / "README.txt").write_text("not read")
        tw.spark.run_files(
            QUERY,
            {S: str(folder)},
            found.extend,
            spark=spark,
            checkpoint=checkpoint,
            options=RunOptions(mapping=MAPPING, shards=2),
        )
    expected = in_process(rows)
    assert len(expected) > 50
    assert told(found) == told(expected)


def test_columns_of_a_frame_have_the_answers_of_one_process(
    spark: Any, tmp_path: Path, checkpoint: str
) -> None:
    rows = table(60)
    start = datetime(1970, 1, 1, tzinfo=UTC)
    typed = [
        (start + timedelta(milliseconds=at), name, sensor, value, note)
        for at, name, sensor, value, note in rows
    ]
    schema = "at timestamp, id string, sensor int, value string, note string"
    spark.createDataFrame(typed, schema).coalesce(2).write.parquet(str(tmp_path / "in"))
    frame = spark.readStream.schema(schema).parquet(str(tmp_path / "in"))
    timed = tw.Mapping(MAPPING.text.replace(", format: epoch-ms", ""))
    events = tw.spark.rows(frame, mapping=timed, stream=S)
    found = answers(tw.spark.run(events, QUERY, shards=2), checkpoint)
    expected = in_process(rows)
    assert told(found) == told(expected)


def test_a_frame_that_does_not_fit_the_mapping_is_refused_with_a_sentence(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    frame = spark.readStream.schema("at long, id string, sensr int, value string, note array<int>").parquet(
        str(tmp_path / "in")
    )
    with pytest.raises(
        tw.UsageError, match="the column 'sensor', which the frame does not have: did you mean 'sensr'"
    ):
        tw.spark.rows(frame, mapping=MAPPING, stream=S)
    with pytest.raises(tw.UsageError, match="column note is array<int>"):
        tw.spark.rows(frame.withColumnRenamed("sensr", "sensor"), mapping=MAPPING, stream=S)
    timeless = tw.Mapping(MAPPING.text.replace("event: {time: $(at), format: epoch-ms}", ""))
    with pytest.raises(tw.UsageError, match="the rows of a frame need a time"):
        tw.spark.rows(frame, mapping=timeless, stream=S)
