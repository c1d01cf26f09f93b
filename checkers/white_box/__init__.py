"""Checkers that need observations inside nodes: statuses, replicas, queue entries, routes, tables and resources."""
