"""`staticfire table`."""
