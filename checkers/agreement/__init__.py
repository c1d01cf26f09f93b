"""Checkers of the evidence itself: look-ups, drains and observations must agree."""
