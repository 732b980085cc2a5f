"""Feeds: the streams of a run in this process, read side by side, each from files or from a live source."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence

from thalweg.io.files import FileEvents
from thalweg.io.live import LivePieces
from thalweg.io.replay import Pace, at_arrival, sliced
from thalweg.rdf.arena import Ids
from thalweg.rdf.chunk import NO_TIME
from thalweg.rdf.events import EventBatch

_WAIT_SECONDS = 0.1
"""How long a run waits for events before it looks for signals and for the time."""


def wall_clock() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000


class Feed:
    """The batches of one stream, whether one can be taken now, and how far the stream has come."""

    def __init__(
        self,
        events: FileEvents,
        live: LivePieces | None = None,
        pace: Pace | None = None,
        arrival: Callable[[], int] | None = None,
    ) -> None:
        """`arrival` gives the present time in microseconds, which events then have."""
        self.events = events
        self.live = live
        self.clock = NO_TIME
        self.ended = False
        self._pace, self._arrival = pace, arrival
        self._held: deque[EventBatch] = deque()

    def take(self) -> EventBatch | None:
        """The next batch; None if there is none yet, or none any more (`ended`)."""
        if not self._held and not self._read():
            return None
        if self._pace is not None and self._pace.wait_for(self._held[0]) > 0:
            return None
        batch = self._held.popleft()
        if self._arrival is not None:
            batch = at_arrival(batch, self._arrival())
        self.clock = batch.clock
        return batch

    def _read(self) -> bool:
        if self.ended or (self.live is not None and not self.live.ready):
            return False
        batch = next(self.events, None)
        if batch is None:
            self.ended = True
            return False
        parts: Iterator[EventBatch] = iter([batch])
        self._held.extend(parts if self._pace is None else sliced(parts, self._pace.width))
        return True

    @property
    def seconds(self) -> float:
        """How long to wait at most before something can be taken."""
        if self._pace is None or not self._held:
            return _WAIT_SECONDS
        return min(_WAIT_SECONDS, max(0.0, self._pace.wait_for(self._held[0])))

    def live_ids(self) -> list[Ids]:
        """Ids that a compaction of the arena must keep: of open events, and of batches that wait."""
        return [self.events.live_ids(), *(ids for batch in self._held for ids in batch.rows.ids)]


class Feeds:
    """The feeds of a run: always the stream that is behind is read next."""

    def __init__(self, feeds: Sequence[Feed]) -> None:
        self.feeds = list(feeds)
        self._running = list(feeds)
        self._arrived = threading.Event()
        for feed in feeds:
            if feed.live is not None:
                feed.live.start(self._arrived.set)

    def __bool__(self) -> bool:
        return bool(self._running)

    def take(self) -> tuple[Feed, EventBatch | None] | None:
        """A feed and its next batch, or None as its batch at its end; None after a wait in which nothing came.

        A stream from files waits for one that is behind it, so that little of it waits in memory. What a live source
        brings is taken as it comes.
        """
        self._arrived.clear()
        for feed in sorted(self._running, key=lambda one: one.clock):
            batch = feed.take()
            if feed.ended:
                self._running.remove(feed)
                return feed, None
            if batch is not None:
                return feed, batch
            if feed.live is None:
                time.sleep(feed.seconds)
                return None
        self._arrived.wait(_WAIT_SECONDS)
        return None

    def stop(self) -> None:
        """Read no more."""
        for feed in self.feeds:
            if feed.live is not None:
                feed.live.stop()
