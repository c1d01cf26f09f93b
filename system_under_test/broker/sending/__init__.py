"""Handles sends, and the broker's own copies of messages, up to the acknowledgement."""
