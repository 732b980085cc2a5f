"""A Kafka broker of one node for a test, from the published Maven artifacts; and the connector for Spark."""

from __future__ import annotations

import base64
import os
import shutil
import socket
import subprocess
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyspark

# Its own class path: what a broker needs has no business on Spark's.
_BROKER = ("org.apache.kafka:kafka_2.13:3.9.1", "org.slf4j:slf4j-reload4j:1.7.36")
_CONFIG = """\
process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{control}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
controller.quorum.voters=1@127.0.0.1:{control}
log.dirs={folder}/log
num.partitions=2
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
"""
_LOGGING = """\
log4j.rootLogger=WARN, stderr
log4j.appender.stderr=org.apache.log4j.ConsoleAppender
log4j.appender.stderr.target=System.err
log4j.appender.stderr.layout=org.apache.log4j.PatternLayout
log4j.appender.stderr.layout.ConversionPattern=%d %p %m (%c)%n
"""


class UnavailableError(Exception):
    """The artifacts, or the broker, cannot be had here."""


def jars_of(spark: Any, *artifacts: str) -> list[str]:
    """The jars of Maven artifacts and of all they need, fetched by Spark's own resolver."""
    jvm = spark._jvm
    found: list[str] = []
    for artifact in artifacts:
        try:
            jars = jvm.org.apache.spark.util.DependencyUtils.resolveMavenDependencies(
                jvm.java.net.URI(f"ivy://{artifact}")
            )
        except Exception as failure:
            reason = str(getattr(failure, "java_exception", failure)).splitlines()[0]
            raise UnavailableError(f"{artifact} cannot be had: {reason}") from None
        found += [jar for jar in jars.mkString("\n").splitlines() if jar not in found]
    return found


def broker_jars(spark: Any) -> list[str]:
    """The class path of a broker."""
    # Spark's resolver leaves out what Spark itself brings along.
    scala = Path(pyspark.__file__).parent.glob("jars/scala-library-*.jar")
    return [*jars_of(spark, *_BROKER), *map(str, scala)]


def connect(spark: Any) -> None:
    """Give a running session the Kafka connector: that of its own version, or the newest that fits it."""
    last = UnavailableError("no connector")
    for artifacts in _connectors(spark.version):
        try:
            jars = jars_of(spark, *artifacts)
        except UnavailableError as failure:
            last = failure
            continue
        for jar in jars:
            spark.sql(f"ADD JAR '{jar}'")
        return
    raise last


def _connectors(version: str) -> Iterator[Sequence[str]]:
    name, tokens = (
        "org.apache.spark:spark-sql-kafka-0-10_2.13",
        "org.apache.spark:spark-token-provider-kafka-0-10_2.13",
    )
    yield (f"{name}:{version}",)
    # A registry may be behind Spark's releases, or hold only a part of one.
    yield (f"{name}:4.2.0",)
    yield (f"{name}:4.2.0?exclude={tokens}", f"{tokens}:4.0.0")


@contextmanager
def broker(folder: Path, jars: Sequence[str]) -> Iterator[str]:
    """A running broker that makes topics on demand, two partitions each; its address."""
    port, control = _free_ports(2)
    config, logging = folder / "server.properties", folder / "logging.properties"
    config.write_text(_CONFIG.format(port=port, control=control, folder=folder))
    logging.write_text(_LOGGING)
    home = os.environ.get("JAVA_HOME")
    java = [
        str(Path(home) / "bin" / "java") if home else shutil.which("java") or "java",
        *("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", f"-Dlog4j.configuration=file:{logging}"),
        *("-cp", os.pathsep.join(jars)),
    ]
    # An identifier may start with "-": as an argument of its own it would be taken for an option.
    cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    with (folder / "broker.log").open("w") as log:
        done = subprocess.run(
            [*java, "kafka.tools.StorageTool", "format", f"--cluster-id={cluster}", "-c", str(config)],
            stdout=log,
            stderr=log,
            check=False,
        )
        if done.returncode:
            raise UnavailableError(f"the broker's storage cannot be made: {_end_of(folder)}")
        process = subprocess.Popen([*java, "kafka.Kafka", str(config)], stdout=log, stderr=log)
        try:
            _wait_for(process, port, folder)
            yield f"127.0.0.1:{port}"
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait_for(process: subprocess.Popen[bytes], port: int, folder: Path, patience: float = 90) -> None:
    end = time.monotonic() + patience
    while process.poll() is None and time.monotonic() < end:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.2)
    raise UnavailableError(f"the broker did not start: {_end_of(folder)}")


def _end_of(folder: Path) -> str:
    return (folder / "broker.log").read_text(errors="replace")[-2000:]


def _free_ports(count: int) -> list[int]:
    """Ports that were free a moment ago; all are held until the last is found, so that they differ."""
    held = [socket.socket() for _ in range(count)]
    try:
        for one in held:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in held]
    finally:
        for one in held:
            one.close()
