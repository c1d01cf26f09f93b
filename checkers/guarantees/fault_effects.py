"""Default effects, damage and timing of each kind of fault, for facts that do not record them.

A fault declares all three (`affects`, `destroys`, `strikes` of its class in `faults/`), and the harness writes them
into the facts of a run. The tables here are for facts that lack them: those of older runs, and of histories that
another program wrote. A test compares them with the declarations.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal

STOPS = "stops"  # the process ends, cleanly or not, and starts again later
FORGETS = "forgets"  # the process loses the state that only its memory held: locks, members, offsets not yet written
ROLLS_BACK = "rolls_back"  # data that was written and not yet fsynced may be lost
EMPTIES = "empties"  # the disk is empty afterwards
STALLS = "stalls"  # the host or process answers no request for a while, then continues
DISK = "disk"  # writes are slow or fail
WRITES_FAIL = "writes_fail"  # writes or fsyncs fail, and a server may end itself
ROTS = "rots"  # a stored record differs from what was written; it excuses nothing
SWALLOWS = "swallows"  # packets to and from the target are dropped; with STALLS, the host is away, not the process
NETWORK = "network"  # packets from the target are late, lost or held back
CUTS = "cuts"  # packets between certain pairs of nodes are dropped: the links of the fault
CLOCK = "clock"  # the wall clock is wrong
LISTENER = "listener"  # the listener of a consumer is slow or fails
ROUTES = "routes"  # nodes query other coordinators than before
QUEUES = "queues"  # an operator changes the number of queues of the topic
OFFSETS = "offsets"  # an operator moves the offsets of groups
RIGHTS = "rights"  # an administrator changes which accounts may send
ADMIN = "admin"  # administrators work beside the load; it excuses nothing

ALL_EFFECTS = frozenset(
    {
        STOPS,
        FORGETS,
        ROLLS_BACK,
        EMPTIES,
        STALLS,
        SWALLOWS,
        DISK,
        WRITES_FAIL,
        ROTS,
        NETWORK,
        CUTS,
        CLOCK,
        LISTENER,
        ROUTES,
        QUEUES,
        OFFSETS,
        RIGHTS,
        ADMIN,
    }
)

# Effects during which a broker cannot serve, or replicas cannot copy its messages.
UNABLE = (STOPS, STALLS, DISK, NETWORK, CUTS)

Destroys = Literal["none", "process", "write_error", "power", "disk", "record"]  # promises.Damage
Strikes = Literal["at_once", "later", "in_turn", "again", "unclear"]
# When a fault affects its targets.
AT_ONCE: Final = "at_once"  # all of them when it is fired
LATER: Final = "later"  # some time between its firing and its heal
IN_TURN: Final = "in_turn"  # one after the other, each when the previous one answers again
AGAIN: Final = "again"  # all of them when it is fired, and again when it is healed
UNCLEAR: Final = "unclear"  # not known, because the kind is not known

_NETWORK = (NETWORK,)
_CUTS = (CUTS,)
_AWAY = (STALLS, SWALLOWS)
_CRASH = (STOPS, FORGETS)
_POWER = (STOPS, FORGETS, ROLLS_BACK)

AFFECTED_BY_KIND: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "kill": _CRASH,
        "graceful_stop": (STOPS,),
        "pause": (STALLS,),
        "rolling_restart": (STOPS,),
        "power_cut": _POWER,
        "power_cut_in_operation": _POWER,
        "cluster_power_cut": _POWER,
        "partition": _CUTS,
        "partition_halves": _CUTS,
        "partition_one": _CUTS,
        "partition_one_way": _CUTS,
        "partition_bridge": _CUTS,
        "partition_ring": _CUTS,
        "broker_black_hole": _AWAY,
        "network_latency": _NETWORK,
        "packet_loss": _NETWORK,
        "bandwidth": _NETWORK,
        "disk_full": (DISK, WRITES_FAIL),
        "failing_disk": (DISK, WRITES_FAIL, ROLLS_BACK),
        "slow_disk": (DISK,),
        "wiped_slave": (STOPS, FORGETS, EMPTIES),
        "disk_lost": (STOPS, FORGETS, EMPTIES, WRITES_FAIL),
        "bit_rot": (ROTS,),
        "clock_skew": (CLOCK,),
        "name_server_freeze": (STALLS,),
        "name_server_black_hole": _AWAY,
        "name_server_freeze_in_rolling_restart": (STALLS, STOPS),
        "name_server_amnesia": _CRASH,
        "split_name_servers": (ROUTES, STOPS),
        "topic_change": (QUEUES,),
        "offsets_reset": (OFFSETS,),
        "topic_anew": (ADMIN,),
        "options_change": (ADMIN,),
        "offsets_cloned": (ADMIN,),
        "rights_change": (RIGHTS,),
        "cleaning": (ADMIN,),
        "group_change": (ADMIN,),
        "client_crash": _CRASH,
        "group_and_broker_crash": _CRASH,
        "filter_change": (STOPS,),
        "member_leaves": (STOPS,),
        "slow_consumer": (LISTENER,),
        "failing_listener": (LISTENER,),
    }
)


_ANY = tuple(sorted(ALL_EFFECTS))


# The damage of each kind, as the name of a `promises.Damage`; other kinds destroy nothing.
DESTROYED_BY_KIND: Mapping[str, Destroys] = MappingProxyType(
    {
        "kill": "process",
        "name_server_amnesia": "process",
        "client_crash": "process",
        "group_and_broker_crash": "process",
        "failing_disk": "write_error",
        "power_cut": "power",
        "power_cut_in_operation": "power",
        "cluster_power_cut": "power",
        "wiped_slave": "disk",
        "disk_lost": "disk",
        "bit_rot": "record",
    }
)

# When each kind affects its targets; other kinds affect all of them at once.
STRIKES_BY_KIND: Mapping[str, Strikes] = MappingProxyType(
    {
        "failing_disk": LATER,
        "power_cut_in_operation": LATER,
        "rolling_restart": IN_TURN,
        "name_server_freeze_in_rolling_restart": IN_TURN,
        "filter_change": IN_TURN,
        "split_name_servers": AGAIN,
    }
)


def default_effects(kind: str) -> tuple[str, ...]:
    """Return the effects of a kind of fault, for facts that do not record them; all effects for an unknown kind."""
    return AFFECTED_BY_KIND.get(kind, _ANY)


def default_damage(kind: str) -> Destroys:
    """Return the damage of a kind of fault, for facts that do not record it; "none" for an unknown kind."""
    return DESTROYED_BY_KIND.get(kind, "none")


def default_strikes(kind: str) -> Strikes:
    """Return when a kind of fault affects its targets, for facts that do not record it."""
    return STRIKES_BY_KIND.get(kind, AT_ONCE if kind in AFFECTED_BY_KIND else UNCLEAR)
