"""The table of a store on Spark: Parquet files of events, and commits that say which files count.

A commit is a small file with the next number. It appears at once and as a whole, or another process has taken the
number. Files that no commit names do not count, so that a batch that is written again counts once.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from thalweg.errors import DataError, UsageError
from thalweg.instants import duration
from thalweg.rdf.arena import Arena
from thalweg.rdf.events import EventBatch
from thalweg.store.log import sync_folder
from thalweg.store.stats import History

MARKER = "_thalweg_store.json"
_COMMITS = "_commits"
_FORMAT = 1
_DAY = 86_400_000_000
FOREVER = (1 << 63) - 1
"""The end of a row after which nothing came."""
SCHEMA = pa.schema(
    [
        pa.field("stream", pa.string()),
        pa.field("time", pa.int64()),
        pa.field("op", pa.int8()),
        pa.field("s", pa.string()),
        pa.field("sid", pa.int64()),
        pa.field("p", pa.string()),
        pa.field("pid", pa.int64()),
        pa.field("o", pa.string()),
        pa.field("oid", pa.int64()),
    ]
)
"""Columns of an appended file; a compacted one also has `until`, the time of the next row of its triple."""


@dataclass(frozen=True)
class DataFile:
    """A file of rows with one predicate, and what is known of them."""

    path: str
    p: str
    rows: int
    deletes: int
    first: int
    last: int
    streams: tuple[str, ...]
    subjects: int
    """Different subjects."""
    objects: int
    closed: bool = False
    """Whether each row has its end."""


@dataclass(frozen=True)
class Frequency:
    """A row of the predicate frequency table."""

    rows: int = 0
    subjects: int = 0
    objects: int = 0
    """Different subjects and objects; of files that were appended apart, at most so many."""


@dataclass(frozen=True)
class TableStats(History):
    """How much a table holds."""

    files: int
    predicates: dict[str, Frequency]
    nbytes: int

    def lines(self) -> Iterator[str]:
        """The figures as text."""
        yield from super().lines()
        yield f"{self.nbytes:,} bytes in {self.files:,} files"
        for p, found in sorted(self.predicates.items(), key=lambda item: (-item[1].rows, item[0])):
            yield f"predicate {p}: {found.rows:,} rows, {found.subjects:,} subjects, {found.objects:,} objects"


@dataclass
class _State:
    version: int = -1
    files: dict[str, DataFile] = field(default_factory=dict)
    writers: dict[str, int] = field(default_factory=dict)
    rejects: list[str] = field(default_factory=list)
    horizon: int | None = None


class Table:
    """The files and commits of a store in a folder that the driver and the executors see under one path."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        try:
            found = json.loads((self.path / MARKER).read_bytes())
        except FileNotFoundError:
            raise UsageError(
                "there is no store on Spark here: create it with `thalweg store create --on spark`",
                source=str(path),
            ) from None
        if found.get("format") != _FORMAT:
            raise UsageError(
                f"the store has format {found.get('format')}, and this version reads {_FORMAT}",
                source=str(path),
            )
        self.bucket: int = found["bucket"]
        self._state = _State()

    @classmethod
    def create(cls, path: str | os.PathLike[str], *, bucket: int | str = "1d") -> Table:
        """The table in a folder, which is made if there is none; files have the rows of one `bucket` of time."""
        folder = Path(path)
        if not (folder / MARKER).exists():
            if folder.exists() and any(folder.iterdir()):
                raise UsageError("this folder is not empty, and it is no store on Spark", source=str(path))
            (folder / _COMMITS).mkdir(parents=True)
            width = _DAY if bucket == "1d" else duration(str(bucket))
            part = folder / f"{MARKER}.part"
            part.write_text(json.dumps({"format": _FORMAT, "bucket": max(1, width)}))
            part.replace(folder / MARKER)
            sync_folder(folder)
        return cls(folder)

    # Commits

    def refresh(self) -> _State:
        """The state after all commits that are there."""
        state = self._state
        while (path := self._commit_path(state.version + 1)).exists():
            try:
                body = json.loads(path.read_bytes())
                _apply(state, body)
            except (ValueError, KeyError, TypeError) as error:
                raise DataError(f"this is not a commit of a store: {error}", source=str(path)) from None
            state.version += 1
        return state

    def _commit_path(self, version: int) -> Path:
        return self.path / _COMMITS / f"{version:012d}.json"

    def commit(self, make: Callable[[_State], dict[str, Any] | None]) -> bool:
        """Commit what `make` makes of the present state; False if it makes nothing of it.

        Where another process commits first, `make` is asked again.
        """
        while True:
            state = self.refresh()
            body = make(state)
            if body is None:
                return False
            part = self.path / _COMMITS / f".part-{uuid.uuid4().hex}"
            with part.open("wb") as out:
                out.write(json.dumps(body).encode())
                out.flush()
                os.fsync(out.fileno())
            try:
                os.link(part, self._commit_path(state.version + 1))  # which fails if the number is taken
            except FileExistsError:
                continue
            finally:
                part.unlink()
            sync_folder(self.path / _COMMITS)
            self.refresh()
            return True

    def add(
        self,
        files: Sequence[DataFile],
        *,
        writer: str | None = None,
        number: int | None = None,
        rejects: Sequence[str] = (),
    ) -> bool:
        """Commit new files; False if the writer has already come to this number."""
        if (writer is None) != (number is None):
            raise UsageError("a writer and a number are given together: the writer numbers its batches")

        def make(state: _State) -> dict[str, Any] | None:
            if writer is not None and number is not None and number <= state.writers.get(writer, number - 1):
                return None
            return {
                "files": [asdict(file) for file in files],
                "writers": {} if writer is None else {writer: number},
                "rejects": list(rejects),
            }

        return self.commit(make)

    def replace_files(
        self, old: Iterable[str], new: Sequence[DataFile], *, horizon: int | None = None
    ) -> bool:
        """Commit that new files have what old ones had; False if some of the old ones are gone."""
        gone = list(old)
        body = {"dropped": gone, "files": [asdict(file) for file in new], "horizon": horizon}
        return self.commit(lambda state: body if all(path in state.files for path in gone) else None)

    def position(self, writer: str) -> int | None:
        """The number that a writer has come to, or None if it has written nothing."""
        return self.refresh().writers.get(writer)

    # Rows

    def append(
        self,
        batch: EventBatch,
        arena: Arena,
        *,
        writer: str | None = None,
        number: int | None = None,
        rescope: bool = False,
    ) -> bool:
        """Keep the events of a batch, as `Store.append` does."""
        reached = None if writer is None else self.position(writer)
        if reached is not None and number is not None and number <= reached:
            return False
        rows = batch.rows[batch.rows.s != 0]
        s, o = rows.s.copy(), rows.o.copy()
        if rescope:
            scopes = np.full(len(rows), uuid.uuid4().int & (1 << 62) - 1, np.int64)
            arena.rescope(s, scopes)
            arena.rescope(o, scopes)
        terms = {
            name: (arena.texts(ids), arena.keys(ids)) for name, ids in (("s", s), ("p", rows.p), ("o", o))
        }
        columns = {"stream": [batch.stream] * len(rows), "time": rows.time, "op": rows.op.astype(np.int8)}
        for name, (texts, ids) in terms.items():
            columns |= {name: texts, f"{name}id": ids}
        table = pa.table({field.name: pa.array(columns[field.name], field.type) for field in SCHEMA})
        files = self._written(table, rows.p, rows.time // self.bucket)
        return self.add(files, writer=writer, number=number)

    def _written(self, table: pa.Table, predicate: Any, bucket: Any) -> list[DataFile]:
        folder = f"data/{uuid.uuid4().hex}"
        found = []
        pairs = np.stack([predicate, bucket], axis=1).reshape(-1, 2)
        kinds, inverse = np.unique(pairs, axis=0, return_inverse=True)
        for k in range(len(kinds)):
            part = table.filter(pa.array(inverse.ravel() == k))
            name = f"{folder}/{k:05d}.parquet"
            (self.path / folder).mkdir(parents=True, exist_ok=True)
            pq.write_table(part, self.path / name, compression="zstd")
            with (self.path / name).open("rb") as written:
                os.fsync(written.fileno())
            found.append(describe(name, part))
        if found:
            sync_folder(self.path / folder)
        return found

    def described(self, folder: str, *, closed: bool = False) -> tuple[list[DataFile], list[str]]:
        """The files of rows, and those of rejects, that Spark has written to a folder."""
        files, rejects = [], []
        for path in sorted((self.path / folder).rglob("*.parquet")):
            name = str(path.relative_to(self.path))
            table = pq.read_table(
                path, columns=["stream", "time", "op", "p", "sid", "oid"], partitioning=None
            )
            if table.num_rows and table.column("p").null_count:
                rejects.append(name)
            elif table.num_rows:
                files.append(replace(describe(name, table), closed=closed))
        return files, rejects

    def frequencies(self) -> dict[str, Frequency]:
        """The predicate frequency table."""
        found: dict[str, Frequency] = {}
        for file in self.refresh().files.values():
            had = found.get(file.p, Frequency())
            found[file.p] = Frequency(
                had.rows + file.rows, had.subjects + file.subjects, had.objects + file.objects
            )
        return found

    def stats(self) -> TableStats:
        """How much the table holds."""
        state = self.refresh()
        files = state.files.values()
        return TableStats(
            rows=sum(file.rows for file in files),
            deletes=sum(file.deletes for file in files),
            files=len(files),
            first=min((file.first for file in files), default=None),
            last=max((file.last for file in files), default=None),
            horizon=state.horizon,
            predicates=self.frequencies(),
            nbytes=sum((self.path / file.path).stat().st_size for file in files),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        return None


def describe(name: str, table: pa.Table) -> DataFile:
    """What is known of the rows of a file, which have one predicate."""
    times = table.column("time").to_numpy()
    return DataFile(
        path=name,
        p=table.column("p")[0].as_py(),
        rows=table.num_rows,
        deletes=int(np.count_nonzero(table.column("op").to_numpy() < 0)),
        first=int(times.min()),
        last=int(times.max()),
        streams=tuple(sorted(table.column("stream").unique().to_pylist())),
        subjects=len(np.unique(table.column("sid").to_numpy())),
        objects=len(np.unique(table.column("oid").to_numpy())),
    )


def _apply(state: _State, body: dict[str, Any]) -> None:
    for path in body.get("dropped", ()):
        state.files.pop(path, None)
    for entry in body["files"]:
        file = DataFile(**{**entry, "streams": tuple(entry["streams"])})
        state.files[file.path] = file
    for writer, number in body.get("writers", {}).items():
        state.writers[writer] = max(number, state.writers.get(writer, number))
    state.rejects += body.get("rejects", ())
    if body.get("horizon") is not None:
        state.horizon = body["horizon"]
