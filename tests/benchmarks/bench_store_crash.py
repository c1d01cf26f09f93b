"""Prints how many storage crash cycles one CPU second takes: `python tests/benchmarks/bench_store_crash.py`."""

from __future__ import annotations

from staticfire.harness.store_crash.cycles import run_cycles

CYCLES = 2_000


def main() -> None:
    summary = run_cycles(0, CYCLES)
    assert not summary.failures, summary.failures[0]
    print(f"{CYCLES / summary.cpu_s:.0f} cycles per CPU second")
    print(f"{summary.crashes / summary.cpu_s:.0f} crashes per CPU second")
    print(f"{summary.counts.puts / summary.cpu_s:.0f} puts per CPU second")


if __name__ == "__main__":
    main()
