"""Results over runs: verdicts, latency, comparisons, plots, counters of a campaign in progress."""
