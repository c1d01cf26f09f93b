"""`staticfire analyze`."""
