"""Finds where the log ends when a store is opened, and makes queues agree with it."""
