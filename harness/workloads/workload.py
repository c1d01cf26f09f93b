"""What a workload is: a question about a queue, and the ops that put it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from harness.campaign import Campaign
from harness.interpreter import Generator


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """`generator` makes the source of the producers' ops for one campaign; it draws from the Random it is given."""

    name: str
    summary: str  # one line, for `staticfire workloads`
    generator: Callable[[Random, Campaign], Generator]
