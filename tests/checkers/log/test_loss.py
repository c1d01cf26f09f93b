"""Loss: messages that are lost, messages that a group has not seen, and verdicts that stay unknown."""

from __future__ import annotations

import pytest

from staticfire.checkers.guarantees.verdict import Validity, Verdict
from tests.support.history_language import fault
from tests.support.one_checker import verdict_on


def check_loss(*ops: str, **changes: object) -> Verdict:
    return verdict_on(ops, "loss", **changes)


def keys(verdict: Verdict, anomaly: str) -> tuple[str | None, ...]:
    return tuple(finding.key for finding in verdict.findings if finding.anomaly == anomaly)


@pytest.mark.parametrize(
    ("ops", "valid", "lost"),
    [
        (["0 ok send a", "1 ok consume a", "9 ok drain"], True, ()),
        (["0 ok send a", "9 ok drain"], False, ("a",)),
        (["0 ok send z", "0 ok send a", "1 ok consume a", "9 ok drain"], False, ("z",)),
        # an unknown or failed send is never lost, and a weak acknowledgement is no promise
        (["0 ok send z", "1 ok consume z", "0 info send a", "9 ok drain"], True, ()),
        (["0 ok send z", "1 ok consume z", "0 fail send a", "9 ok drain"], True, ()),
        (["0 ok send z", "1 ok consume z", "0 invoke send a", "9 ok drain"], True, ()),
        (
            [
                "0 ok send z",
                "1 ok consume z",
                "0 info send a error=FLUSH_DISK_TIMEOUT",
                "9 ok drain",
            ],
            True,
            (),
        ),
        # a client that calls a flush timeout a success does not make it one
        (
            [
                "0 ok send z",
                "1 ok consume z",
                "0 ok send a status=FLUSH_SLAVE_TIMEOUT",
                "9 ok drain",
            ],
            True,
            (),
        ),
        # never drained: nothing can be said, also when the drain gave up before it came to the message
        (["0 ok send a"], "unknown", ()),
        (["0 ok send a", "9 info drain 0:1:0"], "unknown", ()),
        # an unfinished drain that has passed the message, or a queue that ends before it, is proof
        (["0 ok send a", "0 ok send b", "9 info drain 0:2:1"], False, ("a",)),
        (["0 ok send a@0:7", "9 info drain 0:5:3"], False, ("a",)),
        # below the start of the queue: retention took it, and that is another question
        (["0 ok send a", "9 ok drain 0:5:5 min=3"], "unknown", ()),
        # a queue that is not there when the lag is 0 took its messages with it
        (["0 ok send a@1:0", "9 ok drain 0:0:0"], False, ("a",)),
        # acknowledged after the drain: not yet judged
        (["9 ok drain", "0 ok send a"], "unknown", ()),
        # delivered to a listener that failed: a member saw it, so it is not lost (but unseen)
        (["0 ok send a", "1 info consume a", "9 ok drain"], False, ()),
        (["0 ok send a", "1 invoke consume a", "9 ok drain"], False, ()),
        # nothing acknowledged proves nothing
        (["0 info send a", "9 ok drain"], "unknown", ()),
    ],
)
def test_lost(ops: list[str], valid: Validity, lost: tuple[str, ...]) -> None:
    verdict = check_loss(*ops)

    assert (verdict.valid, keys(verdict, "lost")) == (valid, lost)


@pytest.mark.parametrize(
    ("ops", "valid", "unseen"),
    [
        (["1 ok consume a", "2 ok consume a group=h"], True, ()),
        (["1 ok consume a"], False, ("a",)),
        # a delivery counts for its own group only, and only when the listener finished
        (["1 ok consume a", "2 info consume a group=h"], False, ("a",)),
        (["1 ok consume a", "2 info consume a group=h", "3 ok consume a~1 group=h"], True, ()),
    ],
)
def test_unseen_by_a_group(ops: list[str], valid: Validity, unseen: tuple[str, ...]) -> None:
    ops = ["0 ok send a", *ops, "9 ok drain", "9 ok drain group=h"]

    verdict = check_loss(*ops, groups={"g": ("t",), "h": ("t",)})

    assert (verdict.valid, keys(verdict, "unseen")) == (valid, unseen)


@pytest.mark.slow
@pytest.mark.parametrize(
    "sent", ["info send a", "invoke send a", "info send a error=FLUSH_DISK_TIMEOUT"]
)
@pytest.mark.parametrize(
    ("given", "valid", "unseen"),
    [
        (["1 ok consume a@0:1", "2 ok consume a@0:1 group=h"], True, ()),
        (["1 ok consume a@0:1"], False, ("a",)),
        (["1 info consume a@0:1", "2 ok consume a@0:1 group=h"], False, ("a",)),
        # a body that is not what was sent proves nothing of its key
        (["1 ok consume a@0:1!"], True, ()),
        (["1 ok consume a@0:1 topic=u"], True, ()),
    ],
)
def test_a_message_that_one_group_was_given_is_due_to_every_group(
    sent: str, given: list[str], valid: Validity, unseen: tuple[str, ...]
) -> None:
    first = ["0 ok send z@0:0", "1 ok consume z", "2 ok consume z group=h"]
    drains = ["9 ok drain 0:2:2", "9 ok drain 0:2:2 group=h"]

    verdict = check_loss(*first, f"0 {sent}", *given, *drains, groups={"g": ("t",), "h": ("t",)})

    assert (verdict.valid, keys(verdict, "unseen")) == (valid, unseen)


@pytest.mark.parametrize(
    ("cut_s", "flush", "valid"),
    [(3.0, "async", True), (3.0, "sync", False), (60.0, "async", False), (120.0, "async", False)],
)
def test_only_damage_after_the_proof_excuses_a_message_without_acknowledgement(
    cut_s: float, flush: str, valid: Validity
) -> None:
    """A cut at 3 s may have taken it; one before it was delivered, at 100 s, or long after, has not."""
    cut = fault("power_cut", "n0", at_s=cut_s, healed_s=cut_s + 1)
    ops = ["0 ok send z@0:0 t=0.1", "1 ok consume z", "2 ok consume z group=h", "0 info send a t=1"]
    ops.append(f"1 ok consume a@0:1 t={2.0 if cut_s < 10 else 100.0}")
    ops += ["9 ok drain 0:2:2 t=200", "9 ok drain 0:2:2 group=h"]

    groups = {"g": ("t",), "h": ("t",)}
    verdict = check_loss(*ops, groups=groups, faults=(cut,), flush=flush)

    assert verdict.valid is valid


def test_a_message_that_comes_after_the_drain_of_a_group_is_not_yet_due() -> None:
    ops = ["0 ok send z@0:0", "1 ok consume z", "2 ok consume z group=h", "0 info send a"]
    ops += ["9 ok drain 0:1:1 group=h", "1 ok consume a@0:1", "9 ok drain 0:2:2"]

    assert check_loss(*ops, groups={"g": ("t",), "h": ("t",)}).valid is True


def test_a_group_misses_nothing_of_a_topic_that_it_did_not_subscribe_to() -> None:
    ops = ["0 ok send a", "1 ok consume a", "9 ok drain", "9 ok drain group=h topic=u"]

    assert check_loss(*ops, groups={"g": ("t",), "h": ("u",)}).valid is True


def test_one_group_may_be_drained_and_the_other_not() -> None:
    ops = ["0 ok send a", "1 ok consume a", "9 ok drain", "9 info drain 0:1:0 group=h"]

    verdict = check_loss(*ops, groups={"g": ("t",), "h": ("t",)})

    assert verdict.valid == "unknown"
    assert verdict.counts["pending"] == 1
    assert verdict.reason == "group h on t: not drained, lag 1"


def test_a_message_delivered_from_the_copy_of_a_retry_is_not_lost() -> None:
    ops = ["0 ok send a@1:3 attempts=2", "1 ok consume a@0:0", "9 ok drain 0:1:1 1:4:4"]

    assert check_loss(*ops).valid is True


def test_an_unknown_send_that_shows_up_is_recovered() -> None:
    ops = ["0 ok send z", "1 ok consume z", "0 info send a", "1 ok consume a", "9 ok drain"]

    verdict = check_loss(*ops)

    assert (verdict.valid, verdict.counts["recovered"]) == (True, 1)


def test_a_loss_that_the_profile_allows_is_counted_and_not_a_violation() -> None:
    cut = fault("power_cut", "n0", at_s=5, healed_s=10)

    verdict = check_loss("0 ok send a t=1", "9 ok drain 0:0:0 t=20", flush="async", faults=(cut,))

    assert (verdict.valid, verdict.counts["lost_allowed"]) == (True, 1)
    assert keys(verdict, "lost") == ("a",)


@pytest.mark.parametrize(
    ("sent", "cut_s", "valid"),
    [
        ("0 ok send a t=1", 14, True),  # a flush takes up to 13.5 s
        ("0 ok send a t=1", 15, False),
        # the broker stores the message itself later
        ("0 ok send a t=1 delay_ms=19000", 40, True),
    ],
)
def test_a_power_cut_takes_no_message_that_was_flushed_long_before(
    sent: str, cut_s: int, valid: Validity
) -> None:
    cut = fault("power_cut", "n0", at_s=cut_s, healed_s=cut_s + 1)

    verdict = check_loss(sent, "9 ok drain 0:0:0 t=60", flush="async", faults=(cut,))

    assert verdict.valid is valid


@pytest.mark.parametrize(
    ("late", "low", "valid"), [((), 3, False), (("h",), 3, True), (("h",), 0, False)]
)
def test_what_retention_took_before_a_group_was_made_is_not_for_that_group(
    late: tuple[str, ...], low: int, valid: Validity
) -> None:
    ops = ("0 ok send a", "1 ok consume a", "9 ok drain 0:5:5 min=3 t=10")
    verdict = check_loss(
        *ops,
        f"9 ok drain 0:5:5 min={low} group=h t=10",
        groups={"g": ("t",), "h": ("t",)},
        late_groups=late,
        reserved_s=60.0,
    )
    assert verdict.valid == valid


def test_a_late_group_excuses_no_other_one() -> None:
    ops = ("0 ok send a", "9 ok drain 0:5:5 min=3 t=10", "9 ok drain 0:5:5 min=3 group=h t=10")
    groups = {"g": ("t",), "h": ("t",)}
    verdict = check_loss(*ops, groups=groups, late_groups=("h",), reserved_s=60.0)
    assert keys(verdict, "lost") == ("a",)


@pytest.mark.parametrize(
    ("reserved_s", "valid"), [(0.0, "unknown"), (1.0, "unknown"), (60.0, False)]
)
def test_what_is_gone_unread_before_its_time_is_lost(reserved_s: float, valid: Validity) -> None:
    verdict = check_loss("0 ok send a", "9 ok drain 0:5:5 min=3 t=10", reserved_s=reserved_s)
    assert verdict.valid == valid
