"""Marks of coverage: interesting mechanisms that a run may have reached. Data only; `coverage.py` counts them.

A mark names its source: the *log* of a node (an event), the *history* (counted by the harness from ops), the *verdict*
(`checker.count`), an *observation* (`kind.field`: the number of records whose field is at least `at_least`), or a
*fault* that bit. It also names the campaigns and workloads that should reach it. If none of many seeds reaches it, the
campaign or the system no longer exercises the mechanism, and a hunt warns. `share` determines how many seeds are
enough. `default` is the workload `queue` of the default campaign.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

Source = Literal["log", "history", "verdict", "observation", "fault"]


class Mark(NamedTuple):
    """One mechanism, its source, and the campaigns that should reach it."""

    name: str
    source: Source
    seen: str
    campaigns: tuple[str, ...] = ()
    at_least: int = 1
    # minimum share of the campaign's seeds that reach it; rare marks have a lower one
    share: float = 0.3


_DEFAULT = ("default",)
MARKS: tuple[Mark, ...] = (
    # sends
    Mark("batched", "history", "batched", ("batch", "default")),
    Mark("sent on by a forwarder", "history", "forwarded", ("forwarded",)),
    Mark("compressed", "history", "compressed", _DEFAULT),
    Mark("illegal message refused", "history", "illegal refused", _DEFAULT),
    Mark("signed send accepted", "history", "signed accepted", _DEFAULT, share=0.05),
    Mark("refused without a right", "history", "refused without a right", _DEFAULT, share=0.05),
    Mark("refused with a right withdrawn", "history", "refused as withdrawn", _DEFAULT, share=0.05),
    Mark("TLS session", "log", "TLS session", _DEFAULT, share=0.05),
    Mark("refused without TLS", "log", "peer does not speak TLS", _DEFAULT, share=0.05),
    Mark("sent asynchronously", "history", "async", _DEFAULT),
    Mark("one way", "history", "one way", _DEFAULT),
    Mark(
        "acknowledged long after the last fault",
        "history",
        "long after faults",
        _DEFAULT,
        share=0.05,
    ),
    Mark("sent again after idle minutes", "history", "idle phase", _DEFAULT, share=0.05),
    Mark("retried a send", "verdict", "coverage.retried_sends", _DEFAULT),
    Mark("weak status", "verdict", "loss.weak", _DEFAULT),
    Mark("unclear send came out", "verdict", "loss.recovered", _DEFAULT),
    Mark("refused with 14 (not available)", "history", "refused 14", _DEFAULT, share=0.1),
    Mark("refused with 2 (busy)", "history", "refused 2", ("flow-control",)),
    # the log and its recovery
    Mark("rolled a log file", "observation", "queue_entries.log_files", _DEFAULT, 2),
    Mark("rolled a queue file", "observation", "queue_entries.rolled_queues", _DEFAULT),
    Mark("recovered after an unclean end", "log", "store opened: unclean", _DEFAULT),
    Mark("cut a tail", "log", "store opened: cut", _DEFAULT, share=0.15),
    Mark(
        "refused a checksum at recovery", "log", "store opened: bad checksum", _DEFAULT, share=0.1
    ),
    Mark("rebuilt queue entries", "log", "store opened: redispatched", _DEFAULT),
    Mark("rebuilt all queues", "log", "consume queues are incomplete, rebuilding all"),
    Mark("rebuilt the index", "log", "the index does not fit the log, rebuilding it"),
    Mark("log files deleted", "log", "store file deleted: log", ("retention",)),
    Mark("queue files deleted", "log", "store file deleted: queue"),
    Mark("stopped at a failed write", "log", "store stopped", _DEFAULT),
    Mark("disk full", "log", "disk full", _DEFAULT),
    # replicas
    Mark(
        "caught up from a slave", "log", "peer was heard in catch-up: fetched", _DEFAULT, share=0.1
    ),
    Mark("asked a slave before serving", "log", "peer was heard in catch-up", _DEFAULT),
    Mark("metadata fetched from a slave", "log", "metadata were restored", _DEFAULT),
    Mark("slave began elsewhere in the log", "log", "replication starts from another position"),
    Mark("diverged slave cut its tail", "log", "replication starts from another position: cut"),
    Mark("damaged record kept at recovery", "log", "store opened: damaged", _DEFAULT, share=0.1),
    Mark(
        "damaged record mended",
        "log",
        "damaged record was mended",
        ("bit-rot", "default"),
        share=0.15,
    ),
    Mark("replication interrupted", "log", "replication was interrupted"),
    Mark("read from slaves", "observation", "slave_reads.messages", ("default", "slave-reads")),
    Mark("offset beyond its queue was corrected", "log", "consumer offset was beyond its queue"),
    # consumers
    Mark("redelivered", "verdict", "duplication.duplicate_allowed", _DEFAULT),
    Mark("retried by a listener", "verdict", "coverage.retried_deliveries", _DEFAULT, share=0.2),
    Mark(
        "owner changed while it worked",
        "verdict",
        "coverage.rebalanced_at_work",
        ("default", "rebalance"),
        share=0.05,
    ),
    Mark("shared out in a circle", "history", "shared out by AVG_BY_CIRCLE", _DEFAULT, share=0.1),
    Mark(
        "shared out by consistent hash",
        "history",
        "shared out by CONSISTENT_HASH",
        _DEFAULT,
        share=0.1,
    ),
    Mark("pulled by a lite pull consumer", "history", "polled", _DEFAULT, share=0.05),
    Mark("committed by the caller of lite pull", "history", "consumed by lite-pull-commit"),
    Mark("pulled with queues assigned by hand", "history", "consumed by lite-pull-assign"),
    Mark("pulled by a pull consumer", "history", "consumed by pull"),
    Mark("sought to an offset", "log", "position sought"),
    Mark("member left", "fault", "member_leaves", ("rebalance",)),
    Mark(
        "whole group crashed with a broker", "fault", "group_and_broker_crash", _DEFAULT, share=0.05
    ),
    Mark("pull failed", "log", "pull failed", _DEFAULT),
    Mark("offsets reset", "log", "offsets are reset", ("rebalance",)),
    Mark("topic made anew", "fault", "topic_anew", _DEFAULT, share=0.1),
    Mark("cleaned up under load", "fault", "cleaning", _DEFAULT, share=0.1),
    Mark("offsets cloned", "fault", "offsets_cloned", _DEFAULT, share=0.1),
    Mark("rights changed under load", "fault", "rights_change", _DEFAULT, share=0.05),
    Mark("options changed under load", "fault", "options_change", _DEFAULT, share=0.1),
    # the semantics of messages
    Mark("delayed message delivered", "verdict", "delays.delayed_delivered", ("delayed",)),
    Mark("consumed after a retry", "verdict", "retries.retried", ("retry",)),
    Mark("dead letter", "verdict", "retries.dead_letters", ("retry",)),
    Mark("send-back failed", "log", "message was not sent back", ("retry",)),
    Mark("transaction rolled back", "verdict", "transactions.rolled_back", ("transactional",)),
    Mark(
        "committed with a delay level",
        "history",
        "delayed transaction",
        ("transactional",),
    ),
    Mark("check-back", "verdict", "transactions.checked_back", ("transactional",)),
    Mark(
        "checked back more than once", "verdict", "transactions.checked_again", ("transactional",)
    ),
    Mark("transaction given up", "log", "transaction was given up", ("transactional",)),
    Mark("consumed in order", "verdict", "orderly.consumed_in_order", ("ordered",)),
    Mark("lock handed over", "verdict", "coverage.handed_over", ("ordered",)),
    Mark("lock expired at its broker", "log", "queue lock had expired", ("ordered",)),
    Mark("lock lost", "log", "queues are not ours any more", ("ordered",)),
    Mark("filtered out", "verdict", "coverage.filtered_out", ("filtered",)),
    Mark("filter changed", "fault", "filter_change", ("filtered",)),
    Mark("filter collision", "verdict", "coverage.colliding_tags", ("filtered",)),
    Mark("given to every member", "verdict", "broadcasting.given", ("broadcast",)),
    Mark("answered a request", "verdict", "requests.answered", ("request-reply",)),
    # routes
    Mark("broker dropped from the route", "log", "brokers gone: connection closed", _DEFAULT),
    Mark(
        "silent broker dropped from the route",
        "log",
        "broker gone: silent too long",
        ("broker-silent",),
    ),
    Mark("client gave a broker up", "log", "broker is silent", _DEFAULT),
    Mark("client missed a name server", "log", "name server is silent", _DEFAULT),
    Mark("no name server answered", "log", "no name server", _DEFAULT),
    # after the run
    Mark("found by key", "verdict", "look_ups.by_key", _DEFAULT),
    Mark("found by id", "verdict", "look_ups.by_id", _DEFAULT),
)
