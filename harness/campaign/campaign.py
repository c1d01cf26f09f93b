"""A campaign: every option of a run, as data. A run prints it first and stores it; it suffices to repeat the run.

The seed decides every option that is not given (TigerBeetle's "swarm"): the nodes of the cluster, flush and
replication, sizes, think times, latencies, fault kinds and the fault plan. Each option is drawn from a stream of its
own, so that giving one leaves the others unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from random import Random
from typing import Any, TypeVar

import tomli_w

from staticfire.faults.model.fault import PlannedFault
from staticfire.faults.model.topology import Replica, Topology
from staticfire.faults.plans.plan import to_data
from staticfire.harness.campaign.ops import PlannedOp, ops_to_data
from staticfire.harness.clients.consumer_kinds import PUSH

FLUSH_MODES = ("sync", "async")
REPLICATION_MODES = ("sync", "async", "none")
ENVIRONMENTS = ("simulation", "processes", "namespaces", "docker", "ssh", "address")
TARGETS = ("own", "apache", "address")
# The mode of our brokers and name servers, which also sets the promises by which any target is judged.
# permissive: every second node connects with TLS; enforcing: all nodes do.
TLS_MODES = ("disabled", "permissive", "enforcing")
MODES = ("hardened", "faithful")
PROPERTY_TABLES = ("broker_properties", "coordinator_properties")
SEED_MAX = 2**63 - 1
DEFAULT_SYSTEM = "rocketmq"
T = TypeVar("T")
Properties = tuple[tuple[str, str], ...]  # names and values, sorted by name

# Options that recorded runs of earlier versions lack. Their defaults describe what such a run did.
LATER_OPTIONS = frozenset(
    {
        "quiet_s",
        "idle",
        "large_share",
        "async_share",
        "illegal_share",
        "strategy",
        "acl",
        "tls",
        "replica_tls",
        "consumer_kind",
        "system",
        "ops",
        "asked_share",
        "immune_share",
    }
)


# Former name of an option -> its name. Files of earlier versions use it, and it still seeds the option's stream.
FORMER_NAMES: Mapping[str, str] = {
    "name_servers": "coordinators",
    "slaves": "followers",
    "name_server_properties": "coordinator_properties",
}
_STREAMS = {name: former for former, name in FORMER_NAMES.items()}


class CampaignError(ValueError):
    """An option of a campaign is not valid. The text names it, its value and what is allowed."""


def with_current_names(options: Mapping[str, T]) -> dict[str, T]:
    """Return the options under their current names. Raises CampaignError if one is given under both names."""
    for former, name in FORMER_NAMES.items():
        if former in options and name in options:
            raise CampaignError(f"{former} and {name} are one option; allowed: one of them")
    return {FORMER_NAMES.get(name, name): value for name, value in options.items()}


def stream_of(seed: int, option: str) -> Random:
    """Return the random stream that decides an option of a campaign."""
    return Random(f"staticfire/{seed}/{_STREAMS.get(option, option)}")


# Strategies by which members share out queues, under RocketMQ's names. The first is its default.
STRATEGIES = ("AVG", "AVG_BY_CIRCLE", "CONSISTENT_HASH")
AVERAGELY = STRATEGIES[0]
EVEN_STRATEGIES = STRATEGIES[:2]  # members' numbers of queues differ by at most 1


@dataclass(frozen=True, slots=True)
class OneOf:
    """Values of one option; the seed decides which of them a run gets."""

    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Campaign:
    """Every option of a run. Times are seconds of the run's clock, sizes are bytes."""

    seed: int
    workload: str
    time_s: float
    coordinators: int
    followers: tuple[int, ...]  # of each leader; its length is the number of leaders
    flush: str
    replication: str
    queues: int  # of the topic, on each broker
    producers: int
    consumers: int
    think_ms: float  # mean pause between two ops of a producer
    payload_bytes: tuple[int, int]
    latency_ms: tuple[float, float]
    fsync_us: int
    log_file_bytes: int
    faults: tuple[str, ...]  # kinds of fault
    acks_min: int  # with fewer acknowledged messages the verdict is unknown
    gap_max_s: float  # longest time that a client may go without success under load; 0: no bound
    plan: tuple[PlannedFault, ...]
    batch_share: float = 0.0  # share of the ops of producers
    batch_messages: tuple[int, int] = (2, 5)  # least and most messages of a batch
    one_way_share: float = 0.0
    quiet_s: float = 0.0  # load after the last fault, in addition to time_s
    # begin and length of a time in which clients send nothing
    idle: tuple[float, float] = (0.0, 0.0)
    large_share: float = 0.0  # share of single messages with bodies that clients compress
    async_share: float = 0.0  # share of the single, answered sends
    illegal_share: float = 0.0  # share of the ops of producers: sends that brokers must refuse
    strategy: str = AVERAGELY  # how the members of a group divide its queues
    acl: bool = False  # brokers check signatures and rights; clients and brokers have keys
    consumer_kind: str = PUSH  # kind of all consumers
    tls: str = "disabled"  # RocketMQ: tls.server.mode of every server
    replica_tls: bool = False  # brokers replicate over TLS; both sides present a certificate
    environment: str = "simulation"
    target: str = "own"  # the tested variant of the system
    client: str = "own"  # implementation of producers and consumers; see client_command.py
    mode: str = "hardened"
    # the faithful lines of the policy table in faithful mode; (): all
    policies: tuple[str, ...] = ()
    defect: str = ""
    broker_properties: Properties = ()  # of every broker, by their names in `.properties` files
    coordinator_properties: Properties = ()
    brokers: tuple[
        str, ...
    ] = ()  # nodes `name:id` of an external cluster, leaders first; (): our own cluster
    # topics of the consumers, in turn; (): the topic of the campaign
    consumer_topics: tuple[str, ...] = ()
    expressions: tuple[
        str, ...
    ] = ()  # tag expressions of the consumers, in turn; (): the workload's
    sends_max: int = 0  # most ops of all producers together; 0: no bound
    # How many of the last consumers forward each message to a topic with more queues, and how many consume that topic
    # in a group of their own.
    forwarding: tuple[int, int] = (0, 0)
    hot_share: float = 0.0  # share of ordered messages with the common key; 0: the workload's
    asked_share: float = 0.0  # share of transactions that brokers must ask about; 0: the workload's
    immune_share: float = (
        0.0  # share of transactions that set a time in which brokers must not ask about them
    )
    auto_topic: bool = (
        False  # whether the first message at a broker creates the topic, instead of an operator
    )
    system: str = DEFAULT_SYSTEM  # the tested message queue
    token: str = ""  # makes names of topics and groups unique to one run, in an external cluster
    ops: tuple[PlannedOp, ...] | None = None  # ops of the producers; None: drawn from the seed

    @property
    def leaders(self) -> int:
        return len(self.followers)

    @property
    def load_s(self) -> float:
        """Duration of the load; no fault strikes in its last `quiet_s`."""
        return self.time_s + self.idle[1] + self.quiet_s

    @property
    def topic(self) -> str:
        return f"staticfire-{self.token}-{self.seed}-topic" if self.token else "StaticfireTopic"

    @property
    def probe_topic(self) -> str:
        """The topic of the probes: one of its own where a probe would otherwise create the topic of the load."""
        return f"{self.topic}-probe" if self.auto_topic else self.topic

    @property
    def group(self) -> str:
        return f"staticfire-{self.token}-{self.seed}-group" if self.token else "staticfire-group"

    @property
    def is_external(self) -> bool:
        """Whether the servers belong to an external cluster, which the harness neither starts nor stops."""
        return self.environment == "address"

    def topology(self) -> Topology:
        if self.brokers:
            return Topology(
                coordinators=_numbered("ns", self.coordinators),
                replicas=tuple(map(foreign_broker, self.brokers)),
                producers=_numbered("producer", self.producers),
                consumers=_numbered("consumer", self.consumers),
            )
        return topology_of(self.coordinators, self.followers, self.producers, self.consumers)

    def to_toml(self) -> str:
        table = asdict(replace(self, ops=None))
        table["plan"] = to_data(self.plan)
        del table["ops"]
        if self.ops is not None:
            table["ops"] = ops_to_data(self.ops)
        for name in PROPERTY_TABLES:
            table[name] = dict(table[name])
        return tomli_w.dumps({"campaign": table})


def foreign_broker(text: str) -> Replica:
    """Parse a broker `name:id` of an external cluster. Raises CampaignError."""
    name, _, number = text.rpartition(":")
    if not name or not (number.isascii() and number.isdigit()):
        raise CampaignError(f"brokers hold {text!r:.80}; allowed: name:id, such as broker-a:0")
    return Replica(node=f"{name}-{number}", replica_set=name, number=int(number))


def topology_of(
    coordinators: int, followers: tuple[int, ...], producers: int, consumers: int
) -> Topology:
    """Node names: ns-1, broker-a-0 (leader), broker-a-1 (its first follower), producer-1, consumer-1."""
    brokers = [
        Replica(node=f"{name}-{broker_id}", replica_set=name, number=broker_id)
        for name, count in zip(_broker_names(len(followers)), followers, strict=True)
        for broker_id in range(count + 1)
    ]
    return Topology(
        coordinators=_numbered("ns", coordinators),
        replicas=tuple(brokers),
        producers=_numbered("producer", producers),
        consumers=_numbered("consumer", consumers),
    )


def _broker_names(count: int) -> list[str]:
    return [f"broker-{chr(ord('a') + index)}" for index in range(count)]


def _numbered(prefix: str, count: int) -> tuple[str, ...]:
    return tuple(f"{prefix}-{number}" for number in range(1, count + 1))
