"""Durations in seconds that several rows share."""

from __future__ import annotations

from staticfire.checkers.guarantees.facts import Timings


def one_request(timings: Timings) -> float:
    return timings.request_s


def half_a_second(_: Timings) -> float:
    return 0.5


def two_requests(timings: Timings) -> float:
    return 2 * timings.request_s


def one_look(timings: Timings) -> float:
    """Return the duration of a follower's check for changes if none of its four requests is answered."""
    return 4 * timings.request_s


def disk_checked(timings: Timings) -> float:
    return max(timings.clean_s, two_requests(timings))


def half_a_rebalance(timings: Timings) -> float:
    return timings.rebalance_s / 2


def routes_known(timings: Timings) -> float:
    return timings.register_s + timings.route_refresh_s


def producers_known(timings: Timings) -> float:
    return routes_known(timings) + timings.heartbeat_s


def forgets_after_a_pause(_: Timings) -> float:
    """Return how long a coordinator that was paused keeps servers in its routes.

    It keeps them for 40 s, regardless of how often they register. It drops silent ones at its next check, which comes
    every 10 s.
    """
    return 40.0 + 10.0


def replicates_again(timings: Timings) -> float:
    return timings.replication_silence_s + 2 * timings.request_s
