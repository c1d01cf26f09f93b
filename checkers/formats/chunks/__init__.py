"""Judges a history in files of any size: whole queues at a time, or long queues in chunks."""
