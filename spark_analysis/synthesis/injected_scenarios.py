"""Scenarios of semantic anomalies, each with a few ops and the expected findings.

A scenario may show more than the anomaly that it is named after: a rolled-back message that is delivered is also an
aborted read. The truth lists every expected finding.
"""

from __future__ import annotations

from collections.abc import Mapping

from staticfire.checkers.guarantees.facts import FaultFacts, NodeExit, OffsetsReset
from staticfire.checkers.model.history import OpType
from staticfire.spark_analysis.synthesis.injected_contents import CONTENTS_INJECTIONS
from staticfire.spark_analysis.synthesis.injected_forwarding import FORWARDING_INJECTIONS
from staticfire.spark_analysis.synthesis.injected_observations import (
    OBSERVED_INJECTIONS,
    SWITCH_INJECTIONS,
)
from staticfire.spark_analysis.synthesis.injected_ownership import OWNERSHIP_INJECTIONS
from staticfire.spark_analysis.synthesis.injected_txns import TXN_INJECTIONS
from staticfire.spark_analysis.synthesis.scenario import Scenario, ScenarioInjection

LADDER_MS = (1000, 5000, 10_000, 30_000, 60_000)  # RocketMQ: messageDelayLevel, the first steps
RETRIES_MAX = 2
CHECK_AFTER_S, CHECK_MAX = 6.0, 15  # RocketMQ: transactionTimeOut, transactionCheckMax
CONSUME_TIMEOUT_S = 900.0


def _unwanted(scenario: Scenario, _sets: int) -> None:
    """A group that subscribes to red gets a blue message."""
    red, blue = scenario.send(0, tag="red"), scenario.send(0.1, tag="blue")
    scenario.consume(1, red, 0)
    scenario.consume(2, blue, 1)
    scenario.facts["wanted_tags"] = {scenario.group: ("red",)}
    scenario.drained(3)
    scenario.expect("unwanted_delivery", blue, 1)


def _delayed(at_s: float, anomaly: str) -> ScenarioInjection:
    def inject(scenario: Scenario, _sets: int) -> None:
        key = scenario.send(0, delay_level=2, delay_ms=LADDER_MS[1])
        scenario.consume(at_s, key, 0)
        scenario.drained(at_s + 1)
        scenario.expect(anomaly, key, 0)

    return inject


def _delayed_out_of_order(scenario: Scenario, _sets: int) -> None:
    """Of two messages with the same delay, the one that was sent second arrives first."""
    keys = [scenario.send(at, process=at, delay_level=2, delay_ms=LADDER_MS[1]) for at in (0, 1)]
    for offset, key in enumerate(reversed(keys)):
        scenario.consume(7 + offset, key, offset)
    scenario.drained(9)
    scenario.expect("delayed_out_of_order", keys[1], 0)


def _reset_ignored(scenario: Scenario, _sets: int) -> None:
    """The only owner of a queue continues at its old offset."""
    scenario.to_group(0, "assign", "queues", [[scenario.broker, 0]])
    key = scenario.send(1)
    scenario.consume(2, key, 0)
    reset = OffsetsReset(
        group=scenario.group,
        topic=scenario.topic,
        stream=scenario.broker,
        asked_ns=scenario.ns(10),
        answered_ns=scenario.ns(10.1),
    )
    scenario.faults.append(
        FaultFacts(
            fault_id=scenario.name,
            kind="offsets_reset",
            targets=(),
            fired_ns=reset.asked_ns,
            bitten_ns=reset.answered_ns,
            healed_ns=reset.answered_ns,
            affects=("admin",),  # the offsets of other groups are not reset
            resets=(reset,),
        )
    )
    scenario.drained(30)
    scenario.expect("reset_ignored", key, 0)


def _retried(scenario: Scenario) -> str:
    """Send a message whose listener fails; return its key."""
    scenario.facts["retries_max"] = {scenario.group: RETRIES_MAX}
    key = scenario.send(0)
    scenario.consume(1, key, 0, "info")
    return key


def _come_again(scenario: Scenario, key: str, *tries: tuple[int, float], end: bool = True) -> None:
    """Deliver retries, given as (try, time in s); with `end` the last one succeeds."""
    for index, (number, at_s) in enumerate(tries):
        type_: OpType = "ok" if end and index == len(tries) - 1 else "info"
        scenario.consume(at_s, key, index, type_, topic=scenario.retry_topic, tries=number)


def _retry_unprovoked(scenario: Scenario, _sets: int) -> None:
    """The second retry arrives without the first one."""
    key = _retried(scenario)
    _come_again(scenario, key, (2, 60))
    scenario.drained(70)
    scenario.expect("retry_unprovoked", key, 0, topic=scenario.retry_topic)
    scenario.expect_again(key)


def _retry_early(scenario: Scenario, _sets: int) -> None:
    key = _retried(scenario)
    _come_again(scenario, key, (1, 8))
    scenario.drained(70)
    scenario.expect_again(key)
    scenario.expect("retry_early", key, 0, topic=scenario.retry_topic)


def _retried_too_often(scenario: Scenario, _sets: int) -> None:
    key = _retried(scenario)
    _come_again(scenario, key, (1, 12), (2, 50), (3, 120))
    scenario.drained(130)
    scenario.expect_again(key)
    scenario.expect("retried_too_often", key, 2, topic=scenario.retry_topic)


def _premature_dead_letter(scenario: Scenario, _sets: int) -> None:
    key = _retried(scenario)
    _come_again(scenario, key, (1, 12), end=False)
    scenario.consume(60, key, 0, topic=scenario.dead_topic, tries=2)
    scenario.drained(70)
    scenario.expect_again(key)
    scenario.expect("premature_dead_letter", key, 0, topic=scenario.dead_topic)


def _duplicate_dead_letter(scenario: Scenario, _sets: int) -> None:
    key = _retried(scenario)
    _come_again(scenario, key, (1, 12), (2, 50), end=False)
    for index in (0, 1):
        scenario.consume(60 + index, key, index, topic=scenario.dead_topic, tries=3)
    scenario.drained(70)
    scenario.expect_again(key)
    scenario.expect("duplicate_dead_letter", key, 1, topic=scenario.dead_topic)


def _consumed_too_long(scenario: Scenario, _sets: int) -> None:
    scenario.facts["retries_max"] = {scenario.group: RETRIES_MAX}
    key = scenario.send(0)
    scenario.consume(1, key, 0, takes_s=CONSUME_TIMEOUT_S + 10)
    scenario.consume(CONSUME_TIMEOUT_S + 20, key, 0, topic=scenario.retry_topic, tries=1, member=1)
    scenario.drained(CONSUME_TIMEOUT_S + 30)
    scenario.expect_again(key)
    scenario.expect("consumed_too_long", key, 0, topic=scenario.retry_topic, explained=True)


def _rolled_back(scenario: Scenario, _sets: int) -> None:
    key = scenario.send(0, "fail", transaction="rollback", state="rollback")
    scenario.consume(1, key, 0)
    scenario.drained(2)
    scenario.expect("rolled_back_visible", key, 0)
    scenario.expect("aborted_read", key, 0)


def _unresolved(scenario: Scenario, _sets: int) -> None:
    key = scenario.send(0, "info", transaction="commit", state="unknown")
    scenario.drained(30)
    scenario.expect("unresolved_transaction", key, None, in_group=False)


def _checked(anomaly: str, *asked_s: float) -> ScenarioInjection:
    def inject(scenario: Scenario, _sets: int) -> None:
        key = scenario.send(0, "info", transaction="commit", state="unknown")
        for at_s in asked_s:
            state = "commit" if at_s == asked_s[-1] else "unknown"
            value = {"topic": scenario.topic, "key": key, "state": state}
            scenario.op(at_s, "ok", "check_back", value)
        scenario.consume(asked_s[-1] + 1, key, 0)
        scenario.drained(asked_s[-1] + 2)
        scenario.expect(anomaly, key, None, in_group=False)

    return inject


def _order_violated(scenario: Scenario, _sets: int) -> None:
    """The listener fails for the first message, but the second one does not wait."""
    first, second = scenario.send(0), scenario.send(0.1)
    scenario.consume(1, first, 0, "info")
    scenario.consume(2, second, 1)
    scenario.consume(3, first, 0)
    scenario.facts["orderly"] = (scenario.group,)
    scenario.drained(4)
    scenario.expect("order_violated", second, 1)
    scenario.expect_again(first)


def _retry_uncounted(scenario: Scenario, _sets: int) -> None:
    """A member repeats a message that its listener failed for, and does not count."""
    key = scenario.send(0)
    scenario.op(
        0.5,
        "ok",
        "assign",
        {"group": scenario.group, "topic": scenario.topic, "queues": [[scenario.broker, 0]]},
        process=scenario.consumer,
    )
    scenario.consume(1, key, 0, "info")
    scenario.consume(2, key, 0)
    scenario.facts["orderly"] = (scenario.group,)
    scenario.drained(4)
    scenario.expect("retry_uncounted", key, 0)
    scenario.expect_again(key)


def _two_listeners(scenario: Scenario, _sets: int) -> None:
    """A second member begins while the first one is still working; it stops, and repeats its message in turn."""
    first, second = scenario.send(0), scenario.send(0.1)
    scenario.consume(1, first, 0, takes_s=4)
    scenario.consume(2, second, 1, "info", member=1)
    scenario.consume(6, second, 1, member=1)
    scenario.facts["orderly"] = (scenario.group,)
    scenario.drained(7)
    scenario.expect("two_listeners", second, 1)
    scenario.expect_again(second)


def _overlapping_owners(scenario: Scenario, _sets: int) -> None:
    """A second member gets the next message, while the first one continues as the owner."""
    keys = [scenario.send(index / 10) for index in range(3)]
    for member in (0, 1):
        scenario.to_group(0, "assign", "queues", [[scenario.broker, 0]], member=member)
    for index, key in enumerate(keys):
        scenario.consume(1 + index, key, index, member=index % 2)
    scenario.to_group(4, "assign", "queues", [], member=1)
    scenario.facts["orderly"] = (scenario.group,)
    scenario.drained(5)
    scenario.expect("overlapping_owners", keys[1], 1)


def _commit_late(scenario: Scenario, _sets: int) -> None:
    """The only owner of a queue consumes a message, and commits nothing for half a minute."""
    scenario.to_group(0, "assign", "queues", [[scenario.broker, 0]])
    value = {"group": scenario.group, "brokers": [[scenario.broker, 0, False]]}
    scenario.op(0.5, "ok", "commit_to", value, process=scenario.consumer)
    key = scenario.send(1)
    scenario.consume(2, key, 0)
    scenario.drained(30)
    scenario.expect("commit_late", key, 0)


def _key_moved(scenario: Scenario, _sets: int) -> None:
    first, second = (
        scenario.send(0, sharding_key=scenario.name),
        scenario.send(1, queue=1, sharding_key=scenario.name),
    )
    scenario.consume(0.1, first, 0)
    scenario.consume(1.1, second, 0, queue=1)
    scenario.facts["orderly"] = (scenario.group,)
    scenario.drained(2)
    scenario.expect("key_moved", second, 0, queue=1, in_group=False)


def _hot_key(scenario: Scenario, sets: int) -> None:
    """One key of the history has more messages than all others together. Only the first set has this scenario."""
    if scenario.number:
        return
    keys = [scenario.send(index / 20, sharding_key=scenario.name) for index in range(4 * sets + 8)]
    for index, key in enumerate(keys):
        scenario.consume(60 + index / 10, key, index)
    scenario.facts["orderly"] = (scenario.group,)
    scenario.drained(70 + len(keys) / 10)
    scenario.expect("hot_key", keys[-1], len(keys) - 1, in_group=False, explained=True)


def _member_missed(scenario: Scenario, _sets: int) -> None:
    for member in (0, 1):
        scenario.opened(0, member, model="broadcasting")
    first, second = scenario.send(0.1), scenario.send(0.2)
    for member in (0, 1):
        scenario.consume(1, first, 0, member=member)
    scenario.consume(2, second, 1)
    scenario.facts["broadcasting"] = (scenario.group,)
    scenario.drained(3)
    scenario.expect("member_missed", second, 1)


def _delivered_before_send(scenario: Scenario, _sets: int) -> None:
    key = f"p{scenario.process}-0"
    scenario.consume(0, key, 0)
    assert scenario.send(1, queue_offset=0, physical_offset=0) == key
    scenario.drained(2)
    scenario.expect("delivered_before_send", key, 0)


def _inconsistent_physical_offset(scenario: Scenario, _sets: int) -> None:
    """A message is delivered from another physical offset than the acknowledged one."""
    key = scenario.send(0, physical_offset=777)
    scenario.consume(1, key, 0)
    scenario.drained(2)
    scenario.expect("inconsistent_physical_offset", key, 0)


def _nonmonotonic_physical_offset(scenario: Scenario, _sets: int) -> None:
    scenario.send(0, physical_offset=900)
    key = scenario.send(0.1, physical_offset=300)
    scenario.expect("nonmonotonic_physical_offset", key, 1, in_group=False)


def _int_nonmonotonic_send(scenario: Scenario, _sets: int) -> None:
    """The messages of one request are stored in the reverse order."""
    first, _ = _request(scenario, 1, 0)
    scenario.expect("int_nonmonotonic_send", first, 1, in_group=False, in_log=False)


def _torn_batch(scenario: Scenario, _sets: int) -> None:
    """The messages of one request are not at consecutive offsets."""
    _, second = _request(scenario, 0, 2)
    scenario.expect("torn_batch", second, 2, in_group=False, in_log=False)


def _request(scenario: Scenario, *offsets: int) -> list[str]:
    """Send one request, whose messages are acknowledged at these offsets; return their keys."""
    keys = [f"p{scenario.process}-{number}" for number in range(len(offsets))]
    value = {"topic": scenario.topic, "size": 100}
    for key in keys:
        scenario.op(0, "invoke", "send", {**value, "key": key})
    for key, offset in zip(keys, offsets, strict=True):
        position = {"broker": scenario.broker, "queue": 0, "queue_offset": offset, "attempts": 1}
        scenario.op(0.01, "ok", "send", {**value, **position, "key": key, "status": "SEND_OK"})
    return keys


def _answered(scenario: Scenario, *answers: tuple[float, int, int]) -> list[str]:
    """Deliver two requests at 0.4 s; `answers`: (time in s, request, whose reply it gets). Return the keys."""
    keys = [scenario.send(0), scenario.send(0.1)]
    for index, key in enumerate(keys):
        scenario.consume(0.4 + index / 10, key, index)
    for at_s, asked, answer in answers:
        value = {"topic": scenario.topic, "key": keys[asked], "reply": keys[answer]}
        scenario.op(at_s, "ok", "answer", value)
    scenario.drained(5)
    return keys


def _wrong_answer(scenario: Scenario, _sets: int) -> None:
    _expect_request(scenario, "wrong_answer", _answered(scenario, (0.6, 0, 1))[0])


def _duplicate_reply(scenario: Scenario, _sets: int) -> None:
    _expect_request(scenario, "duplicate_reply", _answered(scenario, (0.6, 0, 0), (0.7, 0, 0))[0])


def _phantom_reply(scenario: Scenario, _sets: int) -> None:
    _expect_request(scenario, "phantom_reply", _answered(scenario, (0.2, 0, 0))[0])


def _expect_request(scenario: Scenario, anomaly: str, key: str) -> None:
    scenario.expect_of_run(anomaly, key=key)


def _subscriptions_differ(scenario: Scenario, _sets: int) -> None:
    scenario.opened(0, 0, expression="red")
    scenario.opened(0, 1, expression="blue")
    key = scenario.send(0.1, tag="red")
    scenario.consume(1, key, 0)
    scenario.drained(2)
    scenario.expect_of_run("subscriptions_differ", group=scenario.group)


def _queue_unowned(scenario: Scenario, _sets: int) -> None:
    """The owner gives up a queue, and no other member takes it over."""
    key = scenario.send(0.1)
    scenario.to_group(0, "assign", "queues", [[scenario.broker, 0]])
    scenario.consume(1, key, 0)
    scenario.to_group(2, "assign", "queues", [])
    scenario.drained(100)
    scenario.expect("queue_unowned")


def _double_ownership(scenario: Scenario, _sets: int) -> None:
    key = scenario.send(0.1)
    for member in (0, 1):
        scenario.to_group(0, "assign", "queues", [[scenario.broker, 0]], member=member)
    scenario.consume(1, key, 0)
    scenario.to_group(100, "assign", "queues", [], member=1)
    scenario.drained(101)
    scenario.expect("double_ownership")


def _uneven_shares(scenario: Scenario, _sets: int) -> None:
    """One of two members has three queues and the other one has one, for longer than a rebalance takes."""
    key = scenario.send(0.1)
    for member in (0, 1):
        scenario.opened(0, member)
    scenario.to_group(0.1, "assign", "queues", [[scenario.broker, queue] for queue in (0, 1, 2)])
    scenario.to_group(0.1, "assign", "queues", [[scenario.broker, 3]], member=1)
    scenario.consume(1, key, 0)
    scenario.drained(100)
    scenario.facts["evenly"] = (scenario.group,)
    scenario.expect_of_run("uneven_shares", group=scenario.group, topic=scenario.topic)


def _not_serving(scenario: Scenario, _sets: int) -> None:
    broker = f"{scenario.name}-broker"
    scenario.facts["replica_sets"] = {broker: (f"{broker}-node",)}
    scenario.op(0, "info", "probe", {"broker": broker}, error="no answer")
    scenario.expect_of_run("not_serving", broker=broker)


def _not_drained(scenario: Scenario, _sets: int) -> None:
    """One message is left that the group has not read."""
    keys = [scenario.send(0), scenario.send(0.1)]
    scenario.consume(1, keys[0], 0)
    scenario.drained(60, lag=1)
    scenario.expect_of_run("not_drained", group=scenario.group, topic=scenario.topic)


def _node_died(scenario: Scenario, _sets: int) -> None:
    scenario.exits.append(
        NodeExit(node=f"{scenario.name}-node", time_ns=scenario.ns(1), error="KeyError: 7")
    )
    scenario.expect_of_run("node_died")


def _looked_up(anomaly: str, *, by_key: bool, by_id: bool, in_queue: bool) -> ScenarioInjection:
    def inject(scenario: Scenario, _sets: int) -> None:
        key = scenario.send(0)
        scenario.consume(1, key, 0)
        scenario.drained(2)
        found = [key, 0, 0, by_key, by_id, in_queue]
        where = {"topic": scenario.topic, "broker": scenario.broker, "indexed": True}
        scenario.op(3, "ok", "look_up", {**where, "messages": [found]})
        # The finding lost_from_log comes from the send, which knows the physical offset.
        scenario.expect(anomaly, key, 0, in_group=False, in_log=not in_queue)

    return inject


def _torn_answer(scenario: Scenario, _sets: int) -> None:
    key = scenario.send(0)
    scenario.consume(1, key, 0)
    scenario.drained(2)
    where = {"topic": scenario.topic, "broker": scenario.broker, "indexed": True, "messages": []}
    torn = [[key, 0, 0, "record at 0 ends at 10, not 12"]]
    scenario.op(3, "ok", "look_up", {**where, "torn": torn})
    scenario.expect("torn_answer", key, 0, in_group=False, in_log=False)


def _refused_read(scenario: Scenario, _sets: int) -> None:
    key = scenario.send(0)
    scenario.consume(1, key, 0)
    scenario.drained(2)
    found = [key, 0, 0, True, True, True]
    where = {
        "topic": scenario.topic,
        "broker": scenario.broker,
        "indexed": True,
        "messages": [found],
    }
    scenario.op(3, "ok", "look_up", {**where, "refused": [[key, 0, 0, "code 1, it has failed"]]})
    scenario.expect("refused_read", key, 0, in_group=False, in_log=False)


def _wrong_time_search(scenario: Scenario, _sets: int) -> None:
    """The message is at offset 0, but the search for its store time returns the offset after it."""
    key = scenario.send(0)
    scenario.consume(1, key, 0)
    scenario.drained(2)
    where = {"topic": scenario.topic, "broker": scenario.broker, "indexed": True, "messages": []}
    scenario.op(3, "ok", "look_up", {**where, "searched": [[key, 0, 0, 700, 1, None, 700]]})
    scenario.expect("wrong_time_search", key, 0, in_group=False, in_log=False)


def _int_poll_skip(scenario: Scenario, _sets: int) -> None:
    """A call of the listener gets the first and the third message; no call ever gets the second one."""
    keys = [scenario.send(index / 10) for index in range(3)]
    scenario.to_group(0, "assign", "queues", [[scenario.broker, 0]])
    scenario.consume(1, keys[0], 0, also=((keys[2], 2),))
    scenario.drained(2)
    scenario.expect("int_poll_skip", keys[2], 2)
    scenario.expect("lost", keys[1], 1, in_group=False)


def _log_hole(scenario: Scenario, _sets: int) -> None:
    """After a power cut the second of three messages is missing, although only a tail of the log may be lost."""
    node = f"{scenario.name}-node"
    scenario.broker = f"{scenario.name}-broker"
    scenario.facts["replica_sets"] = {scenario.broker: (node,)}
    keys = [scenario.send(index / 10) for index in range(3)]
    scenario.faults.append(
        FaultFacts(
            fault_id=scenario.name,
            kind="power_cut",
            targets=(node,),
            fired_ns=scenario.ns(1),
            bitten_ns=scenario.ns(1),
            healed_ns=scenario.ns(2),
        )
    )
    scenario.consume(3, keys[0], 0)
    scenario.consume(4, keys[2], 2)
    scenario.op(4.5, "ok", "probe", {"broker": scenario.broker})
    scenario.drained(5)
    scenario.expect("log_hole", keys[1], 1, in_group=False)
    scenario.expect("lost", keys[1], 1, in_group=False, explained=True)
    scenario.expect("poll_skip", keys[2], 2, explained=True)


SCENARIOS: Mapping[str, ScenarioInjection] = {
    "unwanted_delivery": _unwanted,
    "early_delivery": _delayed(3, "early_delivery"),
    "late_delivery": _delayed(60, "late_delivery"),
    "delayed_out_of_order": _delayed_out_of_order,
    "reset_ignored": _reset_ignored,
    "retry_unprovoked": _retry_unprovoked,
    "retry_early": _retry_early,
    "retried_too_often": _retried_too_often,
    "premature_dead_letter": _premature_dead_letter,
    "duplicate_dead_letter": _duplicate_dead_letter,
    "consumed_too_long": _consumed_too_long,
    "rolled_back_visible": _rolled_back,
    "unresolved_transaction": _unresolved,
    "check_too_early": _checked("check_too_early", 3),
    "checked_too_often": _checked("checked_too_often", *range(7, 7 + CHECK_MAX + 1)),
    "order_violated": _order_violated,
    "retry_uncounted": _retry_uncounted,
    "two_listeners": _two_listeners,
    "overlapping_owners": _overlapping_owners,
    "commit_late": _commit_late,
    "key_moved": _key_moved,
    "hot_key": _hot_key,
    "member_missed": _member_missed,
    "delivered_before_send": _delivered_before_send,
    "inconsistent_physical_offset": _inconsistent_physical_offset,
    "nonmonotonic_physical_offset": _nonmonotonic_physical_offset,
    "int_nonmonotonic_send": _int_nonmonotonic_send,
    "torn_batch": _torn_batch,
    "wrong_answer": _wrong_answer,
    "duplicate_reply": _duplicate_reply,
    "phantom_reply": _phantom_reply,
    "subscriptions_differ": _subscriptions_differ,
    "queue_unowned": _queue_unowned,
    "double_ownership": _double_ownership,
    "uneven_shares": _uneven_shares,
    "not_serving": _not_serving,
    "not_drained": _not_drained,
    "node_died": _node_died,
    "not_found_by_id": _looked_up("not_found_by_id", by_key=True, by_id=False, in_queue=True),
    "not_found_by_key": _looked_up("not_found_by_key", by_key=False, by_id=True, in_queue=True),
    "torn_answer": _torn_answer,
    "refused_read": _refused_read,
    "wrong_time_search": _wrong_time_search,
    "lost_from_log": _looked_up("lost_from_log", by_key=True, by_id=True, in_queue=False),
    "int_poll_skip": _int_poll_skip,
    **FORWARDING_INJECTIONS,
    **CONTENTS_INJECTIONS,
    **OWNERSHIP_INJECTIONS,
    **TXN_INJECTIONS,
    **OBSERVED_INJECTIONS,
}
# Scenarios with faults. They come last, one kind of fault after the other, so that no fault excuses another scenario.
BREAKING: tuple[Mapping[str, ScenarioInjection], ...] = ({"log_hole": _log_hole}, SWITCH_INJECTIONS)
