"""Measures of a run: latencies, recovery times, coverage, reportable shares. They give no judgement."""
