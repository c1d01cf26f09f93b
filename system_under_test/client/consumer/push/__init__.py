"""Consumers that call a listener, concurrently or in order."""
