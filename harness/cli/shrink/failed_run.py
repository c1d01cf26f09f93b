"""Reads the folder of a run that failed."""

from __future__ import annotations

from typing import Any

from staticfire.harness.campaign.campaign import Campaign
from staticfire.harness.cli.status import BadInput, turn_errors
from staticfire.harness.run_folder.run_folder import RunFolder, RunFolderError


def failed_run(folder: RunFolder) -> tuple[Campaign, dict[str, Any]]:
    """Return the campaign and the verdict file of an invalid run. Raises BadInput."""
    with turn_errors(RunFolderError, into=BadInput):
        campaign = folder.read_campaign()
        document = folder.read_verdict()
    if (valid := document["verdict"]["valid"]) is not False:
        raise BadInput(
            f"{folder.path} is {'valid' if valid is True else valid}; only an invalid run can be shrunk or "
            f"resimulated, and `staticfire hunt --until-found` looks for one"
        )
    return campaign, document
