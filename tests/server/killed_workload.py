"""A workload of everything that a service does, under which it is killed; and what must hold of it afterwards.

Facts of one event each come on WebSockets, all those of a life of the server at one instant. Beside a plain query there
are a derived stream and a query over it, a sequence, groups, static data, a query that joins another one, and leases.
"""

from __future__ import annotations

import http.client
import json
import random
import signal
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from websockets.exceptions import WebSocketException
from websockets.sync.client import connect

from tests.server.killed_server import Load, Process
from tests.server.serving import S, triple

P, Q = "<http://ex/p>", "<http://ex/q>"
QUERIES = {
    "plain": f"SELECT ?a FROM STREAM <{S}> [RANGE 1h] WHERE {{ ?a {P} ?b }}",
    "static": f"SELECT ?a FROM STREAM <{S}> [RANGE 1h] WHERE {{ ?a {P} ?b . ?b <http://ex/t> ?t }}",
    "counted": f"SELECT ?b (COUNT(*) AS ?a) FROM STREAM <{S}> [RANGE 1h] WHERE {{ ?x {P} ?b }} GROUP BY ?b",
    "derived": f"""REGISTER STREAM <http://ex/d> AS CONSTRUCT {{ ?a {Q} ?b }}
FROM STREAM <{S}> [RANGE 1h] WHERE {{ ?a {P} ?b }}""",
    "second": f"SELECT ?a FROM STREAM <http://ex/d> [RANGE 1h] WHERE {{ ?a {Q} ?b }}",
    "sequence": f"""SELECT ?a WITHIN 10m FROM STREAM S <{S}> WHERE {{ SEQ (A; B)
DEFINE GPM A ON S {{ ?a {P} <http://ex/o> }} DEFINE GPM B ON S {{ ?a {P} <http://ex/end> }} }}""",
}


@dataclass
class Follower:
    """A subscriber that goes on after the last row that it has, over all lives of the server."""

    id: str
    rows: list[tuple[int, str, str]] = field(default_factory=list)
    """Number, op and the binding of `a`."""

    def follow(self, server: Process) -> None:
        """Takes rows until the server is gone."""
        try:
            for event in server.client().events(self.id, after=self.rows[-1][0] if self.rows else None):
                if event.get("event") == "end":
                    return
                assert event.get("event") is None, event
                row = json.loads(event["data"])
                self.rows.append(
                    (int(event["id"]), row["op"], row["bindings"].get("a") or row["bindings"].get("x", ""))
                )
        except (OSError, http.client.HTTPException, ValueError):
            return

    @property
    def added(self) -> list[str]:
        return [a for _, op, a in self.rows if op == "+"]


class Sockets(Load):
    """Facts on a WebSocket, some of them not acknowledged before the next are sent."""

    at = 1

    def _send(self, server: Process) -> None:
        address = f"ws://127.0.0.1:{server.port}/streams/{quote(S, safe='')}?at={self.at}"
        headers = {"Authorization": f"Bearer {server.token}"}
        try:
            with connect(address, additional_headers=headers) as socket:
                while True:
                    with self._lock:
                        first, self.next = self.next, self.next + 7
                        self.sent |= set(range(first, first + 7))
                    for number in range(first, first + 7):
                        socket.send(triple(number, "o"))
                    for number in range(first, first + 7):
                        if json.loads(socket.recv(timeout=30)).get("events") == 1:
                            with self._lock:
                                self.acknowledged.add(number)
        except (OSError, WebSocketException, TimeoutError):
            return


@dataclass
class Outcome:
    load: Sockets
    followers: dict[str, Follower]
    dropped: list[str]
    """Queries that were dropped or whose leases have ended."""
    left: set[str]
    """The queries that there are in the end."""


def run(data: Path, kills: int, seed: int, snapshot_bytes: int = 30_000) -> Outcome:
    """Kills a server some times under load; afterwards it ends in order."""
    chance = random.Random(seed)
    options = ("--snapshot-bytes", str(snapshot_bytes), "--buffer", "1000000", "--no-log-requests")
    load, followers, dropped = Sockets(), dict[str, Follower](), list[str]()
    for life in range(kills + 1):
        load.at = life + 1
        server = Process(data, *options)
        client = server.client()
        if not followers:
            client.stream(retention="forever")
            client("PUT", "/static", "<http://ex/o> <http://ex/t> <http://ex/T> .", "text/turtle")
            for name, text in QUERIES.items():
                made = client.register(text, lease="2h", start="content" if name == "plain" else "now")
                assert made.status == 201, (name, made.data)
                followers[name] = Follower(made.json["id"])
        if life == 1:
            joined = client.register(QUERIES["plain"].replace("?a", "?x"), lease="2h", start="content").json
            assert joined["shared_with"] == 1
            followers["joined"] = Follower(joined["id"])
        threads = [threading.Thread(target=one.follow, args=(server,)) for one in followers.values()]
        for thread in threads:
            thread.start()
        if life < kills:
            threads += load.run(server, 2)
            before, began = len(load.acknowledged), time.monotonic()
            while len(load.acknowledged) < before + 7 and time.monotonic() < began + 60:
                time.sleep(0.02)
            client = server.client()  # that of before may have been idle for too long
            short = client.register(QUERIES["plain"], lease="200ms").json["id"]
            gone = client.register(QUERIES["second"], lease="1h").json["id"]
            client("DELETE", f"/queries/{gone}")
            dropped += [short, gone]
            time.sleep(chance.random())
            server.end(signal.SIGKILL)
        else:
            _finish(server, followers, load)
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive()
    server = Process(data, *options)
    left = {one["id"] for one in server.client()("GET", "/queries").json["items"]}
    assert server.end(signal.SIGTERM) == 0
    return Outcome(load, followers, dropped, left)


def _finish(server: Process, followers: dict[str, Follower], load: Sockets) -> None:
    """Ends the sequences of some facts, waits until subscribers have all rows, and until short leases are over."""
    client = server.client()
    for number in sorted(load.acknowledged)[:20]:
        assert client.post(triple(number, "end"), at=load.at).json["late"] == 0
    client.post("", more="&advance=1970-01-01T00:00:01Z")
    began = time.monotonic()
    while time.monotonic() < began + 60:
        pages = {one["id"]: one["last"] for one in client("GET", "/queries").json["items"]}
        if all(len(one.rows) >= pages[one.id] for one in followers.values()):
            break
        time.sleep(0.05)
    assert server.end(signal.SIGTERM) == 0


def check(outcome: Outcome) -> None:
    """What must hold whenever the server was killed."""
    load, followers = outcome.load, outcome.followers
    for name, follower in followers.items():
        numbers = [number for number, _, _ in follower.rows]
        assert numbers == list(range(1, len(numbers) + 1)), name
    plain = followers["plain"].added
    facts = {int(term.removeprefix("<http://ex/").removesuffix(">")) for term in plain}
    assert load.acknowledged <= facts <= load.sent
    assert len(plain) == len(facts) + 20  # those that have ended have two solutions
    # The others have seen the same events.
    for name in ("static", "joined", "second"):
        found = followers[name].added
        assert {int(term[11:-1]) for term in found} == facts, name
    assert len(followers["static"].added) == len(facts)
    assert sorted(followers["sequence"].added) == sorted(
        f"<http://ex/{n}>" for n in sorted(load.acknowledged)[:20]
    )
    counted = followers["counted"].rows
    shown = [a for _, op, a in counted if op == "+"]
    retracted = [a for _, op, a in counted if op == "-"]
    (ends, total) = sorted(int(a.split('"')[1]) for a in set(shown) if shown.count(a) > retracted.count(a))
    assert (ends, total) == (20, len(facts))
    assert {one.id for one in followers.values()} <= outcome.left
    assert not outcome.left & set(outcome.dropped[:-2])
