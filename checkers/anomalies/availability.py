"""Anomalies of availability: brokers or clients that do not serve, or not in time."""

from __future__ import annotations

from typing import Final

from staticfire.checkers.anomalies.anomaly import Anomaly

SERVES = "After faults the cluster serves again, within the bounds of the campaign."
RUNS = "A server runs until it is stopped."


AVAILABILITY: Final = (
    Anomaly(
        name="not_serving",
        title="broker does not serve",
        meaning="the last probe of a living broker was not acknowledged",
        promise=SERVES,
        example="`9 fail probe b`",
    ),
    Anomaly(
        name="not_drained",
        title="group not drained",
        meaning="a group did not reach lag 0 in time",
        promise=SERVES,
        example="`0 ok send a / 9 info drain 0:1:0`",
    ),
    Anomaly(
        name="send_gap",
        title="gap in sends",
        meaning="for too long, no send of a producer was acknowledged",
        promise=SERVES,
        example="no acknowledgement for 12 s, and the campaign promises 5 (`gap_max_s`)",
    ),
    Anomaly(
        name="start_gap",
        title="late start of a consumer",
        meaning="a consumer had started and got no queue for too long",
        promise=SERVES,
        example="ready at 0 s, its first queue at 12 s, 5 s are promised",
    ),
    Anomaly(
        name="delivery_gap",
        title="gap in deliveries",
        meaning="an acknowledged message waited too long for its first delivery to a group",
        promise=SERVES,
        example="acknowledged at 0 s, delivered at 12 s, 5 s are promised",
    ),
    Anomaly(
        name="producer_stuck",
        title="stuck producer",
        meaning=(
            "no send of a producer was acknowledged for four times as long as a request may take, "
            "although no fault was between it and some broker"
        ),
        promise=SERVES,
        example="the last fault is over for two minutes, and every send of a producer still fails",
    ),
    Anomaly(
        name="refused_at_rest",
        title="sends refused at rest",
        meaning=(
            "brokers refused sends of a producer, or messages that a consumer sent back, or did not "
            "answer in time, in ten seconds of a minute, and no fault was near; or, in a "
            "simulation, a broker did not answer a send-back, and no fault was in the way"
        ),
        promise=SERVES,
        example="no fault at all, and every fifth send is refused with code 14",
    ),
    Anomaly(
        name="weak_at_rest",
        title="weak statuses at rest",
        meaning=(
            "brokers answered sends of a producer with a weaker status than SEND_OK in ten seconds "
            "of a minute, and no fault was near"
        ),
        promise=SERVES,
        example="no fault at all, and every other send ends with FLUSH_SLAVE_TIMEOUT",
    ),
    Anomaly(
        name="overdue_send",
        title="overdue send",
        meaning=(
            "a send ended much later than the client's time limit, although the producer was not "
            "held up"
        ),
        promise=SERVES,
        example="a send that may take 3 s fails after 19",
    ),
    Anomaly(
        name="node_died",
        title="server that ended by itself",
        meaning="a node ended by itself, and no fault of its disk explains it",
        promise=RUNS,
        example="a broker ends with KeyError",
    ),
)
