"""Queues of requests, and refusals of those that waited too long."""
