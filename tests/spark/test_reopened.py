"""A finished run that goes on: what is new in its files is read, and answered as if it had been there at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.spark.fakes import Play, in_process_with_late, job_of, new_worker, timed_graph, told
from thalweg.errors import UsageError
from thalweg.options import RunOptions
from thalweg.spark.encode import encode_piece
from thalweg.spark.shard_plan import ShardPlan
from thalweg.spark.source import RdfStreamReader, SourceOptions

S, T = "http://ex/s", "http://ex/t"
CHAIN = "SELECT ?x ?z FROM STREAM <{s}> [RANGE {r}] WHERE {{ ?x <http://ex/p> ?y . ?y <http://ex/p> ?z }}"
TWO = (
    f"SELECT ?x ?y ?z FROM NAMED WINDOW <w> ON <{S}> [RANGE 8] FROM NAMED WINDOW <v> ON <{T}> [RANGE 8] "
    "WHERE { WINDOW <w> { ?x <http://ex/p> ?y } WINDOW <v> { ?y <http://ex/p> ?z } }"
)


def chain(first: int, last: int) -> bytes:
    return b"".join(
        b"<http://ex/n%d> <http://ex/p> <http://ex/n%d> .\n" % (k * k % 31, k * 7 % 29)
        for k in range(first, last)
    )


def graphs(first: int, last: int) -> bytes:
    """Graphs of one edge each, a millisecond apart, their times before or after them."""
    return b"".join(
        b"".join(
            [
                b'<http://ex/g%d> <http://www.w3.org/ns/prov#generatedAtTime> "%d" .\n' % (k, k),
                b"<http://ex/n%d> <http://ex/p> <http://ex/n%d> <http://ex/g%d> .\n" % (k % 7, k * 3 % 7, k),
            ][:: 1 if k % 3 else -1]
        )
        for k in range(first, last)
    )


class Run:
    """Runs over the files of folders, one after the other on one state, as a checkpoint makes them go on."""

    def __init__(self, job: ShardPlan, folders: dict[str, Path], **options: str) -> None:
        self.play = Play(job)
        self.job, self.folders, self.options = job, folders, options
        self.offsets: dict[str, dict[str, Any]] = {}
        self.batches = 0

    def to_the_end(self, *, restart: bool = True, **options: str) -> int:
        """A run of its own process; the number of its batches."""
        if restart:
            new_worker()
        readers = {
            stream: RdfStreamReader(
                SourceOptions.of({"path": str(folder), "stream": stream, **self.options, **options})
            )
            for stream, folder in self.folders.items()
        }
        for reader in readers.values():
            reader.prepareForTriggerAvailableNow()
        batches = 0
        while chunks := self._next(readers):
            self.play.batch(chunks, retry=batches % 2 == 1)
            batches += 1
        return batches

    def _next(self, readers: dict[str, RdfStreamReader]) -> list[Any]:
        chunks = []
        for stream, reader in readers.items():
            start = self.offsets.get(stream, reader.initialOffset())
            end = reader.latestOffset(start, reader.getDefaultReadLimit())
            shares = reader.partitions(start, end) if end != start else []
            self.offsets[stream] = end
            rows = [row for share in shares for row in reader.read(share)]
            names = ("stream", "path", "source", "start", "end", "seq", "syntax", "last")
            for row in rows:
                chunks += list(encode_piece(self.job.reading, dict(zip(names, row, strict=True))))
        return chunks


def finite(job: ShardPlan, folders: dict[str, Path], **options: str) -> Run:
    return Run(job, folders, endOfStream="true", **options)


@pytest.mark.parametrize("shards", [1, 2])
@pytest.mark.parametrize("limit", ["none", "700"])
@pytest.mark.parametrize("restart", [True, False])
@pytest.mark.parametrize(("kind", "made"), [("nt", chain), ("nq", graphs)])
def test_a_run_that_goes_on_with_new_files_answers_as_one_run_over_all_of_them(
    tmp_path: Path, shards: int, limit: str, restart: bool, kind: str, made: Any
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    job = job_of(CHAIN.format(s=S, r=20), shards=shards)
    assert job.reading.router.shares.shards == shards
    run = finite(job, {S: folder}, maxBytesPerTrigger=limit)
    (folder / f"a.{kind}").write_bytes(made(0, 40))
    assert run.to_the_end()
    assert run.to_the_end(restart=restart) == 0, "nothing is new"
    with (folder / f"a.{kind}").open("ab") as more:
        more.write(made(40, 55))
    assert run.to_the_end(restart=restart)
    (folder / f"b.{kind}").write_bytes(made(55, 90))
    (folder / f"empty.{kind}").write_bytes(b"")
    assert run.to_the_end(restart=restart)
    assert run.to_the_end(restart=restart) == 0
    whole = tmp_path / f"whole.{kind}"
    whole.write_bytes(made(0, 90))
    rows, late = in_process_with_late(job, {S: whole})
    assert told(run.play.rows) == told(rows)
    assert late == run.play.counts["late"] == run.play.counts["rejected"] == 0
    assert run.play.counts["events"] == 90


@pytest.mark.parametrize("shards", [1, 2])
@pytest.mark.parametrize("restart", [True, False])
def test_streams_that_go_on_together_wait_for_each_other(tmp_path: Path, shards: int, restart: bool) -> None:
    folders = {S: tmp_path / "s", T: tmp_path / "t"}
    job = job_of(TWO, shards=shards)
    run = finite(job, folders, maxBytesPerTrigger="400")
    cuts = {S: (0, 12, 50), T: (0, 17, 40)}
    for part in range(2):
        for stream, folder in folders.items():
            folder.mkdir(exist_ok=True)
            (folder / f"{part}.nt").write_bytes(chain(*cuts[stream][part : part + 2]))
        assert run.to_the_end(restart=restart)
    whole = {}
    for stream, folder in folders.items():
        # The second part of <s> begins at 12 ms, and the first of <t> has brought time to 16 ms.
        whole[stream] = folder.with_suffix(".nt")
        whole[stream].write_bytes(chain(0, cuts[stream][2]))
    assert run.play.counts["late"] == 5
    rows, _ = in_process_with_late(job, whole)
    expected = [row for row in rows if row.at >= 24_000]
    assert expected
    assert told([row for row in run.play.rows if row.at >= 24_000]) == told(expected)


def ended_streams(folder: Path) -> tuple[dict[str, Path], Run]:
    """A run over two streams of ten events each that has come to its end, and their folders."""
    folders = {S: folder / "s", T: folder / "t"}
    run = finite(job_of(TWO), folders)
    for own in folders.values():
        own.mkdir()
        (own / "a.nt").write_bytes(chain(0, 10))
    run.to_the_end()
    return folders, run


def test_a_stream_that_goes_on_alone_leaves_what_comes_behind_it_late(tmp_path: Path) -> None:
    folders, run = ended_streams(tmp_path)
    (folders[S] / "b.nt").write_bytes(chain(10, 100))
    run.to_the_end()
    before = len(run.play.rows)
    (folders[T] / "b.nt").write_bytes(chain(10, 110))
    run.to_the_end()
    assert run.play.counts["late"] == 90
    assert run.play.counts["events"] == 210
    assert all(row.at >= 99_000 for row in run.play.rows[before:])


def test_an_end_ends_the_last_event_also_a_short_one(tmp_path: Path) -> None:
    (tmp_path / "a.nt").write_bytes(chain(0, 5))
    job = job_of(CHAIN.format(s=S, r=20), RunOptions(per_event=2))
    run = finite(job, {S: tmp_path})
    run.to_the_end()
    (tmp_path / "b.nt").write_bytes(chain(5, 9))
    run.to_the_end()
    assert run.play.counts.items() >= {"events": 5, "late": 0, "rejected": 0}.items()


def test_after_a_drain_what_is_before_the_time_that_it_reached_is_late(tmp_path: Path) -> None:
    (tmp_path / "a.nq").write_bytes(graphs(0, 10))
    run = finite(job_of(CHAIN.format(s=S, r=20), drain=True), {S: tmp_path})
    run.to_the_end()
    done = told(run.play.rows)
    (tmp_path / "b.nq").write_bytes(graphs(10, 25))
    run.to_the_end()
    assert run.play.counts["late"] == 15, "time ran on to 29 ms, and then to 45"
    assert told(run.play.rows) == done
    (tmp_path / "c.nq").write_bytes(graphs(46, 60))
    run.to_the_end()
    assert run.play.counts["late"] == 15
    alone = tmp_path / "alone"
    alone.mkdir()
    (alone / "c.nq").write_bytes(graphs(46, 60))
    again = finite(job_of(CHAIN.format(s=S, r=20), drain=True), {S: alone})
    again.to_the_end()
    assert told(run.play.rows) == sorted(done + told(again.play.rows))


def test_a_session_that_was_saved_at_the_end_of_its_stream_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("thalweg.spark.shard_engine._FULL", 20)
    monkeypatch.setattr("thalweg.spark.shard_engine._SPARSE", 1)
    text = (
        f"SELECT ?x ?z FROM STREAM <{S}> [TRIPLES 10] WHERE {{ ?x <http://ex/p> ?y . ?y <http://ex/p> ?z }}"
    )
    run = finite(job_of(text), {S: tmp_path})
    (tmp_path / "a.nt").write_bytes(chain(0, 40))
    run.to_the_end()
    assert [entry.mode for entry in run.play.entries().values()] == ["saved"]
    for part in range(2):
        (tmp_path / f"b{part}.nt").write_bytes(chain(40 + 8 * part, 48 + 8 * part))
        run.to_the_end()
    whole = tmp_path / "whole"
    whole.mkdir()
    (whole / "a.nt").write_bytes(chain(0, 56))
    rows, _ = in_process_with_late(run.job, {S: whole / "a.nt"})
    assert told(run.play.rows) == told(rows)


def test_a_run_that_ended_can_be_followed_and_its_streams_wait_for_each_other(tmp_path: Path) -> None:
    folders, run = ended_streams(tmp_path)
    run.options = {"settle": "0"}
    assert run.to_the_end() == 1, "both streams are reopened at once"
    assert run.to_the_end() == 0
    (folders[S] / "b.nt").write_bytes(chain(10, 30))
    run.to_the_end()
    (folders[T] / "b.nt").write_bytes(chain(10, 30))
    run.to_the_end()
    assert run.play.counts["late"] == 0
    assert run.play.positions().ended == []


def test_a_gzipped_file_that_grew_is_not_read_twice(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    import gzip

    file = tmp_path / "a.nt.gz"
    file.write_bytes(gzip.compress(chain(0, 5)))
    run = finite(job_of(CHAIN.format(s=S, r=20)), {S: tmp_path})
    run.to_the_end()
    with file.open("ab") as more:
        more.write(gzip.compress(chain(5, 9)))
    assert run.to_the_end() == 0
    assert run.play.counts["events"] == 5
    assert capfd.readouterr().err.count("a.nt.gz has grown and is not read again") == 1


def test_a_graph_without_a_time_is_refused_at_the_end_and_what_is_said_later_changes_nothing(
    tmp_path: Path,
) -> None:
    file = tmp_path / "a.nq"
    file.write_bytes(graphs(0, 3) + timed_graph(3, 3).encode().splitlines(keepends=True)[1])
    run = finite(job_of(CHAIN.format(s=S, r=20)), {S: tmp_path})
    run.to_the_end()
    assert run.play.counts["rejected"] == 1
    with file.open("ab") as more:
        more.write(timed_graph(3, 3).encode().splitlines(keepends=True)[0] + graphs(4, 6))
    run.to_the_end()
    assert run.play.counts.items() >= {"events": 5, "late": 0, "rejected": 1}.items()


DERIVE = (
    "REGISTER ISTREAM <http://ex/d> AS CONSTRUCT { ?x <http://ex/q> ?z } FROM NAMED WINDOW <w> ON <http://ex/s> "
    "[RANGE 20] WHERE { WINDOW <w> { ?x <http://ex/p> ?y . ?y <http://ex/p> ?z } }"
)
READ = (
    "SELECT ?x ?z FROM NAMED WINDOW <v> ON <http://ex/d> [RANGE 9] "
    "WHERE { WINDOW <v> { ?x <http://ex/q> ?y . ?y <http://ex/q> ?z } }"
)


@pytest.mark.parametrize("restart", [True, False])
@pytest.mark.parametrize("limit", ["none", "700"])
def test_a_derived_stream_goes_on_with_the_stream_that_it_is_made_of(
    tmp_path: Path, restart: bool, limit: str
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    job = job_of(READ, derive=[DERIVE])
    run = finite(job, {S: folder}, maxBytesPerTrigger=limit)
    for number, (first, last) in enumerate([(0, 40), (40, 55), (55, 120)]):
        (folder / f"{number}.nt").write_bytes(chain(first, last))
        assert run.to_the_end(restart=restart)
    whole = tmp_path / "whole.nt"
    whole.write_bytes(chain(0, 120))
    rows, _ = in_process_with_late(job, {S: whole})
    assert told(run.play.rows) == told(rows)
    assert rows


def test_a_derived_stream_that_its_reader_has_left_behind_does_not_go_on(tmp_path: Path) -> None:
    folders = {S: tmp_path / "s", T: tmp_path / "t"}
    text = READ.replace(
        "WHERE {", f"FROM NAMED WINDOW <w> ON <{T}> [RANGE 9] WHERE {{ WINDOW <w> {{ ?a ?b ?c }}"
    )
    run = finite(job_of(text, derive=[DERIVE]), folders)
    for folder, last in zip(folders.values(), (10, 100), strict=True):
        folder.mkdir()
        (folder / "a.nt").write_bytes(chain(0, last))
    run.to_the_end()
    (folders[S] / "b.nt").write_bytes(chain(10, 20))
    with pytest.raises(UsageError, match="<http://ex/d> cannot go on after its end"):
        run.to_the_end()
