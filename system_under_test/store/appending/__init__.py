"""Appends messages and raw bytes to the log, and dispatches durable records to queues and index."""
