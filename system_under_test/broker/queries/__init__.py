"""Queries messages by key and id, and offsets of queues; hides messages of deleted topics."""
