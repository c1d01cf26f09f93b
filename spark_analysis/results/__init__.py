"""Results over runs: verdicts, latency, comparisons, plots, counters of a running campaign."""
