"""Tracks the connected producers and consumers, and the consumers' locks on queues."""
