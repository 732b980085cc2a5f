"""A store on Spark for the command line: it starts Spark only where a command needs it."""

from __future__ import annotations

from pathlib import Path

from thalweg.instants import Time
from thalweg.rdf.arena import Arena
from thalweg.rdf.events import EventBatch
from thalweg.spark.store_order import OrderExplanation
from thalweg.spark.store_table import Table, TableStats
from thalweg.store.evaluating import parsed
from thalweg.store.printing import Solutions
from thalweg.store.store import AsOf


class Opened:
    """The store of a command. Appending and statistics need no Java."""

    def __init__(self, path: Path) -> None:
        self.table = Table(path)

    def __enter__(self) -> Opened:
        return self

    def __exit__(self, *failure: object) -> None:
        return None

    def position(self, writer: str) -> int | None:
        """The number that a writer has come to."""
        return self.table.position(writer)

    def append(
        self,
        batch: EventBatch,
        arena: Arena,
        *,
        writer: str | None = None,
        number: int | None = None,
        rescope: bool = False,
    ) -> bool:
        """Keep the events of a batch."""
        return self.table.append(batch, arena, writer=writer, number=number, rescope=rescope)

    def stats(self) -> TableStats:
        """How much the store holds."""
        return self.table.stats()

    def ask(self, text: str, *, as_of: AsOf | None = None) -> Solutions:
        """The answer of a query."""
        from thalweg.spark.store_handle import SparkStore, bounds

        state = self.table.refresh()
        bounds(as_of, state.horizon)  # what is refused is refused before Java starts
        query = parsed(text, {stream for file in state.files.values() for stream in file.streams})
        df = SparkStore(self.table).ask(query, as_of=as_of)
        rows = [tuple(row) for row in df.collect()]
        if query.ask:
            return Solutions((), (), truth=rows[0][0])
        return Solutions(df.columns, rows, is_graph=query.template is not None)

    def explain(self, text: str, *, as_of: AsOf | None = None) -> OrderExplanation:
        """How a query is answered; that needs no Java."""
        from thalweg.spark.store_handle import bounds

        state = self.table.refresh()
        bounds(as_of, state.horizon)
        query = parsed(text, {stream for file in state.files.values() for stream in file.streams})
        return OrderExplanation(query, self.table.frequencies())

    def compact(self, *, before: Time | None = None) -> None:
        """Merge the files of the store."""
        from thalweg.spark.store_handle import SparkStore

        SparkStore(self.table).compact(before=before)


def opened(path: Path) -> Opened:
    """The store in a folder."""
    return Opened(path)
