"""Scenarios of anomalies that only observations of nodes show: a few ops and observations.

Each scenario has a broker, nodes and name servers of its own, which no fault of another scenario strikes.
"""

from __future__ import annotations

from collections.abc import Mapping

from staticfire.checkers.guarantees.facts import FaultFacts
from staticfire.spark_analysis.synthesis.scenario import RECORD_BYTES, Scenario, ScenarioInjection

ENTRIES = 3  # entries in the queue files that the harness inspected


def _own_broker(scenario: Scenario, nodes: int = 1) -> tuple[str, ...]:
    """Make a broker that serves; return its nodes, the master first."""
    scenario.broker = f"{scenario.name}-broker"
    names = tuple(f"{scenario.broker}-{number}" for number in range(nodes))
    scenario.facts["replica_sets"] = {scenario.broker: names}
    scenario.op(0.5, "ok", "probe", {"broker": scenario.broker})
    return names


def _acknowledged(
    scenario: Scenario, at_s: float, key: str, *holders: str, status: str = "SEND_OK"
) -> None:
    """Observe which nodes held a message when its status arrived."""
    seen = {"key": key, "durable_on": [], "cached_on": list(holders), "unobserved": []}
    where = {"broker_name": scenario.broker, "end_offset": 1 if holders else None}
    scenario.observe(at_s, "ack_durability", **seen, **where, status=status)


def _acked_not_durable(scenario: Scenario, _sets: int) -> None:
    """The first message is on its master, the second on no node."""
    [node] = _own_broker(scenario)
    keys = [scenario.send(0), scenario.send(0.1)]
    _acknowledged(scenario, 0.05, keys[0], node)
    _acknowledged(scenario, 0.15, keys[1])
    for index, key in enumerate(keys):
        scenario.consume(1 + index, key, index)
    scenario.drained(3)
    scenario.expect("acked_not_durable", keys[1], 1, in_group=False)


def _spurious_weak_status(scenario: Scenario, _sets: int) -> None:
    """A status reports a late flush, although the message is stored as promised."""
    [node] = _own_broker(scenario)
    keys = [scenario.send(0), scenario.send(0.1, "info", status="FLUSH_DISK_TIMEOUT")]
    statuses = ("SEND_OK", "FLUSH_DISK_TIMEOUT")
    for index, (key, status) in enumerate(zip(keys, statuses, strict=True)):
        _acknowledged(scenario, 0.05 + index / 10, key, node, status=status)
        scenario.consume(1 + index, key, index)
    scenario.drained(3)
    scenario.expect("spurious_weak_status", keys[1], 1, in_group=False)


_HELD = {"tasks": 7, "threads": 9, "sockets": 5, "surplus_files": 0, "memory_bytes": 1 << 26}


def _leak(anomaly: str, name: str, grown: int) -> ScenarioInjection:
    """A broker holds more of one resource after the run than before it."""
    return _leaked(anomaly, {name: _HELD[name] + grown})


def _leaked(anomaly: str, after: Mapping[str, object]) -> ScenarioInjection:
    def inject(scenario: Scenario, _sets: int) -> None:
        [node] = _own_broker(scenario)
        seen = {"node": node, "acknowledged": 0, **_HELD, "tables": {"heldPulls": 0}}
        scenario.observe(0, "resources", **seen, when="begin")
        scenario.observe(3, "resources", **{**seen, **after}, when="end")
        scenario.expect_of_run(anomaly, broker=scenario.broker)

    return inject


def _internal_error(scenario: Scenario, _sets: int) -> None:
    """A broker logs an error that only a programming mistake can raise."""
    [node] = _own_broker(scenario)
    error = {"event": "request failed", "error": "KeyError: 'offsets'", "times": 2}
    scenario.observe(1, "internal_error", node=node, **error)
    scenario.observe(2, "events", log={}, history={})
    scenario.expect_of_run("internal_error", broker=scenario.broker)


def _replica(anomaly: str, slave_end: int, first_difference: int | None) -> ScenarioInjection:
    """A master's log of 8000 bytes and its slave's log are compared after the run."""

    def inject(scenario: Scenario, _sets: int) -> None:
        master, slave = _own_broker(scenario, 2)
        scenario.observe(
            1,
            "replica",
            broker_name=scenario.broker,
            master=master,
            slave=slave,
            master_end=8000,
            slave_end=slave_end,
            first_difference=first_difference,
        )
        at = 8000 if first_difference is None else first_difference
        scenario.expect_of_run(anomaly, broker=scenario.broker, physical_offset=at)

    return inject


def _queue_entries(anomaly: str, field: str, count: str) -> ScenarioInjection:
    """The inspected queue files of a broker have one wrong, missing or empty entry."""

    def inject(scenario: Scenario, _sets: int) -> None:
        [node] = _own_broker(scenario)
        seen: dict[str, object] = {
            "hole_at": [],
            "wrong_at": [],
            "holes": 0,
            "wrong": 0,
            "missing": 0,
        }
        seen |= {count: 1}
        if field:
            seen[field] = [[scenario.topic, 0, 1]]
            scenario.expect(anomaly, None, 1, in_group=False, in_log=False)
        else:
            scenario.expect_of_run(anomaly, broker=scenario.broker)
        where = {"broker_name": scenario.broker, "node": node, "entries": ENTRIES}
        scenario.observe(1, "queue_entries", **where, **seen)

    return inject


def _read_beyond_recovery(scenario: Scenario, _sets: int) -> None:
    """A recovery ended the log after the first message, but the second one is still delivered."""
    [node] = _own_broker(scenario)
    keys = [scenario.send(0), scenario.send(0.1)]
    scenario.consume(1, keys[0], 0)
    scenario.observe(2, "recovery", node=node, end_offset=RECORD_BYTES)
    scenario.consume(60, keys[1], 1)
    scenario.drained(61)
    scenario.expect("read_beyond_recovery", keys[1], 1)


def _routes(scenario: Scenario, named: bool, up: bool, for_s: float, number: str = "0") -> None:
    """Observe, at the begin and at the end of `for_s` seconds, the name server's route to the broker."""
    [node] = _own_broker(scenario)
    for at_s in (0.0, for_s):
        scenario.observe(
            at_s,
            "route",
            node=f"{scenario.name}-name-server",
            brokers={scenario.broker: {number: node}} if named else {},
            up=[node] if up else [],
        )


def _wrong_route(scenario: Scenario, _sets: int) -> None:
    """The route lists the master as the first slave."""
    _routes(scenario, named=True, up=True, for_s=1, number="1")
    scenario.expect_of_run("wrong_route", broker=scenario.broker)


def _stale_route(scenario: Scenario, _sets: int) -> None:
    _routes(scenario, named=True, up=False, for_s=160)
    scenario.expect_of_run("stale_route")


def _changes(scenario: Scenario) -> tuple[str, str]:
    """Make a leader whose topic has 8 queues from 10 s on, and a name server that knows it; return both nodes."""
    [node] = _own_broker(scenario)
    server = f"{scenario.name}-coordinator"
    for one in (server, node):
        scenario.observe(0, "server_life", node=one, life=1, ended=None)
    for at_s, queues in ((0, [4, 4, 6]), (10, [8, 8, 6])):
        table = {"broker_name": scenario.broker, "topics": {scenario.topic: queues}}
        scenario.observe(at_s, "topic_table", node=node, **table)
        scenario.observe(at_s, "route_table", node=server, life=1, addresses={"0": node}, **table)
    return node, server


def _route_drift(scenario: Scenario, _sets: int) -> None:
    """The name server returns to the topic's former queue numbers for a second."""
    node, server = _changes(scenario)
    for at_s, queues in ((20, [4, 4, 6]), (21, [8, 8, 6])):
        table = {"broker_name": scenario.broker, "topics": {scenario.topic: queues}}
        scenario.observe(at_s, "route_table", node=server, life=1, addresses={"0": node}, **table)
    scenario.expect_of_run("route_drift", topic=scenario.topic, broker=scenario.broker)


def _departed_route(scenario: Scenario, _sets: int) -> None:
    """The leader has ended, but the name server lists it for 20 s more."""
    node, server = _changes(scenario)
    scenario.observe(30, "server_life", node=node, life=1, ended="terminated")
    gone = {"broker_name": scenario.broker, "addresses": {}, "topics": {}}
    scenario.observe(50, "route_table", node=server, life=1, **gone)
    scenario.expect_of_run("departed_route", broker=scenario.broker)


def _table(scenario: Scenario, at_s: float, node: str, life: int, changes: int, value: str) -> None:
    """The settings of one group on a broker that is ready."""
    scenario.observe(
        at_s,
        "server_table",
        node=node,
        life=life,
        broker_name=scenario.broker,
        table="groups",
        version=str(changes),
        changes=changes,
        ready=True,
        emptied=False,
        entries={scenario.group: value},
    )


def _table_lost(scenario: Scenario, _sets: int) -> None:
    """The leader changes a group, starts again, and has the former settings."""
    [node] = _own_broker(scenario)
    scenario.observe(0, "server_life", node=node, life=1, ended=None)
    _table(scenario, 0, node, 1, 1, "usual")
    _table(scenario, 10, node, 1, 2, "retry_queue_nums 5")
    scenario.observe(20, "server_life", node=node, life=1, ended="terminated")
    scenario.observe(21, "server_life", node=node, life=2, ended=None)
    _table(scenario, 21, node, 2, 1, "usual")
    scenario.expect_of_run("table_lost", broker=scenario.broker)


def _table_uncopied(scenario: Scenario, _sets: int) -> None:
    """The leader changes a group, and its follower copies that 40 s later."""
    leader, follower = _own_broker(scenario, 2)
    for node in (leader, follower):
        scenario.observe(0, "server_life", node=node, life=1, ended=None)
        _table(scenario, 0, node, 1, 1, "usual")
    _table(scenario, 10, leader, 1, 2, "retry_queue_nums 5")
    _table(scenario, 50, follower, 1, 2, "retry_queue_nums 5")
    scenario.expect_of_run("table_uncopied", broker=scenario.broker)


def _missing_route(scenario: Scenario, _sets: int) -> None:
    _routes(scenario, named=False, up=True, for_s=60)
    scenario.expect_of_run("missing_route")


def _slow_failover(scenario: Scenario, _sets: int) -> None:
    """One of two name servers is frozen when a consumer starts, and the consumer has no queue for long."""
    servers = [f"{scenario.name}-name-server-{number}" for number in range(2)]
    for server in servers:
        scenario.observe(0, "route", node=server, brokers={}, up=[])
    scenario.faults.append(
        FaultFacts(
            fault_id=scenario.name,
            kind="name_server_freeze",
            targets=(servers[0],),
            fired_ns=scenario.ns(0.5),
            bitten_ns=scenario.ns(0.5),
            healed_ns=scenario.ns(20),
        )
    )
    key = scenario.send(0)
    scenario.opened(1, 0)
    scenario.to_group(15, "assign", "queues", [[scenario.broker, 0]])
    scenario.consume(16, key, 0)
    scenario.drained(17)
    scenario.op(18, "ok", "probe", {"broker": scenario.broker})
    scenario.expect_of_run("slow_failover")


OBSERVED_INJECTIONS: Mapping[str, ScenarioInjection] = {
    "acked_not_durable": _acked_not_durable,
    "spurious_weak_status": _spurious_weak_status,
    "replica_diverged": _replica("replica_diverged", 8000, 4096),
    "replica_ahead": _replica("replica_ahead", 9000, None),
    "queue_hole": _queue_entries("queue_hole", "hole_at", "holes"),
    "queue_entry_wrong": _queue_entries("queue_entry_wrong", "wrong_at", "wrong"),
    "queue_entry_missing": _queue_entries("queue_entry_missing", "", "missing"),
    "read_beyond_recovery": _read_beyond_recovery,
    "wrong_route": _wrong_route,
    "stale_route": _stale_route,
    "route_drift": _route_drift,
    "departed_route": _departed_route,
    "missing_route": _missing_route,
    "table_lost": _table_lost,
    "table_uncopied": _table_uncopied,
    "task_leak": _leak("task_leak", "tasks", 3),
    "thread_leak": _leak("thread_leak", "threads", 37),
    "socket_leak": _leak("socket_leak", "sockets", 5),
    "file_leak": _leak("file_leak", "surplus_files", 3),
    "internal_error": _internal_error,
    "table_leak": _leaked("table_leak", {"tables": {"heldPulls": 4}}),
    "memory_leak": _leak("memory_leak", "memory_bytes", 65 << 20),
}
SWITCH_INJECTIONS: Mapping[str, ScenarioInjection] = {"slow_failover": _slow_failover}
