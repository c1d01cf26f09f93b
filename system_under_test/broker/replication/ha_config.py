"""Options of replication, and the events that it reports to the broker."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from staticfire.system_under_test.broker.config import BrokerConfig
from staticfire.system_under_test.store.replication.replication_policy import ReplicationPolicy


@dataclass(slots=True, kw_only=True)
class HaConfig:
    """Options of HaService. `peers` are the HA addresses of the other replicas, which may have what we lack.

    The fields in bytes and in seconds may change while it runs.
    """

    host: str
    port: int
    sync_flush: bool  # send and acknowledge only flushed bytes, unless the policy says otherwise
    log_file_size: int
    follows_master: bool  # this broker is a slave
    master_address: str | None
    peers: tuple[str, ...]
    hosts: tuple[str, ...]  # hosts that may read the log; (): every host
    fall_behind_max: int
    heartbeat_interval_s: float
    silence_max_s: float
    reconnect_delay_s: float
    policy: ReplicationPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class HaEvents:
    """Callbacks by which HaService reports to the broker. It calls them on the loop."""

    on_progress: Callable[[], None]  # a replica has acknowledged a higher offset
    on_slaves_lost: Callable[[], None]  # a replica is gone
    on_received: Callable[[], None]  # bytes were appended to our log, or could not be
    on_peer_heard: Callable[[str], Awaitable[bool]]  # in a catch-up; False: ask this peer again
    # makes the log durable and visible before `ready` is True
    on_caught_up: Callable[[], Awaitable[None]]


def make_ha_config(config: BrokerConfig, policy: ReplicationPolicy) -> HaConfig:
    return HaConfig(
        host=config.listen_host,
        port=config.ha_port,
        sync_flush=config.sync_flush,
        log_file_size=config.commit_log_file_size,
        follows_master=config.is_slave,
        master_address=config.ha_master_address,
        peers=config.ha_peers,
        hosts=config.ha_hosts,
        fall_behind_max=config.ha_fall_behind_max,
        heartbeat_interval_s=config.ha_heartbeat_interval_s,
        silence_max_s=config.ha_silence_max_s,
        reconnect_delay_s=config.ha_reconnect_delay_s,
        policy=policy,
    )
