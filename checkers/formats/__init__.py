"""Formats of histories: Parquet columns, long queues in chunks, and Jepsen's EDN."""
