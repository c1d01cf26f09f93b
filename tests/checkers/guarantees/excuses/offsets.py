"""Histories that are legal only by one of the rows on committed offsets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from staticfire.checkers.guarantees.facts import Timings
from tests.checkers.legal_histories import (
    NO_NAME_SERVER,
    Legal,
    cut,
    offsets,
)
from tests.support.history_language import fault

NO_COMMIT = (
    *("1 ok open node=c1 t=0.2", "1 ok assign 0 t=0.5", "1 ok commit_to 0 t=0.6"),
    *("0 ok send a t=1", "1 ok consume a t=12", "9 ok drain t=40"),
)


def histories() -> Iterator[Legal]:
    by_master = partial(offsets, asked="0")
    yield by_master(
        "the leader ended before it had written the offset down",
        faults=(fault("name_server_amnesia", "n0", at_s=9.5, healed_s=9.6),),
        taken_s=60,
    )
    yield by_master(
        "the disk of the leader had not stored the offset",
        faults=(fault("power_cut", "n0", at_s=18, healed_s=20),),
        taken_s=60,
        timings=Timings(write_back_s=35.0),
    )
    yield by_master(
        "the leader could not write the offset down, and ended",
        faults=(
            fault("slow_disk", "n0", at_s=8, healed_s=12),
            fault("graceful_stop", "n0", at_s=13, healed_s=14),
        ),
        taken_s=60,
    )
    yield by_master(
        "the leader ended before it had executed the commit",
        faults=(fault("graceful_stop", "n0", at_s=5.5, healed_s=7),),
        taken_s=60,
        sent_to="0",
        arrived=True,
    )
    yield by_master(
        "the commit was lost on its way, or a follower took it",
        "offset_on_its_way",
        faults=(cut("c1", "n0", at_s=4, healed_s=8),),
        taken_s=60,
        sent_to="0",
    )
    yield by_master(
        "the leader was not in the routes of the client, and a follower took the commit",
        "offset_at_follower",
        faults=(
            replace(fault("split_name_servers", "n0", at_s=4, healed_s=8), affects=("routes",)),
        ),
        taken_s=60,
        sent_to="1",
    )
    yield by_master(
        "a client that asked for the route while the leader was away knows a follower until it asks again",
        "offset_sent_to_follower",
        faults=(fault("rolling_restart", "n0", at_s=-6, healed_s=-3),),
        taken_s=60,
        sent_to="1",
    )
    yield by_master(
        "a client that starts knows only the follower, and commits there",
        "offset_at_follower",
        faults=(fault("pause", "ns-1", at_s=3, healed_s=4),),
        opened="3 ok open node=c1 t=4",
        taken_s=60,
        **NO_NAME_SERVER,
    )
    yield by_master(
        "coordinators without routes learned only of the follower, and clients that asked committed there",
        "offset_at_follower",
        faults=(fault("name_server_amnesia", "ns-1", at_s=3, healed_s=4),),
        taken_s=90,
        **NO_NAME_SERVER,
    )
    yield offsets(
        "an offset that was not yet written down, or not yet copied to a follower, is forgotten",
        "offset_forgotten",
        fault("kill", "n0", at_s=18, healed_s=20),
        taken_s=60,
    )
    yield offsets(
        "a follower answered that had not yet copied the offset, or the commit was lost on its way",
        "offset_forgotten",
        fault("pause", "n0", at_s=8, healed_s=20),
        taken_s=10,
    )
    yield offsets(
        "a client that starts knows only the follower, before the leader registers again",
        "offset_forgotten",
        fault("kill", "ns-1", at_s=8, healed_s=20),
        taken_s=30,
        **NO_NAME_SERVER,
    )
    yield offsets(
        "a disk was emptied, and the replicas may have come up with older offsets",
        "offset_replaced",
        fault("disk_lost", "n0", at_s=50, healed_s=55),
        taken_s=60,
    )
    yield offsets(
        "an operator reset the offsets",
        "offset_replaced",
        fault("offsets_reset", at_s=50, healed_s=55),
        taken_s=60,
    )
    for row_of, mechanism, of in (
        (
            "commit_late",
            "the member was away, or its listener or its disk slow",
            fault("pause", "c1", at_s=14, healed_s=15),
        ),
        ("commit_late", "no broker took commits", fault("slow_disk", "n0", at_s=8, healed_s=9)),
        (
            "commit_late",
            "the member could not reach the broker",
            cut("c1", "n0", at_s=8, healed_s=9),
        ),
        (
            "broker_unknown",
            "the member learned late that the broker is back",
            fault("pause", "n0", at_s=4, healed_s=5),
        ),
        (
            "broker_unknown",
            "a coordinator that starts names no broker",
            fault("name_server_amnesia", "ns-1", at_s=4, healed_s=5),
        ),
    ):
        yield Legal(
            mechanism=mechanism,
            anomaly="commit_late",
            row_of=row_of,
            ops=NO_COMMIT,
            faults=(of,),
            known={"coordinators": ("ns-1",)},
        )
