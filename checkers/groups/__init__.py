"""Checkers of consumer groups: ownership, exclusive consumption, shares, subscriptions, commits and broadcasting."""
