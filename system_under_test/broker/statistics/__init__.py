"""Counts and times a broker's work."""
