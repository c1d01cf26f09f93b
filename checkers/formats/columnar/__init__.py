"""A history on disk as Parquet columns: one row for each event of a message, one folder for each message queue.

`history.parquet/` in the folder of a run; docs/history.md describes it for users.

    manifest.json           the contents, see `manifest.py`; without it there is no history
    message_events/queue-<id>/part-<n>.parquet
                            rows of one queue; id is the index of the queue in the dictionary of queues, -1 has the
                            sends that no broker answered
    ops/part-<n>.parquet    one row for each op, for latency and availability
    events.jsonl            every op that is about no message, faults included, as a line of JSON

Columns of `message_events` (`schema.MESSAGE_EVENTS`; 64-bit integers except body_ok; -1: unknown, or does not apply):

    kind             0 send, 1 delivery, 2 commit
    op_index         of the completion; of the invocation if there is none
    invoke_index     of the invocation; op_index if there is none
    time_ns          of the completion
    invoke_ns        of the invocation
    process
    outcome          0 ok, 1 stored but weaker than asked, 2 unknown, 3 failed (columns.Outcome); a commit is 0
    message          id (message_ids.py); -1 if the body held no readable key, and for a commit
    topic            index in the dictionary of topics
    queue            index in the dictionary of queues
    group            index in the dictionary of groups, of a delivery or a commit
    queue_offset     of a commit: that of the next message that the group wants
    physical_offset
    tries            attempts of a send (0: not recorded), reconsume times of a delivery
    body_ok          boolean; true for sends and commits
    sharding_key     index in the dictionary of sharding keys, of a send
    tag              index in the dictionary of tags, of a send
    due_ns           the earliest time of delivery of a delayed message, of a send
    transaction      0 none, 1 commit, 2 rollback, 3 unknown, of a send
    check_ns         the earliest time of a check of the transaction, of a send that names it

Columns of `ops` (`schema.OPS`):

    index, invoke_index, time_ns, invoke_ns, process   as above, 64 bits
    message_events   how many rows the op has in `message_events`
    size             bytes of the body of a send, else -1
    type             text: ok, info, fail; invoke if it was never completed
    f                text
    node, error      text or null
    value            text: the value as JSON, null if it follows from the message events
    invoke_value     text: the value of the invocation as JSON; null if it follows from them or there is none

If a file lacks a column, it is read as -1 (null, true for body_ok). A column that the reader does not know is ignored.

Order: rows of a queue are in the order of op_index, over all its parts, and rows of one op are in the order of its
value. Only ops that were never completed come late, at the end of the run at the latest. Readers of this package put
them in their position. `ops` is in the same order.

A writer writes a part under another name, syncs it, and renames it. The manifest names the part with its rows, size and
CRC-32, and `complete` is true only when everything is written. So a writer that dies leaves a history that is marked
as torn, and a part that is missing, damaged or of another history is an error.
"""
