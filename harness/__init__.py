"""Runs campaigns against a message queue: loads it, breaks it, records and judges what happened."""
