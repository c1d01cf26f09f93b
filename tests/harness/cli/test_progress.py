"""What a run says of itself where nobody sits at a terminal."""

from __future__ import annotations

from staticfire.harness.cli.progress import LOG_EVERY_S, line_now_and_then
from staticfire.harness.results.run_status import RunStatus


def status(at_s: float, phase: str = "load") -> RunStatus:
    return RunStatus(
        phase=phase,
        at_s=at_s,
        acknowledged=2_091,
        consumed=2_000,
        faults=("kill", "client-crash", "client-crash"),
        nodes={"broker-a": "down", "broker-b": "up"},
    )


def test_a_log_gets_a_line_now_and_then_and_a_short_run_none() -> None:
    lines: list[str] = []
    now_s = 100.0
    update = line_now_and_then(lines.append, 850.0, "s", lambda: now_s)

    for passed_s in range(int(2 * LOG_EVERY_S)):
        now_s = 100.0 + passed_s
        update(status(passed_s))

    assert lines == [
        "    load  30 of 850 s  2091 acknowledged; 2000 consumed; faults kill, 2 client-crash; broker-a down"
    ]
