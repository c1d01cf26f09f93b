"""Counters and times of what a broker does."""
