"""Facts of a run that its history does not hold: profile, nodes, faults, minimum evidence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Self

from staticfire.checkers.guarantees.fault_effects import (
    Destroys,
    Strikes,
    default_damage,
    default_effects,
    default_strikes,
)
from staticfire.checkers.guarantees.former_names import with_current_facts
from staticfire.checkers.model.typed_fields import check_types

Flush = Literal["sync", "async"]
# How a node keeps messages. "pool": in memory before the page cache; only leaders with asynchronous flush have one.
Keeping = Literal["sync", "async", "pool"]
Replication = Literal["none", "async", "sync"]
Mode = Literal["hardened", "faithful"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RottenRecord:
    """A stored record that a fault has changed: its message, and its byte range [start, end) in the stream."""

    key: str
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AffectedTarget:
    """The time in which a fault affects one of its targets, if that differs by target. No end: until the heal."""

    node: str
    start_ns: int
    end_ns: int | None = None
    # The effects on this target at that time; None: all effects of the fault.
    affects: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """The moment at which a fault damaged the disk of a node, and the damage, such as "power cut"."""

    node: str
    at_ns: int
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsReset:
    """A leader's answer to an operator: it has notified the members of a group to go back in a topic.

    `offsets` are pairs (partition, offset): each member must continue there or below. Without any, members start again
    from the beginning of their queues.

    `answers` are the offsets that the leader answered. `committed` are the offsets that the group had committed right
    before, according to the leader. Both are empty in runs that do not record the time.
    """

    group: str
    topic: str
    stream: str  # the reset applies to the topic's logs of this stream (`LogKey.stream`)
    asked_ns: int
    answered_ns: int
    offsets: tuple[tuple[int, int], ...] = ()
    time_ms: int | None = None  # store time that the operator asked for; None: not recorded
    answers: tuple[tuple[int, int], ...] = ()
    committed: tuple[tuple[int, int], ...] = ()

    def offset(self, partition: int) -> int | None:
        """Return the highest offset at which members may continue; None if the reset does not name the partition."""
        return dict(self.offsets).get(partition) if self.offsets else 0

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> OffsetsReset:
        rows = {
            name: tuple((partition, offset) for partition, offset in fields.get(name, ()))
            for name in ("offsets", "answers", "committed")
        }
        return cls(**{**fields, **rows})


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuesConfirmed:
    """A leader's answer to an operator: from this time on, a topic has at least this many queues on the replica set."""

    topic: str
    stream: str  # the replica set, as the stream of its logs (`LogKey.stream`)
    queues: int  # both to read and to write
    answered_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultFacts:
    """One planned fault, and its course; a time of None means that the fault did not get that far."""

    fault_id: str
    kind: str  # "kill", "power_cut", "partition"
    targets: tuple[str, ...]  # nodes
    fired_ns: int | None = None
    bitten_ns: int | None = None  # when an effect of it was proven
    healed_ns: int | None = None
    permanent: bool = False  # it is deliberately never healed, such as a destroyed disk
    error: str | None = None  # why it could not be fired or healed as planned
    affects: tuple[str, ...] | None = None  # effects (fault_effects); None: those of the kind
    destroys: Destroys | None = None  # name of a promises.Damage; None: that of the kind
    # when it affects its targets (fault_effects); None: that of the kind
    strikes: Strikes | None = None
    links: tuple[tuple[str, str], ...] = ()  # pairs (from, to) between which it drops packets
    # The delay of each packet from a target, if the fault only delays packets; 0: not known, or packets are also lost.
    delay_s: float = 0.0
    # records that it has changed on the disks of its targets
    records: tuple[RottenRecord, ...] = ()
    resets: tuple[OffsetsReset, ...] = ()  # those that leaders have answered
    confirmed: tuple[QueuesConfirmed, ...] = ()  # one for each leader that has answered
    # number of its requests without an answer, which a leader may carry out later
    unanswered: int = 0
    # the times of each target; empty: it affects all of them all the time
    struck: tuple[AffectedTarget, ...] = ()
    incidents: tuple[Incident, ...] = ()  # the known incidents; no verdict depends on them

    @property
    def effects(self) -> tuple[str, ...]:
        """The effects on its targets, or on its links if it has any."""
        return default_effects(self.kind) if self.affects is None else self.affects

    @property
    def damage(self) -> Destroys:
        """The damage to its targets: the name of a promises.Damage, in lower case."""
        return default_damage(self.kind) if self.destroys is None else self.destroys

    @property
    def strikes_when(self) -> Strikes:
        """When it affects its targets: at_once, later, in_turn, again or unclear."""
        return default_strikes(self.kind) if self.strikes is None else self.strikes


@dataclass(frozen=True, slots=True, kw_only=True)
class Timings:
    """Durations of the mechanisms of a cluster and its clients, in seconds.

    A system gives them with the options of the run. A timing that is not recorded has the default.
    """

    rebalance_s: float = 20.0  # interval at which a member checks its group for changes
    members_notified: bool = True  # servers announce such a change at once
    heartbeat_s: float = 30.0  # interval of heartbeats of clients
    channel_expiry_s: float = 120.0  # time until a silent client or server is forgotten
    # time until the lock of a queue expires that its owner does not renew
    lock_life_s: float = 60.0
    lock_renewal_s: float = 20.0  # interval at which owners renew locks
    lock_belief_s: float = 30.0  # how long a member relies on a lock that it cannot renew
    # time until a member gives up the locks of a leader whose connection has ended
    lock_end_s: float = 30.0
    commit_s: float = 5.0  # interval at which members send their offsets
    offset_persist_s: float = 5.0  # interval at which servers write the offsets of groups to disk
    # interval at which servers record how far they have moved delayed and retried messages
    progress_s: float = 10.0
    write_back_s: float = 0.0  # time until a disk has written offsets; 0: servers use fsync
    follower_sync_s: float = 10.0  # interval at which followers copy offsets, topics and groups
    replication_silence_s: float = 20.0  # replicas connect again after this time without a packet
    route_refresh_s: float = 30.0  # interval at which clients ask for routes
    route_keep_s: float = 60.0  # how long clients use a server after it has left their route
    register_s: float = 30.0  # interval at which servers register with coordinators
    clean_s: float = 10.0  # interval at which servers check how full their disks are
    request_s: float = 3.0  # timeout of a request
    # most time of a send with all its attempts, or of a request with its reply; 0: not known
    send_s: float = 0.0
    consume_timeout_s: float = 900.0  # time until a client gives up a listener that does not return
    # time until a member that was notified of a reset continues at the new offset
    reset_s: float = 11.0
    # interval at which a broker checks a held fetch again; 0: an arrival wakes it
    poll_s: float = 0.0
    packet_s: float = 1.0  # most time until a packet arrives that no fault delays; 1: not known
    # time until a broker stops waiting for the disk, and answers with a weak status
    flush_timeout_s: float = 5.0
    follower_timeout_s: float = 3.0  # the same for the copy of a follower
    # Time from storing a message to its flush, if no fault slows the disk; 0: not known, and short. Consumers receive
    # only flushed messages.
    flush_wait_s: float = 0.0
    # Time from a write under asynchronous flush until it is on the disk.
    flush_s: float = 13.5

    @property
    def send_back_s(self) -> float:
        """The most time from a send-back until its report: one request, and the client's own copy if that fails."""
        return 3 * self.request_s


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeExit:
    """A node that ended without a stop request."""

    node: str
    time_ns: int
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MinimumEvidence:
    """The minimum of evidence that a run must have; with less, its verdict is unknown."""

    acked_min: int = 1  # sends acknowledged with SEND_OK
    bitten_min: int = 1  # faults that bit; ignored if no faults were planned
    drained: bool = True  # every group drained


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """The facts about a run that checkers need besides history and observations."""

    flush: Flush
    replication: Replication
    mode: Mode = "hardened"
    policies: tuple[str, ...] = ()  # names of the faithful behaviours; empty in faithful mode: all
    transient_pool: bool = False  # leaders keep new messages in process memory for a while
    # consumer group -> topics that it must consume completely
    groups: Mapping[str, tuple[str, ...]]
    orderly: tuple[str, ...] = ()  # groups whose listener takes one message of a queue at a time
    broadcasting: tuple[str, ...] = ()  # groups whose members each get every message
    # Groups whose members choose queues and positions themselves, so no member must consume everything.
    assigned: tuple[str, ...] = ()
    evenly: tuple[str, ...] = ()  # groups that divide queues by AVG or AVG_BY_CIRCLE
    wanted_tags: Mapping[str, tuple[str, ...]] = field(
        default_factory=dict
    )  # groups with a filter, and the tags that they want
    # Groups that changed their filter: the tags that they wanted before, and when every member wanted `wanted_tags`.
    wanted_before: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    filters_changed_ns: Mapping[str, int] = field(default_factory=dict)
    retries_max: Mapping[str, int] = field(
        default_factory=dict
    )  # groups with dead letters, and the number of retries before a message becomes one
    delay_levels_ms: tuple[int, ...] = ()  # of servers, level 1 first
    # age of an open transaction before its first check; 0: no transactions
    check_after_s: float = 0.0
    check_max: int = 15  # most checks of an open transaction
    check_every_s: float = 0.0  # interval of rounds of checks; 0: not known
    follower_reads: bool = False  # leaders redirect members that have read everything to a follower
    # a follower that is this far behind counts as absent
    follower_behind_max_bytes: int = 256 << 20
    topics: tuple[str, ...]
    replica_sets: Mapping[str, tuple[str, ...]]  # by name, the nodes of each, the leader first
    queues_max: int = 0  # most queues of each of these topics on a replica set; 0: not known
    refused_topics: tuple[str, ...] = ()  # topics that only illegal sends name
    living: tuple[str, ...] | None = None  # replica sets that must serve after the heal; None: all
    producers: tuple[str, ...] = ()  # nodes of producers that make the load
    consumers: tuple[str, ...] = ()
    forwarders: tuple[str, ...] = ()  # consumers that only forward the messages that they receive
    gap_max_s: float | None = None  # longest allowed gap in service for a client; None: no promise
    faults: tuple[FaultFacts, ...] = ()
    exits: tuple[NodeExit, ...] = ()
    timings: Timings = field(default_factory=Timings)
    coordinators: tuple[str, ...] = ()
    # age before which brokers do not delete messages that some group has not consumed
    reserved_s: float = 0.0
    # Age before which brokers delete no message, consumed or not, while disks have space; 0: not known.
    kept_s: float = 0.0
    # Groups created after other groups had consumed, when retention may have deleted messages.
    late_groups: tuple[str, ...] = ()
    floors: MinimumEvidence = field(default_factory=MinimumEvidence)
    disks_observed: bool = True  # the harness inspected the disks at each acknowledgement
    # A broker may be too busy without a fault: on a real machine, with a small queue, or with a slow disk.
    may_be_busy: bool = True
    routes_observed: bool = False  # the harness queried the coordinators periodically
    resources_observed: bool = False  # resources of servers were measured around the load
    errors_observed: bool = False  # the harness searched the logs of nodes for programming errors
    # the harness compared coordinators with leaders after the drain
    topic_routes_observed: bool = False
    # Every change of coordinators' answers and leaders' tables, and every start and end of servers, is recorded.
    route_changes_observed: bool = False
    tables_observed: bool = (
        False  # every change of servers' settings of groups and progress is recorded
    )
    # the run created its topics on every replica set beforehand; False: the first message creates them
    topics_everywhere: bool = True
    files_observed: bool = True  # the harness could read the files of servers after the run
    clock_uncertainty_ns: Mapping[str, int] = field(
        default_factory=dict
    )  # client node -> the largest error of the time stamps of its events; empty in a simulation
    # the time that all wall clocks showed at time 0 of the history; None: not known
    wall_epoch_ms: int | None = None
    due: tuple[str, ...] = ()  # kinds of op that the run had to record: checkers/engine/evidence.py
    gone: str = ""  # how the harness noticed that an external cluster went away; empty: it did not
    torn: bool = False  # the history's last line was cut short
    unfinished: bool = False  # the run ended before it wrote its verdict
    unchecked: bool = False  # no checksums tie history, observations and these facts together
    unread: str = ""  # why existing observations were not read; empty: they were

    @property
    def leaders_keeping(self) -> Keeping:
        return "pool" if self.transient_pool else self.flush

    @property
    def living_sets(self) -> tuple[str, ...]:
        return tuple(sorted(self.replica_sets)) if self.living is None else self.living

    @property
    def filter_change_begins_ns(self) -> int | None:
        """The earliest time in ns at which a member can have changed its filter; None if no fault changed filters."""
        began = [
            fault.fired_ns
            for fault in self.faults
            if fault.kind == "filter_change" and fault.fired_ns is not None
        ]
        return min(began) - max(self.clock_uncertainty_ns.values(), default=0) if began else None

    def behaves(self, policy: str) -> bool:
        """Whether servers behave like the original product in this policy."""
        return self.mode == "faithful" and (not self.policies or policy in self.policies)

    def to_json(self) -> dict[str, object]:
        return asdict(self)

    @classmethod
    def from_json(cls, recorded: Mapping[str, object]) -> Self:
        """Read the output of `to_json` of any version. Raises TypeError, ValueError, KeyError, AttributeError."""
        fields = with_current_facts(recorded)
        facts = cls(
            **{
                **fields,
                "groups": {group: tuple(topics) for group, topics in fields["groups"].items()},
                "topics": tuple(fields["topics"]),
                "refused_topics": tuple(fields.get("refused_topics", ())),
                "policies": tuple(fields.get("policies", ())),
                "wanted_tags": {
                    group: tuple(tags) for group, tags in fields.get("wanted_tags", {}).items()
                },
                "wanted_before": {
                    group: tuple(tags) for group, tags in fields.get("wanted_before", {}).items()
                },
                "delay_levels_ms": tuple(fields.get("delay_levels_ms", ())),
                "late_groups": tuple(fields.get("late_groups", ())),
                "orderly": tuple(fields.get("orderly", ())),
                "broadcasting": tuple(fields.get("broadcasting", ())),
                "assigned": tuple(fields.get("assigned", ())),
                "evenly": tuple(fields.get("evenly", ())),
                "producers": tuple(fields.get("producers", ())),
                "consumers": tuple(fields.get("consumers", ())),
                "forwarders": tuple(fields.get("forwarders", ())),
                "due": tuple(fields.get("due", ())),
                "replica_sets": {
                    name: tuple(nodes) for name, nodes in fields["replica_sets"].items()
                },
                "living": None if fields["living"] is None else tuple(fields["living"]),
                "faults": tuple(map(_fault_from_json, fields["faults"])),
                "exits": tuple(NodeExit(**ended) for ended in fields["exits"]),
                "floors": MinimumEvidence(**fields["floors"]),
                "timings": Timings(**fields.get("timings", {})),
                "coordinators": tuple(fields.get("coordinators", ())),
            }
        )
        check_types(facts, cls, "facts")
        return facts


def replication_text(replication: str) -> str:
    """Return "no replication", or the mode, such as "sync replication"."""
    return "no replication" if replication == "none" else f"{replication} replication"


def _fault_from_json(fields: Mapping[str, Any]) -> FaultFacts:
    affects = fields.get("affects")
    return FaultFacts(
        **{
            **fields,
            "targets": tuple(fields["targets"]),
            "affects": None if affects is None else tuple(affects),
            "links": tuple(tuple(link) for link in fields.get("links", ())),
            "records": tuple(RottenRecord(**record) for record in fields.get("records", ())),
            "resets": tuple(map(OffsetsReset.from_json, fields.get("resets", ()))),
            "confirmed": tuple(QueuesConfirmed(**one) for one in fields.get("confirmed", ())),
            "struck": tuple(_struck(one) for one in fields.get("struck", ())),
            "incidents": tuple(Incident(**one) for one in fields.get("incidents", ())),
        }
    )


def _struck(fields: Mapping[str, Any]) -> AffectedTarget:
    affects = fields.get("affects")
    return AffectedTarget(**{**fields, "affects": None if affects is None else tuple(affects)})
