"""Consume queues: the entries of each message queue, and extensions for what does not fit into an entry."""
