"""The service with its queries on Spark: the log, the journal that is made of it, and one streaming query over that."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from pyspark.sql import SparkSession

from thalweg.errors import DataError, UsageError
from thalweg.options import RunOptions
from thalweg.server.errors import ClosedError, TooMuchError, UnsupportedError
from thalweg.server.log import SPARK, Folder
from thalweg.server.requests import Request
from thalweg.server.service import Limits, Service, wall_clock
from thalweg.server.state import Settings, State
from thalweg.spark.checkpoints import replace_file
from thalweg.spark.encode import CHUNK_SCHEMA
from thalweg.spark.journal import (
    Journal,
    JournalSource,
    committed,
    end_of_batch,
    journal_encoder,
)
from thalweg.spark.queries import MOMENT, Delivery, reason_of
from thalweg.spark.query_sets import answers_of
from thalweg.spark.quiet import mute
from thalweg.spark.service_state import JobState, Progress, rows_by_query
from thalweg.spark.sessions import cores_here, require_java, session
from thalweg.spark.set_plan import SetPlan
from thalweg.spark.static_files import sent
from thalweg.static.data import StaticData
from thalweg.static.shipping import StaticFiles

logger = logging.getLogger("thalweg.server")
_EVERY = "100 milliseconds"
"""How often the journal is looked at. A batch takes longer."""
_RETRY_SECONDS = 0.05
_STARTS = 3
"""How often a job is started at most, if it has no batch: on a busy machine Spark waits in vain for its workers."""


@dataclass(frozen=True)
class JobSettings:
    """What the answers of a data folder depend on, beside what has come: it stays as it was at the first start."""

    shards: int
    lateness: str
    static: str = ""
    """A digest of the static data."""

    @classmethod
    def kept(cls, folder: Path, shards: int | None, lateness: int | str, static: StaticData) -> JobSettings:
        """The settings of a folder. Those of a new one are noted; others than those of an old one are refused."""
        span = f"{RunOptions(lateness=lateness).lateness_us}us"
        path = folder / "settings.json"
        if not path.exists():
            made = cls(shards or cores_here(), span, static.fingerprint if static else "")
            folder.mkdir(parents=True, exist_ok=True)
            replace_file(path, json.dumps(asdict(made)).encode() + b"\n")
            return made
        try:
            found = cls(**json.loads(path.read_bytes()))
        except (OSError, ValueError, TypeError):
            raise DataError("the settings of the job cannot be read", source=str(path)) from None
        if shards is not None and shards != found.shards:
            raise UsageError(
                f"the data folder was made with --shards {found.shards}: give that, or another folder",
                source=str(folder.parent),
            )
        if (static.fingerprint if static else "") != found.static:
            having = "other" if static and found.static else "no" if static else "some"
            raise UsageError(
                f"the data folder was made with {having} static data: give the same --static, or another folder",
                source=str(folder.parent),
            )
        return found


class SparkService(Service):
    """A service whose queries are one streaming query of Spark, in a session of this process."""

    state: JobState  # type: ignore[assignment]

    def __init__(
        self,
        path: Path,
        *,
        settings: Settings | None = None,
        limits: Limits | None = None,
        clock: Callable[[], int] = wall_clock,
        snapshot_bytes: int = 64 << 20,
        static: StaticData | None = None,
        shards: int | None = None,
        spark: Callable[[int], SparkSession] | None = None,
    ) -> None:
        """`static` are static data for all queries. `spark` makes a session for a number of shards."""
        require_java()
        given = settings or Settings()
        data = static or StaticData()
        self._work = path / "spark"

        def state(settings: Settings, clock: Callable[[], int], saved: bytes | None) -> State:
            # The folder is ours from here on.
            self._job_settings = JobSettings.kept(self._work, shards, settings.lateness, data)
            if not hasattr(self, "_journal"):  # a state that is made anew goes on with it
                self._journal = Journal(self._work / "journal")
            kept = Settings(self._job_settings.lateness, settings.buffer, settings.threads)
            return JobState(kept, clock, saved, journal=self._journal, static=data, progress=self._progress)

        self._progress = Progress()
        self.batches = 0
        self._owns_spark = spark is None
        self._number = -1
        self._stopping = False
        super().__init__(
            path,
            settings=given,
            limits=limits,
            clock=clock,
            snapshot_bytes=snapshot_bytes,
            folder=partial(Folder, engine=SPARK),
            state=state,
        )
        try:
            self._check_checkpoint()
            self._spark = (spark or _local_spark)(self._job_settings.shards)
            self._start(data)
        except BaseException:
            self._stopping = True
            super().close()
            self._journal.close()
            raise

    @property
    def _checkpoint(self) -> Path:
        return self._work / "checkpoint"

    def _check_checkpoint(self) -> None:
        """Refuses a checkpoint that is behind the log: its batches would be numbered anew."""
        here, there = self.state.counters["batch"], committed(self._checkpoint)
        if there < here - 1:
            raise DataError(
                f"the checkpoint of the job ends with batch {there} and the log with {here}: restore the data folder "
                "from a copy",
                source=str(self._checkpoint),
            )
        place = end_of_batch(self._checkpoint, there) if there >= 0 else None
        self._progress.reached = 0 if place is None else place.number

    def _start(self, static: StaticData) -> None:
        spark = self._spark
        spark.dataSource.register(JournalSource)
        plan = SetPlan(
            RunOptions(shards=self._job_settings.shards, lateness=self._job_settings.lateness),
            static=sent(static, spark) if static else StaticFiles(),
        )
        parts = spark.readStream.format(JournalSource.name()).load(str(self._work / "journal"))
        answers = answers_of(parts.mapInArrow(journal_encoder(plan.keys), CHUNK_SCHEMA), plan)
        self._delivery = Delivery(self._deliver, self._around, rows_by_query)
        writer = answers.writeStream.foreachBatch(self._delivery).trigger(processingTime=_EVERY)
        self._writer = writer.option("checkpointLocation", str(self._checkpoint))
        self._query = self._writer.start()
        self._watcher = threading.Thread(target=self._watch, name="thalweg-job", daemon=True)
        self._watcher.start()

    # Batches of the job

    @contextmanager
    def _around(self, batch: int) -> Iterator[None]:
        self._number = batch
        yield
        place = end_of_batch(self._checkpoint, batch)
        if place is not None:
            self._progress.reached = place.number
        self.batches += 1
        before = end_of_batch(self._checkpoint, batch - 1)
        if (
            before is not None
        ):  # the batch before is committed: none that is run again needs more than from its end on
            self._journal.forget(before.file)

    def _deliver(self, body: bytes) -> None:
        """Has the rows of a batch logged and published, before Spark notes that it is done."""
        if not body:
            return
        operation = {"kind": "batch", "batch": self._number}
        while True:
            try:
                self.submit(operation, body).result()
                return
            except TooMuchError:  # events wait: the rows of those before them must not
                time.sleep(_RETRY_SECONDS)

    def _watch(self) -> None:
        """Waits for the end of the job. One that ends before its first batch is started again, some times."""
        for attempt in range(_STARTS):
            try:
                if attempt:
                    self._query = self._writer.start()
                self._query.awaitTermination()
                reason = "it was stopped"
            except Exception as failure:
                reason = str(reason_of(failure))
            if self._stopping:
                return
            logger.critical("job failed", extra={"reason": reason})
            if self.batches:
                break
        self.failure = f"the job on Spark has ended: {reason}; restart the server"
        self._progress.failure = self.failure

    # What the job cannot do is refused before it is logged

    def _ask_operation(self, request: Request) -> None:
        if self.failure is not None:
            raise ClosedError(self.failure)
        operation = request.operation
        if operation["kind"] == "load":
            raise UnsupportedError("on Spark, static data are given at the start: thalweg serve --static")
        if operation["kind"] == "stream" and operation["retention"] is not None:
            raise UnsupportedError("on Spark, streams retain nothing: leave `retention` out")
        if operation["kind"] == "stream" and operation.get("keep"):
            raise UnsupportedError("on Spark, the service keeps no events: leave `keep` out")
        super()._ask_operation(request)

    def metrics(self) -> list[tuple[str, str, str, float]]:
        """Metrics of the job."""
        return [
            ("job_batches_total", "counter", "Batches of the job on Spark since the start", self.batches),
            ("job_waiting", "gauge", "Operations that the job has not seen", self.state.waiting),
            ("job_running", "gauge", "Whether the job runs", float(self.failure is None)),
        ]

    def close(self) -> None:
        """Stops the job after the batch that is being delivered, and then does what all services do."""
        if self._stopping:
            return
        self._stopping = True
        mute()
        self._delivery.close()
        threading.Timer(MOMENT, self._delivery.stopping.set).start()
        _ended(self._query.stop)
        self._watcher.join(10)
        super().close()
        self._journal.close()
        if self._owns_spark:
            _ended(self._spark.stop)


def _local_spark(shards: int) -> SparkSession:
    return session("thalweg-serve", shards=shards)


def _ended(stop: Callable[[], None]) -> None:
    """Stops a part of Spark. Java may be gone: the log has everything."""
    try:
        stop()
    except Exception as failure:
        logger.error("spark", extra={"reason": (str(failure) or repr(failure)).splitlines()[0]})
