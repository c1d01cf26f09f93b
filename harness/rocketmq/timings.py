"""Timings of RocketMQ: its defaults, and their changes by the options of a campaign."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from functools import reduce

from staticfire.checkers.guarantees.facts import Timings
from staticfire.faults.kinds.options_change import changed_options
from staticfire.faults.kinds.topic_change import TopicChange
from staticfire.harness.campaign.campaign import Campaign
from staticfire.harness.workloads.delay_levels import delay_levels_ms
from staticfire.harness.workloads.groups import groups_of
from staticfire.harness.workloads.request_reply import REQUEST_REPLY, TIMEOUT_S

FSYNC_S = 3.0
SEND_S = 3.0  # sendMsgTimeout
OWN_RESET_S = 1.0  # on real machines, for our members, which use the new offsets at once
OWN_LOCK_END_S = 2.0  # our members check for ended connections every 0.75 s
# Of version 4.9, in seconds.
DEFAULTS = Timings(
    rebalance_s=20.0,  # rocketmq.client.rebalance.waitInterval
    members_notified=True,  # notifyConsumerIdsChangedEnable
    heartbeat_s=30.0,  # heartbeatBrokerInterval of clients
    channel_expiry_s=120.0,
    lock_life_s=60.0,  # rocketmq.broker.rebalance.lockMaxLiveTime
    lock_renewal_s=20.0,  # rocketmq.client.rebalance.lockInterval
    lock_belief_s=30.0,
    lock_end_s=30.0,  # RocketMQ's members do not give locks up
    commit_s=5.0,  # persistConsumerOffsetInterval of clients
    offset_persist_s=5.0,  # flushConsumerOffsetInterval
    progress_s=10.0,  # flushDelayOffsetInterval
    follower_sync_s=10.0,  # slaves copy offsets, topics and groups
    replication_silence_s=20.0,  # haHousekeepingInterval
    route_refresh_s=30.0,  # pollNameServerInterval
    route_keep_s=60.0,
    register_s=30.0,  # registerNameServerPeriod
    clean_s=10.0,  # cleanResourceInterval
    request_s=3.0,  # mqClientApiTimeout
    consume_timeout_s=900.0,  # consumeTimeout
    reset_s=10.0 + 1.0,  # MQClientInstance.resetOffset sleeps for 10 s
    flush_timeout_s=5.0,  # syncFlushTimeout: then FLUSH_DISK_TIMEOUT
    follower_timeout_s=3.0,  # slaveTimeout: then FLUSH_SLAVE_TIMEOUT
    flush_s=0.5 + 10.0 + FSYNC_S,  # flushIntervalCommitLog, flushCommitLogThoroughInterval
)
# Options of brokers, in milliseconds, each of which alone decides a timing.
OPTIONS: Mapping[str, str] = {
    "offset_persist_s": "flushConsumerOffsetInterval",
    "progress_s": "flushDelayOffsetInterval",
    "flush_timeout_s": "syncFlushTimeout",
    "follower_timeout_s": "slaveTimeout",
    "replication_silence_s": "haHousekeepingInterval",
    "clean_s": "cleanResourceInterval",
    "register_s": "registerNameServerPeriod",
}
SHORT_POLLING_S = 1.0  # shortPollingTimeMills
METADATA_POLICY = "metadata_file"  # policies.py: offsets are written without fsync
WRITE_BACK_S = 35.0  # Linux: dirty_expire_centisecs, and the next turn of its flusher
# greatest ratio of a packet's latency to the base latency of its link (`Link`)
PACKET_LATENCIES = 9
SIMULATED_FLUSH_S = (
    1.0  # our broker begins a flush when the previous one ends, but at the latest after this time
)
# Fsyncs of files besides the log and its queues: the index once, and twice each the checkpoint, the offsets, the
# progress of delays, the topics and the groups.
OTHER_FSYNCS = 11
LOG_FSYNCS = 2  # of a flush that is under way, and of the message's own flush
KEPT_BACK_QUEUES = 2  # the queues of half messages and of op messages


def timings_of(campaign: Campaign) -> Timings:
    """Return the timings of the run: RocketMQ's defaults with the changes by broker properties.

    If an option changes under load, the wider timing counts for the whole run.
    """
    properties = dict(campaign.broker_properties)
    later = ({**properties, name: value} for name, value in changed_options(campaign.plan))
    found = reduce(_wider, map(_timings_under, later), _timings_under(properties))
    if campaign.client == "own":  # other clients have a time-out for each attempt
        is_request = campaign.workload == REQUEST_REPLY.name
        found = replace(
            found,
            send_s=TIMEOUT_S if is_request else SEND_S,
            reset_s=OWN_RESET_S,
            lock_end_s=OWN_LOCK_END_S,
        )
    if campaign.environment == "simulation":
        wait_s = _fsyncs_of_a_flush(campaign) * campaign.fsync_us / 1e6
        packet_s = PACKET_LATENCIES * campaign.latency_ms[1] / 1000
        found = replace(
            found,
            flush_wait_s=wait_s,
            flush_s=SIMULATED_FLUSH_S + wait_s,
            packet_s=packet_s,
            reset_s=2 * packet_s if campaign.client == "own" else found.reset_s,
        )
    faithful = campaign.mode == "faithful"
    if faithful and (not campaign.policies or METADATA_POLICY in campaign.policies):
        return replace(found, write_back_s=WRITE_BACK_S)
    return found


def _fsyncs_of_a_flush(campaign: Campaign) -> int:
    """Return the greatest number of successive fsyncs of a broker until a message is flushed.

    One worker flushes the log and the queues in turn, with an fsync for every file: queues of the topic, of delay
    levels, of groups' retries, of half messages. Measured on disks of 40-400 ms an fsync: 13 to 26 fsyncs between two
    of the log.
    """
    queues = (queues_max(campaign) or campaign.queues) + len(delay_levels_ms(campaign))
    queues += len(groups_of(campaign)) + KEPT_BACK_QUEUES
    return queues + OTHER_FSYNCS + LOG_FSYNCS


def _wider(one: Timings, other: Timings) -> Timings:
    longest = {
        field.name: max(getattr(one, field.name), getattr(other, field.name))
        for field in fields(Timings)
    }
    return Timings(
        **{**longest, "members_notified": one.members_notified and other.members_notified}
    )


def _timings_under(properties: Mapping[str, str]) -> Timings:
    given = {
        timing: _seconds(properties, option, 0.0)
        for timing, option in OPTIONS.items()
        if option in properties
    }
    waits = properties.get("longPollingEnable", "true") == "true"
    return replace(
        DEFAULTS,
        **given,
        members_notified=properties.get("notifyConsumerIdsChangedEnable", "true") == "true",
        flush_s=_seconds(properties, "flushIntervalCommitLog", 0.5)
        + _seconds(properties, "flushCommitLogThoroughInterval", 10.0)
        + FSYNC_S,
        poll_s=0.0 if waits else _seconds(properties, "shortPollingTimeMills", SHORT_POLLING_S),
    )


def _seconds(properties: Mapping[str, str], name: str, usual_s: float) -> float:
    return int(properties[name]) / 1000 if name in properties else usual_s


def queues_max(campaign: Campaign) -> int:
    """Return the most queues that the topic can have on a broker; 0 if the campaign does not decide it."""
    if campaign.auto_topic or campaign.is_external:
        return 0
    later = (one.params["queues"] for one in campaign.plan if one.kind == TopicChange.name)
    most: int = max((campaign.queues, *later))
    return most
