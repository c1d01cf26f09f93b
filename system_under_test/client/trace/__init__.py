"""Writes and parses records of message trace."""
