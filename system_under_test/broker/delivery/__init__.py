"""Delayed messages, retries, transactions, replies."""
