"""What one hostile peer costs a real node, frame by frame, and how long another client waits meanwhile.

    PYTHONPATH=. python tests/benchmarks/bench_hostile_frames.py [--only TEXT] [--source CHECKOUT] [--limit-s 60]

Each attack has a name server and a broker of its own, with default options and async flush. Printed are, in a table:

* turn: CPU milliseconds of the longest turn of the node's event loop;
* growth: by how many MiB the peak of resident memory rose above what the node held before;
* wait: the longest answer to another client (milliseconds), which sends to the broker or asks the name server for a
  route, one request after the other, 5 ms apart; on a busy machine it is mostly that of the machine;
* what became of the peer.

`--source` measures the nodes of another checkout, such as an older commit. An attack that is not over after `--limit-s`
is ended, and its figures are those up to then. The first row is a peer that asks for nothing costly.
"""

from __future__ import annotations

import argparse
import os
import socket
import struct
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from staticfire.system_under_test.protocol import command
from staticfire.system_under_test.protocol.codes import RequestCode
from staticfire.system_under_test.protocol.command import (
    RESPONSE_FLAG,
    RemotingCommand,
    decode_command,
)
from tests.support.costly_frames import (
    BROKER,
    FRAMES,
    MIB,
    NAME_SERVER,
    REPLICATION,
    TOPIC,
    Costly,
    asked,
    sent,
)
from tests.support.hostile_crowds import CROWDS, Attack, Crowd
from tests.support.local_processes import ROOT, LocalNode, LocalPair

SETTLE_S = 1.0  # after the answer: what the node goes on with
PAUSE_S = 0.005
ANSWER_HEADER_SIZE_MAX = 8 * MIB  # the ids of a batch
TURN_MAX_MS, GROWTH_MAX_MIB = 100.0, 64.0
NOTHING = Costly(BROKER, lambda: [asked(RequestCode.GET_MAX_OFFSET, topic=TOPIC, queueId="0")])


class Conversation:
    """A connection that asks one question at a time."""

    def __init__(self, port: int, timeout_s: float) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=timeout_s)
        self._lines = self._socket.makefile("rb")

    def ask(self, request: bytes) -> RemotingCommand:
        self._socket.sendall(request)
        return self.read()

    def write(self, data: bytes) -> None:
        self._socket.sendall(data)

    def read(self) -> RemotingCommand:
        """The next answer. Raises EOFError if the node has ended the connection, TimeoutError, OSError."""
        start = self._lines.read(4)
        if len(start) < 4:
            raise EOFError
        (size,) = struct.unpack(">i", start)
        return decode_command(self._lines.read(size))

    def close(self) -> None:
        # The reader may be inside a call, which a plain close would wait for.
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


class OtherClient(threading.Thread):
    """Asks again and again, and keeps the longest wait."""

    def __init__(self, port: int, request: bytes, timeout_s: float) -> None:
        super().__init__(daemon=True)
        self._conversation = Conversation(port, timeout_s)
        self._request = request
        self._conversation.ask(request)
        self._is_over = threading.Event()
        self._asked_s: float | None = None
        self._longest_s = 0.0

    def run(self) -> None:
        while not self._is_over.wait(PAUSE_S):
            self._asked_s = time.perf_counter()
            try:
                self._conversation.ask(self._request)
            except (OSError, EOFError, ValueError):
                return
            self._longest_s = max(self._longest_s, time.perf_counter() - self._asked_s)
            self._asked_s = None

    def end(self) -> float:
        """Seconds of the longest wait, that of an open question included."""
        asked_s = self._asked_s
        open_s = 0.0 if asked_s is None else time.perf_counter() - asked_s
        self._is_over.set()
        return max(self._longest_s, open_s)


def attack(port: int, kind: str, data: list[bytes], limit_s: float, answers: int = 0) -> str:
    """Write everything and, where the port answers, a last question; what became of the peer.

    `answers`: how many to wait for at least.
    """
    last = RemotingCommand.request(int(RequestCode.GET_ALL_TOPIC_CONFIG), {})
    if kind == NAME_SERVER:
        last = RemotingCommand.request(int(RequestCode.GET_BROKER_CLUSTER_INFO), {})
    last.opaque = 0x7EEEEEEE
    until_s = time.perf_counter() + limit_s
    conversation = Conversation(port, limit_s)
    if kind != REPLICATION:
        data = [*data, bytes(last.encode())]
    writer = threading.Thread(target=_write, args=(conversation, data), daemon=True)
    writer.start()
    codes: set[int] = set()
    count, has_last = 0, False
    try:
        if kind == REPLICATION:
            conversation._lines.read()  # until it is ended
            return "connection ended"
        while time.perf_counter() < until_s:
            answer = conversation.read()
            if answer.opaque == last.opaque:
                has_last = True
            elif answer.flag & RESPONSE_FLAG:  # a broker also notifies its clients
                codes.add(answer.code)
                count += 1
            if has_last and count >= answers:
                return f"code {', '.join(map(str, sorted(codes)))}"
    except (EOFError, ConnectionError):
        return "connection ended"
    except (TimeoutError, OSError):
        pass
    finally:
        conversation.close()
    return f"not over after {limit_s:.0f} s"


def _write(conversation: Conversation, data: list[bytes]) -> None:
    try:
        for one in data:
            conversation.write(one)
    except OSError:  # the peer has been thrown out
        return


@contextmanager
def nodes(source: Path) -> Iterator[LocalPair]:
    with (
        tempfile.TemporaryDirectory() as folder,
        LocalPair(Path(folder), flush="async", measured=True, source=source) as pair,
    ):
        yield pair


def prepared(attacker: Costly | Attack, limit_s: float) -> Callable[[int], str]:
    """The attack on a port, with everything that can be made before anything is measured."""
    if isinstance(attacker, Attack):
        return lambda port: attacker.carry_out(Crowd(port, limit_s))
    data = list(attacker.make())
    is_replication = attacker.port == REPLICATION
    return lambda port: attack(
        port + is_replication, attacker.port, data, limit_s, attacker.answers
    )


def measure(name: str, attacker: Costly | Attack, options: argparse.Namespace) -> bool:
    """Print a row; whether it is within the bounds."""
    carry_out = prepared(attacker, options.limit_s)
    on_name_server = attacker.port == NAME_SERVER
    with nodes(options.source) as pair:
        node: LocalNode = pair.name_server if on_name_server else pair.master
        address = pair.name_server_address if on_name_server else pair.master_address
        port = int(address.rpartition(":")[2])
        request = sent()
        Conversation(int(pair.master_address.rpartition(":")[2]), options.limit_s).ask(request)
        if on_name_server:
            request = asked(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic="TBW102")
        other = OtherClient(port, request, options.limit_s + 5)
        other.start()
        time.sleep(SETTLE_S)
        gauges = node.gauges
        before = gauges.held().resident_bytes
        gauges.forget_peak()
        became = carry_out(port)
        time.sleep(SETTLE_S)
        wait_ms = other.end() * 1000
        peak = gauges.peak_bytes()
        turn_ms = float(gauges.take_turns()["longest_turn_ms"])
    growth = max(0.0, (peak - before) / MIB)
    print(
        f"| {name} | {turn_ms:.0f} ms | {growth:.0f} MiB | {wait_ms:.0f} ms | {became} |",
        flush=True,
    )
    return turn_ms <= TURN_MAX_MS and growth <= GROWTH_MAX_MIB


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--only", default="", help="attacks whose name contains this")
    parser.add_argument(
        "--source", type=Path, default=ROOT, help="checkout whose nodes are measured"
    )
    parser.add_argument(
        "--limit-s", type=float, default=60.0, help="seconds that an attack may take"
    )
    options = parser.parse_args()
    command.READ_HEADER_SIZE_MAX = ANSWER_HEADER_SIZE_MAX
    print("| request | turn | growth | wait | what became of the peer |\n|---|---|---|---|---|")
    chosen: dict[str, Costly | Attack] = {"(nothing costly)": NOTHING, **FRAMES, **CROWDS}
    beyond = [
        name
        for name, attacker in chosen.items()
        if options.only in name and not measure(name, attacker, options)
    ]
    print(
        f"load average {os.getloadavg()[0]:.1f}; beyond {TURN_MAX_MS:.0f} ms or {GROWTH_MAX_MIB:.0f} MiB: {len(beyond)}"
    )
    for name in beyond:
        print(f"* {name}")


if __name__ == "__main__":
    main()
