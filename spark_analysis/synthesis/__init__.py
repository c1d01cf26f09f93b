"""Makes histories of any size with injected anomalies and their truth."""
