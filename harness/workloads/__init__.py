"""Workloads: a question about a queue, the ops that put it, and the checkers that answer it."""
