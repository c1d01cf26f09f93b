"""A history on disk as Parquet columns: one row a message touch, one folder a message queue.

`history.parquet/` in the folder of a run; docs/history.md says the same for people.

    manifest.json                        what there is, see `manifest.py`; without it there is no history
    touches/queue-<id>/part-<n>.parquet  rows of one queue; id is the place of the queue in the dictionary of queues,
                                         -1 holds the sends that no broker answered
    ops/part-<n>.parquet                 one row an op, for latency and availability
    events.jsonl                         every op that touches no message, faults included, as a line of JSON

Columns of `touches` (`schema.TOUCHES`; integers of 64 bits but for body_ok; -1: not known, or does not apply):

    kind             0 send, 1 delivery, 2 commit
    op_index         of the completion; of the invocation when there is none
    invoke_index     of the invocation; op_index when there is none
    time_ns          of the completion
    invoke_ns        of the invocation
    process
    outcome          0 ok, 1 stored but weaker than asked, 2 unknown, 3 failed (columns.Outcome); a commit is 0
    message          id (message_ids.py); -1 when the body held no readable key, and for a commit
    topic            place in the dictionary of topics
    queue            place in the dictionary of queues
    group            place in the dictionary of groups, of a delivery or a commit
    queue_offset     of a commit: the next message the group wants
    physical_offset
    tries            attempts of a send (0: not recorded), reconsume times of a delivery
    body_ok          boolean; true for sends and commits
    sharding_key     place in the dictionary of sharding keys, of a send
    tag              place in the dictionary of tags, of a send
    due_ns           when a delayed message may first be delivered, of a send
    transaction      0 none, 1 commit, 2 rollback, 3 unknown, of a send
    check_ns         before which no broker may check the transaction, of a send that says so

Columns of `ops` (`schema.OPS`):

    index, invoke_index, time_ns, invoke_ns, process   as above, 64 bits
    touches          how many rows the op has in `touches`
    size             bytes of the body of a send, else -1
    type             text: ok, info, fail; invoke when it was never completed
    f                text
    node, error      text or null
    value            text: the value as JSON, null when it follows from the touches
    invoke_value     text: the value of the invocation as JSON, null when it follows from the touches or there is none

A column that a file lacks is read as -1 (null, true for body_ok); one that the reader does not know is ignored.

Order: rows of a queue are in the order of op_index, over all its parts, and rows of one op are in the order of its
value. Only ops that were never completed come late: when that was found out, at the end of the run at the latest.
Readers of this package put them in their place. `ops` is in the same order.

A part is written under another name, synced, and renamed; the manifest names it, with its rows, size and CRC-32, and
`complete` is true only when everything is there. So a writer that dies leaves a history that says that it is
torn, and a part that is missing, damaged or of another history is an error.
"""
