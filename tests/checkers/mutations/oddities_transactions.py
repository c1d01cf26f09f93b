"""Legal oddities of transactions that send and poll, of contents and of stamps."""

from __future__ import annotations

from staticfire.checkers.model.history import Stamp
from tests.checkers.mutations.events import BARE
from tests.checkers.mutations.kinds import KINDS
from tests.checkers.mutations.kinds_txn import plant_txns
from tests.checkers.mutations.model import MS, NoSuchSite
from tests.checkers.mutations.planting import Planting


@KINDS.oddity("transactions that fit one order")
def transactions_in_order(draft: Planting) -> None:
    plant_txns(
        draft, ("0 ok x+1@0 y+1@0", "1 ok x?1@0", "1 ok x+2@1 y?1@0", "2 ok x?1@0,2@1 y?1@0")
    )


@KINDS.oddity("a transaction that is unknown may never be seen")
def unknown_transaction_never_seen(draft: Planting) -> None:
    plant_txns(draft, ("0 ok x+1@0", "1 info x+2 y+2", "2 ok x?1@0"))


@KINDS.oddity("a transaction that failed leaves a gap in its log")
def failed_transaction_never_seen(draft: Planting) -> None:
    plant_txns(draft, ("0 ok x+1@0", "1 fail x+2", "0 ok x+3@4", "2 ok x?1@0,3@4"))


@KINDS.oddity("a client need not know the contents of a message")
def contents_unknown(draft: Planting) -> None:
    if not draft.is_of_site():
        raise NoSuchSite
    for op in draft.run.ops:
        if op.f == "consume" and any(len(message) > BARE for message in op.value["messages"]):
            draft.alter(op.index, messages=[message[:BARE] for message in op.value["messages"]])
        if op.f == "send" and "id" in op.value:
            draft.alter(op.index, id=None)


@KINDS.oddity("what a client does not know of the contents of a message is null")
def contents_are_null(draft: Planting) -> None:
    like = draft.pick_delivery(lambda d: draft.run.ops[d.begin].f == "consume")
    messages = draft.messages(like)
    messages[like.slot][BARE:] = [[None] * 7]
    draft.set_messages(like, messages)


@KINDS.oddity("a client may stamp its events more coarsely than the harness writes them down")
def stamped_coarsely(draft: Planting) -> None:
    if not draft.is_of_site():
        raise NoSuchSite
    for op in draft.run.ops:
        if op.process >= 0:
            draft.replace(op.index, stamp=Stamp(max(op.time_ns - MS, 0), 2 * MS))
