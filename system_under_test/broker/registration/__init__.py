"""Registers the broker with the name servers."""
