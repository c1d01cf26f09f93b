"""Finds where the log ends after a start, and makes queues agree with it."""
