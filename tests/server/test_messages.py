"""Messages on WebSockets: read in groups, answered one by one, the same after a crash."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pyoxigraph as ox
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from tests.server.serving import ALL, S, Served, serving, triple
from tests.server.test_durability import crashed, pages
from thalweg.kernels import websocket as kernel
from thalweg.rdf.arena import Arena
from thalweg.rdf.prune import Prune
from thalweg.server.messages import MessageReader
from thalweg.server.sockets import Buffers

_LINES = [
    "<http://ex/a> <http://ex/p> <http://ex/b> .",
    '<http://ex/a> <http://ex/p> "caf\\u00e9 \\n"@EN-gb .  # note',
    "_:x <http://ex/p> _:y .",
    "_:x <http://ex/q> _:x .",
    "what is this",
    "<http://ex/a> <http://ex/p>",
    "# a comment",
    "",
    "   ",
]
_message = st.tuples(
    st.sampled_from(["", "\ufeff"]),
    st.lists(st.tuples(st.sampled_from(_LINES), st.sampled_from(["\n", "\r\n", "\r"])), max_size=4),
    st.booleans(),
).map(lambda parts: _text(*parts))


def _text(mark: str, lines: list[tuple[str, str]], ended: bool) -> bytes:
    text = mark + "".join(line + end for line, end in lines)
    return (text if ended else text.rstrip("\r\n")).encode()


def expected(message: bytes) -> tuple[list[str], list[int]]:
    """The statements of a message, and the lines that are refused, by a parser of others that reads single lines."""
    found, refused = [], []
    text = message.decode().removeprefix("\ufeff")
    for number, line in enumerate(re.split(r"\r\n|\r|\n", text), 1):
        try:
            for quad in ox.parse(line.encode(), ox.RdfFormat.N_TRIPLES):
                found.append(re.sub(r"_:\w+", "_:", f"{quad.subject} {quad.predicate} {quad.object}"))
        except SyntaxError:
            refused.append(number)
    return found, refused


@settings(max_examples=150)
@given(
    messages=st.lists(_message, min_size=1, max_size=8), per_event=st.integers(1, 3), first=st.integers(0, 9)
)
def test_messages_read_together_are_what_each_of_them_is(
    messages: list[bytes], per_event: int, first: int
) -> None:
    arena = Arena()
    reader = MessageReader(S, arena, Prune.everything())
    texts = [one if one.endswith(b"\n") else one + b"\n" for one in messages]
    at = np.arange(len(texts)) + 1000
    read = reader.read(b"".join(texts), [*map(len, texts)], at, per_event=per_event, first_event=first)
    rows = [batch.rows for batch in read.batches]
    event = first
    seen_nodes: set[str] = set()
    for place, message in enumerate(messages):
        statements, refused = expected(message)
        assert read.triples[place] == len(statements)
        assert [one.line for one in read.rejects.get(place, ())] == refused
        assert read.events[place] == -(-len(statements) // per_event)
        for start in range(0, len(statements), per_event):
            (part,) = rows
            mine = np.flatnonzero(part.event == event)
            assert (part.time[mine] == at[place]).all()
            columns = [arena.texts(column[mine]) for column in (part.s, part.p, part.o)]
            found = [" ".join(row) for row in zip(*columns, strict=True)]
            nodes = {node for row in found for node in re.findall(r"_:\S+", row)}
            assert not nodes & seen_nodes
            seen_nodes |= nodes
            plain = [re.sub(r"_:\S+", "_:", row) for row in found]
            assert plain == statements[start : start + per_event]
            event += 1


@settings(max_examples=50)
@given(messages=st.lists(_message, min_size=2, max_size=6), cut=st.integers(1, 5))
def test_blank_nodes_have_the_same_names_however_messages_come_together(
    messages: list[bytes], cut: int
) -> None:
    texts = [one if one.endswith(b"\n") else one + b"\n" for one in messages]

    def triples(*groups: list[bytes]) -> list[tuple[str, ...]]:
        arena, event, found = Arena(), 0, []
        reader = MessageReader(S, arena, Prune.everything())
        for group in filter(None, groups):
            at = np.zeros(len(group), np.int64)
            read = reader.read(b"".join(group), [*map(len, group)], at, per_event=1, first_event=event)
            event += int(read.events.sum())
            for batch in read.batches:
                columns = (arena.texts(column) for column in (batch.rows.s, batch.rows.p, batch.rows.o))
                found += zip(*columns, strict=True)
        return found

    assert triples(texts) == triples(texts[:cut], texts[cut:]) == triples(*([one] for one in texts))


def frame(payload: bytes, first: int = 0x82, mask: bytes = b"\x11\xfe\x80\x07") -> bytes:
    """A frame of a client, as RFC 6455 has it."""
    size = len(payload)
    head = bytes([0x80 | size]) if size < 126 else b"\xfe" + size.to_bytes(2, "big")
    return bytes([first]) + head + mask + bytes(byte ^ mask[k % 4] for k, byte in enumerate(payload))


@settings(max_examples=100)
@given(
    payloads=st.lists(st.binary(max_size=300), max_size=12),
    rest=st.integers(0, 20),
    stop=st.sampled_from([b"", frame(b"", 0x89), frame(b"x", 0x02), frame(b"y" * 400)]),
    mask=st.binary(min_size=4, max_size=4),
    lines=st.booleans(),
)
def test_frames_are_taken_as_messages(
    payloads: list[bytes], rest: int, stop: bytes, mask: bytes, lines: bool
) -> None:
    frames = [frame(one, 0x81 + k % 2, mask) for k, one in enumerate(payloads)]
    data = b"".join(frames) + stop + frame(b"after")[:rest]
    status, pos, text, sizes = Buffers().take(np.frombuffer(data, np.uint8), 0, 300, lines)
    if stop:
        assert (status, pos) == (kernel.OTHER, len(b"".join(frames)))
    elif rest < len(frame(b"after")):
        assert (status, pos) == (kernel.DONE, len(b"".join(frames)))
    else:
        payloads = [*payloads, b"after"]
    texts = [one if one.endswith(b"\n") or not lines else one + b"\n" for one in payloads]
    assert (text, sizes) == (b"".join(texts), [*map(len, texts)])


@contextmanager
def pushing(served: Served, more: str = "", **given: Any) -> Iterator[ClientConnection]:
    address = f"ws://127.0.0.1:{served.running.port}/streams/{quote(S, safe='')}?{more}"
    headers = {"Authorization": f"Bearer {served.client.token}"}
    with connect(address, additional_headers=headers, **given) as socket:
        yield socket


def answers(socket: ClientConnection, count: int) -> list[Any]:
    return [json.loads(socket.recv(timeout=120)) for _ in range(count)]


def test_answers_come_in_the_order_of_the_messages_whatever_their_frames_are(served: Served) -> None:
    id = served.client.register(ALL).json["id"]
    large = "".join(triple(f"l{n}", "o") for n in range(2000))
    with pushing(served, "at=7") as socket:
        socket.send(triple(0, "o"))
        socket.send([triple(1, "o")[:9], triple(1, "o")[9:], triple(2, "o")])  # in parts
        pong = socket.ping()
        socket.send(b"")
        socket.send(triple(3, "o") + "wrong\n" + triple(4, "o"))
        socket.send(large)
        for n in range(100):
            socket.send(triple(f"n{n}", "o").encode())
        found = answers(socket, 105)
        assert pong.wait(30)
    assert [one["events"] for one in found] == [1, 2, 0, 2, 2000, *[1] * 100]
    assert [one["line"] for one in found[3]["rejects"]] == [2]
    assert len(served.client.results(id, more="&limit=10000")) == 2105


@pytest.mark.parametrize("kind", ["application/n-triples", "application/x-ndjson", "text/turtle"])
def test_messages_of_each_format_are_there_after_a_crash(tmp_path: Path, kind: str) -> None:
    def message(n: int) -> str:
        text = f"_:b <http://ex/p> <http://ex/{n}> .\n"
        return json.dumps({"graph": text}) if "json" in kind else text

    with serving(tmp_path / "a") as served:
        id = served.client.register(ALL).json["id"]
        with pushing(served, f"type={quote(kind)}&at=7") as socket:
            for n in range(50):
                socket.send(message(n))
            assert [one["events"] for one in answers(socket, 50)] == [1] * 50
        served.client.post(triple("late", "one"), at=3)
        before = pages(served), served.client.results(id)
        answer = served.client("GET", f"/queries/{id}/answer").json
        assert len({row["a"] for row in answer["rows"]}) == len(before[1]) == 50
        copy = crashed(served, tmp_path / "b")
    with serving(copy) as again:
        assert (pages(again), again.client.results(id)) == before
        found = again.client("GET", f"/queries/{id}/answer").json
        assert sorted(map(str, found["rows"])) == sorted(map(str, answer["rows"]))


def test_late_messages_are_counted_for_themselves(served: Served) -> None:
    served.client.register(ALL)
    hold = threading.Event()
    operation = {"stream": S, "format": "nt", "per_event": None}
    looked = served.service.look(lambda state: hold.wait(30))
    times = [5, 9, 8, 9, 7]
    found = [
        served.service.events({**operation, "at": 1_000_000 * at}, (triple(at, k) + triple(k, at)).encode())
        for k, at in enumerate(times)
    ]
    hold.set()
    looked.result(30)
    assert [one.result(30)["late"] for one in found] == [0, 0, 2, 0, 2]
    assert served.service.counters["groups"] == 2  # that of the registration, and one for all of these


def test_a_known_key_counts_once_in_one_group(served: Served) -> None:
    id = served.client.register(ALL).json["id"]
    hold = threading.Event()
    looked = served.service.look(lambda state: hold.wait(30))
    operation = {"stream": S, "format": "nt", "per_event": None, "key": "one", "at": 1}
    found = [served.service.events(dict(operation), triple("a", "b").encode()) for _ in range(3)]
    hold.set()
    looked.result(30)
    assert [one.result(30).get("repeated", False) for one in found] == [False, True, True]
    assert len(served.client.results(id)) == 1


def test_strict_messages_are_refused_for_themselves(served: Served) -> None:
    id = served.client.register(ALL).json["id"]
    with pushing(served, "strict=true&at=1") as socket:
        for text in (triple(1, "o"), triple(2, "o") + "wrong\n", triple(3, "o"), "wrong"):
            socket.send(text)
        found = answers(socket, 4)
    assert [one.get("status", 200) for one in found] == [200, 400, 200, 400]
    assert [one.get("line") for one in found] == [None, 2, None, 1]
    assert {row["bindings"]["a"] for row in served.client.results(id)} == {"<http://ex/1>", "<http://ex/3>"}


def test_messages_above_the_rate_are_refused_for_themselves(tmp_path: Path) -> None:
    with serving(tmp_path, limits={"events_per_second": 10}) as served:
        served.client.register(ALL)
        with pushing(served) as socket:
            for n in range(100):
                socket.send(triple(n, "o"))
            found = answers(socket, 100)
        taken = sum(one.get("events", 0) for one in found)
        assert [one["status"] for one in found if "status" in one] == [429] * (100 - taken)
        assert served.client("GET", "/streams").json["items"][0]["events"] == taken
        assert 10 <= taken < 100


def test_a_message_that_is_too_large_ends_the_socket(tmp_path: Path) -> None:
    with serving(tmp_path, limits={"body": 1000}) as served:
        served.client.stream()
        for size in (1001, 70_000):
            with pushing(served) as socket:
                socket.send(triple("a", "b"))
                assert answers(socket, 1)[0]["events"] == 1
                socket.send("#" * size)
                with pytest.raises(ConnectionClosed) as closed:
                    socket.recv(timeout=120)
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 1009


def test_messages_to_a_stream_that_is_not_there_are_refused(served: Served) -> None:
    with pushing(served) as socket:
        socket.send(triple("a", "b"))
        assert answers(socket, 1)[0]["status"] == 404
