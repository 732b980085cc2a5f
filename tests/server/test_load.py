"""Load: many queries of few shapes, many subscribers, one slow, one that goes away."""

from __future__ import annotations

import json
import socket
import threading
from pathlib import Path

import pytest

from tests.server.serving import ALL, Client, serving, triple


@pytest.mark.soak
def test_a_thousand_queries_and_a_hundred_subscribers(tmp_path: Path) -> None:
    with serving(tmp_path, settings={"buffer": 2000}) as served:
        client = served.client
        shapes = [ALL.replace("10s", f"{10 + k}s") for k in range(10)]
        ids = [
            client.register(shapes[k % 10].replace("?a", f"?a{k}").replace("?b", f"?b{k}")).json["id"]
            for k in range(1000)
        ]
        assert len(served.state.session.queries) == 10
        expected = 50
        found: dict[int, list[int]] = {}

        def follow(k: int) -> None:
            rows = found[k] = []
            events = Client(served.running.port, client.token).events(ids[k])
            for event in events:
                row = json.loads(event["data"])
                assert set(row["bindings"]) == {f"a{k}", f"b{k}"}
                rows.append(int(event["id"]))
                if len(rows) == expected:
                    events.close()
                    return

        threads = [threading.Thread(target=follow, args=(k,)) for k in range(100)]
        for thread in threads:
            thread.start()
        lazy = []
        for k in (100, 101):
            one = socket.create_connection(("127.0.0.1", served.running.port))
            one.sendall(
                f"GET /queries/{ids[k]}/results HTTP/1.1\r\nHost: localhost\r\n"
                "Accept: text/event-stream\r\n\r\n".encode()
            )
            lazy.append(one)
        lazy[1].close()  # gone
        for n in range(expected):
            assert client.post(triple(n, "o"), at=1 + n).status == 200
        for thread in threads:
            thread.join(60)
        assert all(found[k] == list(range(1, expected + 1)) for k in range(100))
        lazy[0].close()
        for id in ids:
            assert client("DELETE", f"/queries/{id}").status == 204
        assert served.state.session.queries == []
