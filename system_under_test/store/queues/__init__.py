"""Consume queues: the index of each message queue, and what does not fit into its entries."""
