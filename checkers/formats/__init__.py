"""Histories in other forms: Parquet columns, long queues in chunks, Jepsen's EDN."""
