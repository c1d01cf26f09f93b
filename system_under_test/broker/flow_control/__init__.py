"""Queues requests, and refuses those that have waited too long."""
