"""What one send costs the thread of the broker's event loop, without sockets, clients and the noise they make.

    PYTHONPATH=. python tests/benchmarks/bench_send_path.py [--folder DIR] [--flush async|sync]
        [--in-turn 1,10,64] [--slices N]

A real broker on a real store gets requests as Apache's Java client writes them (SEND_MESSAGE_V2, JSON, 1 KiB bodies),
so many in one turn of the loop, over a transport that drops the answers. Of many slices "fast" is the one that a tenth
of them is faster than: other processes disturb it least. Compare it with another commit's in alternating runs.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from pathlib import Path

from staticfire.harness.local_cluster.ports import free_ports
from staticfire.system_under_test.broker.assembly.broker import Broker
from staticfire.system_under_test.broker.config import BrokerConfig
from staticfire.system_under_test.protocol.codes import LanguageCode, RequestCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.remoting.connection import Connection
from staticfire.system_under_test.runtime.real_env import make_env

QUEUES = 4
BODY = bytes(1024)
SLICE_SENDS = 640
WARM_UP_SLICES = 5


class Sink(asyncio.Transport):
    """Counts answers and drops them; `answered` is set when as many have come as were sent."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 40_000)})
        self.waiting = 0
        self.answered = asyncio.Event()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.waiting -= bytes(data).count(b'"queueOffset"')
        if not self.waiting:
            self.answered.set()

    def abort(self) -> None:
        pass

    def pause_reading(self) -> None:
        """The requests of a slice come whether they are wanted or not."""

    def resume_reading(self) -> None:
        pass


class Requests:
    """Bytes of sends, each with its own unique key and opaque."""

    def __init__(self) -> None:
        self._count = 0

    def chunk(self, sends: int) -> bytes:
        return b"".join([self._frame() for _ in range(sends)])

    def _frame(self) -> bytes:
        self._count += 1
        unique_key = f"7F000001553B1DBABE6E3A3C{0x10000000 + self._count:08X}"
        ext = {
            "a": "bench",
            "b": "Bench",
            "c": "TBW102",
            "d": str(QUEUES),
            "e": str(self._count % QUEUES),
            "f": "0",
            "g": str(1_795_708_224_681 + self._count // 10),
            "h": "0",
            "i": f"UNIQ_KEY\x01{unique_key}\x02WAIT\x01true\x02",
            "j": "0",
            "k": "false",
            "m": "false",
        }
        command = RemotingCommand(
            RequestCode.SEND_MESSAGE_V2,
            ext,
            BODY,
            opaque=self._count,
            language=LanguageCode.JAVA.value,
            version=399,
        )
        return command.encode()


async def run_slice(connection: Connection, sink: Sink, chunks: list[bytes], sends: int) -> float:
    """CPU of this thread, in microseconds a message."""
    start_ns = time.thread_time_ns()
    for chunk in chunks:
        sink.waiting += sends
        sink.answered.clear()
        connection.data_received(chunk)
        await sink.answered.wait()
    return (time.thread_time_ns() - start_ns) / 1000 / (sends * len(chunks))


async def bench(folder: Path, flush: str, in_turn: list[int], slices: int) -> None:
    (port,) = free_ports(1)
    env = make_env("bench")
    config = BrokerConfig(
        listen_host="127.0.0.1",
        listen_port=port,
        broker_name="bench",
        store_path=str(folder),
        sync_flush=flush == "sync",
        commit_log_file_size=64 << 20,
    )
    broker = Broker(env, config)
    broker.open()
    await broker.start()
    sink, requests = Sink(), Requests()
    loop = asyncio.get_running_loop()
    connection = Connection(key=1, loop=loop, log=env.log, handler=broker.flow.handle)
    connection.connection_made(sink)
    for sends in in_turn:
        results = []
        for number in range(WARM_UP_SLICES + slices):
            chunks = [requests.chunk(sends) for _ in range(max(1, SLICE_SENDS // sends))]
            cpu_us = await run_slice(connection, sink, chunks, sends)
            if number >= WARM_UP_SLICES:
                results.append(cpu_us)
        results.sort()
        fast, median = results[len(results) // 10], results[len(results) // 2]
        print(
            f"{flush} {sends:3} in a turn: fast {fast:6.1f} us, median {median:6.1f} us", flush=True
        )
    connection.abort()
    await broker.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--flush", default="async", choices=("async", "sync"))
    parser.add_argument("--in-turn", default="1,10,64")
    parser.add_argument("--slices", type=int, default=40)
    options = parser.parse_args()
    in_turn = [int(text) for text in options.in_turn.split(",")]
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        asyncio.run(bench(Path(folder), options.flush, in_turn, options.slices))


if __name__ == "__main__":
    main()
