"""Real nodes under a moderate load for a long time, restarted again and again, while retention deletes old files.

    PYTHONPATH=. python tests/benchmarks/soak.py [--minutes 60] [--every 10] [--rate 60] [--restart-s 300]
        [--second-time]

A name server, a synchronous pair (broker-a: master and slave) and a master that is never restarted (broker-b), all with
sync flush and small files, and one process with a producer and a push consumer. Bodies are 1 KiB with a key. Every
`--restart-s` seconds the next node of broker-a, or the name server, is ended (SIGKILL and SIGTERM in turn) and started
again. With `--second-time` one message in a hundred is delayed by a second, the listener fails once for one in a
hundred, and nothing is deleted: retention would take a full file within 10 s, and a message that waits in it.

Prints a block for each `--every` minutes: sends and their 50th and 99th percentile and longest (milliseconds, restarts
included), and what each process holds: resident memory, descriptors, asyncio tasks, threads, MiB of files. At the end
every acknowledged message must have been delivered. Exit status: 1 if one was not; then it is printed where each was
stored, and the folder with the stores and logs is kept.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import cycle
from pathlib import Path
from statistics import quantiles

from staticfire.harness.local_cluster.ports import free_ports
from staticfire.system_under_test.client.consumer.push.consumer_config import ConsumerConfig
from staticfire.system_under_test.client.consumer.push.push_consumer import PushConsumer
from staticfire.system_under_test.client.message_properties import DELAY_LEVEL
from staticfire.system_under_test.client.producer.producer import Producer, ProducerConfig
from staticfire.system_under_test.client.producer.send_result import SendFailed
from staticfire.system_under_test.protocol.bodies import MessageQueue
from staticfire.system_under_test.protocol.codes import SendStatus
from staticfire.system_under_test.protocol.message import Message
from staticfire.system_under_test.runtime.real_env import make_env
from tests.support.local_processes import LocalNode, LocalPair

TOPIC = "Soak"
WORKERS = 8
BODY_BYTES = 1024
RARELY = 100  # one message in so many is delayed, and one is not consumed at once
DELIVERED_WITHIN_S = 120.0
STOPPED_S = 10.0  # longer than any load holds up a process
MIB = 1 << 20
BROKER_FILE = f"""\
mappedFileSizeCommitLog={4 * MIB}
mappedFileSizeConsumeQueue=40000
maxHashSlotNum=5000
maxIndexNum=20000
"""
RETENTION = f"""\
fileReservedTime=0
deleteWhen={";".join(map(str, range(24)))}
"""  # a full file of the log goes within 10 s, whether it was consumed or not


@dataclass(slots=True)
class Load:
    """Keys are numbers; those that were sent and not yet delivered are `pending`, with where they were stored."""

    rate: float
    second_time: bool  # some messages are delayed or sent back
    pending: dict[int, str] = field(default_factory=dict)
    unclear: set[int] = field(default_factory=set)
    refused_once: set[int] = field(default_factory=set)
    latencies_ms: list[float] = field(default_factory=list)
    acknowledged: int = 0
    failed: int = 0
    repeated: int = 0
    next_key: int = 0
    is_over: bool = False

    async def send_until_over(self, producer: Producer) -> None:
        """One worker: its share of the rate, and less when a send takes longer than its slot."""
        pause_s = WORKERS / self.rate
        while not self.is_over:
            began_s = time.perf_counter()
            await self._send(producer)
            await asyncio.sleep(max(0.0, began_s + pause_s - time.perf_counter()))

    async def _send(self, producer: Producer) -> None:
        key, self.next_key = self.next_key, self.next_key + 1
        self.pending[key] = ""
        properties = {"KEYS": f"k{key}"}
        if self.second_time and key % RARELY == 1:
            properties[DELAY_LEVEL] = "1"
        body = (b"%d " % key).ljust(BODY_BYTES, b"x")
        began_s = time.perf_counter()
        try:
            result = await producer.send(Message(topic=TOPIC, body=body, properties=properties))
        except SendFailed:
            self.failed += 1
            self._is_unclear(key)
            return
        finally:
            self.latencies_ms.append((time.perf_counter() - began_s) * 1000)
        if result.status is SendStatus.SEND_OK:
            self.acknowledged += 1
            if key in self.pending:
                name, number = result.queue.broker_name, result.queue.queue_id
                self.pending[key] = (
                    f"{datetime.now(UTC):%H:%M:%S} {name} queue {number} offset {result.queue_offset} "
                    f"id {result.offset_message_id}"
                )
        else:
            self.failed += 1
            self._is_unclear(key)

    def _is_unclear(self, key: int) -> None:
        if key in self.pending:
            del self.pending[key]
            self.unclear.add(key)

    async def listen(self, messages: list[Message], queue: MessageQueue) -> bool:
        is_refused = False
        for message in messages:
            key = int(message.body.split(b" ", 1)[0])
            if self._refuses(key):
                self.refused_once.add(key)
                is_refused = True
        if is_refused:
            return False
        for message in messages:
            self._delivered(int(message.body.split(b" ", 1)[0]))
        return True

    def _refuses(self, key: int) -> bool:
        is_chosen = self.second_time and key % RARELY == 2
        return is_chosen and key in self.pending and key not in self.refused_once

    def _delivered(self, key: int) -> None:
        self.refused_once.discard(key)
        if key in self.pending:
            del self.pending[key]
        elif key in self.unclear:
            self.unclear.remove(key)
        else:
            self.repeated += 1


class Nodes:
    """The nodes of the soak, and which is restarted next."""

    def __init__(self, folder: Path, *, deletes: bool) -> None:
        broker_file = folder / "broker.properties"
        broker_file.write_text(BROKER_FILE + RETENTION * deletes)
        self._folder = folder
        self.pair = LocalPair(folder, with_slave=True, broker_file=broker_file, measured=True)
        assert self.pair.slave is not None
        (port,) = free_ports(1)
        arguments = ["broker", "--broker-name", "broker-b", "--port", str(port), "--flush", "sync"]
        arguments += ["--name-server", self.pair.name_server_address, "-c", str(broker_file)]
        arguments += ["--store", str(folder / "steady")]
        self.steady = LocalNode("steady", folder, arguments, measured=True)
        turns: list[tuple[LocalNode, Callable[[], object]]] = [
            (node, end)
            for master_end, slave_end, name_server_end in (
                ("kill", "stop", "kill"),
                ("stop", "kill", "stop"),
            )
            for node, end in (
                (self.pair.master, getattr(self.pair.master, master_end)),
                (self.pair.slave, getattr(self.pair.slave, slave_end)),
                (self.pair.name_server, getattr(self.pair.name_server, name_server_end)),
            )
        ]
        self._turns = cycle(turns)
        self.restarts: dict[str, int] = {node.name: 0 for node in self.all}

    @property
    def all(self) -> list[LocalNode]:
        return [*self.pair.nodes, self.steady]

    def restart_next(self) -> None:
        node, end = next(self._turns)
        end()
        node.start()
        self.restarts[node.name] += 1

    def stored_mib(self, node: LocalNode) -> float:
        folder = "namesrv" if node is self.pair.name_server else node.name
        return sum(_sizes(self._folder / folder)) / MIB


def _sizes(folder: Path) -> Iterator[int]:
    """Bytes that each file takes of the disk."""
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                yield (Path(parent) / name).stat().st_blocks * 512
            except FileNotFoundError:  # retention was faster
                continue


def report(minute: int, load: Load, nodes: Nodes) -> None:
    """Print a block, and begin the latencies anew."""
    latencies, load.latencies_ms = load.latencies_ms, []
    hundredths = quantiles(latencies, n=100)
    print(
        f"minute {minute}: {len(latencies)} sends, p50 {hundredths[49]:.1f} ms, p99 {hundredths[98]:.1f} ms, "
        f"longest {max(latencies):.0f} ms; so far {load.acknowledged} acknowledged, {load.failed} not, "
        f"{len(load.pending)} under way, {load.repeated} delivered again; load average {os.getloadavg()[0]:.1f}"
    )
    for node in nodes.all:
        held = node.gauges.held()
        print(
            f"  {node.name:<12}{held.resident_bytes / MIB:6.1f} MiB{held.descriptors:5} descriptors"
            f"{held.tasks:4} tasks{held.threads:4} threads{nodes.stored_mib(node):8.1f} MiB of files"
            f"{nodes.restarts[node.name]:4} restarts"
        )
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    descriptors, tasks = len(os.listdir("/proc/self/fd")), len(asyncio.all_tasks())
    memory = pages * os.sysconf("SC_PAGE_SIZE") / MIB
    print(
        f"  {'clients':<12}{memory:6.1f} MiB{descriptors:5} descriptors{tasks:4} tasks", flush=True
    )


async def reports(options: argparse.Namespace, load: Load, nodes: Nodes) -> None:
    began_s, restart_s = time.monotonic(), time.monotonic() + options.restart_s
    for minute in range(1, options.minutes + 1):
        while time.monotonic() < began_s + minute * 60:
            asleep_s = time.monotonic()
            await asyncio.sleep(1.0)
            stopped_s = time.monotonic() - asleep_s - 1.0
            if stopped_s > STOPPED_S:
                print(f"all processes were stopped for {stopped_s:.0f} s, which do not count")
                began_s += stopped_s
                restart_s += stopped_s
            if time.monotonic() >= restart_s:
                restart_s += options.restart_s
                await asyncio.to_thread(nodes.restart_next)
        if minute % options.every == 0:
            report(minute, load, nodes)


async def soak(options: argparse.Namespace, nodes: Nodes) -> Load:
    load = Load(options.rate, options.second_time)
    names = (nodes.pair.name_server_address,)
    producer = Producer(
        make_env("producer"),
        ProducerConfig(group="soak", name_servers=names, client_id="127.0.0.1@producer"),
    )
    consumer = PushConsumer(
        make_env("consumer"),
        ConsumerConfig(
            group="soak", name_servers=names, client_id="127.0.0.1@consumer", topic=TOPIC
        ),
        load.listen,
    )
    await producer.start()
    await consumer.start()
    async with asyncio.TaskGroup() as workers:
        for _ in range(WORKERS):
            workers.create_task(load.send_until_over(producer))
        await reports(options, load, nodes)
        load.is_over = True
    await producer.stop()
    until_s = time.monotonic() + DELIVERED_WITHIN_S
    while load.pending and time.monotonic() < until_s:
        await asyncio.sleep(0.5)
    await consumer.stop()
    return load


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--minutes", type=int, default=60)
    parser.add_argument("--every", type=int, default=10, help="minutes of a block")
    parser.add_argument("--rate", type=float, default=60.0, help="sends a second")
    parser.add_argument("--restart-s", type=float, default=300.0, help="seconds between restarts")
    parser.add_argument("--folder", type=Path, help="where the stores are")
    parser.add_argument("--second-time", action="store_true", help="delays, retries, no retention")
    options = parser.parse_args()
    if options.folder is not None:
        options.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        nodes = Nodes(Path(name), deletes=not options.second_time)
        with nodes.pair:
            nodes.steady.start()
            try:
                load = asyncio.run(soak(options, nodes))
            finally:
                nodes.steady.kill()
        lost = load.pending
        if lost:
            kept = Path(tempfile.mkdtemp(prefix="soak-lost-", dir=options.folder))
            sockets = shutil.ignore_patterns("*.socket")
            shutil.copytree(name, kept, ignore=sockets, dirs_exist_ok=True)
            print(f"stores and logs are kept in {kept}")
    print(
        f"{load.acknowledged} acknowledged, {load.failed} not, {load.repeated} delivered again, "
        f"{len(lost)} LOST"
    )
    for key, stored in sorted(lost.items()):
        print(f"  {key} stored {stored}; refused once: {key in load.refused_once}")
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
