"""Checkers of the log: loss, duplication, order, offsets, polls, recovery and queries."""
