"""The broker's send and pull path under a load that is not the bottleneck, beside what disk and loopback give.

    PYTHONPATH=. python tests/benchmarks/bench_broker.py [--folder DIR] [--seconds 4] [--rows sync,pull] [--runs N]
        [--messages N]

1 KiB bodies, one connection, N in flight; broker, slave and load are a process each. "us" is the broker's CPU time a
message, "RSS" its resident memory afterwards. Of several runs, the one with the median rate is shown, and the range of
the rates. "of Java" compares with Apache RocketMQ 4.9.8 under its own client on two quiet cores (JAVA below). Another
machine, another client: read it as an order of magnitude, and compare rows of one run.

Where the time of a send goes (py-spy, samples with the interpreter lock, sync flush, 64 in flight, index and
statistics on, a busy machine), in percent with everything below: append 23 (encode the record 8, key hashes 4, queue
entry and log the rest), wake the thread that flushes 11, decode the frame 11, answers 10 (of it the template 4),
dispatch 7 (index entries 2), read the header 6, properties and message 4, the notification by the thread 3. A pull is
the socket write and one pread of neighbouring records. One flush carries all 64 sends.

What made a difference, in alternating pairs on a busy machine, us a message and the median of the ratios:

* One object a message from append to visible, the send header without a loop over its fields, one look at the numbers
  of a frame, a record packed at once, index entries of a flush made together, answers formatted as bytes, answers
  that do not keep the request, a thread for the flushes: sync 64 33.1 to 24.1 (12 pairs, 0.72), async 64 31.8 to 20.5
  (8 pairs, 0.65), sync 1 280 to 234 (12 pairs, 0.80), sync + slave 64 47.5 to 35.3 (8 pairs, 0.75).
* Of these alone: an answer that does not keep request and body until the flush about 1 us, as what is freed at once
  is still in the cache; the thread instead of asyncio's executor 0.85 with 1 in flight (14 pairs), 0.93 with 8, noise
  with 64.
* Before: one write a turn of the loop also with async flush (46 to 37), looking at 32 queue entries for a pull and
  not at 800 (8.8 to 2.8), not reading the hole behind the log at a restart (2.5 to 0.8 s), remembered heads of user
  keys and numbers of a header looked up (42.0 to 36.7, 4 pairs).
* Nothing: frames freed one by one, a list of records in place of one buffer, another threshold of the garbage
  collector.

What is left of one send, each measured alone: decode a frame 2.4, encode the record 1.8 (properties 0.6), read the
header 1.0, make the message 0.9 (properties 0.5), answer 0.9, key hashes 0.8, reserve space 0.6, wait for the flush
0.3 us. Opening a store of 200,000 records takes 1.4 s of CPU: checks of the records 29 %, key hashes and index
entries 43 % (py-spy).
"""

from __future__ import annotations

import argparse
import os
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from staticfire.harness.local_cluster.ports import free_ports
from staticfire.system_under_test.protocol.codes import RequestCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.protocol.headers import PullMessageHeader, SendMessageHeader
from staticfire.system_under_test.protocol.message import encode_properties
from tests.support.local_processes import LocalNode
from tests.support.raw_load import Frame, LoadResult, run_load

TOPIC = "BenchBroker"
BODY = b"x" * 1024
QUEUES = 4
PULL_COUNT = 32
RECORD_SIZE = 1250
IN_FLIGHT = (1, 8, 64)
SLAVE_RUNS = (
    3  # two processes flush and one waits for the other: no row differs more from run to run
)
TICKS_S = 1 / os.sysconf("SC_CLK_TCK")
JAVA = {
    "async": {1: 3700, 8: 13_300, 64: 19_800},
    "sync": {1: 1900, 8: 6200, 64: 16_400},
    "sync + slave": {1: 900, 8: 4700, 64: 10_500},
    "pull": {1: 82_000},
}


def send_frames() -> list[Frame]:
    """Sends as a Java client makes them, to each queue in turn."""
    properties = {
        "KEYS": "order-4711",
        "UNIQ_KEY": "7F00000100002A9F0000000000000000",
        "WAIT": "true",
        "TAGS": "TagA",
    }
    frames = []
    for queue_id in range(QUEUES):
        header = SendMessageHeader(
            producer_group="bench",
            topic=TOPIC,
            default_topic="TBW102",
            default_topic_queue_nums=QUEUES,
            queue_id=queue_id,
            sys_flag=0,
            born_timestamp=1_600_000_000_000,
            flag=0,
            properties=encode_properties(properties).decode(),
        )
        command = RemotingCommand.request(RequestCode.SEND_MESSAGE_V2, header.to_ext_v2(), BODY)
        frames.append(Frame(command))
    return frames


def pull_frames(messages: int) -> list[Frame]:
    """Pulls of 32 that walk through the queues."""
    frames = []
    for offset in range(0, messages // QUEUES - PULL_COUNT, PULL_COUNT):
        header = PullMessageHeader(
            consumer_group="bench",
            topic=TOPIC,
            queue_id=offset // PULL_COUNT % QUEUES,
            queue_offset=offset,
            max_msg_nums=PULL_COUNT,
            sys_flag=4,
            commit_offset=0,
            suspend_timeout_millis=0,
            sub_version=0,
            subscription="*",
        )
        frames.append(Frame(RemotingCommand.request(RequestCode.PULL_MESSAGE, header.to_ext())))
    return frames


# Nodes


class Bench:
    """A broker, and if asked its slave, on ports of its own."""

    def __init__(self, folder: Path, *, flush: str, with_slave: bool = False) -> None:
        port, slave_port = free_ports(2)
        self.address = ("127.0.0.1", port)
        role = ["--role", "sync-master"] if with_slave else []
        self.master = self._node(folder, "master", port, flush, role)
        self.slave = None
        if with_slave:
            properties = folder / "slave.properties"
            properties.write_text(f"haMasterAddress=127.0.0.1:{port + 1}\n")
            arguments = ["-c", str(properties), "--role", "slave", "--broker-id", "1"]
            self.slave = self._node(folder, "slave", slave_port, flush, arguments)

    @staticmethod
    def _node(folder: Path, name: str, port: int, flush: str, arguments: list[str]) -> LocalNode:
        common = ["broker", "--broker-name", "bench", "--port", str(port), "--flush", flush]
        return LocalNode(name, folder, [*common, "--store", str(folder / name), *arguments])

    @contextmanager
    def running(self) -> Iterator[None]:
        nodes = [node for node in (self.slave, self.master) if node is not None]
        try:
            for node in nodes[::-1]:
                node.start()
            yield
        finally:
            for node in nodes:
                node.kill()

    def load(self, frames: list[Frame], in_flight: int, seconds: float) -> LoadResult:
        return run_load(self.address, frames, in_flight=in_flight, seconds=seconds)


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * TICKS_S


def resident_mb(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


# Rows


class Run(NamedTuple):
    """One load, and what it cost the broker."""

    result: LoadResult
    cpu_s: float

    @property
    def rate(self) -> float:
        return self.result.rate


def print_header() -> None:
    print(f"{'':22}{'msgs/s':>9}{'p50 ms':>9}{'p99 ms':>9}{'us':>8}{'RSS MB':>8}{'of Java':>9}")


def print_row(name: str, runs: list[Run], per_answer: int, pid: int) -> None:
    """The run with the median rate; of several, also how far the others are from it."""
    runs = sorted(runs, key=lambda run: run.rate)
    result, cpu = runs[len(runs) // 2]
    messages = result.answers * per_answer
    row, _, in_flight = name.rpartition(" ")
    java = JAVA[row].get(int(in_flight))
    of_java = f"{messages / result.seconds / java:.2f}" if java else "-"
    odd = {code.decode(): n for run in runs for code, n in run.result.codes.items() if code != b"0"}
    rates = [run.rate * per_answer for run in runs]
    print(
        f"{name:22}{messages / result.seconds:9.0f}{result.percentile_ms(50):9.2f}"
        f"{result.percentile_ms(99):9.2f}{cpu / messages * 1e6:8.1f}{resident_mb(pid):8.0f}"
        f"{of_java:>9}{f'  codes {odd}' if odd else ''}"
        f"{f'  {len(runs)} runs: {rates[0]:.0f} to {rates[-1]:.0f}' if len(runs) > 1 else ''}",
        flush=True,
    )


def measure(
    bench: Bench, name: str, frames: list[Frame], in_flight: int, seconds: float, runs: int = 1
) -> None:
    pid = bench.master.pid
    bench.load(frames, in_flight, seconds / 4)  # warm up
    done = []
    for _ in range(runs):
        before = cpu_s(pid)
        result = bench.load(frames, in_flight, seconds)
        done.append(Run(result, cpu_s(pid) - before))
    print_row(f"{name} {in_flight}", done, PULL_COUNT if name == "pull" else 1, pid)


def wait_for_slave(bench: Bench) -> None:
    """Until sends are answered with 0: the slave has connected."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        if set(bench.load(send_frames(), 1, 0.2).codes) == {b"0"}:
            return
    raise RuntimeError("the slave has not connected in 30 s")


def bench_sends(folder: Path, name: str, seconds: float, runs: int) -> None:
    with_slave = name.endswith("slave")
    flush = "async" if name == "async" else "sync"
    bench = Bench(folder, flush=flush, with_slave=with_slave)
    with bench.running():
        if with_slave:
            wait_for_slave(bench)
        for in_flight in IN_FLIGHT:
            measure(bench, name, send_frames(), in_flight, seconds, runs)


def fill(bench: Bench, messages: int) -> None:
    sent = 0
    while sent < messages:
        sent += bench.load(send_frames(), 64, 1.0).answers


def bench_pulls(folder: Path, seconds: float, messages: int) -> None:
    bench = Bench(folder, flush="async")
    with bench.running():
        fill(bench, messages)
        for in_flight in (1, 8):
            measure(bench, "pull", pull_frames(messages), in_flight, seconds)


def bench_restart(folder: Path, messages: int) -> None:
    """Seconds until the port is open again, after a stop and after a kill."""
    bench = Bench(folder, flush="sync")
    endings: tuple[tuple[str, Callable[[], object]], ...] = (
        ("stop", bench.master.stop),
        ("kill", bench.master.kill),
    )
    with bench.running():
        fill(bench, messages)
        for name, end in endings:
            end()
            start = time.perf_counter()
            bench.master.start()
            seconds, cpu = time.perf_counter() - start, cpu_s(bench.master.pid)
            print(f"restart after {name:9}{seconds:8.2f} s, {cpu:.2f} s of CPU", flush=True)


# What the machine gives


def raw_disk(folder: Path, seconds: float) -> float:
    """Records a second, each written into a preallocated file and synced before the next."""
    size, path = 64 << 20, folder / "raw"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
    try:
        os.posix_fallocate(descriptor, 0, size)
        os.fsync(descriptor)
        count, start = 0, time.perf_counter()
        while time.perf_counter() - start < seconds:
            os.pwrite(descriptor, bytes(RECORD_SIZE), count * RECORD_SIZE % (size - RECORD_SIZE))
            os.fdatasync(descriptor)
            count += 1
        return count / (time.perf_counter() - start)
    finally:
        os.close(descriptor)
        path.unlink()


def raw_loopback(seconds: float) -> float:
    """Exchanges a second: a frame of 1.3 kB there, 200 bytes back, one at a time."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def echo() -> None:
            peer, _ = server.accept()
            with peer:
                while peer.recv(1 << 16):
                    peer.sendall(bytes(200))

        threading.Thread(target=echo, daemon=True).start()
        with socket.create_connection(server.getsockname()) as peer:
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            count, start = 0, time.perf_counter()
            while time.perf_counter() - start < seconds:
                peer.sendall(bytes(1300))
                peer.recv(1 << 16)
                count += 1
            return count / (time.perf_counter() - start)


ROWS = ("async", "sync", "sync + slave", "pull", "restart")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--messages", type=int, default=200_000, help="for pulls and restarts")
    parser.add_argument("--runs", type=int, help="of each row of sends (default 1; with a slave 3)")
    parser.add_argument("--rows", default=",".join(ROWS))
    options = parser.parse_args()
    rows = options.rows.split(",")
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        disk, loopback = raw_disk(Path(folder), 1.0), raw_loopback(1.0)
        print(f"raw: {disk:.0f} fdatasyncs/s, {loopback:.0f} exchanges/s on loopback")
        print_header()
        for row in rows:
            with tempfile.TemporaryDirectory(dir=options.folder) as store:
                if row == "pull":
                    bench_pulls(Path(store), options.seconds, options.messages)
                elif row == "restart":
                    bench_restart(Path(store), options.messages)
                else:
                    runs = options.runs or (SLAVE_RUNS if row.endswith("slave") else 1)
                    bench_sends(Path(store), row, options.seconds, runs)


if __name__ == "__main__":
    main()
