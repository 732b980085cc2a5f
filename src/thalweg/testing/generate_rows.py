"""Seeded generators of rows that sensors and taxis report: for where the real files are not at hand."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

POWER_START = 1_341_446_400
TRIPS_START = datetime(2013, 1, 1, tzinfo=UTC)


def power(rows: int, *, seed: int = 0) -> Iterator[tuple[int, float]]:
    """Seconds since the epoch and the watts of a house: a day's wave, appliances that go on and off, noise.

    >>> list(power(2))
    [(1341446400, 450.4), (1341446401, 441.7)]
    """
    chance = random.Random(seed)
    running: list[tuple[int, float]] = []
    for second in range(rows):
        running = [(until, watts) for until, watts in running if until > second]
        if chance.random() < 0.002:
            running.append((second + chance.randint(60, 3600), chance.choice([60, 150, 800, 1500, 3000])))
        base = 450 + 250 * math.sin(second / 86_400 * 2 * math.pi)
        watts = base + sum(watts for _, watts in running) + chance.gauss(0, 8)
        yield POWER_START + second, round(max(watts, 0.0), 1)


def trips(rows: int, *, seed: int = 0) -> Iterator[list[str]]:
    """Taxi trips with the 17 columns of the DEBS 2015 challenge, ordered by the time of the drop-off.

    >>> len(next(trips(1)))
    17
    """
    chance = random.Random(seed)
    cabs = [(f"{chance.getrandbits(128):032X}", f"{chance.getrandbits(128):032X}") for _ in range(2000)]
    end = TRIPS_START
    for _ in range(rows):
        end += timedelta(seconds=chance.choice([0, 0, 0, 60]))
        seconds = 60 * min(120, 1 + int(chance.paretovariate(1.2) * 4))
        miles = round(seconds / 60 * chance.uniform(0.1, 0.5), 2)
        places = [round(chance.gauss(middle, 0.03), 6) for middle in (-73.97, 40.75, -73.97, 40.75)]
        fare = round(2.5 + 2.5 * miles, 1)
        card = chance.random() < 0.5
        tip, tolls = round(fare * 0.2, 2) if card else 0.0, 4.8 if miles > 12 else 0.0
        medallion, licence = cabs[int(len(cabs) * chance.random() ** 2)]
        money = (fare, 0.5, 0.5, tip, tolls, fare + 1 + tip + tolls)
        yield [
            *(medallion, licence, f"{end - timedelta(seconds=seconds):%Y-%m-%d %H:%M:%S}"),
            *(f"{end:%Y-%m-%d %H:%M:%S}", str(seconds), f"{miles:.2f}"),
            *(f"{place:.6f}" for place in places),
            *("CRD" if card else "CSH", *(f"{amount:.2f}" for amount in money)),
        ]
