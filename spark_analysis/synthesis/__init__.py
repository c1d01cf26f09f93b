"""Makes synthetic histories of any size with injected anomalies, and the findings to expect."""
