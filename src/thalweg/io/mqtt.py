"""MQTT: messages of a topic, each of which is lines or a document."""

from __future__ import annotations

import sys
import threading
from dataclasses import dataclass
from queue import Empty, Queue
from typing import Any

from thalweg.errors import DataError, UsageError

_CONNECT_SECONDS = 10.0
_MOST_WAITING = 1 << 16
"""Messages that wait for the run at most; the broker waits then."""
_LOOK_SECONDS = 0.5


@dataclass(frozen=True)
class Subscription:
    """A broker, a topic (with the wildcards + and #), and how messages are delivered."""

    host: str
    port: int
    topic: str
    qos: int = 1
    client: str | None = None
    """The name of a session that the broker keeps while we are away; None: a new one, which it forgets."""
    user: str | None = None
    password: str | None = None
    tls: bool = False


class MqttSource:
    """A subscription. A lost connection is made again; that the broker cannot be reached at the start is an error."""

    endless = True
    messages = True

    def __init__(self, subscription: Subscription) -> None:
        self.subscription = subscription
        scheme = "mqtts" if subscription.tls else "mqtt"
        self.name = f"{scheme}://{subscription.host}:{subscription.port}/{subscription.topic}"
        self._messages: Queue[bytes] = Queue(_MOST_WAITING)
        self._answered = threading.Event()
        self._refusal: str | None = None
        self._closed = False
        self._client: Any = None

    def open(self) -> None:
        """Connect and subscribe."""
        try:
            from paho.mqtt import client as mqtt
        except ImportError:
            raise UsageError(
                "MQTT needs the package paho-mqtt: pip install 'thalweg[mqtt]'", source=self.name
            ) from None
        wanted = self.subscription
        client = mqtt.Client(
            mqtt.CallbackAPIVersion.VERSION2,
            client_id=wanted.client or "",
            clean_session=wanted.client is None,
        )
        if wanted.user is not None:
            client.username_pw_set(wanted.user, wanted.password)
        if wanted.tls:
            client.tls_set()
        client.on_connect = self._on_connect
        client.on_disconnect = self._on_disconnect
        client.on_subscribe = self._on_subscribe
        client.on_message = self._on_message
        self._client = client
        try:
            client.connect(wanted.host, wanted.port)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise DataError(
                f"cannot connect: {reason}; check that the broker runs", source=self.name
            ) from None
        client.loop_start()
        if not self._answered.wait(_CONNECT_SECONDS):
            self._refusal = f"no answer within {_CONNECT_SECONDS:.0f} seconds"
        if self._refusal is not None:
            self.close()
            raise DataError(f"the broker refuses: {self._refusal}", source=self.name)

    def read(self) -> bytes:
        """The next message that is not empty; none after `close`."""
        while not self._closed:
            try:
                return self._messages.get(timeout=_LOOK_SECONDS)
            except Empty:
                continue
        return b""

    def close(self) -> None:
        """Leave the broker."""
        self._closed = True
        if self._client is not None:
            self._client.disconnect()
            self._client.loop_stop()

    def _on_connect(self, client: Any, _data: Any, _flags: Any, reason: Any, _properties: Any) -> None:
        if reason.is_failure:
            self._answer(str(reason))
        else:
            client.subscribe(self.subscription.topic, self.subscription.qos)

    def _on_subscribe(self, _client: Any, _data: Any, _number: int, reasons: Any, _properties: Any) -> None:
        refused = [str(reason) for reason in reasons if reason.is_failure]
        if self._answered.is_set() and not refused:
            print(f"thalweg: {self.name}: connected again", file=sys.stderr)
        self._answer(refused[0] if refused else None)

    def _answer(self, refusal: str | None) -> None:
        if not self._answered.is_set():
            self._refusal = refusal
            self._answered.set()
        elif refusal is not None:
            print(f"thalweg: {self.name}: the broker refuses: {refusal}; trying again", file=sys.stderr)

    def _on_disconnect(self, _client: Any, _data: Any, _flags: Any, reason: Any, _properties: Any) -> None:
        if self._closed or not self._answered.is_set():
            return
        kept = (
            "the broker keeps messages for this client"
            if self.subscription.client and self.subscription.qos
            else "messages of the meantime are lost (use ?client=NAME&qos=1)"
        )
        print(
            f"thalweg: {self.name}: the connection is lost ({reason}); trying again; {kept}", file=sys.stderr
        )

    def _on_message(self, _client: Any, _data: Any, message: Any) -> None:
        if message.payload:
            self._messages.put(bytes(message.payload))
