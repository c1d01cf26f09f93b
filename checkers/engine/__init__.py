"""Runs rules over a history: kernels, whole queues at a time, a screening pass before the exact one."""
