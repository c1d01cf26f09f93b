"""Clients as processes against a real cluster: killed for real, ended gracefully, and honest about what they know."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from typing import Any

import pytest

from staticfire.harness.clients.port import ONE_WAY, Outcome
from staticfire.harness.local_cluster import LocalCluster
from tests.support.client_processes import ROOT, ClientProcess, client_process

pytestmark = pytest.mark.real
OURS, CPP = "staticfire.harness.clients", "staticfire.harness.clients.cpp.client"
HAS_CPP = pytest.mark.skipif(
    importlib.util.find_spec("rocketmq") is None, reason="needs the extra cpp-client"
)
BOTH = pytest.mark.parametrize("module", [OURS, pytest.param(CPP, marks=HAS_CPP)])
QUEUES = 2


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster() as cluster:
        yield cluster


class World:
    """The configurations of clients of one topic, and what the broker knows of it."""

    def __init__(self, cluster: LocalCluster, admin: ClientProcess, topic: str) -> None:
        self._cluster = cluster
        self._admin = admin
        self.topic = topic
        self.group = f"group-of-{topic}"

    def producer(self, module: str) -> dict[str, Any]:
        return self._configuration(module, "producers", "producer-1")

    def consumer(self, module: str, name: str = "consumer-1", **more: Any) -> dict[str, Any]:
        return {**self._configuration(module, self.group, name), **more}

    def _configuration(self, module: str, group: str, name: str) -> dict[str, Any]:
        log = {"log_folder": str(self._cluster.folder)} if module == CPP else {}
        return {
            **log,
            "group": group,
            "client_id": f"127.0.0.1@{name}-{self.topic}",
            "name_servers": list(self._cluster.name_servers),
            "topic": self.topic,
            "node": name,
        }

    async def ask_broker(self, f: str, **fields: Any) -> Outcome:
        address = self._cluster.brokers[0].address
        outcome = await self._admin.ask(
            f, address=address, topic=self.topic, queues=QUEUES, **fields
        )
        assert outcome.type == "ok", outcome
        return outcome

    async def lag(self) -> int:
        """What the group has not committed."""
        outcome = await self.ask_broker("queue_state", group=self.group)
        return sum(high - done for _, _, high, done in outcome.value["queues"])

    async def send(self, module: str, keys: list[str]) -> list[Mapping[str, Any]]:
        """Send with a process of its own; returns where the messages are."""
        async with client_process(module, "producer", self.producer(module)) as producer:
            ends = [await producer.ask("send", topic=self.topic, key=key, size=200) for key in keys]
            assert {end.type for end in ends} == {"ok"}, ends
            producer.close_input()
            assert await producer.ended() == 0
            return [end.value for end in ends]


def delivered(values: Sequence[Mapping[str, Any]]) -> dict[str, tuple[Any, ...]]:
    """Where each key came from, for keys whose body was intact."""
    return {
        key: (value["broker"], value["queue"], offset, physical)
        for value in values
        for key, offset, physical, intact, _ in value["messages"]
        if intact
    }


def play(
    cluster: LocalCluster, topic: str, story: Callable[[World], Coroutine[Any, Any, None]]
) -> None:
    """Play a story on a topic of its own."""

    async def main() -> None:
        async with asyncio.timeout(60), client_process(OURS, "admin", {}) as admin:
            world = World(cluster, admin, topic)
            await world.ask_broker("create_topic")
            await story(world)

    asyncio.run(main())


@BOTH
@pytest.mark.parametrize("end", ["input", "signal"])
def test_what_is_sent_is_consumed_and_committed_at_a_graceful_end(
    cluster: LocalCluster, module: str, end: str
) -> None:
    async def story(world: World) -> None:
        keys = [f"key-{number}" for number in range(10)]
        machines = await world.send(module, keys)
        async with client_process(module, "consumer", world.consumer(module)) as consumer:
            while len(delivered(consumer.values("ok", "consume"))) < len(keys):
                await consumer.until(len(consumer.values("ok", "consume")) + 1, "ok", "consume")
            found = delivered(consumer.values("ok", "consume"))
            assert found == {
                key: (p["broker"], p["queue"], p["queue_offset"], p["physical_offset"])
                for key, p in zip(keys, machines, strict=True)
            }
            given = [row for of in consumer.values("invoke", "consume") for row in of["messages"]]
            contents = {row[0]: row[5] for row in given}
            assert {key: contents[key][0] for key in keys} == {
                key: p["id"] for key, p in zip(keys, machines, strict=True)
            }
            assert {(tag, size) for _, tag, _, _, _, size, _ in contents.values()} == {("", 200)}
            assert all(0 <= of[4] - of[3] < 60_000 for of in contents.values())  # stored after born
            assert module == CPP or await world.lag()  # the next commit is seconds away
            consumer.close_input() if end == "input" else consumer.send_signal(signal.SIGTERM)
            assert await consumer.ended() == 0
            assert await world.lag() == 0

    play(cluster, f"Graceful-{end}-{len(module)}", story)


@BOTH
def test_a_send_that_a_killed_process_did_not_answer_is_unknown(
    cluster: LocalCluster, module: str
) -> None:
    async def story(world: World) -> None:
        async with client_process(module, "producer", world.producer(module)) as producer:
            await producer.until(1, "ok", "open")
            producer.send_signal(signal.SIGSTOP)
            send = asyncio.create_task(producer.ask("send", topic=world.topic, key="k", size=10))
            await asyncio.sleep(0)
            producer.send_signal(signal.SIGKILL)
            assert await producer.ended() == -signal.SIGKILL
            assert await send == Outcome("info", {}, "producer ended")

    play(cluster, "Killed", story)


@BOTH
def test_what_a_killed_consumer_had_not_finished_comes_again(
    cluster: LocalCluster, module: str
) -> None:
    async def story(world: World) -> None:
        await world.send(OURS, ["k"])
        async with client_process(
            module, "consumer", world.consumer(module, delay_s=60.0)
        ) as first:
            await first.until(1, "invoke", "consume")
            counters = await first.ask("listener_counters")
            assert counters.value == {"delayed": 1, "failed": 0}
            await first.kill()
            assert first.values("ok", "consume") == []
        async with client_process(
            module, "consumer", world.consumer(module, "consumer-2")
        ) as second:
            await second.until(1, "ok", "consume")
            assert list(delivered(second.values("ok", "consume"))) == ["k"]

    play(cluster, f"Redelivered-{len(module)}", story)


def test_a_listener_misbehaves_when_configured(cluster: LocalCluster) -> None:
    async def story(world: World) -> None:
        async with client_process(OURS, "consumer", world.consumer(OURS)) as consumer:
            await consumer.until(1, "ok", "assign")
            assert (await consumer.ask("failing_listener", share=1.0)).type == "ok"
            await world.send(OURS, ["k"])
            await consumer.until(1, "info", "consume")
            assert (await consumer.ask("listener_counters")).value["failed"] == 1

    play(cluster, "Misbehaving", story)


def test_a_listener_that_fails_a_number_of_times_sends_back(cluster: LocalCluster) -> None:
    async def story(world: World) -> None:
        configuration = world.consumer(OURS, failing_tries=1, delay_level=1, consume_batch=1)
        async with client_process(OURS, "consumer", configuration) as consumer:
            await consumer.until(1, "ok", "assign")
            await world.send(OURS, ["k"])
            (refused,) = await consumer.until(1, "info", "consume")
            (sent_back,) = await consumer.until(1, "ok", "send_back")
            (taken,) = await consumer.until(1, "ok", "consume")
        assert sent_back["messages"] == [["k", refused["messages"][0][1], 0]]
        assert (taken["topic"], taken["messages"][0][4]) == (f"%RETRY%{world.group}", 1)

    play(cluster, "SentBack", story)


def test_keys_transactions_and_requests_over_the_line_protocol(cluster: LocalCluster) -> None:
    async def story(world: World) -> None:
        send = {"topic": world.topic, "size": 10}
        async with (
            client_process(OURS, "consumer", world.consumer(OURS, ordered=True)) as consumer,
            client_process(OURS, "producer", world.producer(OURS)) as producer,
        ):
            await consumer.until(1, "ok", "assign")
            ends = [
                await producer.ask("send", **send, key=f"s{n}", sharding_key="one", tag="red")
                for n in range(5)
            ]
            assert len({(end.value["broker"], end.value["queue"]) for end in ends}) == 1
            for state in ("commit", "rollback"):
                end = await producer.ask("transact", **send, key=state, state=state)
                assert (end.type, end.value["state"], end.value["end_sent"]) == ("ok", state, True)
            asked = await producer.ask("request", **send, key="question", timeout_s=30.0)
            assert (asked.type, asked.value["reply"]) == ("ok", "question")
            keys = {"commit", "question", *(f"s{n}" for n in range(5))}
            while set(delivered(consumer.values("ok", "consume"))) != keys:
                await consumer.until(len(consumer.values("ok", "consume")) + 1, "ok", "consume")
            assert [value["key"] for value in consumer.values("ok", "reply")] == ["question"]

    play(cluster, "Kinds", story)


@HAS_CPP
def test_what_the_cpp_client_did_not_send_has_failed(cluster: LocalCluster) -> None:
    async def story(world: World) -> None:
        misled = {**world.producer(CPP), "name_servers": ["127.0.0.1:9"]}
        async with (
            client_process(CPP, "producer", misled) as lonely,
            client_process(CPP, "producer", world.producer(CPP)) as producer,
        ):
            send = {"topic": world.topic, "key": "k", "size": 10}
            failed = await lonely.ask("send", **send)
            assert (failed.type, failed.value) == ("fail", {"attempts": 0})
            to_a_queue = await producer.ask("send", **send, broker="broker-a", queue=0)
            batch = await producer.ask("send_batch", topic=world.topic, messages=[send])
            assert (to_a_queue.type, batch.type) == ("fail", "fail")
            tries = 0
            while (
                await world.lag() == 0
            ):  # a broker may refuse what is sent one way, and nothing says so
                tries += 1
                assert await producer.ask("send", **send, one_way=True) == Outcome(
                    "info", {"attempts": 1}, ONE_WAY
                )
                for _ in range(100):  # what is stored shows a moment later
                    if await world.lag():
                        break
                    await asyncio.sleep(0.01)
            assert (await producer.ask("send", **send)).type == "ok"
            while (stored := await world.lag()) < 2:
                await asyncio.sleep(0.01)
            assert stored <= tries + 1

    play(cluster, "Failed", story)


@pytest.mark.parametrize(
    ("arguments", "lines", "complaint"),
    [
        (["broker"], "", "broker is no role; usage: "),
        ([], "", "nothing is no role; usage: "),
        (["admin"], "", "the first line of standard input must be the configuration."),
        (["consumer"], '{"group":"g"}\n', "the configuration lacks 'client_id'."),
        (
            ["admin"],
            '{}\n{"id":1,"f":"dance"}\n',
            "'dance' is no request; the admin knows create_topic, ",
        ),
    ],
)
def test_bad_input_is_one_sentence(arguments: list[str], lines: str, complaint: str) -> None:
    process = subprocess.run(
        [sys.executable, "-m", OURS, *arguments],
        input=lines,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        timeout=60,
    )
    assert process.returncode == 254
    assert process.stderr.startswith(f"python -m staticfire.harness.clients: {complaint}")
    assert process.stderr.count("\n") == 1
    assert process.stdout == ""


def session() -> list[list[tuple[str, Any]]]:
    """The session of docs/client-protocol.md: for each client who says what."""
    text = (ROOT / "docs" / "client-protocol.md").read_text(encoding="utf-8")
    block = text.partition("## A session")[2].split("```")[1].removeprefix("text").strip()
    return [
        [(line[0], json.loads(line[2:])) for line in part.splitlines()]
        for part in block.split("\n\n")
    ]


def test_the_session_of_the_documentation_is_what_happens() -> None:
    with LocalCluster() as cluster:
        create = {"f": "create_topic", "address": cluster.brokers[0].address}
        run_client("admin", [{}, {"id": 1, **create, "topic": "Orders", "queues": 1}])
        for role, lines in zip(("producer", "consumer"), session(), strict=True):
            reported = [fields for who, fields in lines if who == ">"]
            reported[0]["name_servers"] = list(cluster.name_servers)
            wait_for = 5 if role == "consumer" else 0  # lines, before it is asked and ended
            heard = run_client(role, reported, wait_for)
            shown = [without_what_changes(fields) for fields in heard]
            assert shown == [fields for who, fields in lines if who == "<"]


def without_what_changes(fields: dict[str, Any]) -> dict[str, Any]:
    """A line without stamp, message id and contents, which are new each time and not in the documentation."""
    assert type(fields["at_ns"]) is int
    value = {name: fields["value"][name] for name in fields["value"] if name != "id"}
    if fields.get("emit") == "consume":
        value["messages"] = [message[:5] for message in value["messages"]]
    return {**{name: fields[name] for name in fields if name != "at_ns"}, "value": value}


def run_client(
    role: str, reported: list[dict[str, Any]], wait_for: int = 0
) -> list[dict[str, Any]]:
    """Tell a client its configuration, hear so many lines, tell it the rest, and hear what it says until its end."""
    process = subprocess.Popen(
        [sys.executable, "-m", OURS, role],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        text=True,
    )
    bound = threading.Timer(60, process.kill)
    bound.start()
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        print(json.dumps(reported[0]), file=process.stdin, flush=True)
        lines = [process.stdout.readline() for _ in range(wait_for)]
        rest, _ = process.communicate("".join(f"{json.dumps(line)}\n" for line in reported[1:]))
    bound.cancel()
    assert process.returncode == 0
    return [json.loads(line) for line in (*lines, *rest.splitlines())]
