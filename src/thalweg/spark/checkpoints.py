"""Of which run a checkpoint is: a file beside Spark's own, which is looked at before Spark is started."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from thalweg.errors import UsageError
from thalweg.io.job import Job
from thalweg.io.live import is_live
from thalweg.spark.sampling import SIZES

FORMAT = 1
NAME = "thalweg-run.json"
_LOCK = "thalweg.lock"
_SPARKS = ("offsets", "commits", "metadata", "sources", "state")
_NEW = "start with a new checkpoint directory"


@dataclass(frozen=True)
class Fingerprint:
    """What decides the answers of a run over files."""

    query: str
    """A digest of the text, and of those of queries that derive streams."""
    options: Mapping[str, Any]
    """As the command line names them."""
    streams: Mapping[str, Mapping[str, Any]]
    """The path of each stream, and whether it is a folder, in the order that Spark has for them."""
    shards: int
    static: str = ""
    """A digest of the static data."""
    job: str = ""
    """A digest of all that every task needs, the plan of the query included."""
    format: int = field(default=FORMAT)

    @classmethod
    def of(cls, job: Job, shards: int, digest: str = "") -> Fingerprint:
        """The fingerprint of a run of the command line."""
        given = job.options
        options = {
            "--format": given.format,
            "--per-event": given.per_event,
            "--rate": given.rate,
            "--blank-nodes": given.blank_nodes,
            "--time-predicate": given.time_predicate,
            "--lateness": f"{given.lateness_us / 1000:g} ms",
            "--drain": given.drain,
        }
        if job.query.schema is not None:
            options["--schema"] = f"digest {job.query.schema.digest[:12]}"
        streams = {stream: _place(path) for stream, path in job.inputs.items()}
        texts = [job.query.text, *(producer.text for producer in job.derive)]
        text = hashlib.sha256(json.dumps(texts).encode()).hexdigest()
        return cls(text, options, streams, shards, job.static.fingerprint, digest)

    def differences(self, other: Fingerprint) -> Iterator[str]:
        """What another run has otherwise, in words."""
        if self.query != other.query:
            yield "of another query"
        if set(self.streams) != set(other.streams):
            yield f"of a run over {_named(self.streams)}, and this is one over {_named(other.streams)}"
        for stream in self.streams.keys() & other.streams.keys():
            was, now = self.streams[stream], other.streams[stream]
            # Files of a folder are known by their names in it, others by their whole paths.
            if was["folder"] != now["folder"] or (was["folder"] and was["path"] != now["path"]):
                yield f"of a run that read <{stream}> from {was['path']}, not from {now['path']}"
        for name in self.options.keys() | other.options.keys():
            if self.options.get(name) != other.options.get(name):
                given = (_given(name, options.get(name)) for options in (self.options, other.options))
                yield "of a run {}, and this is one {}".format(*given)
        if self.static != other.static:
            yield "of a run {}, and this is one {}".format(*map(_with_static, (self.static, other.static)))
        if self.shards != other.shards:
            yield f"of a run with --shards {self.shards}, and this is one with --shards {other.shards}"

    def require(self, other: Fingerprint, folder: Path) -> None:
        """Refuse a run that this checkpoint is not of."""
        for difference in sorted(self.differences(other)):
            raise UsageError(f"the checkpoint is {difference}: {_NEW}", source=str(folder))
        if self.job and other.job and self.job != other.job:
            raise UsageError(
                f"the checkpoint is of another plan of this query, made by another version of Thalweg: {_NEW}",
                source=str(folder),
            )

    def write(self, folder: Path) -> None:
        """Put the fingerprint into a checkpoint directory."""
        replace_file(folder / NAME, json.dumps(asdict(self), indent=1).encode() + b"\n")


def read(folder: Path) -> Fingerprint | None:
    """The fingerprint of a checkpoint; None where there is nothing yet, or a checkpoint without one.

    A directory with other files in it is refused, and so is a fingerprint that cannot be read.
    """
    if not folder.exists():
        return None
    if not folder.is_dir():
        raise UsageError("the checkpoint is a directory, and this is a file", source=str(folder))
    file = folder / NAME
    if not file.exists():
        others = [name for name in os.listdir(folder) if not name.startswith((".", "thalweg"))]
        if others and not set(_SPARKS) & set(others):
            raise UsageError(
                f"the directory holds other files ({min(others)}) and no checkpoint: name a new or empty one",
                source=str(folder),
            )
        return None
    try:
        values = json.loads(file.read_bytes())
        if values["format"] == FORMAT:
            found = Fingerprint(**values)
            found.require(found, folder)
            return found
        reason = f"has format {values['format']}, and this is format {FORMAT}"
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        reason = "cannot be read"
    raise UsageError(f"the record of the run {reason}: {_NEW}", source=str(file))


def has_begun(folder: Path) -> bool:
    """Whether a run has left something in a checkpoint directory to go on from."""
    return (folder / NAME).exists() or any((folder / "commits").glob("[0-9]*"))


def has_planned(folder: Path) -> bool:
    """Whether Spark has planned a batch of the run."""
    return any((folder / "offsets").glob("[0-9]*"))


def forget(folder: Path) -> None:
    """Take back what was noted of a run that has done nothing."""
    for name in (NAME, SIZES):
        (folder / name).unlink(missing_ok=True)


@contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """Keep a checkpoint to this run, for as long as it lives; refuse one that another run has."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise UsageError(
            f"the checkpoint cannot be written: {error.strerror or error}", source=str(folder)
        ) from None
    try:
        _lock(lock, folder)
        yield
    finally:
        os.close(lock)


def _lock(number: int, folder: Path) -> None:
    try:
        import fcntl
    except ImportError:  # not on this system: two runs are then not kept apart
        return
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise UsageError("another run uses this checkpoint", source=str(folder)) from None
    except OSError:  # a file system without locks
        return


def replace_file(path: Path, data: bytes) -> None:
    """Write a file such that, whatever happens, it has its old content or the new one."""
    draft = path.with_name(f".{path.name}.draft")
    with draft.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def _place(path: str) -> dict[str, Any]:
    return {"path": path if is_live(path) else os.path.realpath(path), "folder": os.path.isdir(path)}


def _named(streams: Mapping[str, Any]) -> str:
    return ", ".join(f"<{stream}>" for stream in streams)


def _with_static(digest: str) -> str:
    return f"with static data of digest {digest[:12]}" if digest else "without static data"


def _given(name: str, value: Any) -> str:
    if value is None or value is False:
        return f"without {name}"
    return f"with {name}" if value is True else f"with {name} {value}"
