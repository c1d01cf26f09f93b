"""Anomalies that only observations inside nodes show: copies, queue entries, routes, tables, resources and errors."""

from __future__ import annotations

from typing import Final

from staticfire.checkers.anomalies.anomaly import Anomaly

STATUS = "The status of a send shows how safely the message is held."
REPLICATED = "The log of a follower is a prefix of the log of its leader."
ENTRIES = "Every message of the log has its entry in its queue."
ROUTED = "Coordinators name the live brokers, with their addresses and tables."
TABLES = "Servers keep settings of groups and progress over starts, and followers copy them."
NO_ERROR = "No node meets an error that only a bug in its program can raise."
NO_LEAK = "A server uses no more resources after the load than before it."


WHITE_BOX: Final = (
    Anomaly(
        name="acked_not_durable",
        title="acknowledged and not durable",
        meaning=(
            "a broker answered SEND_OK, but fewer nodes held the message safely than the profile "
            "promises"
        ),
        promise=STATUS,
        example="sync flush, and the record is only in the page cache",
        test="tests/checkers/white_box/test_replicas.py",
    ),
    Anomaly(
        name="spurious_weak_status",
        title="spurious weak status",
        meaning=(
            "a broker answered with a weaker status than SEND_OK, although enough nodes held the "
            "message and no fault explains this status"
        ),
        promise=STATUS,
        example="FLUSH_SLAVE_TIMEOUT, and the follower has it on disk",
        excuse="a fault of its broker was near, or the broker was coming up",
        excused="informational",
    ),
    Anomaly(
        name="replica_diverged",
        title="diverged replica",
        meaning="a follower's log differs from its leader's within the range that both have",
        promise=REPLICATED,
        example="other bytes from 4096 on",
        faithful="informational",
    ),
    Anomaly(
        name="replica_ahead",
        title="replica ahead of its leader",
        meaning="a follower has more than its leader",
        promise=REPLICATED,
        example="the follower ends at 9000, the leader at 8000",
        faithful="informational",
    ),
    Anomaly(
        name="queue_hole",
        title="hole in a queue",
        meaning="a queue has no entry at an offset between two that have one",
        promise=ENTRIES,
        example="entries 0, 1, 3",
        faithful="informational",
    ),
    Anomaly(
        name="queue_entry_wrong",
        title="wrong queue entry",
        meaning="an entry leads to no record, or to one of another queue or offset",
        promise=ENTRIES,
        example="entry 5 leads to the message of offset 4",
        faithful="informational",
    ),
    Anomaly(
        name="queue_entry_missing",
        title="missing queue entries",
        meaning="the log holds more messages than queues have entries",
        promise=ENTRIES,
        example="200 records, 199 entries",
        faithful="informational",
    ),
    Anomaly(
        name="wrong_route",
        title="wrong route",
        meaning=(
            "a coordinator names an address that no node of the replica set has, or has under "
            "another number"
        ),
        promise=ROUTED,
        example="number 0 of broker b, the leader, is the address of its follower",
    ),
    Anomaly(
        name="stale_route",
        title="stale route",
        meaning=(
            "a coordinator names a broker that has been dead for too long, or names it again although it has not "
            "run since"
        ),
        promise=ROUTED,
        example="dead for 160 s, and still in the route",
        faithful="informational",
    ),
    Anomaly(
        name="missing_route",
        title="missing route",
        meaning=(
            "a coordinator does not name a live broker for too long, or names it only in its routes, or only in its "
            "list of the cluster"
        ),
        promise=ROUTED,
        example="up for a minute, and not in the route",
        faithful="informational",
    ),
    Anomaly(
        name="route_mismatch",
        title="route unlike the leader",
        meaning=(
            "after the drain, a coordinator's route has other numbers of queues, or another "
            "permission, than the leader's table, or the leader has confirmed more queues"
        ),
        promise=ROUTED,
        example="the topic has 8 queues, the route says 4",
        test="tests/checkers/white_box/test_routes.py",
    ),
    Anomaly(
        name="route_drift",
        title="route unlike the leader during the run",
        meaning=(
            "a coordinator's route returns to an earlier version of the leader's table, or differs "
            "from the table, or from the queues that the leader has confirmed, after a registration must have arrived"
        ),
        promise=ROUTED,
        example="the topic has 8 queues, and the route says 8, then 4, then 8",
        test="tests/checkers/white_box/test_route_changes.py",
        faithful="informational",
    ),
    Anomaly(
        name="departed_route",
        title="route to a departed server",
        meaning=(
            "a coordinator names a server that has ended, although it saw the end of its "
            "connections"
        ),
        promise=ROUTED,
        example="the server stopped 7 s ago, and is still in the route",
        test="tests/checkers/white_box/test_route_changes.py",
        faithful="informational",
    ),
    Anomaly(
        name="table_lost",
        title="lost settings or progress",
        meaning=(
            "a leader that starts lacks settings of groups that its last process had; or, with an empty log, settings "
            "or progress that a follower has"
        ),
        promise=TABLES,
        example="a group has 5 retry queues, the leader restarts, and it has 1",
        test="tests/checkers/white_box/test_server_tables.py",
        faithful="informational",
    ),
    Anomaly(
        name="table_uncopied",
        title="table that a follower does not copy",
        meaning=(
            "a follower has other settings of groups than its leader, or less progress of delayed messages or of "
            "groups, after it must have copied them"
        ),
        promise=TABLES,
        example="the leader has changed a group for 14 s, and its follower has not",
        test="tests/checkers/white_box/test_server_tables.py",
    ),
    Anomaly(
        name="slow_failover",
        title="slow fail-over to another coordinator",
        meaning=(
            "a client that started while a coordinator was broken took too long, although another "
            "coordinator worked"
        ),
        promise=ROUTED,
        example="11 s to its first queue",
        faithful="informational",
    ),
    Anomaly(
        name="task_leak",
        title="leaked tasks",
        meaning=(
            "after the run, without clients, a server has more asyncio tasks than before the load"
        ),
        promise=NO_LEAK,
        example="7 tasks before, 31 after",
    ),
    Anomaly(
        name="thread_leak",
        title="leaked threads",
        meaning="after the run, without clients, a server has more threads than before the load",
        promise=NO_LEAK,
        example="5 threads before, 80 after",
    ),
    Anomaly(
        name="socket_leak",
        title="leaked sockets",
        meaning=(
            "180 s after the clients have ended, a server has more sockets than before the load"
        ),
        promise=NO_LEAK,
        example="5 sockets before, 60 after",
    ),
    Anomaly(
        name="file_leak",
        title="leaked files",
        meaning=(
            "after the run, without clients, a server has more surplus descriptors than before the "
            "load: those of removed files, and all but the first of each other file"
        ),
        promise=NO_LEAK,
        example="none before, 13 after",
    ),
    Anomaly(
        name="table_leak",
        title="leaked table entries",
        meaning=(
            "after the run, without clients, a table of a broker has more entries than before the "
            "load: held pulls, locks, members of groups, finished half messages, offsets"
        ),
        promise=NO_LEAK,
        example="no held pull before, 24 after",
    ),
    Anomaly(
        name="memory_leak",
        title="leaked memory",
        meaning=(
            "the resident memory of a server grew by more than 64 MiB plus 4 KiB for each "
            "acknowledged message"
        ),
        promise=NO_LEAK,
        example="60 MiB before, 900 MiB after 1,000 messages",
    ),
    Anomaly(
        name="internal_error",
        title="error inside a node",
        meaning=(
            "a server or a client logged an error that only a bug in its program can raise, even if "
            "it went on and no message was lost"
        ),
        promise=NO_ERROR,
        example="broker-a-0: request failed: AttributeError: no attribute 'queue'",
        test="tests/checkers/white_box/test_internal_errors.py",
    ),
)
