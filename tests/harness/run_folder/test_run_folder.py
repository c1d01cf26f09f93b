"""The folder of a run: never overwritten, complete or absent."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from staticfire.harness.campaign.campaign import CampaignError
from staticfire.harness.draws.campaign import draw_campaign
from staticfire.harness.run_folder.run_folder import RecordFile, RunFolder, RunFolderError

CAMPAIGN = draw_campaign(7, {"faults": ("kill",)})


def test_a_campaign_comes_back_as_it_was(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "runs", CAMPAIGN, "20261120-101500")
    assert folder.path.name == "20261120-101500-queue-7"
    assert folder.read_campaign() == CAMPAIGN
    assert not folder.is_finished


def test_two_runs_in_one_second_get_two_folders(tmp_path: Path) -> None:
    folders = [RunFolder.create(tmp_path, CAMPAIGN, "now").path.name for _ in range(3)]
    assert folders == ["now-queue-7", "now-queue-7-1", "now-queue-7-2"]


@pytest.mark.parametrize(
    "option", ["seed", "time_s", "followers", "faults", "defect", "latency_ms", "flush"]
)
def test_every_option_is_needed(option: str, tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, CAMPAIGN, "now")
    path = folder.path / "campaign.toml"
    kept = [line for line in path.read_text().splitlines() if not line.startswith(f"{option} =")]
    if option in ("followers", "faults", "latency_ms"):  # arrays take several lines
        text = path.read_text()
        start = text.index(f"{option} = [")
        kept = [text[:start] + text[text.index("]", start) + 1 :]]
    path.write_text("\n".join(kept))
    with pytest.raises(RunFolderError, match=f"lacks {option}"):
        folder.read_campaign()


def test_a_run_of_an_earlier_version_did_not_have_what_came_later(tmp_path: Path) -> None:
    campaign = replace(CAMPAIGN, quiet_s=60.0, large_share=0.2)
    path = RunFolder.create(tmp_path, campaign, "now").path
    lines = (path / "campaign.toml").read_text().splitlines(keepends=True)
    kept = [line for line in lines if not line.startswith(("quiet_s", "large_share"))]
    (path / "campaign.toml").write_text("".join(kept))
    earlier = replace(CAMPAIGN, quiet_s=0.0, large_share=0.0)
    assert RunFolder(path).read_campaign() == earlier


def test_a_run_of_an_earlier_version_may_have_a_latency_that_a_new_one_may_not(
    tmp_path: Path,
) -> None:
    campaign = replace(CAMPAIGN, latency_ms=(300.0, 300.0))
    assert RunFolder.create(tmp_path, campaign, "now").read_campaign() == campaign
    with pytest.raises(CampaignError, match=r"latency_ms is .*; allowed: above 0, up to 70"):
        draw_campaign(1, {"latency_ms": (1.0, 70.1)})
    assert draw_campaign(1, {"latency_ms": (1.0, 70.0)}).latency_ms == (1.0, 70.0)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.3, 0.5, 0.7])
def test_half_a_campaign_is_refused(share: float, tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, CAMPAIGN, "now")
    path = folder.path / "campaign.toml"
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * share)])
    with pytest.raises(RunFolderError, match=r"campaign\.toml") as caught:
        folder.read_campaign()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "not valid JSON"),
        (b'{"digest": "a", "fac', "not valid JSON"),
        (b"[]", "lacks digest"),
        (b'{"digest": "a", "verdict": {}}', "lacks digest, facts or verdict"),
    ],
)
def test_a_damaged_verdict_is_refused(data: bytes, words: str, tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, CAMPAIGN, "now")
    (folder.path / "verdict.json").write_bytes(data)
    with pytest.raises(RunFolderError, match=words) as caught:
        folder.read_verdict()
    assert "\n" not in str(caught.value)


def test_a_run_without_a_verdict_did_not_finish(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, CAMPAIGN, "now")
    with pytest.raises(RunFolderError, match="did not finish"):
        folder.read_verdict()


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RunFolderError, match="file/below"):
        RunFolder.create(tmp_path / "file" / "below", CAMPAIGN, "now")


def test_a_file_that_cannot_be_written_is_named_and_the_run_is_not_finished() -> None:
    full = RecordFile(Path("/dev/full"))
    full.write(b"line")
    for attempt in (full.flush, full.close):
        with pytest.raises(RunFolderError, match=r"/dev/full cannot be written.*not finished"):
            attempt()


def test_a_folder_without_its_campaign_does_not_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_space(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", no_space)
    with pytest.raises(RunFolderError, match="No space left"):
        RunFolder.create(tmp_path, CAMPAIGN, "now")
    assert list(tmp_path.iterdir()) == []
