"""Reads messages of a queue, inspects queues, finds offsets by time."""
