"""Promises as data: the loss that an acknowledged message may suffer, by profile and damage.

SEND_OK is a promise. Its strength depends on the profile (flush, replication) and on the damage to the nodes that hold
the message. The tables below define what each node keeps after a damage, and which nodes must hold a message when it is
acknowledged; everything else follows from them. A fault that did not bite excuses nothing.

For hardened brokers, damage that costs a node a tail of its log affects only messages that the node may not have
flushed by then (checkers/guarantees/unflushed.py). Without synchronous replication, damage to a leader affects only
messages that its followers may have lacked by then (checkers/guarantees/uncopied.py).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum, IntEnum
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from staticfire.checkers.guarantees.anomaly_rules import PLAIN, RULES
from staticfire.checkers.guarantees.facts import (
    FaultFacts,
    Flush,
    Keeping,
    Mode,
    Replication,
    RunFacts,
    replication_text,
)
from staticfire.checkers.guarantees.fault_effects import CUTS, LATER, STALLS, STOPS
from staticfire.checkers.guarantees.fault_times import began_ns, by_target, cuts_between, healed_ns
from staticfire.checkers.guarantees.judgement import Judgement as Judgement
from staticfire.checkers.guarantees.uncopied import uncopied_since_ns
from staticfire.checkers.guarantees.unflushed import (
    flushed_by_ns,
    moved_by_ns,
    unflushed_since_ns,
)
from staticfire.checkers.model.intervals import Span

NS_PER_S = 1_000_000_000
# After its restart a replica fetches missing messages from its peers. Until then (it reconnects after 5 s, and the
# transfer follows), a fault of the peer can still destroy the only copy, so both faults are one episode. If another
# fault separates the two in this time, the transfer begins again at the heal of that fault.
RESYNC_NS = 10 * NS_PER_S
FOREVER_NS = 1 << 62


class Damage(IntEnum):
    """The damage of a fault to a node, from nothing to everything."""

    # no acknowledged message: partition, black hole, pause, graceful stop, full or slow disk, clock
    NONE = 0
    PROCESS = 1  # the memory of the process; the page cache stays
    WRITE_ERROR = 2  # the dirty pages of a failed fsync (fsyncgate), then the process restarts
    POWER = 3  # all data that was not fsynced
    DISK = 4  # all data
    RECORD = 5  # the record of this one message


DAMAGE_TEXTS: Mapping[Damage, str] = {  # of a node
    Damage.PROCESS: "a crash of {}",
    Damage.WRITE_ERROR: "a write error of {}",
    Damage.POWER: "a power cut of {}",
    Damage.DISK: "the loss of the disk of {}",
    Damage.RECORD: "the loss of this record on {}",
}


class Kept(IntEnum):
    """The messages that a damaged node still has."""

    NOTHING = 0
    PREFIX = 1  # the commit log up to some point
    ALL = 2


class Loss(Enum):
    """The possible loss of a message that was acknowledged with SEND_OK."""

    NEVER = "it must survive"
    SUFFIX = "it may be lost only as part of a suffix of the commit log"
    ANY = "it may be lost"
    HAZARD = (
        "it may be out of reach on a follower (replication.fetches_missing of Apache RocketMQ 4.9)"
    )


# Effects during which a node neither fetches missing messages nor serves them to a peer.
_ABSENT = frozenset({STOPS, STALLS})

KEPT: Mapping[tuple[Keeping, Damage], Kept] = MappingProxyType(
    {
        ("sync", Damage.NONE): Kept.ALL,
        ("sync", Damage.PROCESS): Kept.ALL,
        ("sync", Damage.WRITE_ERROR): Kept.ALL,
        ("sync", Damage.POWER): Kept.ALL,
        ("sync", Damage.DISK): Kept.NOTHING,
        ("sync", Damage.RECORD): Kept.NOTHING,
        ("async", Damage.NONE): Kept.ALL,
        ("async", Damage.PROCESS): Kept.ALL,
        ("async", Damage.WRITE_ERROR): Kept.PREFIX,
        ("async", Damage.POWER): Kept.PREFIX,
        ("async", Damage.DISK): Kept.NOTHING,
        ("async", Damage.RECORD): Kept.NOTHING,
        ("pool", Damage.NONE): Kept.ALL,
        ("pool", Damage.PROCESS): Kept.PREFIX,  # the uncommitted tail dies with the process
        ("pool", Damage.WRITE_ERROR): Kept.PREFIX,
        ("pool", Damage.POWER): Kept.PREFIX,
        ("pool", Damage.DISK): Kept.NOTHING,
        ("pool", Damage.RECORD): Kept.NOTHING,
    }
)

# SEND_OK of a synchronous leader means that one follower also has the message; it is not known which one.
FOLLOWER_HOLDS_ACKED: Mapping[Replication, bool] = MappingProxyType(
    {"none": False, "async": False, "sync": True}
)

LOSS_OF_KEPT: Mapping[Kept, Loss] = MappingProxyType(
    {Kept.ALL: Loss.NEVER, Kept.PREFIX: Loss.SUFFIX, Kept.NOTHING: Loss.ANY}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hazard:
    """A behaviour of Apache RocketMQ 4.9 that explains a loss."""

    policy: str  # its line in system_under_test/broker/policies/policies.py
    what: str


# SEND_OK of a synchronous leader promises a copy on a follower. Only a behaviour that hides this copy excuses a loss.
NOT_FETCHED = Hazard(
    policy="replication.fetches_missing",
    what="a leader never gets back what only its followers have",
)
NOT_COPIED = Hazard(
    policy="replication.believes_requests",
    what="the first report of a follower acknowledges what it does not have",
)

JUDGEMENT_OF_LOSS: Mapping[Loss, Judgement] = MappingProxyType(
    {
        Loss.NEVER: Judgement.VIOLATION,
        Loss.SUFFIX: Judgement.ALLOWED,
        Loss.ANY: Judgement.ALLOWED,
        Loss.HAZARD: Judgement.INFORMATIONAL,
    }
)


def judge(mode: Mode, anomaly: str) -> Judgement:
    """Return the judgement of an anomaly without an excuse; an undeclared anomaly is a violation."""
    rule = RULES.get(anomaly, PLAIN)
    return rule.hardened if mode == "hardened" else rule.faithful


@dataclass(frozen=True, slots=True, kw_only=True)
class DamageEvent:
    """The damage of one fault to one node, also called a hit."""

    node: str
    damage: Damage
    start_ns: int
    until_ns: int  # it does not affect messages sent later
    healed_ns: int
    since_ns: int = -FOREVER_NS  # it does not affect messages stored earlier
    uncopied_since_ns: int = -FOREVER_NS  # followers have all messages stored earlier


@dataclass(frozen=True, slots=True, kw_only=True)
class LossRule:
    """The loss that one message may suffer, and the hits from which it follows."""

    loss: Loss
    hits: tuple[DamageEvent, ...]
    # the behaviour that explains the loss, whether it is excused or not
    hazard: Hazard | None = None

    @property
    def judgement(self) -> Judgement:
        return JUDGEMENT_OF_LOSS[self.loss]


class LossPromises:
    """Derives the loss that a message may suffer from its replica set and the time of its send.

    Several hits on one replica set combine only if the cluster could not repair itself between them; they are then one
    *episode*. If the leader loses the tail of its log today and the follower tomorrow, no loss is excused.
    """

    __slots__ = ("_barred", "_facts", "_hits", "_rotten", "_rules", "_visible")

    def __init__(self, facts: RunFacts) -> None:
        self._facts = facts
        self._barred = {
            name: _ways_barred(nodes, facts.faults) for name, nodes in facts.replica_sets.items()
        }
        self._hits = {
            name: self._since(name, _hits_on(nodes, facts.faults))
            for name, nodes in facts.replica_sets.items()
        }
        self._rotten = {
            name: _rotten_records(nodes, facts.faults) for name, nodes in facts.replica_sets.items()
        }
        self._rules: dict[tuple[str, tuple[DamageEvent, ...], bool], LossRule] = {}
        self._visible: LossPromises | None = None

    def rule(
        self,
        broker: str,
        sent_ns: int,
        until_ns: int = FOREVER_NS,
        *,
        key: str | None = None,
        stored_ns: int = FOREVER_NS,
    ) -> LossRule:
        """Return the loss that a message may suffer that was acknowledged by `broker`.

        Damage that destroys only unflushed data leaves what the disk had before. Damage to a leader leaves what its
        followers had before.

        Args:
            broker: the name of the replica set.
            sent_ns: the invocation of the send.
            until_ns: only hits up to this time count.
            key: of the message; if given, a change of its own record also counts.
            stored_ns: the broker had stored the message by this time.
        """
        rotten = self._rotten.get(broker, {}).get(key, ()) if key is not None else ()
        hits = tuple(
            hit
            for hit in sorted((*self._hits.get(broker, ()), *rotten), key=_by_start)
            if hit.until_ns >= sent_ns and hit.start_ns <= until_ns and hit.since_ns <= stored_ns
        )
        copied = all(
            stored_ns < hit.uncopied_since_ns for hit in hits if hit.node == self._leader(broker)
        )
        return self._rule_of(broker, hits, copied=copied)

    def rule_of_retry(
        self, broker: str, given_ns: int, answered_ns: int, delay_ns: int | None
    ) -> LossRule:
        """Return the loss that a copy may suffer that `broker` keeps for a retry.

        The broker made the copy between `given_ns` and `answered_ns`. It is due after `delay_ns`; None: not known.
        Damage by which the leader loses the tail of its log does not affect a copy that was on its disk before.
        """
        leader = self._leader(broker)
        flushed_ns = FOREVER_NS
        if delay_ns is not None:
            moved_ns = moved_by_ns(self._facts, leader, answered_ns, delay_ns)
            flushed_ns = flushed_by_ns(self._facts, leader, moved_ns)
        hits = tuple(
            hit
            for hit in self._hits.get(broker, ())
            if hit.until_ns >= given_ns
            and (
                hit.start_ns <= flushed_ns
                or hit.node != leader
                or self._kept(broker, hit.node, hit.damage) is not Kept.PREFIX
            )
        )
        return self._rule_of(broker, hits)

    def _leader(self, broker: str) -> str:
        return self._facts.replica_sets.get(broker, ("",))[0]

    def _rule_of(
        self, broker: str, hits: tuple[DamageEvent, ...], *, copied: bool = False
    ) -> LossRule:
        asked = broker, hits, copied
        if asked not in self._rules:
            self._rules[asked] = self._most_lenient(broker, hits, copied=copied)
        return self._rules[asked]

    @property
    def visible(self) -> LossPromises:
        """The promises for a message without SEND_OK that a consumer received, so that its leader has it.

        A hardened broker serves only messages that are as durable as the flush mode demands. Apache's broker serves
        all messages in memory.
        """
        if self._visible is None:
            flush: Flush = self._facts.flush if self._facts.mode == "hardened" else "async"
            self._visible = LossPromises(replace(self._facts, flush=flush, replication="none"))
        return self._visible

    def strictest(
        self,
        broker: str,
        sent_ns: NDArray[np.int64],
        keys: Callable[[int], str | None] | None = None,
    ) -> Judgement:
        """Return the strictest judgement of the loss of any of several acknowledged messages; allowed without any.

        Args:
            broker: the name of the replica set.
            sent_ns: the invocation of each send, shape (messages,).
            keys: returns the key of a row; if given, changes of their own records also count.
        """
        if keys is not None and self._rotten.get(broker):
            found = {
                self.rule(broker, sent, key=keys(row)).judgement
                for row, sent in enumerate(sent_ns.tolist())
            }
            return next((one for one in _STRICTEST_FIRST if one in found), Judgement.ALLOWED)
        judgements, _ = self._judgements(broker, sent_ns)
        return next(
            (judgement for judgement in _STRICTEST_FIRST if judgement in judgements),
            Judgement.ALLOWED,
        )

    def must_survive(
        self, broker: str, sent_ns: NDArray[np.int64], stored_ns: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """Whether each message that `broker` acknowledged must have survived all faults of the run, shape (messages,).

        Args:
            broker: the name of the replica set.
            sent_ns: the invocation of each send, shape (messages,).
            stored_ns: a time by which the broker had stored each message, shape (messages,).
        """
        judgements, which = self._judgements(broker, sent_ns, stored_ns)
        return np.array([of is Judgement.VIOLATION for of in judgements], np.bool_)[which]

    def _judgements(
        self,
        broker: str,
        sent_ns: NDArray[np.int64],
        stored_ns: NDArray[np.int64] | None = None,
    ) -> tuple[list[Judgement], NDArray[np.intp]]:
        """Return a list of judgements of losses, and the index in it of each message's judgement, shape (messages,)."""
        stored = np.full_like(sent_ns, FOREVER_NS) if stored_ns is None else stored_ns
        hits = self._hits.get(broker, ())
        ends = sorted(hit.until_ns for hit in hits)
        begins = self.stored_cut_points(broker)
        # The rule depends only on the hits that ended at or after the send, and on the cut points up to the store time.
        kinds = np.searchsorted(ends, sent_ns) * (len(begins) + 1)
        kinds += np.searchsorted(begins, stored, side="right")
        _, rows, which = np.unique(kinds, return_index=True, return_inverse=True)
        judgements = [
            self.rule(broker, int(sent_ns[row]), stored_ns=int(stored[row])).judgement
            for row in rows.tolist()
        ]
        return judgements, which

    def stored_cut_points(self, broker: str) -> list[int]:
        """Return the store times, sorted, between which faults treat all messages alike."""
        hits = self._hits.get(broker, ())
        return sorted(
            {since_ns for hit in hits for since_ns in (hit.since_ns, hit.uncopied_since_ns)}
        )

    def text(self, rule: LossRule) -> str:
        """Return the promise as a text for readers."""
        facts = self._facts
        done = ", ".join(sorted({DAMAGE_TEXTS[hit.damage].format(hit.node) for hit in rule.hits}))
        text = (
            f"{facts.flush} flush{' from a pool' if facts.transient_pool else ''}, "
            f"{replication_text(facts.replication)}; "
            f"{f'after {done}' if done else 'no data was destroyed'}: {rule.loss.value}"
        )
        if rule.hazard is None:
            return text
        return f"{text}; explained by {rule.hazard.policy}: {rule.hazard.what}"

    def explained(
        self,
        rule: LossRule,
        broker: str,
        sent_ns: int,
        held_by: Collection[str],
        absent_from: Collection[str],
    ) -> LossRule:
        """Return the rule for one lost message, given the nodes that were queried for it after the run.

        If its leader still has the message, no damage explains why it was not delivered. A hazard excuses a loss only
        while a follower has, or may have, the copy that SEND_OK promised and that the leader does not serve.

        Args:
            rule: the result of `rule` for the message.
            broker: the name of the replica set.
            sent_ns: the invocation of the send.
            held_by: nodes that have the message in its queue.
            absent_from: nodes that do not.
        """
        leader, *followers = self._facts.replica_sets.get(broker, ("",))
        serves = broker in self._facts.living_sets
        if serves and leader in held_by:
            return replace(rule, loss=Loss.NEVER)
        if rule.loss is not Loss.HAZARD:
            return rule
        if not set(followers).isdisjoint(held_by):
            return replace(rule, hazard=NOT_FETCHED)
        damaged = {
            hit.node
            for hit in self._hits[broker]
            if hit.until_ns >= sent_ns and self._kept(broker, hit.node, hit.damage) is not Kept.ALL
        }
        # Without the leader, the followers serve their copies.
        exposed = absent_from if serves else followers
        if all(follower in exposed and follower not in damaged for follower in followers):
            return replace(rule, loss=Loss.NEVER, hazard=NOT_COPIED)
        return replace(rule, hazard=NOT_FETCHED)

    def holders(self, broker: str) -> tuple[str, ...]:
        """Return the nodes of which at least one must hold each acknowledged message of `broker`."""
        nodes = self._facts.replica_sets.get(broker, ())
        return nodes if FOLLOWER_HOLDS_ACKED[self._facts.replication] else nodes[:1]

    def hit_times(self, broker: str) -> list[tuple[int, int]]:
        """Return the times, as (begin, end) in ns, in which faults may have destroyed data on a node of `broker`."""
        return [(hit.start_ns, hit.until_ns) for hit in self._hits.get(broker, ())]

    def hits_on_followers(self, broker: str) -> list[DamageEvent]:
        """Return the hits that may have destroyed messages on followers of `broker`."""
        return [
            hit
            for hit in self._hits.get(broker, ())
            if hit.node != self._leader(broker)
            and self._kept(broker, hit.node, hit.damage) is not Kept.ALL
        ]

    def robbed_nodes(self, broker: str, *, since_ns: int, until_ns: int) -> set[str]:
        """Return the nodes of `broker` that may have lost messages by a fault between these times, both included."""
        return {
            hit.node
            for hit in self._hits.get(broker, ())
            if hit.until_ns >= since_ns and hit.start_ns <= until_ns
            if self._kept(broker, hit.node, hit.damage) is not Kept.ALL
        }

    def any_record_damaged(self, broker: str, after: int, before: int) -> bool:
        """Whether a fault changed a record of `broker` strictly between two positions of its commit log.

        Consumers skip a record that no replica can repair.
        """
        nodes = self._facts.replica_sets.get(broker, ())
        return any(
            after < record.start < before
            for fault in self._facts.faults
            if fault.bitten_ns is not None and not set(nodes).isdisjoint(fault.targets)
            for record in fault.records
        )

    def any_suffix_excused(self) -> bool:
        """Whether any message of this run may be lost as part of a suffix."""
        return any(
            self._kept(broker, hit.node, hit.damage) is Kept.PREFIX
            for broker, hits in self._hits.items()
            for hit in hits
        )

    def fault_starts(self) -> list[int]:
        """Return the start times of the hits on all brokers, sorted and distinct."""
        return sorted({hit.start_ns for hits in self._hits.values() for hit in hits})

    def damaged(self, broker: str, *, at_least: Damage, since_ns: int, until_ns: int) -> bool:
        """Whether a replica of `broker` suffered at least this damage between these times, both included."""
        return any(
            hit.damage >= at_least and hit.until_ns >= since_ns and hit.start_ns <= until_ns
            for hit in self._hits.get(broker, ())
        )

    def _since(self, broker: str, hits: Sequence[DamageEvent]) -> tuple[DamageEvent, ...]:
        """Return the hits on the nodes of a broker with the store time of the earliest messages that each affects.

        This is known only for hardened brokers. RocketMQ flushes its log, its queues and its topics separately, so a
        message in a flushed log may be in no queue.
        """
        facts = self._facts
        if facts.mode != "hardened":
            return tuple(hits)
        nodes = facts.replica_sets[broker]
        is_late = facts.replication == "async" and len(nodes) > 1  # followers have messages later
        found: list[DamageEvent] = []
        for hit in hits:
            if self._kept(broker, hit.node, hit.damage) is Kept.PREFIX:
                since_ns = self._unflushed_since_ns(broker, hit, found)
                if is_late and hit.node != nodes[0]:
                    since_ns = uncopied_since_ns(facts, nodes, since_ns)
                hit = replace(hit, since_ns=since_ns)
            if is_late and hit.node == nodes[0]:
                since_ns = uncopied_since_ns(facts, nodes, hit.start_ns)
                hit = replace(hit, uncopied_since_ns=since_ns)
            found.append(hit)
        return tuple(found)

    def _unflushed_since_ns(
        self, broker: str, hit: DamageEvent, earlier: Sequence[DamageEvent]
    ) -> int:
        """Return the store time of the earliest message that the disk of a node may lack when it is hit.

        A node that lost messages fetches them from its peers and writes them again. A second hit before they are on its
        disk affects the same messages as the first one.
        """
        facts, barred = self._facts, self._barred[broker][hit.node]
        since_ns = unflushed_since_ns(facts, hit.node, hit.start_ns)
        for other in earlier:
            if (
                other.node == hit.node
                and self._kept(broker, hit.node, other.damage) is not Kept.ALL
            ):
                anew_ns = flushed_by_ns(facts, hit.node, _whole_ns(other, barred))
                if anew_ns >= hit.start_ns:
                    since_ns = min(since_ns, other.since_ns)
        return since_ns

    def _kept(self, broker: str, node: str, damage: Damage) -> Kept:
        """Return which messages `node` still has after `damage`."""
        facts = self._facts
        is_leader = node == facts.replica_sets[broker][0]
        return KEPT[facts.leaders_keeping if is_leader else facts.flush, damage]

    def _most_lenient(self, broker: str, hits: Sequence[DamageEvent], *, copied: bool) -> LossRule:
        episodes = _episodes(hits, self._barred[broker]) if hits else ()
        rules = [self._rule_of_episode(broker, episode, copied=copied) for episode in episodes]
        never = LossRule(loss=Loss.NEVER, hits=tuple(hits))
        return max(rules, key=lambda rule: _LENIENCE[rule.loss], default=never)

    def _rule_of_episode(
        self, broker: str, hits: tuple[DamageEvent, ...], *, copied: bool
    ) -> LossRule:
        """Return the loss that the hits allow; `copied`: all followers had the message before the leader was hit."""
        facts = self._facts
        leader, *followers = facts.replica_sets[broker]
        kept = {node: self._kept(broker, node, _worst(node, hits)) for node in (leader, *followers)}
        best = kept[leader]
        if followers and (copied or FOLLOWER_HOLDS_ACKED[facts.replication]):
            best = max(best, min(kept[follower] for follower in followers))
        loss = LOSS_OF_KEPT[best]
        # A leader that loses its disk comes back empty or not at all, and the follower serves reads.
        needs_follower = kept[leader] is Kept.PREFIX and best is Kept.ALL
        if needs_follower and facts.behaves(NOT_FETCHED.policy):
            loss = Loss.HAZARD
        return LossRule(loss=loss, hits=hits)


_STRICTEST_FIRST = (Judgement.VIOLATION, Judgement.INFORMATIONAL, Judgement.ALLOWED)
_LENIENCE: Mapping[Loss, int] = MappingProxyType(
    {Loss.NEVER: 0, Loss.HAZARD: 1, Loss.SUFFIX: 2, Loss.ANY: 3}
)


def _worst(node: str, hits: Sequence[DamageEvent]) -> Damage:
    return max((hit.damage for hit in hits if hit.node == node), default=Damage.NONE)


def _hits_on(nodes: Sequence[str], faults: Sequence[FaultFacts]) -> tuple[DamageEvent, ...]:
    hits = [
        _hit(node, fault)
        for fault in faults
        for node in nodes
        if node in fault.targets and fault.bitten_ns is not None
        if _damage(fault) not in (Damage.NONE, Damage.RECORD)
    ]
    return tuple(sorted(hits, key=_by_start))


def _damage(fault: FaultFacts) -> Damage:
    return Damage[fault.damage.upper()]


def _by_start(hit: DamageEvent) -> tuple[int, str]:
    return hit.start_ns, hit.node


def _rotten_records(
    nodes: Sequence[str], faults: Sequence[FaultFacts]
) -> dict[str, tuple[DamageEvent, ...]]:
    """Return the hits on single records, by message key. A node repairs a record only when it reads it, maybe never."""
    found: dict[str, tuple[DamageEvent, ...]] = {}
    for fault in faults:
        if _damage(fault) is not Damage.RECORD or fault.bitten_ns is None:
            continue
        for record in fault.records:
            for node in (target for target in fault.targets if target in nodes):
                hit = DamageEvent(
                    node=node,
                    damage=Damage.RECORD,
                    start_ns=fault.bitten_ns,
                    until_ns=fault.bitten_ns,
                    healed_ns=FOREVER_NS,
                )
                found[record.key] = (*found.get(record.key, ()), hit)
    return found


def _hit(node: str, fault: FaultFacts) -> DamageEvent:
    assert fault.bitten_ns is not None
    start_ns = fault.bitten_ns if fault.fired_ns is None else fault.fired_ns
    healed_ns = FOREVER_NS if fault.healed_ns is None else fault.healed_ns
    until_ns = healed_ns if fault.strikes_when == LATER else max(start_ns, fault.bitten_ns)
    return DamageEvent(
        node=node,
        damage=_damage(fault),
        start_ns=start_ns,
        until_ns=until_ns,
        healed_ns=healed_ns,
    )


def _ways_barred(nodes: Sequence[str], faults: Sequence[FaultFacts]) -> dict[str, tuple[Span, ...]]:
    """Return, by node, the times in which it could not fetch missing messages, sorted by start.

    A follower fetches from its leader, a leader from each of its followers.
    """
    single = [one for fault in faults if fault.bitten_ns is not None for one in by_target(fault)]
    barred: dict[str, tuple[Span, ...]] = {}
    for node in nodes:
        peers = frozenset(nodes[1:] if node == nodes[0] else nodes[:1])
        spans = (Span(began_ns(one), healed_ns(one)) for one in single if _bars(one, node, peers))
        barred[node] = tuple(sorted(spans))
    return barred


def _bars(fault: FaultFacts, node: str, peers: frozenset[str]) -> bool:
    """Whether, during the fault, the node or one of its peers is absent, or the node cannot reach one of its peers."""
    if not _ABSENT.isdisjoint(fault.effects):
        return not (peers | {node}).isdisjoint(fault.targets)
    return CUTS in fault.effects and cuts_between(fault, frozenset({node}), peers)


def _episodes(
    hits: Sequence[DamageEvent], barred: Mapping[str, Sequence[Span]]
) -> list[tuple[DamageEvent, ...]]:
    """Split hits, sorted by start, into episodes, where the cluster had time to repair itself."""
    episodes: list[list[DamageEvent]] = []
    whole_ns = -1  # the time from which on all replicas are complete again
    for hit in hits:
        if episodes and hit.start_ns <= whole_ns:
            episodes[-1].append(hit)
        else:
            episodes.append([hit])
        whole_ns = max(whole_ns, _whole_ns(hit, barred[hit.node]))
    return [tuple(episode) for episode in episodes]


def _whole_ns(hit: DamageEvent, barred: Sequence[Span]) -> int:
    """Return the time from which on the node again has all messages of its peers."""
    whole_ns = hit.healed_ns + RESYNC_NS
    for span in barred:
        if hit.healed_ns < span.end_ns and span.start_ns <= whole_ns:
            whole_ns = max(whole_ns, span.end_ns + RESYNC_NS)
    return whole_ns
