"""Applies the rows of the excuse table to the faults of a run.

A fault that did not bite excuses nothing, unless the row is `unproven`. A partition counts only if it cut a link
between the roles that the row names. A node that ended by itself counts as a fault of that node until a supervisor has
restarted it (RESTARTED_NS).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain, product
from operator import itemgetter
from typing import NamedTuple

from staticfire.checkers.guarantees.excuses.excuse import VISIBLE_END, Excuse, Role
from staticfire.checkers.guarantees.excuses.excuse_table import EXCUSES
from staticfire.checkers.guarantees.excuses.seconds import routes_known
from staticfire.checkers.guarantees.facts import FaultFacts, OffsetsReset, RunFacts
from staticfire.checkers.guarantees.fault_effects import (
    CUTS,
    EMPTIES,
    FORGETS,
    IN_TURN,
    NETWORK,
    ROUTES,
    STALLS,
    STOPS,
    UNABLE,
)
from staticfire.checkers.guarantees.fault_times import (
    NS_PER_S,
    began_ns,
    by_target,
    cuts_between,
    healed_ns,
    start_ns,
)
from staticfire.checkers.model.columns import LogKey
from staticfire.checkers.model.intervals import Span, joined

_HOLDS_UP = frozenset({CUTS, NETWORK, STALLS})
# After these at a leader or a coordinator, a follower may serve members, or the leader may ask it for messages.
_STANDS_IN = frozenset({*UNABLE, EMPTIES, ROUTES})
# The most packet delays in one request: it opens a connection with TLS, and the fault may affect both ends, or TCP
# sends a packet again.
DELAYS_MAX = 8
# time until a node that ended by itself has started again and fetched missing messages
RESTARTED_NS = 10 * NS_PER_S


class Window(NamedTuple):
    """The time in which a fault excuses an anomaly of one witness, both ends included."""

    start_ns: int
    end_ns: int
    fault: FaultFacts
    excuse: Excuse

    def sends_back_to(self, group: str, queue: LogKey, offset: int | None) -> bool:
        """Whether the fault may set a group back to an offset of a queue (None: to any offset).

        The answer of a leader to a reset names the offset. A leader that did not answer may still have executed the
        reset.
        """
        orders = self.orders(group, queue)
        if not orders or offset is None:
            resets = self.fault.resets
            return not resets or any(reset.topic == queue.topic for reset in resets)
        begins = (of.offset(queue.partition) for of in orders)
        return any(begin is None or begin <= offset for begin in begins)

    def orders(self, group: str, queue: LogKey) -> tuple[OffsetsReset, ...]:
        """Return the resets of a group that the leader of a queue has answered."""
        wanted = group, queue.topic, queue.stream
        return tuple(of for of in self.fault.resets if (of.group, of.topic, of.stream) == wanted)

    @property
    def words(self) -> str:
        """The fault and its mechanism, for the detail of a finding."""
        return f"fault {self.fault.fault_id} ({self.fault.kind}): {self.excuse.mechanism}"


class Excuses:
    """The excuses of one run. Windows are computed once for each anomaly and set of nodes."""

    __slots__ = ("_effects", "_facts", "_faults", "_known", "_rows", "_spans")

    def __init__(self, facts: RunFacts) -> None:
        self._facts = facts
        fired = (fault for fault in facts.faults if start_ns(fault) is not None)
        self._faults = (*chain.from_iterable(map(by_target, fired)), *_exits(facts))
        self._effects = [frozenset(fault.effects) for fault in self._faults]
        self._rows: dict[str, tuple[tuple[Excuse, list[_Possible]], ...]] = {}
        self._known: dict[_Asked, tuple[Window, ...]] = {}
        self._spans: dict[_Asked, tuple[Span, ...]] = {}

    @property
    def has_faults(self) -> bool:
        """Whether the run had a fault, or a node that ended by itself."""
        return bool(self._faults)

    def windows(
        self, anomaly: str, broker: str | None = None, nodes: Iterable[str | None] = ()
    ) -> tuple[Window, ...]:
        """Return the windows in which faults excuse an anomaly of this replica set and these nodes, sorted by start."""
        rows = self._rows_of(anomaly)
        if not rows:
            return ()
        key = _asked(anomaly, broker, nodes)
        if key not in self._known:
            found = (
                window for row, possible in rows for window in self._of(row, possible, *key[1:])
            )
            self._known[key] = tuple(sorted(found, key=_TIMES))
        return self._known[key]

    def spans(
        self, anomaly: str, broker: str | None = None, nodes: Iterable[str | None] = ()
    ) -> list[Span]:
        """Return the union of the windows as spans that do not overlap, sorted."""
        key = _asked(anomaly, broker, nodes)
        if key not in self._spans:
            windows = self.windows(*key)
            spans = joined(Span(window.start_ns, window.end_ns) for window in windows)
            self._spans[key] = tuple(spans)
        return list(self._spans[key])

    def find(
        self,
        anomaly: str,
        since_ns: int,
        until_ns: int,
        broker: str | None = None,
        nodes: Iterable[str | None] = (),
        *,
        counts: Callable[[Window], bool] = lambda window: True,
    ) -> Window | None:
        """Return the first window that overlaps this time, both ends included, and for which `counts` is true."""
        near = (
            window
            for window in self.windows(anomaly, broker, nodes)
            if window.start_ns <= until_ns and window.end_ns >= since_ns
        )
        return next(filter(counts, near), None)

    def _rows_of(self, anomaly: str) -> tuple[tuple[Excuse, list[_Possible]], ...]:
        """Return the rows of an anomaly that have possible faults, each with these faults."""
        if anomaly not in self._rows:
            found = ((row, self._possible(row)) for row in EXCUSES.get(anomaly, ()))
            self._rows[anomaly] = tuple((row, possible) for row, possible in found if possible)
        return self._rows[anomaly]

    def _possible(self, row: Excuse) -> list[_Possible]:
        at_least_s, wanted = row.at_least(self._facts.timings), frozenset(row.effects)
        return [
            _Possible(
                window=self._window(row, fault, began_ns(fault), healed_ns(fault)),
                effects=effects,
                everywhere=Role.CLUSTER in row.on or self._strikes_all(row, fault),
            )
            for fault, of_fault in zip(self._faults, self._effects, strict=True)
            if (effects := wanted & self._felt(row, fault, of_fault))
            if (fault.bitten_ns is not None or row.unproven) and _length_s(fault) >= at_least_s
        ]

    def _of(
        self, row: Excuse, possible: list[_Possible], broker: str | None, nodes: frozenset[str]
    ) -> Iterator[Window]:
        if Role.ALL_REPLICAS in row.on:
            yield from self._of_all(row, possible, self._facts.replica_sets.get(broker or "", ()))
            return
        for window, effects, everywhere in possible:
            near, far = self._ends(row, window.fault, broker, nodes)
            if everywhere or _strikes(window.fault, effects, near, far):
                yield self._until_arrival(window, broker, nodes) if row.one_way else window

    def _ends(
        self, row: Excuse, fault: FaultFacts, broker: str | None, nodes: frozenset[str]
    ) -> tuple[frozenset[str], frozenset[str]]:
        """Return the nodes that the fault must affect, and the nodes at the other end of links that it must cut."""
        nodes_of = partial(self._nodes, broker=broker, nodes=nodes)
        near, far = (
            frozenset().union(
                *(
                    self._serving(role, row, fault, broker)
                    if role in (Role.SERVING_REPLICAS, Role.STARTING_REPLICAS)
                    else nodes_of(role)
                    for role in roles
                )
            )
            for roles in (row.on, row.across)
        )
        return near, far or near

    def _serving(
        self, role: Role, row: Excuse, fault: FaultFacts, broker: str | None
    ) -> frozenset[str]:
        """Return the leader, and its followers if a fault of one of them may hinder messages or members."""
        facts = self._facts
        replicas = facts.replica_sets.get(broker or "", ())
        waits = facts.replication == "sync" or facts.follower_reads
        if role is Role.SERVING_REPLICAS and waits:
            return frozenset(replicas)
        away = self._leader_away(row, fault, frozenset({*replicas[:1], *facts.coordinators}))
        return frozenset(replicas if away else replicas[:1])

    def _leader_away(self, row: Excuse, fault: FaultFacts, servers: frozenset[str]) -> bool:
        """Whether members may read from a follower, or the leader asks it for messages, because of another fault."""
        routes_ns = int(routes_known(self._facts.timings) * NS_PER_S)
        return any(
            other is not fault
            and other.bitten_ns is not None
            and began_ns(other) <= healed_ns(fault)
            and healed_ns(other) + routes_ns >= began_ns(fault)
            and bool(self._felt(row, other, effects) & _STANDS_IN)
            and not servers.isdisjoint(chain(other.targets, *other.links))
            for other, effects in zip(self._faults, self._effects, strict=True)
        )

    def _felt(self, row: Excuse, fault: FaultFacts, effects: frozenset[str]) -> frozenset[str]:
        """Return the effects of a fault, without NETWORK if it only delays packets and too little for the row."""
        in_time = 0 < DELAYS_MAX * fault.delay_s <= row.held_up(self._facts.timings)
        return effects - {NETWORK} if in_time else effects

    def _until_arrival(self, window: Window, broker: str | None, nodes: frozenset[str]) -> Window:
        """Lengthen a window until a message from a leader to one of the nodes, or to any consumer, has arrived.

        TCP doubles the time between two attempts. So after the end of the fault that delayed the message, it takes at
        most as long to arrive as it had been delayed before.
        """
        sent_ns, healed_at_ns = began_ns(window.fault), healed_ns(window.fault)
        leaders = self._nodes(Role.LEADER if broker else Role.LEADERS, broker, nodes)
        members = nodes or frozenset(self._facts.consumers)
        held_up = (
            healed_ns(fault)
            for fault, effects in zip(self._faults, self._effects, strict=True)
            if fault.bitten_ns is not None and began_ns(fault) <= healed_at_ns < healed_ns(fault)
            for ends in ((leaders, members), (members, leaders))
            if _strikes(fault, effects & _HOLDS_UP, *ends)
        )
        last_ns = max(held_up, default=None)
        if last_ns is None:
            return window
        return window._replace(end_ns=window.end_ns - healed_at_ns + 2 * last_ns - sent_ns)

    def _of_all(
        self, row: Excuse, possible: list[_Possible], replicas: tuple[str, ...]
    ) -> Iterator[Window]:
        """Yield the windows in which faults affected each of the replicas: one fault all of them, or one fault each.

        For a row with `across`, a fault must have cut the leader off from all nodes of those roles, and a follower must
        have ended.
        """
        far = frozenset().union(*(self._nodes(role, None, frozenset()) for role in row.across))
        of_each = [
            [
                window.fault
                for window, effects, everywhere in possible
                if everywhere or _strikes(window.fault, effects, frozenset({node}), far)
            ]
            for node in replicas
        ]
        if not replicas:
            return
        for faults in product(*of_each):
            has_ended = any(STOPS in fault.effects for fault in faults[1:])
            if far and not (has_ended and _cuts_off(faults[0], replicas[0], far)):
                continue
            in_turn = [fault.fault_id for fault in faults if fault.strikes_when == IN_TURN]
            if len(set(in_turn)) < len(in_turn):
                continue
            start_ns, end_ns = max(map(began_ns, faults)), min(map(healed_ns, faults))
            if end_ns - start_ns >= row.at_least(self._facts.timings) * NS_PER_S:
                yield self._window(row, max(faults, key=began_ns), start_ns, end_ns)

    def _strikes_all(self, row: Excuse, fault: FaultFacts) -> bool:
        """Whether the row is about all coordinators, and all of them are targets of the fault."""
        servers = set(self._facts.coordinators)
        about_them = Role.ALL_COORDINATORS in row.on and bool(servers)
        return about_them and servers <= set(fault.targets)

    def _nodes(self, role: Role, broker: str | None, nodes: frozenset[str]) -> frozenset[str]:
        facts = self._facts
        replicas = facts.replica_sets.get(broker, ()) if broker is not None else ()
        match role:
            case Role.LEADER:
                return frozenset(replicas[:1])
            case Role.LEADER_WITH_FOLLOWERS:
                shows_more = len(replicas) > 1 or facts.behaves(VISIBLE_END)
                return frozenset(replicas[:1] if shows_more else ())
            case Role.REPLICAS | Role.ALL_REPLICAS:
                return frozenset(replicas)
            case Role.BROKERS:
                return frozenset(
                    node for of_name in facts.replica_sets.values() for node in of_name
                )
            case Role.LEADERS:
                return frozenset(of_name[0] for of_name in facts.replica_sets.values() if of_name)
            case Role.COORDINATORS:
                return frozenset(facts.coordinators)
            case Role.ALL_COORDINATORS:
                return frozenset()
            case Role.INVOLVED:
                return nodes
            case Role.CLUSTER:
                return frozenset()
            case Role.SERVING_REPLICAS | Role.STARTING_REPLICAS:
                raise AssertionError(f"{role} depends on the fault")

    def _window(self, row: Excuse, fault: FaultFacts, start_ns: int, end_ns: int) -> Window:
        timings = self._facts.timings
        return Window(
            start_ns=start_ns - int(row.before(timings) * NS_PER_S),
            end_ns=end_ns + int(row.after(timings) * NS_PER_S),
            fault=fault,
            excuse=row,
        )


class _Possible(NamedTuple):
    """A fault with an effect of the row that lasts long enough for it."""

    window: Window
    effects: frozenset[str]  # those of the row that the fault has
    everywhere: bool  # it counts for witnesses on any nodes


_Asked = tuple[str, str | None, frozenset[str]]  # an anomaly, a replica set, nodes
_TIMES = itemgetter(0, 1)  # of a window


def _asked(anomaly: str, broker: str | None, nodes: Iterable[str | None]) -> _Asked:
    return anomaly, broker, frozenset(node for node in nodes if node is not None)


def _length_s(fault: FaultFacts) -> float:
    return (healed_ns(fault) - began_ns(fault)) / NS_PER_S


def _strikes(
    fault: FaultFacts, effects: frozenset[str], near: frozenset[str], far: frozenset[str]
) -> bool:
    """Whether the fault has at least one of these effects on a node in `near`, or on links between near and far.

    NETWORK also counts on a node in `far`.
    """
    if CUTS in effects:
        if cuts_between(fault, near, far):
            return True
        effects -= {CUTS}
    struck = near | far if NETWORK in effects else near
    return bool(effects) and not struck.isdisjoint(fault.targets)


def _cuts_off(fault: FaultFacts, node: str, far: frozenset[str]) -> bool:
    """Whether a partition cut the links between a node and all nodes in `far`."""
    links = [frozenset(link) for link in fault.links]
    # Without recorded links, any partition counts.
    return CUTS in fault.effects and (not links or all({node, one} in links for one in far))


def _exits(facts: RunFacts) -> Iterator[FaultFacts]:
    """Yield a fault for each node that ended by itself."""
    for ended in facts.exits:
        yield FaultFacts(
            fault_id=f"exit of {ended.node}",
            kind="node_exit",
            targets=(ended.node,),
            fired_ns=ended.time_ns,
            bitten_ns=ended.time_ns,
            healed_ns=ended.time_ns + RESTARTED_NS,
            affects=(STOPS, FORGETS),
        )
