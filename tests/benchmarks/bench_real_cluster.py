"""Sends a second of a real broker on loopback, beside what the same disk does by itself.

    PYTHONPATH=. python tests/benchmarks/bench_real_cluster.py [--folder DIR] [--seconds 3]

The broker, the name server and this load generator are a process each. Bodies are 1 KiB. The raw rate is that of
writing a record of the stored size into a preallocated file of the same file system and calling fdatasync, one after
the other; with many sends in flight the broker shares an fsync between them and may exceed it. "remoting" sends
prepared commands and leaves out our producer, which shares two cores with the broker here.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from statistics import quantiles

from staticfire.system_under_test.client.producer.producer import Producer, ProducerConfig
from staticfire.system_under_test.protocol.codes import RequestCode, ResponseCode, SendStatus
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.protocol.headers import SendMessageHeader
from staticfire.system_under_test.protocol.message import Message, encode_properties, encode_record
from staticfire.system_under_test.remoting import RemotingClient
from staticfire.system_under_test.runtime.real_env import make_env
from tests.support.local_processes import LocalPair

TOPIC = "BenchReal"
BODY = b"x" * 1024
PROPERTIES = {"UNIQ_KEY": "7F00000100002A9F0000000000000000", "WAIT": "true"}
RECORD_SIZE = len(encode_record(Message(topic=TOPIC, body=BODY, properties=PROPERTIES)))
RAW_FILE_SIZE = 64 << 20
IN_FLIGHT = (1, 8, 64)

Send = Callable[[], Awaitable[None]]


def raw_rate(folder: Path, seconds: float) -> float:
    """Records a second, each written and synced before the next."""
    record, path = b"r" * RECORD_SIZE, folder / "raw"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
    try:
        os.pwrite(
            descriptor, bytes(RAW_FILE_SIZE), 0
        )  # written, not only reserved: no metadata later
        os.fsync(descriptor)
        count, start = 0, time.perf_counter()
        while time.perf_counter() - start < seconds:
            os.pwrite(descriptor, record, count * RECORD_SIZE % (RAW_FILE_SIZE - RECORD_SIZE))
            os.fdatasync(descriptor)
            count += 1
        return count / (time.perf_counter() - start)
    finally:
        os.close(descriptor)
        path.unlink()


async def rate(send: Send, in_flight: int, seconds: float) -> tuple[float, float]:
    """Sends a second with so many in flight, and the 99th percentile of their latency in ms."""
    until = time.perf_counter() + seconds
    latencies: list[float] = []

    async def worker() -> None:
        while (start := time.perf_counter()) < until:
            await send()
            latencies.append((time.perf_counter() - start) * 1000)

    start = time.perf_counter()
    await asyncio.gather(*(worker() for _ in range(in_flight)))
    elapsed = time.perf_counter() - start
    return len(latencies) / elapsed, quantiles(latencies, n=100)[98]


async def through_producer(pair: LocalPair, seconds: float) -> list[tuple[float, float]]:
    config = ProducerConfig(
        group="bench", name_servers=(pair.name_server_address,), client_id="127.0.0.1@bench"
    )
    producer = Producer(make_env("bench"), config)
    await producer.start()

    async def send() -> None:
        result = await producer.send(Message(topic=TOPIC, body=BODY))
        assert result.status is SendStatus.SEND_OK, result.status

    await send()  # route, connection, topic
    rates = [await rate(send, in_flight, seconds) for in_flight in IN_FLIGHT]
    await producer.stop()
    return rates


async def through_remoting(pair: LocalPair, seconds: float) -> list[tuple[float, float]]:
    remoting = RemotingClient(make_env("bench"))
    header = SendMessageHeader(
        producer_group="bench",
        topic=TOPIC,
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=0,
        sys_flag=0,
        born_timestamp=int(time.time() * 1000),
        flag=0,
        properties=encode_properties(PROPERTIES).decode(),
    ).to_ext_v2()

    async def send() -> None:
        command = RemotingCommand.request(RequestCode.SEND_MESSAGE_V2, header, BODY)
        response = await remoting.invoke(pair.master_address, command, 10.0)
        assert response.code == ResponseCode.SUCCESS, response

    await send()
    rates = [await rate(send, in_flight, seconds) for in_flight in IN_FLIGHT]
    await remoting.close()
    return rates


def print_rates(label: str, rates: list[tuple[float, float]], raw: float) -> None:
    for in_flight, (per_second, p99_ms) in zip(IN_FLIGHT, rates, strict=True):
        print(
            f"{label:22} {in_flight:3} in flight {per_second:8,.0f} sends/s"
            f" {per_second / raw:6.2f} x raw   p99 {p99_ms:7.2f} ms"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, help="on the disk to be measured")
    parser.add_argument("--seconds", type=float, default=3.0, help="of each figure")
    options = parser.parse_args()
    for flush in ("sync", "async"):
        with tempfile.TemporaryDirectory(dir=options.folder) as name:
            folder = Path(name)
            raw = raw_rate(folder, options.seconds)
            print(f"{flush} flush; raw fdatasync of {RECORD_SIZE} bytes: {raw:,.0f} a second")
            with LocalPair(folder, flush=flush) as pair:
                for through in (through_producer, through_remoting):
                    label = f"{flush}, {through.__name__.removeprefix('through_')}"
                    print_rates(label, asyncio.run(through(pair, options.seconds)), raw)


if __name__ == "__main__":
    main()
