"""Declarations of the anomalies: what each is, which promise it breaks, and what it means under which profile."""
