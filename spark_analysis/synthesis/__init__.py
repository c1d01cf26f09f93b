"""Makes histories of any size with planted anomalies and their truth."""
