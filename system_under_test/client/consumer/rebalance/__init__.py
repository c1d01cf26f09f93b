"""Divides queues among the members of a group, and locks queues."""
