"""A store on Spark for the command line: it starts Spark only where a command needs it."""

from __future__ import annotations

from pathlib import Path

from thalweg.algebra.query import Query
from thalweg.instants import Time
from thalweg.spark.store_order import OrderExplanation
from thalweg.spark.store_table import Table
from thalweg.store.asking import AsOf, bounds
from thalweg.store.evaluating import parsed
from thalweg.store.printing import Solutions


class Opened(Table):
    """The store of a command. What a table does itself, appending and statistics, needs no Java."""

    def _checked(self, text: str, as_of: AsOf | None) -> Query:
        """The query; what is refused is refused before Java starts."""
        state = self.refresh()
        bounds(as_of, state.horizon)
        return parsed(text, {stream for file in state.files.values() for stream in file.streams})

    def ask(self, text: str, *, as_of: AsOf | None = None) -> Solutions:
        """The answer of a query."""
        query = self._checked(text, as_of)
        from thalweg.spark.store_handle import SparkStore

        df = SparkStore(self).ask(query, as_of=as_of)
        rows = [tuple(row) for row in df.collect()]
        if query.ask:
            return Solutions((), (), truth=rows[0][0])
        return Solutions(df.columns, rows, is_graph=query.template is not None)

    def explain(self, text: str, *, as_of: AsOf | None = None) -> OrderExplanation:
        """How a query is answered; that needs no Java."""
        return OrderExplanation(self._checked(text, as_of), self.frequencies())

    def compact(self, *, before: Time | None = None) -> None:
        """Merge the files of the store."""
        from thalweg.spark.store_handle import SparkStore

        SparkStore(self).compact(before=before)


def opened(path: Path) -> Opened:
    """The store in a folder."""
    return Opened(path)
