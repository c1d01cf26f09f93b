"""A name server without a network, whose clock is moved by hand."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any, cast

from staticfire.harness.simulation.disk.disk import SimDisk
from staticfire.system_under_test.configuration.mode import Mode
from staticfire.system_under_test.name_server.config import NameServerConfig
from staticfire.system_under_test.name_server.name_server import NameServer
from staticfire.system_under_test.protocol import json_dialect
from staticfire.system_under_test.protocol.codes import RequestCode, ResponseCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.remoting import Connection
from staticfire.system_under_test.runtime.env import Env
from tests.system_under_test.remoting.manual_loop import MemoryLog

SECOND_NS = 1_000_000_000


class HandClock:
    """A clock that stands still until a test moves it."""

    def __init__(self) -> None:
        self.now_ns = 1000 * SECOND_NS
        self.wall_step_ms = 0

    def wall_ms(self) -> int:
        return self.now_ns // 1_000_000 + self.wall_step_ms

    def monotonic_ns(self) -> int:
        return self.now_ns


def connection(key: int) -> Connection:
    return cast(Connection, SimpleNamespace(key=key))


class Node:
    """A name server, its disk and its clock."""

    def __init__(
        self,
        *,
        order_message_enable: bool = False,
        mode: Mode = Mode.HARDENED,
        black_list: tuple[str, ...] = ("configBlackList", "configStorePath", "kvConfigPath"),
    ) -> None:
        self.clock = HandClock()
        self.disk = SimDisk(
            random=random.Random(1), now_ns=self.clock.monotonic_ns, charge=lambda _: None
        )
        self._config = NameServerConfig(
            listen_host="127.0.0.1",
            kv_config_path="/namesrv/kvConfig.json",
            order_message_enable=order_message_enable,
            mode=mode,
            black_list=black_list,
        )
        self.restart()

    def restart(self) -> None:
        env = Env(
            name="ns",
            storage=self.disk,
            clock=self.clock,
            random=random.Random(1),
            log=MemoryLog(),
        )
        self.server = NameServer(env, self._config)
        self.server.load()

    def ask(
        self, code: int, ext: dict[str, str] | None = None, *, body: bytes = b"", key: int = 1
    ) -> RemotingCommand:
        answer = self.server.handle(connection(key), RemotingCommand.request(code, ext, body))
        assert answer is not None
        return answer

    def register(
        self, *topics: str, broker_id: int = 0, key: int = 1, **ext: str
    ) -> RemotingCommand:
        table = {
            topic: {"topicName": topic, "readQueueNums": 4, "writeQueueNums": 4, "perm": 6}
            for topic in topics
        }
        body = {
            "filterServerList": [],
            "topicConfigSerializeWrapper": {
                "topicConfigTable": table,
                "dataVersion": {"timestamp": 1, "counter": 1},
            },
        }
        return self.ask(
            RequestCode.REGISTER_BROKER,
            {**broker(broker_id), "haServerAddr": f"H{broker_id}", **ext},
            key=key,
            body=json_dialect.dumps(body),
        )

    def route_code(self, topic: str = "T") -> int:
        return self.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic}).code

    def run(self, seconds: float) -> None:
        """Let the name server look at its clock twice a second for a while."""
        for _ in range(int(seconds * 2)):
            self.clock.now_ns += SECOND_NS // 2
            self.server.note_time()


def broker(broker_id: int = 0) -> dict[str, str]:
    return {
        "brokerName": "a",
        "brokerAddr": f"A{broker_id}",
        "clusterName": "c",
        "brokerId": str(broker_id),
    }


def parsed(answer: RemotingCommand) -> Any:
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    return json_dialect.loads(answer.body)
