"""Sharing queues out among the members of a group, and locks on queues."""
