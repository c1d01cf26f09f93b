"""`staticfire farm`."""
