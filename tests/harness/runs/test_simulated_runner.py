"""A node that uses what the seed does not decide is an error of the run, and no verdict."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from staticfire.harness.draws.campaign import draw_campaign
from staticfire.harness.runs.simulated_runner import run_simulated
from staticfire.harness.simulation import Escape, World
from staticfire.harness.systems.errors import RunError


def test_an_escape_is_a_run_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Escape is no Exception, so the command line would end with a traceback and status 1, which means INVALID."""

    def run(_self: World, _main: Callable[[], object]) -> None:
        raise Escape("open was called by broker-a-0: a node gets this from its Env")

    monkeypatch.setattr(World, "run", run)
    with pytest.raises(RunError, match="open was called by broker-a-0"):
        run_simulated(draw_campaign(1, {"time_s": 5.0}))
