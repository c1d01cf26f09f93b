"""Wrongs of refusals: illegal sends that a broker refuses with another code than RocketMQ gives."""

from __future__ import annotations

from staticfire.checkers.model.history import Op, OpType
from tests.checkers.mutations.kinds import KINDS
from tests.checkers.mutations.model import NoSuchSite, S
from tests.checkers.mutations.planting import Planting

PROCESS = 80_000  # a producer that no run has
AROUND_S = 30  # longer than a broker needs to come up


def _refused(draft: Planting, code: int) -> None:
    """One more illegal send of some producer; no fault of the broker that refused it was near."""
    run = draft.run
    if not run.sends:
        raise NoSuchSite
    topic = next(iter(run.sends.values())).topic
    for _ in range(40):
        broker, time_ns = (
            draft.rng.choice(sorted(run.facts.replica_sets)),
            draft.rng.randrange(2 * S, run.end_ns),
        )
        nodes = run.nodes_of_broker(broker)
        if draft.is_here(time_ns) and not run.is_explained(
            time_ns - S, time_ns + S, nodes, AROUND_S
        ):
            _with_refusal(draft, topic, broker, time_ns, code)
            return
    raise NoSuchSite


def _with_refusal(draft: Planting, topic: str, broker: str, time_ns: int, code: int) -> None:
    key = f"p{PROCESS}-0"
    sent = {"topic": topic, "key": key, "size": 100, "illegal": "properties"}
    reported = {"topic": topic, "key": key, "illegal": "properties", "code": code, "broker": broker}
    error = f"{broker} refused the message with code {code}"
    for type, f, value, why in (
        ("invoke", "send", sent, None),
        ("fail", "send", sent, error),
        ("ok", "refused", reported, None),
    ):
        draft.insert(
            Op(
                index=0,
                time_ns=time_ns,
                process=PROCESS,
                type=type,  # type: ignore[arg-type]  # each is one of OpType
                f=f,
                value=value,
                error=why,
            )
        )


@KINDS.mutation(
    "wrong_refusal", "properties that are too long are refused as an unknown topic (17)"
)
def refused_as_unknown_topic(draft: Planting) -> None:
    _refused(draft, 17)


@KINDS.mutation("wrong_refusal", "properties that are too long are refused as unavailable (14)")
def refused_as_unavailable(draft: Planting) -> None:
    _refused(draft, 14)


@KINDS.mutation("wrong_refusal", "properties that are too long are refused as forbidden (16)")
def refused_as_forbidden(draft: Planting) -> None:
    _refused(draft, 16)


def _turned_away(draft: Planting, code: int, end: OpType = "fail") -> None:
    """One more legal send, refused by a broker near which no fault was."""
    _refused(draft, code)
    for at, op in draft.ops():
        if op.process == PROCESS and op.f == "send":
            value = {name: found for name, found in op.value.items() if name != "illegal"}
            if op.type == "fail":
                value |= {"code": code, "refused_by": str(op.error).split()[0]}
                draft.replace(at, type=end)
            draft.replace(at, value=value)
        elif op.process == PROCESS and op.f == "refused":
            draft.drop(at)


@KINDS.mutation("needless_refusal", "a healthy broker refuses a legal send as unavailable (14)")
def turned_away_as_unavailable(draft: Planting) -> None:
    _turned_away(draft, 14)


@KINDS.mutation("needless_refusal", "a healthy broker refuses a legal send for an error (1)")
def turned_away_for_an_error(draft: Planting) -> None:
    _turned_away(draft, 1, "info")  # after an error it is not known whether the message was stored


@KINDS.mutation("needless_refusal", "a broker that waits for nothing refuses a legal send as busy")
def turned_away_as_busy(draft: Planting) -> None:
    _never_busy(draft)
    _turned_away(draft, 2)


@KINDS.mutation("wrong_refusal", "a broker that waits for nothing is too busy for an illegal send")
def refused_as_busy(draft: Planting) -> None:
    _never_busy(draft)
    _refused(draft, 2)


def _never_busy(draft: Planting) -> None:
    if draft.run.facts.may_be_busy:
        raise NoSuchSite


@KINDS.oddity("a broker refuses an illegal send with the code of RocketMQ")
def refused_as_illegal(draft: Planting) -> None:
    _refused(draft, 13)
