"""The promises as a table for readers: profile x anomaly x damage -> violation, allowed or informational.

The table repeats no rule about damage. It queries `LossPromises` with one synthetic fault at a time, so it always
agrees with the checkers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import get_args

from staticfire.checkers.guarantees.anomaly_rules import RULES, Rule
from staticfire.checkers.guarantees.facts import (
    FaultFacts,
    Keeping,
    Mode,
    Replication,
    RottenRecord,
    RunFacts,
)
from staticfire.checkers.guarantees.judgement import Judgement
from staticfire.checkers.guarantees.promises import NS_PER_S, LossPromises, judge

LEADER, FOLLOWER, BROKER = "leader", "follower", "broker"
ANYTHING = "whatever happens"
ROT = "bit_rot"  # the kind of fault that changes single records
_SENT_NS, _FIRED_NS, _HEALED_NS = (at_s * NS_PER_S for at_s in (1, 2, 3))

# Damage to the nodes of one replica set, in words -> (kind of fault, nodes). Partitions, pauses, full and slow
# disks and wrong clocks destroy nothing.
DAMAGES: Mapping[str, tuple[str, tuple[str, ...]]] = MappingProxyType(
    {
        "nothing destroyed": ("partition", (LEADER,)),
        "kill of the leader": ("kill", (LEADER,)),
        "failed fsync on the leader": ("failing_disk", (LEADER,)),
        "power loss of the leader": ("power_cut", (LEADER,)),
        "power loss of all replicas": ("cluster_power_cut", (LEADER, FOLLOWER)),
        "disk of the leader lost": ("disk_lost", (LEADER,)),
        "disk of the follower lost": ("wiped_slave", (FOLLOWER,)),
        "its record changed on the leader": (ROT, (LEADER,)),
        "its record changed on all replicas": (ROT, (LEADER, FOLLOWER)),
    }
)
# A changed record affects only its own message, so it does not excuse anomalies of several messages.
OF_ONE_MESSAGE = frozenset(
    {"lost", "unseen", "lost_from_log", "poll_skip", "int_poll_skip", "member_missed"}
)
_KEY = "k"


@dataclass(frozen=True, slots=True, order=True)
class Profile:
    """The flush and replication of a cluster, and the mode in which it is judged."""

    keeping: Keeping
    replication: Replication
    mode: Mode = "hardened"

    def __str__(self) -> str:
        return f"{self.keeping}/{self.replication}/{self.mode}"


PROFILES = tuple(
    Profile(keeping, replication, mode)
    for mode in get_args(Mode)
    for keeping in get_args(Keeping)
    for replication in get_args(Replication)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """One cell: the judgement of `anomaly` in `profile` after `damage`."""

    profile: Profile
    anomaly: str
    damage: str
    judgement: Judgement
    text: str  # the promise, or what excuses the anomaly


def promises_of(profile: Profile, anomaly: str) -> Iterator[Promise]:
    """Yield the judgements of the anomaly under the profile: one for each damage, or a single one.

    Raises KeyError for an unknown anomaly.
    """
    rule = RULES[anomaly]
    if rule.by_damage:
        for damage, (kind, nodes) in DAMAGES.items():
            if kind == ROT and anomaly not in OF_ONE_MESSAGE:
                continue
            if set(nodes) <= set(_nodes(profile)):
                yield _after(profile, anomaly, damage, kind, nodes)
    else:
        judgement = judge(profile.mode, anomaly)
        yield Promise(
            profile=profile,
            anomaly=anomaly,
            damage=ANYTHING,
            judgement=judgement,
            text=_excuse(rule),
        )


def _excuse(rule: Rule) -> str:
    return "" if rule.excuse is None else f"{rule.excused} if {rule.excuse}"


def _nodes(profile: Profile) -> tuple[str, ...]:
    return (LEADER,) if profile.replication == "none" else (LEADER, FOLLOWER)


def _after(
    profile: Profile, anomaly: str, damage: str, kind: str, nodes: tuple[str, ...]
) -> Promise:
    fault = FaultFacts(
        fault_id=kind,
        kind=kind,
        targets=nodes,
        fired_ns=_FIRED_NS,
        bitten_ns=_FIRED_NS,
        healed_ns=_HEALED_NS,
        records=(RottenRecord(key=_KEY, start=0, end=1),),
    )
    facts = RunFacts(
        flush="sync" if profile.keeping == "sync" else "async",
        transient_pool=profile.keeping == "pool",
        replication=profile.replication,
        mode=profile.mode,
        groups={},
        topics=(),
        replica_sets={BROKER: _nodes(profile)},
        faults=(fault,),
    )
    rule = LossPromises(facts).rule(BROKER, _SENT_NS, key=_KEY)
    return Promise(
        profile=profile,
        anomaly=anomaly,
        damage=damage,
        judgement=rule.judgement,
        text=rule.loss.value,
    )
