"""Runs a function over many items: in this process, or as a job of Spark."""
