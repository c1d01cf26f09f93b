"""The search for simpler campaigns: reasons why candidates could not run, and killed processes."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from typing import Any

import pytest

from staticfire.harness.draws.campaign import draw_campaign
from staticfire.harness.results.fingerprint import Fingerprint
from staticfire.harness.shrink import search, trials
from staticfire.harness.shrink.candidates import PASSES
from staticfire.harness.shrink.search import Search, WorkerLost
from staticfire.harness.shrink.trials import Trial

LOST = Fingerprint("loss", "lost")


def searching(answer: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> tuple[Search, Trial]:
    """A search in one process, whose candidates all have this answer."""
    monkeypatch.setattr(search, "PASSES", {"queues": PASSES["queues"]})
    monkeypatch.setattr(trials, "run_trial", answer)
    first = Trial(campaign=draw_campaign(1, {"queues": 3}), digest="", sends=1, fingerprint=LOST)
    until = time.monotonic() + 60
    return Search(LOST, 1, until, lambda _name, _trial: None), first


def refuse(_campaign: Any) -> Trial:
    raise RuntimeError("no such cluster")


def die(_campaign: Any) -> Trial:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def test_candidates_that_cannot_be_run_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    found, first = searching(refuse, monkeypatch)
    assert found.run(first)
    assert found.not_run == {"RuntimeError: no such cluster": 2}


def test_a_process_that_is_killed_ends_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    found, first = searching(die, monkeypatch)
    with pytest.raises(WorkerLost, match="was killed"):
        found.run(first)
