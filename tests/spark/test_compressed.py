"""Compressed documents on Spark: the answers of one process, over shards and a restart."""

from __future__ import annotations

import bz2
import gzip
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import thalweg as tw
from tests.spark.fakes import told
from thalweg.answers import Row
from thalweg.io.files import read_events
from thalweg.options import RunOptions

pytestmark = [pytest.mark.spark, pytest.mark.soak]
S, EX = "http://ex/s", "http://ex/"
QUERY = f"SELECT * FROM STREAM <{S}> [RANGE 100s] {{ ?x <{EX}p> ?y . ?y <{EX}p> ?z }}"
PACKERS = {
    ".gz": gzip.compress,
    ".zst": lambda data: pa.compress(data, codec="zstd", asbytes=True),
    ".bz2": bz2.compress,
}


def document(first: int, last: int) -> bytes:
    """A chain of nodes as Turtle with a prefix and blank nodes."""
    pairs = "".join(f":n{k} :p :n{k + 1} , [ :q {k} ] .\n" for k in range(first, last))
    return f"@prefix : <{EX}> .\n{pairs}".encode()


def test_compressed_documents_are_events_over_two_shards_and_a_restart(
    spark: Any, tmp_path: Path, checkpoint: str
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    found: list[Row] = []
    for number, (suffix, pack) in enumerate(PACKERS.items()):
        (folder / f"{number}.ttl{suffix}").write_bytes(pack(document(5 * number, 5 * number + 5)))
        tw.spark.run_files(
            QUERY,
            {S: str(folder)},
            found.extend,
            spark=spark,
            checkpoint=checkpoint,
            options=RunOptions(shards=2),
        )
    session = tw.Session()
    query = session.register(QUERY)
    for batch in read_events(sorted(folder.iterdir()), S, session.arena, session.prune, RunOptions()):
        session.push_events(batch)
    assert told(found) == told(query.poll())
    assert len(found) == 28, "an edge of the chain and what follows it: the next node, or a blank one"
