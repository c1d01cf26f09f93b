"""Options of long-running commands on several cores: `--jobs` and `--budget`."""

from __future__ import annotations

from staticfire.harness.cli.status import BadInput

JOBS_MAX = 256
BUDGET_MAX_S = 1e6


def check_jobs(jobs: int) -> None:
    """Raises BadInput."""
    if not 1 <= jobs <= JOBS_MAX:
        raise BadInput(f"--jobs is {jobs}; allowed: 1 to {JOBS_MAX}")


def check_budget(seconds: float) -> None:
    """Raises BadInput, for NaN too."""
    if not 0 < seconds <= BUDGET_MAX_S:
        raise BadInput(
            f"--budget is {seconds:g}; allowed: more than 0 and up to {BUDGET_MAX_S:.0f} seconds"
        )
