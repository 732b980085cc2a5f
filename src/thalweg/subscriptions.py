"""Subscriptions: functions that are called with the rows of queries, at the end of the call that made them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from thalweg.answers import ContinuousQuery
from thalweg.rows import Row


@dataclass(eq=False)
class _Subscription:
    """A function, and the rows that it has not been called with."""

    function: Callable[[Row], object]
    waiting: deque[Row] = field(default_factory=deque)


class Subscriptions:
    """The subscriptions of a session, by query."""

    def __init__(self) -> None:
        self._of: dict[ContinuousQuery, list[_Subscription]] = {}
        self._delivering = False

    def __len__(self) -> int:
        return len(self._of)

    def add(self, query: ContinuousQuery, function: Callable[[Row], object]) -> Callable[[], None]:
        """Subscribes a function to a query; the result ends that."""
        subscription = _Subscription(function)
        self._of.setdefault(query, []).append(subscription)

        def cancel() -> None:
            """Ends the subscription; a second call does nothing."""
            left = [one for one in self._of.get(query, ()) if one is not subscription]
            subscription.waiting.clear()
            if left:
                self._of[query] = left
            else:
                self._of.pop(query, None)

        self.deliver()
        return cancel

    def forget(self, query: ContinuousQuery) -> None:
        """Ends all subscriptions to a query."""
        for subscription in self._of.pop(query, ()):
            subscription.waiting.clear()

    def deliver(self) -> None:
        """Calls the functions with the rows that there are.

        A function may push events and subscribe others: what comes of it is delivered by the call that is under way,
        so that each function sees rows in their order and is never called within itself.
        """
        if self._delivering:
            return
        self._delivering = True
        try:
            while self._collect():
                for subscriptions in list(self._of.values()):
                    for subscription in subscriptions:
                        while subscription.waiting:
                            subscription.function(subscription.waiting.popleft())
        finally:
            self._delivering = False

    def _collect(self) -> bool:
        """Takes the rows of the queries; whether some function is to be called."""
        for query, subscriptions in self._of.items():
            rows = query.poll()
            for subscription in subscriptions:
                subscription.waiting.extend(rows)
        return any(one.waiting for subscriptions in self._of.values() for one in subscriptions)
