"""Clauses of sequences on Spark itself: the rows of one process, in shards, over several batches, from a checkpoint."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.property.harness import quads
from tests.spark.fakes import in_process, job_of, told
from tests.spark.test_sequences_in_shards import (
    COUNTED,
    LARGE,
    NEAR,
    ONE,
    TWICE,
    TWO,
    events,
    text,
)
from thalweg.answers import Row

pytestmark = pytest.mark.spark
STATIC = "".join(f"<http://ex/{name}> <http://ex/kind> <http://ex/k{name}> .\n" for name in "abc")


@dataclass(frozen=True)
class Case:
    """A query, and how it is run."""

    text: str
    shards: int = 1
    """How many of two shards it has."""
    derive: tuple[str, ...] = ()
    static: str | None = None
    drain: bool = True
    deletes: bool = False


def clause(sequence: str, more: str) -> str:
    return text(sequence).replace("WHERE", f"{more} WHERE", 1)


TEMPORAL = f"PREFIX : <http://ex/> SELECT * FROM STREAM <{ONE}> [RANGE 12ms] WHERE"
CASES = {
    "skip by partition": Case(clause("A ; A2+ , B?", "PARTITION BY ?x AFTER MATCH SKIP TO LAST A"), 2),
    "skip": Case(clause("A ; A2+ , B?", "AFTER MATCH SKIP PAST LAST EVENT")),
    "chronological": Case(clause("A ; B", "CONSUME CHRONOLOGICAL")),
    "recent by partition": Case(clause("A ; B", "PARTITION BY ?x CONSUME RECENT"), 2),
    "retractions": Case(clause("A ; N! ; B", "WITH RETRACTIONS"), deletes=True),
    "timed out": Case(clause("A ; B", "WITH TIMED OUT AS ?late"), 2),
    "Allen": Case(text("((A ; B) OVERLAPS (A2 ; O))"), 2),
    "at once": Case(text("A ; (A2 <> B)"), 2),
    "EP-SPARQL": Case(f"{TEMPORAL} {{ {{ ?x :p ?a }} SEQ {{ ?x :p ?b }} FILTER(?b > ?a) }}", 2),
    "EP-SPARQL, optional": Case(f"{TEMPORAL} {{ {{ ?x :p ?a }} OPTIONALSEQ {{ ?x :o ?b }} }}", 2),
    "static": Case(text("A ; B").replace("?x :p ?a }", "?x :p ?a . ?x :kind ?k }"), 2, static=STATIC),
    "until nothing": Case(text("A ; N!"), 2, drain=False),
    "sequence to sequence": Case(TWICE, derive=(NEAR,)),
    "sequence to SPARQL": Case(COUNTED, derive=(NEAR,)),
    "SPARQL to sequence": Case(TWICE, derive=(LARGE,)),
}
QUICK = ("skip by partition", "retractions")
"""Those of `make test`: each is a streaming query of its own, which takes seconds."""


def patches(stream: str, seed: int) -> list[str]:
    """Events, some of which are taken back: transactions of a patch."""
    chosen = random.Random(seed)
    found: list[str] = []
    before: list[tuple[str, ...]] = []
    for event in events(stream, seed):
        (triple,) = event.triples
        taken = chosen.choice(before[-4:]) if before and chosen.random() < 0.4 else None
        found.append(
            f'H time "{event.time // 1000}" .\nTX .\n'
            + (f"D {' '.join(taken)} .\n" if taken is not None else "")
            + f"A {' '.join(triple)} .\nTC .\n"
        )
        before.append(triple)
    return found


def files_of(case: Case, folder: Path) -> dict[str, Path]:
    """The file of each stream. A patch is read as a whole, so that it is also in two files of a folder."""
    folder.mkdir()
    paths = {}
    for seed, stream in enumerate((ONE, TWO)):
        if not any(f"<{stream}>" in one for one in (case.text, *case.derive)):
            continue
        if case.deletes:
            parts = patches(stream, seed)
            paths[stream] = folder / f"{seed}.rdfp"
            paths[stream].write_text("".join(parts))
            (folder / str(seed)).mkdir()
            for number, some in enumerate((parts[:20], parts[20:])):
                (folder / str(seed) / f"{number}.rdfp").write_text("".join(some))
        else:
            paths[stream] = folder / f"{seed}.nq"
            paths[stream].write_bytes(quads(events(stream, seed), stamp="before"))
    return paths


def started(spark: Any, case: Case, paths: dict[str, Path], folder: Path, rows: list[list[Row]]) -> Any:
    """A streaming query over the files, which adds the rows of each batch to a list."""
    import thalweg as tw
    from thalweg.spark.results import rows_of

    frames = [
        tw.spark.read(
            spark,
            str(path.with_suffix("") if case.deletes else path),
            stream=stream,
            endOfStream="true",
            settle="0",
            maxBytesPerTrigger="3k" if case.deletes else "4k",
            pieceBytes="1k",
        )
        for stream, path in paths.items()
    ]
    source = frames[0] if len(frames) == 1 else frames[0].unionByName(frames[1])
    answer = tw.spark.run(
        source, case.text, shards=2, drain=case.drain, derive=case.derive, static=case.static
    )
    return (
        answer.writeStream.foreachBatch(lambda part, _: rows.append(list(rows_of(part.toArrow()))))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )


def check(case: Case, paths: dict[str, Path], rows: list[list[Row]]) -> None:
    job = job_of(case.text, shards=2, drain=case.drain, derive=case.derive, static=case.static)
    assert job.shares.shards == case.shards
    expected = in_process(job, paths)
    assert expected
    assert told([row for batch in rows for row in batch]) == told(expected)
    assert len(rows) > 1, "there were several batches"
    assert case.drain or any(rows[:-1]), "a last negation holds when the watermark has passed its window"


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in QUICK else [pytest.mark.soak]) for name in CASES]
)
def test_a_sequence_has_the_rows_of_one_process(spark: Any, tmp_path: Path, name: str) -> None:
    case, folder = CASES[name], tmp_path / "in"
    paths = files_of(case, folder)
    rows: list[list[Row]] = []
    started(spark, case, paths, folder, rows).awaitTermination()
    check(case, paths, rows)
