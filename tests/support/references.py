"""Maps each anomaly to its plain reference, a row each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tests.support import (
    reference_checkers,
    reference_commit_times,
    reference_contents,
    reference_copies,
    reference_cycles,
    reference_endings,
    reference_forwarding,
    reference_groups,
    reference_log,
    reference_loss,
    reference_ownership,
    reference_recovery,
    reference_resets,
    reference_route_changes,
    reference_routes,
    reference_semantics,
    reference_server_tables,
    reference_shares,
    reference_storage,
    reference_waits,
    reference_waits_of_messages,
)

OF_FUNCTION: Mapping[Callable[..., Any], str] = {
    reference_loss.loss: "lost unseen",
    reference_checkers.provenance: "phantom aborted_read misrouted",
    reference_checkers.delivered_before_send: "delivered_before_send",
    reference_checkers.corrupt: "corrupt",
    reference_checkers.duplicates: "duplicate duplicate_unexplained",
    reference_checkers.inconsistent_offsets: "inconsistent_offsets",
    reference_checkers.misordered_sends: "nonmonotonic_send realtime_order",
    reference_checkers.out_of_order: "out_of_order",
    reference_checkers.commits_ahead: "commit_ahead",
    reference_commit_times.late: "commit_late",
    reference_checkers.poll_anomalies: "poll_skip int_poll_skip nonmonotonic_poll int_nonmonotonic_poll",
    reference_contents.contents: "tag_changed properties_changed size_changed id_changed born_time_changed "
    "store_time_changed origin_changed",
    reference_contents.times: "wrong_born_time wrong_store_time",
    reference_copies.acknowledged: "acked_not_durable",
    reference_copies.weak: "spurious_weak_status",
    reference_cycles.phenomena: " ".join(
        phenomenon + level
        for phenomenon in reference_cycles.PATHS
        for level in reference_cycles.LEVELS
    ),
    reference_cycles.reads: "G1a G1b precommitted_read txn_phantom txn_nonmonotonic_poll",
    reference_cycles.writes: "lost_write txn_duplicate txn_inconsistent_offsets txn_nonmonotonic_send",
    reference_endings.replicas: "replica_diverged replica_ahead",
    reference_endings.routes: "route_mismatch",
    reference_endings.resources: "task_leak thread_leak socket_leak file_leak table_leak "
    "memory_leak",
    reference_endings.internal_errors: "internal_error",
    reference_endings.queue_entries: "queue_hole queue_entry_wrong queue_entry_missing",
    reference_endings.look_ups: "not_found_by_id not_found_by_key torn_answer refused_read wrong_time_search",
    reference_endings.died: "node_died",
    reference_endings.unreadable: "unreadable_topic",
    reference_endings.wrongly_refused: "wrong_refusal",
    reference_endings.needlessly_refused: "needless_refusal",
    reference_endings.liveness: "not_serving not_drained",
    reference_endings.drained_offsets: "commit_beyond_end commit_behind",
    reference_forwarding.forwarded: "not_forwarded phantom_copy",
    reference_groups.ownership: "queue_unowned double_ownership",
    reference_shares.uneven_shares: "uneven_shares",
    reference_groups.differing_groups: "subscriptions_differ",
    reference_groups.answers: "wrong_answer duplicate_reply phantom_reply lost_reply",
    reference_log.log_holes: "log_hole",
    reference_ownership.wrong_readers: "unowned_delivery unknown_consumer delivery_after_exit "
    "unowned_commit",
    reference_resets.ignored: "reset_ignored",
    reference_recovery.read_beyond_recovery: "read_beyond_recovery",
    reference_recovery.hot_key: "hot_key",
    reference_routes.wrong_answers: "wrong_route stale_route missing_route",
    reference_routes.switches: "slow_failover",
    reference_route_changes.wrong_routes: "route_drift departed_route",
    reference_server_tables.wrong_tables: "table_lost table_uncopied",
    reference_semantics.unwanted: "unwanted_delivery",
    reference_semantics.early: "early_delivery",
    reference_semantics.delayed_out_of_order: "delayed_out_of_order",
    reference_semantics.late: "late_delivery",
    reference_semantics.two_listeners: "two_listeners",
    reference_semantics.overlapping_owners: "overlapping_owners",
    reference_semantics.order_violated: "order_violated",
    reference_semantics.retry_uncounted: "retry_uncounted",
    reference_semantics.moved_keys: "key_moved",
    reference_semantics.retries: "retry_unprovoked retry_early retried_too_often premature_dead_letter "
    "duplicate_dead_letter "
    "consumed_too_long",
    reference_semantics.transactions: "rolled_back_visible unresolved_transaction check_too_early "
    "checked_too_often",
    reference_semantics.missed_by_members: "member_missed",
    reference_semantics.lost_from_log: "lost_from_log",
    reference_semantics.rewound: "commit_rewound",
    reference_storage.storage: "inconsistent_physical_offset nonmonotonic_physical_offset "
    "int_nonmonotonic_send",
    reference_storage.store_times: "nonmonotonic_store_time",
    reference_storage.torn_batches: "torn_batch",
    reference_contents.shared_ids: "shared_id",
    reference_waits.waits: "send_gap start_gap delivery_gap",
    reference_waits.stuck: "producer_stuck",
    reference_waits.refused: "refused_at_rest",
    reference_waits.weak: "weak_at_rest",
    reference_waits.overdue: "overdue_send",
    reference_waits_of_messages.slow_deliveries: "slow_delivery",
}
REFERENCES: Mapping[str, Callable[..., Any]] = {
    anomaly: function
    for function, anomalies in OF_FUNCTION.items()
    for anomaly in anomalies.split()
}
