"""Writes the files of a shrink: a campaign file, a test, and a text. Each is complete at any time."""

from __future__ import annotations

from pathlib import Path

from staticfire.faults.model.fault import PlannedFault
from staticfire.harness.campaign.campaign import Campaign
from staticfire.harness.results.fingerprint import Fingerprint
from staticfire.harness.run_folder.shrunk import SHRUNK_CAMPAIGN, TEST_FILE, TEXT_FILE
from staticfire.harness.shrink.trials import Trial

_TEST = '''"""Fails with: {what}. It passes once the run is valid."""

from pathlib import Path

import pytest


@pytest.mark.campaign(campaign=str(Path(__file__).with_name("{file}")), seed={seed})
def test_shrunk(campaign_result):
    assert campaign_result.verdict.valid is True
'''


def write_outputs(folder: Path, first: Trial, best: Trial, wanted: Fingerprint) -> None:
    """Write the files. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / SHRUNK_CAMPAIGN, best.campaign.to_toml())
    seed = best.campaign.seed
    write_whole(folder / TEST_FILE, _TEST.format(what=wanted, file=SHRUNK_CAMPAIGN, seed=seed))
    write_whole(folder / TEXT_FILE, "\n".join(lines(folder, first, best, wanted)) + "\n")


def _replicas(campaign: Campaign) -> int:
    return campaign.leaders + sum(campaign.followers)


def lines(folder: Path, first: Trial, best: Trial, wanted: Fingerprint) -> list[str]:
    """Return lines with the sizes before and after."""
    old, new = first.campaign, best.campaign
    rows = [
        ("faults", len(old.plan), len(new.plan)),
        ("ops", len(first.ops), len(best.ops)),
        ("sends", first.sends, best.sends),
        ("producers", old.producers, new.producers),
        ("consumers", old.consumers, new.consumers),
        ("name servers", old.coordinators, new.coordinators),
        ("brokers", _replicas(old), _replicas(new)),
        ("queues", old.queues, new.queues),
        ("load, s", f"{old.load_s:g}", f"{new.load_s:g}"),
        ("seed", old.seed, new.seed),
    ]
    return [
        f"failure       {wanted}",
        *(f"{name:<13} {was} -> {now}" for name, was, now in rows),
        *(
            f"fault         {_moment(one)}  {one.kind}  {one.duration_s:g} s  {','.join(one.targets)}"
            for one in new.plan
        ),
        f"digest        {best.digest}",
        f"run it        staticfire run --campaign {folder / SHRUNK_CAMPAIGN}",
    ]


def _moment(planned: PlannedFault) -> str:
    return f"{planned.at_s:g} s" if planned.after is None else str(planned.after)


def write_whole(path: Path, text: str) -> None:
    """Write a text atomically. Raises OSError."""
    half_written = path.with_name(f"{path.name}.tmp")
    half_written.write_text(text, encoding="utf-8")
    half_written.replace(path)
