"""A process that appends is killed again and again: what it had acknowledged is there, and nothing is there twice."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import thalweg as tw

# Appends batch after batch, goes on where it stopped, and prints each number when it is acknowledged.
VICTIM = """
import sys
import numpy as np
import thalweg as tw
from thalweg.rdf.arena import Arena
from thalweg.rdf.events import EventBatch, Rows

store = tw.Store.create(sys.argv[1])
number = (store.position("w") or 0) + 1
while True:
    arena = Arena()
    s, p, o = (np.array([arena.intern(text)]) for text in (b"<a:s%d>" % number, b"<a:p>", b"<a:o>"))
    none = np.zeros(1, np.int64)
    assert store.append(EventBatch("a:stream", Rows.inserts(none + number, none, none, s, p, o)), arena,
                        writer="w", number=number)
    print(number, flush=True)
    if number % 7 == 0:
        list(store.ask("SELECT * { ?s ?p ?o }"))
    if number % 31 == 0:
        store.compact()
    number += 1
"""


def killed_again_and_again(folder: Path, times: int) -> None:
    chance = random.Random(17)
    acknowledged = 0
    for _ in range(times):
        with subprocess.Popen([sys.executable, "-c", VICTIM, str(folder)], stdout=subprocess.PIPE) as victim:
            assert victim.stdout is not None
            acknowledged = max(acknowledged, int(victim.stdout.readline()))
            time.sleep(chance.uniform(0, 0.4))
            victim.send_signal(signal.SIGKILL)
            printed = victim.stdout.read().split()
            acknowledged = max([acknowledged, *map(int, printed)])
        with tw.Store(folder) as store:
            reached = store.position("w") or 0
            assert acknowledged <= reached <= acknowledged + 1
            rows = [row["s"].value for row in store.ask("SELECT ?s { ?s ?p ?o }")]
            assert sorted(rows) == sorted(f"a:s{k}" for k in range(1, reached + 1))
            assert store.stats().rows == reached
    assert acknowledged > times


@pytest.mark.slow
def test_no_acknowledged_append_is_lost_or_doubled(tmp_path: Path) -> None:
    killed_again_and_again(tmp_path, 2)


@pytest.mark.soak
def test_no_acknowledged_append_is_lost_or_doubled_in_many_kills(tmp_path: Path) -> None:
    killed_again_and_again(tmp_path, 15)
