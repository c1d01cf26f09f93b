"""The interpreter: a process does one op at a time, and retires when an outcome is unknown."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from staticfire.checkers.model.history import Op
from staticfire.harness.accounts import GUEST, GuestRights
from staticfire.harness.campaign.ops import PlannedOp
from staticfire.harness.clients.port import ONE_WAY, Outcome, Request
from staticfire.harness.generators.interpreter import Interpreter
from staticfire.harness.recording.recorder import Recorder
from staticfire.harness.simulation.hosts.world import World

NS = 1_000_000_000


class NumberedSends:
    """p<process>-<n>, so that a key tells which process sent it."""

    def __init__(self) -> None:
        self._sent: dict[int, int] = {}

    def next_op(self, process: int) -> tuple[str, dict[str, Any]]:
        number = self._sent[process] = self._sent.get(process, -1) + 1
        return "send", {"key": f"p{process}-{number}"}


def every_second() -> float:
    return 1.0


class ScriptedClients:
    """Answers the sends of each node by a script of outcomes, and `ok` when that is over."""

    def __init__(self, **scripts: str) -> None:
        self._scripts = {node: script.split() for node, script in scripts.items()}
        self.requests: list[str] = []  # "node f" each
        self.busy: dict[str, int] = {}
        self.busy_max = 0
        self.down_until_s: dict[str, float] = {}

    async def ready(self, node: str) -> None:
        loop = asyncio.get_running_loop()
        await asyncio.sleep(max(self.down_until_s.get(node, 0.0) - loop.time(), 0.0))

    async def request(self, node: str, request: Request) -> Outcome:
        self.requests.append(f"{node} {request['f']}")
        self.busy[node] = self.busy.get(node, 0) + 1
        self.busy_max = max(self.busy_max, self.busy[node])
        await asyncio.sleep(0.25)
        self.busy[node] -= 1
        if request["f"] == "open":
            return Outcome("ok", {})
        script = self._scripts.get(node, [])
        type_ = script.pop(0) if script else "ok"
        error = None if type_ == "ok" else "because"
        return Outcome(type_, {"broker": "b"}, error)  # type: ignore[arg-type]


def interpret(clients: ScriptedClients, *nodes: str, until_s: float) -> list[str]:
    """Run the interpreter and return the history as `process type key` lines."""
    return [
        f"{op.process} {op.type} {op.value['key']}"
        for op in ops_of(clients, nodes, until_s, (0, 0))
    ]


def loaded(clients: ScriptedClients, **more: Any) -> tuple[World, Recorder, Interpreter]:
    """A world, what it records, and a load of one send a second with `more` options."""
    world = World(1)
    recorder = Recorder(lambda: world.now_ns)
    sends = NumberedSends()
    return (
        world,
        recorder,
        Interpreter(recorder, clients, sends, every_second, lambda: world.now_ns, **more),
    )


def ops_of(
    clients: ScriptedClients, nodes: Sequence[str], until_s: float, idle_s: tuple[float, float]
) -> list[Op]:
    idle_ns = int(idle_s[0] * NS), int(idle_s[1] * NS)
    world, recorder, interpreter = loaded(clients, idle_ns=idle_ns)
    world.run(lambda: interpreter.run(nodes, int(until_s * NS)))
    return recorder.ops


def test_a_load_that_is_put_off_goes_on_for_longer() -> None:
    world, recorder, interpreter = loaded(ScriptedClients(), late_ns=lambda: 3 * NS)
    world.run(lambda: interpreter.run(["n"], 2 * NS))
    last = max(op.time_ns for op in recorder.ops)
    assert 4 * NS < last < 6 * NS


def test_nothing_begins_while_the_load_is_idle_and_then_it_goes_on() -> None:
    ops = ops_of(ScriptedClients(), ("a", "b"), 110.0, (2.5, 100.0))
    begun_s = [op.time_ns / NS for op in ops if op.type == "invoke" and op.process == 0]
    assert [round(at_s) for at_s in begun_s] == [1, 2, 100, 101, 102, 104, 105, 106, 108, 109]
    assert len(ops) == 4 * len(begun_s)


def test_a_run_that_is_cut_short_does_not_wait_until_the_load_goes_on() -> None:
    world, recorder, interpreter = loaded(ScriptedClients(), idle_ns=(0, 1000 * NS))

    async def run() -> None:
        asyncio.get_running_loop().call_later(5.0, interpreter.cut_short)
        await interpreter.run(("a",), 2000 * NS)

    world.run(run)
    assert recorder.ops == []
    assert 5 * NS <= world.now_ns < 6 * NS


def test_ok_and_fail_go_on_under_the_same_process() -> None:
    clients = ScriptedClients(a="ok fail ok")
    assert interpret(clients, "a", until_s=4.5) == [
        *("0 invoke p0-0", "0 ok p0-0"),
        *("0 invoke p0-1", "0 fail p0-1"),
        *("0 invoke p0-2", "0 ok p0-2"),
    ]
    assert clients.requests == ["a send"] * 3


def test_info_retires_the_process_and_opens_the_client_anew() -> None:
    clients = ScriptedClients(a="ok info ok")
    assert interpret(clients, "a", until_s=4.5) == [
        *("0 invoke p0-0", "0 ok p0-0"),
        *("0 invoke p0-1", "0 info p0-1"),
        *("1 invoke p1-0", "1 ok p1-0"),
    ]
    assert clients.requests == ["a send", "a send", "a open", "a send"]


def test_no_two_nodes_ever_share_a_process_number() -> None:
    clients = ScriptedClients(a="info info ok", b="info ok", c="ok")
    lines = interpret(clients, "a", "b", "c", until_s=6.0)
    of_first, of_second, of_third = ({0, 3, 6}, {1, 4}, {2})
    assert {int(line.split()[0]) for line in lines} == of_first | of_second | of_third


def test_a_client_is_asked_one_thing_at_a_time() -> None:
    clients = ScriptedClients(a="ok info info ok")
    interpret(clients, "a", "b", until_s=10.0)
    assert clients.busy_max == 1


def test_nothing_is_sent_to_a_client_that_is_down_nor_after_the_end() -> None:
    clients = ScriptedClients()
    clients.down_until_s["a"] = 100.0
    assert interpret(clients, "a", until_s=4.0) == []
    assert clients.requests == []


def test_a_completion_keeps_what_was_asked_and_adds_what_came_back() -> None:
    world = World(1)
    recorder = Recorder(lambda: world.now_ns)
    clients = ScriptedClients(a="info")
    interpreter = Interpreter(
        recorder, clients, NumberedSends(), every_second, lambda: world.now_ns
    )
    world.run(lambda: interpreter.run(["a"], 2 * NS))
    invoke, done = recorder.ops[:2]
    assert invoke.value == {"key": "p0-0"}
    assert (done.value, done.error, done.node) == ({"key": "p0-0", "broker": "b"}, "because", "a")
    assert invoke.time_ns < done.time_ns


class Batches:
    """One batch of two, one way sends afterwards."""

    def __init__(self) -> None:
        self._count = 0

    def next_op(self, process: int) -> tuple[str, dict[str, Any]]:
        self._count += 1
        key = f"p{process}-{self._count}"
        if self._count == 1:
            return "send_batch", {"topic": "t", "messages": [{"key": "a"}, {"key": "b"}]}
        return "send", {"key": key, "one_way": True}


class PlacesAndSilence(ScriptedClients):
    """Says where each message of a batch is, and nothing of what was sent one way."""

    async def request(self, node: str, request: Request) -> Outcome:
        self.requests.append(f"{node} {request['f']}")
        if request["f"] == "send_batch":
            return Outcome("ok", {"messages": [{"queue_offset": 4}, {"queue_offset": 5}]})
        return Outcome("info", {}, ONE_WAY)


def test_a_batch_is_a_send_a_message_and_one_way_retires_the_process_but_not_the_client() -> None:
    world = World(1)
    recorder = Recorder(lambda: world.now_ns)
    clients = PlacesAndSilence()
    interpreter = Interpreter(recorder, clients, Batches(), every_second, lambda: world.now_ns)
    world.run(lambda: interpreter.run(["n"], int(3.5 * NS)))
    lines = [f"{op.process} {op.type} {op.f} {op.value['key']}" for op in recorder.ops]
    assert lines == [
        *("0 invoke send a", "0 invoke send b", "0 ok send a", "0 ok send b"),
        *("0 invoke send p0-2", "0 info send p0-2"),
        *("1 invoke send p1-3", "1 info send p1-3"),
    ]
    assert [op.value["queue_offset"] for op in recorder.ops if op.type == "ok"] == [4, 5]
    assert clients.requests == ["n send_batch", "n send", "n send"]


class IllegalSends(NumberedSends):
    def next_op(self, process: int) -> tuple[str, dict[str, Any]]:
        f, value = super().next_op(process)
        return f, {**value, "topic": "t", "illegal": "body"}


def test_what_must_be_refused_fails_whatever_the_client_says() -> None:
    world = World(1)
    recorder = Recorder(lambda: world.now_ns)
    clients = ScriptedClients(a="fail ok info")
    interpreter = Interpreter(recorder, clients, IllegalSends(), every_second, lambda: world.now_ns)
    world.run(lambda: interpreter.run(("a",), 4 * NS))
    ends = [(op.type, op.error) for op in recorder.ops if op.type != "invoke"]
    assert ends == [
        ("fail", "because"),
        ("fail", "to be refused; it ended as ok: None"),
        ("fail", "to be refused; it ended as info: because"),
    ]
    assert not any("broker" in op.value for op in recorder.ops)


class GuestSends:
    """Each process sends one message of the guest after the other."""

    def next_op(self, process: int) -> tuple[str, dict[str, Any]]:
        return "send", {"key": f"p{process}", "account": GUEST}


class OneAnswer:
    def __init__(self, outcome: Outcome, rights: GuestRights, *, given_back: bool) -> None:
        self._outcome = outcome
        self._rights = rights
        self._given_back = given_back

    async def ready(self, _node: str) -> None:
        """It is up."""

    async def request(self, _node: str, request: Request) -> Outcome:
        if self._given_back:
            self._rights.give_back()
        return self._outcome if request["f"] == "send" else Outcome("ok", {})


ACCEPTED = Outcome("ok", {"broker": "b", "queue": 0, "queue_offset": 7})
STORED_WEAKLY = Outcome("info", {"status": "FLUSH_DISK_TIMEOUT"}, "FLUSH_DISK_TIMEOUT")
REFUSED = Outcome("info", {"attempts": 1}, "b refused the message with code 1: AclException: No")
UNANSWERED = Outcome("info", {"attempts": 1}, "b did not answer")


@pytest.mark.parametrize(
    ("outcome", "given_back", "type_", "error"),
    [
        (ACCEPTED, False, "fail", "to be refused; it ended as ok: None"),
        (
            STORED_WEAKLY,
            False,
            "fail",
            "to be refused; it ended as info: FLUSH_DISK_TIMEOUT",
        ),
        (REFUSED, False, "fail", f"the right was withdrawn: {REFUSED.error}"),
        (UNANSWERED, False, "info", UNANSWERED.error),  # it may be carried out later
        (ACCEPTED, True, "ok", None),
        (REFUSED, True, "info", REFUSED.error),
    ],
)
def test_a_guest_without_its_right_must_be_refused(
    outcome: Outcome, given_back: bool, type_: str, error: str | None
) -> None:
    world = World(1)
    recorder = Recorder(lambda: world.now_ns)
    rights = GuestRights()
    rights.withdrawn()
    clients = OneAnswer(outcome, rights, given_back=given_back)
    interpreter = Interpreter(
        recorder, clients, GuestSends(), every_second, lambda: world.now_ns, rights=rights
    )
    world.run(lambda: interpreter.run(("a",), int(1.5 * NS)))
    _, end = recorder.ops
    assert (end.type, end.error) == (type_, error)
    assert ("queue_offset" in end.value) is (type_ == "ok")


class Refusing(ScriptedClients):
    """Refuses everything: a broker the first send, the client itself the second."""

    async def request(self, node: str, request: Request) -> Outcome:
        outcome = await super().request(node, request)
        reported = {"code": 13, "refused_by": "b"} if len(self.requests) == 1 else {}
        return Outcome("fail", {"attempts": 1, **reported}, outcome.error)


def test_the_code_of_a_broker_that_refuses_what_is_illegal_is_an_op() -> None:
    world = World(1)
    recorder = Recorder(lambda: world.now_ns)
    interpreter = Interpreter(
        recorder, Refusing(), IllegalSends(), every_second, lambda: world.now_ns
    )
    world.run(lambda: interpreter.run(("a",), 3 * NS))
    assert [(op.type, op.f) for op in recorder.ops if op.type != "invoke"] == [
        ("fail", "send"),
        ("ok", "refused"),
        ("fail", "send"),
    ]
    [refused] = [op.value for op in recorder.ops if op.f == "refused"]
    assert refused.pop("key") == "p0-0"
    assert refused == {"topic": "t", "illegal": "body", "code": 13, "broker": "b"}


def test_ops_that_are_data_are_done_at_their_times_or_one_after_the_other() -> None:
    def send(node: str, at_s: float, key: str) -> PlannedOp:
        return PlannedOp(node=node, at_s=at_s, f="send", value={"key": key})

    ops = (
        send("a", 1.0, "late"),
        send("b", 0.5, "other"),
        send("a", 0.2, "x"),
        send("a", 0.3, "y"),
    )
    world, recorder, interpreter = loaded(ScriptedClients(), ops=ops)
    world.run(lambda: interpreter.run(["a", "b"], 2 * NS))
    begun = {op.value["key"]: op.time_ns for op in recorder.ops if op.type == "invoke"}
    assert begun == {
        "x": 200_000_000,
        "y": 450_000_000,  # the one before it took until then
        "other": 500_000_000,
        "late": NS,
    }
    assert [op.at_ns for op in interpreter.begun] == sorted(begun.values())


def test_no_op_begins_behind_the_end_of_the_load() -> None:
    op = PlannedOp(node="a", at_s=5.0, f="send", value={"key": "k"})
    world, recorder, interpreter = loaded(ScriptedClients(), ops=(op,))
    world.run(lambda: interpreter.run(["a"], 2 * NS))
    assert recorder.ops == []
