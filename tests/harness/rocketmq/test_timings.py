"""Timings of RocketMQ that the checkers assume."""

from __future__ import annotations

from dataclasses import fields

from staticfire.checkers.guarantees.facts import Timings
from staticfire.harness.rocketmq.timings import DEFAULTS, OPTIONS


def test_facts_that_lack_a_timing_are_of_rocketmq() -> None:
    """Runs that earlier versions recorded hold none of them, and were RocketMQ's."""
    assert Timings() == DEFAULTS


def test_options_name_timings() -> None:
    assert OPTIONS.keys() <= {field.name for field in fields(Timings)}
