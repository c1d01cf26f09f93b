"""`staticfire hunt`."""
