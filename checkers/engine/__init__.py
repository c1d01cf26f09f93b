"""Runs kernels over a history, whole queues at a time, with a screening pass before the exact pass."""
