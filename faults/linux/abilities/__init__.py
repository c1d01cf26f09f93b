"""Finds out what a machine can do, by trying it."""
