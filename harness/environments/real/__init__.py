"""Environments of real processes, and their fault controls on Linux."""
