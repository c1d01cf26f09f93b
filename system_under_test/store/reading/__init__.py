"""Reads messages of a queue, looks at queues, finds offsets by time."""
