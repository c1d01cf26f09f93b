"""Every anomaly of the project and what it means: one line each, data only.

A line says what the anomaly is when nothing excuses it, in hardened and in faithful mode; and what excuses it, with the
judgement that it has then. `BY_DAMAGE` are the anomalies that need more: what they mean depends on the profile and on
what was done to the nodes that held the message (`checkers/guarantees/promises.py`). `staticfire promises` shows all
of it; `docs/anomalies.md` defines each.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from staticfire.checkers.guarantees.judgement import Judgement

VIOLATION, ALLOWED, INFORMATIONAL = (
    Judgement.VIOLATION,
    Judgement.ALLOWED,
    Judgement.INFORMATIONAL,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What one anomaly means. `excuse` says when it is `excused` instead."""

    hardened: Judgement = VIOLATION
    faithful: Judgement = VIOLATION
    by_damage: bool = False
    excuse: str | None = None
    excused: Judgement = ALLOWED


PLAIN = Rule()
BY_DAMAGE = Rule(by_damage=True)
NEVER_WRONG = Rule(hardened=ALLOWED, faithful=ALLOWED)
SHOWN = Rule(hardened=INFORMATIONAL, faithful=INFORMATIONAL)
HAZARD = Rule(faithful=INFORMATIONAL)  # a known weakness of Apache RocketMQ 4.9


LOCK_TAKEN = "a fault may have taken the lock from one of the two members (excuse_table.py)"


def _excused(excuse: str, excused: Judgement = ALLOWED) -> Rule:
    return Rule(excuse=excuse, excused=excused)


def _with_orders(phenomenon: str, rule: Rule) -> dict[str, Rule]:
    """A phenomenon by itself, with the order within processes, and with real time."""
    return {f"{phenomenon}{order}": rule for order in ("", "-process", "-realtime")}


RULES: Mapping[str, Rule] = MappingProxyType(
    {
        # loss.py, commit_log.py
        "lost": BY_DAMAGE,
        "unseen": BY_DAMAGE,
        "log_hole": PLAIN,
        # provenance.py
        "phantom": PLAIN,
        "aborted_read": PLAIN,
        "misrouted": PLAIN,
        "corrupt": PLAIN,
        # causality.py
        "delivered_before_send": PLAIN,
        # duplication.py
        "duplicate": NEVER_WRONG,
        "duplicate_unexplained": PLAIN,
        # order.py
        "inconsistent_offsets": BY_DAMAGE,
        "nonmonotonic_send": BY_DAMAGE,
        "realtime_order": BY_DAMAGE,
        "out_of_order": PLAIN,
        # storage_order.py
        "inconsistent_physical_offset": BY_DAMAGE,
        "nonmonotonic_physical_offset": BY_DAMAGE,
        "int_nonmonotonic_send": PLAIN,
        # offsets.py
        "commit_ahead": PLAIN,
        "commit_rewound": _excused(
            "a member took the queue over, and nothing higher was surely committed by then",
            INFORMATIONAL,
        ),
        "commit_beyond_end": _excused("the disk that held the rest is lost for good"),
        "commit_behind": PLAIN,
        # polls.py
        "poll_skip": BY_DAMAGE,
        "int_poll_skip": BY_DAMAGE,
        "nonmonotonic_poll": _excused("the group had not committed it; informational near a fault"),
        "int_nonmonotonic_poll": PLAIN,
        # availability.py, availability_gaps.py, node_exits.py
        "not_serving": PLAIN,
        "not_drained": PLAIN,
        "send_gap": PLAIN,
        "start_gap": PLAIN,
        "delivery_gap": PLAIN,
        "node_died": PLAIN,
        # groups.py
        "queue_unowned": PLAIN,
        "double_ownership": PLAIN,
        # shares.py
        "uneven_shares": PLAIN,
        # ownership.py
        "unowned_delivery": PLAIN,
        "unowned_commit": PLAIN,
        "unknown_consumer": PLAIN,
        "delivery_after_exit": PLAIN,
        # delivery_waits.py
        "slow_delivery": PLAIN,
        # listeners.py
        "two_listeners": _excused(LOCK_TAKEN, INFORMATIONAL),
        "overlapping_owners": _excused(LOCK_TAKEN, INFORMATIONAL),
        # filters.py, delays.py, retries.py, transactions.py
        "unwanted_delivery": PLAIN,
        "early_delivery": _excused("the clock of a broker was stepped"),
        "late_delivery": _excused("the clock of a broker was stepped"),
        "retry_unprovoked": _excused("a send-back had no clear answer"),
        "retry_early": _excused("the clock of a broker was stepped"),
        "retried_too_often": PLAIN,
        "premature_dead_letter": PLAIN,
        "duplicate_dead_letter": _excused("a send-back had no clear answer"),
        "consumed_too_long": SHOWN,
        "rolled_back_visible": PLAIN,
        "unresolved_transaction": BY_DAMAGE,
        "check_too_early": _excused("the clock of a broker was stepped"),
        "checked_too_often": PLAIN,
        # contents.py
        "tag_changed": PLAIN,
        "properties_changed": PLAIN,
        "size_changed": PLAIN,
        "id_changed": PLAIN,
        "born_time_changed": PLAIN,
        "store_time_changed": PLAIN,
        "origin_changed": PLAIN,
        # ordered_keys.py, broadcasting.py, request_reply.py, subscriptions.py
        "order_violated": BY_DAMAGE,
        "hot_key": SHOWN,
        "key_moved": _excused("a fault may have changed the routes that producers saw"),
        "member_missed": BY_DAMAGE,
        "wrong_answer": PLAIN,
        "duplicate_reply": PLAIN,
        "phantom_reply": PLAIN,
        "subscriptions_differ": PLAIN,
        # forwarding.py
        "not_forwarded": PLAIN,
        "phantom_copy": PLAIN,
        # message_queries.py
        "not_found_by_id": PLAIN,
        "not_found_by_key": PLAIN,
        "torn_answer": PLAIN,
        "refused_read": PLAIN,
        "wrong_time_search": Rule(
            faithful=INFORMATIONAL, excuse="the clock of a broker was stepped", excused=ALLOWED
        ),
        # readability.py
        "unreadable_topic": PLAIN,
        # stuck_producers.py
        "producer_stuck": PLAIN,
        "refused_at_rest": PLAIN,
        # refusals.py
        "wrong_refusal": _excused("a fault of its broker was near", ALLOWED),
        # send_status.py
        "acked_not_durable": PLAIN,
        "spurious_weak_status": _excused(
            "a fault of its broker was near, or the broker was coming up", INFORMATIONAL
        ),
        # replicas.py
        "replica_diverged": HAZARD,
        "replica_ahead": HAZARD,
        # queue_entries.py, recovery.py
        "queue_hole": HAZARD,
        "queue_entry_wrong": HAZARD,
        "queue_entry_missing": HAZARD,
        "lost_from_log": BY_DAMAGE,
        "read_beyond_recovery": PLAIN,
        # routes.py
        "wrong_route": PLAIN,
        "stale_route": HAZARD,
        "missing_route": HAZARD,
        "slow_failover": HAZARD,
        # message_times.py
        "wrong_born_time": PLAIN,
        "wrong_store_time": PLAIN,
        # route_contents.py
        "route_mismatch": PLAIN,
        # resources.py
        "task_leak": PLAIN,
        "thread_leak": PLAIN,
        "socket_leak": PLAIN,
        "file_leak": PLAIN,
        "table_leak": PLAIN,
        "memory_leak": PLAIN,
        # txn_reads.py
        "G1a": PLAIN,
        "G1b": PLAIN,
        "precommitted_read": PLAIN,
        "txn_phantom": PLAIN,
        "txn_nonmonotonic_poll": PLAIN,
        # txn_writes.py
        "lost_write": PLAIN,
        "txn_duplicate": PLAIN,
        "txn_inconsistent_offsets": PLAIN,
        "txn_nonmonotonic_send": PLAIN,
        # cycles.py
        **_with_orders("G0", NEVER_WRONG),
        **_with_orders(
            "G1c",
            _excused("the cycle needs a ww edge: logs do not isolate writers from each other"),
        ),
        **_with_orders("G-single", SHOWN),
        **_with_orders("G2", SHOWN),
    }
)
