"""Candidates with earlier events: the whole run earlier, pauses shorter, the load ending after its last event."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

from staticfire.faults.model.fault import PlannedFault
from staticfire.harness.campaign.campaign import Campaign
from staticfire.harness.shrink.trials import Trial

FIRST_S = (0.1, 1.0)  # time of the first event
TAILS_S = (0.5, 3.0, 10.0)  # of load after the last event
PAUSES_S = (0.1, 1.0, 5.0)  # remainder of a longer pause
LEAST_LOAD_S = 1.0


def earlier(trial: Trial) -> Iterator[Campaign]:
    """Yield the campaign with all events moved to the beginning."""
    campaign = trial.campaign
    first_s = min(_points(campaign), default=0.0)
    for at_s in FIRST_S:
        if first_s - at_s > 0.05:
            yield _warped(campaign, [(0.0, first_s - at_s)])


def shorter_pauses(trial: Trial) -> Iterator[Campaign]:
    """Yield all pauses shortened at once, then each alone. A pause lies between ops, faults and ends of faults."""
    campaign = trial.campaign
    points = sorted({0.0, *_points(campaign)})
    gaps = [
        (start, end - start) for start, end in pairwise(points) if end - start > PAUSES_S[0] * 1.5
    ]
    for kept_s in PAUSES_S:
        cuts = [(start, long_s - kept_s) for start, long_s in gaps if long_s > kept_s * 1.5]
        if cuts:
            yield _warped(campaign, cuts)
        if len(cuts) > 1:
            yield from (_warped(campaign, [cut]) for cut in cuts)


def earlier_end(trial: Trial) -> Iterator[Campaign]:
    """Yield the load ending soon after the last op, the last fault, and the events that show the failure."""
    campaign = trial.campaign
    last_s = last_event_s(trial)
    for tail_s in TAILS_S:
        if campaign.load_s - (last_s + tail_s) > 0.2:
            yield ending_at(campaign, last_s + tail_s)
    if campaign.idle[1] or campaign.quiet_s:
        yield ending_at(campaign, campaign.load_s)


def last_event_s(trial: Trial) -> float:
    """Return the time of the last op's begin or the last fault's end, whichever is later."""
    return max((0.0, *_points(trial.campaign), *(one.over_s for one in trial.struck.values())))


def ending_at(campaign: Campaign, end_s: float) -> Campaign:
    return replace(
        campaign, time_s=round(max(end_s, LEAST_LOAD_S), 3), idle=(0.0, 0.0), quiet_s=0.0
    )


def rounded(trial: Trial) -> Iterator[Campaign]:
    """Yield the campaign with times of few digits."""
    for digits in (0, 1, 2):
        yield _rounded(trial.campaign, digits)


def _rounded(campaign: Campaign, digits: int) -> Campaign:
    """Round times to a number of digits. Times after the end become the end."""
    time_s = round(campaign.time_s + 0.49 * 10**-digits, digits)
    plan = tuple(
        replace(
            one,
            at_s=round(one.at_s, digits),
            duration_s=round(one.duration_s, digits),
            after=one.after and replace(one.after, delay_ms=round(one.after.delay_ms, digits)),
        )
        for one in campaign.plan
    )
    ops = campaign.ops and tuple(
        replace(op, at_s=min(round(op.at_s, digits), time_s)) for op in campaign.ops
    )
    return replace(campaign, plan=plan, ops=ops, time_s=time_s)


def _points(campaign: Campaign) -> list[float]:
    """Return the times of all events in the campaign."""
    timed = [one for one in campaign.plan if one.after is None]
    ops = [] if campaign.ops is None else [op.at_s for op in campaign.ops]
    return [*(one.at_s for one in timed), *(one.until_s for one in timed), *ops]


def _warped(campaign: Campaign, cuts: list[tuple[float, float]]) -> Campaign:
    """Move everything after each cut (position, length) earlier by its length, including the end of the load."""

    def moved(at_s: float) -> float:
        return round(at_s - sum(by_s for start_s, by_s in cuts if at_s > start_s + 1e-9), 6)

    def planned(one: PlannedFault) -> PlannedFault:
        if one.after is not None:
            return one
        at_s = moved(one.at_s)
        return replace(one, at_s=at_s, duration_s=round(moved(one.until_s) - at_s, 6))

    ops = campaign.ops and tuple(replace(op, at_s=moved(op.at_s)) for op in campaign.ops)
    end_s = campaign.load_s - sum(by_s for _, by_s in cuts)
    return ending_at(replace(campaign, plan=tuple(map(planned, campaign.plan)), ops=ops), end_s)
