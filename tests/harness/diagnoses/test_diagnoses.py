"""Diagnoses of small made-up runs: their texts, and their absence in other runs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from staticfire.checkers.model.history import Op, OpType
from staticfire.faults.model.fault import PlannedFault
from staticfire.harness.diagnoses.atomic_writes import atomic_writes
from staticfire.harness.diagnoses.backlog import backlog
from staticfire.harness.diagnoses.busy_refusals import busy_refusals
from staticfire.harness.diagnoses.catalogue import diagnose
from staticfire.harness.diagnoses.fake_death import fake_death
from staticfire.harness.diagnoses.moved_keys import moved_keys
from staticfire.harness.diagnoses.one_broker import one_broker
from staticfire.harness.diagnoses.pairs import pairs
from staticfire.harness.diagnoses.reservations import reservations
from staticfire.harness.diagnoses.slave_takeover import slave_takeover
from staticfire.harness.results.run_result import RunResult

NS_PER_S = 1_000_000_000


class Script:
    """Ops, one after the other; times are seconds."""

    def __init__(self) -> None:
        self.ops: list[Op] = []

    def op(self, at_s: float, type_: OpType, f: str, value: Any, **fields: Any) -> None:
        self.ops.append(
            Op(
                index=len(self.ops),
                time_ns=int(at_s * NS_PER_S),
                process=fields.pop("process", 1),
                type=type_,
                f=f,
                value=value,
                error=fields.pop("error", None),
                node=fields.pop("node", "producer-1"),
            )
        )

    def sent(
        self, at_s: float, key: str, *, broker: str = "a", queue: int = 0, **more: Any
    ) -> None:
        value = {"topic": "t", "key": key, "broker": broker, "queue": queue, "queue_offset": 7}
        self.op(at_s, "ok", "send", value | more)

    def consumed(self, at_s: float, *keys: str, broker: str = "a", queue: int = 0) -> None:
        messages = [[key, 0, 0, True, 0] for key in keys]
        value = {"group": "g", "topic": "t", "broker": broker, "queue": queue, "messages": messages}
        self.op(at_s, "ok", "consume", value, node="consumer-1")


def run_of(
    script: Script,
    *faults: Any,
    replication: str = "async",
    flush: str = "sync",
    auto_topic: bool = False,
    workload: str = "queue",
) -> RunResult:
    campaign = SimpleNamespace(
        replication=replication,
        flush=flush,
        mode="hardened",
        auto_topic=auto_topic,
        queues=2,
        workload=workload,
        broker_properties=(("sendThreadPoolQueueCapacity", "8"),),
    )
    facts = SimpleNamespace(replica_sets={"a": ("a-0", "a-1"), "b": ("b-0",)}, living=("a", "b"))
    run = SimpleNamespace(ops=script.ops, campaign=campaign, facts=facts, faults=list(faults))
    return cast(RunResult, run)


def fault(
    kind: str, target: str, fired_s: float, healed_s: float | None, **params: Any
) -> SimpleNamespace:
    planned = PlannedFault(
        fault_id=0, kind=kind, at_s=fired_s, duration_s=0, targets=(target,), params=params
    )
    return SimpleNamespace(
        planned=planned,
        fired_ns=int(fired_s * NS_PER_S),
        healed_ns=None if healed_s is None else int(healed_s * NS_PER_S),
        bitten=True,
    )


def test_a_quiet_run_has_no_diagnosis() -> None:
    script = Script()
    for number in range(20):
        script.sent(number, f"k{number}", broker="ab"[number % 2], sharding_key="s")
    assert diagnose(run_of(script)) != []  # the key has two queues
    for op in script.ops:
        op.value.pop("sharding_key")
    assert diagnose(run_of(script)) == []


@pytest.mark.parametrize(("auto_topic", "word"), [(True, "TBW102"), (False, "b got none.")])
def test_one_broker_gets_everything(auto_topic: bool, word: str) -> None:
    script = Script()
    for number in range(9):
        script.sent(number, f"k{number}")
    script.sent(9, "probe", broker="b")
    script.ops[-1] = Op(**{**vars_of(script.ops[-1]), "node": "probe"})
    assert one_broker(run_of(script, auto_topic=auto_topic)) == []  # by chance, perhaps
    script.sent(10, "k10")
    [text] = one_broker(run_of(script, auto_topic=auto_topic))
    assert text.startswith("All 10 acknowledged messages of t went to a; b got none")
    assert word in text
    script.sent(11, "k11", broker="b")
    assert one_broker(run_of(script, auto_topic=auto_topic)) == []


def vars_of(op: Op) -> dict[str, Any]:
    return {name: getattr(op, name) for name in op.__slots__}


def test_keys_that_move_and_messages_that_overtake() -> None:
    script = Script()
    script.sent(1, "k1", sharding_key="s")
    script.sent(2, "k2", queue=5, sharding_key="s")
    script.sent(2, "x", queue=1, sharding_key="other")
    script.consumed(3, "k1", "k2", "x")
    grown = fault("topic-change", "", 1.5, None, queues=6)
    [text] = moved_keys(run_of(script, grown))
    assert text.startswith(
        "1 of 2 sharding keys changed their queue, the first at t=2.000s (s: queue 0 of a to queue 5 of a), "
        "as the topic got 6 queues a broker at t=1.500s instead of 2. No message overtook"
    )
    script.ops.pop()
    script.consumed(3, "k2", queue=5)
    script.consumed(4, "k1")
    [text] = moved_keys(run_of(script, grown))
    assert "1 messages overtook an earlier one of their key, k2 in queue 5 of a first" in text
    assert "before k1 in queue 0 of a" in text


def test_a_slave_that_lacks_what_its_master_acknowledged() -> None:
    script = Script()
    script.sent(1, "k1")
    script.sent(2, "k2", queue=1)
    script.sent(2, "elsewhere", broker="b")
    script.consumed(4, "k1")
    script.consumed(12, "k2", "elsewhere")
    away = fault("kill", "a-0", 3, 10)
    [text] = slave_takeover(run_of(script, away))
    assert "away from t=3.000s to 10.000s (kill)" in text
    assert "1 messages were consumed meanwhile. 1 that the master" in text
    assert "k2 (queue 1, offset 7) first" in text
    assert "the last one 10.0 s after" in text
    assert slave_takeover(run_of(script, away, replication="sync")) == []
    assert slave_takeover(run_of(script, fault("kill", "b-0", 3, 10))) == []
    assert slave_takeover(run_of(script, fault("kill", "a-0", 3, None))) == []


def test_a_backlog_and_its_rate() -> None:
    script = Script()
    for number in range(1000):
        script.sent(number / 1000, f"k{number}", queue=number % 2)
    for number in range(0, 1000, 10):
        keys = [f"k{number + more}" for more in range(10)]
        script.consumed(10 + number / 100, *keys, queue=number // 10 % 2)
    text = " ".join(backlog(run_of(script)))
    assert text.startswith(
        "A backlog of 1000 messages was worked off from t=10.000s to 19.400s out of 2 queues by 1 member: 106 a second"
    )
    assert "101 at the beginning, 101 in the middle and 101 at the end" in text
    script.ops = script.ops[:900]
    assert backlog(run_of(script)) == []


def test_what_is_left_of_a_large_backlog_is_no_second_one() -> None:
    script = Script()
    for number in range(30_000):
        script.sent(number / 30_000, f"k{number}")
    for number in range(0, 30_000, 100):
        keys = [f"k{number + more}" for more in range(100)]
        script.consumed(10 + number / 1000, *keys)
    text = " ".join(backlog(run_of(script)))
    assert text.count("A backlog of") == 1


def test_more_queues_that_were_no_faster() -> None:
    script = Script()
    for start, queues, per_second in ((0, 1, 100), (50, 4, 50)):
        keys = [f"k{start}-{number}" for number in range(1000)]
        for number, key in enumerate(keys):
            script.sent(start + number / 1000, key, queue=number % queues)
        for number, key in enumerate(keys):
            script.consumed(start + 10 + number / per_second, key, queue=number % queues)
    text = " ".join(backlog(run_of(script)))
    assert "4 queues were no faster than 1" in text


def many(script: Script, start_s: float, number: int, queues: int, members: int, rate: int) -> None:
    """A backlog of 100,000 messages in batches of 1000, worked off at so many a second."""
    for batch in range(100):
        queue, key, offset = batch % queues, f"p1-{number}{batch:02}000", batch // queues * 1000
        offset += number * 100_000
        place = {"broker": "a", "queue": queue, "topic": "t"}
        sent = {**place, "key": key, "count": 1000, "ranges": [[key, offset, 0, 1000, 9]]}
        script.op(start_s + batch / 100, "ok", "send_many", sent)
    for batch in range(100):
        queue, key, offset = batch % queues, f"p1-{number}{batch:02}000", batch // queues * 1000
        offset += number * 100_000
        place = {"broker": "a", "queue": queue, "topic": "t", "group": "g"}
        got = {**place, "ranges": [[key, offset, 0, True, 0, 1000, 9]]}
        at_s = start_s + 10 + batch * 1000 / rate
        node = f"consumer-{batch % members}"
        for _ in range(2):  # one that comes again counts once
            script.op(at_s, "ok", "consume_many", got, node=node)


def test_a_backlog_that_is_reported_in_batches_and_how_members_and_queues_drain_it() -> None:
    script = Script()
    many(script, 0, 1, queues=4, members=1, rate=10_000)
    many(script, 100, 2, queues=4, members=4, rate=30_000)
    many(script, 200, 3, queues=16, members=4, rate=60_000)
    text = " ".join(backlog(run_of(script)))
    assert text.startswith("A backlog of 100000 messages was worked off from t=10.000s")
    assert text.count("A backlog of") == 3
    assert "4 members instead of 1 for 4 queues made it 3.0 times as fast." in text
    assert "16 queues instead of 4 made it 2.0 times as fast" in text


def forwarded(script: Script, start_s: float, number: int, rate: int, behind: int) -> None:
    """A backlog as above that one member sends on at `rate`, consumed out of 16 queues by four members at `behind`."""
    many(script, start_s, number, queues=4, members=1, rate=rate)
    place = {"broker": "a", "topic": "t-forwarded"}
    for batch in range(100):
        queue, key, offset = batch % 16, f"p100004-{number}{batch:02}000", batch // 16 * 1000
        there = {**place, "queue": queue, "key": key, "count": 1000}
        offset += number * 100_000
        sent = {**there, "ranges": [[key, offset, 0, 1000, 9]]}
        at_s = start_s + 10 + batch * 1000 / rate
        script.op(at_s, "ok", "send_many", sent, node="consumer-0")
        got = {
            **place,
            "queue": queue,
            "group": "g2",
            "ranges": [[key, offset, 0, True, 0, 1000, 9]],
        }
        at_s = max(at_s, start_s + 10 + batch * 1000 / behind)
        script.op(at_s, "ok", "consume_many", got, node=f"consumer-{4 + batch % 4}")
    script.ops.sort(key=lambda op: op.time_ns)


def test_a_backlog_that_is_forwarded_and_whether_that_was_of_any_use() -> None:
    script = Script()
    forwarded(script, 0, 1, rate=20_000, behind=20_000)  # nothing to compare it with
    many(script, 100, 2, queues=4, members=4, rate=5_000)
    forwarded(script, 200, 3, rate=20_000, behind=15_000)
    many(script, 300, 4, queues=4, members=4, rate=30_000)
    forwarded(script, 400, 5, rate=20_000, behind=20_000)
    forwarded(script, 500, 6, rate=20_000, behind=8_000)
    slow = [fault("slow-consumer", f"consumer-{n}", 101, 140, delay_s=0.4) for n in range(4)]
    text = " ".join(backlog(run_of(script, *slow)))
    assert text.count("A backlog of 100000 messages") == 6
    first, direct, helped, _, useless, behind = text.split("A backlog of 100000 messages")[1:]
    assert "These members only forwarded it to t-forwarded" in first
    assert "the group alone" not in first
    assert "Meanwhile 4 listeners took 0.4 s for every call." in direct
    assert "consumed there out of 16 queues by 4 members" in helped
    assert "Forwarding made it 2." in helped
    assert "listeners took" not in helped
    assert "no help here" in useless
    assert "and the forwarders limited the rate" in useless
    assert "and the consumers of the copies limited the rate" in behind
    assert "queues instead of" not in text


def test_copies_that_no_member_consumed_are_no_remedy() -> None:
    script = Script()
    forwarded(script, 0, 1, rate=20_000, behind=20_000)
    of_copies = [op for op in script.ops if op.value["topic"] == "t-forwarded"]
    for lost in [op for op in of_copies if op.f == "consume_many"][-10:]:
        script.ops.remove(lost)
    text = " ".join(backlog(run_of(script)))
    assert "forwarded it to" not in text


@pytest.mark.parametrize(("per_second", "reported"), [(2000, 1), (200, 2)])
def test_a_small_backlog_beside_a_large_one_is_reported_if_it_lasts(
    per_second: int, reported: int
) -> None:
    script = Script()
    many(script, 0, 1, queues=4, members=1, rate=10_000)
    keys = [f"k{number}" for number in range(1200)]
    for number, key in enumerate(keys):
        script.sent(50 + number / 1200, key)
    for number, key in enumerate(keys):
        script.consumed(60 + number / per_second, key)
    text = " ".join(backlog(run_of(script)))
    assert text.count("A backlog of") == reported


def test_refusals_of_a_busy_broker() -> None:
    script = Script()
    script.op(1.0, "invoke", "send", {})
    script.sent(1.5, "k1")
    for number, remark in enumerate(
        (
            "[OVERLOAD]system busy",
            "[OVERLOAD]system busy",
            "[TIMEOUT_CLEAN_QUEUE]broker busy, 203ms",
        )
    ):
        error = f"a refused the message with code 2: {remark} (attempts: 1)"
        script.op(2 + number, "fail", "send", {}, error=error)
    script.op(6, "fail", "send", {}, error="a refused the message with code 14: full")
    [text] = busy_refusals(run_of(script))
    assert text.startswith(
        "a was too busy for 3 sends from t=2.000s to 4.000s: 2 did not fit into the queue "
        "(sendThreadPoolQueueCapacity 8), 1 had waited in it for too long (waitTimeMillsInSendQueue 200)."
    )
    assert "took 500 ms" in text


def test_reservations_are_confirmed_or_taken_back() -> None:
    script = Script()
    script.sent(1.0, "tried", delay_ms=10_000)
    script.sent(1.5, "given-up", delay_ms=10_000)
    script.sent(2.0, "yes", properties={"confirms": "tried"})
    script.consumed(11.0, "tried", "given-up")
    assert reservations(run_of(script)) == []
    [text] = reservations(run_of(script, workload="reservations"))
    assert "2 reservations were made" in text
    assert "1 had been confirmed when it came" in text
    assert "1 had not" in text
    assert "given-up of t=1.500s first, 9.5 s later" in text
    assert "None stayed reserved" in text


def test_a_reservation_without_a_cancel_is_named() -> None:
    script = Script()
    script.sent(1.0, "tried", delay_ms=10_000)
    [text] = reservations(run_of(script, workload="reservations"))
    assert "1 stayed reserved: their delayed messages never came (tried)" in text


@pytest.mark.parametrize(
    ("seen", "end"),
    [
        ("kept", "none of a write that was rolled back"),
        ("dropped", "1 of them of writes that were"),
    ],
)
def test_brokers_ask_the_database(seen: str, end: str) -> None:
    script = Script()
    script.sent(1.0, "kept", transaction="commit")
    assert atomic_writes(run_of(script)) == []
    script.op(2.0, "info", "send", {"key": "dropped", "transaction": "rollback"})
    script.op(2.0, "fail", "send", {"key": "never", "transaction": "commit"}, error="no broker")
    script.op(9.0, "ok", "check_back", {"topic": "t", "key": "dropped", "times": 1})
    script.consumed(10.0, seen)
    [text] = atomic_writes(run_of(script))
    assert "decided about 2 writes and their messages: 1 were committed, 1 rolled back" in text
    assert "they asked 1 times and learned of 0 commits and 1 rollbacks" in text
    assert end in text


def test_a_host_that_plays_dead() -> None:
    script = Script()
    script.op(4.0, "ok", "open", {}, node="consumer-1")
    script.sent(5.0, "a")
    script.sent(7.5, "b")
    faults = (fault("name-server-freeze", "ns-1", 3.0, 9.0), fault("pause", "b-0", 3.1, 9.0))
    assert fake_death(run_of(script, faults[0])) == []
    [text] = fake_death(run_of(script, *faults))
    assert "ns-1 and b-0 played dead from t=3.000s to 9.000s" in text
    assert "2 messages were acknowledged meanwhile, at most 2.5 s apart, and 1 clients" in text


def pairs_run(*faults: Any, mode: str = "hardened", slaves_of_b: tuple[str, ...] = ("b-1",)) -> str:
    run = cast(Any, run_of(Script(), *faults, flush="async", replication="sync"))
    run.campaign.mode = mode
    run.facts.replica_sets = {"a": ("a-0", "a-1"), "b": ("b-0", *slaves_of_b)}
    loss = SimpleNamespace(checker="loss", counts={"acked": 9})
    run.verdict = SimpleNamespace(counts={"acked": 9, "weak": 2}, verdicts=(loss,))
    return " ".join(pairs(run))


def died(kind: str, node: str, **evidence: int) -> SimpleNamespace:
    record = fault(kind, node, 3, 9)
    record.evidence = evidence
    return record


@pytest.mark.parametrize(
    ("record", "mode", "words"),
    [
        (
            died("power-cut", "a-0", lost_bytes=5),
            "hardened",
            "5 bytes that were not flushed; it gets them",
        ),
        (died("power-cut", "a-0", lost_bytes=5), "faithful", "and does not give them back"),
        (died("power-cut", "a-1", lost_bytes=5), "faithful", "Slave a-1 lost power"),
        (died("power-cut", "a-0", lost_bytes=0), "hardened", "when everything was flushed"),
        (
            died("cluster-power-cut", "a-0", lost_bytes=5),
            "hardened",
            "5 bytes that were not flushed are gone",
        ),
        (
            died("disk-lost", "b-0"),
            "hardened",
            "Master b-0 was lost for good at t=3.000s: its slave serves",
        ),
        (died("kill", "b-1"), "hardened", "Slave b-1 was killed"),
        (died("pause", "b-1"), "hardened", "No machine died"),
    ],
)
def test_the_recommended_deployment_says_who_died_and_what_that_cost(
    record: SimpleNamespace, mode: str, words: str
) -> None:
    text = pairs_run(record, mode=mode)
    assert words in text
    assert "2 pairs" in text
    assert "9 messages were acknowledged with SEND_OK" in text
    assert "SEND_OK none was lost" in text


def test_another_deployment_is_not_the_recommended_one() -> None:
    assert pairs_run(died("kill", "b-0"), slaves_of_b=()) == ""
    assert pairs(run_of(Script(), flush="sync", replication="sync")) == []
    assert pairs(run_of(Script(), flush="async", replication="async")) == []
